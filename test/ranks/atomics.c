/*
 * Atomics from all ranks at once, and from several threads of each, on pool and
 * user memory: sums are exact, compare_swap lets one through, accumulates of
 * every type lose nothing and come before a later signal.
 */
#include "test/ranks/area.h"

#include <pthread.h>

#define TIMES 300
#define ELEMENTS 512 /* of 8 bytes: ORIEL_ACCUMULATE_MAX */

/* Every rank adds to one word of every rank; the values before are all different. */
static bool
fetch_add(struct ranks *r, struct area *a, uint64_t times)
{
	unsigned char *drawn = calloc((size_t)r->size, times);
	bool ok = NEED(drawn, "no memory");

	for (uint64_t i = 0; ok && i < times; i++) {
		for (int t = 0; ok && t < r->size; t++) {
			uint64_t old = UINT64_MAX;

			ok = OK(oriel_fetch_add(a->win, t, 8, 1, t == 0 ? &old : NULL));
			if (t == 0 && CHECK(old < times * (uint64_t)r->size, "old %llu",
			                    (unsigned long long)old))
				drawn[old] = 1;
		}
	}
	ok = ok && OK(oriel_barrier(r->world));
	/* Rank 0's tickets: each was drawn by one rank. */
	for (uint64_t i = 0; ok && i < times * (uint64_t)r->size; i++) {
		unsigned char all[64];
		int n = 0;

		if (i % 37)
			continue;
		ok = OK(oriel_allgather(r->world, &drawn[i], all, 1));
		for (int t = 0; t < r->size; t++)
			n += all[t];
		CHECK(n == 1, "ticket %llu was drawn %d times", (unsigned long long)i, n);
	}
	free(drawn);
	CHECK(((uint64_t *)(void *)a->base)[1] == times * (uint64_t)r->size, "the sum is %llu",
	      (unsigned long long)((uint64_t *)(void *)a->base)[1]);
	return ok;
}

/* A lock made of compare_swap around a word that is changed by get and put. */
static bool
compare_swap(struct ranks *r, struct area *a, uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		uint64_t old, word = 0, until = ranks_now_ns() + RANKS_WAIT_NS;

		do {
			if (!OK(oriel_compare_swap(a->win, 0, 16, 0, (uint64_t)r->rank + 1, &old)))
				return false;
			if (old)
				usleep(50); /* the holder may need this CPU */
		} while (old && NEED(ranks_now_ns() < until, "the lock is never free"));
		if (old || !OK(oriel_get(a->win, 0, 24, &word, 8)) || !OK(oriel_flush(a->win, 0)))
			return false;
		word++;
		if (!OK(oriel_put(a->win, 0, 24, &word, 8)) || !OK(oriel_flush(a->win, 0)) ||
		    !OK(oriel_compare_swap(a->win, 0, 16, (uint64_t)r->rank + 1, 0, &old)))
			return false;
		CHECK(old == (uint64_t)r->rank + 1, "the lock was taken by %llu",
		      (unsigned long long)old);
	}
	if (!OK(oriel_compare_swap(a->win, r->rank, 32, 1, 5, NULL)))
		return false;
	CHECK(((uint64_t *)(void *)a->base)[4] == 0, "a wrong expectation changed the word");
	if (!OK(oriel_barrier(r->world)))
		return false;
	if (!r->rank)
		CHECK(((uint64_t *)(void *)a->base)[3] == times * (uint64_t)r->size,
		      "%llu increments under the lock",
		      (unsigned long long)((uint64_t *)(void *)a->base)[3]);
	return OK(oriel_barrier(r->world));
}

static size_t
fill(void *p, enum oriel_type type, size_t n, double value)
{
	for (size_t i = 0; i < n; i++) {
		double v = value * (double)(i + 1);

		switch (type) {
		case ORIEL_INT32:
			((int32_t *)p)[i] = (int32_t)v;
			break;
		case ORIEL_UINT32:
			((uint32_t *)p)[i] = (uint32_t)(int64_t)v;
			break;
		case ORIEL_INT64:
			((int64_t *)p)[i] = (int64_t)v;
			break;
		case ORIEL_UINT64:
			((uint64_t *)p)[i] = (uint64_t)(int64_t)v;
			break;
		case ORIEL_FLOAT:
			((float *)p)[i] = (float)v;
			break;
		default:
			((double *)p)[i] = v;
		}
	}
	return type == ORIEL_INT32 || type == ORIEL_UINT32 || type == ORIEL_FLOAT ? 4 : 8;
}

