/*
 * graph.h - the happens-before graph of one call: the plans of all ranks, and
 * what orders their ops.
 *
 * A lane is one queue of one rank; ops are numbered lane by lane. What orders
 * ops, and nothing else does:
 * - an op comes after the ops before it in its lane;
 * - a wait for batch n of a channel (sender's rank and queue, receiver) comes
 *   after the ops that close batches 1 to n.
 * A put only begins with its op. Each of its blocks is read, and lands, at a time
 * of its own: both end before any wait for its batch, or for a later one of the
 * channel, does; the reading also before the next flush of its lane.
 *
 * So a vector clock answers every question: for each op, how many ops of each
 * lane are over before it begins. It changes only at waits, so there is one for
 * each wait.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "plan/plan.h"

#define NEVER UINT32_MAX

struct batch {
	uint32_t closer; /* the op that closes it */
	int to;
	uint32_t seen[MBOX_QUEUES]; /* position in to's queue of the first wait for it; NEVER */
};

struct graph {
	struct plan *const *plan; /* by rank; the caller's */
	int size;
	unsigned n_queues;
	uint32_t n_lanes, n_ops, n_batches;
	uint32_t *first; /* by lane: the number of its op 0; and of all ops at the end */
	uint32_t *lane;  /* by op */
	const struct op **op;
	struct channel {
		uint32_t first, n;
	} * channel;          /* its batches; by sender, receiver, sender's queue */
	struct batch *batch;  /* by channel, in order */
	uint32_t *batch_of;   /* by op, if it is a put or a signal */
	uint32_t *freed;      /* by op: position of the next flush of its lane; NEVER */
	uint32_t *order;      /* all ops, so that each comes after what it waits for */
	uint32_t *clock_of;   /* by op: the number of its clock */
	uint32_t *clocks;     /* n_lanes words each */
	uint32_t *last_clock; /* by lane: of its last op */
};

/* What an op does to a block. */
enum access_kind {
	READS,  /* here, while it runs */
	WRITES, /* here, while it runs */
	SENDS,  /* a put reads its source */
	LANDS   /* a put writes its destination, at its peer */
};

struct access {
	uint32_t op;
	enum access_kind kind;
};

/*
 * Joins the plans of all ranks. EMISMATCH if they do not fit: a batch without a
 * wait or a wait without its batch, a put that no signal follows, a deadlock.
 * plan stays with the caller and outlives the graph.
 */
int graph_make(struct graph *g, struct plan *const *plan, int size);
void graph_free(struct graph *g);

/* a is over before op b begins, however the call goes. */
bool graph_over(const struct graph *g, struct access a, uint32_t b);
/* a is over before rank ends its part of the call. */
bool graph_over_at_end(const struct graph *g, struct access a, int rank);
/* rank has begun the call before op b begins, or before rank at ends its part. */
bool graph_begun(const struct graph *g, int rank, uint32_t b);
bool graph_begun_at_end(const struct graph *g, int rank, int at);

/* "rank 3 queue 0 op 5 (put_signal to 4: out[3] = out[3], 1 blocks)" */
void graph_op_text(const struct graph *g, uint32_t op, char *text, size_t cap);

static inline uint32_t
graph_lane(const struct graph *g, int rank, unsigned queue)
{
	return (uint32_t)rank * g->n_queues + queue;
}

static inline int
graph_rank(const struct graph *g, uint32_t op)
{
	return (int)(g->lane[op] / g->n_queues);
}

/* Position of op in its lane. */
static inline uint32_t
graph_position(const struct graph *g, uint32_t op)
{
	return op - g->first[g->lane[op]];
}

/* The channel of a put, a signal or a wait. */
static inline struct channel *
graph_channel(const struct graph *g, uint32_t op)
{
	const struct op *o = g->op[op];
	int rank = graph_rank(g, op);
	const struct edge *e = &g->plan[rank]->edges[o->edge];
	int from = o->kind == OP_WAIT ? e->rank : rank, to = o->kind == OP_WAIT ? rank : e->rank;

	return &g->channel[(uint32_t)(from * g->size + to) * g->n_queues + e->queue];
}

#endif
