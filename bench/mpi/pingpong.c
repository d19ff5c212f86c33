/*
 * pingpong.c - the rival's half round trip: MPI_Send and MPI_Recv of two ranks,
 * each message read before it is answered.
 *
 * usage: pingpong BYTES ITERATIONS
 */
#include "bench/bench.h"

#include <mpi.h>

struct side {
	int me;
	size_t bytes, iters;
	char *inbox, *message;
	uint64_t sent, sum;
};

static void
ping_pong(struct side *s)
{
	int len = (int)s->bytes, peer = 1 - s->me;

	for (size_t i = 0; i < s->iters; i++) {
		bench_stamp(s->message, s->bytes, ++s->sent);
		if (s->me == 0)
			MPI_Send(s->message, len, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
		MPI_Recv(s->inbox, len, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		s->sum += bench_read(s->inbox, s->bytes);
		if (s->me == 1)
			MPI_Send(s->message, len, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
	}
}

int
main(int argc, char **argv)
{
	struct side s = { .bytes = argc == 3 ? bench_count(argv[1]) : 0,
		          .iters = argc == 3 ? bench_count(argv[2]) : 0 };
	double ns[BENCH_BATCHES];
	int err = 1, ranks;

	bench_pin_rank();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &s.me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	s.inbox = aligned_alloc(64, (s.bytes + 63) / 64 * 64);
	s.message = aligned_alloc(64, (s.bytes + 63) / 64 * 64);
	if (!s.bytes || !s.iters || ranks != 2 || !s.inbox || !s.message) {
		fprintf(stderr, "usage: pingpong BYTES ITERATIONS, on 2 ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	bench_fill(s.message, s.bytes);
	for (int b = -1; b < BENCH_BATCHES; b++) {
		uint64_t start;

		MPI_Barrier(MPI_COMM_WORLD);
		start = bench_now_ns();
		ping_pong(&s);
		if (b >= 0)
			ns[b] = (double)(bench_now_ns() - start) / (double)s.iters / 2;
	}
	err = bench_verify("pingpong", s.bytes, 1, s.sent, s.sum);
	if (s.me == 0 && !err)
		bench_print("sendrecv", s.bytes, bench_median(ns, BENCH_BATCHES), "ns");
	free(s.inbox);
	free(s.message);
	MPI_Finalize();
	return err;
}
