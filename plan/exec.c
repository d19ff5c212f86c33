/*
 * exec.c - the blocking cpu executor: the queues of a plan on the calling thread.
 *
 * Each op is asked whether it can go, and then does what it does without
 * blocking; a queue whose op cannot go yields to the next queue, and when all
 * are stuck the thread waits, taking in messages from all peers of the plan
 * meanwhile. So a sender without credit still empties its own mailboxes, and
 * credits cannot deadlock.
 */
#include "plan/launch.h"

#include <string.h>

#define SPIN_ROUNDS 1000 /* looks at the awaited word between looks at everything else */
#define SPIN_TIMES 16    /* of those, before ctx_wait takes over */

/* Most payloads of lines are a word or two. */
static inline void
copy_short(void *dst, const void *src, size_t len)
{
	uint64_t first, last;

	if (len - 8 > 8) {
		memcpy(dst, src, len);
		return;
	}
	memcpy(&first, src, 8);
	memcpy(&last, (const char *)src + len - 8, 8);
	memcpy(dst, &first, 8);
	memcpy((char *)dst + len - 8, &last, 8);
}

/* A buffer is cyclic as far as copies are concerned; the plan has checked the others. */
static inline void
take(char *dst, const struct chan_buf *b, size_t off, size_t len)
{
	size_t first = b->size - off;

	if (likely(len <= first)) {
		copy_short(dst, (char *)b->base + off, len);
		return;
	}
	memcpy(dst, (char *)b->base + off, first);
	memcpy(dst + first, b->base, len - first);
}

static inline void
lay(const struct chan_buf *b, size_t off, const char *src, size_t len)
{
	size_t first = b->size - off;

	if (likely(len <= first)) {
		copy_short((char *)b->base + off, src, len);
		return;
	}
	memcpy((char *)b->base + off, src, first);
	memcpy(b->base, src + first, len - first);
}

static inline size_t
wrapped(size_t off, size_t size)
{
	return off >= size ? off - size : off;
}

/* Where the payload of a message goes; false if that is not inside the buffer. */
static inline bool
destination(const struct launch *l, const struct chan *c, struct wire w, size_t *off)
{
	const struct chan_buf *b = &l->buf[w.dst];

	if (unlikely(w.block >= l->plan->count[w.dst]))
		return false;
	*off = w.more ? c->more : w.block * l->block;
	return *off < b->size && w.len <= b->size &&
	       (w.len <= b->size - *off || l->plan->program->buf[w.dst].cyclic);
}

static inline bool
apply(struct launch *l, struct chan *c, const struct mbox *in)
{
	uint64_t slot = c->seen % MBOX_SLOTS;
	const struct mbox_line *line = &in->line[slot];
	struct wire w = wire_unpack(load_relaxed(&line->meta));
	size_t off;

	if (unlikely(w.tag != l->tag || !wire_sane(w))) {
		l->error = blame_message(l, c, load_relaxed(&line->seq), "is in another call");
		return false;
	}
	if (w.len) {
		if (unlikely(!destination(l, c, w, &off))) {
			l->error = blame_message(l, c, load_relaxed(&line->seq),
			                         "names blocks outside the buffer");
			return false;
		}
		lay(&l->buf[w.dst], off, w.kind == WIRE_INLINE ? line->data : in->scratch[slot],
		    w.len);
		c->more = wrapped(off + w.len, l->buf[w.dst].size);
	}
	c->landed += w.last;
	return true;
}

static inline void
count_up(uint64_t *counter)
{
	store_relaxed(counter, load_relaxed(counter) + 1);
}

/* A communicator in its last call leaves debts: the peer's mailbox may be gone when it would be
 * paid. */
static inline bool
owes_credit(const struct chan *c)
{
	return c->seen - c->credited >= MBOX_SLOTS / 2 && likely(!c->comm->closing);
}

static inline bool
owes_ready(const struct launch *l, const struct chan *c)
{
	return l->large && c->expect && c->ready_told != l->call;
}

