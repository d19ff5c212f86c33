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
#include "plan/layout.h"
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
	OP_REDUCE, /* dst = src op src2 */
	OP_FOLD,   /* one block: dst = src[j] op src[j+1] op ... */
	OP_CALL,
	OP_FLUSH,
	OP_KINDS
};

/* status = call_fn(arg, i, n): arg is the launch's, i and n are the op's. */
typedef int plan_call_fn(void *arg, int i, int n);

struct op {
	uint8_t kind;
	uint8_t dst, src, src2; /* enum plan_buf */
	bool last : 1;          /* put: closes its batch */
	uint32_t appended : 31; /* how many ops, of all queues, the program appended before it */
	union {
		uint32_t edge; /* put, signal, wait: in plan->edges */
		uint32_t k;    /* reduce: first block of src2 */
	};
	uint32_t n;    /* blocks; wait: the batch's ordinal on its edge, from 1; fold: terms */
	uint32_t i, j; /* first block of dst and src; call: its i */
	plan_call_fn *fn;
};

struct edge { /* a channel that this rank's part uses: (peer, the sender's queue) */
	int rank;
	uint32_t queue;
	uint32_t sends;              /* messages, if none needs splitting */
	uint32_t waits[MBOX_QUEUES]; /* batches that each of my queues waits for */
	uint32_t expect;             /* the most of them: what comes in one call */
};

/* What all ranks' parts of a plan have in common, besides the program. */
struct shape {
	int size;
	int node; /* every so many consecutive ranks are a node, size is a multiple; 0: not so */
	int root; /* of a rooted collective, else 0 */
	int arg;  /* what the table says, e.g. a radix */
};

/* How many blocks a buffer has. */
typedef uint32_t plan_blocks_fn(const struct shape *shape);
plan_blocks_fn blocks_one, blocks_two, blocks_ranks, blocks_log2;

struct queue;

struct program {
	const char *name; /* "allgather/bruck" */
	/* q: n_queues of them. arg: shape's. */
	void (*build)(struct queue *q, int arg);
	unsigned n_queues;
	struct program_buf {
		plan_blocks_fn *blocks; /* NULL: none */
		bool cyclic;
	} buf[MBOX_BUFS];
};

struct plan {
	const struct program *program;
	struct shape shape;
	int rank;
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
	int rank, size, node, root; /* of the shape */
	unsigned number;
	struct plan *plan;
};

/* Runs the program for one rank. *out is freed with plan_free. */
int plan_build(const struct program *program, const struct shape *shape, int rank,
               struct plan **out);
void plan_free(struct plan *plan);
size_t plan_bytes(const struct plan *plan);
/* One line an op, for people. */
void plan_dump(const struct plan *plan, void (*line)(void *arg, const char *text), void *arg);
/* One op of plan in the same words. */
void plan_op_text(const struct plan *plan, const struct op *op, char *text, size_t cap);
/* What the verbs append. */
void plan_put(struct queue *q, int peer, enum plan_buf dst, int i, enum plan_buf src, int j, int n);
void plan_signal(struct queue *q, int peer);
void plan_wait(struct queue *q, int peer, int ch);
void plan_copy(struct queue *q, enum plan_buf dst, int i, enum plan_buf src, int j, int n);
void plan_reduce(struct queue *q, enum plan_buf dst, int i, enum plan_buf a, int j, enum plan_buf b,
                 int k, int n);
void plan_fold(struct queue *q, enum plan_buf dst, int i, enum plan_buf src, int j, int n);
void plan_call(struct queue *q, plan_call_fn *fn, int i, int n);
void plan_flush(struct queue *q);

struct reducer; /* coll/reduce.h */

/*
 * What a launch binds to a plan. Usual calls have their blocks one behind the
 * other, at i * block; bytes cuts the last of them off. Others say where blocks
 * are in ragged; block is then the size of the largest, and of TMP's.
 */
struct binding {
	uint64_t id; /* of one that never changes: no other of the communicator ever has it; or 0 */
	void *buf[MBOX_BUFS];         /* IN and OUT; TMP is the library's */
	size_t block;                 /* bytes */
	size_t bytes;                 /* of IN and OUT; SIZE_MAX: of all their blocks */
	const struct ragged *ragged;  /* NULL: as above */
	const struct reducer *reduce; /* for reduce and fold */
	void *arg;                    /* of call */
	uint32_t salt; /* type, op: what else must be equal on all ranks, mixed into the hash */
	bool finish;   /* reduce->finish on OUT at the end */
	bool own;      /* before the program: OUT's block own_out = IN's block own_in */
	uint32_t own_in, own_out;
};

struct ragged {
	struct layout in, out;
	size_t extent; /* of out: bytes from its base to the end of the last block */
};

/* The parts that a vector is cut into. */
static inline uint32_t
plan_parts(const struct plan *plan)
{
	return plan->count[OUT] > plan->count[IN] ? plan->count[OUT] : plan->count[IN];
}

/* Bytes of each part but the last ones, a multiple of align. */
static inline size_t
vector_block(size_t bytes, uint32_t parts, size_t align)
{
	size_t even = parts > 1 && bytes ? (bytes - 1) / parts + 1 : bytes;

	return parts > 1 ? (even + align - 1) / align * align : even;
}

struct oriel_comm;
/*
 * Runs the program on comm, blocking: every rank of comm, between
 * comm_call_begin and comm_call_end. On success the results are complete here and the buffers are
 * the caller's. On an error the communicator's failure word is set.
 */
int plan_run(struct oriel_comm *comm, const struct program *program, const struct shape *shape,
             const struct binding *binding);

#endif
