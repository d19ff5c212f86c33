#include "sim/graph.h"

#include "sim/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
graph_op_text(const struct graph *g, uint32_t op, char *text, size_t cap)
{
	char words[80];
	int rank = graph_rank(g, op);

	plan_op_text(g->plan[rank], g->op[op], words, sizeof(words));
	snprintf(text, cap, "rank %d queue %u op %u (%s)", rank, g->lane[op] % g->n_queues,
	         graph_position(g, op), words);
}

static bool
sends(const struct op *op)
{
	return op->kind == OP_PUT || op->kind == OP_SIGNAL;
}

/* ---- Channels: batches and who waits for them ---- */

static int
count_batches(struct graph *g)
{
	uint32_t n_channels = (uint32_t)(g->size * g->size) * g->n_queues;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct op *o = g->op[op];
		char text[120];

		if (!sends(o))
			continue;
		if (g->plan[graph_rank(g, op)]->edges[o->edge].queue != g->lane[op] % g->n_queues) {
			graph_op_text(g, op, text, sizeof(text));
			return fail(ORIEL_EMISMATCH, "%s uses another queue's channel", text);
		}
		graph_channel(g, op)->n += o->last;
	}
	for (uint32_t c = 0; c < n_channels; c++) {
		g->channel[c].first = g->n_batches;
		g->n_batches += g->channel[c].n;
		g->channel[c].n = 0;
	}
	return 0;
}

static void
number_batches(struct graph *g)
{
	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct op *o = g->op[op];
		struct channel *c;
		struct batch *b;

		if (!sends(o))
			continue;
		c = graph_channel(g, op);
		g->batch_of[op] = c->first + c->n;
		if (!o->last)
			continue;
		b = &g->batch[c->first + c->n++];
		*b = (struct batch){ .closer = op,
			             .to = g->plan[graph_rank(g, op)]->edges[o->edge].rank };
		for (int k = 0; k < MBOX_QUEUES; k++)
			b->seen[k] = NEVER;
	}
}

static int
find_open_puts(const struct graph *g)
{
	char text[120];

	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct channel *c = sends(g->op[op]) ? graph_channel(g, op) : NULL;

		if (!c || g->batch_of[op] < c->first + c->n)
			continue;
		graph_op_text(g, op, text, sizeof(text));
		return fail(ORIEL_EMISMATCH, "no signal follows %s", text);
	}
	return 0;
}

/* A wait is the first to see the batches up to its own that no wait of its queue saw before. */
static int
match_waits(struct graph *g)
{
	char text[120];

	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct op *o = g->op[op];
		const struct channel *c = o->kind == OP_WAIT ? graph_channel(g, op) : NULL;
		unsigned queue = g->lane[op] % g->n_queues;

		if (!c)
			continue;
		if (o->n > c->n) {
			graph_op_text(g, op, text, sizeof(text));
			return fail(ORIEL_EMISMATCH, "%s: only %u are sent", text, c->n);
		}
		for (uint32_t b = o->n; b > 0; b--) {
			uint32_t *seen = &g->batch[c->first + b - 1].seen[queue];

			if (*seen != NEVER)
				break;
			*seen = graph_position(g, op);
		}
	}
	for (uint32_t b = 0; b < g->n_batches; b++) {
		bool seen = false;

		for (int k = 0; k < MBOX_QUEUES; k++)
			seen |= g->batch[b].seen[k] != NEVER;
		if (seen)
			continue;
		graph_op_text(g, g->batch[b].closer, text, sizeof(text));
		return fail(ORIEL_EMISMATCH, "rank %d never waits for the batch of %s",
		            g->batch[b].to, text);
	}
	return 0;
}

static void
find_flushes(struct graph *g)
{
	for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
		uint32_t next = NEVER;

		for (uint32_t op = g->first[lane + 1]; op-- > g->first[lane];) {
			if (g->op[op]->kind == OP_FLUSH)
				next = graph_position(g, op);
			g->freed[op] = next;
		}
	}
}

/* ---- Clocks ---- */

static uint32_t *
clock_at(const struct graph *g, uint32_t number)
{
	return &g->clocks[(size_t)number * g->n_lanes];
}

/* The clock of lane's ops behind a wait for closer's batch. */
static void
join_clocks(struct graph *g, uint32_t made, uint32_t lane, uint32_t closer)
{
	uint32_t *out = clock_at(g, made);
	const uint32_t *mine = clock_at(g, g->last_clock[lane]);
	const uint32_t *theirs = clock_at(g, g->clock_of[closer]);

	for (uint32_t l = 0; l < g->n_lanes; l++)
		out[l] = mine[l] > theirs[l] ? mine[l] : theirs[l];
	/* The closer's lane has come to the op behind it. */
	if (out[g->lane[closer]] <= graph_position(g, closer))
		out[g->lane[closer]] = graph_position(g, closer) + 1;
}

/* An op's clock counts what is over before the op behind it begins; its own lane's place in it is
 * left out, for positions say the same. */
static int
make_clocks(struct graph *g)
{
	uint32_t waits = 0, made = 0;

	for (uint32_t op = 0; op < g->n_ops; op++)
		waits += g->op[op]->kind == OP_WAIT;
	g->clocks = malloc(((size_t)waits + 1) * g->n_lanes * sizeof(*g->clocks));
	if (!g->clocks)
		return fail(ORIEL_ENOMEM, "no memory for the clocks of %u waits", waits);
	memset(g->clocks, 0, g->n_lanes * sizeof(*g->clocks));
	for (uint32_t i = 0; i < g->n_ops; i++) {
		uint32_t op = g->order[i], lane = g->lane[op];
		const struct op *o = g->op[op];

		if (o->kind == OP_WAIT && o->n) {
			uint32_t last = graph_channel(g, op)->first + o->n - 1;

			join_clocks(g, ++made, lane, g->batch[last].closer);
			g->last_clock[lane] = made;
		}
		g->clock_of[op] = g->last_clock[lane];
	}
	return 0;
}

