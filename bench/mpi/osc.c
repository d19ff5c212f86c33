/*
 * osc.c - the rival's put and flush of a word: MPI_Put and MPI_Win_flush in a
 * window of MPI_Win_allocate, under lock_all.
 *
 * usage: osc put_flush|put_flush_quiet ITERATIONS
 *
 * The target polls and reads the word meanwhile; quiet: it waits in a barrier.
 */
#include "bench/bench.h"

#include <mpi.h>

struct side {
	int me, quiet;
	size_t iters;
	uint64_t *word;
	MPI_Win win;
	uint64_t sent;
};

/* Polls until the word holds the batch's last number; it must never go down. */
static int
poll_word(const uint64_t *word, uint64_t last)
{
	uint64_t before = 0, now;

	do {
		now = __atomic_load_n(word, __ATOMIC_RELAXED);
		if (now < before)
			return 1;
		before = now;
	} while (now < last);
	return 0;
}

static int
batch(struct side *s)
{
	s->sent += s->iters;
	if (s->me == 1)
		return s->quiet ? 0 : poll_word(s->word, s->sent);
	for (uint64_t n = s->sent - s->iters + 1; n <= s->sent; n++) {
		MPI_Put(&n, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, s->win);
		MPI_Win_flush(1, s->win);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct side s = { .iters = argc == 3 ? bench_count(argv[2]) : 0,
		          .quiet = argc == 3 && !strcmp(argv[1], "put_flush_quiet") };
	double ns[BENCH_BATCHES];
	int err = 0, ranks;

	bench_pin_rank();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &s.me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (!s.iters || ranks != 2) {
		fprintf(stderr, "usage: osc put_flush|put_flush_quiet ITERATIONS, on 2 ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &s.word, &s.win);
	*s.word = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, s.win);
	for (int b = -1; b < BENCH_BATCHES; b++) {
		uint64_t start;

		MPI_Barrier(MPI_COMM_WORLD);
		start = bench_now_ns();
		err |= batch(&s);
		if (b >= 0)
			ns[b] = (double)(bench_now_ns() - start) / (double)s.iters;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_unlock_all(s.win);
	if (s.me == 1 && *s.word != s.sent)
		err = 1;
	if (err)
		fprintf(stderr, "osc: the target has read other data than was put\n");
	if (s.me == 0 && !err)
		bench_print(argv[1], 8, bench_median(ns, BENCH_BATCHES), "ns");
	MPI_Win_free(&s.win);
	MPI_Finalize();
	return err;
}
