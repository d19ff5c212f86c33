/*
 * coll.h - what all sides of the comparison of collectives share: operations,
 * payload, reading, the barrier before a timed stretch, and the timing.
 *
 * usage: PROGRAM FILE RANKS OPERATION MILLISECONDS BYTES...
 *
 * FILE is empty, and new for each run: the ranks map it. Each size is measured
 * in malloc'd buffers and in the side's own memory, for about MILLISECONDS each:
 * COLL_BATCHES batches of equally many calls are timed, and printed one by one as
 * NS@LINE: the mean time of a call, and how long a cache line took from one of the
 * first two ranks to the other before or after the batch, whichever was longer. A
 * host moves the CPUs of a virtual machine nearer to each other and farther apart,
 * and all that ranks tell each other takes several times as long then.
 *
 * Calls that all ranks leave together by their nature are timed back to back;
 * the others (rooted ones, scan and exscan) one by one, from the moment when the
 * last rank has left a barrier in FILE to the moment when the last one has read
 * its result. A rank reads its result inside the timed stretch, on all sides
 * with coll_read. Inputs change with each call, once a page; from the sum of
 * all that was read follows whether each call gave what it should.
 */
#ifndef BENCH_COLL_H
#define BENCH_COLL_H

#include "bench/coll_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define COLL_BATCHES 5
#define COLL_STRETCHES 2048 /* timed one by one in a batch, at most */
#define COLL_RANKS 16
#define COLL_PINGS 64 /* round trips of a cache line, of COLL_PROBES the best counts */
#define COLL_PROBES 5
#define COLL_SKIPPED 77 /* exit status: this side does not have the operation */

/*
 * A side: what a library, or none, does. 0, or not: it has then said why. The
 * root is rank 0; lengths are those of one block, or of the vector, of floats
 * that are summed where they are combined. bcast: in at the root, out elsewhere.
 */
struct coll_side {
	const char *program;
	int me, ranks;
	int (*call)(enum coll_op op, const void *in, void *out, size_t len);
	int (*send)(int peer, const void *in, size_t len);
	int (*recv)(int peer, void *out, size_t len);
	void *(*get)(int own_memory, size_t len);
	void (*put_back)(int own_memory, void *memory);
};

/* FILE. A counter never goes down, so that no rank can miss a round. */
struct coll_shared {
	_Alignas(COLL_LINE) uint64_t arrived;
	_Alignas(COLL_LINE) uint64_t round;
	_Alignas(COLL_LINE) int failed;
	struct coll_ping {
		_Alignas(COLL_LINE) uint64_t count;
	} ping[2];
	struct coll_times {
		_Alignas(COLL_LINE) uint64_t enter[COLL_STRETCHES];
		uint64_t leave[COLL_STRETCHES];
	} times[COLL_RANKS];
};

struct coll {
	const struct coll_side *side;
	struct coll_shared *shared;
	const char *file;
	size_t budget_ns, n_sizes;
	char **sizes;
	uint64_t pings;
	struct coll_data d;
};

/* 0, or 1 when another rank has given up. */
static inline int
coll_await(struct coll *c, const uint64_t *word, uint64_t count)
{
	for (size_t spins = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < count; spins++) {
		if (__atomic_load_n(&c->shared->failed, __ATOMIC_RELAXED))
			return 1;
		if (spins > 500) /* ranks may outnumber CPUs */
			sched_yield();
	}
	return 0;
}

/* Not a library's barrier: the same for all sides. 0, or 1 when another rank has given up. */
static inline int
coll_meet(struct coll *c)
{
	struct coll_shared *s = c->shared;
	uint64_t round = __atomic_load_n(&s->round, __ATOMIC_ACQUIRE) + 1;
	uint64_t all = round * (uint64_t)c->d.ranks;

	if (__atomic_add_fetch(&s->arrived, 1, __ATOMIC_ACQ_REL) == all)
		__atomic_store_n(&s->round, round, __ATOMIC_RELEASE);
	return coll_await(c, &s->round, round);
}

