/*
 * mbox.h - the channel of plans: messages from one rank's queue to one peer, in
 * order, with credits; tiny data travels in the signal's own cache line.
 *
 * A struct mbox lies in the receiver's memory, one for each (communicator,
 * sender, channel), and is written by that sender alone: directly where the
 * slab is mapped, else by the receiver's message handler on its behalf. Message
 * number m (from 0, for ever) uses slot m % MBOX_SLOTS. Its seq word is written
 * last and holds call << MBOX_STEP_BITS | step + 1, never reset. The step is the
 * message's number on the channel (plan/wire.h), so a stale word never matches
 * and a wrong call is recognised.
 *
 * The sender writes a slot again only after the receiver's credit for its
 * previous use. The credit lies in the reverse mbox, the one that the sender
 * owns and the receiver writes; so does "ready", the receiver's word that its
 * buffers of a call may be written directly.
 *
 * OFFSET  SIZE           MEANING
 * 0       8 * 64         line[]: payload, meta, seq
 * 512     64             credit: messages of the reverse channel consumed
 * 576     64             ready: the writer's destination buffers of a call
 * 640     64             placing: the call in which the writer writes (or, to pull a
 *                        message, reads) the owner's buffers just now, or 0
 * 1024    2048           stream: cells and records of calls on GPU streams, whose meaning
 *                        plan/stream_cells.h knows
 * 4096    8 * 8192       scratch[]: payload of small messages
 */
#ifndef RMA_MBOX_H
#define RMA_MBOX_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>

#ifndef MBOX_SLOTS /* test/model runs it with fewer */
#define MBOX_SLOTS 8
#endif
#define MBOX_LINE_DATA 48
#define MBOX_SCRATCH 8192 /* bytes a slot; the most that ORIEL_EAGER_MAX may be */
#define MBOX_STEP_BITS 20
#define MBOX_BUFS 3
#define MBOX_NO_KEY UINT64_MAX /* not to be written directly */
#define MBOX_QUEUES 2          /* queues of a plan that may talk to one peer */
#define MBOX_CALLS 4           /* calls of a communicator that may be under way; a power of two */
/* Channels between two ranks of a communicator: one for each queue of each call under way, and one
 * for send and receive. */
#define MBOX_CHANNEL(call, queue) ((unsigned)((call) % MBOX_CALLS) * MBOX_QUEUES + (queue))
#define MBOX_P2P (MBOX_CALLS * MBOX_QUEUES)
#define MBOX_CHANNELS (MBOX_P2P + 1)

struct mbox_line {
	char data[MBOX_LINE_DATA];
	uint64_t meta; /* see plan/wire.h; this header does not look into it */
	uint64_t seq;
};

struct mbox_credit {
	uint64_t consumed;
	char pad[56];
};

struct mbox_ready {
	struct {
		uint64_t where; /* address, or offset in the slab */
		uint64_t key;   /* slab id + 1; 0: where is an address; MBOX_NO_KEY */
	} buf[MBOX_BUFS];
	uint64_t hash; /* of the call: plan, block size; a sender with another must not write */
	uint64_t call; /* written last */
};

struct mbox_placing {
	uint64_t call;
	char pad[56];
};

struct mbox {
	struct mbox_line line[MBOX_SLOTS];
	struct mbox_credit credit;
	struct mbox_ready ready;
	struct mbox_placing placing;
	char pad[1024 - 64 * MBOX_SLOTS - 192];
	char stream[2048] __attribute__((aligned(64)));
	char pad2[1024];
	char scratch[MBOX_SLOTS][MBOX_SCRATCH];
};

_Static_assert(sizeof(struct mbox_line) == 64, "one line");
_Static_assert(sizeof(struct mbox_ready) == 64, "one line");
_Static_assert(offsetof(struct mbox, scratch) == 4096, "scratch starts on its own page");

static inline uint64_t
mbox_seq(uint64_t call, uint64_t step)
{
	return call << MBOX_STEP_BITS | (step + 1);
}

static inline uint64_t
mbox_seq_call(uint64_t seq)
{
	return seq >> MBOX_STEP_BITS;
}

/* Sender: may message number sent be written? own: the reverse mbox, in the sender's memory. */
static inline bool
mbox_has_credit(const struct mbox *own, uint64_t sent)
{
	return sent - load_acquire(&own->credit.consumed) < MBOX_SLOTS;
}

/* Sender: data is in line->data or the slot's scratch already; this publishes it. */
static inline void
mbox_publish(struct mbox *box, uint64_t sent, uint64_t meta, uint64_t seq)
{
	struct mbox_line *line = &box->line[sent % MBOX_SLOTS];

	store_relaxed(&line->meta, meta);
	store_release(&line->seq, seq);
}

/*
 * Receiver of data, as the writer of the reverse mbox: ready.buf is filled in.
 * Whoever sees the new hash sees that the old call is over, and whoever sees the
 * call sees everything.
 */
static inline void
mbox_publish_ready(struct mbox *box, uint64_t call, uint64_t hash)
{
	store_relaxed(&box->ready.call, 0);
	store_release(&box->ready.hash, hash);
	store_release(&box->ready.call, call);
}

/* Receiver: the seq word of message number next; its meta and data are visible if it is the
 * expected one. */
static inline uint64_t
mbox_peek(const struct mbox *box, uint64_t next)
{
	return load_acquire(&box->line[next % MBOX_SLOTS].seq);
}

/* Receiver: has read everything of its first n messages. peer: the mbox at the sender that we
 * write. */
static inline void
mbox_give_credit(struct mbox *peer, uint64_t n)
{
	store_release(&peer->credit.consumed, n);
}

#endif
