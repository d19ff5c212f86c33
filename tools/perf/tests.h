/*
 * tests.h - what oriel_perf measures: one function and one row a test.
 *
 * To add a test: write its run function (each rank calls it with the same
 * numbers) and a row in perf_tests.
 */
#ifndef TOOLS_PERF_TESTS_H
#define TOOLS_PERF_TESTS_H

#include "tools/perf/check.h"
#include "tools/perf/perf.h"

/* One message there, one back; with a single rank there is no back. */
static inline int
ping_pong(struct perf *p, size_t bytes, size_t iters, bool data)
{
	int err = 0;

	for (size_t i = 0; i < iters && !err; i++) {
		uint64_t value = ++p->ping;

		if (p->target && !p->origin)
			err = oriel_signal_wait(p->win, PERF_PING, ORIEL_GE, value, ORIEL_FOREVER,
			                        NULL);
		if (!err && data)
			err = oriel_put_signal(p->win, p->peer, PERF_DATA, p->src, bytes, PERF_PING,
			                       ORIEL_SIGNAL_SET, value);
		else if (!err)
			err = oriel_signal(p->win, p->peer, PERF_PING, ORIEL_SIGNAL_SET, value);
		if (!err && p->origin)
			err = oriel_signal_wait(p->win, PERF_PING, ORIEL_GE, value, ORIEL_FOREVER,
			                        NULL);
	}
	return err;
}

static inline int
run_put_signal(struct perf *p, size_t bytes, size_t iters)
{
	return p->origin || p->target ? ping_pong(p, bytes, iters, true) : 0;
}

static inline int
run_send_recv(struct perf *p, size_t bytes, size_t iters)
{
	int err = 0;

	if (!p->origin && !p->target)
		return 0;
	for (size_t i = 0; i < iters && !err; i++) {
		if (p->origin && p->target)
			err = oriel_sendrecv(p->world, p->peer, 0, p->src, bytes, p->peer, 0,
			                     p->dst, bytes, NULL);
		else if (p->origin)
			err = oriel_send(p->world, p->peer, 0, p->src, bytes);
		else
			err = oriel_recv(p->world, p->peer, 0, p->dst, bytes, NULL);
		if (!err && p->origin && !p->target)
			err = oriel_recv(p->world, p->peer, 0, p->dst, bytes, NULL);
		else if (!err && p->target && !p->origin)
			err = oriel_send(p->world, p->peer, 0, p->src, bytes);
	}
	return err;
}

static inline int
run_signal(struct perf *p, size_t bytes, size_t iters)
{
	(void)bytes;
	return p->origin || p->target ? ping_pong(p, 0, iters, false) : 0;
}

/* Moves, with a flush after each batch of them. */
static inline int
run_moves(struct perf *p, size_t bytes, size_t iters, size_t batch, bool get)
{
	int err = 0;

	if (!p->origin)
		return 0;
	for (size_t i = 1; i <= iters && !err; i++) {
		if (get)
			err = oriel_get(p->win, p->peer, PERF_DATA, p->dst, bytes);
		else
			err = oriel_put(p->win, p->peer, PERF_DATA, p->src, bytes);
		if (!err && (i % batch == 0 || i == iters))
			err = oriel_flush(p->win, p->peer);
	}
	return err;
}

static inline int
run_put(struct perf *p, size_t bytes, size_t iters)
{
	return run_moves(p, bytes, iters, SIZE_MAX, false);
}

static inline int
run_put_flush(struct perf *p, size_t bytes, size_t iters)
{
	return run_moves(p, bytes, iters, 1, false);
}

static inline int
run_get(struct perf *p, size_t bytes, size_t iters)
{
	return run_moves(p, bytes, iters, 1, true);
}

static inline int
run_put_bw(struct perf *p, size_t bytes, size_t iters)
{
	return run_moves(p, bytes, iters, PERF_BATCH, false);
}

static inline int
run_get_bw(struct perf *p, size_t bytes, size_t iters)
{
	return run_moves(p, bytes, iters, PERF_BATCH, true);
}

/* Batches of put_signals; the target answers each batch, when it has the last. */
static inline int
run_put_signal_bw(struct perf *p, size_t bytes, size_t iters)
{
	int err = 0;

	if (!p->origin && !p->target)
		return 0;
	for (size_t i = 1; i <= iters && !err; i++) {
		bool last = i % PERF_BATCH == 0 || i == iters;

		p->ping++;
		if (p->origin)
			err = oriel_put_signal(p->win, p->peer, PERF_DATA, p->src, bytes, PERF_PING,
			                       ORIEL_SIGNAL_SET, p->ping);
		if (err || !last)
			continue;
		p->ack++;
		if (p->target)
			err = oriel_signal_wait(p->win, PERF_PING, ORIEL_GE, p->ping, ORIEL_FOREVER,
			                        NULL);
		if (!err && p->target)
			err = oriel_signal(p->win, p->peer, PERF_ACK, ORIEL_SIGNAL_SET, p->ack);
		if (!err && p->origin)
			err = oriel_signal_wait(p->win, PERF_ACK, ORIEL_GE, p->ack, ORIEL_FOREVER,
			                        NULL);
	}
	return err;
}

