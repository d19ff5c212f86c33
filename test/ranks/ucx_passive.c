/*
 * The target computes and calls nothing: puts, gets, atomics and flushes of the
 * others complete meanwhile.
 */
#include "test/ranks/ranks.h"

#define COMPUTE_NS UINT64_C(1000000000)
#define BIG (4u << 20)

static int
origin(struct ranks *r, oriel_win *win, unsigned char *src)
{
	uint64_t start = ranks_now_ns(), old, took;
	size_t mine = (size_t)(r->rank - 1) * BIG;

	memset(src, r->rank, BIG);
	for (int i = 0; i < 20; i++) {
		if (!OK(oriel_put(win, 0, mine, src, 8)) || !OK(oriel_flush(win, 0)))
			return 1;
		if (!OK(oriel_put(win, 0, mine + 8, src + 8, 20000)) || !OK(oriel_flush(win, 0)))
			return 1;
	}
	if (!OK(oriel_put(win, 0, mine, src, BIG)) || !OK(oriel_flush(win, 0)))
		return 1;
	memset(src, 0, BIG);
	if (!OK(oriel_get(win, 0, mine, src, BIG)) || !OK(oriel_flush(win, 0)))
		return 1;
	for (size_t i = 0; i < BIG; i++)
		if (!CHECK(src[i] == r->rank, "byte %zu is %d", i, src[i]))
			break;
	if (!OK(oriel_fetch_add(win, 0, (size_t)(r->size - 1) * BIG, 1, &old)))
		return 1;
	took = ranks_now_ns() - start;
	CHECK(took < COMPUTE_NS * 8 / 10, "took %llu ms, the target computes for %llu ms",
	      (unsigned long long)(took / 1000000), (unsigned long long)(COMPUTE_NS / 1000000));
	return 0;
}

static int
run(struct ranks *r)
{
	unsigned char *src = malloc(BIG);
	uint64_t until;
	oriel_win *win;
	void *base;
	int failed = 0;

	if (r->size < 2)
		return ranks_skip("needs two ranks");
	if (!OK(oriel_win_alloc(r->world, r->rank ? 0 : (size_t)(r->size - 1) * BIG + 8, 0, &base,
	                        &win)))
		return 1;
	if (!OK(oriel_barrier(r->world)))
		return 1;
	if (r->rank) {
		failed = origin(r, win, src);
	} else {
		until = ranks_now_ns() + COMPUTE_NS;
		while (ranks_now_ns() < until)
			ranks_delay(100000);
		CHECK(*(uint64_t *)((char *)base + (size_t)(r->size - 1) * BIG) ==
		              (uint64_t)(r->size - 1),
		      "not all have come");
	}
	if (!failed)
		OK(oriel_win_free(win));
	free(src);
	return failed;
}

RANKS_MAIN(run)
