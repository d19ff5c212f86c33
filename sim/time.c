#include "sim/time_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_AHEAD 8 /* ops */

void
time_wrong(struct time_sim *s, const char *fmt, ...)
{
	const struct shape *shape = &s->call->shape;
	char text[300];
	va_list ap;

	if (s->error)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->error = fail(ORIEL_EMISMATCH, "%s(%d), %d ranks, root %d, node %d: %s",
	                s->call->row->program.name, shape->arg, shape->size, shape->root,
	                shape->node, text);
}

void
time_no_memory(struct time_sim *s, const char *what)
{
	if (!s->error)
		s->error = fail(ORIEL_ENOMEM, "no memory for %s of %d ranks", what, s->size);
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---- events ---- */

/* At one time queues go first, in the order of ranks; then messages, in that of their ops. */
#define AFTER_QUEUES (UINT64_C(1) << 63)

static void
push_queue(struct time_sim *s, int64_t at, int rank, unsigned queue)
{
	uint64_t n = (uint64_t)rank * MBOX_QUEUES + queue;

	if (!events_push(&s->events, at, n, n))
		time_no_memory(s, "the events");
}

static void
push_message(struct time_sim *s, int64_t at, uint32_t message)
{
	const struct time_message *m = &s->message[message];

	if (!events_push(&s->events, at, AFTER_QUEUES | m->op_index, message))
		time_no_memory(s, "the events");
}

/* ---- messages ---- */

/* NONE: no memory. Pointers to messages do not outlive it. */
static uint32_t
new_message(struct time_sim *s)
{
	uint32_t n = s->free_message;

	if (n == NONE) {
		uint32_t cap = s->n_messages ? 2 * s->n_messages : 256;
		struct time_message *more = realloc(s->message, cap * sizeof(*more));

		if (!more) {
			time_no_memory(s, "the messages");
			return NONE;
		}
		s->message = more;
		for (uint32_t i = cap; i-- > s->n_messages;) {
			s->message[i] =
			        (struct time_message){ .side = NONE, .next = s->free_message };
			s->free_message = i;
		}
		s->n_messages = cap;
		n = s->free_message;
	}
	s->free_message = s->message[n].next;
	return n;
}

static void
free_message(struct time_sim *s, uint32_t n)
{
	runs_fini(&s->message[n].data);
	s->message[n].side = NONE;
	s->message[n].next = s->free_message;
	s->free_message = n;
}

/* The message before m on its channel, if it is still under way. */
static const struct time_message *
before(const struct time_sim *s, const struct time_message *m)
{
	const struct time_message *b = m->before == NONE ? NULL : &s->message[m->before];

	return b && b->side == m->side && b->op_index < m->op_index ? b : NULL;
}

/* A message takes its next link. Returns when its head leaves it. */
static int64_t
ride(struct time_sim *s, uint32_t n, int64_t now)
{
	const struct fabric *f = s->call->fabric;
	struct time_message *m = &s->message[n];
	enum fabric_level level = (enum fabric_level)m->level;
	unsigned hops = fabric_hops(level);
	uint32_t at = fabric_link(f, s->side[m->side].rank, m->to, level, m->hop);
	struct time_link *link = &s->link[at];
	const struct time_message *ahead = before(s, m);
	int64_t work = fabric_time(f, at, m->bytes), head;

	link->until = later(link->until, now) + work;
	link->busy += work;
	head = later(now, link->until - m->train);
	if (ahead) /* It must not be overtaken; of one that has arrived all that is past. */
		head = later(head, ahead->head[m->hop]);
	m->head[m->hop++] = head;
	m->arrives = m->hop == hops;
	push_message(s,
	             head + (m->arrives           ? m->train
	                     : m->hop == hops / 2 ? f->latency[level]
	                                          : 0),
	             n);
	return head;
}

/* The send overhead is over: the message goes to its first link. */
static void
leave(struct time_sim *s, int rank, unsigned queue, int64_t now)
{
	struct time_rank *r = &s->rank[rank];
	uint32_t at = r->queue[queue].at - 1, n = new_message(s);
	const struct op *op = &r->plan->queue[queue].ops[at];
	const struct fabric *f = s->call->fabric;
	int to = r->plan->edges[op->edge].rank;
	enum fabric_level level = fabric_level(f, rank, to);
	uint64_t bytes = op->kind == OP_PUT ? time_bytes(s, r->plan, op) : 0;
	struct time_message *m;

	r->queue[queue].posting = false;
	if (n == NONE)
		return;
	m = &s->message[n];
	*m = (struct time_message){
		.side = r->side + op->edge,
		.op = at,
		.op_index = op_index(r, queue, at),
		.to = to,
		.clock = r->queue[queue].clock + 1,
		.level = (uint8_t)level,
		.last = op->last,
		.dst = op->dst,
		.i = op->i,
		.train = fabric_train(f, level, bytes),
		.before = s->side[r->side + op->edge].last,
		.bytes = bytes,
	};
	s->side[m->side].last = n;
	if (s->call->check)
		time_load(s, rank, op, &m->data);
	s->out->bytes[level] += bytes;
	s->out->messages[level]++;
	r->messages++;
	r->blocks += op->kind == OP_PUT ? op->n : 0;
	r->sources = later(r->sources, ride(s, n, now) + s->message[n].train);
}

/* A queue that waits for batch came of edge goes on. */
static void
wake(struct time_sim *s, int rank, uint32_t edge, uint32_t came, uint32_t cause, int64_t now)
{
	struct time_rank *r = &s->rank[rank];

	for (unsigned k = 0; k < MBOX_QUEUES; k++) {
		struct time_queue *q = &r->queue[k];
		const struct op *op = q->blocked ? &r->plan->queue[k].ops[q->at] : NULL;

		if (!op || op->edge != edge || op->n > came)
			continue;
		/* One that ran ahead may have got here later than the message. */
		q->blocked = false;
		q->cause = now < q->since ? NONE : cause;
		push_queue(s, later(now, q->since), rank, k);
	}
}

static void
arrive(struct time_sim *s, uint32_t n, int64_t now)
{
	struct time_message *m = &s->message[n];
	int from = s->side[m->side].rank;
	uint32_t there = s->side[m->side].there;
	struct time_rank *to = &s->rank[m->to];
	struct time_side *in;

	assert(!before(s, m)); /* The model keeps the order of a channel. */
	if (to->ended)
		time_wrong(s, "rank %d gets a message of rank %d after its end", m->to, from);
	if (s->call->check)
		time_unload(s, m);
	if (m->last && (there == NONE || s->side[there].came >= side_edge(s, there)->expect)) {
		time_wrong(s, "rank %d gets a signal of rank %d that it does not wait for", m->to,
		           from);
	} else if (m->last) {
		in = &s->side[there];
		s->clock[in->first + in->came] = m->clock;
		if (in->came && s->clock[in->first + in->came - 1] > m->clock)
			s->clock[in->first + in->came] = s->clock[in->first + in->came - 1];
		in->came++;
		wake(s, m->to, there - to->side, in->came, m->op, now);
	}
	free_message(s, n);
}

/* ---- queues ---- */

/* The op that the queue is at ends then. */
static void
done(struct time_sim *s, int rank, unsigned queue, int64_t end, uint32_t cause)
{
	struct time_rank *r = &s->rank[rank];
	struct time_queue *q = &r->queue[queue];

	s->done[op_index(r, queue, q->at++)] = (struct time_done){ end, cause };
	if (s->ahead)
		q->next = end;
	else
		push_queue(s, end, rank, queue);
}

/* Puts of one batch that follow one another are one chained post. */
static bool
chained(const struct time_rank *r, unsigned queue)
{
	uint32_t at = r->queue[queue].at;
	const struct op *op = &r->plan->queue[queue].ops[at];

	return at && op->kind == OP_PUT && op[-1].kind == OP_PUT && op[-1].edge == op->edge &&
	       !op[-1].last;
}

static void
post(struct time_sim *s, int rank, unsigned queue, const struct op *op, int64_t now)
{
	const struct fabric *f = s->call->fabric;
	struct time_rank *r = &s->rank[rank];

	if (r->plan->edges[op->edge].queue != queue)
		time_wrong(s, "rank %d sends on an edge of another queue", rank);
	r->processor = later(r->processor, now) + (chained(r, queue) ? f->chain : f->send);
	r->queue[queue].posting = true;
	done(s, rank, queue, r->processor, NONE);
}

static void
wait_for(struct time_sim *s, int rank, unsigned queue, const struct op *op, int64_t now)
{
	struct time_rank *r = &s->rank[rank];
	struct time_queue *q = &r->queue[queue];
	struct time_side *side = &s->side[r->side + op->edge];
	uint32_t cause = q->cause;

	q->blocked = side->came < op->n;
	q->since = now;
	if (q->blocked)
		return;
	if (op->n > side->waited)
		side->waited = op->n;
	if (op->n && s->clock[side->first + op->n - 1] > q->clock)
		q->clock = s->clock[side->first + op->n - 1];
	q->cause = NONE;
	r->processor = later(r->processor, now) + s->call->fabric->receive;
	done(s, rank, queue, r->processor, cause);
}

static void
local(struct time_sim *s, int rank, unsigned queue, const struct op *op, int64_t now)
{
	struct time_rank *r = &s->rank[rank];
	uint32_t at = fabric_memory(rank);
	int64_t work = fabric_time(s->call->fabric, at, time_bytes(s, r->plan, op));

	s->link[at].until = later(s->link[at].until, now) + work;
	s->link[at].busy += work;
	if (s->call->check)
		time_move(s, rank, op);
	done(s, rank, queue, s->link[at].until, NONE);
}

/* A rank's own end, if all its queues are through and its sources are free. */
static void
try_end(struct time_sim *s, int rank, unsigned queue, int64_t now)
{
	struct time_rank *r = &s->rank[rank];
	char text[200];

	r->queue[queue].through = true;
	for (unsigned k = 0; k < r->plan->program->n_queues; k++)
		if (!r->queue[k].through)
			return;
	if (now < r->sources) {
		push_queue(s, r->sources, rank, queue);
		return;
	}
	r->ended = true;
	r->end = now;
	s->live--;
	if (s->call->check &&
	    !contract_runs_hold(&s->contract, rank, r->plan->count, r->buf, text, sizeof(text)))
		time_wrong(s, "rank %d at its end: %s", rank, text);
}

static void
step(struct time_sim *s, int rank, unsigned queue, int64_t now)
{
	struct time_rank *r = &s->rank[rank];
	struct time_queue *q = &r->queue[queue];
	const struct op *op;

	if (q->posting)
		leave(s, rank, queue, now);
	if (q->at == r->plan->queue[queue].n) {
		try_end(s, rank, queue, now);
		return;
	}
	op = &r->plan->queue[queue].ops[q->at];
	switch ((enum op_kind)op->kind) {
	case OP_PUT:
	case OP_SIGNAL:
		post(s, rank, queue, op, now);
		break;
	case OP_WAIT:
		wait_for(s, rank, queue, op, now);
		break;
	case OP_COPY:
	case OP_REDUCE:
	case OP_FOLD:
		local(s, rank, queue, op, now);
		break;
	case OP_FLUSH:
		done(s, rank, queue, later(now, r->sources), NONE);
		break;
	case OP_CALL:
	case OP_KINDS:
		done(s, rank, queue, now, NONE);
		break;
	}
}

/* Runs on until it has to wait, or is so many ops ahead: what leaves early takes memory. */
static void
run_queue(struct time_sim *s, int rank, unsigned queue, int64_t now)
{
	struct time_queue *q = &s->rank[rank].queue[queue];

	for (int n = 0; n < MAX_AHEAD && now != NEVER; n++) {
		q->next = NEVER;
		step(s, rank, queue, now);
		now = q->next;
	}
	if (now != NEVER)
		push_queue(s, now, rank, queue);
}

/* ---- all ---- */

static void
deadlock(struct time_sim *s)
{
	for (int rank = 0; rank < s->size; rank++)
		for (unsigned k = 0; k < MBOX_QUEUES; k++) {
			const struct time_rank *r = &s->rank[rank];
			const struct op *op;

			if (!r->queue[k].blocked)
				continue;
			op = &r->plan->queue[k].ops[r->queue[k].at];
			time_wrong(s,
			           "deadlock: queue %u of rank %d waits for batch %u of rank %d, "
			           "%d ranks have not ended",
			           k, rank, op->n, r->plan->edges[op->edge].rank, s->live);
		}
}

/* All is quiet: every batch had its wait, and the whole its cost. */
static void
look_at_all(struct time_sim *s)
{
	const struct coll_row *row = s->call->row;
	const struct shape *shape = &s->call->shape;
	struct time_result *out = s->out;

	for (uint32_t n = 0; n < s->n_sides; n++)
		if (s->side[n].waited != s->side[n].came)
			time_wrong(s, "rank %d got %u batches of rank %d and waited for %u",
			           s->side[n].rank, s->side[n].came, side_edge(s, n)->rank,
			           s->side[n].waited);
	for (int r = 0; r < s->size; r++) {
		out->total += s->rank[r].blocks;
		if (s->rank[r].blocks > out->blocks)
			out->blocks = s->rank[r].blocks;
		for (unsigned k = 0; k < MBOX_QUEUES; k++)
			if (s->rank[r].queue[k].clock > out->rounds)
				out->rounds = s->rank[r].queue[k].clock;
	}
	if (row->rounds && out->rounds != row->rounds(shape))
		time_wrong(s, "%" PRId64 " rounds, its cost says %" PRId64, out->rounds,
		           row->rounds(shape));
	if (row->blocks && out->blocks != row->blocks(shape))
		time_wrong(s,
		           "a rank has put %" PRId64 " blocks, the cost says %" PRId64 " at most",
		           out->blocks, row->blocks(shape));
	if (row->total && out->total != row->total(shape))
		time_wrong(s, "%" PRId64 " blocks were put, the cost says %" PRId64, out->total,
		           row->total(shape));
}

static void
simulate(struct time_sim *s)
{
	struct event e;

	for (int r = 0; r < s->size; r++)
		for (unsigned k = 0; k < s->rank[r].plan->program->n_queues; k++)
			push_queue(s, 0, r, k);
	while (!s->error && events_pop(&s->events, &e)) {
		if (!(e.order & AFTER_QUEUES))
			run_queue(s, (int)(e.what / MBOX_QUEUES), e.what % MBOX_QUEUES, e.at);
		else if (s->message[e.what].arrives)
			arrive(s, (uint32_t)e.what, e.at);
		else
			ride(s, (uint32_t)e.what, e.at);
	}
	s->out->events = s->events.pushed;
	if (!s->error && s->live)
		deadlock(s);
	if (!s->error)
		look_at_all(s);
	if (!s->error)
		time_look_back(s);
}

int
time_run(const struct time_call *call, struct time_result *out)
{
	struct time_sim s = { .call = call,
		              .out = out,
		              .size = call->shape.size,
		              .live = call->shape.size,
		              .vector = coll_kinds[call->row->op].vector,
		              /* What such a queue uses is its rank's alone, so when it is looked at
		               * makes no difference but to the data that it reads. */
		              .ahead = call->row->program.n_queues == 1 && !call->check,
		              .free_message = NONE };

	*out = (struct time_result){ 0 };
	if (call->fabric->ranks != s.size)
		return fail(ORIEL_EINVAL, "the fabric is laid out for %d ranks, not for %d",
		            call->fabric->ranks, s.size);
	time_make(&s);
	if (!s.error)
		simulate(&s);
	time_fini(&s);
	return s.error;
}
