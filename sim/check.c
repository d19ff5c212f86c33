#include "sim/check.h"

#include "sim/check_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOWNESS 16 /* the slow ones' steps against the others' */

static uint64_t
random_below(struct sim *s, uint64_t n)
{
	uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

void
sim_wrong(struct sim *s, const char *fmt, ...)
{
	const struct check *c = s->check;
	char text[300];
	va_list ap;

	if (s->error)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->error =
	        fail(ORIEL_EMISMATCH, "%s(%d), %d ranks, root %d, node %d%s, seed %" PRIu64 ": %s",
	             c->row->program.name, c->shape.arg, c->shape.size, c->shape.root,
	             c->shape.node, c->alias ? ", in place" : "", c->seed, text);
}

static void
fly(struct sim *s, const struct flight *f)
{
	if (s->n_flights == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 256;
		struct flight *more = realloc(s->flight, cap * sizeof(*more));

		if (!more) {
			sim_wrong(s, "no memory for messages in flight");
			return;
		}
		s->flight = more;
		s->cap = cap;
	}
	s->flight[s->n_flights++] = *f;
}

static int
part_of(const struct sim *s, const struct rank *r, unsigned buf, uint32_t block)
{
	if (buf == TMP)
		return r->part[block];
	return contract_part(s->check->row->op, &r->view, (enum plan_buf)buf, (int)block);
}

static void
must_exist(struct sim *s, int rank, unsigned buf)
{
	if (!contract_has(s->check->row->op, &s->rank[rank].view, (enum plan_buf)buf))
		sim_wrong(s, "rank %d has no buffer %u", rank, buf);
}

static struct value
read_block(struct sim *s, int rank, unsigned buf, uint32_t block)
{
	const struct rank *r = &s->rank[rank];
	const struct coll_row *row = s->check->row;

	must_exist(s, rank, buf);
	if (buf == TMP && !row->whole && !contract_knows(row->op, &r->view, r->part[block]))
		sim_wrong(s, "part %d passes through rank %d, which does not know how long it is",
		          r->part[block], rank);
	return (struct value){ r->view.buf[buf][block], part_of(s, r, buf, block) };
}

/* A block of a rank's memory changes: no put may still have to read it, and it must be as long as
 * what comes. */
static void
write_block(struct sim *s, int rank, unsigned buf, uint32_t block, struct value value)
{
	struct rank *r = &s->rank[rank];

	must_exist(s, rank, buf);
	if (r->unread[buf][block])
		sim_wrong(s, "block %u of buffer %u of rank %d changes before a put has read it",
		          block, buf, rank);
	if (buf == TMP)
		r->part[block] = value.part;
	else if (!s->check->row->whole && part_of(s, r, buf, block) != value.part)
		sim_wrong(s,
		          "block %u of buffer %u of rank %d is for part %d, gets %d: not as long",
		          block, buf, rank, part_of(s, r, buf, block), value.part);
	r->view.buf[buf][block] = value.bits;
}

static void
post(struct sim *s, int rank, unsigned queue, const struct op *op)
{
	struct rank *r = &s->rank[rank];
	struct side *side = &r->side[op->edge];
	struct flight f = {
		.from = rank,
		.to = r->plan->edges[op->edge].rank,
		.edge = op->edge,
		.batch = side->closed,
		.clock = r->clock[queue] + 1,
		.src = op->src,
		.dst = op->dst,
	};

	if (r->plan->edges[op->edge].queue != queue)
		sim_wrong(s, "rank %d sends on an edge of another queue", rank);
	for (uint32_t b = 0; op->kind == OP_PUT && b < op->n; b++) {
		f.i = (op->i + b) % r->plan->count[op->dst];
		f.j = (op->j + b) % r->plan->count[op->src];
		r->unread[op->src][f.j]++;
		r->n_unread++;
		side->pending[side->closed]++;
		r->blocks++;
		fly(s, &f);
	}
	if (op->last) {
		f.is_signal = true;
		side->closed++;
		fly(s, &f);
	}
}

/* A block of mine, wrapped. */
static struct value
mine(struct sim *s, int rank, unsigned buf, uint32_t block)
{
	return read_block(s, rank, buf, block % s->rank[rank].plan->count[buf]);
}

static struct value
combine(struct sim *s, struct value a, struct value b)
{
	const struct coll_row *row = s->check->row;

	if (a.part != b.part && !row->whole)
		sim_wrong(s, "parts %d and %d are combined: not as long", a.part, b.part);
	a.bits = s->check->digest ? contract_round(row->unordered, a.bits, b.bits)
	                          : contract_combine(row->op, row->unordered, a.bits, b.bits);
	return a;
}

static void
local(struct sim *s, int rank, const struct op *op)
{
	struct rank *r = &s->rank[rank];

	if (op->kind == OP_COPY && r->view.buf[op->dst] == r->view.buf[op->src] && op->i == op->j)
		return; /* onto itself: nothing changes */
	for (uint32_t b = 0; b < op->n; b++) {
		struct value value = mine(s, rank, op->src, op->j + b);

		if (op->kind == OP_REDUCE)
			value = combine(s, value, mine(s, rank, op->src2, op->k + b));
		write_block(s, rank, op->dst, (op->i + b) % r->plan->count[op->dst], value);
	}
}

static void
fold(struct sim *s, int rank, const struct op *op)
{
	struct value value = mine(s, rank, op->src, op->j);

	for (uint32_t b = 1; b < op->n; b++)
		value = combine(s, value, mine(s, rank, op->src, op->j + b));
	write_block(s, rank, op->dst, op->i, value);
}

/* One op of a queue; false if it has to wait. */
static bool
step(struct sim *s, int rank, unsigned queue)
{
	struct rank *r = &s->rank[rank];
	const struct op *op = &r->plan->queue[queue].ops[r->at[queue]];
	struct side *side = op->kind <= OP_WAIT ? &r->side[op->edge] : NULL;

	switch ((enum op_kind)op->kind) {
	case OP_PUT:
	case OP_SIGNAL:
		post(s, rank, queue, op);
		break;
	case OP_WAIT:
		if (side->came < op->n)
			return false;
		if (op->n > side->waited)
			side->waited = op->n;
		for (uint32_t b = 0; b < op->n; b++)
			if (side->clock[b] > r->clock[queue])
				r->clock[queue] = side->clock[b];
		break;
	case OP_COPY:
	case OP_REDUCE:
		local(s, rank, op);
		break;
	case OP_FOLD:
		fold(s, rank, op);
		break;
	case OP_FLUSH:
		if (r->n_unread)
			return false;
		break;
	case OP_CALL:
	case OP_KINDS:
		break;
	}
	r->at[queue]++;
	return true;
}

/* A rank's own end: all its queues are through and its sources are free. */
static void
end_rank(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];
	char text[200];

	r->ended = true;
	s->live--;
	if (!s->check->digest && !contract_holds(s->check->row->op, &r->view, text, sizeof(text)))
		sim_wrong(s, "rank %d at its end: %s", rank, text);
	s->total += r->blocks;
	if (r->blocks > s->most)
		s->most = r->blocks;
	for (unsigned k = 0; k < MBOX_QUEUES; k++)
		if (r->clock[k] > s->rounds)
			s->rounds = r->clock[k];
}

