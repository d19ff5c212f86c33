/*
 * A rank that exercises its bootstrap under any launcher. Every rank runs it:
 *
 *   boot            records both ways, missing keys, two contexts, leaving
 *   boot failure R  rank R kills itself; the others expect to be told within 5 s
 *   boot lonely R   rank R misses the fence; the others' fence ends in 2 s
 *   boot size N     expects N ranks (a launcher's N singletons would fail)
 *   boot abort R C  rank R calls PMIx_Abort with code C; the others would wait for ever
 */
#include "pmix-boot/boot.h"
#include "base/atomic.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_PMIX
#include <pmix.h>
#endif

#define SECOND UINT64_C(1000000000)

static int rank = -1;

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "boot: rank %d: line %d: %s: %s\n", rank, __LINE__, #cond, \
			        oriel_detail());                                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* More than a packet of any launcher's protocol, where the job is small enough for the time. */
static size_t
big(const struct boot *b)
{
	return b->size <= 16 ? 70000 : 2000;
}

static void
fill(unsigned char *p, size_t len, int r, int salt)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)(i * 7 + (size_t)r * 31 + (size_t)salt);
}

static void
open_boot(struct boot *b)
{
	struct knobs k;

	CHECK(!knobs_load(&k, NULL));
	log_set_level((int)k.v.log);
	CHECK(!boot_open(b, NULL, &k));
	rank = b->rank;
}

static void
put_big(struct boot *b, const char *key, int salt)
{
	size_t len = big(b) + (size_t)b->rank;
	unsigned char *p = malloc(len);

	CHECK(p);
	fill(p, len, b->rank, salt);
	CHECK(!boot_put(b, key, p, len));
	free(p);
}

static void
get_big(struct boot *b, const char *key, int salt)
{
	unsigned char *got = malloc(big(b) + (size_t)b->size),
	              *want = malloc(big(b) + (size_t)b->size);

	CHECK(got && want);
	for (int i = 0; i < b->size; i++) {
		int r = (b->rank + i) % b->size;
		size_t len = big(b) + (size_t)b->size;

		CHECK(!boot_get(b, r, key, got, &len, 10 * SECOND));
		CHECK(len == big(b) + (size_t)r);
		fill(want, len, r, salt);
		CHECK(!memcmp(got, want, len));
	}
	free(got);
	free(want);
}

static void
put_place(struct boot *b)
{
	CHECK(!boot_put(b, "local", b->local, (size_t)b->n_local * sizeof(int)));
	CHECK(!boot_put(b, "job", b->job, strlen(b->job) + 1));
	CHECK(!boot_put(b, "empty", NULL, 0));
}

/* Node by node, ranks agree about who is on the node; all agree about the job's name. */
static void
check_place(struct boot *b)
{
	int *local = calloc((size_t)b->size, sizeof(int));

	CHECK(local);
	for (int r = 0; r < b->size; r++) {
		size_t len = (size_t)b->size * sizeof(int), empty = 0;
		bool mine = boot_local_index(b, r) >= 0, theirs = false;
		char job[sizeof(b->job)];

		CHECK(!boot_get(b, r, "local", local, &len, 10 * SECOND));
		for (size_t i = 0; i < len / sizeof(int); i++)
			theirs = theirs || local[i] == b->rank;
		CHECK(mine == theirs);
		if (mine)
			CHECK(len == (size_t)b->n_local * sizeof(int) &&
			      !memcmp(local, b->local, len));
		len = sizeof(job);
		CHECK(!boot_get(b, r, "job", job, &len, 10 * SECOND));
		CHECK(!strcmp(job, b->job));
		CHECK(!boot_get(b, r, "empty", NULL, &empty, 10 * SECOND) && empty == 0);
	}
	free(local);
}

static void
check_errors(struct boot *b)
{
	char small[4];
	size_t len = sizeof(small);

	for (int r = 0; r < b->size; r++) {
		uint64_t start = now_ns();
		int rc = boot_get(b, r, "nobody puts this", small, &len, SECOND / 2);

		CHECK(rc == ORIEL_EBOOT || rc == ORIEL_ETIMEDOUT);
		CHECK(strstr(oriel_detail(), "nobody puts this"));
		CHECK(now_ns() - start < SECOND);
	}
	CHECK(boot_get(b, 0, "big", small, &len, SECOND) == ORIEL_ERANGE);
	CHECK(len == sizeof(small));
	CHECK(boot_get(b, b->size, "big", small, &len, SECOND) == ORIEL_ERANK);
	CHECK(boot_get(b, -1, "big", small, &len, SECOND) == ORIEL_ERANK);
	CHECK(boot_put(b, "", small, len) == ORIEL_EINVAL);
}

/* Records of a second round are found as those of the first are. */
static void
check_rounds(struct boot *b)
{
	int value = 1000 + b->rank, got;

	CHECK(!boot_put(b, "second", &value, sizeof(value)));
	CHECK(!boot_fence(b, false, 20 * SECOND));
	for (int r = 0; r < b->size; r++) {
		size_t len = sizeof(got);

		CHECK(!boot_get(b, r, "second", &got, &len, 10 * SECOND));
		CHECK(got == 1000 + r);
	}
	get_big(b, "big", 1);
}

