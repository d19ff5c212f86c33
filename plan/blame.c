/*
 * blame.c - what a failed call says: the call, the peer, and what was expected
 * and seen. For a peer of the node its own flight recorder tells what it is in.
 */
#include "plan/launch.h"

#include <stdio.h>
#include <string.h>

/* "allgather/ring, call 7 of communicator 12ab (1024 bytes a block) on rank 3" */
static void
name_call(const struct launch *l, char *text, size_t cap)
{
	snprintf(text, cap, "%s, call %llu of communicator %016llx (%zu bytes a block) on rank %d",
	         l->plan->program->name, (unsigned long long)l->call,
	         (unsigned long long)l->comm->id, l->block, l->ctx->boot.rank);
}

/* The peer's last call on the communicator, as its recorder has it; NULL if it is not mapped here.
 */
static const struct recorder_call *
peers_call(const struct launch *l, const struct chan *c)
{
	const struct recorder *r = c->peer->ctl ? &c->peer->ctl->recorder : NULL;
	const struct recorder_call *best = NULL;

	for (int i = 0; r && i < RECORDER_CALLS; i++) {
		const struct recorder_call *e = &r->call[i];

		if (load_acquire(&e->number) && load_relaxed(&e->comm) == l->comm->id &&
		    (!best || load_relaxed(&e->number) > load_relaxed(&best->number)))
			best = e;
	}
	return best;
}

/* For a message: what the peer says that it does. The peer goes on meanwhile. */
static void
name_peers_call(const struct launch *l, const struct chan *c, char *text, size_t cap)
{
	const struct recorder_call *e = peers_call(l, c);
	uint64_t name[sizeof(e->name) / sizeof(uint64_t)];

	text[0] = '\0';
	if (!e)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(name); i++)
		name[i] = load_relaxed((const uint64_t *)(const void *)e->name + i);
	snprintf(text, cap, "; rank %d's last call there is %llu, %.*s of %llu bytes a block",
	         c->peer->rank, (unsigned long long)load_relaxed(&e->call), (int)sizeof(name) - 1,
	         (const char *)name, (unsigned long long)load_relaxed(&e->bytes));
}

static const char *
awaited_thing(const struct op *op, const struct chan *c)
{
	if (op->kind == OP_WAIT)
		return "a batch from";
	if (!c->connected)
		return "the communicator to be made by";
	return chan_has_credit(c) ? "the buffers of" : "credit from";
}

int
blame_wait(struct launch *l, const struct cursor *cur, int code, const char *what)
{
	const struct chan *c = launch_chan(l, cur->op);
	char call[160], cause[200];
	uint64_t word;

	snprintf(cause, sizeof(cause), "%s", what); /* what may be the detail itself */
	name_call(l, call, sizeof(call));
	if (!c)
		return fail(code, "%s: %s in op %td of %td", call, cause, cur->op - cur->first + 1,
		            cur->end - cur->first);
	word = mbox_peek(c->in, c->seen);
	return fail(code,
	            "%s: waits for %s rank %d (op %td of %td): expected batch %u of this call, "
	            "seen %u; last word in the mailbox: call %llu; %llu sent, %llu credited: %s",
	            call, awaited_thing(cur->op, c), c->peer->rank, cur->op - cur->first + 1,
	            cur->end - cur->first, cur->op->kind == OP_WAIT ? cur->op->n : c->expect,
	            c->landed, (unsigned long long)mbox_seq_call(word), (unsigned long long)c->sent,
	            (unsigned long long)load_relaxed(&c->in->credit.consumed), cause);
}

int
blame_stand(struct launch *l, int rc)
{
	char call[160], cause[200];

	for (unsigned k = 0; k < l->n_queues; k++)
		if (l->cur[k].op < l->cur[k].end)
			return blame_wait(l, &l->cur[k], rc, oriel_detail());
	snprintf(cause, sizeof(cause), "%s", oriel_detail());
	name_call(l, call, sizeof(call));
	return fail(rc, "%s: all ops are through: %s", call, cause);
}

int
blame_message(struct launch *l, const struct chan *c, uint64_t seq, const char *what)
{
	struct wire w = wire_unpack(load_relaxed(&c->in->line[c->seen % MBOX_SLOTS].meta));
	char call[160], theirs[120];

	name_call(l, call, sizeof(call));
	name_peers_call(l, c, theirs, sizeof(theirs));
	l->culprit = c->peer->rank;
	return fail(ORIEL_EMISMATCH,
	            "%s: message %llu of rank %d %s: expected tag %04x, batch %u of %u, seen call "
	            "%llu, tag %04x, %u bytes%s",
	            call, (unsigned long long)c->seen, c->peer->rank, what, l->tag, c->landed,
	            c->expect, (unsigned long long)mbox_seq_call(seq), w.tag, w.len, theirs);
}

int
blame_ready(struct launch *l, const struct chan *c)
{
	char call[160], theirs[120];

	name_call(l, call, sizeof(call));
	name_peers_call(l, c, theirs, sizeof(theirs));
	l->culprit = c->peer->rank;
	return fail(ORIEL_EMISMATCH,
	            "%s: rank %d offers buffers of another call: expected hash %016llx, seen call "
	            "%llu, hash %016llx%s",
	            call, c->peer->rank, (unsigned long long)l->hash,
	            (unsigned long long)load_relaxed(&c->in->ready.call),
	            (unsigned long long)load_relaxed(&c->in->ready.hash), theirs);
}

int
blame_length(struct launch *l, const struct chan *c, size_t sent, bool more, size_t expected)
{
	char call[160];

	name_call(l, call, sizeof(call));
	l->culprit = c->peer->rank;
	return fail(ORIEL_EMISMATCH,
	            "%s: of a block between it and rank %d, %zu bytes%s were sent and %zu expected",
	            call, c->peer->rank, sent, more ? " or more" : "", expected);
}