/* ---- Questions ---- */

/* The op at position of lane is over before b begins. */
static bool
passed(const struct graph *g, uint32_t lane, uint32_t position, uint32_t b)
{
	if (position == NEVER)
		return false;
	if (lane == g->lane[b])
		return position < graph_position(g, b);
	return clock_at(g, g->clock_of[b])[lane] > position;
}

static bool
passed_at_end(const struct graph *g, uint32_t lane, uint32_t position, int rank)
{
	if (position == NEVER)
		return false;
	if (lane / g->n_queues == (uint32_t)rank)
		return true;
	for (unsigned k = 0; k < g->n_queues; k++)
		if (clock_at(g, g->last_clock[graph_lane(g, rank, k)])[lane] > position)
			return true;
	return false;
}

bool
graph_over(const struct graph *g, struct access a, uint32_t b)
{
	const struct batch *batch;

	if (a.kind == READS || a.kind == WRITES)
		return passed(g, g->lane[a.op], graph_position(g, a.op), b);
	if (a.kind == SENDS && passed(g, g->lane[a.op], g->freed[a.op], b))
		return true;
	batch = &g->batch[g->batch_of[a.op]];
	for (unsigned k = 0; k < g->n_queues; k++)
		if (passed(g, graph_lane(g, batch->to, k), batch->seen[k], b))
			return true;
	return false;
}

bool
graph_over_at_end(const struct graph *g, struct access a, int rank)
{
	const struct batch *batch;

	if (a.kind == READS || a.kind == WRITES)
		return passed_at_end(g, g->lane[a.op], graph_position(g, a.op), rank);
	if (a.kind == SENDS &&
	    (graph_rank(g, a.op) == rank || passed_at_end(g, g->lane[a.op], g->freed[a.op], rank)))
		return true;
	batch = &g->batch[g->batch_of[a.op]];
	for (unsigned k = 0; k < g->n_queues; k++)
		if (passed_at_end(g, graph_lane(g, batch->to, k), batch->seen[k], rank))
			return true;
	return false;
}

bool
graph_begun(const struct graph *g, int rank, uint32_t b)
{
	bool begun = rank == graph_rank(g, b);

	for (unsigned k = 0; k < g->n_queues; k++)
		begun |= clock_at(g, g->clock_of[b])[graph_lane(g, rank, k)] > 0;
	return begun;
}

bool
graph_begun_at_end(const struct graph *g, int rank, int at)
{
	bool begun = rank == at;

	for (unsigned k = 0; k < g->n_queues; k++)
		begun |= passed_at_end(g, graph_lane(g, rank, k), 0, at);
	return begun;
}

/* ---- Life ---- */

static int
lay_out(struct graph *g)
{
	g->n_lanes = (uint32_t)g->size * g->n_queues;
	g->first = calloc(g->n_lanes + 1, sizeof(*g->first));
	g->channel = calloc((size_t)g->n_lanes * (size_t)g->size, sizeof(*g->channel));
	g->last_clock = calloc(g->n_lanes, sizeof(*g->last_clock));
	if (!g->first || !g->channel || !g->last_clock)
		return fail(ORIEL_ENOMEM, "no memory for %u lanes", g->n_lanes);
	for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
		const struct plan *plan = g->plan[lane / g->n_queues];

		g->first[lane] = g->n_ops;
		g->n_ops += plan->queue[lane % g->n_queues].n;
	}
	g->first[g->n_lanes] = g->n_ops;
	g->lane = malloc((5 * (size_t)g->n_ops + 1) * sizeof(*g->lane));
	g->op = malloc(((size_t)g->n_ops + 1) * sizeof(const struct op *));
	if (!g->lane || !g->op)
		return fail(ORIEL_ENOMEM, "no memory for %u ops", g->n_ops);
	g->batch_of = g->lane + g->n_ops;
	g->freed = g->batch_of + g->n_ops;
	g->order = g->freed + g->n_ops;
	g->clock_of = g->order + g->n_ops;
	for (uint32_t lane = 0; lane < g->n_lanes; lane++)
		for (uint32_t op = g->first[lane], i = 0; op < g->first[lane + 1]; op++, i++) {
			g->lane[op] = lane;
			g->op[op] = &g->plan[lane / g->n_queues]->queue[lane % g->n_queues].ops[i];
		}
	return 0;
}

static int
join(struct graph *g)
{
	int rc = count_batches(g);

	if (rc)
		return rc;
	g->batch = malloc(((size_t)g->n_batches + 1) * sizeof(*g->batch));
	if (!g->batch)
		return fail(ORIEL_ENOMEM, "no memory for %u batches", g->n_batches);
	number_batches(g);
	rc = find_open_puts(g);
	if (!rc)
		rc = match_waits(g);
	if (!rc)
		rc = order_find(g);
	if (rc)
		return rc;
	find_flushes(g);
	return make_clocks(g);
}

int
graph_make(struct graph *g, struct plan *const *plan, int size)
{
	int rc;

	*g = (struct graph){ .plan = plan, .size = size, .n_queues = plan[0]->program->n_queues };
	rc = lay_out(g);
	if (!rc)
		rc = join(g);
	if (rc)
		graph_free(g);
	return rc;
}

void
graph_free(struct graph *g)
{
	free(g->first);
	free(g->lane);
	free(g->op);
	free(g->channel);
	free(g->batch);
	free(g->clocks);
	free(g->last_clock);
	*g = (struct graph){ 0 };
}
