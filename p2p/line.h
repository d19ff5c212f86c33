/*
 * line.h - what a mailbox line of the channel of send and receive says: pure
 * functions.
 *
 * BITS    MEANING
 * 0..15   length and kind of the payload, as in plan/wire.h, whose checks hold
 * 16..19  0
 * 20..22  what: enum line_what
 * 23..52  number: a tag, or of a receive or send that is under way
 * 53..63  0
 *
 * An eager message is one line, its bytes are the payload. A long one is asked
 * for by its sender (LINE_ASK), and cleared by its receiver when a receive has
 * matched it (LINE_CLEAR, on the reverse channel); then it is put into the
 * receiver's buffer (LINE_PLACED says that it is there) or comes in pieces
 * (LINE_PIECE). Or, if the sender has said where it lies, the receiver reads it
 * itself, and says so (LINE_PULLED, on the reverse channel).
 */
#ifndef P2P_LINE_H
#define P2P_LINE_H

#include "plan/wire.h"
#include "rma/ucx.h"

#define LINE_NUMBER_BITS 30
#define LINE_NUMBER_MASK ((1u << LINE_NUMBER_BITS) - 1)

enum line_what {
	LINE_EAGER = 0, /* number: tag */
	LINE_ASK,       /* number: tag; payload: struct line_ask */
	LINE_CLEAR,     /* payload: struct line_clear and a key */
	LINE_PLACED,    /* number: of the receive */
	LINE_PIECE,     /* number: of the receive; payload: its next bytes */
	LINE_PULLED,    /* number: of the send, the low bits of its id */
	LINE_N
};

struct line_ask {
	uint64_t len;
	uint64_t id;    /* of the send */
	uint64_t where; /* the receiver may read it here: as in struct line_clear */
	uint64_t key;   /* or MBOX_NO_KEY: it may not */
};

struct line_clear {
	uint64_t id;  /* of the send */
	uint64_t len; /* bytes that are wanted; 0: the receive's buffer is too short for them */
	uint64_t where;
	uint64_t key;     /* slab id + 1: where is an offset in it; 0: where is an address */
	uint32_t number;  /* of the receive */
	uint32_t key_len; /* of UCX's key, which follows */
};

struct line {
	uint32_t len;
	uint32_t number;
	uint8_t kind; /* enum wire_kind */
	uint8_t what;
};

_Static_assert(sizeof(struct line_ask) <= MBOX_LINE_DATA, "fits a line");
_Static_assert(sizeof(struct line_clear) <= MBOX_LINE_DATA, "fits a line without a key");

static inline uint64_t
line_pack(struct line l)
{
	return (uint64_t)l.len | (uint64_t)l.kind << 14 | (uint64_t)l.what << 20 |
	       (uint64_t)l.number << 23;
}

static inline struct line
line_unpack(uint64_t meta)
{
	return (struct line){
		.len = meta & ((1u << WIRE_LEN_BITS) - 1),
		.kind = meta >> 14 & 3,
		.what = meta >> 20 & 7,
		.number = meta >> 23 & LINE_NUMBER_MASK,
	};
}

/* The payload lies inside its line or slot, and is as long as what it is says. */
static inline bool
line_sane(uint64_t meta)
{
	struct line l = line_unpack(meta);

	if (meta >> 53 || !wire_sane(wire_unpack(meta)))
		return false;
	switch (l.what) {
	case LINE_EAGER:
		return l.kind != WIRE_PLACED;
	case LINE_ASK:
		return l.len == sizeof(struct line_ask);
	case LINE_CLEAR:
		return l.len >= sizeof(struct line_clear) &&
		       l.len <= sizeof(struct line_clear) + UCX_KEY_MAX;
	case LINE_PLACED:
	case LINE_PULLED:
		return l.kind == WIRE_PLACED;
	case LINE_PIECE:
		return l.len > 0;
	default:
		return false;
	}
}

/* What is offered does not reach beyond the end of all memory. */
static inline bool
line_ask_sane(const struct line_ask *ask)
{
	return ask->key == MBOX_NO_KEY || ask->len <= UINT64_MAX - ask->where;
}

/* An eager message, as line_sane has it, in fewer instructions. */
static inline bool
line_is_eager(uint64_t meta, struct line l)
{
	const uint64_t zeros = UINT64_C(0x7ff) << 53 | UINT64_C(0x7f) << 16;

	return !(meta & zeros) && ((l.kind == WIRE_INLINE && l.len <= MBOX_LINE_DATA) ||
	                           (l.kind == WIRE_SCRATCH && l.len <= MBOX_SCRATCH));
}

#endif