/* A message of another call lies in the slot. */
static bool
other_call(struct launch *l, struct chan *c, uint64_t seq)
{
	if (mbox_seq_call(seq) > l->call && c->landed >= c->expect)
		return true; /* The peer is done with this call, and so is this rank with the peer.
		              */
	l->error = blame_message(l, c, seq,
	                         mbox_seq_call(seq) > l->call ? "is ahead" : "was left over");
	return false;
}

/* A message that was not taken in yet is there, of whatever call. */
static inline bool
came(const struct chan *c)
{
	return wire_fresh(mbox_peek(c->in, c->seen), c->seen);
}

bool
exec_pump(struct launch *l, struct chan *c)
{
	for (;;) {
		uint64_t seq = mbox_peek(c->in, c->seen);

		if (likely(seq != wire_seq(l->call, c->seen))) {
			if (likely(!wire_fresh(seq, c->seen)))
				return true;
			return other_call(l, c, seq);
		}
		if (unlikely(!apply(l, c, c->in)))
			return false;
		c->seen++;
		c->heard = true;
		count_up(&c->rec->seen);
		if (!owes_credit(c))
			continue;
		if (likely(c->out))
			chan_credit(c);
		else
			l->owed = true;
	}
}

/* Too long for a line and its slot: it goes straight to its place if that can be. */
static inline bool
long_put(const struct launch *l, const struct op *op)
{
	return unlikely(op->n > l->line_blocks);
}

static bool
ready_came(struct launch *l, struct chan *c)
{
	const struct mbox_ready *r = &c->in->ready;
	uint64_t call = load_acquire(&r->call);

	if (call < l->call)
		return false;
	c->heard = true;
	if (call == l->call && r->hash == l->hash)
		return true;
	l->error = blame_ready(l, c);
	return false;
}

static inline bool
can_send(struct launch *l, const struct cursor *cur, struct chan *c)
{
	if (unlikely(!c->connected))
		return chan_reachable(c);
	if (unlikely(!chan_has_credit(c)))
		return false;
	return !long_put(l, cur->op) || ready_came(l, c);
}

static inline bool
can_go(struct launch *l, const struct cursor *cur)
{
	const struct op *op = cur->op;
	struct chan *c;

	if (op->kind > OP_WAIT)
		return true;
	c = l->chan[op->edge];
	if (op->kind != OP_WAIT)
		return can_send(l, cur, c);
	if (c->landed >= op->n)
		return true;
	return came(c) && exec_pump(l, c) && c->landed >= op->n;
}

/* To a peer whose memory is not mapped here. */
static __attribute__((noinline)) int
send_message(struct chan *c, struct wire w, uint64_t seq, const struct chan_buf *src, size_t off)
{
	char payload[MBOX_SCRATCH];

	if (w.len)
		take(payload, src, off, w.len);
	return chan_send(c, wire_pack(w), seq, payload, w.len);
}

static inline int
send_line(struct launch *l, struct chan *c, struct wire w, const struct chan_buf *src, size_t off)
{
	uint64_t seq = wire_seq(l->call, c->sent);
	uint64_t slot = c->sent % MBOX_SLOTS;
	int rc = 0;

	if (likely(c->out)) {
		if (w.len)
			take(w.kind == WIRE_INLINE ? c->out->line[slot].data
			                           : c->out->scratch[slot],
			     src, off, w.len);
		ctx_delay(l->ctx);
		mbox_publish(c->out, c->sent, wire_pack(w), seq);
		ctx_delay(l->ctx);
		wake_after_store(c->wake);
	} else {
		rc = send_message(c, w, seq, src, off);
	}
	c->sent++;
	count_up(&c->rec->sent);
	return rc;
}

/* len bytes from off of the put's source, which is where the line before ended if more. */
static inline int
send_eager(struct launch *l, struct chan *c, const struct op *op, size_t at, size_t len, bool last)
{
	const struct chan_buf *src = &l->buf[op->src];
	struct wire w = {
		.len = (uint32_t)len,
		.kind = len <= MBOX_LINE_DATA ? WIRE_INLINE : WIRE_SCRATCH,
		.dst = op->dst,
		.block = op->i,
		.last = last,
		.more = at > 0,
		.tag = l->tag,
	};

	return send_line(l, c, w, src, wrapped(op->j * l->block + at, src->size));
}

