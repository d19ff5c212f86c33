/*
 * checker_step.h - what a step does to memory and views.
 *
 * Positions: a location's messages are numbered 0..n-1 in modification order.
 * An insertion shifts the numbers above it in every view; messages that no
 * running thread can read any more are dropped from the front, which shifts
 * them down. So equal situations have equal bytes, and hash alike.
 *
 * Happens-before of plain accesses is a vector clock that travels in the views.
 * Joins through the common fence view, the futex and the pipe carry positions
 * only: no plain access may rely on them.
 */
#ifndef MODEL_CHECKER_STEP_H
#define MODEL_CHECKER_STEP_H

#include "checker_thread.h"

/*
 * ---- Views --------------------------------------------------------------
 */

static void
join(struct view *to, const struct view *from)
{
	unsigned i;

	for (i = 0; i < mc.n_locs; i++)
		if (to->at[i] < from->at[i])
			to->at[i] = from->at[i];
	for (i = 0; i < mc.n_threads; i++)
		if (to->hb[i] < from->hb[i])
			to->hb[i] = from->hb[i];
}

static void
join_positions(struct view *to, const struct view *from)
{
	unsigned i;

	for (i = 0; i < mc.n_locs; i++)
		if (to->at[i] < from->at[i])
			to->at[i] = from->at[i];
}

/* Calls f for every view of the state. */
static void
each_view(struct state *s, void (*f)(struct view *v, unsigned loc, unsigned arg), unsigned loc,
          unsigned arg)
{
	unsigned i, k;

	f(&s->sc, loc, arg);
	for (i = 0; i < FUTEXES; i++)
		f(&s->futex[i], loc, arg);
	for (i = 0; i < PIPES; i++)
		f(&s->pipe[i], loc, arg);
	for (i = 0; i < mc.n_threads; i++) {
		f(&s->thread[i].cur, loc, arg);
		f(&s->thread[i].acq, loc, arg);
		f(&s->thread[i].rel, loc, arg);
	}
	for (i = 0; i < mc.n_locs; i++)
		for (k = 0; k < s->n[i]; k++)
			f(&s->msg[i][k].view, loc, arg);
}

static void
shift_up(struct view *v, unsigned loc, unsigned from)
{
	if (v->at[loc] >= from)
		v->at[loc]++;
}

static void
shift_down(struct view *v, unsigned loc, unsigned by)
{
	v->at[loc] = v->at[loc] > by ? (uint8_t)(v->at[loc] - by) : 0;
}

/* What threads remember of their last look, in positions + 1. */
static void
shift_polled(struct state *s, unsigned loc, unsigned from, int by)
{
	unsigned t, i;

	for (t = 0; t < mc.n_threads; t++)
		for (i = 0; i < s->thread[t].n_polled; i++) {
			uint8_t *at = &s->thread[t].polled_at[i];

			if (s->thread[t].polled[i] != loc || *at < from + 1)
				continue;
			*at = *at + by > 0 ? (uint8_t)(*at + by) : 0;
		}
}

/* Makes room for a message at position at of loc. */
static struct message *
insert(struct state *s, unsigned loc, unsigned at)
{
	struct message *msg = s->msg[loc];

	each_view(s, shift_up, loc, at);
	shift_polled(s, loc, at, 1);
	memmove(msg + at + 1, msg + at, (s->n[loc] - at) * sizeof(*msg));
	memset(msg + at, 0, sizeof(*msg));
	s->n[loc]++;
	return msg + at;
}

/* Drops the messages that nobody can read any more. */
static void
drop_dead(struct state *s)
{
	unsigned loc, t, dead;

	for (loc = 0; loc < mc.n_locs; loc++) {
		dead = s->n[loc] - 1u;
		for (t = 0; t < mc.n_threads; t++)
			if (s->thread[t].next.kind != OP_DONE && s->thread[t].cur.at[loc] < dead)
				dead = s->thread[t].cur.at[loc];
		if (!dead)
			continue;
		memmove(s->msg[loc], s->msg[loc] + dead,
		        (s->n[loc] - dead) * sizeof(struct message));
		s->n[loc] = (uint8_t)(s->n[loc] - dead);
		memset(s->msg[loc] + s->n[loc], 0, dead * sizeof(struct message));
		s->msg[loc][0].attached = false;
		each_view(s, shift_down, loc, dead);
		shift_polled(s, loc, 0, -(int)dead);
	}
}

static void
fence(struct state *s, unsigned t)
{
	struct thread *th = &s->thread[t];

	join(&th->cur, &th->acq);
	join_positions(&th->cur, &s->sc);
	join_positions(&s->sc, &th->cur);
	th->acq = th->rel = th->cur;
}

