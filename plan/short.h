/*
 * short.h - the short way: messages of calls that are all short, as plan/cache.c
 * worked them out. Whatever is out of the ordinary is left to the long way.
 */
#ifndef PLAN_SHORT_H
#define PLAN_SHORT_H

#include "plan/message.h"

/* False: not sent, and nothing done. */
static inline bool
short_send(struct launch *l, const struct step *st)
{
	struct chan *c = st->c;
	struct mbox *out = c->out;
	uint64_t slot = c->sent % MBOX_SLOTS;

	if (unlikely(!st->plain || !out || !chan_has_credit(c)))
		return false;
	if (st->len)
		copy_short(st->len <= MBOX_LINE_DATA ? out->line[slot].data : out->scratch[slot],
		           l->base[st->src] + st->off, st->len);
	mbox_publish(out, c->sent, st->meta, wire_seq(l->call, c->sent));
	wake_after_store(c->wake);
	c->sent++;
	count_up(&c->rec->sent);
	return true;
}

/* Takes in the next message if it is the one that came the last time. False: it is not. */
static inline bool
short_take(struct launch *l, struct chan *c)
{
	uint64_t slot = c->seen % MBOX_SLOTS;
	const struct mbox_line *line = &c->in->line[slot];
	const struct known *k = &c->known;

	if (load_acquire(&line->seq) != wire_seq(l->call, c->seen) || k->shape != l->shape ||
	    load_relaxed(&line->meta) != k->meta)
		return false;
	if (k->len)
		copy_short(l->base[k->dst] + k->off,
		           k->len <= MBOX_LINE_DATA ? line->data : c->in->scratch[slot], k->len);
	c->landed += k->last;
	c->seen++;
	count_up(&c->rec->seen);
	if (unlikely(owes_credit(c)))
		message_credit(l, c);
	return true;
}

/* An op inside the rank: sources are free once they are sent, so there is nothing to flush. */
static inline bool
short_here(struct launch *l, const struct step *st)
{
	const struct op *op = l->cur[0].first + (st - l->steps[0]);

	if (st->kind == OP_CALL || l->n_queues > 1)
		return false;
	if (st->kind != OP_FLUSH)
		local_run(l, op);
	return true;
}

/* Steps as far as the short way goes; the first that it does not. */
static inline const struct step *
short_steps(struct launch *l, const struct step *st, const struct step *end)
{
	for (; st < end; st++) {
		struct chan *c = st->c;

		if (st->kind < OP_WAIT) {
			if (!short_send(l, st))
				break;
			continue;
		}
		if (st->kind > OP_WAIT) {
			if (unlikely(!short_here(l, st)))
				break;
			continue;
		}
		while (c->landed < st->len)
			if (!short_take(l, c))
				return st;
	}
	return st;
}

/* A queue's ops. True: to its end. */
static inline bool
short_run(struct launch *l, struct cursor *cur, const struct step *steps)
{
	const struct step *end = steps + (cur->end - cur->first);
	const struct step *st = short_steps(l, steps + (cur->op - cur->first), end);

	cur->op = cur->first + (st - steps);
	return st == end;
}

#endif
