/*
 * lat.c - latency of put_signal and of put + flush between ranks 0 and 1.
 *
 * usage: lat put_signal|put_flush|put_flush_quiet BYTES ITERATIONS
 *
 * put_signal: half a round trip of put_signal and wait; each receiver reads the
 * message before it answers. put_flush: the origin's put and flush of a word,
 * while the target polls and reads that word; quiet: while the target does
 * nothing.
 */
#include "bench/bench.h"

#include "oriel.h"

struct lat {
	oriel_ctx *ctx;
	oriel_comm *world;
	oriel_win *win;
	int me;
	size_t bytes, iters;
	char *inbox, *message;
	uint64_t sent, sum; /* messages so far, and what was read of them */
};

static int
ping_pong(struct lat *l)
{
	int err = 0, peer = 1 - l->me;

	for (size_t i = 0; i < l->iters && !err; i++) {
		uint64_t n = ++l->sent;

		bench_stamp(l->message, l->bytes, n);
		if (l->me == 0)
			err = oriel_put_signal(l->win, peer, 0, l->message, l->bytes, 0,
			                       ORIEL_SIGNAL_SET, n);
		if (!err)
			err = oriel_signal_wait(l->win, 0, ORIEL_GE, n, ORIEL_FOREVER, NULL);
		l->sum += bench_read(l->inbox, l->bytes);
		if (!err && l->me == 1)
			err = oriel_put_signal(l->win, peer, 0, l->message, l->bytes, 0,
			                       ORIEL_SIGNAL_SET, n);
	}
	return err;
}

/* Polls the word until it holds the batch's last number; it must never go down. */
static int
poll_word(struct lat *l, uint64_t last)
{
	uint64_t before = 0, now;

	do {
		now = __atomic_load_n((uint64_t *)l->inbox, __ATOMIC_RELAXED);
		if (now < before)
			return ORIEL_EMISMATCH;
		before = now;
	} while (now < last);
	return 0;
}

static int
put_flush(struct lat *l, int quiet)
{
	int err = 0;

	l->sent += l->iters;
	if (l->me == 1)
		return quiet ? 0 : poll_word(l, l->sent);
	for (uint64_t n = l->sent - l->iters + 1; n <= l->sent && !err; n++) {
		bench_stamp(l->message, l->bytes, n);
		err = oriel_put(l->win, 1, 0, l->message, l->bytes);
		if (!err)
			err = oriel_flush(l->win, 1);
	}
	return err;
}

/* One batch to warm up, then the median of the others. */
static int
run(struct lat *l, const char *what)
{
	double ns[BENCH_BATCHES];
	int pong = !strcmp(what, "put_signal"), quiet = !strcmp(what, "put_flush_quiet");

	for (int b = -1; b < BENCH_BATCHES; b++) {
		int err = oriel_barrier(l->world);
		uint64_t start = bench_now_ns();

		if (!err)
			err = pong ? ping_pong(l) : put_flush(l, quiet);
		if (err)
			return err;
		if (b >= 0)
			ns[b] = (double)(bench_now_ns() - start) / (double)l->iters /
			        (pong ? 2 : 1);
	}
	if (pong && bench_verify("lat", l->bytes, 1, l->sent, l->sum))
		return ORIEL_EMISMATCH;
	if (l->me == 0)
		bench_print(what, l->bytes, bench_median(ns, BENCH_BATCHES), "ns");
	return 0;
}

static int
open_lat(struct lat *l)
{
	void *base, *message;
	int err = oriel_init(NULL, &l->ctx);

	if (err)
		return err;
	l->world = oriel_world(l->ctx);
	l->me = oriel_comm_rank(l->world);
	if (oriel_comm_size(l->world) != 2) {
		fprintf(stderr, "lat: wants 2 ranks\n");
		return ORIEL_EINVAL;
	}
	err = oriel_win_alloc(l->world, l->bytes, 1, &base, &l->win);
	if (!err)
		err = oriel_mem_alloc(l->ctx, l->bytes, 0, &message);
	if (err)
		return err;
	l->inbox = base;
	l->message = message;
	bench_fill(l->message, l->bytes);
	return 0;
}

int
main(int argc, char **argv)
{
	struct lat l = { .bytes = argc == 4 ? bench_count(argv[2]) : 0,
		         .iters = argc == 4 ? bench_count(argv[3]) : 0 };
	int err;

	if (!l.iters || !l.bytes || (strcmp(argv[1], "put_signal") && l.bytes != 8)) {
		fprintf(stderr, "usage: lat put_signal BYTES ITERATIONS\n"
		                "       lat put_flush|put_flush_quiet 8 ITERATIONS\n");
		return 2;
	}
	bench_pin_rank();
	err = open_lat(&l);
	if (!err)
		err = run(&l, argv[1]);
	if (!err)
		err = oriel_win_free(l.win);
	if (!err)
		err = oriel_fini(l.ctx);
	if (err) {
		fprintf(stderr, "lat: rank %d: %s: %s\n", l.me, oriel_strerror(err),
		        oriel_detail());
		if (l.world)
			oriel_comm_abort(l.world);
	}
	return err != 0;
}