/* Messages that add 1 to one signal, as fast as they go; done when all have been counted. */
static inline int
run_rate(struct perf *p, size_t bytes, size_t iters)
{
	int err = 0;

	if (!p->origin && !p->target)
		return 0;
	p->count += iters;
	p->ack++;
	for (size_t i = 0; i < iters && !err && p->origin; i++)
		err = oriel_put_signal(p->win, p->peer, PERF_DATA, p->src, bytes, PERF_COUNT,
		                       ORIEL_SIGNAL_ADD, 1);
	if (!err && p->target)
		err = oriel_signal_wait(p->win, PERF_COUNT, ORIEL_EQ, p->count, ORIEL_FOREVER,
		                        NULL);
	if (!err && p->target)
		err = oriel_signal(p->win, p->peer, PERF_ACK, ORIEL_SIGNAL_SET, p->ack);
	if (!err && p->origin)
		err = oriel_signal_wait(p->win, PERF_ACK, ORIEL_GE, p->ack, ORIEL_FOREVER, NULL);
	return err;
}

static inline int
run_fetch_add(struct perf *p, size_t bytes, size_t iters)
{
	uint64_t old;
	int err = 0;

	(void)bytes;
	for (size_t i = 0; i < iters && !err && p->origin; i++)
		err = oriel_fetch_add(p->win, p->peer, PERF_TIMED, 1, &old);
	return err;
}

static inline int
run_barrier(struct perf *p, size_t bytes, size_t iters)
{
	int err = 0;

	(void)bytes;
	for (size_t i = 0; i < iters && !err; i++)
		err = oriel_barrier(p->world);
	return err;
}

static inline int
run_allgather(struct perf *p, size_t bytes, size_t iters)
{
	int err = 0;

	for (size_t i = 0; i < iters && !err; i++)
		err = oriel_allgather(p->world, p->src, p->dst, bytes);
	return err;
}

static const struct perf_test perf_tests[] = {
	{ .name = "put",
	  .what = "puts one after the other, one flush at the end",
	  .unit = PERF_US,
	  .max = SIZE_MAX,
	  .run = run_put,
	  .check = check_put },
	{ .name = "put_signal",
	  .what = "half a round trip of put_signal and wait",
	  .unit = PERF_US,
	  .max = SIZE_MAX,
	  .round_trip = true,
	  .brief = true,
	  .run = run_put_signal,
	  .check = check_put_signal },
	{ .name = "send_recv",
	  .what = "half a round trip of send and receive",
	  .unit = PERF_US,
	  .max = SIZE_MAX,
	  .round_trip = true,
	  .brief = true,
	  .run = run_send_recv,
	  .check = check_send_recv },
	{ .name = "get",
	  .what = "get and flush",
	  .unit = PERF_US,
	  .max = SIZE_MAX,
	  .brief = true,
	  .run = run_get,
	  .check = check_get },
	{ .name = "signal",
	  .what = "half a round trip of signal and wait",
	  .unit = PERF_US,
	  .round_trip = true,
	  .brief = true,
	  .run = run_signal },
	{ .name = "put_flush",
	  .what = "put and flush",
	  .unit = PERF_US,
	  .max = SIZE_MAX,
	  .brief = true,
	  .run = run_put_flush,
	  .check = check_put },
	{ .name = "put_bw",
	  .what = "puts, 32 to a flush",
	  .unit = PERF_GB,
	  .max = SIZE_MAX,
	  .brief = true,
	  .run = run_put_bw,
	  .check = check_put },
	{ .name = "put_signal_bw",
	  .what = "put_signals, the target answers each 32",
	  .unit = PERF_GB,
	  .max = SIZE_MAX,
	  .brief = true,
	  .run = run_put_signal_bw,
	  .check = check_put_signal },
	{ .name = "get_bw",
	  .what = "gets, 32 to a flush",
	  .unit = PERF_GB,
	  .max = SIZE_MAX,
	  .brief = true,
	  .run = run_get_bw,
	  .check = check_get },
	{ .name = "rate",
	  .what = "put_signals that add to one signal, until all are counted",
	  .unit = PERF_MOPS,
	  .max = 4096,
	  .brief = true,
	  .run = run_rate,
	  .check = check_put_signal },
	{ .name = "fetch_add",
	  .what = "fetch_add",
	  .unit = PERF_US,
	  .brief = true,
	  .run = run_fetch_add,
	  .check = check_fetch_add },
	{ .name = "barrier",
	  .what = "barrier of all ranks",
	  .unit = PERF_US,
	  .collective = true,
	  .brief = true,
	  .run = run_barrier,
	  .check = check_barrier },
	{ .name = "allgather",
	  .what = "allgather of all ranks, by the size of one rank's block",
	  .unit = PERF_US,
	  .max = SIZE_MAX,
	  .collective = true,
	  .brief = true,
	  .run = run_allgather,
	  .check = check_allgather },
};

#define PERF_N_TESTS (sizeof(perf_tests) / sizeof(perf_tests[0]))

#endif