/*
 * Everyone adds (rank + 1) x (1, 2, 3, ...) and, to see that negative numbers and
 * wrap-around do, -2 x (1, 2, 3, ...) to everyone; then a signal tells that it is there.
 */
static bool
accumulate(struct ranks *r, struct area *a, enum oriel_type type, int times)
{
	int total = r->size * (r->size + 1) / 2 - 2 * r->size;
	_Alignas(8) char src[2][ELEMENTS * 8], want[ELEMENTS * 8];
	size_t size = fill(src[0], type, ELEMENTS, r->rank + 1), n = ORIEL_ACCUMULATE_MAX / size;
	size_t at = 64;

	n = n > ELEMENTS ? ELEMENTS : n;
	fill(src[1], type, ELEMENTS, -2);
	memset(a->base + at, 0, ELEMENTS * 8);
	if (!OK(oriel_barrier(r->world)))
		return false;
	for (int i = 0; i < times; i++) {
		for (int t = 0; t < r->size; t++) {
			size_t some = i % 2 ? n : 1 + (size_t)i % n;
			int rc = oriel_accumulate(a->win, t, at, src[0], some, type);

			rc = rc ? rc : oriel_accumulate(a->win, t, at, src[1], some, type);
			/* The rest of the array in a second call, so that all elements get the
			 * same. */
			if (!rc && some < n)
				rc = oriel_accumulate(a->win, t, at + some * size,
				                      src[0] + some * size, n - some, type);
			if (!rc && some < n)
				rc = oriel_accumulate(a->win, t, at + some * size,
				                      src[1] + some * size, n - some, type);
			if (!OK(rc))
				return false;
		}
	}
	for (int t = 0; t < r->size; t++)
		OK(oriel_signal(a->win, t, 0, ORIEL_SIGNAL_ADD, 1));
	if (!OK(oriel_signal_wait(a->win, 0, ORIEL_EQ, (uint64_t)r->size, RANKS_WAIT_NS, NULL)))
		return false;
	fill(want, type, ELEMENTS, total * times);
	for (size_t i = 0; i < n; i++)
		if (!CHECK(!memcmp(a->base + at + i * size, want + i * size, size),
		           "type %d, %s: element %zu is wrong", (int)type, area_name[a->kind], i))
			break;
	if (!OK(oriel_barrier(r->world)))
		return false;
	OK(oriel_signal(a->win, r->rank, 0, ORIEL_SIGNAL_SET, 0));
	return OK(oriel_flush_all(a->win)) && OK(oriel_barrier(r->world));
}

static bool
refused(struct ranks *r, struct area *a)
{
	int t = (r->rank + 1) % r->size;
	uint64_t word[ELEMENTS + 1] = { 0 }, old = 77;

	for (size_t d = 1; d < 8; d++) {
		FAILS(ORIEL_EINVAL, oriel_fetch_add(a->win, t, 8 + d, 1, &old));
		FAILS(ORIEL_EINVAL, oriel_compare_swap(a->win, t, 8 + d, 0, 1, &old));
		FAILS(ORIEL_EINVAL, oriel_accumulate(a->win, t, 8 + d, word, 1, ORIEL_INT64));
		if (d != 4)
			FAILS(ORIEL_EINVAL,
			      oriel_accumulate(a->win, t, 8 + d, word, 1, ORIEL_FLOAT));
	}
	FAILS(ORIEL_ERANGE, oriel_fetch_add(a->win, t, a->size, 1, &old));
	FAILS(ORIEL_ERANGE, oriel_fetch_add(a->win, t, a->size - 7, 1, &old));
	FAILS(ORIEL_ERANGE, oriel_fetch_add(a->win, t, SIZE_MAX - 7, 1, &old));
	FAILS(ORIEL_ERANGE, oriel_accumulate(a->win, t, a->size - 8, word, 2, ORIEL_INT64));
	FAILS(ORIEL_ELIMIT, oriel_accumulate(a->win, t, 64, word, ELEMENTS + 1, ORIEL_INT64));
	FAILS(ORIEL_ELIMIT, oriel_accumulate(a->win, t, 64, word, SIZE_MAX / 4, ORIEL_INT64));
	FAILS(ORIEL_EINVAL, oriel_accumulate(a->win, t, 64, NULL, 1, ORIEL_INT64));
	FAILS(ORIEL_EINVAL, oriel_accumulate(a->win, t, 64, word, 1, (enum oriel_type)6));
	FAILS(ORIEL_EINVAL, oriel_accumulate(a->win, t, 64, word, 1, (enum oriel_type) - 1));
	OK(oriel_accumulate(a->win, t, 64, NULL, 0, ORIEL_INT64));
	CHECK(old == 77, "a refused call wrote its result");
	return OK(oriel_barrier(r->world));
}