/* Lets a rank make a step in a random one of its queues that can. */
static bool
run_rank(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];
	unsigned n = r->plan->program->n_queues, first = (unsigned)random_below(s, n);
	bool live = false, moved = false;

	s->entered[rank] = true;
	for (unsigned k = 0; k < n && !moved; k++) {
		unsigned queue = (first + k) % n;

		if (r->at[queue] < r->plan->queue[queue].n)
			moved = step(s, rank, queue);
	}
	for (unsigned k = 0; k < n; k++)
		live |= r->at[k] < r->plan->queue[k].n;
	if (!live && !r->n_unread) {
		end_rank(s, rank);
		moved = true;
	}
	return moved;
}

static void
arrive(struct sim *s, const struct flight *f)
{
	struct side *out = &s->rank[f->from].side[f->edge];
	struct rank *to = &s->rank[f->to];
	struct side *in;

	if (to->ended)
		sim_wrong(s, "rank %d gets %s of rank %d after its end", f->to,
		          f->is_signal ? "a signal" : "data", f->from);
	if (!f->is_signal) {
		write_block(s, f->to, f->dst, f->i, f->value);
		out->pending[f->batch]--;
		return;
	}
	if (out->there == UINT32_MAX ||
	    to->side[out->there].came >= to->plan->edges[out->there].expect) {
		sim_wrong(s, "rank %d gets a signal of rank %d that it does not wait for", f->to,
		          f->from);
		return;
	}
	in = &to->side[out->there];
	in->clock[in->came++] = f->clock;
}

/* A block is read, or lands; a signal comes. False: the signal has to wait for others. */
static bool
move_flight(struct sim *s, size_t n)
{
	struct flight *f = &s->flight[n], copy;
	const struct side *out = &s->rank[f->from].side[f->edge];

	if (!f->is_signal && !f->is_read) {
		struct rank *r = &s->rank[f->from];

		f->value = read_block(s, f->from, f->src, f->j);
		f->is_read = true;
		r->unread[f->src][f->j]--;
		r->n_unread--;
		return true;
	}
	if (f->is_signal) {
		uint32_t came =
		        out->there == UINT32_MAX ? f->batch : s->rank[f->to].side[out->there].came;

		for (uint32_t b = 0; b <= f->batch; b++)
			if (out->pending[b])
				return false;
		if (came < f->batch)
			return false;
	}
	copy = *f;
	*f = s->flight[--s->n_flights];
	arrive(s, &copy);
	return true;
}

