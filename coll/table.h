/*
 * table.h - the algorithms: one row each, with contract, argument, limits and
 * cost.
 *
 * Tests, the checkers and selection walk it; a new row needs no new test.
 *
 * What the buffers of a program are, P ranks:
 *
 * OP              IN                   OUT
 * barrier         -                    -
 * agree           -                    1 block, in place
 * allgather       -                    P blocks; block r is rank r's before it starts
 * alltoall        P blocks             P blocks; block r is there before it starts
 * bcast           -                    the vector; the root's before it starts
 * gather          1 block, but not     at the root P blocks; its own is there
 *                 at the root
 * scatter         at the root P blocks 1 block; the root's is there
 * reduce          the vector           at the root the vector
 * allreduce       the vector           the vector
 * reduce_scatter  P blocks             1 block
 * scan, exscan    the vector           the vector
 *
 * A program declares its buffers for all ranks, and touches them only where the
 * rank has them by this list. A vector is one block or is cut into as many equal
 * parts as the program says it has blocks; the last parts may be shorter or
 * empty. Blocks are the caller's and may differ in size. TMP is the library's:
 * every block of it has room for the largest block of the call; what moves
 * between TMP and another buffer is as long as the block there. IN of a vector op may be the same
 * memory as OUT, and OUT of reduce_scatter the same as IN's first block: a
 * program must be right in both cases (the checkers try both).
 */
#ifndef COLL_TABLE_H
#define COLL_TABLE_H

#include "plan/plan.h"

enum coll_op {
	COLL_BARRIER = 0,
	COLL_AGREE,
	COLL_ALLGATHER,
	COLL_ALLTOALL,
	COLL_BCAST,
	COLL_GATHER,
	COLL_SCATTER,
	COLL_REDUCE,
	COLL_ALLREDUCE,
	COLL_REDUCE_SCATTER,
	COLL_SCAN,
	COLL_EXSCAN,
	COLL_OPS
};

struct coll_kind {
	const char *name;
	bool rooted;
	bool reduces;
	bool vector; /* IN and OUT are vectors */
};
extern const struct coll_kind coll_kinds[COLL_OPS];

struct coll_row {
	struct program program; /* its name is "<op>/<algorithm>" */
	enum coll_op op;
	bool unordered;  /* combines terms in another order than the ranks': commutative ops only */
	bool whole;      /* every block has the same size: not for the v forms */
	const char *arg; /* what the argument means, with its range; NULL: it is 0 */
	int (*min_arg)(int size);
	int (*max_arg)(int size); /* NULL: no argument */
	/* NULL, or why the program cannot run on such a communicator; NULL function: on all. */
	const char *(*unfit)(const struct shape *shape);
	/*
	 * Closed forms, for the whole call: rounds is the number of messages on the longest path
	 * (of puts that wait for one another), blocks the most that one rank puts, total what all
	 * ranks together put. Blocks of a vector are its parts.
	 */
	int64_t (*rounds)(const struct shape *shape);
	int64_t (*blocks)(const struct shape *shape);
	int64_t (*total)(const struct shape *shape);
};

extern const struct coll_row coll_table[];
extern const size_t coll_rows;

/* The row of that name, "allgather/ring"; NULL: none. */
const struct coll_row *coll_row_named(const char *name);
/* The row's argument n, forced into its range for size ranks. */
int coll_clip(const struct coll_row *row, int size, int arg);

/* The programs. */
void barrier_dissemination(struct queue *q, int arg);
void agree_dissemination(struct queue *q, int arg);
void allgather_bruck(struct queue *q, int radix);
void allgather_direct(struct queue *q, int arg);
void allgather_doubling(struct queue *q, int near);
void allgather_rails(struct queue *q, int width);
void allgather_ring(struct queue *q, int arg);
void alltoall_bruck(struct queue *q, int radix);
void alltoall_direct(struct queue *q, int window);
void alltoall_pairwise(struct queue *q, int arg);
void bcast_binomial(struct queue *q, int arg);
void bcast_chain(struct queue *q, int arg);
void bcast_scatter_allgather(struct queue *q, int arg);
void gather_binomial(struct queue *q, int arg);
void gather_direct(struct queue *q, int arg);
void scatter_binomial(struct queue *q, int arg);
void scatter_direct(struct queue *q, int arg);

/* Those that combine. */
void reduce_direct(struct queue *q, int arg);
void reduce_binomial(struct queue *q, int arg);
void reduce_twoshot(struct queue *q, int arg);
void reduce_halving(struct queue *q, int arg);
void allreduce_oneshot(struct queue *q, int arg);
void allreduce_twoshot(struct queue *q, int arg);
void allreduce_doubling(struct queue *q, int arg);
void allreduce_ring(struct queue *q, int arg);
void allreduce_rabenseifner(struct queue *q, int arg);
void allreduce_halving(struct queue *q, int arg);
void allreduce_rails(struct queue *q, int arg);
void reduce_scatter_direct(struct queue *q, int arg);
void reduce_scatter_ring(struct queue *q, int arg);
void reduce_scatter_halving(struct queue *q, int arg);
void reduce_scatter_rails(struct queue *q, int arg);
void scan_doubling(struct queue *q, int arg);
void scan_chain(struct queue *q, int arg);
void exscan_doubling(struct queue *q, int arg);
void exscan_chain(struct queue *q, int arg);

#endif
