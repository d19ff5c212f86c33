/*
 * exec.c - the cpu executor: the queues of a plan, by one thread at a time.
 *
 * Each op is asked whether it can go, and then does what it does without
 * blocking; a queue whose op cannot go yields to the next queue. exec_advance
 * stops when all are stuck. exec_run waits then, taking in messages from all
 * peers of the plan meanwhile, and advancing what else the context has under way
 * (rma/task.h). So a sender without credit still empties its own mailboxes, and
 * neither credits nor other calls can deadlock.
 */
#include "plan/local.h"
#include "plan/message.h"
#include "plan/short.h"

#define SPIN_ROUNDS 4000 /* before ctx_wait takes over */
#define SPIN_SHORT 32    /* rounds between looks at everything, where more than one word matters */

/* ---- May the op go? ---- */

static inline bool
can_send(struct launch *l, const struct cursor *cur, struct chan *c)
{
	if (unlikely(!c->connected))
		return chan_reachable(c);
	if (unlikely(!chan_has_credit(c)))
		return false;
	return likely(!l->large) || message_may_go(l, cur, c);
}

static inline bool
has_come(struct launch *l, const struct op *op, struct chan *c)
{
	if (c->landed >= op->n || (short_take(l, c) && c->landed >= op->n))
		return true;
	return message_came(c) && message_pump(l, c) && c->landed >= op->n;
}

static bool
can_go(struct launch *l, const struct cursor *cur)
{
	const struct op *op = cur->op;

	if (op->kind > OP_WAIT)
		return true;
	if (op->kind == OP_WAIT)
		return has_come(l, op, l->chan[op->edge]);
	return can_send(l, cur, l->chan[op->edge]);
}

/* A failed peer is found where it is dealt with; any other error is this rank's own. */
static int
found_at(struct launch *l, const struct chan *c, int rc)
{
	if (rc == ORIEL_EPEER)
		l->culprit = c->peer->rank;
	return rc;
}

/* The same of op, which cur may have left: says where this rank stands. */
static int
found_in(struct launch *l, const struct cursor *cur, const struct op *op, int rc)
{
	struct cursor at = *cur;

	at.op = op;
	rc = found_at(l, launch_chan(l, op), rc);
	return rc == ORIEL_EPEER ? blame_wait(l, &at, rc, oriel_detail()) : rc;
}

/* ---- What ops do ---- */

static int
flush_sources(struct launch *l)
{
	int rc, first = 0;

	l->unquiet = false;
	if (!l->deadline)
		l->deadline = ctx_call_deadline(l->ctx);
	for (uint32_t e = 0; e < l->plan->n_edges; e++) {
		rc = found_at(l, l->chan[e], chan_quiet(l->chan[e], l->deadline));
		first = first ? first : rc;
	}
	return first == ORIEL_EPEER ? blame_stand(l, first) : first;
}

/* cur moves on when the op is through. */
static inline int
run_send(struct launch *l, struct cursor *cur, struct chan *c)
{
	const struct op *op = cur->op;
	size_t len;

	if (unlikely(!c->connected))
		return chan_connect(c);
	if (unlikely(l->ragged))
		return message_send_ragged(l, c, cur);
	len = op_len(l, op);
	if (unlikely(len > l->at_once))
		return message_send_long(l, c, cur, len);
	cur->op++;
	return message_send_put(l, c, op, 0, len, op->last);
}

static int
run_here(struct launch *l, const struct op *op)
{
	switch ((enum op_kind)op->kind) {
	case OP_COPY:
	case OP_REDUCE:
	case OP_FOLD:
		local_run(l, op);
		return 0;
	case OP_CALL:
		return op->fn(l->binding->arg, (int)op->i, (int)op->n);
	case OP_FLUSH:
		return l->unquiet ? flush_sources(l) : 0;
	default:
		return 0;
	}
}

/* The common wait: one look away, and nobody else of this rank has anything to do meanwhile. */
static inline bool
comes_soon(struct launch *l, const struct op *op, struct chan *c)
{
	if (l->patient || l->n_queues > 1 || l->owed || l->error || l->ctx->crowded || c->box)
		return false;
	message_spin(l, c);
	return has_come(l, op, c);
}

static inline const struct step *
step_of(const struct launch *l, const struct cursor *cur)
{
	return &l->steps[cur - l->cur][cur->op - cur->first];
}

/* Until its end, an op that cannot go, or an error. */
static int
run_queue(struct launch *l, struct cursor *cur)
{
	while (cur->op < cur->end) {
		const struct op *op = cur->op;
		struct chan *c;
		int rc;

		if (op->kind > OP_WAIT) {
			cur->op++;
			rc = run_here(l, op);
			if (unlikely(rc))
				return rc;
			continue;
		}
		c = l->chan[op->edge];
		if (op->kind == OP_WAIT) {
			if (!has_come(l, op, c) && !comes_soon(l, op, c))
				return l->error;
			cur->op++;
			continue;
		}
		if (l->steps[0] && short_send(l, step_of(l, cur))) {
			cur->op++;
			continue;
		}
		if (!can_send(l, cur, c))
			return l->error;
		rc = run_send(l, cur, c);
		if (unlikely(rc))
			return found_in(l, cur, op, rc);
	}
	return 0;
}

