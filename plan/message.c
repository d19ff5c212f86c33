#include "plan/message.h"

/* Where the payload of a message goes; false if that is not inside the buffer. */
static inline bool
destination(const struct launch *l, const struct chan *c, struct wire w, size_t *off)
{
	size_t size = l->size[w.dst];

	*off = w.more ? c->more : w.block * l->block;
	return w.block < l->plan->count[w.dst] && *off < size && w.len <= size &&
	       (likely(w.len <= size - *off) || l->plan->program->buf[w.dst].cyclic);
}

/* What the line says, checked, is done. */
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
		lay(l, w.dst, off, w.kind == WIRE_INLINE ? line->data : in->scratch[slot], w.len);
		c->more = wrapped(off + w.len, l->size[w.dst]);
	}
	c->landed += w.last;
	return true;
}

/* A message of another call lies in the slot. */
static bool
other_call(struct launch *l, struct chan *c, uint64_t seq)
{
	bool ahead = mbox_seq_call(seq) > l->call;

	/* The peer may be done with this call, if this rank is with the peer. */
	if (ahead && c->landed >= c->expect)
		return true;
	l->error = blame_message(l, c, seq, ahead ? "is ahead" : "was left over");
	return false;
}

bool
message_pump(struct launch *l, struct chan *c)
{
	for (;;) {
		uint64_t seq = mbox_peek(c->in, c->seen);

		if (seq != wire_seq(l->call, c->seen)) {
			if (likely(!wire_fresh(seq, c->seen)))
				return true;
			return other_call(l, c, seq);
		}
		if (unlikely(!apply(l, c, c->in)))
			return false;
		c->seen++;
		c->heard = true;
		count_up(&c->rec->seen);
		if (owes_credit(c)) {
			if (likely(c->out))
				chan_credit(c);
			else
				l->owed = true;
		}
		if (c->landed == c->expect)
			return true; /* What may lie behind it is another call's. */
	}
}

bool
message_ready(struct launch *l, struct chan *c)
{
	const struct mbox_ready *r = &c->in->ready;
	uint64_t call = load_acquire(&r->call);

	if (call < l->call)
		return false;
	c->heard = true;
	if (call == l->call && load_relaxed(&r->hash) == l->hash)
		return true;
	l->error = blame_ready(l, c);
	return false;
}

bool
message_ready_strange(struct launch *l, struct chan *c)
{
	const struct mbox_ready *r = &c->in->ready;

	if (load_acquire(&r->call) != l->call || load_acquire(&r->hash) == l->hash)
		return false;
	/* The peer may have come to its next call in between. */
	if (load_relaxed(&r->call) != l->call)
		return false;
	l->error = blame_ready(l, c);
	return true;
}

int
message_send_am(struct launch *l, struct chan *c, struct wire w, unsigned src, size_t off)
{
	char payload[MBOX_SCRATCH];
	int rc;

	if (w.len)
		take(l, src, off, payload, w.len);
	rc = chan_send(c, wire_pack(w), wire_seq(l->call, c->sent), payload, w.len);
	c->sent++;
	count_up(&c->rec->sent);
	return rc;
}

/* Straight into the receiver's buffer, then the line that says so. */
static int
send_placed(struct launch *l, struct chan *c, const struct op *op)
{
	struct wire w = { .kind = WIRE_PLACED, .dst = op->dst, .last = op->last, .tag = l->tag };
	size_t from = op->j * l->block, to = op->i * l->block, left = op->n * l->block;
	size_t src_size = l->size[op->src], dst_size = l->size[op->dst];
	int rc;

	l->unquiet |= !c->out;
	while (left) {
		size_t n = left;

		if (n > src_size - from)
			n = src_size - from;
		if (n > dst_size - to)
			n = dst_size - to;
		rc = chan_place(c, l->call, op->dst, to, l->base[op->src] + from, n);
		if (rc)
			return rc;
		from = wrapped(from + n, src_size);
		to = wrapped(to + n, dst_size);
		left -= n;
	}
	ctx_delay(l->ctx);
	return message_send(l, c, w, op->src, 0);
}

/* cur moves on with the last piece. */
int
message_send_long(struct launch *l, struct chan *c, struct cursor *cur)
{
	const struct op *op = cur->op;
	size_t left = op->n * l->block - cur->moved, n = left;
	int rc;

	if (chan_can_place(c, op->dst)) {
		cur->op++;
		return send_placed(l, c, op);
	}
	if (n > MBOX_SCRATCH)
		n = MBOX_SCRATCH;
	rc = message_send_put(l, c, op, cur->moved, n, op->last && n == left);
	cur->moved += n;
	if (n == left) {
		cur->moved = 0;
		cur->op++;
	}
	return rc;
}
