#include "plan/message.h"

/* Where the payload of a message goes; false if that is not inside the buffer. */
static inline bool
destination(const struct launch *l, const struct chan *c, struct wire w, size_t *off)
{
	size_t size = l->size[w.dst];

	/* A block that is cut off has no bytes: those after it begin at the front. */
	*off = w.more ? c->more : wrapped(block_off(l, w.dst, w.block), size);
	return w.block < l->plan->count[w.dst] && *off < size && w.len <= size &&
	       (likely(w.len <= size - *off) || l->plan->program->buf[w.dst].cyclic);
}

/* The same where blocks may be anywhere: a message brings bytes of one block. */
static bool
lay_ragged(struct launch *l, struct chan *c, struct wire w, const char *data)
{
	size_t at = w.more ? c->more : 0, left = w.len, total, n;
	char *to;

	if (w.block >= l->plan->count[w.dst])
		return false;
	total = w.dst == TMP ? l->block : layout_len(layout_of(l, w.dst), w.block);
	if (at > total || w.len > total - at) {
		l->error = blame_length(l, c, at + w.len, w.len == MBOX_SCRATCH, total);
		return false;
	}
	for (; left; left -= n) {
		n = ragged_run(l, w.dst, w.block, at, left, &to);
		copy_bytes(to, data, n);
		data += n;
		at += n;
	}
	c->more = at;
	c->got += w.len;
	return true;
}

/* For plan/short.h. */
static inline void
learn(const struct launch *l, struct chan *c, struct wire w, size_t off)
{
	c->known = (struct known){ .meta = wire_pack(w),
		                   .shape = l->shape,
		                   .off = off,
		                   .len = w.len,
		                   .dst = w.dst,
		                   .last = w.last };
}

static bool
lay_down(struct launch *l, struct chan *c, struct wire w, const char *data)
{
	size_t off;

	if (unlikely(l->ragged))
		return lay_ragged(l, c, w, data);
	if (unlikely(!destination(l, c, w, &off)))
		return false;
	lay(l, w.dst, off, data, w.len);
	c->more = wrapped(off + w.len, l->size[w.dst]);
	/* One that is not the last of its batch may be followed by more of the same put. */
	if (w.last && !w.more && w.len <= l->size[w.dst] - off)
		learn(l, c, w, off);
	return true;
}

