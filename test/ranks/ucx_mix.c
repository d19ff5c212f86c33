/*
 * Random mixes of puts, puts with a signal, signals, gets and flushes from every
 * rank to every other, with their order checked: when a rank sees round n of a
 * peer's signal, all that the peer put before it is there, whatever way each
 * part took. A receiver gives a slot back with a signal of its own.
 */
#include "test/ranks/ranks.h"

#define SLOTS 3
#define SLOT_BYTES (160u << 10)
#define TABLE_BYTES 65536 /* constant, for gets */

struct mix {
	struct ranks *r;
	oriel_win *win;
	unsigned char *base;
	unsigned char
	        *src; /* SLOTS * SLOT_BYTES for each peer: a source lives as long as its slot */
	unsigned char *got;
};

/* A window has TABLE_BYTES, then a slot area for each sender. */
static size_t
slot_at(int sender, uint64_t round)
{
	return TABLE_BYTES + ((size_t)sender * SLOTS + round % SLOTS) * SLOT_BYTES;
}

static uint64_t
key(int from, int to, uint64_t round)
{
	uint64_t state = (uint64_t)from * 1000003 + (uint64_t)to * 10007 + round * 7919 + 1;

	return ranks_next(&state);
}

static void
fill(unsigned char *p, size_t len, uint64_t k)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)(k + i * 31 + (i >> 9));
}

static size_t
wrong(const unsigned char *p, size_t len, uint64_t k)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)(k + i * 31 + (i >> 9)))
			return i + 1;
	return 0;
}

/* The parts of round n from one rank to another: both sides compute them. */
static unsigned
parts(int from, int to, uint64_t round, size_t *len, unsigned max)
{
	uint64_t state = key(from, to, round);
	unsigned n = 1 + (unsigned)(ranks_next(&state) % max);

	for (unsigned i = 0; i < n; i++) {
		uint64_t x = ranks_next(&state);

		switch (x % 4) {
		case 0:
			len[i] = (x >> 8) % 64;
			break;
		case 1:
			len[i] = (x >> 8) % 4096;
			break;
		case 2:
			len[i] = 8000 + (x >> 8) % 400;
			break;
		default:
			len[i] = (x >> 8) % (SLOT_BYTES / 8);
			break;
		}
	}
	return n;
}

#define PARTS 8

static int
send_round(struct mix *m, int to, uint64_t round)
{
	struct ranks *r = m->r;
	size_t len[PARTS], at = 0;
	unsigned n = parts(r->rank, to, round, len, PARTS);
	size_t slot = slot_at(r->rank, round);
	unsigned char *src = m->src + ((size_t)to * SLOTS + round % SLOTS) * SLOT_BYTES;
	bool bare = ranks_random(r, 3) == 0; /* the signal comes alone, after the last put */

	for (unsigned i = 0; i < n; i++, at += len[i - 1]) {
		fill(src + at, len[i], key(r->rank, to, round) + i);
		if (i + 1 < n || bare) {
			if (!OK(oriel_put(m->win, to, slot + at, src + at, len[i])))
				return 1;
		} else if (!OK(oriel_put_signal(m->win, to, slot + at, src + at, len[i],
		                                (size_t)r->rank, ORIEL_SIGNAL_SET, round))) {
			return 1;
		}
	}
	if (bare && !OK(oriel_signal(m->win, to, (size_t)r->rank, ORIEL_SIGNAL_SET, round)))
		return 1;
	switch (ranks_random(r, 8)) {
	case 0:
		return !OK(oriel_flush(m->win, to));
	case 1:
		return !OK(oriel_flush_local(m->win, to));
	default:
		return 0;
	}
}

static int
get_some(struct mix *m, int from)
{
	struct ranks *r = m->r;
	size_t len = ranks_random(r, 3) ? ranks_random(r, 512) : ranks_random(r, TABLE_BYTES);
	size_t at = ranks_random(r, TABLE_BYTES - len + 1), i;

	if (!OK(oriel_get(m->win, from, at, m->got, len)) || !OK(oriel_flush(m->win, from)))
		return 1;
	for (i = 0; i < len; i++)
		if (m->got[i] != (unsigned char)((at + i) * 13 + (size_t)from))
			break;
	CHECK(i == len, "get of %zu at %zu from %d: byte %zu is wrong", len, at, from, i);
	return 0;
}

static int
receive_round(struct mix *m, int from, uint64_t round)
{
	struct ranks *r = m->r;
	size_t len[PARTS], at = 0, bad;
	unsigned n = parts(from, r->rank, round, len, PARTS);
	unsigned char *slot = m->base + slot_at(from, round);

	if (!OK(oriel_signal_wait_from(m->win, from, (size_t)from, ORIEL_GE, round, RANKS_WAIT_NS,
	                               NULL)))
		return 1;
	for (unsigned i = 0; i < n; i++, at += len[i - 1]) {
		bad = wrong(slot + at, len[i], key(from, r->rank, round) + i);
		CHECK(!bad, "round %llu from %d, part %u of %u, %zu bytes: byte %zu is wrong",
		      (unsigned long long)round, from, i, n, len[i], bad - 1);
	}
	/* The slot is free: the peer's credit for it. */
	return !OK(oriel_signal(m->win, from, (size_t)(r->size + r->rank), ORIEL_SIGNAL_ADD, 1));
}

static int
rounds(struct mix *m, uint64_t n)
{
	struct ranks *r = m->r;

	for (uint64_t round = 1; round <= n; round++) {
		for (int d = 1; d < r->size; d++) {
			int to = (r->rank + d) % r->size;

			if (round > SLOTS &&
			    !OK(oriel_signal_wait_from(m->win, to, (size_t)(r->size + to), ORIEL_GE,
			                               round - SLOTS, RANKS_WAIT_NS, NULL)))
				return 1;
			if (send_round(m, to, round))
				return 1;
			if (!ranks_random(r, 4) && get_some(m, to))
				return 1;
		}
		if (round < SLOTS)
			continue; /* keep some rounds under way */
		for (int d = 1; d < r->size; d++)
			if (receive_round(m, (r->rank + r->size - d) % r->size, round - SLOTS + 1))
				return 1;
	}
	for (uint64_t round = n - SLOTS + 2; round <= n; round++)
		for (int d = 1; d < r->size; d++)
			if (receive_round(m, (r->rank + r->size - d) % r->size, round))
				return 1;
	return 0;
}

static int
run(struct ranks *r)
{
	size_t area = (size_t)r->size * SLOTS * SLOT_BYTES;
	uint64_t n = r->rounds ? r->rounds : 300;
	struct mix m = { .r = r };
	int failed;

	if (r->size < 2)
		return ranks_skip("needs two ranks");
	if (n < SLOTS)
		n = SLOTS;
	m.base = malloc(TABLE_BYTES + area);
	m.src = malloc(area);
	m.got = malloc(TABLE_BYTES);
	if (!NEED(m.base && m.src && m.got, "no memory"))
		return 1;
	for (size_t i = 0; i < TABLE_BYTES; i++)
		m.base[i] = (unsigned char)(i * 13 + (size_t)r->rank);
	if (!OK(oriel_win_create(r->world, m.base, TABLE_BYTES + area, 2 * (size_t)r->size,
	                         &m.win)))
		return 1;
	failed = rounds(&m, n);
	if (!failed)
		OK(oriel_win_free(m.win));
	free(m.base);
	free(m.src);
	free(m.got);
	return failed;
}

RANKS_MAIN(run)
