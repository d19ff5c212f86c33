/*
 * Signals and waits: SET and ADD, every comparison, timeouts, any and all of
 * several, waiting for one rank only, many slots, several waiting threads, and
 * ranks that sleep when the signal comes.
 */
#include "test/ranks/area.h"

#include <pthread.h>

#define MS UINT64_C(1000000)
#define SLOTS 8
#define LATE_NS                                                                                    \
	(100 * MS) /* a wake-up that takes longer was lost, even where ranks share a CPU           \
	            */
#define MANY 5000  /* slots of a window */
#define WAITERS 4

static int
right(const struct ranks *r)
{
	return (r->rank + 1) % r->size;
}

static int
left(const struct ranks *r)
{
	return (r->rank + r->size - 1) % r->size;
}

static bool
holds(int cmp, uint64_t seen, uint64_t value)
{
	const bool is[] = {
		[ORIEL_EQ] = seen == value, [ORIEL_NE] = seen != value, [ORIEL_GE] = seen >= value,
		[ORIEL_GT] = seen > value,  [ORIEL_LE] = seen <= value, [ORIEL_LT] = seen < value
	};

	return is[cmp];
}

/* Every comparison around every interesting value, those above ORIEL_SIGNAL_MAX as operands too. */
static bool
comparisons(struct ranks *r, oriel_win *win)
{
	static const uint64_t values[] = { 0, 1, 2, ORIEL_SIGNAL_MAX - 1, ORIEL_SIGNAL_MAX };
	static const uint64_t operands[] = {
		0, 1, 2, 3, ORIEL_SIGNAL_MAX - 1, ORIEL_SIGNAL_MAX, ORIEL_SIGNAL_MAX + 1, UINT64_MAX
	};

	for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
		if (!OK(oriel_signal(win, r->rank, 3, ORIEL_SIGNAL_SET, values[v])))
			return false;
		OK(oriel_flush(win, r->rank));
		for (size_t o = 0; o < sizeof(operands) / sizeof(operands[0]); o++) {
			for (int cmp = ORIEL_EQ; cmp <= ORIEL_LT; cmp++) {
				bool want = holds(cmp, values[v], operands[o]);
				enum oriel_cmp c = (enum oriel_cmp)cmp;
				uint64_t seen = 77;
				int met = 77, rc;

				OK(oriel_signal_test(win, 3, c, operands[o], &met));
				CHECK(met == want, "test: %llu, cmp %d, %llu: %d",
				      (unsigned long long)values[v], cmp,
				      (unsigned long long)operands[o], met);
				rc = oriel_signal_wait(win, 3, c, operands[o], 0, &seen);
				CHECK(rc == (want ? 0 : ORIEL_ETIMEDOUT), "wait: %s",
				      oriel_strerror(rc));
				CHECK(seen == (want ? values[v] : 77), "seen %llu",
				      (unsigned long long)seen);
			}
		}
	}
	return OK(oriel_signal(win, r->rank, 3, ORIEL_SIGNAL_SET, 0));
}

static bool
values(struct ranks *r, oriel_win *win)
{
	const uint64_t above = ORIEL_SIGNAL_MAX + 1;
	uint64_t seen = 0;

	/* The greatest value travels, one more is refused, on every path. */
	if (!OK(oriel_signal(win, right(r), 0, ORIEL_SIGNAL_SET, ORIEL_SIGNAL_MAX)) ||
	    !OK(oriel_signal_wait(win, 0, ORIEL_NE, 0, RANKS_WAIT_NS, &seen)))
		return false;
	CHECK(seen == ORIEL_SIGNAL_MAX, "seen %llu", (unsigned long long)seen);
	FAILS(ORIEL_EINVAL, oriel_signal(win, right(r), 0, ORIEL_SIGNAL_SET, above));
	FAILS(ORIEL_EINVAL, oriel_signal(win, right(r), 0, ORIEL_SIGNAL_ADD, UINT64_MAX));
	FAILS(ORIEL_EINVAL,
	      oriel_put_signal(win, right(r), 0, &seen, 8, 0, ORIEL_SIGNAL_SET, above));
	FAILS(ORIEL_EINVAL, oriel_signal(win, right(r), 0, (enum oriel_signal_op)2, 1));
	if (!OK(oriel_barrier(r->world)) ||
	    !OK(oriel_signal(win, right(r), 0, ORIEL_SIGNAL_SET, 0)) ||
	    !OK(oriel_signal_wait(win, 0, ORIEL_EQ, 0, RANKS_WAIT_NS, NULL)) ||
	    !OK(oriel_barrier(r->world)))
		return false;

	/* Everyone adds to everyone: the sum is exact. */
	for (int t = 0; t < r->size; t++)
		for (int i = 1; i <= 100; i++)
			if (!OK(oriel_signal(win, t, 1, ORIEL_SIGNAL_ADD, (uint64_t)i)))
				return false;
	if (!OK(oriel_signal_wait(win, 1, ORIEL_GE, (uint64_t)r->size * 5050, RANKS_WAIT_NS,
	                          &seen)))
		return false;
	CHECK(seen == (uint64_t)r->size * 5050, "the sum is %llu", (unsigned long long)seen);
	OK(oriel_signal_read(win, 1, &seen));
	CHECK(seen == (uint64_t)r->size * 5050, "waiting consumed: %llu", (unsigned long long)seen);
	return OK(oriel_barrier(r->world));
}