/*
 * ---- Steps ---------------------------------------------------------------
 */

static uint64_t
masked(uint64_t v, unsigned size)
{
	return size == 4 ? (uint32_t)v : v;
}

static void
read_message(struct state *s, unsigned t, const struct op *op, unsigned at)
{
	struct thread *th = &s->thread[t];
	const struct message *msg = &s->msg[op->where][at];

	th->cur.at[op->where] = (uint8_t)at;
	if (th->acq.at[op->where] < at)
		th->acq.at[op->where] = (uint8_t)at;
	join(&th->acq, &msg->view);
	if (op->order & MODEL_ACQUIRE)
		join(&th->cur, &msg->view);
}

/* A message at position at; from: the one that a read-modify-write read, which is before it. */
static void
write_message(struct state *s, unsigned t, const struct op *op, unsigned at, uint64_t value,
              bool attached)
{
	struct thread *th = &s->thread[t];
	struct message *msg = insert(s, op->where, at);

	msg->value = masked(value, op->size);
	msg->attached = attached;
	th->cur.at[op->where] = (uint8_t)at;
	if (th->acq.at[op->where] < at)
		th->acq.at[op->where] = (uint8_t)at;
	msg->view = op->order & MODEL_RELEASE ? th->cur : th->rel;
	if (attached)
		join(&msg->view, &s->msg[op->where][at - 1].view);
	if (msg->view.at[op->where] < at)
		msg->view.at[op->where] = (uint8_t)at;
}

static uint64_t
rmw_value(const struct op *op, uint64_t old)
{
	switch (op->rmw) {
	case MODEL_ADD:
		return old + op->a;
	case MODEL_OR:
		return old | op->a;
	default:
		return op->a;
	}
}

/* A load, a store, a read-modify-write: choice counts the messages that the view leaves. */
static int
apply_atomic(struct state *s, unsigned t, const struct op *op, unsigned choice, uint64_t *result)
{
	unsigned loc = op->where, n = s->n[loc], at = s->thread[t].cur.at[loc] + choice;
	bool next_attached = at + 1 < n && s->msg[loc][at + 1].attached;
	uint64_t old;

	if (at >= n)
		return -1;
	if (n == MESSAGES && op->kind != OP_LOAD) {
		mc.n_cut++;
		return -1;
	}
	old = s->msg[loc][at].value;
	if (op->kind == OP_STORE) {
		if (next_attached)
			return 0;
		write_message(s, t, op, at + 1, op->a, false);
		return 1;
	}
	*result = old;
	if (op->kind == OP_LOAD || (op->kind == OP_CAS && old != masked(op->a, op->size))) {
		read_message(s, t, op, at);
		return 1;
	}
	if (next_attached)
		return 0;
	read_message(s, t, op, at);
	write_message(s, t, op, at + 1, op->kind == OP_CAS ? op->b : rmw_value(op, old), true);
	return 1;
}

static int
apply_fence_all(struct state *s, unsigned t, unsigned choice)
{
	struct thread *th = &s->thread[t];
	uint8_t everyone = (uint8_t)((1u << mc.n_threads) - 1);

	if (choice >= mc.n_threads)
		return -1;
	if (mc.n_threads > 1 && (choice == t || th->fenced & 1u << choice))
		return 0;
	if (!th->fenced)
		fence(s, t);
	th->fenced |= (uint8_t)(1u << t | 1u << choice);
	fence(s, choice);
	if (th->fenced != everyone)
		return 2;
	fence(s, t);
	th->fenced = 0;
	return 1;
}

static unsigned
futex_index(unsigned loc)
{
	unsigned i;

	for (i = 0; i < mc.n_futexes; i++)
		if (mc.futex[i] == mc.loc[loc].p)
			return i;
	if (i == FUTEXES)
		broken("more than %d futexes", FUTEXES);
	mc.futex[mc.n_futexes++] = mc.loc[loc].p;
	return i;
}

/* The kernel looks at the word with a lock held that every wake-up takes. */
static int
apply_futex_sleep(struct state *s, unsigned t, const struct op *op, unsigned choice)
{
	struct thread *th = &s->thread[t];
	struct view *lock = &s->futex[futex_index(op->where)];
	struct op look = *op;
	unsigned at;

	if (th->asleep)
		return -1;
	join_positions(&th->cur, lock);
	at = th->cur.at[op->where] + choice;
	if (th->woken) {
		th->woken = false;
		return choice ? -1 : 1;
	}
	if (at >= s->n[op->where])
		return -1;
	look.order = MODEL_RELAXED;
	read_message(s, t, &look, at);
	join_positions(lock, &th->cur);
	if (s->msg[op->where][at].value != masked(op->a, 4))
		return 1;
	th->asleep = true;
	return 2;
}

