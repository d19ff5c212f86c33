/*
 * ranks.h - what every rank test shares: main() for ranks as processes (under
 * orielrun, mpirun or srun) and as threads (--threads N), checks that name rank,
 * file and line, a seeded generator, a busy delay.
 *
 *	static int
 *	run(struct ranks *r)
 *	{
 *		oriel_win *win;
 *		void *base;
 *
 *		if (!OK(oriel_win_alloc(r->world, 4096, 8, &base, &win)))
 *			return 1;
 *		CHECK(oriel_comm_size(r->world) == r->size, "size %d", r->size);
 *		OK(oriel_win_free(win));
 *		return 0;
 *	}
 *
 *	RANKS_MAIN(run)
 *
 * CHECK records a failure and goes on. OK and NEED, after which the other ranks
 * may wait for something that never comes, also abort the world and every
 * communicator named by ranks_watch(), so that no rank hangs. All are
 * expressions: true if it held. A rank's result is nonzero if any check of it
 * failed or run() returned nonzero; run() may return ranks_skip(why).
 *
 * Arguments: --threads N, --rounds N, --seed N, --limit SECONDS (of the whole
 * run; 0: none), --share (all ranks on one CPU); others are for the test, see
 * ranks_number().
 *
 * The macros find the rank in a thread-local variable: a thread that the test
 * makes calls ranks_adopt(r) first. Uses the public header only.
 */
#ifndef TEST_RANKS_RANKS_H
#define TEST_RANKS_RANKS_H

#include "oriel.h"

#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <signal.h>

#define RANKS_SKIP 77
#define RANKS_LIMIT 300 /* seconds */
#define RANKS_WAIT_NS                                                                              \
	(UINT64_C(60) * 1000000000) /* for waits: a lost wake-up is then a finding                 \
	                             */
#define RANKS_WATCHED 16

struct ranks {
	oriel_ctx *ctx;
	oriel_comm *world;
	int rank, size;
	int threads;     /* ranks are this many threads of one process; 0: processes */
	uint64_t rounds; /* --rounds; 0: the test's default */
	uint64_t seed;   /* the same on all ranks */
	uint64_t random; /* state of ranks_random(r), different on each rank */
	unsigned failures;
	int aborted;
	int n_watched;
	oriel_comm *watched[RANKS_WATCHED];
};

typedef int (*ranks_fn)(struct ranks *r);

static struct {
	const char *name;
	int argc;
	char **argv;
	ranks_fn fn;
} ranks_job;
static __thread struct ranks *ranks_self;

/* This thread speaks for rank r from now on. */
static inline void
ranks_adopt(struct ranks *r)
{
	ranks_self = r;
}

/* A failed OK or NEED aborts comm too. Forget it (before it is freed) with ranks_unwatch. */
static inline void
ranks_watch(oriel_comm *comm)
{
	if (ranks_self->n_watched < RANKS_WATCHED)
		ranks_self->watched[ranks_self->n_watched++] = comm;
}

static inline void
ranks_unwatch(oriel_comm *comm)
{
	struct ranks *r = ranks_self;
	int i, kept = 0;

	for (i = 0; i < r->n_watched; i++)
		if (r->watched[i] != comm)
			r->watched[kept++] = r->watched[i];
	r->n_watched = kept;
}

static inline void
ranks_abort(void)
{
	struct ranks *r = ranks_self;
	int i;

	if (!r || __atomic_exchange_n(&r->aborted, 1, __ATOMIC_ACQ_REL))
		return;
	if (r->world)
		oriel_comm_abort(r->world);
	for (i = 0; i < r->n_watched; i++)
		oriel_comm_abort(r->watched[i]);
}