/* How long a cache line takes from one of the first two ranks to the other; the same on both. */
static inline int
coll_line(struct coll *c, double *line_ns)
{
	struct coll_shared *s = c->shared;
	double least = 1e9;

	if (coll_meet(c))
		return 1;
	for (int probe = 0; probe < COLL_PROBES && c->d.me < 2; probe++) {
		uint64_t start = bench_now_ns();
		double ns;

		for (int i = 0; i < COLL_PINGS; i++) {
			uint64_t n = ++c->pings;

			if (c->d.me == 0)
				__atomic_store_n(&s->ping[0].count, n, __ATOMIC_RELEASE);
			if (coll_await(c, &s->ping[1 - c->d.me].count, n))
				return 1;
			if (c->d.me == 1)
				__atomic_store_n(&s->ping[1].count, n, __ATOMIC_RELEASE);
		}
		ns = (double)(bench_now_ns() - start) / (2 * COLL_PINGS);
		least = ns < least ? ns : least;
	}
	*line_ns = least;
	return coll_meet(c);
}

/* A ping-pong between the ranks of a pair; who receives reads before it answers. */
static inline int
coll_round_trip(struct coll *c)
{
	int err = 0, peer = c->d.me ^ 1, pings = !(c->d.me & 1);

	if (pings)
		err = c->side->send(peer, c->d.in, c->d.len);
	if (!err)
		err = c->side->recv(peer, c->d.out, c->d.len);
	c->d.sum += coll_read(c->d.out, c->d.out_len);
	if (!err && !pings)
		err = c->side->send(peer, c->d.in, c->d.len);
	return err;
}

static inline int
coll_call(struct coll *c)
{
	int err;

	if (c->d.op == COLL_SENDRECV)
		return coll_round_trip(c);
	err = c->side->call(c->d.op, c->d.in, c->d.out, c->d.len);
	if (!err && coll_reads(&c->d))
		c->d.sum += coll_read(c->d.out, c->d.out_len);
	return err;
}

/* A number of calls from a barrier on. */
static inline int
coll_stretch(struct coll *c, size_t calls, struct coll_times *times, size_t i)
{
	int err;

	if (calls == 1)
		coll_stamp(&c->d);
	if (coll_meet(c))
		return 1;
	times->enter[i] = bench_now_ns();
	for (size_t n = 0; n < calls; n++) {
		if (calls > 1)
			coll_stamp(&c->d);
		err = coll_call(c);
		if (err)
			return err;
	}
	times->leave[i] = bench_now_ns();
	return 0;
}

/* Mean time of a call; the same on all ranks. */
static inline int
coll_batch(struct coll *c, size_t calls, double *ns)
{
	size_t stretches = coll_kinds[c->d.op].one_by_one ? calls : 1;
	double total = 0;
	int err = 0;

	for (size_t i = 0; i < stretches && !err; i++)
		err = coll_stretch(c, calls / stretches, &c->shared->times[c->d.me], i);
	if (err || coll_meet(c))
		return 1;
	for (size_t i = 0; i < stretches; i++) {
		uint64_t enter = 0, leave = 0;

		for (int r = 0; r < c->d.ranks; r++) {
			const struct coll_times *t = &c->shared->times[r];

			enter = t->enter[i] > enter ? t->enter[i] : enter;
			leave = t->leave[i] > leave ? t->leave[i] : leave;
		}
		total += (double)(leave - enter);
	}
	*ns = total / (double)calls / (c->d.op == COLL_SENDRECV ? 2 : 1);
	return coll_meet(c);
}

/* How many calls make a batch of the time that it may take. The first ones are slower: not counted.
 */
static inline int
coll_calibrate(struct coll *c, size_t *calls)
{
	double ns, batch_ns = (double)c->budget_ns / (COLL_BATCHES + 1);
	size_t most = coll_kinds[c->d.op].one_by_one ? COLL_STRETCHES : 1 << 20;

	if (coll_batch(c, 2, &ns))
		return 1;
	*calls = 1;
	for (;;) {
		if (coll_batch(c, *calls, &ns))
			return 1;
		if (ns * (double)*calls >= batch_ns / 4 || *calls >= most)
			break;
		*calls *= 2;
	}
	*calls = ns * (double)most > batch_ns ? (size_t)(batch_ns / ns) : most;
	*calls += *calls == 0;
	return 0;
}

