/*
 * litmus_words.h - the lines of test/ranks/litmus.c about atomics, accumulates,
 * values of slots, and the passive target.
 */
#ifndef TEST_RANKS_LITMUS_WORDS_H
#define TEST_RANKS_LITMUS_WORDS_H

#include "test/ranks/litmus.h"

#define BURST_NS 40000 /* how long all ranks do the same thing at once */
#define BURST_MIN 4

/* Ranks begin together: those that left the barrier in the same period, when the next one begins.
 */
static inline uint64_t
burst_end(struct env *e)
{
	uint64_t start;

	OK(oriel_barrier(e->r->world));
	start = (ranks_now_ns() / BURST_NS + 1) * BURST_NS;
	while (ranks_now_ns() < start)
		;
	return start + BURST_NS;
}

static inline bool
burst_goes_on(const struct env *e, uint64_t n, uint64_t end)
{
	return !stopped(e) && (n < BURST_MIN || ranks_now_ns() < end);
}

/* Tells the root how often this rank did it; at the root, *sum: how often all did, itself included.
 */
static inline bool
report(struct env *e, uint64_t n, uint64_t *sum)
{
	uint64_t total;

	if (e->r->rank != e->root)
		return OK(oriel_signal(e->win, e->root, TOTAL, ORIEL_SIGNAL_ADD, n)) &&
		       OK(oriel_signal(e->win, e->root, COUNT, ORIEL_SIGNAL_ADD, 1)) && false;
	if (!await_count(e) || !OK(oriel_signal_read(e->win, TOTAL, &total)))
		return false;
	*sum = total - e->total + n;
	e->total = total;
	return true;
}

/* MM2: no ADD is lost. */
static inline void
many_adds(struct env *e)
{
	uint64_t end = burst_end(e), n, sum, seen;

	for (n = 0; burst_goes_on(e, n, end); n++)
		if (!OK(oriel_signal(e->win, e->root, SUM, ORIEL_SIGNAL_ADD, 1)))
			return;
	if (report(e, n, &sum) &&
	    await(e->win, e->r->rank, SUM, e->sum + n, (unsigned)ranks_random(e->r, 6)) &&
	    OK(oriel_signal_read(e->win, SUM, &seen))) {
		if (seen != e->sum + sum)
			violated(e, "the ADDs of all ranks", e->sum + sum, seen);
		e->sum = seen;
	}
	acknowledge_root(e);
}

/* MM10: no fetch_add and no compare_swap is lost, and the word never goes back. */
static inline bool
swap_add(struct env *e, uint64_t expected)
{
	uint64_t seen;

	for (;; expected = seen) {
		if (!OK(oriel_compare_swap(e->win, e->root, WORDS, expected, expected + 1, &seen)))
			return false;
		if (seen < expected)
			violated(e, "a word that only grows", expected, seen);
		if (seen == expected)
			return true;
	}
}

static inline void
atomics(struct env *e)
{
	uint64_t end = burst_end(e), n, sum, seen = 0;

	for (n = 0; burst_goes_on(e, n, end); n += 2)
		if (!OK(oriel_fetch_add(e->win, e->root, WORDS, 1, &seen)) ||
		    !swap_add(e, seen + 1))
			return;
	if (report(e, n, &sum)) {
		OK(oriel_compare_swap(e->win, e->root, WORDS, sum, 0, &seen));
		if (seen != sum) {
			violated(e, "the additions of all ranks", sum, seen);
			OK(oriel_compare_swap(e->win, e->root, WORDS, seen, 0, NULL));
		}
	}
	acknowledge_root(e);
}

/* MM10: a lock made of compare_swap: a get and a put under it, a flush before it is given back. */
static inline bool
under_lock(struct env *e, uint64_t me)
{
	uint64_t first, other;
	size_t i;

	if (!OK(oriel_get(e->win, e->root, LOCKED, e->src[4], e->len)) ||
	    !OK(oriel_flush_local(e->win, e->root)))
		return false;
	memcpy(&first, e->src[4], 8);
	for (i = 0; i < e->len / 8; i++) {
		memcpy(&other, e->src[4] + i * 8, 8);
		if (other != first) {
			violated(e, "one holder's data", first, other);
			break;
		}
	}
	first = e->round << 16 | me;
	for (i = 0; i < e->len / 8; i++)
		memcpy(e->src[4] + i * 8, &first, 8);
	delay(e);
	return OK(oriel_put(e->win, e->root, LOCKED, e->src[4], e->len)) &&
	       OK(oriel_flush(e->win, e->root));
}

