#include "sim/mutate.h"

#include <stdlib.h>
#include <string.h>

#define KIND(kind) (1u << (kind))
#define CHANNEL_OPS (KIND(OP_PUT) | KIND(OP_SIGNAL) | KIND(OP_WAIT))
#define LOCAL_OPS (KIND(OP_COPY) | KIND(OP_REDUCE) | KIND(OP_FOLD))

struct site {
	struct plan *plan;
	struct plan_queue *queue;
	uint32_t at;
	struct op *op;
};

/* ---- Lists of ops ---- */

static bool
drop(struct site *s)
{
	memmove(s->op, s->op + 1, (s->queue->n - s->at - 1) * sizeof(*s->op));
	s->queue->n--;
	return true;
}

/* The op once more, behind itself. */
static bool
twice(struct site *s)
{
	if (s->queue->n == s->queue->cap) {
		struct op *ops = realloc(s->queue->ops, 2 * s->queue->cap * sizeof(*ops));

		if (!ops)
			return false;
		s->queue->ops = ops;
		s->queue->cap *= 2;
		s->op = &ops[s->at];
	}
	memmove(s->op + 1, s->op, (s->queue->n - s->at) * sizeof(*s->op));
	s->queue->n++;
	return true;
}

/* Waits are counted anew, so exchanging two of one channel would change nothing. */
static bool
exchange(struct site *s)
{
	struct op *first = s->op, *next = s->op + 1, op = *first;
	uint32_t appended = first->appended;

	if (s->at + 1 >= s->queue->n)
		return false;
	if (first->kind == next->kind &&
	    (op.kind == OP_FLUSH || (op.kind == OP_WAIT && op.edge == next->edge)))
		return false;
	*first = *next;
	*next = op;
	next->appended = first->appended;
	first->appended = appended;
	return true;
}

/* Waits of one queue on one channel are for batch 1, 2, and so on. */
static void
count_waits(struct site *s)
{
	for (uint32_t e = 0; e < s->plan->n_edges; e++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < s->queue->n; i++)
			if (s->queue->ops[i].kind == OP_WAIT && s->queue->ops[i].edge == e)
				s->queue->ops[i].n = ++n;
	}
}

/* What the plan says of its channels follows from its ops. */
static void
describe_edges(struct plan *plan)
{
	for (uint32_t e = 0; e < plan->n_edges; e++)
		plan->edges[e] =
		        (struct edge){ .rank = plan->edges[e].rank, .queue = plan->edges[e].queue };
	for (unsigned k = 0; k < MBOX_QUEUES; k++)
		for (uint32_t i = 0; i < plan->queue[k].n; i++) {
			const struct op *op = &plan->queue[k].ops[i];
			struct edge *e = op->kind <= OP_WAIT ? &plan->edges[op->edge] : NULL;

			if (!e)
				continue;
			e->sends += op->kind != OP_WAIT;
			if (op->kind == OP_WAIT && op->n > e->waits[k])
				e->waits[k] = op->n;
			if (e->waits[k] > e->expect)
				e->expect = e->waits[k];
		}
}

static bool
find_edge(struct plan *plan, int rank, unsigned queue, uint32_t *edge)
{
	struct edge *edges;

	for (uint32_t e = 0; e < plan->n_edges; e++)
		if (plan->edges[e].rank == rank && plan->edges[e].queue == queue) {
			*edge = e;
			return true;
		}
	edges = realloc(plan->edges, (plan->n_edges + 1) * sizeof(*edges));
	if (!edges)
		return false;
	plan->edges = edges;
	plan->cap_edges = plan->n_edges + 1;
	edges[plan->n_edges] = (struct edge){ .rank = rank, .queue = queue };
	*edge = plan->n_edges++;
	return true;
}

/* ---- Mistakes ---- */

static bool
drop_signal(struct site *s)
{
	bool had = s->op->last;

	s->op->last = false;
	return had;
}

static bool
drop_data(struct site *s)
{
	if (!s->op->last)
		return drop(s);
	s->op->kind = OP_SIGNAL;
	return true;
}

static bool
signal_first(struct site *s)
{
	if (!s->op->last || !twice(s))
		return false;
	s->op[0].kind = OP_SIGNAL;
	s->op[1].last = false;
	return true;
}

/* The next block of buf for n blocks from *i. */
static bool
shift(const struct site *s, unsigned buf, uint32_t *i, uint32_t n)
{
	uint32_t count = s->plan->count[buf];

	if (count < 2 || (*i + n >= count && !s->plan->program->buf[buf].cyclic))
		return false;
	*i = (*i + 1) % count;
	return true;
}

static bool
shift_dst(struct site *s)
{
	return shift(s, s->op->dst, &s->op->i, s->op->kind == OP_FOLD ? 1 : s->op->n);
}

static bool
shift_src(struct site *s)
{
	return shift(s, s->op->src, &s->op->j, s->op->n);
}

