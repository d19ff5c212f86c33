/*
 * table.h - the algorithms: one row each, with contract, argument and cost.
 *
 * Tests, the checker and selection walk it; a new row needs no new test.
 */
#ifndef COLL_TABLE_H
#define COLL_TABLE_H

#include "plan/plan.h"

enum coll_op { COLL_BARRIER = 0, COLL_ALLGATHER, COLL_AGREE, COLL_OPS };

/* What an op starts from and ends with: filled and checked by sim/check.c. */
extern const char *const coll_op_name[COLL_OPS];

struct coll_row {
	struct program program; /* its name is "<op>/<algorithm>" */
	enum coll_op op;
	const char *arg; /* what the argument means, with its range; NULL: it is 0 */
	int (*min_arg)(int size);
	int (*max_arg)(int size); /* NULL: no argument */
	/* Closed forms, for the whole call: steps on the longest path, blocks out of each rank. */
	int (*rounds)(int size, int arg);
	int (*blocks)(int size, int arg);
};

/* Rows that are used by name. */
enum { COLL_ROW_BARRIER = 0, COLL_ROW_ALLGATHER_BRUCK, COLL_ROW_ALLGATHER_RING, COLL_ROW_AGREE };

extern const struct coll_row coll_table[];
extern const size_t coll_rows;

/* "bruck:4", "ring": the row of op and its argument (the least if none is given), checked for size
 * ranks. EINVAL says what is wrong. */
int coll_find(enum coll_op op, const char *text, int size, const struct coll_row **row, int *arg);
/* The row's argument n, forced into its range for size ranks. */
int coll_clip(const struct coll_row *row, int size, int arg);

/* The programs. */
void barrier_dissemination(struct queue *q, int arg);
void allgather_ring(struct queue *q, int arg);
void allgather_bruck(struct queue *q, int radix);
void agree_dissemination(struct queue *q, int arg);

#endif
