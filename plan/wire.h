/*
 * wire.h - what a mailbox line says about its message: pure functions.
 *
 * BITS    MEANING
 * 0..13   len: bytes of payload in the line or the slot's scratch; 0 if placed
 * 14..15  kind: enum wire_kind
 * 16      last: closes a batch, so it is what a wait counts
 * 17      more: the payload goes where the one before, on this channel, ended
 * 18..19  dst: buffer (IN, OUT or TMP) of the receiver
 * 20..47  block: of that buffer, where the payload starts
 * 48..63  tag: of the call's hash; the receiver compares it with its own
 *
 * The low bits of a seq word number the messages of a channel, from 1 and never
 * 0, so that the word of a slot's previous use is told from the new one by the
 * number alone and the call number is free to show who is in which call.
 */
#ifndef PLAN_WIRE_H
#define PLAN_WIRE_H

#include "base/base.h"
#include "rma/mbox.h"

#define WIRE_LEN_BITS 14
#define WIRE_BLOCK_BITS 28
#define WIRE_MAX_BLOCKS (UINT32_C(1) << WIRE_BLOCK_BITS)
#define WIRE_STEP_MASK ((UINT64_C(1) << MBOX_STEP_BITS) - 1)

_Static_assert(MBOX_SCRATCH < 1 << WIRE_LEN_BITS, "a slot's length fits");
_Static_assert(MBOX_BUFS <= 4, "a buffer's number fits");

enum wire_kind {
	WIRE_INLINE = 0, /* in the line */
	WIRE_SCRATCH,    /* in the slot's scratch */
	WIRE_PLACED      /* already in the receiver's buffer */
};

struct wire {
	uint32_t len;
	uint32_t block;
	uint16_t tag;
	uint8_t kind;
	uint8_t dst;
	bool last;
	bool more;
};

static inline uint64_t
wire_pack(struct wire w)
{
	return (uint64_t)w.len | (uint64_t)w.kind << 14 | (uint64_t)w.last << 16 |
	       (uint64_t)w.more << 17 | (uint64_t)w.dst << 18 | (uint64_t)w.block << 20 |
	       (uint64_t)w.tag << 48;
}

static inline struct wire
wire_unpack(uint64_t meta)
{
	return (struct wire){
		.len = meta & ((1u << WIRE_LEN_BITS) - 1),
		.kind = meta >> 14 & 3,
		.last = meta >> 16 & 1,
		.more = meta >> 17 & 1,
		.dst = meta >> 18 & 3,
		.block = meta >> 20 & (WIRE_MAX_BLOCKS - 1),
		.tag = (uint16_t)(meta >> 48),
	};
}

/* Nothing in it can lead outside a line or a slot. What it says about buffers depends on the call.
 */
static inline bool
wire_sane(struct wire w)
{
	return w.dst < MBOX_BUFS && ((w.kind == WIRE_INLINE && w.len <= MBOX_LINE_DATA) ||
	                             (w.kind == WIRE_SCRATCH && w.len <= MBOX_SCRATCH) ||
	                             (w.kind == WIRE_PLACED && w.len == 0));
}

/* Of message number m of a channel, in call. */
static inline uint64_t
wire_seq(uint64_t call, uint64_t m)
{
	return mbox_seq(call, m & WIRE_STEP_MASK >> 1);
}

/* seq is message m's, in whatever call; else it is what an earlier use of the slot left. */
static inline bool
wire_fresh(uint64_t seq, uint64_t m)
{
	return ((seq ^ wire_seq(0, m)) & WIRE_STEP_MASK) == 0;
}

/* All that must be equal on both sides of a call, in one word. */
static inline uint64_t
wire_hash(uint64_t plan, size_t block, size_t eager)
{
	uint64_t h = (plan ^ block) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 29 ^ eager) * UINT64_C(0xd6e8feb86659fd93);
	return h ^ h >> 32;
}

static inline uint16_t
wire_tag(uint64_t hash)
{
	return (uint16_t)(hash >> 48);
}

#endif