static bool
shift_src2(struct site *s)
{
	return shift(s, s->op->src2, &s->op->k, s->op->n);
}

static bool
other_peer(struct site *s)
{
	const struct edge e = s->plan->edges[s->op->edge];
	int size = s->plan->shape.size, peer = (e.rank + 1) % size;

	if (peer == s->plan->rank)
		peer = (peer + 1) % size;
	if (peer == e.rank)
		return false;
	return find_edge(s->plan, peer, e.queue, &s->op->edge);
}

static bool
fits(const struct site *s, unsigned buf, uint32_t i, uint32_t n)
{
	return n <= s->plan->count[buf] &&
	       (i + n <= s->plan->count[buf] || s->plan->program->buf[buf].cyclic);
}

static bool
one_more(struct site *s)
{
	const struct op *op = s->op;
	uint32_t n = op->n + 1;

	if (!fits(s, op->src, op->j, n) || (op->kind != OP_FOLD && !fits(s, op->dst, op->i, n)) ||
	    (op->kind == OP_REDUCE && !fits(s, op->src2, op->k, n)))
		return false;
	s->op->n = n;
	return true;
}

static bool
one_less(struct site *s)
{
	return s->op->n > 1 && s->op->n--;
}

static bool
wait_later(struct site *s)
{
	s->op->n++;
	return true;
}

static bool
wait_earlier(struct site *s)
{
	return s->op->n && s->op->n--;
}

static bool
swap_operands(struct site *s)
{
	struct op op = *s->op;

	s->op->src = op.src2;
	s->op->src2 = op.src;
	s->op->j = op.k;
	s->op->k = op.j;
	return op.src != op.src2 || op.j != op.k;
}

static const struct mutator {
	const char *name;
	bool (*make)(struct site *s);
	unsigned kinds;    /* of ops */
	unsigned fatal;    /* of those: never harmless */
	bool counts_waits; /* anew */
} mutators[] = {
	{ "drop the wait", drop, KIND(OP_WAIT), KIND(OP_WAIT), true },
	{ "drop the put's signal", drop_signal, KIND(OP_PUT), KIND(OP_PUT), false },
	{ "drop the credit", drop, KIND(OP_SIGNAL), KIND(OP_SIGNAL), false },
	{ "drop the data", drop_data, KIND(OP_PUT), KIND(OP_PUT), false },
	{ "drop the flush", drop, KIND(OP_FLUSH), 0, false },
	{ "drop the local op", drop, LOCAL_OPS | KIND(OP_CALL), 0, false },
	{ "signal before the data", signal_first, KIND(OP_PUT), 0, false },
	{ "into the next block", shift_dst, KIND(OP_PUT) | LOCAL_OPS, KIND(OP_PUT) | LOCAL_OPS,
	  false },
	{ "out of the next block", shift_src, KIND(OP_PUT) | LOCAL_OPS, 0, false },
	{ "with the next block", shift_src2, KIND(OP_REDUCE), 0, false },
	{ "exchange with the next op", exchange, CHANNEL_OPS | LOCAL_OPS | KIND(OP_FLUSH), 0,
	  true },
	{ "the other peer", other_peer, CHANNEL_OPS, CHANNEL_OPS, true },
	{ "twice", twice, CHANNEL_OPS | LOCAL_OPS | KIND(OP_FLUSH), CHANNEL_OPS, true },
	{ "one block more", one_more, KIND(OP_PUT) | LOCAL_OPS, KIND(OP_PUT), false },
	{ "one block less", one_less, KIND(OP_PUT) | LOCAL_OPS, KIND(OP_PUT), false },
	{ "wait for one batch more", wait_later, KIND(OP_WAIT), 0, false },
	{ "wait for one batch less", wait_earlier, KIND(OP_WAIT), 0, false },
	{ "exchange the operands", swap_operands, KIND(OP_REDUCE), KIND(OP_REDUCE), false },
};

const unsigned mutation_kinds = ARRAY_SIZE(mutators);

const char *
mutation_name(unsigned kind)
{
	return mutators[kind].name;
}

bool
mutate(const struct coll_row *row, struct plan *plan, const struct mutation *m, bool *fatal)
{
	const struct mutator *how = &mutators[m->kind];
	struct plan_queue *queue = &plan->queue[m->queue];
	struct site s = { .plan = plan, .queue = queue, .at = m->op };
	unsigned kind;

	if (m->op >= queue->n)
		return false;
	s.op = &queue->ops[m->op];
	kind = s.op->kind;
	if (!(how->kinds & KIND(kind)) || (how->make == swap_operands && row->unordered))
		return false;
	if (!how->make(&s))
		return false;
	if (how->counts_waits)
		count_waits(&s);
	describe_edges(plan);
	*fatal |= how->fatal & KIND(kind) && (kind != OP_WAIT || plan->program->n_queues == 1);
	return true;
}
