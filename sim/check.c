#include "sim/check.h"

#include "sim/contract.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GARBAGE INT64_C(-0x5a5a5a5a5a5a5a5b)

struct side {              /* one rank's end of a channel */
	uint32_t there;    /* the index of this edge at the other rank; UINT32_MAX: it has none */
	uint32_t closed;   /* out: batches closed by a signal that was posted */
	uint32_t came;     /* in: batches that have come */
	uint32_t waited;   /* in: of those, waited for */
	uint32_t *pending; /* out, by batch: blocks that have not landed */
	int *clock;        /* in, by batch: rounds until it came */
};

struct rank {
	struct plan *plan;
	struct contract_rank view;
	uint8_t *unread[MBOX_BUFS]; /* by block: puts that have not read it yet */
	struct side *side;          /* by edge */
	uint32_t at[MBOX_QUEUES];   /* ops done */
	int clock[MBOX_QUEUES];
	uint32_t n_unread;
	int64_t blocks;
	bool ended;
};

struct flight { /* one block of a put, or a signal */
	bool is_signal, is_read;
	int from, to;
	uint32_t edge, batch;
	int clock;
	uint8_t src, dst;
	uint32_t i, j;
	int64_t value;
};

struct sim {
	const struct check *check;
	uint64_t random;
	int size, live;
	struct rank *rank;
	bool *entered;
	struct flight *flight;
	size_t n_flights, cap;
	int rounds;
	int64_t most, total; /* blocks that one rank, and all ranks, have put */
	int error;
};

static uint64_t
random_below(struct sim *s, uint64_t n)
{
	uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

static void __attribute__((format(printf, 2, 3))) wrong(struct sim *s, const char *fmt, ...)
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
			wrong(s, "no memory for messages in flight");
			return;
		}
		s->flight = more;
		s->cap = cap;
	}
	s->flight[s->n_flights++] = *f;
}

static bool
has(struct sim *s, int rank, unsigned buf)
{
	if (!s->rank[rank].view.buf[buf])
		wrong(s, "rank %d has no buffer %u, but it is touched", rank, buf);
	return s->rank[rank].view.buf[buf] != NULL;
}