/* Straight into the receiver's buffer, then the line that says so. */
static int
send_placed(struct launch *l, struct chan *c, const struct op *op)
{
	const struct chan_buf *src = &l->buf[op->src], *dst = &l->buf[op->dst];
	struct wire w = { .kind = WIRE_PLACED, .dst = op->dst, .last = op->last, .tag = l->tag };
	size_t from = op->j * l->block, to = op->i * l->block, left = op->n * l->block;
	int rc;

	while (left) {
		size_t n = left;

		if (n > src->size - from)
			n = src->size - from;
		if (n > dst->size - to)
			n = dst->size - to;
		l->unquiet |= !c->out;
		rc = chan_place(c, l->call, op->dst, to, (const char *)src->base + from, n);
		if (rc)
			return rc;
		from = wrapped(from + n, src->size);
		to = wrapped(to + n, dst->size);
		left -= n;
	}
	ctx_delay(l->ctx);
	return send_line(l, c, w, NULL, 0);
}

/* The next line of a put that cannot be placed: cut into pieces that fit a slot. */
static int
send_piece(struct launch *l, struct chan *c, struct cursor *cur)
{
	const struct op *op = cur->op;
	size_t left = op->n * l->block - cur->moved;
	size_t n = left < MBOX_SCRATCH ? left : MBOX_SCRATCH;
	int rc = send_eager(l, c, op, cur->moved, n, op->last && n == left);

	cur->moved += n;
	if (n == left) {
		cur->moved = 0;
		cur->op++;
	}
	return rc;
}

/* Moves cur on when the op is through. */
static inline int
run_send(struct launch *l, struct cursor *cur)
{
	const struct op *op = cur->op;
	struct chan *c = l->chan[op->edge];

	if (unlikely(!c->connected))
		return chan_connect(c);
	if (long_put(l, op)) {
		if (!chan_can_place(c, op->dst))
			return send_piece(l, c, cur);
		cur->op++;
		return send_placed(l, c, op);
	}
	cur->op++;
	return send_eager(l, c, op, 0, op->n * l->block, op->last);
}

static int
flush_sources(struct launch *l)
{
	int rc, first = 0;

	l->unquiet = false;
	if (!l->deadline)
		l->deadline = ctx_call_deadline(l->ctx);
	for (uint32_t e = 0; e < l->plan->n_edges; e++) {
		rc = chan_quiet(l->chan[e], l->deadline);
		if (rc && !first) {
			first = rc;
			l->culprit = l->chan[e]->peer->rank;
		}
	}
	return first;
}

/* Copies between two buffers of this rank, piece by piece where one of them wraps. */
static void
run_local(struct launch *l, const struct op *op)
{
	const struct chan_buf *src = &l->buf[op->src], *dst = &l->buf[op->dst];
	size_t from = op->j * l->block, to = op->i * l->block, left = op->n * l->block;

	while (left) {
		size_t n = left;

		if (n > src->size - from)
			n = src->size - from;
		if (n > dst->size - to)
			n = dst->size - to;
		if (op->kind == OP_COPY)
			memmove((char *)dst->base + to, (char *)src->base + from, n);
		else
			l->binding->reduce((char *)dst->base + to, (char *)src->base + from, n);
		from = wrapped(from + n, src->size);
		to = wrapped(to + n, dst->size);
		left -= n;
	}
}

static inline int
run_op(struct launch *l, struct cursor *cur)
{
	const struct op *op = cur->op;

	switch ((enum op_kind)op->kind) {
	case OP_PUT:
	case OP_SIGNAL:
		return run_send(l, cur);
	case OP_WAIT:
		cur->op++;
		return 0;
	case OP_COPY:
	case OP_REDUCE:
		cur->op++;
		run_local(l, op);
		return 0;
	case OP_CALL:
		cur->op++;
		return op->fn(l->binding->arg, (int)op->i, (int)op->n);
	case OP_FLUSH:
	case OP_KINDS:
		cur->op++;
		return l->unquiet ? flush_sources(l) : 0;
	}
	return 0;
}

