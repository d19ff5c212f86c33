/*
 * A rank that sends to itself through its own ring: window operations are what
 * arrives, so the window shows what came, in which order, and that it was whole.
 */
#include "rma/win.h"
#include "test/alloc/random.h"
#include "test/rma/alone.h"

#include <string.h>

#define SIZE (1u << 20)
#define RING_BYTES sizeof(((struct ring *)0)->data)

struct self {
	oriel_ctx *ctx;
	oriel_win *win;
	struct peer *me;
	char *base;
};

static struct self
self_open(void)
{
	struct self s;
	void *base;

	cr_assert_eq(oriel_init(NULL, &s.ctx), 0, "%s", oriel_detail());
	cr_assert_eq(oriel_win_alloc(oriel_world(s.ctx), SIZE, 4, &base, &s.win), 0);
	s.base = base;
	s.me = s.ctx->local[0];
	cr_assert(s.me->ring && s.me->ring == &s.ctx->ctl->rings[0]);
	return s;
}

static void
self_close(struct self *s)
{
	cr_assert_eq(oriel_win_free(s->win), 0);
	cr_assert_eq(oriel_fini(s->ctx), 0);
}

static size_t
in_ring(const struct self *s)
{
	return s->me->ring->head - s->me->ring->tail;
}

static void
drain_all(struct self *s)
{
	for (int i = 0; in_ring(s); i++) {
		cr_assert(i < 10000, "the ring does not become empty");
		ctx_progress(s->ctx);
	}
}

/* Messages of every length, at every place of the ring: each arrives whole. */
Test(ring, lengths_and_wraps)
{
	struct self s = self_open();
	uint64_t seed = 7;
	char data[AM_DATA_MAX];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)random_next(&seed);
	for (size_t n = 0; n < 6000; n++) {
		size_t len =
		        n % 3 ? random_next(&seed) % 70 : random_next(&seed) % (AM_DATA_MAX + 1);
		size_t from = random_next(&seed) % (AM_DATA_MAX - len + 1);
		size_t disp = random_next(&seed) % (SIZE - AM_DATA_MAX - 16) + 8;

		memset(s.base + disp - 8, 0x11, len + 16);
		cr_assert_eq(ops_put(s.me, s.win->id, disp, data + from, len), 0);
		drain_all(&s);
		cr_assert(!memcmp(s.base + disp, data + from, len), "message %zu of %zu bytes", n,
		          len);
		for (int i = 0; i < 8; i++)
			cr_assert(s.base[disp - 8 + i] == 0x11 && s.base[disp + len + i] == 0x11,
			          "message %zu: more than its bytes was written", n);
	}
	cr_assert(s.me->ring->head > 20 * RING_BYTES, "the ring did not wrap");
	self_close(&s);
}

/* Filled to the brim with messages of one length, then drained: nothing lost, in order. */
Test(ring, full)
{
	struct self s = self_open();

	for (size_t hdr = 8; hdr <= AM_HDR_MAX; hdr += 40) {
		for (size_t len = 0; len < 3000; len += 371) {
			uint64_t header[AM_HDR_MAX / 8] = { 0 };
			char data[3000] = "";
			size_t n = 0, left;

			while (ring_push(s.me, AM_PONG, header, hdr, data, len))
				n++;
			left = RING_BYTES - in_ring(&s);
			/* What is left is too little, or cut in two by the end of the ring. */
			cr_assert(n > 1 && left < 2 * (8 + hdr + len + 8), "%zu messages, %zu left",
			          n, left);
			cr_assert(!ring_push(s.me, AM_PONG, header, hdr, data, len));
			drain_all(&s);
			cr_assert(ring_push(s.me, AM_PONG, header, hdr, data, len));
			drain_all(&s);
		}
	}
	self_close(&s);
}

/* More than fits, with a reader that takes some now and then. */
Test(ring, order)
{
	struct self s = self_open();
	uint64_t sent = 0, seen = 0, seed = 3;

	while (sent < 20000) {
		uint64_t count = random_next(&seed) % 400;

		for (uint64_t i = 0; i < count; i++, sent++)
			/* A full ring makes progress by itself. */
			cr_assert_eq(ops_put_signal(s.me, s.win->id, 8 * (sent % 1000), &sent, 8, 0,
			                            ORIEL_SIGNAL_ADD, 1),
			             0);
		if (random_next(&seed) % 2)
			ctx_progress(s.ctx);
		cr_assert_eq(oriel_signal_read(s.win, 0, &seen), 0);
		cr_assert(seen <= sent);
		if (seen) {
			uint64_t word;

			memcpy(&word, s.base + 8 * ((seen - 1) % 1000), 8);
			cr_assert_eq(word, seen - 1, "%llu arrived, the last word is %llu",
			             (unsigned long long)seen, (unsigned long long)word);
		}
	}
	drain_all(&s);
	cr_assert_eq(oriel_signal_read(s.win, 0, &seen), 0);
	cr_assert_eq(seen, sent);
	self_close(&s);
}

