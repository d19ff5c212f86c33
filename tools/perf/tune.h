/*
 * tune.h - oriel_perf --tune: measures every algorithm of every collective on
 * this job and writes the rules of doc/tuning.md for exactly such jobs.
 *
 * To add a collective: its function and a row in tune_ops (oriel_perf_tune.c).
 */
#ifndef TOOLS_PERF_TUNE_H
#define TOOLS_PERF_TUNE_H

#include "tools/perf/perf.h"

#define TUNE_WAYS_MAX 96 /* algorithms of a collective, with arguments and chunks */

/* One way to run a collective: a context in which ORIEL_ALGORITHM forces it. */
struct tune_way {
	char name[32]; /* "bruck:4" */
	size_t chunk;  /* 0: none */
	double us[PERF_SIZES_MAX]; /* median of a call, of the slowest rank; 0: not measured */
};

struct tune {
	const struct perf_options *opt;
	FILE *file; /* rank 0's */
	oriel_ctx *ctx;
	oriel_comm *world;
	int me, n_ranks;
	int node; /* so many ranks a node, as selection sees it; 0: not alike */
	char *in, *out;
	double *votes; /* n_ranks */
	/* Of the collective that is measured: */
	struct tune_way way[TUNE_WAYS_MAX];
	size_t n_ways;
	size_t sizes[PERF_SIZES_MAX];
	size_t n_sizes;
	size_t n_rules;
};

struct tune_op {
	const char *name;
	const char *what; /* what a rule's bytes are; NULL: it has no size */
	size_t least;     /* bytes: of an element */
	bool blocks;      /* a buffer holds a block of each rank */
	bool chunks;      /* worth trying: what is cut overlaps with itself */
	int (*run)(struct tune *t, size_t bytes); /* one call */
};

/* Collective. 0; 1, 2 (bad options) or an Oriel error: p->me is then this rank, p->world what must be aborted.
 * Rank 0 writes p->opt.tune. */
int tune_run(struct perf *p);

/* oriel_perf_tune_write.c: comments and rules of one collective; what comes before all. */
void tune_write_head(struct tune *t);
void tune_write(struct tune *t, const struct tune_op *op);

#endif