/* Prints one whole line, so that ranks' lines do not mix. */
static inline void __attribute__((format(printf, 3, 4)))
ranks_say(const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	int n;

	if (file)
		n = snprintf(text, sizeof(text), "%s:%d: rank %d: ", file, line,
		             ranks_self ? ranks_self->rank : -1);
	else
		n = snprintf(text, sizeof(text), "%s: ", ranks_job.name);
	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	va_end(args);
	fprintf(file ? stderr : stdout, "%s\n", text);
	fflush(file ? stderr : stdout);
}

#define RANKS_MAX_SAID 20 /* failures of a rank that are printed; all are counted */

static inline bool
ranks_failed(void)
{
	struct ranks *r = ranks_self;

	return !r || __atomic_fetch_add(&r->failures, 1, __ATOMIC_RELAXED) < RANKS_MAX_SAID;
}

static inline bool
ranks_ok(int code, const char *call, const char *file, int line)
{
	if (code >= 0)
		return true;
	/* What an abort does to the calls after it is not a finding of its own. */
	if (ranks_failed() && !(code == ORIEL_EABORTED && ranks_self && ranks_self->aborted))
		ranks_say(file, line, "%s: %s (%s)", call, oriel_strerror(code), oriel_detail());
	ranks_abort();
	return false;
}

/* What CHECK does when its condition does not hold; false. */
static inline bool __attribute__((format(printf, 3, 4)))
ranks_check_failed(const char *file, int line, const char *fmt, ...)
{
	char text[768];
	va_list args;

	if (!ranks_failed())
		return false;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ranks_say(file, line, "%s", text);
	return false;
}

static inline bool
ranks_need_failed(void)
{
	ranks_abort();
	return false;
}

/* So that a statement may drop the value without a warning. */
static inline bool
ranks_held(bool held)
{
	return held;
}

/* Records a failure unless cond holds; the text says what was expected and seen. */
#define CHECK(cond, ...) ranks_held((cond) || ranks_check_failed(__FILE__, __LINE__, __VA_ARGS__))
/* The same, and no rank can go on. */
#define NEED(cond, ...) ranks_held(CHECK(cond, __VA_ARGS__) || ranks_need_failed())
/* The call returns no error; else no rank can go on. */
#define OK(call) ranks_ok(call, #call, __FILE__, __LINE__)
/* The call returns just this error. */
#define FAILS(code, call) ranks_fails(code, call, #call, __FILE__, __LINE__)

static inline bool
ranks_fails(int expected, int code, const char *call, const char *file, int line)
{
	if (code == expected)
		return true;
	if (ranks_failed())
		ranks_say(file, line, "%s: expected \"%s\", seen \"%s\" (%s)", call,
		          oriel_strerror(expected), oriel_strerror(code), oriel_detail());
	return false;
}

/* splitmix64 */
static inline uint64_t
ranks_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A number of this rank below n, n > 0. One thread of a rank at a time. */
static inline uint64_t
ranks_random(struct ranks *r, uint64_t n)
{
	return ranks_next(&r->random) % n;
}

/* Keeps the CPU busy for about so many cycles, without a system call. */
static inline void
ranks_delay(uint64_t cycles)
{
	uint64_t i;

	for (i = 0; i < cycles; i++)
		__asm__ volatile("" ::: "memory");
}

static inline uint64_t
ranks_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* "--name N" or "--name=N" on the command line, else def. */
static inline uint64_t
ranks_number(const char *name, uint64_t def)
{
	size_t len = strlen(name);
	int i;

	for (i = 1; i < ranks_job.argc; i++) {
		const char *arg = ranks_job.argv[i];

		if (strncmp(arg, name, len))
			continue;
		if (arg[len] == '=')
			return strtoull(arg + len + 1, NULL, 0);
		if (!arg[len] && i + 1 < ranks_job.argc)
			return strtoull(ranks_job.argv[i + 1], NULL, 0);
	}
	return def;
}

/* "--name TEXT" on the command line, else def. */
static inline const char *
ranks_text(const char *name, const char *def)
{
	for (int i = 1; i + 1 < ranks_job.argc; i++)
		if (!strcmp(ranks_job.argv[i], name))
			return ranks_job.argv[i + 1];
	return def;
}