static bool
timeouts(struct ranks *r, oriel_win *win)
{
	static const uint64_t ns[] = { 0, 1, MS, 30 * MS };
	struct oriel_cond conds[] = { { 5, ORIEL_EQ, 9 }, { 6, ORIEL_GE, 1 } };

	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		uint64_t start = ranks_now_ns(), took, seen = 77;
		size_t which = 77;
		char want[48];

		FAILS(ORIEL_ETIMEDOUT, oriel_signal_wait(win, 5, ORIEL_EQ, 9, ns[i], &seen));
		snprintf(want, sizeof(want), "rank %d waits for slot 5 == 9, seen 0", r->rank);
		CHECK(strstr(oriel_detail(), want), "detail: %s", oriel_detail());
		FAILS(ORIEL_ETIMEDOUT,
		      oriel_signal_wait_from(win, left(r), 5, ORIEL_EQ, 9, ns[i], &seen));
		FAILS(ORIEL_ETIMEDOUT, oriel_signal_wait_any(win, 2, conds, ns[i], &which));
		FAILS(ORIEL_ETIMEDOUT, oriel_signal_wait_all(win, 2, conds, ns[i]));
		took = ranks_now_ns() - start;
		CHECK(took >= 4 * ns[i], "4 waits of %llu ns took %llu", (unsigned long long)ns[i],
		      (unsigned long long)took);
		CHECK(took < 4 * ns[i] + 2000 * MS, "4 waits of %llu ns took %llu ms",
		      (unsigned long long)ns[i], (unsigned long long)(took / MS));
		CHECK(seen == 77 && which == 77, "a wait that timed out wrote its result");
	}
	return OK(oriel_barrier(r->world));
}

/* Any: the lowest that holds. All: each held at some time, not necessarily at the end. */
static bool
several(struct ranks *r, oriel_win *win)
{
	struct oriel_cond conds[] = { { 4, ORIEL_EQ, 1 }, { 5, ORIEL_EQ, 2 }, { 6, ORIEL_GE, 3 } };
	size_t which = 77;

	OK(oriel_signal_wait_all(win, 0, NULL, 0));
	FAILS(ORIEL_EINVAL, oriel_signal_wait_any(win, 0, NULL, 0, &which));
	FAILS(ORIEL_EINVAL, oriel_signal_wait_any(win, 1, NULL, 0, &which));
	FAILS(ORIEL_EINVAL, oriel_signal_wait_all(win, 1, NULL, 0));
	if (!OK(oriel_signal(win, right(r), 6, ORIEL_SIGNAL_SET, 3)) ||
	    !OK(oriel_signal_wait_any(win, 3, conds, RANKS_WAIT_NS, &which)))
		return false;
	CHECK(which == 2, "condition %zu", which);
	if (!OK(oriel_barrier(r->world)) ||
	    !OK(oriel_signal(win, right(r), 5, ORIEL_SIGNAL_SET, 2)) ||
	    !OK(oriel_signal_wait(win, 5, ORIEL_EQ, 2, RANKS_WAIT_NS, NULL)) ||
	    !OK(oriel_signal_wait_any(win, 3, conds, RANKS_WAIT_NS, &which)))
		return false;
	CHECK(which == 1, "condition %zu, not the lowest", which);
	OK(oriel_signal_wait_any(win, 3, conds, 0, NULL));
	/* Slot 4 is still 0. */
	FAILS(ORIEL_ETIMEDOUT, oriel_signal_wait_all(win, 3, conds, MS));
	if (!OK(oriel_barrier(r->world)) ||
	    !OK(oriel_signal(win, right(r), 4, ORIEL_SIGNAL_SET, 1)) ||
	    !OK(oriel_signal_wait_all(win, 3, conds, RANKS_WAIT_NS)))
		return false;
	/* The same slot twice in one list. */
	conds[1] = (struct oriel_cond){ 4, ORIEL_LT, 5 };
	OK(oriel_signal_wait_all(win, 3, conds, 0));
	conds[2].slot = SLOTS;
	FAILS(ORIEL_ERANGE, oriel_signal_wait_all(win, 3, conds, 0));
	CHECK(strstr(oriel_detail(), "condition 2"), "detail: %s", oriel_detail());
	return OK(oriel_barrier(r->world));
}

