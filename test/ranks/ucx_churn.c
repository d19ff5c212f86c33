/*
 * Contexts come and go: twenty times init, first contact of all with all at
 * once, and fini, half of them with messages still under way. Nothing is left
 * behind: neither memory nor file descriptors grow.
 */
#include "test/ranks/ranks.h"
#include "test/ranks/memory.h"

#include <dirent.h>

#define ROUNDS 20
#define SETTLED 5 /* rounds after which nothing may grow any more */
#define GROWTH_MAX (8u << 20)

static int
open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static int
contact(oriel_ctx *ctx, void *arg)
{
	int round = *(int *)arg, rank, size;
	oriel_comm *world = oriel_world(ctx);
	uint64_t value = 0;
	oriel_win *win;
	void *base;

	rank = oriel_comm_rank(world);
	size = oriel_comm_size(world);
	if (!OK(oriel_win_alloc(world, 4096, 2, &base, &win)))
		return 1;
	/* The barrier in there has met some of the others; the rest meet here, from both sides. */
	for (int to = 0; to < size; to++) {
		value = (uint64_t)rank + 1;
		if (to != rank && !OK(oriel_put_signal(win, to, (size_t)rank * 8, &value, 8, 0,
		                                       ORIEL_SIGNAL_ADD, 1)))
			return 1;
	}
	if (!OK(oriel_signal_wait(win, 0, ORIEL_EQ, (uint64_t)size - 1, RANKS_WAIT_NS, NULL)))
		return 1;
	for (int from = 0; from < size; from++)
		if (from != rank)
			CHECK(((uint64_t *)base)[from] == (uint64_t)from + 1,
			      "round %d: word of rank %d is %llu", round, from,
			      (unsigned long long)((uint64_t *)base)[from]);
	/* Not waited for by anybody: fini has to cope. */
	for (int i = 0; round % 2 && i < 50; i++)
		OK(oriel_signal(win, (rank + 1) % size, 1, ORIEL_SIGNAL_ADD, 1));
	if (round % 3)
		return !OK(oriel_win_free(win));
	return 0; /* a window that is not freed goes with its context */
}

/* One rank's life in a thread. */
static int
as_thread(oriel_ctx *ctx, void *arg)
{
	struct ranks r = { .ctx = ctx, .world = oriel_world(ctx), .threads = 1 };
	int rc;

	r.rank = oriel_comm_rank(r.world);
	ranks_adopt(&r);
	rc = contact(ctx, arg);
	ranks_adopt(NULL);
	return rc || r.failures;
}

static int
one_round(int *round, int threads)
{
	struct ranks r = { .rank = -1 };
	oriel_ctx *ctx;
	int rc;

	if (threads)
		return oriel_run_threads(threads, as_thread, round, NULL);
	ranks_adopt(&r);
	if (!OK(oriel_init(NULL, &ctx)))
		return 1;
	r.world = oriel_world(ctx);
	r.rank = oriel_comm_rank(r.world);
	rc = contact(ctx, round);
	OK(oriel_fini(ctx));
	return rc || r.failures;
}

int
main(int argc, char **argv)
{
	size_t memory = 0, now;
	int files = 0, threads, n;

	ranks_job.name = "ucx_churn";
	ranks_job.argc = argc;
	ranks_job.argv = argv;
	signal(SIGALRM, ranks_out_of_time);
	alarm((unsigned)ranks_number("--limit", RANKS_LIMIT));
	threads = (int)ranks_number("--threads", 0);
	n = (int)ranks_number("--rounds", ROUNDS);
	for (int round = 1; round <= n; round++) {
		if (one_round(&round, threads)) {
			fprintf(stderr, "round %d failed\n", round);
			return 1;
		}
		if (round == SETTLED) {
			memory = resident();
			files = open_files();
		}
	}
	now = resident();
	if (!SANITIZED && n > SETTLED && now > memory + GROWTH_MAX) {
		fprintf(stderr, "resident memory grew by %zu KiB\n", (now - memory) >> 10);
		return 1;
	}
	if (n > SETTLED && open_files() > files) {
		fprintf(stderr, "%d open files, %d after round %d\n", open_files(), files, SETTLED);
		return 1;
	}
	return 0;
}
