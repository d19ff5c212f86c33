/*
 * floor.c - the least that a message can cost here: a bare copy and a flag, in
 * separate cache lines, between two processes that share memory.
 *
 * usage: floor BYTES ITERATIONS
 *
 * Half a round trip; each side reads the message before it answers. No checks,
 * no library: what any put_signal + wait is compared with.
 */
#include "bench/bench.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE 64

/* One direction: the flag's line, then the message. */
struct channel {
	_Alignas(LINE) uint64_t flag;
	_Alignas(LINE) char data[];
};

struct side {
	int me;
	size_t bytes, iters;
	struct channel *in, *out;
	char *message;
	uint64_t sent, sum;
};

static void
deliver(struct side *s, uint64_t n)
{
	memcpy(s->out->data, s->message, s->bytes);
	__atomic_store_n(&s->out->flag, n, __ATOMIC_RELEASE);
}

static void
ping_pong(struct side *s)
{
	for (size_t i = 0; i < s->iters; i++) {
		uint64_t n = ++s->sent;

		bench_stamp(s->message, s->bytes, n);
		if (s->me == 0)
			deliver(s, n);
		while (__atomic_load_n(&s->in->flag, __ATOMIC_ACQUIRE) < n)
			;
		s->sum += bench_read(s->in->data, s->bytes);
		if (s->me == 1)
			deliver(s, n);
	}
}

static int
run(struct side *s)
{
	double ns[BENCH_BATCHES];

	bench_pin(s->me);
	bench_fill(s->message, s->bytes);
	for (int b = -1; b < BENCH_BATCHES; b++) {
		uint64_t start = bench_now_ns();

		ping_pong(s);
		if (b >= 0)
			ns[b] = (double)(bench_now_ns() - start) / (double)s->iters / 2;
	}
	if (bench_verify("floor", s->bytes, 1, s->sent, s->sum))
		return 1;
	if (s->me == 0)
		bench_print("floor", s->bytes, bench_median(ns, BENCH_BATCHES), "ns");
	return 0;
}

int
main(int argc, char **argv)
{
	struct side s = { .bytes = argc == 3 ? bench_count(argv[1]) : 0,
		          .iters = argc == 3 ? bench_count(argv[2]) : 0 };
	size_t one = sizeof(struct channel) + (s.bytes + LINE - 1) / LINE * LINE;
	char *shared;
	pid_t child;
	int err, status;

	if (!s.bytes || !s.iters) {
		fprintf(stderr, "usage: floor BYTES ITERATIONS\n");
		return 2;
	}
	shared = mmap(NULL, 2 * one, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s.message = aligned_alloc(LINE, (s.bytes + LINE - 1) / LINE * LINE);
	child = shared == MAP_FAILED || !s.message ? -1 : fork();
	if (child < 0) {
		perror("floor");
		free(s.message);
		return 1;
	}
	s.me = child == 0;
	s.in = (struct channel *)(shared + (s.me ? 0 : one));
	s.out = (struct channel *)(shared + (s.me ? one : 0));
	err = run(&s);
	if (s.me)
		_exit(err);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		err = 1;
	free(s.message);
	return err;
}