/*
 * Puts before a signal are there when it is seen: by put_signal, and by puts and
 * a signal; from each rank, in turn, the same slot counting on.
 */
static bool
order(struct ranks *r, enum area_kind kind)
{
	uint64_t rounds = r->rounds ? r->rounds : 300, block[64];
	struct area a;

	if (!area_open(&a, r, r->world, kind, (size_t)r->size * sizeof(block), (size_t)r->size + 1))
		return false;
	for (uint64_t n = 1; n <= rounds; n++) {
		size_t mine = (size_t)r->rank * sizeof(block);

		for (int i = 0; i < 64; i++)
			block[i] = n;
		for (int t = 0; t < r->size; t++) {
			if (n % 2) {
				OK(oriel_put(a.win, t, mine, block, 256));
				OK(oriel_put(a.win, t, mine + 256, block, 8));
				OK(oriel_put(a.win, t, mine + 264, block, 248));
				OK(oriel_signal(a.win, t, (size_t)r->rank, ORIEL_SIGNAL_SET, n));
			} else {
				OK(oriel_put(a.win, t, mine, block, 504));
				OK(oriel_put_signal(a.win, t, mine + 504, block, 8, (size_t)r->rank,
				                    ORIEL_SIGNAL_ADD, 1));
			}
		}
		for (int s = 0; s < r->size; s++) {
			uint64_t there[64], seen = 0;

			if (!OK(oriel_signal_wait_from(a.win, s, (size_t)s, ORIEL_GE, n,
			                               RANKS_WAIT_NS, &seen)))
				return false;
			memcpy(there, a.base + (size_t)s * sizeof(there), sizeof(there));
			for (int i = 0; i < 64; i++)
				if (!CHECK(there[i] >= n,
				           "round %llu of rank %d, %s: word %d is %llu",
				           (unsigned long long)n, s, area_name[kind], i,
				           (unsigned long long)there[i]))
					break;
		}
		/* Everyone has read before the next round is put. */
		for (int t = 0; t < r->size; t++)
			OK(oriel_signal(a.win, t, (size_t)r->size, ORIEL_SIGNAL_ADD, 1));
		if (!OK(oriel_signal_wait(a.win, (size_t)r->size, ORIEL_GE, n * (uint64_t)r->size,
		                          RANKS_WAIT_NS, NULL)))
			return false;
	}
	return area_close(&a);
}

/* Slots in numbers that differ by rank; the last of each works, the next does not exist. */
static bool
many_slots(struct ranks *r)
{
	size_t mine = r->rank == 0 ? MANY : (size_t)r->rank % 3;
	uint64_t seen = 0;
	oriel_win *win;
	void *base;

	if (!OK(oriel_win_alloc(r->world, 0, mine, &base, &win)))
		return false;
	CHECK(!base, "an empty window has memory");
	for (size_t i = (size_t)r->rank; i < MANY; i += (size_t)r->size)
		if (!OK(oriel_signal(win, 0, i, ORIEL_SIGNAL_SET, i + 1)))
			return false;
	for (size_t i = 0; i < mine && !r->rank; i++) {
		if (!OK(oriel_signal_wait(win, i, ORIEL_NE, 0, RANKS_WAIT_NS, &seen)))
			return false;
		CHECK(seen == i + 1, "slot %zu is %llu", i, (unsigned long long)seen);
	}
	FAILS(ORIEL_ERANGE, oriel_signal(win, 0, MANY, ORIEL_SIGNAL_SET, 1));
	FAILS(ORIEL_ERANGE, oriel_signal(win, 0, SIZE_MAX, ORIEL_SIGNAL_SET, 1));
	FAILS(ORIEL_ERANGE, oriel_signal_wait(win, mine, ORIEL_EQ, 0, 0, &seen));
	FAILS(ORIEL_ERANGE, oriel_signal_read(win, SIZE_MAX, &seen));
	return OK(oriel_win_free(win));
}

