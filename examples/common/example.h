/*
 * example.h - what the examples share: the command line, the clock, who has which
 * part of the work, and the one way in which an example gives up.
 *
 * The longer examples are one rank a process and keep it in "example":
 * example_options, example_begin, CHECK around every call of the library,
 * example_end. An error ends the process and aborts the world, so that no other
 * rank waits for this one.
 */
#ifndef EXAMPLES_COMMON_EXAMPLE_H
#define EXAMPLES_COMMON_EXAMPLE_H

#include "oriel.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* An error that has been printed where it was found; beside Oriel's own codes. */
#define EXAMPLE_SAID (-1000)

static inline double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A whole decimal number in [min, max]; 0 on success, -1 otherwise. */
static inline int
parse_count(const char *text, size_t min, size_t max, size_t *value)
{
	char *end;
	unsigned long long v;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return -1;
	*value = (size_t)v;
	return 0;
}

/*
 * Says what failed on which rank, and aborts the world so that no other rank
 * waits for this one. Returns 1, main's result.
 */
static inline int
give_up(oriel_ctx *ctx, const char *program, int err)
{
	oriel_comm *world = oriel_world(ctx);

	if (!world) {
		fprintf(stderr, "%s: %s: %s\n", program, oriel_strerror(err), oriel_detail());
		return 1;
	}
	/* EABORTED only repeats what the rank that aborted has said. */
	if (err != ORIEL_EABORTED && err != EXAMPLE_SAID)
		fprintf(stderr, "%s: rank %d: %s: %s\n", program, oriel_comm_rank(world),
		        oriel_strerror(err), oriel_detail());
	oriel_comm_abort(world);
	return 1;
}

/* This process as a rank; set by example_begin. */
struct example {
	const char *name;
	oriel_ctx *ctx;
	oriel_comm *world;
	int rank, size;
};
extern struct example example;

struct example_option {
	const char *name; /* "--steps N": with a value; "--verbose": without */
	const char *help;
	size_t *count, max; /* one of count, from 1 to max, text and flag is where it goes */
	const char **text;
	bool *flag;
};

/* Reads the command line; --help and a wrong one end the process. */
void example_options(const char *name, const char *what, int argc, char **argv,
                     const struct example_option *options, size_t n);
/* Makes this process a rank of the world. */
void example_begin(void);
/* Ends the context. The result is main's: 1 if the program's answer was wrong. */
int example_end(bool good);
/* True if it is on all ranks; collective. */
bool example_all(bool good);

/* Ends the process with status 1 and a line that says why. */
_Noreturn void example_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void example_check(int err, const char *call, const char *file, int line);
/* A call of the library that must not fail. */
#define CHECK(call) example_check((call), #call, __FILE__, __LINE__)

/* n zeroed elements; never NULL. Freed with free. */
void *example_alloc(size_t n, size_t size);

/* Work of n items is cut into stretches, one a rank: the first item of rank; n for rank == size. */
static inline size_t
example_first(size_t n, int rank)
{
	size_t even = n / (size_t)example.size, more = n % (size_t)example.size, r = (size_t)rank;

	return r * even + (r < more ? r : more);
}

/* The larger difference; a NaN is larger than all, where fmax would drop it. */
static inline double
example_worse(double worst, double now)
{
	return isnan(worst) || now <= worst ? worst : now;
}

/* A number in [0, 1) that only depends on i and j. */
static inline double
example_random(uint64_t i, uint64_t j)
{
	uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u + (j + 1) * 0xc2b2ae3d27d4eb4fu;

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
	return (double)((h ^ (h >> 31)) >> 11) * 0x1p-53;
}

#endif