/* A block of a rank's memory changes: no put may still have to read it. */
static void
write_block(struct sim *s, int rank, unsigned buf, uint32_t block, int64_t value)
{
	struct rank *r = &s->rank[rank];

	if (!has(s, rank, buf))
		return;
	if (r->unread[buf][block])
		wrong(s, "block %u of buffer %u of rank %d changes before a put has read it", block,
		      buf, rank);
	r->view.buf[buf][block] = value;
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
		wrong(s, "rank %d sends on an edge of another queue", rank);
	if (op->kind == OP_PUT && !has(s, rank, op->src))
		return;
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

static int64_t
value_of(struct sim *s, int rank, unsigned buf, uint32_t block)
{
	const struct rank *r = &s->rank[rank];

	return has(s, rank, buf) ? r->view.buf[buf][block % r->plan->count[buf]] : GARBAGE;
}

static int64_t
combine(const struct sim *s, int64_t a, int64_t b)
{
	return contract_combine(s->check->row->op, s->check->row->unordered, a, b);
}

static void
local(struct sim *s, int rank, const struct op *op)
{
	struct rank *r = &s->rank[rank];

	if (op->kind == OP_COPY && r->view.buf[op->dst] == r->view.buf[op->src] && op->i == op->j)
		return; /* onto itself: nothing changes */
	for (uint32_t b = 0; b < op->n; b++) {
		int64_t value = value_of(s, rank, op->src, op->j + b);

		if (op->kind == OP_REDUCE)
			value = combine(s, value, value_of(s, rank, op->src2, op->k + b));
		write_block(s, rank, op->dst, (op->i + b) % r->plan->count[op->dst], value);
	}
}

static void
fold(struct sim *s, int rank, const struct op *op)
{
	int64_t value = value_of(s, rank, op->src, op->j);

	for (uint32_t b = 1; b < op->n; b++)
		value = combine(s, value, value_of(s, rank, op->src, op->j + b));
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
	if (!contract_holds(s->check->row->op, &r->view, text, sizeof(text)))
		wrong(s, "rank %d at its end: %s", rank, text);
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
		wrong(s, "rank %d gets %s of rank %d after its end", f->to,
		      f->is_signal ? "a signal" : "data", f->from);
	if (!f->is_signal) {
		write_block(s, f->to, f->dst, f->i, f->value);
		out->pending[f->batch]--;
		return;
	}
	if (out->there == UINT32_MAX ||
	    to->side[out->there].came >= to->plan->edges[out->there].expect) {
		wrong(s, "rank %d gets a signal of rank %d that it does not wait for", f->to,
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

		f->value = r->view.buf[f->src][f->j];
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

/* All is quiet: every batch had its wait, and the whole its cost. */
static void
look_at_all(struct sim *s)
{
	const struct coll_row *row = s->check->row;
	const struct shape *shape = &s->check->shape;

	for (int r = 0; r < s->size; r++)
		for (uint32_t e = 0; e < s->rank[r].plan->n_edges; e++)
			if (s->rank[r].side[e].waited != s->rank[r].side[e].came)
				wrong(s, "rank %d got %u batches of rank %d and waited for %u", r,
				      s->rank[r].side[e].came, s->rank[r].plan->edges[e].rank,
				      s->rank[r].side[e].waited);
	if (s->rounds != row->rounds(shape))
		wrong(s, "%d rounds, its cost says %" PRId64, s->rounds, row->rounds(shape));
	if (s->most != row->blocks(shape))
		wrong(s, "a rank has put %" PRId64 " blocks, the cost says %" PRId64 " at most",
		      s->most, row->blocks(shape));
	if (s->total != row->total(shape))
		wrong(s, "%" PRId64 " blocks were put, the cost says %" PRId64, s->total,
		      row->total(shape));
}

static void
simulate(struct sim *s)
{
	uint64_t idle = 0;

	while ((s->live || s->n_flights) && !s->error) {
		uint64_t n = (uint64_t)s->size + s->n_flights, pick = random_below(s, n);
		bool moved;

		if (pick < (uint64_t)s->size)
			moved = !s->rank[pick].ended && run_rank(s, (int)pick);
		else
			moved = move_flight(s, pick - (uint64_t)s->size);
		idle = moved ? 0 : idle + 1;
		if (idle < 20 * n)
			continue;
		/* So many misses are chance or the end: ask everybody, in order. */
		for (pick = 0; pick < n && !moved; pick++)
			moved = pick < (uint64_t)s->size
			                ? !s->rank[pick].ended && run_rank(s, (int)pick)
			                : move_flight(s, pick - (uint64_t)s->size);
		if (!moved)
			wrong(s, "deadlock: %d ranks have not ended, %zu messages are under way",
			      s->live, s->n_flights);
		idle = 0;
	}
	if (!s->error)
		look_at_all(s);
}

/* IN and OUT become the same memory, the larger one's; if the rank has both. */
static bool
alias(struct sim *s, struct rank *r)
{
	int larger = r->plan->count[OUT] > r->plan->count[IN] ? OUT : IN, other = IN + OUT - larger;

	if (!r->view.buf[IN] || !r->view.buf[OUT])
		return true;
	if (s->check->row->op != COLL_REDUCE_SCATTER && r->plan->count[IN] != r->plan->count[OUT]) {
		wrong(s, "IN has %u blocks, OUT %u: not the same vector", r->plan->count[IN],
		      r->plan->count[OUT]);
		return false;
	}
	free(r->view.buf[other]);
	free(r->unread[other]);
	r->view.buf[other] = r->view.buf[larger];
	r->unread[other] = r->unread[larger];
	return true;
}

static bool
make_rank(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];
	const struct check *c = s->check;

	s->error = plan_build(&c->row->program, &c->shape, rank, &r->plan);
	if (s->error)
		return false;
	if (c->change)
		c->change(r->plan, c->change_arg);
	r->view = (struct contract_rank){
		.rank = rank,
		.shape = &c->shape,
		.alias = c->alias,
		.unordered = c->row->unordered,
		.count = r->plan->count,
		.entered = s->entered,
	};
	for (int b = 0; b < MBOX_BUFS; b++) {
		r->view.buf[b] = calloc(r->plan->count[b] + 1, sizeof(int64_t));
		r->unread[b] = calloc(r->plan->count[b] + 1, 1);
		if (!r->view.buf[b] || !r->unread[b])
			return false;
		for (uint32_t i = 0; i < r->plan->count[b]; i++)
			r->view.buf[b][i] = GARBAGE;
		if (!contract_has(c->row->op, &r->view, (enum plan_buf)b)) {
			free(r->view.buf[b]);
			r->view.buf[b] = NULL;
		}
	}
	if (c->alias && !alias(s, r))
		return false;
	r->side = calloc(r->plan->n_edges + 1, sizeof(*r->side));
	for (uint32_t e = 0; r->side && e < r->plan->n_edges; e++) {
		/* A change may have added a send; a batch each is the most. */
		r->side[e].pending =
		        calloc(r->plan->queue[0].n + r->plan->queue[1].n + 2, sizeof(uint32_t));
		r->side[e].clock = calloc(r->plan->edges[e].expect + 1, sizeof(int));
		if (!r->side[e].pending || !r->side[e].clock)
			return false;
	}
	contract_start(c->row->op, &r->view);
	return r->side != NULL;
}

static void
join_sides(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];

	for (uint32_t e = 0; e < r->plan->n_edges; e++) {
		const struct plan *there = s->rank[r->plan->edges[e].rank].plan;

		r->side[e].there = UINT32_MAX;
		for (uint32_t t = 0; t < there->n_edges; t++)
			if (there->edges[t].rank == rank &&
			    there->edges[t].queue == r->plan->edges[e].queue)
				r->side[e].there = t;
	}
}

static void
free_rank(struct rank *r)
{
	for (uint32_t e = 0; r->side && e < r->plan->n_edges; e++) {
		free(r->side[e].pending);
		free(r->side[e].clock);
	}
	free(r->side);
	if (r->unread[IN] == r->unread[OUT])
		r->view.buf[IN] = NULL, r->unread[IN] = NULL;
	for (int b = 0; b < MBOX_BUFS; b++) {
		free(r->view.buf[b]);
		free(r->unread[b]);
	}
	plan_free(r->plan);
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
		made = make_rank(&s, r);
	if (!s.rank || !s.entered || (!made && !s.error))
		s.error = fail(ORIEL_ENOMEM, "no memory for %d ranks", s.size);
	if (!s.error) {
		for (int r = 0; r < s.size; r++)
			join_sides(&s, r);
		simulate(&s);
	}
	for (int r = 0; s.rank && r < s.size; r++)
		free_rank(&s.rank[r]);
	free(s.rank);
	free(s.entered);
	free(s.flight);
	return s.error;
}