/* What the line says, checked, is done. */
static inline bool
apply(struct launch *l, struct chan *c, const struct mbox *in)
{
	uint64_t slot = c->seen % MBOX_SLOTS;
	const struct mbox_line *line = &in->line[slot];
	struct wire w = wire_unpack(load_relaxed(&line->meta));

	if (unlikely(w.tag != l->tag || !wire_sane(w))) {
		l->error = blame_message(l, c, load_relaxed(&line->seq), "is in another call");
		return false;
	}
	if (!w.len && w.kind != WIRE_PLACED)
		learn(l, c, w, 0);
	if (w.len &&
	    unlikely(!lay_down(l, c, w, w.kind == WIRE_INLINE ? line->data : in->scratch[slot]))) {
		if (!l->error)
			l->error = blame_message(l, c, load_relaxed(&line->seq),
			                         "names blocks outside the buffer");
		return false;
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

void
message_credit(struct launch *l, struct chan *c)
{
	if (likely(c->out))
		chan_credit(c);
	else
		l->owed = true;
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
		if (owes_credit(c))
			message_credit(l, c);
		if (c->landed == c->expect)
			return true; /* What may lie behind it is another call's. */
	}
}

/* The peer is ready for puts into its buffers; false also on an error. */
static bool
is_ready(struct launch *l, struct chan *c)
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

/* Bytes of the put, or of its block, that cur is at. */
static inline size_t
next_len(const struct launch *l, const struct cursor *cur)
{
	const struct op *op = cur->op;
	uint32_t i, j;

	if (likely(!l->ragged))
		return op_len(l, op);
	if (op->kind == OP_SIGNAL)
		return 0;
	i = (op->i + cur->block) % l->plan->count[op->dst];
	j = (op->j + cur->block) % l->plan->count[op->src];
	return ragged_len(l, op->dst, i, op->src, j);
}

/*
 * What fits into a slot's scratch need not wait for the receiver's word, but a
 * copy straight into its buffer is one copy less: so the word is waited for if
 * the buffers were mapped the last time.
 */
bool
message_may_go(struct launch *l, const struct cursor *cur, struct chan *c)
{
	size_t len = next_len(l, cur);

	if (len <= l->at_once || cur->moved)
		return true;
	if (is_ready(l, c))
		return true;
	return !l->error && !chan_is_mapped(c, cur->op->dst) &&
	       len <= chan_eager_max(c, l->streams);
}

/* The block of OUT that is the peer's to write, where each rank knows its own sizes only. */
static uint32_t
own_block(const struct launch *l, const struct chan *c)
{
	return l->plan->count[OUT] == 1 ? 0 : (uint32_t)c->rank;
}

bool
message_wants_ready(const struct launch *l, const struct chan *c)
{
	const struct layout *out = &l->ragged->out;

	return !out->own || layout_len(out, own_block(l, c)) > l->at_once;
}

int
message_say_ready(struct launch *l, struct chan *c)
{
	char *base[MBOX_BUFS] = { NULL, l->base[OUT], l->base[TMP] };
	size_t size[MBOX_BUFS] = { 0, l->size[OUT], l->size[TMP] }, limit = 0;
	const struct layout *out = l->ragged ? &l->ragged->out : NULL;

	if (out && !layout_placeable(out)) {
		size[OUT] = 0;
	} else if (out && out->own) {
		/* Of the peer's block alone. */
		limit = size[OUT] = layout_len(out, own_block(l, c));
		layout_run(out, own_block(l, c), 0, limit, &base[OUT]);
	} else if (out) {
		base[OUT] = out->base;
		size[OUT] = l->ragged->extent;
	}
	return chan_ready(c, base, size, limit, l->call, l->hash);
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

/* A line by message. */
static int
publish_am(struct launch *l, struct chan *c, struct wire w, const char *payload)
{
	int rc = chan_send(c, wire_pack(w), wire_seq(l->call, c->sent), payload, w.len);

	c->sent++;
	count_up(&c->rec->sent);
	return rc;
}

int
message_send_am(struct launch *l, struct chan *c, struct wire w, unsigned src, size_t off)
{
	char payload[MBOX_SCRATCH];

	if (w.len)
		take(l, src, off, payload, w.len);
	return publish_am(l, c, w, payload);
}

/* Straight into the receiver's buffer, then the line that says so. */
static int
send_placed(struct launch *l, struct chan *c, const struct op *op, size_t left)
{
	struct wire w = { .kind = WIRE_PLACED, .dst = op->dst, .last = op->last, .tag = l->tag };
	size_t src_size = l->size[op->src], dst_size = l->size[op->dst];
	size_t from = wrapped(block_off(l, op->src, op->j), src_size);
	size_t to = wrapped(block_off(l, op->dst, op->i), dst_size);
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

/* The receiver's word is here, and a copy into its buffer is possible and no slower. */
static bool
should_place(const struct launch *l, struct chan *c, unsigned dst, size_t len)
{
	return load_acquire(&c->in->ready.call) == l->call &&
	       chan_should_place(c, dst, len, l->streams);
}

static size_t
piece_len(size_t left)
{
	return left < MBOX_SCRATCH ? left : MBOX_SCRATCH;
}

/* cur moves on with the last piece. */
int
message_send_long(struct launch *l, struct chan *c, struct cursor *cur, size_t len)
{
	const struct op *op = cur->op;
	size_t left = len - cur->moved, n = piece_len(left);
	int rc;

	if (!cur->moved && should_place(l, c, op->dst, len)) {
		cur->op++;
		return send_placed(l, c, op, len);
	}
	rc = message_send_put(l, c, op, cur->moved, n, op->last && n == left);
	cur->moved += n;
	if (n == left) {
		cur->moved = 0;
		cur->op++;
	}
	return rc;
}

/* ---- Blocks anywhere ---- */

static void
fetch(const struct launch *l, unsigned buf, uint32_t block, size_t at, char *dst, size_t len)
{
	char *from;
	size_t n;

	for (; len; len -= n) {
		n = ragged_run(l, buf, block, at, len, &from);
		copy_bytes(dst, from, n);
		dst += n;
		at += n;
	}
}

/* One line with w.len bytes of a block. */
static int
send_piece(struct launch *l, struct chan *c, struct wire w, unsigned src, uint32_t j, size_t at)
{
	char payload[MBOX_SCRATCH];

	w.kind = w.len <= MBOX_LINE_DATA ? WIRE_INLINE : WIRE_SCRATCH;
	if (!c->out) {
		fetch(l, src, j, at, payload, w.len);
		return publish_am(l, c, w, payload);
	}
	fetch(l, src, j, at, message_room(c, w), w.len);
	message_publish(l, c, w);
	return 0;
}

static int
place_block(struct launch *l, struct chan *c, struct wire w, const struct op *op, uint32_t j,
            size_t len)
{
	const struct layout *y = op->dst == OUT ? &l->ragged->out : NULL;
	size_t to = 0, n;
	char *from;
	int rc;

	if (y && y->own && chan_limit(c) != len)
		return blame_length(l, c, len, false, chan_limit(c));
	if (!y)
		to = w.block * l->block;
	else if (!y->own)
		to = y->kind == LAYOUT_STRIDED ? w.block * y->stride : y->offs[w.block];
	l->unquiet |= !c->out;
	for (size_t at = 0; at < len; at += n) {
		n = ragged_run(l, op->src, j, at, len - at, &from);
		rc = chan_place(c, l->call, op->dst, to + at, from, n);
		if (rc)
			return rc;
	}
	w.kind = WIRE_PLACED;
	ctx_delay(l->ctx);
	return message_send(l, c, w, op->src, 0);
}

int
message_send_ragged(struct launch *l, struct chan *c, struct cursor *cur)
{
	const struct op *op = cur->op;
	const uint32_t *count = l->plan->count;
	struct wire w = { .dst = op->dst, .last = op->last, .tag = l->tag };
	size_t len = next_len(l, cur), left = len - cur->moved, n = piece_len(left);
	uint32_t j = 0;
	bool placed;
	int rc;

	if (op->kind == OP_PUT) {
		w.block = (op->i + cur->block) % count[op->dst];
		j = (op->j + cur->block) % count[op->src];
		w.last = op->last && cur->block + 1 == op->n;
	}
	placed = len > l->at_once && !cur->moved && should_place(l, c, op->dst, len);
	if (placed) {
		n = left;
		rc = place_block(l, c, w, op, j, len);
	} else {
		w.last &= n == left;
		w.more = cur->moved > 0;
		w.len = (uint32_t)n;
		rc = send_piece(l, c, w, op->src, j, cur->moved);
	}
	cur->moved += n;
	if (cur->moved < len)
		return rc;
	cur->moved = 0;
	if (op->kind == OP_SIGNAL || ++cur->block >= op->n) {
		cur->block = 0;
		cur->op++;
	}
	return rc;
}

int
message_check_length(struct launch *l, struct chan *c)
{
	size_t expected;

	if (!c->expect)
		return 0;
	expected = layout_len(&l->ragged->out, own_block(l, c));
	/* What was placed was as long as it had to be, and was not counted. */
	if (c->got == expected || (!c->got && expected > l->at_once))
		return 0;
	return blame_length(l, c, c->got, false, expected);
}