/* All queues, once. *live: one is not at its end. */
static inline int
run_queues(struct launch *l, bool *live)
{
	*live = false;
	for (unsigned k = 0; k < l->n_queues; k++) {
		int rc;

		if (likely(l->steps[0]) && short_run(l, &l->cur[k], l->steps[k]))
			continue;
		rc = run_queue(l, &l->cur[k]);
		if (unlikely(rc))
			return rc;
		*live |= l->cur[k].op < l->cur[k].end;
	}
	return 0;
}

/* ---- What peers are owed ---- */

static inline bool
owes_ready(const struct launch *l, const struct chan *c)
{
	return l->large && c->expect && c->ready_told != l->call;
}

/* Tells the peer what it is owed, if it can be told. */
static int
settle_with(struct launch *l, struct chan *c)
{
	int rc = 0;

	if (!owes_credit(c) && !owes_ready(l, c))
		return 0;
	if (!c->connected && chan_reachable(c))
		rc = chan_connect(c);
	if (rc)
		return rc;
	if (!c->connected) {
		l->owed = true;
		return 0;
	}
	if (owes_ready(l, c))
		rc = message_say_ready(l, c);
	if (!rc && owes_credit(c))
		rc = chan_credit(c);
	return rc;
}

static int
settle(struct launch *l)
{
	int rc = 0;

	l->owed = false;
	for (uint32_t e = 0; e < l->plan->n_edges && !rc; e++)
		rc = found_at(l, l->chan[e], settle_with(l, l->chan[e]));
	return rc == ORIEL_EPEER ? blame_stand(l, rc) : rc;
}

/* ---- Waiting ---- */

/* Takes in what came; true if a queue can go on, a peer can be told something, or an error came. */
static bool
stir(void *arg)
{
	struct launch *l = arg;
	bool tell = false;

	tasks_turn(l->ctx);
	for (uint32_t e = 0; e < l->plan->n_edges; e++) {
		struct chan *c = l->chan[e];

		if (unlikely(!c->heard))
			chan_adopt(c);
		if (message_came(c) && !message_pump(l, c))
			return true;
		if (message_ready_strange(l, c))
			return true;
		if (l->owed && !tell && (owes_credit(c) || owes_ready(l, c)))
			tell = chan_reachable(c);
	}
	for (unsigned k = 0; k < l->n_queues; k++)
		if (l->cur[k].op < l->cur[k].end && (can_go(l, &l->cur[k]) || l->error))
			return true;
	return tell;
}

static int
doomed(void *arg)
{
	struct launch *l = arg;
	uint64_t word = comm_failed(l->comm);

	if (word)
		return blame_told(l, word);
	for (unsigned k = 0; k < l->n_queues; k++) {
		const struct cursor *cur = &l->cur[k];
		struct chan *c = cur->op < cur->end ? launch_chan(l, cur->op) : NULL;

		if (!c)
			continue;
		peer_watch(c->peer);
		if (peer_failed(c->peer)) {
			l->culprit = c->peer->rank;
			peer_error(c->peer);
			return blame_wait(l, cur, ORIEL_EPEER, oriel_detail());
		}
	}
	return 0;
}

/* The first queue that is not at its end. */
static const struct cursor *
stuck_at(const struct launch *l)
{
	for (unsigned k = 0; k < l->n_queues; k++)
		if (l->cur[k].op < l->cur[k].end)
			return &l->cur[k];
	return &l->cur[0];
}

/* The word that changes when the op can go. */
static const uint64_t *
awaited(const struct cursor *cur, const struct chan *c)
{
	if (cur->op->kind == OP_WAIT)
		return message_word(c);
	return chan_has_credit(c) ? &c->in->ready.call : &c->in->credit.consumed;
}

/*
 * How long nothing but the awaited word may be looked at. A rank that waits for
 * credit may be all that its peer is waiting for, with messages for it in its mailbox,
 * and so may one with several queues or peers.
 */
static inline unsigned
spin_rounds(const struct launch *l, const struct cursor *cur)
{
	return cur->op->kind == OP_WAIT && l->n_queues == 1 && l->plan->n_edges == 1
	               ? MESSAGE_SPIN_ROUNDS
	               : SPIN_SHORT;
}