static inline int
coll_measure(struct coll *c, const char *memory)
{
	double ns[COLL_BATCHES], line_ns[COLL_BATCHES + 1];
	uint64_t of_call_0 = coll_result_sum(&c->d);
	size_t calls;

	coll_fill_in(&c->d);
	c->d.call = c->d.sum = 0;
	if (coll_calibrate(c, &calls) || coll_line(c, &line_ns[0]))
		return 1;
	for (int b = 0; b < COLL_BATCHES; b++)
		if (coll_batch(c, calls, &ns[b]) || coll_line(c, &line_ns[b + 1]))
			return 1;
	if (coll_reads(&c->d) && c->d.sum != coll_want(&c->d, of_call_0)) {
		fprintf(stderr, "%s: rank %d: %s of %zu bytes (%s): wrong results\n",
		        c->side->program, c->d.me, coll_kinds[c->d.op].name, c->d.len, memory);
		return 1;
	}
	if (c->d.me == 0) {
		printf("coll %s %s %zu", coll_kinds[c->d.op].name, memory, c->d.len);
		for (int b = 0; b < COLL_BATCHES; b++)
			printf(" %.6g@%.3g", ns[b],
			       line_ns[b] > line_ns[b + 1] ? line_ns[b] : line_ns[b + 1]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}

static inline int
coll_size(struct coll *c, size_t len, int own_memory)
{
	int err = 1;

	c->d.len = len;
	c->d.in_len = len * (size_t)coll_n_blocks(&c->d, coll_kinds[c->d.op].in);
	c->d.out_len = len * (size_t)coll_n_blocks(&c->d, coll_kinds[c->d.op].out);
	c->d.in = c->side->get(own_memory, c->d.in_len);
	c->d.out = c->side->get(own_memory, c->d.out_len);
	if (c->d.in && c->d.out)
		err = coll_measure(c, own_memory ? "own" : "malloc");
	else
		fprintf(stderr, "%s: no memory for %zu bytes\n", c->side->program, len);
	c->side->put_back(own_memory, c->d.out);
	c->side->put_back(own_memory, c->d.in);
	return err;
}

static inline int
coll_open_file(struct coll *c)
{
	int fd = open(c->file, O_RDWR | O_CLOEXEC);
	void *shared = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(struct coll_shared)))
		shared = mmap(NULL, sizeof(struct coll_shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		              fd, 0);
	if (shared == MAP_FAILED)
		fprintf(stderr, "%s: %s: %s\n", c->side->program, c->file, strerror(errno));
	if (fd >= 0)
		close(fd);
	c->shared = shared;
	return shared == MAP_FAILED;
}

/* The command line; before a library starts, as is bench_pin_rank. 0 if it is fine. */
static inline int
coll_options(struct coll *c, int argc, char **argv)
{
	if (argc < 6)
		return 1;
	c->file = argv[1];
	c->d.ranks = (int)bench_count(argv[2]);
	for (c->d.op = 0; c->d.op < COLL_OPS && strcmp(coll_kinds[c->d.op].name, argv[3]);)
		c->d.op++;
	c->budget_ns = bench_count(argv[4]) * 1000000;
	c->sizes = argv + 5;
	c->n_sizes = (size_t)(argc - 5);
	for (size_t i = 0; i < c->n_sizes; i++) {
		size_t len = bench_count(c->sizes[i]);

		/* Heads of pages must be among the words that are read. */
		if (c->d.op == COLL_BARRIER ? len != 0 : !len || len % (len < 64 ? 8 : 64))
			return 1;
	}
	return c->d.op == COLL_OPS || !c->budget_ns || c->d.ranks < 2 || c->d.ranks > COLL_RANKS ||
	       (c->d.op == COLL_SENDRECV && c->d.ranks % 2);
}

static inline int
coll_usage(const char *program)
{
	fprintf(stderr,
	        "usage: %s FILE RANKS OPERATION MILLISECONDS BYTES...\n"
	        "BYTES: multiples of 64, or of 8 below; barrier: 0. RANKS: 2 to %d\n",
	        program, COLL_RANKS);
	return 2;
}

/* All sizes. 0, or 1 after a line that says why not; the caller then ends the other ranks. */
static inline int
coll_run(struct coll *c, const struct coll_side *side)
{
	int err = 0;

	c->side = side;
	c->d.me = side->me;
	if (side->ranks != c->d.ranks) {
		fprintf(stderr, "%s: %d ranks, not %d\n", side->program, side->ranks, c->d.ranks);
		return 1;
	}
	if (coll_open_file(c))
		return 1;
	for (size_t i = 0; i < c->n_sizes && !err; i++)
		for (int own = 0; own < 1 + (c->d.op != COLL_BARRIER) && !err; own++)
			err = coll_size(c, bench_count(c->sizes[i]), own);
	if (err)
		__atomic_store_n(&c->shared->failed, 1, __ATOMIC_RELAXED);
	munmap(c->shared, sizeof(struct coll_shared));
	return err;
}

#endif
