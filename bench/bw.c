/*
 * bw.c - bandwidth of puts from rank 0 to rank 1.
 *
 * usage: bw BYTES ITERATIONS [alone]
 *
 * Prints GB/s of puts, IN_FLIGHT to a flush, and of memcpy into the very same
 * shared memory (through oriel_win_ptr), in batches by turns. "alone": without
 * the memcpy, for targets whose memory is not shared.
 */
#include "bench/bench.h"

#include "oriel.h"

#define IN_FLIGHT 16
#define BATCHES 15

struct bw {
	oriel_ctx *ctx;
	oriel_comm *world;
	oriel_win *win;
	int me, alone;
	size_t bytes, iters;
	char *inbox, *message, *there;
};

static int
put_batch(struct bw *b)
{
	int err = 0;

	for (size_t i = 1; i <= b->iters && !err; i++) {
		err = oriel_put(b->win, 1, 0, b->message, b->bytes);
		if (!err && (i % IN_FLIGHT == 0 || i == b->iters))
			err = oriel_flush(b->win, 1);
	}
	return err;
}

static void
copy_batch(struct bw *b)
{
	for (size_t i = 0; i < b->iters; i++) {
		memcpy(b->there, b->message, b->bytes);
		/* Each copy counts: it must not be merged with the next. */
		__asm__ volatile("" : : "r"(b->there) : "memory");
	}
}

static int
measure(struct bw *b)
{
	double put[BATCHES], copy[BATCHES], gb = (double)b->bytes * (double)b->iters;
	int err = 0;

	if (!b->alone) {
		void *there;

		err = oriel_win_ptr(b->win, 1, &there);
		if (err)
			return err;
		b->there = there;
	}
	for (int k = -1; k < BATCHES; k++) {
		uint64_t start = bench_now_ns(), middle, end;

		err = put_batch(b);
		if (err)
			return err;
		middle = bench_now_ns();
		if (!b->alone)
			copy_batch(b);
		end = bench_now_ns();
		if (k >= 0) {
			put[k] = gb / (double)(middle - start);
			copy[k] = gb / (double)(end - middle);
		}
	}
	bench_print("put", b->bytes, bench_median(put, BATCHES), "GB/s");
	if (!b->alone)
		bench_print("memcpy", b->bytes, bench_median(copy, BATCHES), "GB/s");
	return 0;
}

/* The target sleeps in its wait; then it looks at what has come. */
static int
run(struct bw *b)
{
	int err = oriel_barrier(b->world);

	if (!err && b->me == 0)
		err = measure(b);
	if (!err && b->me == 0)
		err = oriel_signal(b->win, 1, 0, ORIEL_SIGNAL_SET, 1);
	if (err || b->me == 0)
		return err;
	err = oriel_signal_wait(b->win, 0, ORIEL_EQ, 1, ORIEL_FOREVER, NULL);
	if (!err && memcmp(b->inbox, b->message, b->bytes)) {
		fprintf(stderr, "bw: the target holds other data than was put\n");
		err = ORIEL_EMISMATCH;
	}
	return err;
}

static int
open_bw(struct bw *b)
{
	void *base, *message;
	int err = oriel_init(NULL, &b->ctx);

	if (err)
		return err;
	b->world = oriel_world(b->ctx);
	b->me = oriel_comm_rank(b->world);
	if (oriel_comm_size(b->world) != 2) {
		fprintf(stderr, "bw: wants 2 ranks\n");
		return ORIEL_EINVAL;
	}
	err = oriel_win_alloc(b->world, b->bytes, 1, &base, &b->win);
	if (!err)
		err = oriel_mem_alloc(b->ctx, b->bytes, 0, &message);
	if (err)
		return err;
	b->inbox = base;
	b->message = message;
	bench_fill(b->message, b->bytes);
	return 0;
}

int
main(int argc, char **argv)
{
	struct bw b = { .alone = argc == 4 && !strcmp(argv[3], "alone") };
	int err;

	if (argc >= 3 && argc == 3 + b.alone) {
		b.bytes = bench_count(argv[1]);
		b.iters = bench_count(argv[2]);
	}
	if (!b.bytes || !b.iters) {
		fprintf(stderr, "usage: bw BYTES ITERATIONS [alone]\n");
		return 2;
	}
	bench_pin_rank();
	err = open_bw(&b);
	if (!err)
		err = run(&b);
	if (!err)
		err = oriel_win_free(b.win);
	if (!err)
		err = oriel_fini(b.ctx);
	if (err) {
		fprintf(stderr, "bw: rank %d: %s: %s\n", b.me, oriel_strerror(err), oriel_detail());
		if (b.world)
			oriel_comm_abort(b.world);
	}
	return err != 0;
}
