/*
 * litmus.h - what the lines of test/ranks/litmus.c share: the windows of a run,
 * patterns that name round, origin and place, every way to see a signal, and a
 * second thread.
 *
 * A line is a function that makes one round; all ranks make the same rounds in
 * the same order. In most of them each rank is the origin for its right
 * neighbour and the target of its left one; in some one rank of them all, the
 * root, is the target. A round ends when each rank knows that its target has
 * looked (an acknowledgement), so the next round may overwrite everything.
 */
#ifndef TEST_RANKS_LITMUS_H
#define TEST_RANKS_LITMUS_H

#include "test/ranks/ranks.h"

#include <pthread.h>
#include <sched.h>

#define AREAS 5
#define AREA ((size_t)1 << 20) /* bytes of the largest message */
#define WORDS (AREAS * AREA)   /* displacement of the words for atomics */
#define LOCKED (WORDS + 4096)  /* what a lock protects */
#define SUMS (WORDS + 8192)    /* what is accumulated into */
#define WINDOW (WORDS + 12288)

/* Signal slots; the value is the round's number unless said otherwise. */
enum { DATA, ACK, COUNT, TOTAL, SUM, FIRST, SECOND, MIX, RELAY, LIMIT, THREAD, SLOTS };

struct env {
	struct ranks *r;
	const char *line; /* "MM1 ..." */
	const char *kind; /* of the windows */
	oriel_win *win, *other;
	unsigned char *base;
	unsigned char *src[AREAS];  /* local buffers */
	size_t len;                 /* bytes of a message in this round */
	uint64_t round;             /* grows over all lines */
	uint64_t count, total, sum; /* what the slots of these names hold at this rank */
	int left, right, root;
	uint64_t helper_random;
	/* The second thread: runs job once for each post. */
	pthread_t helper;
	pthread_mutex_t lock;
	pthread_cond_t change;
	void (*job)(struct env *e);
	bool busy, quit;
	bool unreachable; /* a line found that its subject does not exist on this path */
};

static inline bool
stopped(const struct env *e)
{
	return e->r->aborted != 0;
}

/* Mostly nothing, sometimes long enough that the other side overtakes. */
static inline void
pause_a_bit(uint64_t *random)
{
	uint64_t x = ranks_next(random);

	if (x % 3 == 0)
		ranks_delay(x >> 8 & 0xff);
	else if (x % 31 == 1)
		ranks_delay(x >> 8 & 0x3fff);
}

static inline void
delay(struct env *e)
{
	pause_a_bit(&e->r->random);
}

/* Says that the line does not hold; the test goes on. */
static inline void
violated(struct env *e, const char *what, uint64_t expected, uint64_t seen)
{
	CHECK(false, "%s, %s window, %zu bytes, round %llu: %s: expected %#llx, seen %#llx",
	      e->line, e->kind, e->len, (unsigned long long)e->round, what,
	      (unsigned long long)expected, (unsigned long long)seen);
}

static inline uint64_t
tag(const struct env *e, int origin, unsigned area)
{
	uint64_t state = e->round << 20 ^ (uint64_t)origin << 4 ^ area;

	return ranks_next(&state);
}

static inline uint64_t
word_of(uint64_t t, size_t i)
{
	return t + i * UINT64_C(0x9e3779b97f4a7c15);
}

static inline void
fill(struct env *e, void *p, int origin, unsigned area)
{
	uint64_t t = tag(e, origin, area), v;
	size_t i;

	for (i = 0; i < e->len / 8; i++) {
		v = word_of(t, i);
		memcpy((char *)p + i * 8, &v, 8);
	}
}

/* The whole message of origin is there. */
static inline void
verify(struct env *e, const void *p, int origin, unsigned area, const char *what)
{
	uint64_t t = tag(e, origin, area), v;
	size_t i;

	for (i = 0; i < e->len / 8; i++) {
		memcpy(&v, (const char *)p + i * 8, 8);
		if (v == word_of(t, i))
			continue;
		violated(e, what, word_of(t, i), v);
		return;
	}
}

static inline unsigned char *
area(struct env *e, unsigned i)
{
	return e->base + i * AREA;
}

/*
 * ---- Seeing a signal, in every way ----
 */

static inline bool
poll_read(oriel_win *win, unsigned slot, uint64_t value)
{
	uint64_t end = ranks_now_ns() + RANKS_WAIT_NS, seen;

	do {
		if (!OK(oriel_signal_read(win, slot, &seen)))
			return false;
		if (seen < value) { /* read makes no progress of its own */
			int met;

			if (!OK(oriel_signal_test(win, slot, ORIEL_GE, value, &met)))
				return false;
			sched_yield();
		}
	} while (seen < value && ranks_now_ns() < end);
	return NEED(seen >= value, "slot %u: %llu did not come, seen %llu", slot,
	            (unsigned long long)value, (unsigned long long)seen);
}