/* All results are in: those that are for all ranks are the same bits. */
static void
take_digest(struct sim *s)
{
	uint64_t h = 0;

	for (int r = 0; r < s->size; r++) {
		const struct contract_rank *view = &s->rank[r].view, *first = &s->rank[0].view;

		for (uint32_t i = 0; i < view->count[OUT]; i++) {
			if (!contract_promises(s->check->row->op, view, (int)i))
				continue;
			h = hash_bytes(h, &view->buf[OUT][i], sizeof(int64_t));
			if (s->check->row->op == COLL_ALLREDUCE &&
			    view->buf[OUT][i] != first->buf[OUT][i])
				sim_wrong(s, "block %u of rank %d rounds otherwise than rank 0's",
				          i, r);
		}
	}
	*s->check->digest = h;
}

/* All is quiet: every batch had its wait, and the whole its cost. */
static void
look_at_all(struct sim *s)
{
	const struct coll_row *row = s->check->row;
	const struct shape *shape = &s->check->shape;

	for (int r = 0; r < s->size; r++)
		for (uint32_t e = 0; e < s->rank[r].plan->n_edges; e++)
			if (s->rank[r].side[e].waited != s->rank[r].side[e].came)
				sim_wrong(s, "rank %d got %u batches of rank %d and waited for %u",
				          r, s->rank[r].side[e].came,
				          s->rank[r].plan->edges[e].rank,
				          s->rank[r].side[e].waited);
	if (s->rounds != row->rounds(shape))
		sim_wrong(s, "%d rounds, its cost says %" PRId64, s->rounds, row->rounds(shape));
	if (s->most != row->blocks(shape))
		sim_wrong(s, "a rank has put %" PRId64 " blocks, the cost says %" PRId64 " at most",
		          s->most, row->blocks(shape));
	if (s->total != row->total(shape))
		sim_wrong(s, "%" PRId64 " blocks were put, the cost says %" PRId64, s->total,
		          row->total(shape));
}

/* The n'th of the ranks and the flights makes a step if it can. */
static bool
move(struct sim *s, uint64_t n)
{
	if (n < (uint64_t)s->size)
		return !s->rank[n].ended && run_rank(s, (int)n);
	return move_flight(s, n - (uint64_t)s->size);
}

static bool
is_slow(const struct sim *s, uint64_t n)
{
	if (n < (uint64_t)s->size)
		return (int)n == s->slow_rank;
	return s->flight[n - (uint64_t)s->size].from == s->slow_puts;
}

static void
simulate(struct sim *s)
{
	uint64_t idle = 0;

	s->slow_rank = (int)random_below(s, (uint64_t)s->size + 1);
	s->slow_puts = (int)random_below(s, (uint64_t)s->size + 1);
	while ((s->live || s->n_flights) && !s->error) {
		uint64_t n = (uint64_t)s->size + s->n_flights, pick = random_below(s, n);
		bool moved = false;

		if (!is_slow(s, pick) || !random_below(s, SLOWNESS))
			moved = move(s, pick);
		idle = moved ? 0 : idle + 1;
		if (idle < 20 * n)
			continue;
		/* So many misses are chance or the end: ask everybody, in order. */
		for (pick = 0; pick < n && !moved; pick++)
			moved = move(s, pick);
		if (!moved)
			sim_wrong(s,
			          "deadlock: %d ranks have not ended, %zu messages are under way",
			          s->live, s->n_flights);
		idle = 0;
	}
	if (!s->error)
		look_at_all(s);
	if (!s->error && s->check->digest)
		take_digest(s);
}

int
check_run(const struct check *check)
{
	struct sim s = { .check = check,
		         .random = check->seed * UINT64_C(1000003),
		         .size = check->shape.size,
		         .live = check->shape.size };
	bool made = true;

	s.rank = calloc((size_t)s.size, sizeof(*s.rank));
	s.entered = calloc((size_t)s.size, sizeof(*s.entered));
	for (int r = 0; s.rank && s.entered && r < s.size && made; r++)
		made = sim_make_rank(&s, r);
	if (!s.rank || !s.entered || (!made && !s.error))
		s.error = fail(ORIEL_ENOMEM, "no memory for %d ranks", s.size);
	if (!s.error) {
		for (int r = 0; r < s.size; r++)
			sim_join_sides(&s, r);
		simulate(&s);
	}
	for (int r = 0; s.rank && r < s.size; r++)
		sim_free_rank(&s.rank[r]);
	free(s.rank);
	free(s.entered);
	free(s.flight);
	return s.error;
}
