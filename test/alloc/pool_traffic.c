#include "alloc/pool.h"

#include "test/alloc/pool_test.h"
#include "test/alloc/random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Random traffic: contents kept, no overlap. Each block is filled with its own pattern.
 */

#define BLOCKS 400

struct block {
	unsigned char *p;
	size_t n;
	unsigned char fill;
};

static void
block_make(struct pool *p, struct block *b, uint64_t *random)
{
	size_t align = (size_t)1 << random_below(random, random_below(random, 20) ? 13 : 19);
	bool zeroed = random_below(random, 4) == 0;
	void *ptr;
	int rc;

	b->n = random_size(random, random_below(random, 6) ? 14 : 21);
	b->fill = (unsigned char)(1 + random_below(random, 255));
	rc = (zeroed ? pool_alloc_zeroed : pool_alloc)(p, b->n, align, &ptr);
	cr_assert_eq(rc, 0, "%s", oriel_detail());
	cr_assert((uintptr_t)ptr % align == 0);
	b->p = ptr;
	cr_assert(!zeroed || is_zero(ptr, b->n));
	memset(b->p, b->fill, b->n);
}

static void
block_end(struct pool *p, struct block *b)
{
	cr_assert(!b->n || (b->p[0] == b->fill && !memcmp(b->p, b->p + 1, b->n - 1)));
	put(p, b->p);
	b->p = NULL;
}

Test(pool_traffic, random)
{
	uint64_t seed = first_seed("pool_traffic.random", 6), random;

	for (uint64_t s = seed; s < seed + 6; s++) {
		struct pool *p = make(4 * MIB, GIB);
		struct block *b = calloc(BLOCKS, sizeof(*b));

		random = s;
		for (int step = 0; step < 8000; step++) {
			size_t i = random_below(&random, step % 2000 < 1500 ? BLOCKS : 30);

			if (b[i].p)
				block_end(p, &b[i]);
			else
				block_make(p, &b[i], &random);
			if (step % 50 == 0)
				pool_check(p);
		}
		for (int i = 0; i < BLOCKS; i++)
			if (b[i].p)
				block_end(p, &b[i]);
		fprintf(stderr, "pool: seed %llu: reserved %.2f x peak in %zu slabs\n",
		        (unsigned long long)s,
		        (double)stats(p).reserved_bytes / (double)stats(p).peak_bytes,
		        stats(p).slabs);
		cr_assert(stats(p).reserved_bytes < stats(p).peak_bytes * 3 / 2 + 4 * MIB);
		end(p);
		free(b);
	}
}

/*
 * Threads: alloc and free, also of what others made, while all find.
 */

#define THREADS 4
#define MAILBOXES 64

static struct pool *shared;
static void *mailbox[MAILBOXES];

static void *
thread_run(void *arg)
{
	uint64_t random = 100 + (uint64_t)(intptr_t)arg;
	size_t offset, n;
	unsigned id;
	long bad = 0;

	for (int i = 0; i < 4000; i++) {
		void *ptr = NULL;

		n = 16 + random_size(&random, random_below(&random, 100) ? 13 : 21);
		bad += (i % 8 ? pool_alloc : pool_alloc_zeroed)(shared, n, 0, &ptr) != 0;
		bad += !pool_find(shared, ptr, n, &id, &offset);
		bad += pool_slab(shared, id)->base + offset != (char *)ptr;
		bad += i % 8 == 0 && !is_zero(ptr, n);
		memcpy(ptr, &n, sizeof(n));
		((char *)ptr)[n - 1] = 9;
		/* Leave it to whoever comes by, and free what was left. */
		ptr = __atomic_exchange_n(&mailbox[random_below(&random, MAILBOXES)], ptr,
		                          __ATOMIC_ACQ_REL);
		if (!ptr)
			continue;
		memcpy(&n, ptr, sizeof(n));
		bad += ((char *)ptr)[n - 1] != 9;
		bad += pool_free(shared, ptr) != 0;
	}
	return (void *)bad;
}

Test(pool_traffic, threads)
{
	pthread_t thread[THREADS];
	void *bad;

	shared = make(2 * MIB, GIB);
	for (intptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, thread_run, (void *)i), 0);
	for (int i = 0; i < 200; i++)
		pool_check(shared);
	for (int i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_join(thread[i], &bad), 0);
		cr_assert_null(bad);
	}
	for (int i = 0; i < MAILBOXES; i++)
		put(shared, mailbox[i]);
	cr_assert_eq(stats(shared).total_allocs, THREADS * 4000);
	cr_assert(stats(shared).slabs > 1);
	end(shared);
}

/* Of many threads that free one block, one succeeds. */
static void *
racing_free(void *arg)
{
	return (void *)(intptr_t)pool_free(shared, arg);
}

Test(pool_traffic, one_of_many_frees_wins)
{
	pthread_t thread[THREADS];
	void *rc;
	int won;

	shared = make(2 * MIB, GIB);
	for (int round = 0; round < 200; round++) {
		char *a = get(shared, 4 * MIB, 0);

		a[0] = a[2 * MIB] = 1;
		won = 0;
		for (int i = 0; i < THREADS; i++)
			cr_assert_eq(pthread_create(&thread[i], NULL, racing_free, a), 0);
		for (int i = 0; i < THREADS; i++) {
			cr_assert_eq(pthread_join(thread[i], &rc), 0);
			won += !rc;
			cr_assert(!rc || (intptr_t)rc == ORIEL_EINVAL);
		}
		cr_assert_eq(won, 1);
	}
	end(shared);
}
