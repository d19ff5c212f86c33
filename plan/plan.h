/*
 * plan.h - programs, the plans that they build, and launches.
 *
 * A program is a function that appends ops to in-order queues (plan/verbs.h has
 * the verbs). What it built is a plan: this rank's part, immutable, without any
 * address or size. A plan is cached with its communicator; launch binds buffers
 * and a block size to it and runs it.
 *
 * Ranks are taken modulo the number of ranks. Blocks are taken modulo the
 * buffer's declared count if the buffer is declared cyclic; in another buffer a
 * block outside is an error of the plan.
 *
 * Ops return nothing: a plan keeps its first error, and plan_build returns it.
 *
 * Threads: one call at a time for each communicator (EBUSY), so a plan has one
 * user at a time; building touches nothing but the plan.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/base.h"
#include "plan/wire.h"

#define PLAN_MAX_OPS (1u << 20)     /* of one queue */
#define PLAN_CACHE_BYTES (4u << 20) /* of one communicator; the last plan stays even if larger */

enum plan_buf { IN = 0, OUT, TMP };
_Static_assert(TMP + 1 == MBOX_BUFS, "a ready line describes all buffers");

enum op_kind {
	OP_PUT = 0, /* n blocks to the peer, and the batch's end if last */
	OP_SIGNAL,  /* a batch's end alone */
	OP_WAIT,    /* until batch number n of the edge is here */
	OP_COPY,
	OP_REDUCE,
	OP_CALL,
	OP_FLUSH,
	OP_KINDS
};

/* status = call_fn(arg, i, n): arg is the launch's, i and n are the op's. */
typedef int plan_call_fn(void *arg, int i, int n);
/* dst = dst op src, over len bytes. */
typedef void plan_reduce_fn(void *dst, const void *src, size_t len);

struct op {
	uint8_t kind;
	uint8_t dst, src; /* enum plan_buf */
	bool last;        /* put: closes its batch */
	uint32_t edge;    /* in plan->edges */
	uint32_t n;       /* blocks; wait: the batch's ordinal on its edge, from 1 */
	uint32_t i, j;    /* first block of dst and src; call: its i */
	plan_call_fn *fn;
};

struct edge { /* a channel that this rank's part uses: (peer, the sender's queue) */
	int rank;
	uint32_t queue;
	uint32_t sends;              /* messages, if none needs splitting */
	uint32_t waits[MBOX_QUEUES]; /* batches that each of my queues waits for */
	uint32_t expect;             /* the most of them: what comes in one call */
};

enum plan_blocks { BLOCKS_NONE = 0, BLOCKS_ONE, BLOCKS_RANKS, BLOCKS_LOG2 };

struct queue;

struct program {
	const char *name; /* "allgather/bruck" */
	/* q: n_queues of them. arg: what the table says, e.g. a radix. */
	void (*build)(struct queue *q, int arg);
	unsigned n_queues;
	struct program_buf {
		enum plan_blocks blocks; /* one, one for each rank, or ceil(log2 ranks) */
		bool cyclic;
	} buf[MBOX_BUFS];
};

struct plan {
	const struct program *program;
	int arg, rank, size;
	uint64_t hash; /* of what all ranks have in common */
	uint32_t count[MBOX_BUFS];
	struct plan_queue {
		struct op *ops;
		uint32_t n, cap;
	} queue[MBOX_QUEUES];
	struct edge *edges;
	uint32_t n_edges, cap_edges;
	uint32_t *index; /* open-addressed: edge + 1 by (rank, queue); while building only */
	uint32_t n_index;
	int error;
	char why[160];
};

struct queue {
	int rank, size;
	unsigned number;
	struct plan *plan;
};

/* Runs the program for one rank. *out is freed with plan_free. */
int plan_build(const struct program *program, int arg, int rank, int size, struct plan **out);
void plan_free(struct plan *plan);
size_t plan_bytes(const struct plan *plan);
/* One line an op, for people. */
void plan_dump(const struct plan *plan, void (*line)(void *arg, const char *text), void *arg);
/* How many blocks a buffer declared so has. */
uint32_t plan_count(enum plan_blocks blocks, int size);

/* What the verbs append. */
void plan_put(struct queue *q, int peer, enum plan_buf dst, int i, enum plan_buf src, int j, int n);
void plan_signal(struct queue *q, int peer);
void plan_wait(struct queue *q, int peer, int ch);
void plan_local(struct queue *q, enum op_kind kind, enum plan_buf dst, int i, enum plan_buf src,
                int j, int n);
void plan_call(struct queue *q, plan_call_fn *fn, int i, int n);
void plan_flush(struct queue *q);

/* What a launch binds to a plan. */
struct binding {
	void *buf[MBOX_BUFS];
	size_t block; /* bytes */
	plan_reduce_fn *reduce;
	void *arg; /* of call */
};

struct oriel_comm;
/*
 * Runs the program on comm, blocking: every rank of comm, between
 * comm_call_begin and comm_call_end. On success the results are complete here and the buffers are
 * the caller's. On an error the communicator's failure word is set.
 */
int plan_run(struct oriel_comm *comm, const struct program *program, int arg,
             const struct binding *binding);

#endif