/* "--name" stands on the command line. */
static inline bool
ranks_flag(const char *name)
{
	int i;

	for (i = 1; i < ranks_job.argc; i++)
		if (!strcmp(ranks_job.argv[i], name))
			return true;
	return false;
}

/* return ranks_skip("why"): what the test needs is not here. All ranks must find the same. */
static inline int
ranks_skip(const char *why)
{
	if (ranks_self->rank == 0)
		ranks_say(NULL, 0, "skipped: %s", why);
	return RANKS_SKIP;
}

/* One rank, from a live context to its verdict. */
static inline int
ranks_rank(oriel_ctx *ctx, void *arg)
{
	int threads = *(const int *)arg, status;
	struct ranks r;

	memset(&r, 0, sizeof(r));
	r.ctx = ctx;
	r.world = oriel_world(ctx);
	r.rank = oriel_comm_rank(r.world);
	r.size = oriel_comm_size(r.world);
	r.threads = threads;
	r.rounds = ranks_number("--rounds", 0);
	r.seed = ranks_number("--seed", 1);
	r.random = r.seed * UINT64_C(1000003) + (uint64_t)r.rank;
	ranks_adopt(&r);
	if (r.rank == 0)
		ranks_say(NULL, 0, "%d ranks (%s), seed %llu", r.size,
		          threads ? "threads" : "processes", (unsigned long long)r.seed);
	status = ranks_job.fn(&r);
	if (r.failures)
		ranks_say(NULL, 0, "rank %d: %u failures, seed %llu", r.rank, r.failures,
		          (unsigned long long)r.seed);
	if (status != RANKS_SKIP && (status || r.failures)) {
		ranks_abort();
		status = 1;
	}
	ranks_adopt(NULL);
	return status;
}

static inline void
ranks_out_of_time(int sig)
{
	static const char text[] = "time limit of the test reached (--limit)\n";

	(void)sig;
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(125);
	_exit(124);
}

/* Before the library starts, which looks whether ranks share CPUs. Threads and children inherit it.
 */
static inline void
ranks_share_cpu(void)
{
	cpu_set_t all, one;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static inline int
ranks_main(int argc, char **argv, ranks_fn fn, const struct oriel_options *opts)
{
	const char *slash = strrchr(argv[0], '/');
	oriel_ctx *ctx;
	int threads, status, code;

	ranks_job.name = slash ? slash + 1 : argv[0];
	ranks_job.argc = argc;
	ranks_job.argv = argv;
	ranks_job.fn = fn;
	signal(SIGALRM, ranks_out_of_time);
	alarm((unsigned)ranks_number("--limit", RANKS_LIMIT));
	if (ranks_flag("--share"))
		ranks_share_cpu();
	threads = (int)ranks_number("--threads", 0);
	if (threads) {
		status = oriel_run_threads(threads, ranks_rank, &threads, opts);
		if (status < 0)
			ranks_say(__FILE__, __LINE__, "oriel_run_threads: %s (%s)",
			          oriel_strerror(status), oriel_detail());
		return status < 0 ? 1 : status;
	}
	code = oriel_init(opts, &ctx);
	if (code) {
		ranks_say(__FILE__, __LINE__, "oriel_init: %s (%s)", oriel_strerror(code),
		          oriel_detail());
		return 1;
	}
	status = ranks_rank(ctx, &threads);
	code = oriel_fini(ctx);
	if (code && !status) {
		ranks_say(__FILE__, __LINE__, "oriel_fini: %s (%s)", oriel_strerror(code),
		          oriel_detail());
		status = 1;
	}
	return status;
}

#define RANKS_MAIN_WITH(fn, opts)                                                                  \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return ranks_main(argc, argv, fn, opts);                                           \
	}
#define RANKS_MAIN(fn) RANKS_MAIN_WITH(fn, NULL)

#endif
