/*
 * perf.h - what all parts of oriel_perf share: the options, one rank's buffers,
 * a test's row in the table, and a result.
 *
 * Rank 0 is the origin of point-to-point tests, rank 1 the target; with a
 * single rank it is both. The others only take part in collectives.
 *
 * A rank's part of the window:
 * OFFSET             SIZE   MEANING
 * PERF_TIMED            8   counter of the timed fetch_adds
 * PERF_CHECKED          8   rank 0's: counter of the checks' fetch_adds
 * PERF_DATA - GUARD    64   guard: nobody may write it
 * PERF_DATA           cap   data
 * PERF_DATA + n        64   guard, after the n bytes of a check
 */
#ifndef TOOLS_PERF_PERF_H
#define TOOLS_PERF_PERF_H

#include "oriel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PERF_GUARD 64
#define PERF_TIMED 0
#define PERF_CHECKED 8
#define PERF_DATA 128
#define PERF_BATCH 32 /* moves in flight in the bandwidth tests */
#define PERF_REPEATS_MAX 15
#define PERF_SIZES_MAX 64

/* An error that has been printed where it was found; beside Oriel's own codes. */
#define PERF_SAID (-1000)

/* Signal slots. */
enum { PERF_PING, PERF_ACK, PERF_COUNT, PERF_SLOTS };

struct perf_options {
	const char *tests; /* comma-separated, or NULL for all */
	const char *json;
	const char *tune; /* the file of rules to write, instead of any test */
	size_t min, max;
	size_t iters; /* 0: as many as fit in repeat_s */
	size_t repeats;
	double repeat_s;
	bool user_memory, check, brief, help;
};

struct perf {
	struct perf_options opt;
	oriel_ctx *ctx;
	oriel_comm *world;
	oriel_win *win;
	int me, n_ranks;
	int peer;                  /* whom origin and target talk to */
	bool origin, target;       /* both with a single rank */
	char *base;                /* this rank's part of the window */
	char *src, *dst;           /* opt.max bytes between guards */
	uint64_t *votes;           /* n_ranks words */
	uint64_t ping, ack, count; /* the values that the signals have reached */
	uint64_t checked;          /* rank 0's PERF_CHECKED counter */
	uint64_t seed;             /* of the last check */
};

enum perf_unit { PERF_US, PERF_GB, PERF_MOPS };

struct perf_test {
	const char *name, *what;
	enum perf_unit unit;
	size_t max;      /* larger sizes say nothing; 0: the test has no size, SIZE_MAX: no bound */
	bool round_trip; /* an operation is half of what run does; not with a single rank */
	bool collective; /* all ranks, and n_ranks x size fits in --max */
	bool brief;      /* part of --short */
	/* iters operations of bytes, on every rank that takes part. 0 or an Oriel error. */
	int (*run)(struct perf *p, size_t bytes, size_t iters);
	/* Verifies one operation; *bad: this rank has seen a difference, and has said so. */
	int (*check)(struct perf *p, const struct perf_test *t, size_t bytes, bool *bad);
};

struct perf_result {
	const struct perf_test *test;
	size_t bytes, iters;
	double median_s, best_s; /* of one operation */
};

static inline double
perf_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Is name one of the comma-separated words of list? */
static inline bool
perf_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

/* Every rank gets rank 0's value. */
static inline int
perf_share(struct perf *p, uint64_t *value)
{
	int err = oriel_allgather(p->world, value, p->votes, sizeof(*value));

	if (!err)
		*value = p->votes[0];
	return err;
}

/* *any: some rank's value is not 0. */
static inline int
perf_any(struct perf *p, bool mine, bool *any)
{
	uint64_t v = mine;
	int err = oriel_allgather(p->world, &v, p->votes, sizeof(v));

	*any = false;
	for (int r = 0; r < p->n_ranks && !err; r++)
		*any |= p->votes[r] != 0;
	return err;
}

#endif