/* Threads of a rank wait for slots of their own; one more signals all of them to the right. */
struct waiter {
	struct ranks *r;
	oriel_win *win;
	size_t slot;
	uint64_t rounds;
};

static void *
wait_in_thread(void *arg)
{
	struct waiter *w = arg;

	ranks_adopt(w->r);
	for (uint64_t n = 1; n <= w->rounds; n++) {
		if (!OK(oriel_signal_wait(w->win, w->slot, ORIEL_GE, n, RANKS_WAIT_NS, NULL)) ||
		    !OK(oriel_signal(w->win, left(w->r), WAITERS, ORIEL_SIGNAL_ADD, 1)))
			break;
	}
	return NULL;
}

static bool
threads(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 200;
	struct waiter w[WAITERS];
	pthread_t thread[WAITERS];
	int started = 0;
	oriel_win *win;
	bool ok = true;
	void *base;

	if (!OK(oriel_win_alloc(r->world, 64, WAITERS + 1, &base, &win)))
		return false;
	for (; started < WAITERS; started++) {
		w[started] = (struct waiter){ r, win, (size_t)started, rounds };
		if (!NEED(!pthread_create(&thread[started], NULL, wait_in_thread, &w[started]),
		          "no thread"))
			break;
	}
	for (uint64_t n = 1; n <= rounds && ok; n++) {
		for (size_t s = 0; s < WAITERS; s++)
			OK(oriel_signal(win, right(r), (s + n) % WAITERS, ORIEL_SIGNAL_ADD, 1));
		ok = OK(oriel_signal_wait(win, WAITERS, ORIEL_GE, n * WAITERS, RANKS_WAIT_NS,
		                          NULL));
	}
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	return ok && OK(oriel_win_free(win));
}

/*
 * A signal that comes when the waiter has slept for a while. Rank 0 sends to
 * each other rank in turn, after a pause; the answer's way is measured.
 */
static bool
sleepers(struct ranks *r, oriel_win *win)
{
	static const uint64_t pauses_ms[] = { 1, 2, 3, 5, 20, 40, 2, 3, 11, 4 };
	uint64_t base = 0, worst = 0;

	if (!OK(oriel_signal_read(win, 7, &base)) || !OK(oriel_barrier(r->world)))
		return false;
	for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
		int other = 1 + (int)(i % (size_t)(r->size - 1));
		uint64_t start;

		if (r->rank == other) {
			if (!OK(oriel_signal_wait(win, 7, ORIEL_GT, base, RANKS_WAIT_NS, &base)) ||
			    !OK(oriel_signal(win, 0, 7, ORIEL_SIGNAL_ADD, 1)))
				return false;
		}
		if (r->rank)
			continue;
		usleep((unsigned)pauses_ms[i] * 1000); /* the others sleep by then */
		start = ranks_now_ns();
		if (!OK(oriel_signal(win, other, 7, ORIEL_SIGNAL_ADD, 1)) ||
		    !OK(oriel_signal_wait(win, 7, ORIEL_GT, base, RANKS_WAIT_NS, &base)))
			return false;
		start = ranks_now_ns() - start;
		worst = start > worst ? start : worst;
	}
	if (!r->rank)
		CHECK(worst < LATE_NS, "waking a sleeper took up to %llu us",
		      (unsigned long long)(worst / 1000));
	return OK(oriel_barrier(r->world));
}

static int
run(struct ranks *r)
{
	static const enum area_kind kinds[] = { AREA_ALLOC, AREA_USER };

	for (size_t i = 0; i < 2; i++) {
		struct area a;

		if (!area_open(&a, r, r->world, kinds[i], 64, SLOTS) || !comparisons(r, a.win) ||
		    !values(r, a.win) || !timeouts(r, a.win) || !several(r, a.win) ||
		    (r->size > 1 && !sleepers(r, a.win)) || !area_close(&a) || !order(r, kinds[i]))
			return 1;
	}
	return !many_slots(r) || !threads(r);
}

RANKS_MAIN(run)
