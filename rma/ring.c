/*
 * ring.c - the same-node carrier of messages: one ring of bytes for each
 * (sender, receiver), in the receiver's control slab.
 *
 * A record is a struct head, the message's header, its data, each padded to 8
 * bytes. It never wraps: where it does not fit before the end, a head with id
 * RING_SKIP fills the rest. head and tail count bytes for ever.
 */
#include "base/copy.h"
#include "rma/am.h"
#include "rma/doorbell.h"

#include <string.h>

#define RING_SKIP 0xffffu
#define RING_DATA sizeof(((struct ring *)0)->data)
#define DRAIN_MAX 64 /* messages a ring and round, so that one sender cannot keep us */

struct record {
	uint32_t len; /* of the data */
	uint16_t hdr_len;
	uint16_t id;
};

_Static_assert(RING_DATA % sizeof(struct record) == 0, "a skip record always fits");

static size_t
record_size(size_t hdr_len, size_t len)
{
	return sizeof(struct record) + round_up(hdr_len, 8) + round_up(len, 8);
}

_Static_assert(RING_DATA > 4 * (sizeof(struct record) + AM_HDR_MAX + AM_DATA_MAX),
               "some messages fit");

static void
record_write(char *at, enum am_id id, const void *hdr, size_t hdr_len, const void *data, size_t len)
{
	struct record r = { .len = (uint32_t)len,
		            .hdr_len = (uint16_t)hdr_len,
		            .id = (uint16_t)id };

	memcpy(at, &r, sizeof(r));
	if (hdr_len)
		memcpy(at + sizeof(r), hdr, hdr_len);
	if (len)
		copy_bytes(at + sizeof(r) + round_up(hdr_len, 8), data, len);
}

bool
ring_push(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
          size_t len)
{
	struct ring *ring = to->ring;
	struct ctl *ctl = to->ctl;
	unsigned me = (unsigned)to->ctx->my_local;
	uint64_t head = load_relaxed(&ring->head), tail = load_acquire(&ring->tail);
	size_t at = head % RING_DATA, size = record_size(hdr_len, len), skip = 0;

	if (size > RING_DATA - at)
		skip = RING_DATA - at;
	if (skip + size > RING_DATA - (head - tail))
		return false;
	if (skip) {
		struct record r = { .id = RING_SKIP };

		memcpy(ring->data + at, &r, sizeof(r));
		at = 0;
	}
	record_write(ring->data + at, id, hdr, hdr_len, data, len);
	store_release(&ring->head, head + skip + size);
	if (doorbell_ring(&ctl->doorbell[me / 64], me % 64, &ctl->helper_asleep))
		peer_wake_helper(to);
	wake_after_store(&ctl->wake);
	return true;
}

/* One record at tail; its length in the ring, or 0 if it is not sound. */
static size_t
drain_one(oriel_ctx *ctx, struct peer *from, const char *at, size_t left)
{
	struct record r;
	size_t size;

	memcpy(&r, at, sizeof(r));
	if (r.id == RING_SKIP)
		return left;
	size = record_size(r.hdr_len, r.len);
	if (size > left)
		return 0;
	am_deliver(ctx, from, r.id, at + sizeof(r), r.hdr_len,
	           at + sizeof(r) + round_up(r.hdr_len, 8), r.len);
	return size;
}

/* True if something is left for the next round. */
static bool
drain(oriel_ctx *ctx, struct peer *from)
{
	struct ring *ring = &ctx->ctl->rings[from->local];
	uint64_t tail = load_relaxed(&ring->tail), head = load_acquire(&ring->head);

	for (int n = 0; tail != head; n++) {
		size_t at = tail % RING_DATA, size;

		if (n == DRAIN_MAX || am_congested(ctx))
			return true;
		size = drain_one(ctx, from, ring->data + at, RING_DATA - at);
		if (!size || size > head - tail) {
			peer_fail(from, false, "it wrote a broken record into its message ring");
			store_release(&ring->tail, head);
			return false;
		}
		tail += size;
		store_release(&ring->tail, tail);
	}
	return false;
}

bool
ring_drain(oriel_ctx *ctx)
{
	bool moved = false;

	for (int w = 0; w < (ctx->boot.n_local + 63) / 64; w++) {
		uint64_t bits = doorbell_take(&ctx->ctl->doorbell[w]);

		moved |= bits != 0;
		for (; bits; bits &= bits - 1) {
			int i = w * 64 + __builtin_ctzll(bits);

			if (i >= ctx->boot.n_local || !ctx->local || !ctx->local[i])
				continue;
			/* What is left rings anew, also for a helper that has gone to sleep
			 * because the bell was silent. */
			if (drain(ctx, ctx->local[i]) &&
			    doorbell_ring(&ctx->ctl->doorbell[w], (unsigned)i % 64,
			                  &ctx->ctl->helper_asleep))
				peer_wake_helper(ctx->local[ctx->my_local]);
		}
	}
	return moved;
}
