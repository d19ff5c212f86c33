/*
 * check.h - oriel_perf --check: one operation of each size, every byte of it
 * compared, and the bytes around it that nobody may touch.
 *
 * A message's bytes follow from its position and from the number of the check,
 * so data of an earlier check, or of another place, is a difference.
 */
#ifndef TOOLS_PERF_CHECK_H
#define TOOLS_PERF_CHECK_H

#include "tools/perf/perf.h"

#define CHECK_ADDS 1000
#define CHECK_BARRIERS 100
#define CHECK_GUARD_BYTE 0xa5

static inline unsigned char
check_byte(size_t i, uint64_t seed)
{
	uint64_t h = (i / 8 + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xd6e8feb86659fd93u;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	return (unsigned char)((h ^ h >> 32) >> (i % 8 * 8));
}

static inline void
check_fill(char *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (char)check_byte(i, seed);
}

/* Covers a destination, and the guards around it, with a byte that says "not written". */
static inline void
check_cover(char *p, size_t len)
{
	memset(p - PERF_GUARD, CHECK_GUARD_BYTE, len + 2 * PERF_GUARD);
}

/* True, after a line on stderr, if a byte is wrong. */
static inline bool
check_differs(struct perf *p, const struct perf_test *t, const char *data, size_t len,
              uint64_t seed)
{
	for (size_t i = 0; i < len + 2 * PERF_GUARD; i++) {
		bool guard = i < PERF_GUARD || i - PERF_GUARD >= len;
		unsigned char got = (unsigned char)data[(ptrdiff_t)i - PERF_GUARD];
		unsigned char want = guard ? CHECK_GUARD_BYTE : check_byte(i - PERF_GUARD, seed);

		if (got == want)
			continue;
		fprintf(stderr,
		        "oriel_perf: rank %d: %s of %zu bytes: first difference at offset %td%s: "
		        "got 0x%02x, expected 0x%02x\n",
		        p->me, t->name, len, (ptrdiff_t)i - PERF_GUARD,
		        guard ? " (outside the message)" : "", got, want);
		return true;
	}
	return false;
}

/* put, then a signal of its own or with the data. */
static inline int
check_put_then(struct perf *p, const struct perf_test *t, size_t len, bool *bad, bool with_signal)
{
	uint64_t seed = ++p->seed, value = ++p->ping;
	int err;

	if (p->origin)
		check_fill(p->src, len, seed);
	if (p->target)
		check_cover(p->base + PERF_DATA, len);
	err = oriel_barrier(p->world);
	if (!err && p->origin) {
		if (with_signal) {
			err = oriel_put_signal(p->win, p->peer, PERF_DATA, p->src, len, PERF_PING,
			                       ORIEL_SIGNAL_SET, value);
		} else {
			err = oriel_put(p->win, p->peer, PERF_DATA, p->src, len);
			if (!err)
				err = oriel_flush(p->win, p->peer);
			if (!err)
				err = oriel_signal(p->win, p->peer, PERF_PING, ORIEL_SIGNAL_SET,
				                   value);
		}
	}
	if (!err && p->target) {
		err = oriel_signal_wait(p->win, PERF_PING, ORIEL_GE, value, ORIEL_FOREVER, NULL);
		*bad = !err && check_differs(p, t, p->base + PERF_DATA, len, seed);
	}
	/* The source is written again by the next check. */
	if (!err && p->origin)
		err = oriel_flush(p->win, p->peer);
	return err;
}

static inline int
check_put(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	return check_put_then(p, t, len, bad, false);
}

static inline int
check_put_signal(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	return check_put_then(p, t, len, bad, true);
}

static inline int
check_send_recv(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	uint64_t seed = ++p->seed;
	int err = 0;

	if (!p->origin && !p->target)
		return 0;
	check_fill(p->src, len, seed);
	check_cover(p->dst, len);
	if (p->origin && p->target)
		err = oriel_sendrecv(p->world, p->peer, 1, p->src, len, p->peer, 1, p->dst, len,
		                     NULL);
	else if (p->origin)
		err = oriel_send(p->world, p->peer, 1, p->src, len);
	else
		err = oriel_recv(p->world, p->peer, 1, p->dst, len, NULL);
	*bad = !err && p->target && check_differs(p, t, p->dst, len, seed);
	return err;
}

static inline int
check_get(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	uint64_t seed = ++p->seed;
	int err;

	if (p->target)
		check_fill(p->base + PERF_DATA, len, seed);
	if (p->origin)
		check_cover(p->dst, len);
	err = oriel_barrier(p->world);
	if (err || !p->origin)
		return err;
	err = oriel_get(p->win, p->peer, PERF_DATA, p->dst, len);
	if (!err)
		err = oriel_flush(p->win, p->peer);
	*bad = !err && check_differs(p, t, p->dst, len, seed);
	return err;
}

/* The value of rank 0's counter must lie in [low, high]. */
static inline int
check_counter(struct perf *p, const struct perf_test *t, uint64_t low, uint64_t high, bool *bad)
{
	uint64_t seen = 0;
	int err = oriel_fetch_add(p->win, 0, PERF_CHECKED, 0, &seen);

	if (!err && (seen < low || seen > high) && !*bad) {
		fprintf(stderr,
		        "oriel_perf: rank %d: %s: the counter is %llu, expected %llu to %llu\n",
		        p->me, t->name, (unsigned long long)seen, (unsigned long long)low,
		        (unsigned long long)high);
		*bad = true;
	}
	return err;
}

/* All ranks add at once; no addition may be lost. */
static inline int
check_fetch_add(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	uint64_t n = (uint64_t)p->n_ranks;
	int err = 0;

	(void)len;
	for (int i = 0; i < CHECK_ADDS && !err; i++)
		err = oriel_fetch_add(p->win, 0, PERF_CHECKED, (uint64_t)p->me + 1, NULL);
	p->checked += CHECK_ADDS * (n * (n + 1) / 2);
	if (!err)
		err = oriel_barrier(p->world);
	return err ? err : check_counter(p, t, p->checked, p->checked, bad);
}

/* Who leaves barrier k must see that all have entered it, and that none has left barrier k + 1. */
static inline int
check_barrier(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	uint64_t n = (uint64_t)p->n_ranks;
	int err = 0;

	(void)len;
	for (int k = 0; k < CHECK_BARRIERS && !err; k++) {
		err = oriel_fetch_add(p->win, 0, PERF_CHECKED, 1, NULL);
		if (!err)
			err = oriel_barrier(p->world);
		p->checked += n;
		if (!err)
			err = check_counter(p, t, p->checked, p->checked + n - 1, bad);
	}
	return err;
}

static inline int
check_allgather(struct perf *p, const struct perf_test *t, size_t len, bool *bad)
{
	uint64_t seed = ++p->seed;
	size_t n = (size_t)p->n_ranks;
	int err;

	/* Rank r's block is what check_byte says for the whole result's bytes from r * len on. */
	for (size_t i = 0; i < len; i++)
		p->src[i] = (char)check_byte((size_t)p->me * len + i, seed);
	check_cover(p->dst, n * len);
	err = oriel_allgather(p->world, p->src, p->dst, len);
	*bad = !err && check_differs(p, t, p->dst, n * len, seed);
	return err;
}

#endif
