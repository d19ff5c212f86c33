/*
 * runs.h - what the blocks of a buffer hold, as runs of blocks that a formula
 * gives: for checks at a scale where the data itself does not fit.
 *
 * A block's value is the term of one rank, or a combination of ranks' terms, for
 * one block number. A run's elements are of ranks, and of block numbers, that
 * ascend by constant strides. So the P blocks of an AllGather's result are one
 * run, and what a rank of Bruck's has at any time is one or two. Blocks that
 * hold nothing known are garbage and stand in no run.
 *
 * A list of runs is sorted, without overlap, and neighbours that make one run
 * are one. Its owner is who holds it; runs_fini frees it. Finding is a binary
 * search; writing moves what is behind.
 */
#ifndef SIM_RUNS_H
#define SIM_RUNS_H

#include "coll/table.h"

#define RUN_COMBINED (-1)
#define RUN_GARBAGE (-2)

struct run {
	uint32_t at, n;
	int32_t block, step;  /* element t is of block number block + t * step */
	int32_t rank, stride; /* the term of rank + t * stride; or one of RUN_, stride 0 */
	int64_t sum;          /* combined: of the ranks' terms, the same in each element */
};

struct runs {
	struct run *run;
	uint32_t n, cap;
};

void runs_fini(struct runs *runs);
/* Blocks run.at and on hold the run's values now. False: no memory. */
bool runs_write(struct runs *runs, struct run run);
/* Appends what blocks j to j + n - 1 hold, garbage too, to list, as its blocks 0 and on. Blocks are
 * modulo count. */
bool runs_read(const struct runs *runs, uint32_t count, uint32_t j, uint32_t n, struct runs *list);
/* Blocks i and on hold what list has from its block 0 on. Blocks are modulo count. */
bool runs_copy(struct runs *runs, uint32_t count, uint32_t i, const struct runs *list);

/* How terms combine: contract_combine's arguments. */
struct run_op {
	enum coll_op op;
	bool unordered;
};

/* list = a op b, element by element: both list blocks 0 to n - 1. What belongs to different block
 * numbers, or is garbage, makes garbage. */
bool runs_combine(struct run_op op, const struct runs *a, const struct runs *b, struct runs *list);
/* The block 0 of list = all n elements of a, in order. */
bool runs_fold(struct run_op op, const struct runs *a, struct runs *list);
/* Whether blocks want.at to want.at + want.n - 1 hold the values of want; *at: the first that does
 * not, *is: what it holds. */
bool runs_hold(const struct runs *runs, struct run want, uint32_t *at, struct run *is);
/* "block 3 of rank 7", "block 0 of several ranks (0123...)", "garbage". */
void run_name(const struct run *run, char *text, size_t cap);

#endif