static void
apply_futex_wake(struct state *s, unsigned t, const struct op *op)
{
	struct view *lock = &s->futex[futex_index(op->where)];
	unsigned i;

	join_positions(&s->thread[t].cur, lock);
	join_positions(lock, &s->thread[t].cur);
	for (i = 0; i < mc.n_threads; i++)
		if (s->thread[i].asleep && s->thread[i].next.where == op->where) {
			s->thread[i].asleep = false;
			s->thread[i].woken = true;
		}
}

static int
apply_pipe(struct state *s, unsigned t, const struct op *op)
{
	struct thread *th = &s->thread[t];

	if (op->kind == OP_PIPE_WAIT && !s->pipe_full[op->a])
		return -1;
	join_positions(&th->cur, &s->pipe[op->a]);
	join_positions(&s->pipe[op->a], &th->cur);
	s->pipe_full[op->a] = op->kind == OP_PIPE_WRITE;
	return 1;
}

/* Plain accesses: race-free ones commute with all other steps, so their order is not explored. */
static void
apply_data(struct state *s, unsigned t, const struct op *op, uint64_t *result)
{
	struct cell *c = &s->cell[op->a];
	struct view *cur = &s->thread[t].cur;
	const char *name = mc.cell[op->a].name;
	unsigned i;

	cur->hb[t]++;
	if (c->writer != t && c->write_clock > cur->hb[c->writer])
		violated("%s of %s races with a write of thread %u",
		         op->kind == OP_DATA_READ ? "read" : "write", name, c->writer);
	if (op->kind == OP_DATA_READ) {
		c->read_clock[t] = cur->hb[t];
		*result = c->value;
		return;
	}
	for (i = 0; i < mc.n_threads; i++)
		if (i != t && c->read_clock[i] > cur->hb[i])
			violated("write of %s races with a read of thread %u", name, i);
	c->value = op->b;
	c->writer = (uint8_t)t;
	c->write_clock = cur->hb[t];
}

/* Remembers what a look read; anything else forgets it. */
static void
note_poll(struct thread *th, const struct op *op)
{
	if (!op->in_poll || op->poll_first) {
		memset(th->polled, 0, sizeof(th->polled));
		memset(th->polled_at, 0, sizeof(th->polled_at));
		th->n_polled = 0;
		th->polling = false;
	}
	if (!op->in_poll)
		return;
	if (th->n_polled == POLLED)
		broken("a poll that reads more than %d words", POLLED);
	th->polled[th->n_polled] = op->where;
	th->polled_at[th->n_polled++] = (uint8_t)(th->cur.at[op->where] + 1);
}

/* One step of thread t. -1: no such choice, nor a higher one; 0: not this one; 1: taken. */
static int
apply(struct state *s, unsigned t, unsigned choice, uint64_t *result)
{
	struct thread *th = &s->thread[t];
	struct op op = th->next;
	int done = choice ? -1 : 1;

	*result = 0;
	switch (op.kind) {
	case OP_LOAD:
	case OP_STORE:
	case OP_RMW:
	case OP_CAS:
		done = apply_atomic(s, t, &op, choice, result);
		break;
	case OP_FENCE_ALL:
		done = apply_fence_all(s, t, choice);
		break;
	case OP_FUTEX_SLEEP:
		done = apply_futex_sleep(s, t, &op, choice);
		break;
	case OP_FENCE:
		if (done > 0)
			fence(s, t);
		break;
	case OP_FUTEX_WAKE:
		if (done > 0)
			apply_futex_wake(s, t, &op);
		break;
	case OP_PIPE_WRITE:
	case OP_PIPE_WAIT:
		if (done > 0)
			done = apply_pipe(s, t, &op);
		break;
	case OP_DATA_READ:
	case OP_DATA_WRITE:
		if (done > 0)
			apply_data(s, t, &op, result);
		break;
	default:
		return -1;
	}
	if (done <= 0)
		return done;
	note_poll(th, &op);
	if (done == 2) /* the step goes on */
		return 1;
	if (th->n_history == HISTORY)
		broken("a thread with more than %d steps", HISTORY);
	th->history[th->n_history++] = *result;
	return 1;
}

/* After a look that failed a thread runs again only if one of the words has a newer value. */
static bool
runnable(const struct state *s, unsigned t)
{
	const struct thread *th = &s->thread[t];
	unsigned i;

	if (th->next.kind == OP_DONE || th->asleep)
		return false;
	if (!th->polling || !th->next.poll_first)
		return true;
	for (i = 0; i < th->n_polled; i++)
		if (th->polled_at[i] < s->n[th->polled[i]])
			return true;
	return false;
}

#endif