/* Until its end, an op that cannot go, or an error. */
static inline int
run_queue(struct launch *l, struct cursor *cur)
{
	while (cur->op < cur->end) {
		struct chan *c = launch_chan(l, cur->op);
		int rc;

		if (!can_go(l, cur))
			return l->error;
		rc = run_op(l, cur);
		if (unlikely(rc)) {
			if (rc == ORIEL_EPEER && c)
				l->culprit = c->peer->rank;
			return rc;
		}
	}
	return 0;
}

/* Tells peers what they are owed, those that can be told. */
static int
settle(struct launch *l)
{
	int rc = 0;

	l->owed = false;
	for (uint32_t e = 0; e < l->plan->n_edges && !rc; e++) {
		struct chan *c = l->chan[e];

		if (!owes_credit(c) && !owes_ready(l, c))
			continue;
		if (!c->connected && chan_reachable(c))
			rc = chan_connect(c);
		if (!c->connected) {
			l->owed = true;
			continue;
		}
		if (!rc && owes_ready(l, c))
			rc = chan_ready(c, l->buf, l->call, l->hash);
		if (!rc && owes_credit(c))
			rc = chan_credit(c);
		if (rc == ORIEL_EPEER)
			l->culprit = c->peer->rank;
	}
	return rc;
}

/* Takes in what came; true if a queue can go on, a peer can be told something, or an error came. */
static bool
stir(void *arg)
{
	struct launch *l = arg;
	bool tell = false;

	for (uint32_t e = 0; e < l->plan->n_edges; e++) {
		struct chan *c = l->chan[e];

		if (unlikely(!c->heard))
			chan_adopt(c);
		if (came(c) && !exec_pump(l, c))
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
		return comm_fail_error(l->comm, word);
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
		return &c->in->line[c->seen % MBOX_SLOTS].seq;
	return chan_has_credit(c) ? &c->in->ready.call : &c->in->credit.consumed;
}

/* True if something has changed for the better. */
static bool
spin(struct launch *l, const struct cursor *cur)
{
	struct chan *c = launch_chan(l, cur->op);

	if (l->ctx->crowded || !c || c->box)
		return false;
	for (unsigned i = 0; i < SPIN_TIMES; i++) {
		const uint64_t *word = awaited(cur, c);
		uint64_t seen = load_relaxed(word);

		/* Looked at before the question, so that what comes after it ends the spinning. */
		if (!can_go(l, cur) && !l->error)
			oriel_spin(l->ctx, word, seen, SPIN_ROUNDS);
		if (can_go(l, cur) || l->error || stir(l))
			return true;
		ctx_progress(l->ctx);
	}
	return false;
}

/* No queue can go on. */
static int
wait_for_peers(struct launch *l)
{
	const struct cursor *cur = stuck_at(l);
	struct chan *c = launch_chan(l, cur->op);
	int rc;

	if (unlikely(l->owed)) {
		rc = settle(l);
		if (rc)
			return rc;
	}
	if (c)
		store_relaxed(&l->rec->wait_peer, c->peer->rank);
	store_relaxed(&l->rec->step, (uint32_t)(cur->op - cur->first));
	if (!spin(l, cur)) {
		if (!l->deadline)
			l->deadline = ctx_call_deadline(l->ctx);
		l->timed = true;
		rc = ctx_wait(l->ctx, stir, doomed, l, l->deadline);
		if (rc == ORIEL_ETIMEDOUT) {
			if (c)
				l->culprit = c->peer->rank;
			return blame_wait(l, cur, rc, "timed out");
		}
		if (rc)
			return rc;
	}
	store_relaxed(&l->rec->wait_peer, -1);
	return l->error;
}

int
exec_run(struct launch *l)
{
	int rc;

	if (unlikely(l->owed)) {
		rc = settle(l);
		if (rc)
			return rc;
	}
	for (;;) {
		bool live = false;

		for (unsigned k = 0; k < l->n_queues; k++) {
			rc = run_queue(l, &l->cur[k]);
			if (unlikely(rc))
				return rc;
			live |= l->cur[k].op < l->cur[k].end;
		}
		if (!live)
			break;
		rc = wait_for_peers(l);
		if (unlikely(rc))
			return rc;
	}
	if (unlikely(l->owed))
		rc = settle(l);
	if (unlikely(l->unquiet && !rc))
		rc = flush_sources(l);
	return rc;
}
