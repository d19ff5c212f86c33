/*
 * Everybody floods rank 0 with small and with middle-sized puts and signals,
 * while rank 0 now and then does nothing at all: nothing is lost, and neither
 * side's memory grows with the number of messages.
 */
#include "test/ranks/ranks.h"
#include "test/ranks/memory.h"

#define BYTES 1024
#define GROWTH_MAX (48u << 20)

static int
flood(struct ranks *r, oriel_win *win, uint64_t n, unsigned char *src)
{
	for (uint64_t i = 1; i <= n; i++) {
		size_t len = i % 64 == 0 ? 20000 : i % 16 == 0 ? BYTES : 8;

		if (!OK(oriel_put_signal(win, 0, (size_t)r->rank * 32768, src, len, (size_t)r->rank,
		                         ORIEL_SIGNAL_ADD, 1)))
			return 1;
		if (!OK(oriel_signal(win, 0, 0, ORIEL_SIGNAL_ADD, 1)))
			return 1;
	}
	return !OK(oriel_flush(win, 0));
}

static int
count(struct ranks *r, oriel_win *win, uint64_t n)
{
	uint64_t others = (uint64_t)r->size - 1, seen;

	for (uint64_t part = 1; part <= 10; part++) {
		if (!OK(oriel_signal_wait(win, 0, ORIEL_GE, n * others * part / 10, RANKS_WAIT_NS,
		                          &seen)))
			return 1;
		ranks_delay(20000000); /* the senders' back-pressure is what holds them now */
	}
	for (int i = 1; i < r->size; i++)
		if (!OK(oriel_signal_wait_from(win, i, (size_t)i, ORIEL_EQ, n, RANKS_WAIT_NS,
		                               NULL)))
			return 1;
	CHECK(!oriel_signal_read(win, 0, &seen) && seen == n * others,
	      "%llu signals, expected %llu", (unsigned long long)seen,
	      (unsigned long long)(n * others));
	return 0;
}

static int
run(struct ranks *r)
{
	uint64_t n = r->rounds ? r->rounds : 20000;
	unsigned char *src = calloc(1, 32768);
	size_t before, after;
	oriel_win *win;
	void *base;
	int failed;

	if (r->size < 2)
		return ranks_skip("needs two ranks");
	if (!OK(oriel_win_alloc(r->world, (size_t)r->size * 32768, (size_t)r->size, &base, &win)))
		return 1;
	if (r->rank)
		memset(src, r->rank, 32768);
	before = resident();
	failed = r->rank ? flood(r, win, n, src) : count(r, win, n);
	after = resident();
	CHECK(after < before + GROWTH_MAX, "resident memory grew by %zu KiB",
	      (after - before) >> 10);
	for (int i = 1; r->rank == 0 && i < r->size; i++)
		CHECK(((unsigned char *)base)[(size_t)i * 32768] == i, "data of rank %d", i);
	if (!failed)
		OK(oriel_win_free(win));
	free(src);
	return failed;
}

RANKS_MAIN(run)
