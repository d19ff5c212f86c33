/*
 * example.h - what the examples share: numbers on the command line, the clock,
 * and the one way in which an example gives up.
 */
#ifndef EXAMPLES_COMMON_EXAMPLE_H
#define EXAMPLES_COMMON_EXAMPLE_H

#include "oriel.h"

#include <errno.h>
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

#endif
