#include "sim/time_impl.h"

#include <stdlib.h>

/* Bytes of the vector before its part number k. */
static uint64_t
offset(const struct time_sim *s, uint64_t k, uint32_t parts)
{
	uint64_t part = vector_block(s->call->bytes, parts, 1);

	return k * part < s->call->bytes ? k * part : s->call->bytes;
}

/* Bytes of n blocks of a buffer from block i on; of a vector the last parts are shorter. */
static uint64_t
length(const struct time_sim *s, uint64_t i, uint64_t n, uint32_t parts)
{
	if (!s->vector)
		return n * s->call->bytes;
	if (i + n <= parts)
		return offset(s, i + n, parts) - offset(s, i, parts);
	return s->call->bytes - offset(s, i, parts) + offset(s, i + n - parts, parts);
}

uint64_t
time_bytes(const struct time_sim *s, const struct plan *plan, const struct op *op)
{
	uint32_t parts = plan_parts(plan);

	if (op->kind == OP_FOLD)
		return op->n * length(s, op->dst == TMP ? 0 : op->i, 1, parts);
	if (op->dst != TMP)
		return length(s, op->i, op->n, parts);
	if (op->src != TMP)
		return length(s, op->j, op->n, parts);
	if (op->kind == OP_REDUCE && op->src2 != TMP)
		return length(s, op->k, op->n, parts);
	return op->n * length(s, 0, 1, parts);
}

static bool
make_data(struct time_sim *s, int rank)
{
	struct time_rank *r = &s->rank[rank];

	r->buf = calloc(MBOX_BUFS, sizeof(*r->buf));
	return r->buf && contract_runs_start(&s->contract, rank, r->plan->count, r->buf);
}

static void
make_plans(struct time_sim *s)
{
	const struct time_call *c = s->call;
	uint64_t ops = 0, sides = 0;

	for (int rank = 0; rank < s->size && !s->error; rank++) {
		struct time_rank *r = &s->rank[rank];

		s->error = plan_build(&c->row->program, &c->shape, rank, &r->plan);
		if (s->error)
			return;
		if (c->change)
			c->change(r->plan, c->change_arg);
		s->out->plan_bytes += plan_bytes(r->plan);
		r->side = (uint32_t)sides;
		sides += r->plan->n_edges;
		for (unsigned k = 0; k < MBOX_QUEUES; k++) {
			r->queue[k].op_base = ops;
			r->queue[k].cause = NONE;
			ops += r->plan->queue[k].n;
		}
		if (sides >= NONE / 2)
			s->error = fail(ORIEL_ELIMIT, "more than %u edges", NONE / 2);
		else if (c->check && !make_data(s, rank))
			time_no_memory(s, "the data");
	}
	s->out->ops = ops;
	s->n_sides = (uint32_t)sides;
}

static void
make_sides(struct time_sim *s)
{
	uint64_t batches = 0;

	s->side = calloc((size_t)s->n_sides + 1, sizeof(*s->side));
	if (!s->side) {
		time_no_memory(s, "the edges");
		return;
	}
	for (int rank = 0; rank < s->size; rank++)
		for (uint32_t e = 0; e < s->rank[rank].plan->n_edges; e++) {
			struct time_side *side = &s->side[s->rank[rank].side + e];

			*side = (struct time_side){ .rank = rank,
				                    .there = NONE,
				                    .last = NONE,
				                    .first = (uint32_t)batches };
			batches += s->rank[rank].plan->edges[e].expect;
		}
	if (batches >= NONE)
		s->error = fail(ORIEL_ELIMIT, "more than %u batches", NONE - 1);
	s->clock = calloc(batches + 1, sizeof(*s->clock));
	s->done = calloc(s->out->ops + 1, sizeof(*s->done));
	s->link = calloc(s->call->fabric->n_links, sizeof(*s->link));
	if (!s->clock || !s->done || !s->link)
		time_no_memory(s, "the ops");
}

/* Where the way from rank from to rank to over queue of from belongs in the table. */
static size_t
home(int to, int from, uint32_t queue, size_t mask)
{
	uint64_t key = ((uint64_t)(uint32_t)to << 32 | (uint32_t)from) * MBOX_QUEUES + queue;

	key = (key ^ key >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key >> 20 ^ key >> 44) & mask;
}

/* Finds for each side that sends the one that receives: those stand in a hash table for a while. */
static void
join_sides(struct time_sim *s)
{
	size_t n = 2, mask;
	uint32_t *table;

	while (n < 2 * (size_t)s->n_sides)
		n *= 2;
	mask = n - 1;
	table = calloc(n, sizeof(*table));
	if (!table) {
		time_no_memory(s, "the edges");
		return;
	}
	for (uint32_t i = 0; i < s->n_sides; i++) {
		const struct edge *e = side_edge(s, i);
		size_t at = home(s->side[i].rank, e->rank, e->queue, mask);

		while (e->expect && table[at])
			at = (at + 1) & mask;
		if (e->expect)
			table[at] = i + 1;
	}
	for (uint32_t i = 0; i < s->n_sides; i++) {
		const struct edge *e = side_edge(s, i);
		size_t at = home(e->rank, s->side[i].rank, e->queue, mask);

		for (; table[at] && s->side[i].there == NONE; at = (at + 1) & mask)
			if (s->side[table[at] - 1].rank == e->rank &&
			    side_edge(s, table[at] - 1)->rank == s->side[i].rank &&
			    side_edge(s, table[at] - 1)->queue == e->queue)
				s->side[i].there = table[at] - 1;
	}
	free(table);
}

void
time_make(struct time_sim *s)
{
	s->rank = calloc((size_t)s->size, sizeof(*s->rank));
	if (!s->rank ||
	    (s->call->check && !contract_runs_init(&s->contract, s->call->row, &s->call->shape)))
		time_no_memory(s, "the ranks");
	if (!s->error)
		make_plans(s);
	if (!s->error)
		make_sides(s);
	if (!s->error)
		join_sides(s);
}

void
time_fini(struct time_sim *s)
{
	for (int r = 0; s->rank && r < s->size; r++) {
		for (int b = 0; s->rank[r].buf && b < MBOX_BUFS; b++)
			runs_fini(&s->rank[r].buf[b]);
		free(s->rank[r].buf);
		plan_free(s->rank[r].plan);
	}
	for (uint32_t m = 0; m < s->n_messages; m++)
		runs_fini(&s->message[m].data);
	contract_runs_fini(&s->contract);
	events_fini(&s->events);
	free(s->rank);
	free(s->side);
	free(s->clock);
	free(s->done);
	free(s->link);
	free(s->message);
}
