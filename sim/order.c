/*
 * order.c - runs the ops of several calls with no times in them: an op runs as
 * soon as what it may wait for is through.
 *
 * What an op may wait for, at the worst of all transports:
 * - the ops before it in its queue or, merged, in its rank;
 * - a wait: the op that closes the batch, in its own call;
 * - a put or a signal: that the peer has begun the call. Large puts need its
 *   "ready"; small ones go into slots, but may lack credit until it has. A flush
 *   waits for the puts before it, and so for nothing more.
 * - the first op of call e: that its own rank has ended call e - window.
 *
 * Credit within a call is not modelled: a channel holds MBOX_SLOTS messages, and
 * a sender without credit waits until the receiver has taken some in. The
 * receiver does that whenever it waits for anything, credit included, for all
 * its peers (plan/exec.c), and it never waits with a line of its call untaken: so
 * where all ranks stand still, no mailbox is full, and each of them stands at a
 * wait whose batch has not been sent, which is the deadlock that is found here.
 *
 * Running what can run finds a deadlock whatever the order of the choices: what
 * could run once can still run later.
 */
#include "sim/order.h"

#include <stdlib.h>

struct walk {
	struct graph *g;
	bool merged;
	unsigned calls, window;
	uint32_t *done; /* ops; by call and lane */
	uint32_t *left; /* ops; by call and rank */
	uint32_t n_order;
};

static uint32_t *
done_in(const struct walk *w, unsigned call, uint32_t lane)
{
	return &w->done[call * w->g->n_lanes + lane];
}

static uint32_t *
left_in(const struct walk *w, unsigned call, int rank)
{
	return &w->left[call * (unsigned)w->g->size + (unsigned)rank];
}

static bool
has_begun(const struct walk *w, unsigned call, int rank)
{
	return call < w->window || *left_in(w, call - w->window, rank) == 0;
}

/* The op that a wait waits for; NEVER: none. */
static uint32_t
awaited(const struct graph *g, uint32_t op)
{
	const struct op *o = g->op[op];

	if (o->kind != OP_WAIT || o->n == 0)
		return NEVER;
	return g->batch[graph_channel(g, op)->first + o->n - 1].closer;
}

static bool
can_run(const struct walk *w, unsigned call, uint32_t op)
{
	const struct graph *g = w->g;
	const struct op *o = g->op[op];
	uint32_t closer;

	if (o->kind == OP_PUT || o->kind == OP_SIGNAL)
		return has_begun(w, call, g->plan[graph_rank(g, op)]->edges[o->edge].rank);
	closer = awaited(g, op);
	return closer == NEVER || *done_in(w, call, g->lane[closer]) > graph_position(g, closer);
}

/* The next op of a lane; NEVER at its end. */
static uint32_t
next_of_lane(const struct walk *w, unsigned call, uint32_t lane)
{
	uint32_t op = w->g->first[lane] + *done_in(w, call, lane);

	return op < w->g->first[lane + 1] ? op : NEVER;
}

/* The op at which queue of rank stands; merged: at which the rank does. */
static uint32_t
stands_at(const struct walk *w, unsigned call, int rank, unsigned queue)
{
	uint32_t best = NEVER;

	if (!w->merged)
		return next_of_lane(w, call, graph_lane(w->g, rank, queue));
	for (unsigned k = 0; k < w->g->n_queues; k++) {
		uint32_t op = next_of_lane(w, call, graph_lane(w->g, rank, k));

		if (op != NEVER &&
		    (best == NEVER || w->g->op[op]->appended < w->g->op[best]->appended))
			best = op;
	}
	return best;
}

/* As far as the queue gets; merged: the rank. */
static bool
run_queue(struct walk *w, unsigned call, int rank, unsigned queue)
{
	bool moved = false;

	for (;;) {
		uint32_t op = stands_at(w, call, rank, queue);

		if (op == NEVER || !can_run(w, call, op))
			return moved;
		if (call == 0)
			w->g->order[w->n_order++] = op;
		++*done_in(w, call, w->g->lane[op]);
		--*left_in(w, call, rank);
		moved = true;
	}
}

static bool
run_all(struct walk *w)
{
	bool moved = false;

	for (unsigned call = 0; call < w->calls; call++)
		for (int r = 0; r < w->g->size; r++)
			for (unsigned k = 0; k < (w->merged ? 1 : w->g->n_queues); k++)
				if (*left_in(w, call, r) && has_begun(w, call, r))
					moved |= run_queue(w, call, r, k);
	return moved;
}

/* An op of the circle: some standing op, and from there always on to what the awaited one's lane
 * stands at. In the first call that is stuck everybody has begun. */
static uint32_t
find_circle(const struct walk *w, uint32_t *cause)
{
	const struct graph *g = w->g;
	unsigned call = 0;
	uint32_t op = NEVER;

	for (bool stuck = false; !stuck && call < w->calls; call += !stuck)
		for (int r = 0; r < g->size; r++)
			stuck |= *left_in(w, call, r) > 0;
	for (uint32_t lane = 0; op == NEVER && lane < g->n_lanes; lane++)
		op = stands_at(w, call, (int)(lane / g->n_queues), lane % g->n_queues);
	for (uint32_t step = 0; step <= g->n_lanes; step++) {
		*cause = awaited(g, op);
		if (*cause == NEVER)
			return op;
		if (step < g->n_lanes)
			op = stands_at(w, call, graph_rank(g, *cause),
			               g->lane[*cause] % g->n_queues);
	}
	return op;
}

static int
deadlock(const struct walk *w)
{
	char first[120], then[120];
	uint32_t cause, op = find_circle(w, &cause);

	graph_op_text(w->g, op, first, sizeof(first));
	graph_op_text(w->g, cause == NEVER ? op : cause, then, sizeof(then));
	return fail(ORIEL_EMISMATCH, "deadlock%s: %s waits for %s, in a circle",
	            w->merged && w->g->n_queues > 1 ? " if a rank's queues are merged" : "", first,
	            then);
}

static int
walk(struct graph *g, bool merged, unsigned calls, unsigned window)
{
	struct walk w = { .g = g, .merged = merged, .calls = calls, .window = window };
	int rc = 0;

	w.done = calloc((size_t)calls * g->n_lanes, sizeof(*w.done));
	w.left = calloc((size_t)calls * (size_t)g->size, sizeof(*w.left));
	if (!w.done || !w.left) {
		rc = fail(ORIEL_ENOMEM, "no memory for %u calls", calls);
		goto free_walk;
	}
	for (unsigned call = 0; call < calls; call++)
		for (int r = 0; r < g->size; r++)
			*left_in(&w, call, r) =
			        g->first[graph_lane(g, r + 1, 0)] - g->first[graph_lane(g, r, 0)];
	while (run_all(&w))
		;
	for (uint32_t i = 0; !rc && i < calls * (uint32_t)g->size; i++)
		if (w.left[i])
			rc = deadlock(&w);

free_walk:
	free(w.done);
	free(w.left);
	return rc;
}

/* What runs merged also runs unmerged: so the latter is only asked for, and first, with two. */
int
order_find(struct graph *g)
{
	int rc = g->n_queues > 1 ? walk(g, false, 1, 1) : 0;

	if (!rc)
		rc = walk(g, true, 2, 1);
	if (!rc)
		rc = walk(g, true, MBOX_CALLS + 1, MBOX_CALLS);
	return rc;
}