/* True if something has changed for the better. */
static bool
spin(struct launch *l, const struct cursor *cur)
{
	struct chan *c = launch_chan(l, cur->op);
	unsigned rounds = spin_rounds(l, cur);

	if (l->ctx->crowded || !c || c->box)
		return false;
	for (unsigned spun = 0; spun < SPIN_ROUNDS;) {
		const uint64_t *word = awaited(cur, c);
		uint64_t seen = load_relaxed(word);

		/* Looked at before the question, so that what comes after it ends the spinning. */
		if (can_go(l, cur) || l->error)
			return true;
		/* A part has come of what it waits for: the word has had its change. */
		if (awaited(cur, c) != word)
			continue;
		oriel_spin(l->ctx, word, seen, rounds);
		spun += rounds;
		if (load_relaxed(word) != seen)
			continue;
		if (stir(l))
			return true;
		ctx_progress(l->ctx);
	}
	return false;
}

/* What a look from outside finds in the recorder. */
static void
record_wait(const struct launch *l, const struct cursor *cur)
{
	const struct chan *c = launch_chan(l, cur->op);

	store_relaxed(&l->rec->wait_peer, c ? c->peer->rank : -1);
	store_relaxed(&l->rec->step, (uint32_t)(cur->op - cur->first));
}

static int
timed_out(struct launch *l, const struct cursor *cur)
{
	const struct chan *c = launch_chan(l, cur->op);

	if (c)
		l->culprit = c->peer->rank;
	return blame_wait(l, cur, ORIEL_ETIMEDOUT, "timed out");
}

/* No queue can go on. */
static int
wait_for_peers(struct launch *l)
{
	const struct cursor *cur = stuck_at(l);
	int rc;

	if (unlikely(l->owed)) {
		rc = settle(l);
		if (rc)
			return rc;
	}
	record_wait(l, cur);
	if (!spin(l, cur)) {
		if (!l->deadline)
			l->deadline = ctx_call_deadline(l->ctx);
		l->timed = true;
		rc = ctx_wait(l->ctx, stir, doomed, l, l->deadline);
		if (rc)
			return rc == ORIEL_ETIMEDOUT ? timed_out(l, cur) : rc;
	}
	store_relaxed(&l->rec->wait_peer, -1);
	return l->error;
}

/* All ops are through. */
static inline int
finish(struct launch *l)
{
	int rc = 0;

	if (unlikely(l->owed))
		rc = settle(l);
	if (unlikely(l->unquiet && !rc))
		rc = flush_sources(l);
	return rc;
}

int
exec_run(struct launch *l)
{
	bool live = true;
	int rc = unlikely(l->owed) ? settle(l) : 0;

	for (;;) {
		if (likely(!rc))
			rc = run_queues(l, &live);
		if (unlikely(rc))
			return rc;
		if (!live)
			return finish(l);
		rc = wait_for_peers(l);
	}
}

int
exec_try(struct launch *l, bool *done)
{
	bool live = true;
	int rc = unlikely(l->owed) ? settle(l) : 0;

	if (likely(!rc))
		rc = run_queues(l, &live);
	*done = !live;
	return live || rc ? rc : finish(l);
}

/* Looked at in every round of whoever waits, so it is short where nothing is wrong. */
static int
look_for_trouble(struct launch *l, const struct cursor *cur)
{
	uint64_t now;

	if (unlikely(l->ctx->expelled))
		return ctx_enter(l->ctx);
	if (unlikely(comm_failed(l->comm)) || unlikely(load_acquire(&l->ctx->failed_peers) != NULL))
		return doomed(l);
	if (!l->deadline) {
		l->deadline = ctx_call_deadline(l->ctx);
		record_wait(l, cur);
	}
	if (likely(l->deadline == ORIEL_FOREVER))
		return 0;
	now = now_ns();
	return now >= l->deadline ? timed_out(l, cur) : 0;
}

int
exec_advance(struct launch *l, bool *done)
{
	const struct cursor *cur;
	bool live;
	int rc = unlikely(l->owed) ? settle(l) : 0;

	*done = false;
	if (likely(!rc))
		rc = run_queues(l, &live);
	if (unlikely(rc))
		return rc;
	if (!live) {
		*done = true;
		return finish(l);
	}
	/* In the order of message_pump's and stir's: messages of all peers, not only the awaited.
	 */
	for (uint32_t e = 0; e < l->plan->n_edges; e++) {
		struct chan *c = l->chan[e];

		if (unlikely(!c->heard))
			chan_adopt(c);
		if (message_came(c) && !message_pump(l, c))
			return l->error;
		if (unlikely(message_ready_strange(l, c)))
			return l->error;
	}
	cur = stuck_at(l);
	return look_for_trouble(l, cur);
}

void
exec_watch(struct launch *l)
{
	for (unsigned k = 0; k < l->n_queues; k++) {
		const struct cursor *cur = &l->cur[k];
		struct chan *c = cur->op < cur->end ? launch_chan(l, cur->op) : NULL;

		if (c)
			peer_watch(c->peer);
	}
}
