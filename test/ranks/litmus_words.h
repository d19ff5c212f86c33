/*
 * litmus_words.h - the lines of test/ranks/litmus.c about atomics, accumulates,
 * values of slots, and the passive target.
 */
#ifndef TEST_RANKS_LITMUS_WORDS_H
#define TEST_RANKS_LITMUS_WORDS_H

#include "test/ranks/litmus.h"

/* MM10: a fetch_add and a compare_swap of each rank: none is lost, and the word never goes back. */
static inline bool
two_additions(struct env *e)
{
	uint64_t expected, seen;

	delay(e);
	if (!OK(oriel_fetch_add(e->win, e->root, WORDS, 1, &seen)))
		return false;
	for (expected = seen + 1;; expected = seen) {
		delay(e);
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
	uint64_t total = 2 * (uint64_t)e->r->size, seen;

	if (!two_additions(e))
		return;
	if (e->r->rank != e->root) {
		OK(oriel_signal(e->win, e->root, COUNT, ORIEL_SIGNAL_ADD, 1));
	} else if (await_count(e) &&
	           OK(oriel_compare_swap(e->win, e->root, WORDS, total, 0, &seen)) &&
	           seen != total) {
		violated(e, "two additions of each rank", total, seen);
		OK(oriel_compare_swap(e->win, e->root, WORDS, seen, 0, NULL));
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
	size_t n = e->len / 8, i;
	int64_t one = 1, total;

	for (i = 0; i < n; i++)
		memcpy(e->src[0] + i * 8, &one, 8);
	if (e->r->rank != e->root) {
		delay(e);
		if (OK(oriel_accumulate(e->win, e->root, SUMS, e->src[0], n, ORIEL_INT64)))
			OK(oriel_signal(e->win, e->root, COUNT, ORIEL_SIGNAL_ADD, 1));
	} else if (await_count(e)) {
		for (i = 0; i < n; i++) {
			memcpy(&total, e->base + SUMS + i * 8, 8);
			if (total == e->r->size - 1)
				continue;
			violated(e, "a sum", (uint64_t)e->r->size - 1, (uint64_t)total);
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
	if (!OK(oriel_signal(e->win, to, SUM, ORIEL_SIGNAL_SET, base)) ||
	    !OK(oriel_signal(e->win, to, SUM, ORIEL_SIGNAL_ADD, 1)) ||
	    !OK(oriel_signal(e->win, to, SUM, ORIEL_SIGNAL_ADD, 2)) ||
	    !await(e->win, from, SUM, base + 3, (unsigned)ranks_random(e->r, 6)) ||
	    !OK(oriel_signal_read(e->win, SUM, &seen)))
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