struct record { /* as rma/ring.c has it */
	uint32_t len;
	uint16_t hdr_len;
	uint16_t id;
};

/* Writes a record by hand and has it drained. */
static void
forge(struct self *s, struct record r, size_t claimed)
{
	struct ring *ring = s->me->ring;

	memcpy(ring->data + ring->head % RING_BYTES, &r, sizeof(r));
	store_release(&ring->head, ring->head + claimed);
	or_release(&s->ctx->ctl->doorbell[0], 1);
	ctx_progress(s->ctx);
}

/* A broken record ends the sender, not the reader. */
Test(ring, garbage)
{
	static const struct {
		struct record r;
		size_t claimed;
	} bad[] = {
		{ { 0xffffffff, 8, AM_PONG }, 64 },
		{ { 0, 0xffff, AM_PONG }, 64 },
		{ { 100, 8, AM_PONG }, 8 },
		{ { 8, 8, AM_N }, 24 },
		{ { 8, 8, 0x7fff }, 24 },
		{ { 8, AM_HDR_MAX + 8, AM_PONG }, 400 },
		{ { AM_DATA_MAX + 8, 8, AM_PONG }, 8216 },
		{ { 0x7fffffff, 0, AM_PONG }, 16 },
		{ { 8, 8, 0xffff }, 24 }, /* skips to the end of the ring, which was not written */
		{ { 8, 8, AM_OP }, 24 },  /* a window operation with a short header */
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct self s = self_open();

		forge(&s, bad[i].r, bad[i].claimed);
		cr_assert(peer_failed(s.me), "record %zu was taken", i);
		cr_assert(s.me->why[0], "no reason");
		cr_assert_eq(in_ring(&s), 0, "record %zu is still there", i);
		cr_assert_eq(am_send(s.me, AM_PONG, NULL, 0, NULL, 0), ORIEL_EPEER);
		cr_assert(strstr(oriel_detail(), "rank 0"), "%s", oriel_detail());
		/* The window goes with the context. */
		cr_assert_eq(oriel_fini(s.ctx), 0);
	}
}

/* Operations that the owner must refuse: nothing is written, and an answer says so. */
Test(ring, refused_operations)
{
	struct self s = self_open();
	uint64_t word = 5, old = 77;
	char out[8];

	memset(s.base, 0x22, SIZE);
	cr_assert_eq(ops_put(s.me, s.win->id, SIZE - 7, &word, 8), 0);
	cr_assert_eq(ops_put(s.me, s.win->id, SIZE_MAX - 3, &word, 8), 0);
	cr_assert_eq(ops_put(s.me, s.win->id + 1, 0, &word, 8), 0);
	cr_assert_eq(ops_put_signal(s.me, s.win->id, 0, NULL, 0, 4, 0, 1), 0);
	drain_all(&s);
	cr_assert_eq(ops_get(s.me, s.win->id, SIZE - 7, out, 8), ORIEL_ERANGE);
	cr_assert_eq(ops_get(s.me, 2, 0, out, 8), ORIEL_EHANDLE);
	cr_assert_eq(ops_atomic_call(s.me, s.win->id, ATOMIC_ADD, SIZE - 7, 1, 0, &old),
	             ORIEL_ERANGE);
	cr_assert_eq(ops_atomic_call(s.me, s.win->id, ATOMIC_ADD, 4, 1, 0, &old), ORIEL_EINVAL);
	cr_assert_eq(ops_atomic_call(s.me, s.win->id, ATOMIC_CAS + 1, 0, 1, 0, &old), ORIEL_EINVAL);
	cr_assert_eq(ops_accumulate_call(s.me, s.win->id, 4, &word, 1, ORIEL_DOUBLE), ORIEL_EINVAL);
	cr_assert_eq(ops_accumulate_call(s.me, s.win->id, SIZE - 4, &word, 1, ORIEL_DOUBLE),
	             ORIEL_ERANGE);
	cr_assert_eq(old, 77);
	for (size_t i = 0; i < SIZE; i++)
		cr_assert_eq(s.base[i], 0x22, "byte %zu was written", i);
	cr_assert_eq(ops_atomic_call(s.me, s.win->id, ATOMIC_ADD, 8, 1, 0, &old), 0);
	cr_assert_eq(old, UINT64_C(0x2222222222222222));
	cr_assert_eq(ops_get(s.me, s.win->id, 8, out, 8), 0);
	cr_assert_eq(out[0], 0x23);
	self_close(&s);
}
