/*
 * soak --n N: N put_signals from every rank to every other, all at once, over
 * pool and over user memory; none is lost, none is early, and memory does not
 * grow.
 */
#include "test/ranks/area.h"
#include "test/ranks/memory.h"

#define LINE 64
#define SAMPLES 16
#define FLAT_KIB 8192 /* by which RSS may grow after the first quarter */
/* To look at words that a put may be writing is a race, if one that does no harm. */
#ifdef __SANITIZE_THREAD__
#define UNDER_WAY_RACES 1
#else
#define UNDER_WAY_RACES 0
#endif

/* What a signal announces is there: the words of sender s are at least as many as its signals. */
static bool
look(struct area *a, int s, bool under_way)
{
	const uint64_t *line = (const uint64_t *)(const void *)(a->base + (size_t)s * LINE);
	uint64_t came, first, last;

	if (!OK(oriel_signal_read(a->win, (size_t)s, &came)))
		return false;
	if (under_way && UNDER_WAY_RACES)
		return true;
	/* Later ones may be arriving: they only grow. */
	last = __atomic_load_n(&line[5], __ATOMIC_RELAXED);
	first = __atomic_load_n(&line[0], __ATOMIC_RELAXED);
	return CHECK(last >= came && first >= came,
	             "rank %d: %llu signals came, but the data is %llu and %llu", s,
	             (unsigned long long)came, (unsigned long long)first, (unsigned long long)last);
}

static bool
finish(struct area *a, uint64_t n)
{
	struct ranks *r = a->r;

	for (int s = 0; s < r->size; s++) {
		uint64_t seen = 0;
		int rc;

		if (s == r->rank)
			continue;
		do { /* a minute for each million that may still be under way */
			rc = oriel_signal_wait_from(a->win, s, (size_t)s, ORIEL_GE, n,
			                            RANKS_WAIT_NS, &seen);
		} while (rc == ORIEL_ETIMEDOUT && look(a, s, true) && n > 100000);
		if (!OK(rc))
			return false;
		CHECK(seen == n, "%llu signals of %llu", (unsigned long long)seen,
		      (unsigned long long)n);
		look(a, s, false);
	}
	return OK(oriel_flush_all(a->win)) && OK(oriel_barrier(r->world));
}

static bool
soak(struct ranks *r, enum area_kind kind, uint64_t n)
{
	size_t settled = 0, most = 0, now;
	uint64_t line[6] = { 0 }, start;
	struct area a;

	if (!area_open(&a, r, r->world, kind, (size_t)r->size * LINE, (size_t)r->size))
		return false;
	memset(a.base, 0, a.size);
	if (!OK(oriel_barrier(r->world)))
		return false;
	start = ranks_now_ns();
	for (uint64_t i = 1; i <= n; i++) {
		line[0] = line[5] = i;
		for (int d = 1; d < r->size; d++)
			if (!OK(oriel_put_signal(a.win, (r->rank + d) % r->size,
			                         (size_t)r->rank * LINE, line, sizeof(line),
			                         (size_t)r->rank, ORIEL_SIGNAL_ADD, 1)))
				return false;
#ifndef __SANITIZE_THREAD__ /* the look at data that is being written is meant */
		if (i % 64 == 0 && !look(&a, (int)ranks_random(r, (uint64_t)r->size), true))
			return false;
#endif
		if (i % (n / SAMPLES + 1))
			continue;
		now = resident() / 1024;
		most = now > most ? now : most;
		if (i <= n / 4)
			settled = now;
	}
	if (!finish(&a, n))
		return false;
	start = ranks_now_ns() - start;
	now = resident() / 1024;
	most = now > most ? now : most;
	if (!r->rank)
		ranks_say(NULL, 0, "%s: %llu to each of %d: %.2f s, RSS %zu KiB, at most %zu",
		          area_name[kind], (unsigned long long)n, r->size - 1, (double)start / 1e9,
		          now, most);
	CHECK(SANITIZED || most < settled + FLAT_KIB, "RSS grew from %zu to %zu KiB", settled,
	      most);
	return area_close(&a);
}

static int
run(struct ranks *r)
{
	uint64_t n = ranks_number("--n", 20000);

	return !soak(r, AREA_ALLOC, n) || !soak(r, AREA_USER, n);
}

RANKS_MAIN(run)
