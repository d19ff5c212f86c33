/*
 * message.h - lines of a running call: how they leave and how they are taken in.
 *
 * The short ways are here, to be inlined; message.c has the rest.
 */
#ifndef PLAN_MESSAGE_H
#define PLAN_MESSAGE_H

#include "base/copy.h"
#include "plan/local.h"

#include <string.h>

/* Takes in what has come of this call over the channel. False: l->error is set. */
bool message_pump(struct launch *l, struct chan *c);
/* A call with long puts: the next message can be sent as things are. False also on an error,
 * l->error. */
bool message_may_go(struct launch *l, const struct cursor *cur, struct chan *c);
/* The peer's puts of this call wait for this rank's word, if it is in ragged. */
bool message_wants_ready(const struct launch *l, const struct chan *c);
int message_say_ready(struct launch *l, struct chan *c);
/* The peer is ready for another call by this one's number: l->error. */
bool message_ready_strange(struct launch *l, struct chan *c);
/* To a peer whose memory is not mapped here. off: in the op's source. */
int message_send_am(struct launch *l, struct chan *c, struct wire w, unsigned src, size_t off);
/* A put of len bytes, straight into the receiver's buffer, or its next piece where that cannot be
 * reached. */
int message_send_long(struct launch *l, struct chan *c, struct cursor *cur, size_t len);
/* The next block of a put, or its next piece, of buffers whose blocks may be anywhere; a signal. */
int message_send_ragged(struct launch *l, struct chan *c, struct cursor *cur);
/* At the end of a call whose ranks know only their own sizes: the peer has sent what was expected.
 */
int message_check_length(struct launch *l, struct chan *c);

/* Tells the peer how much was taken in, now or when it can be told. */
void message_credit(struct launch *l, struct chan *c);

#define MESSAGE_SPIN_ROUNDS 1000 /* looks at the awaited word between looks at everything else */

/* The word of the next message, which changes when it comes. */
static inline const uint64_t *
message_word(const struct chan *c)
{
	return &c->in->line[c->seen % MBOX_SLOTS].seq;
}

/* A message that was not taken in yet is there, of whatever call. */
static inline bool
message_came(const struct chan *c)
{
	return wire_fresh(mbox_peek(c->in, c->seen), c->seen);
}

/* A while for it, if it is not there, without anything else. */
static inline void
message_spin(const struct launch *l, const struct chan *c)
{
	const uint64_t *word = message_word(c);
	uint64_t seen = load_relaxed(word);

	if (!wire_fresh(seen, c->seen))
		oriel_spin(l->ctx, word, seen, MESSAGE_SPIN_ROUNDS);
}

/* A communicator in its last call leaves debts: the peer's mailbox may be gone when it would be
 * paid. */
static inline bool
owes_credit(const struct chan *c)
{
	return c->seen - c->credited >= MBOX_SLOTS / 2 && likely(!c->comm->closing);
}

static inline void
count_up(uint64_t *counter)
{
	store_relaxed(counter, load_relaxed(counter) + 1);
}

/* Most payloads of lines are a word or two. */
static inline void
copy_short(void *dst, const void *src, size_t len)
{
	uint64_t first, last;

	if (unlikely(len - 8 > 8)) {
		copy_bytes(dst, src, len);
		return;
	}
	memcpy(&first, src, 8);
	memcpy(&last, (const char *)src + len - 8, 8);
	memcpy(dst, &first, 8);
	memcpy((char *)dst + len - 8, &last, 8);
}

/* Every buffer is cyclic as far as copies are concerned; the plan has checked the others. */
static inline void
take(const struct launch *l, unsigned buf, size_t off, char *dst, size_t len)
{
	size_t first = l->size[buf] - off;

	if (likely(len <= first)) {
		copy_short(dst, l->base[buf] + off, len);
		return;
	}
	copy_bytes(dst, l->base[buf] + off, first);
	copy_bytes(dst + first, l->base[buf], len - first);
}

static inline void
lay(const struct launch *l, unsigned buf, size_t off, const char *src, size_t len)
{
	size_t first = l->size[buf] - off;

	if (likely(len <= first)) {
		copy_short(l->base[buf] + off, src, len);
		return;
	}
	copy_bytes(l->base[buf] + off, src, first);
	copy_bytes(l->base[buf], src + first, len - first);
}

/* The payload is in its place in the peer's mailbox. */
static inline void
message_publish(struct launch *l, struct chan *c, struct wire w)
{
	ctx_delay(l->ctx);
	mbox_publish(c->out, c->sent, wire_pack(w), wire_seq(l->call, c->sent));
	ctx_delay(l->ctx);
	wake_after_store(c->wake);
	c->sent++;
	count_up(&c->rec->sent);
}

/* Where the payload of the next line goes, in the peer's mailbox. */
static inline char *
message_room(struct chan *c, struct wire w)
{
	uint64_t slot = c->sent % MBOX_SLOTS;

	return w.kind == WIRE_INLINE ? c->out->line[slot].data : c->out->scratch[slot];
}

/* The payload is w.len bytes from off of buffer src. There is credit, and the channel is connected.
 */
static inline int
message_send(struct launch *l, struct chan *c, struct wire w, unsigned src, size_t off)
{
	if (unlikely(!c->out))
		return message_send_am(l, c, w, src, off);
	if (w.len)
		take(l, src, off, message_room(c, w), w.len);
	message_publish(l, c, w);
	return 0;
}

/* len bytes of a put, which are at bytes behind its start and go where the ones before ended. */
static inline int
message_send_put(struct launch *l, struct chan *c, const struct op *op, size_t at, size_t len,
                 bool last)
{
	struct wire w = {
		.len = (uint32_t)len,
		.kind = len <= MBOX_LINE_DATA ? WIRE_INLINE : WIRE_SCRATCH,
		.dst = op->dst,
		.block = op->i,
		.last = last,
		.more = at > 0,
		.tag = l->tag,
	};

	return message_send(l, c, w, op->src,
	                    len ? wrapped(block_off(l, op->src, op->j) + at, l->size[op->src]) : 0);
}

#endif