static inline bool
poll_test(oriel_win *win, unsigned slot, uint64_t value)
{
	uint64_t end = ranks_now_ns() + RANKS_WAIT_NS;
	int met;

	do {
		if (!OK(oriel_signal_test(win, slot, ORIEL_GE, value, &met)))
			return false;
		if (!met)
			sched_yield();
	} while (!met && ranks_now_ns() < end);
	return NEED(met, "slot %u: %llu did not come", slot, (unsigned long long)value);
}

/* Until slot is at least value; source: who alone raises it, or -1. */
static inline bool
await(oriel_win *win, int source, unsigned slot, uint64_t value, unsigned way)
{
	struct oriel_cond conds[2] = { { slot, ORIEL_LT, 0 }, { slot, ORIEL_GE, value } };
	size_t which;

	switch (way % 6) {
	case 0:
		return OK(oriel_signal_wait(win, slot, ORIEL_GE, value, RANKS_WAIT_NS, NULL));
	case 1:
		if (source >= 0)
			return OK(oriel_signal_wait_from(win, source, slot, ORIEL_GE, value,
			                                 RANKS_WAIT_NS, NULL));
		return !value ||
		       OK(oriel_signal_wait(win, slot, ORIEL_GT, value - 1, RANKS_WAIT_NS, NULL));
	case 2:
		return poll_test(win, slot, value);
	case 3:
		return poll_read(win, slot, value);
	case 4: /* the first condition never holds */
		return OK(oriel_signal_wait_any(win, 2, conds, RANKS_WAIT_NS, &which)) &&
		       NEED(which == 1, "wait_any: condition %zu", which);
	default:
		conds[0] = conds[1];
		return OK(oriel_signal_wait_all(win, 2, conds, RANKS_WAIT_NS));
	}
}

/* The round's number from source. */
static inline bool
await_round(struct env *e, int source, unsigned slot)
{
	delay(e);
	return await(e->win, source, slot, e->round, (unsigned)ranks_random(e->r, 6));
}

static inline bool
set(struct env *e, int target, unsigned slot)
{
	delay(e);
	return OK(oriel_signal(e->win, target, slot, ORIEL_SIGNAL_SET, e->round));
}

static inline bool
put(struct env *e, int target, unsigned to)
{
	delay(e);
	return OK(oriel_put(e->win, target, to * AREA, e->src[to], e->len));
}

/* Left may go on; and so may this rank, when right has said so. Sources are free again. */
static inline void
acknowledge(struct env *e)
{
	if (set(e, e->left, ACK) && await_round(e, e->right, ACK))
		OK(oriel_flush_local_all(e->win));
}

/* The same from the root to all others. */
static inline void
acknowledge_root(struct env *e)
{
	int i;

	if (e->r->rank != e->root) {
		if (await_round(e, e->root, ACK))
			OK(oriel_flush_local_all(e->win));
		return;
	}
	for (i = 0; i < e->r->size && !stopped(e); i++)
		if (i != e->root)
			set(e, i, ACK);
	OK(oriel_flush_local_all(e->win));
}

/* At the root: one signal ADD 1 of every other rank more. */
static inline bool
await_count(struct env *e)
{
	e->count += (uint64_t)e->r->size - 1;
	delay(e);
	return await(e->win, -1, COUNT, e->count, (unsigned)ranks_random(e->r, 6));
}

/*
 * ---- The second thread of a rank ----
 */

static inline void *
helper_main(void *arg)
{
	struct env *e = arg;

	ranks_adopt(e->r);
	pthread_mutex_lock(&e->lock);
	while (!e->quit) {
		if (!e->busy) {
			pthread_cond_wait(&e->change, &e->lock);
			continue;
		}
		pthread_mutex_unlock(&e->lock);
		e->job(e);
		pthread_mutex_lock(&e->lock);
		e->busy = false;
		pthread_cond_broadcast(&e->change);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

static inline void
helper_post(struct env *e, void (*job)(struct env *e))
{
	pthread_mutex_lock(&e->lock);
	e->job = job;
	e->busy = true;
	pthread_cond_broadcast(&e->change);
	pthread_mutex_unlock(&e->lock);
}

static inline void
helper_join(struct env *e)
{
	pthread_mutex_lock(&e->lock);
	while (e->busy)
		pthread_cond_wait(&e->change, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

static inline bool
helper_open(struct env *e)
{
	e->helper_random = e->r->random ^ 0x5bd1e995;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->change, NULL);
	return NEED(!pthread_create(&e->helper, NULL, helper_main, e), "no second thread");
}

static inline void
helper_close(struct env *e)
{
	pthread_mutex_lock(&e->lock);
	e->quit = true;
	pthread_cond_broadcast(&e->change);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->helper, NULL);
	pthread_cond_destroy(&e->change);
	pthread_mutex_destroy(&e->lock);
}

#endif