/* Windows at odd addresses: what counts is the address, not the displacement alone. */
static bool
odd(struct ranks *r, enum area_kind kind)
{
	uint64_t old = 77;
	struct area a;
	int t = (r->rank + 1) % r->size;
	size_t disp = kind == AREA_POOL_ODD ? 3 : 1; /* makes the address a multiple of 8 */

	if (!area_open(&a, r, r->world, kind, 64, 0))
		return false;
	FAILS(ORIEL_EINVAL, oriel_fetch_add(a.win, t, 0, 1, &old));
	FAILS(ORIEL_EINVAL, oriel_accumulate(a.win, t, 0, &old, 1, ORIEL_DOUBLE));
	FAILS(ORIEL_EINVAL, oriel_fetch_add(a.win, t, disp, 1, &old));
	CHECK(old == 77, "a refused call wrote its result");
	if (!OK(oriel_barrier(r->world)))
		return false;
	CHECK(area_all_fill(a.base, 64), "a refused call changed the window");
	return area_close(&a);
}

/* Several threads of a rank, each with answers of its own under way. */
struct adder {
	struct ranks *r;
	oriel_win *win;
	uint64_t times;
};

static void *
add_in_thread(void *arg)
{
	struct adder *t = arg;
	uint64_t last = 0, old = 0;

	ranks_adopt(t->r);
	for (uint64_t i = 0; i < t->times; i++) {
		if (!OK(oriel_fetch_add(t->win, 0, 40, 3, &old)))
			break;
		CHECK(!i || old >= last + 3, "%llu after %llu", (unsigned long long)old,
		      (unsigned long long)last);
		last = old;
	}
	return NULL;
}

static bool
threads(struct ranks *r, struct area *a, uint64_t times)
{
	struct adder arg = { r, a->win, times };
	pthread_t thread[3];
	uint64_t seen;
	int n = 0;

	for (; n < 3; n++)
		if (!NEED(!pthread_create(&thread[n], NULL, add_in_thread, &arg), "no thread"))
			break;
	add_in_thread(&arg);
	while (n)
		pthread_join(thread[--n], NULL);
	if (!OK(oriel_barrier(r->world)))
		return false;
	seen = ((uint64_t *)(void *)a->base)[5];
	if (!r->rank)
		CHECK(seen == 12 * times * (uint64_t)r->size, "the threads' sum is %llu",
		      (unsigned long long)seen);
	return OK(oriel_barrier(r->world));
}

static int
run(struct ranks *r)
{
	static const enum area_kind kinds[] = { AREA_ALLOC, AREA_POOL, AREA_USER };
	uint64_t times = r->rounds ? r->rounds : TIMES;

	if (r->size > 64)
		return ranks_skip("more than 64 ranks");
	for (size_t i = 0; i < 3; i++) {
		struct area a;

		if (!area_open(&a, r, r->world, kinds[i], 64 + ELEMENTS * 8, 1))
			return 1;
		memset(a.base, 0, a.size);
		if (!OK(oriel_barrier(r->world)) || !fetch_add(r, &a, times) ||
		    !compare_swap(r, &a, times / 10) || !threads(r, &a, times / 4) ||
		    !refused(r, &a))
			return 1;
		for (int type = ORIEL_INT32; type <= ORIEL_DOUBLE; type++)
			if (!accumulate(r, &a, (enum oriel_type)type, (int)times / 20))
				return 1;
		if (!area_close(&a))
			return 1;
	}
	return !odd(r, AREA_POOL_ODD) || !odd(r, AREA_USER_ODD);
}

RANKS_MAIN(run)