static inline void
locked(struct env *e)
{
	uint64_t me = (uint64_t)e->r->rank + 1, old;

	e->len = 4096; /* of every size alike: a shorter one would leave a rest */
	do {
		delay(e);
		if (!OK(oriel_compare_swap(e->win, e->root, WORDS + 64, 0, me, &old)))
			return;
		if (old)
			sched_yield();
	} while (old);
	if (!under_lock(e, me) || !OK(oriel_compare_swap(e->win, e->root, WORDS + 64, me, 0, &old)))
		return;
	if (old != me)
		violated(e, "the lock word of its holder", me, old);
	if (e->r->rank != e->root)
		OK(oriel_signal(e->win, e->root, COUNT, ORIEL_SIGNAL_ADD, 1));
	else
		await_count(e);
	acknowledge_root(e);
}

/* MM11: accumulates of all ranks at one place are there when their signals are. */
static inline void
accumulate(struct env *e)
{
	uint64_t end, k, sum;
	size_t n = e->len / 8, i;
	int64_t one = 1, total;

	for (i = 0; i < n; i++)
		memcpy(e->src[0] + i * 8, &one, 8);
	end = burst_end(e);
	for (k = 0; burst_goes_on(e, k, end); k++)
		if (!OK(oriel_accumulate(e->win, e->root, SUMS, e->src[0], n, ORIEL_INT64)))
			return;
	if (report(e, k, &sum)) {
		for (i = 0; i < n; i++) {
			memcpy(&total, e->base + SUMS + i * 8, 8);
			if (total == (int64_t)sum)
				continue;
			violated(e, "a sum", sum, (uint64_t)total);
			break;
		}
		memset(e->base + SUMS, 0, n * 8);
	}
	acknowledge_root(e);
}

/* MM13: SET replaces and ADD adds, in the order of their domain; the owner may signal itself. */
static inline void
set_and_add(struct env *e)
{
	uint64_t base = e->round * 8, seen;
	int to = e->round % 5 ? e->right : e->r->rank, from = e->round % 5 ? e->left : e->r->rank;

	delay(e);
	if (!OK(oriel_signal(e->win, to, MIX, ORIEL_SIGNAL_SET, base)) ||
	    !OK(oriel_signal(e->win, to, MIX, ORIEL_SIGNAL_ADD, 1)) ||
	    !OK(oriel_signal(e->win, to, MIX, ORIEL_SIGNAL_ADD, 2)) ||
	    !await(e->win, from, MIX, base + 3, (unsigned)ranks_random(e->r, 6)) ||
	    !OK(oriel_signal_read(e->win, MIX, &seen)))
		return;
	if (seen != base + 3)
		violated(e, "SET and two ADDs", base + 3, seen);
	if (!OK(oriel_signal(e->win, e->right, LIMIT, ORIEL_SIGNAL_SET, ORIEL_SIGNAL_MAX)) ||
	    !await(e->win, e->left, LIMIT, ORIEL_SIGNAL_MAX, (unsigned)ranks_random(e->r, 6)))
		return;
	FAILS(ORIEL_EINVAL,
	      oriel_signal(e->win, e->right, LIMIT, ORIEL_SIGNAL_SET, ORIEL_SIGNAL_MAX + 1));
	acknowledge(e);
}

/* MM14: the root calls nothing; it looks at a word of its own memory until all are through. */
static inline void
call_nothing(struct env *e)
{
	uint64_t *word = (uint64_t *)(void *)(e->base + WORDS + 128), n = (uint64_t)e->r->size - 1;
	uint64_t end = ranks_now_ns() + RANKS_WAIT_NS, seen;
	int i;

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < n && ranks_now_ns() < end)
		sched_yield();
	if (seen < n)
		violated(e, "ranks that were through while their target called nothing", n, seen);
	for (i = 0; i < e->r->size && i < AREAS; i++)
		if (i != e->root)
			verify(e, area(e, (unsigned)i), i, (unsigned)i, "a flushed put");
	OK(oriel_fetch_add(e->win, e->root, WORDS + 128, 0 - n, NULL));
}

static inline void
passive(struct env *e)
{
	unsigned mine = (unsigned)(e->r->rank % AREAS);

	if (e->r->rank == e->root) {
		call_nothing(e);
		acknowledge_root(e);
		return;
	}
	/* More ranks than areas: those only count. */
	if (e->r->rank < AREAS) {
		fill(e, e->src[mine], e->r->rank, mine);
		if (!put(e, e->root, mine) || !OK(oriel_flush(e->win, e->root)) ||
		    !OK(oriel_get(e->win, e->root, mine * AREA, e->src[mine], e->len)) ||
		    !OK(oriel_flush(e->win, e->root)))
			return;
		verify(e, e->src[mine], e->r->rank, mine, "what was put at the passive target");
	}
	if (OK(oriel_fetch_add(e->win, e->root, WORDS + 128, 1, NULL)))
		acknowledge_root(e);
}

#endif