/* Contexts may come one after the other; the same key in another context is another record. */
static void
check_reopening(void)
{
	for (int i = 10; i < 14; i++) {
		struct boot b;

		open_boot(&b);
		put_big(&b, "big", i);
		CHECK(!boot_fence(&b, false, 20 * SECOND));
		get_big(&b, "big", i);
		CHECK(!boot_fence(&b, false, 20 * SECOND));
		boot_close(&b);
	}
}

static void
check_leaving(void)
{
	struct boot one, two, three;
	struct knobs k;
	int rc;

	open_boot(&one);
	put_big(&one, "big", 1);
	CHECK(!boot_fence(&one, false, 20 * SECOND));
	open_boot(&two);
	CHECK(strcmp(one.job, two.job));
	put_big(&two, "big", 2);
	CHECK(!boot_fence(&two, true, 20 * SECOND));
	get_big(&two, "big", 2);
	get_big(&one, "big", 1);
	CHECK(!boot_leave(&two));
	get_big(&two, "big", 2);
	rc = boot_fence(&two, false, SECOND);
	CHECK(one.ops == &boot_singleton ? !rc : rc == ORIEL_EBOOT);
	/* The other one is still connected. */
	CHECK(!boot_fence(&one, false, 20 * SECOND));
	get_big(&one, "big", 1);
	boot_close(&one);
	get_big(&two, "big", 2);
	/* Now PMIx is gone. */
	CHECK(!knobs_load(&k, NULL));
	rc = boot_open(&three, NULL, &k);
	CHECK(two.ops == &boot_singleton ? !rc : rc == ORIEL_EBOOT);
	if (!rc)
		boot_close(&three);
	boot_close(&two);
}

static int
everything(void)
{
	struct boot b;
	uint64_t t0 = now_ns(), t1, t2, t3;

	open_boot(&b);
	t1 = now_ns();
	put_big(&b, "big", 1);
	put_place(&b);
	CHECK(!boot_fence(&b, false, 20 * SECOND));
	t2 = now_ns();
	get_big(&b, "big", 1);
	t3 = now_ns();
	check_place(&b);
	check_errors(&b);
	check_rounds(&b);
	if (!rank)
		printf("boot: %d ranks, %d on the node, %s: open %.1f ms, fence %.1f ms, gets %.1f "
		       "ms\n",
		       b.size, b.n_local, b.launcher, (double)(t1 - t0) / 1e6,
		       (double)(t2 - t1) / 1e6, (double)(t3 - t2) / 1e6);
	CHECK(!boot_fence(&b, false, 20 * SECOND));
	boot_close(&b);
	check_reopening();
	check_leaving();
	return 0;
}

/* What a launcher told us; filled by a thread of PMIx. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t news;
	int rank;
} told_of = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER, .rank = -1 };

static void
told(void *arg, int r, const char *why)
{
	CHECK(arg == &told_of);
	CHECK(why && *why);
	pthread_mutex_lock(&told_of.lock);
	told_of.rank = r;
	pthread_cond_signal(&told_of.news);
	pthread_mutex_unlock(&told_of.lock);
}

static int
failure(int victim)
{
	struct timespec until;
	struct boot b;
	int rc = 0;

	open_boot(&b);
	b.on_failure = told;
	b.on_failure_arg = &told_of;
	CHECK(!boot_watch(&b));
	CHECK(!boot_fence(&b, false, 20 * SECOND));
	if (b.rank == victim)
		raise(SIGKILL);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	pthread_mutex_lock(&told_of.lock);
	while (told_of.rank < 0 && !rc)
		rc = pthread_cond_timedwait(&told_of.news, &told_of.lock, &until);
	CHECK(told_of.rank == victim);
	pthread_mutex_unlock(&told_of.lock);
	boot_close(&b);
	return 0;
}

static int
lonely(int absent)
{
	struct boot b;
	uint64_t start;
	int rc;

	open_boot(&b);
	CHECK(!boot_fence(&b, false, 20 * SECOND));
	if (b.rank == absent) {
		poll(NULL, 0, 4000); /* it is away for as long as the others try */
	} else {
		start = now_ns();
		rc = boot_fence(&b, false, SECOND * 3 / 2);
		CHECK(rc == ORIEL_ETIMEDOUT);
		CHECK(now_ns() - start < 3 * SECOND);
		CHECK(boot_fence(&b, false, SECOND) == ORIEL_EBOOT);
	}
	boot_close(&b);
	return 0;
}

#ifdef HAVE_PMIX
static int
abort_job(int who, int code)
{
	struct boot b;

	open_boot(&b);
	CHECK(!boot_fence(&b, false, 20 * SECOND));
	if (b.rank == who)
		PMIx_Abort(code, "as the test wants", NULL, 0);
	for (;;)
		pause();
}
#endif

static int
size(int n)
{
	struct boot b;

	open_boot(&b);
	CHECK(b.size == n);
	boot_close(&b);
	return 0;
}

int
main(int argc, char **argv)
{
	int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;

	if (argc == 1)
		return everything();
	if (argc == 3 && !strcmp(argv[1], "failure"))
		return failure(n);
	if (argc == 3 && !strcmp(argv[1], "lonely"))
		return lonely(n);
	if (argc == 3 && !strcmp(argv[1], "size"))
		return size(n);
#ifdef HAVE_PMIX
	if (argc == 4 && !strcmp(argv[1], "abort"))
		return abort_job(n, (int)strtol(argv[3], NULL, 10));
#endif
	fprintf(stderr, "usage: boot [failure R | lonely R | size N | abort R CODE]\n");
	return 2;
}
