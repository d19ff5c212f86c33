#include "rma/ctx.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#define N 3000

static void
count(void *arg, uint64_t id, void *value)
{
	uint64_t *sum = arg;

	cr_assert_eq(id * 3, (uintptr_t)value);
	*sum += id;
}

Test(table, put_get_del)
{
	struct table *t = table_create();
	uint64_t sum = 0;
	int one, two;

	cr_assert_not_null(t);
	cr_assert_null(table_get(t, 5));
	cr_assert_null(table_del(t, 5));
	cr_assert_eq(table_put(t, 5, &one), 0);
	cr_assert_eq(table_get(t, 5), &one);
	cr_assert_eq(table_put(t, 5, &two), 0);
	cr_assert_eq(table_get(t, 5), &two);
	cr_assert_eq(table_del(t, 5), &two);
	cr_assert_null(table_get(t, 5));
	for (uint64_t i = 1; i <= N; i++)
		cr_assert_eq(table_put(t, i << 40 | i, (void *)(uintptr_t)(3 * (i << 40 | i))), 0);
	table_each(t, count, &sum);
	cr_assert_eq(sum, (uint64_t)N * (N + 1) / 2 * ((UINT64_C(1) << 40) + 1));
	for (uint64_t i = 1; i <= N; i += 2)
		cr_assert_not_null(table_del(t, i << 40 | i));
	for (uint64_t i = 1; i <= N; i++)
		cr_assert_eq(table_get(t, i << 40 | i) != NULL, i % 2 == 0);
	table_free(t);
	table_free(NULL);
}

static void *
churn(void *arg)
{
	struct table *t = arg;

	for (uint64_t round = 0; round < 200; round++) {
		for (uint64_t i = 0; i < 50; i++)
			cr_assert_eq(table_put(t, 1000 + i, t), 0);
		for (uint64_t i = 0; i < 50; i++)
			table_del(t, 1000 + i);
	}
	return NULL;
}

Test(table, threads)
{
	struct table *t = table_create();
	pthread_t thread[3];

	cr_assert_eq(table_put(t, 7, t), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, churn, t), 0);
	for (int i = 0; i < 20000; i++) {
		void *seen = table_get(t, 1000 + (uint64_t)i % 50);

		cr_assert(table_get(t, 7) == t && (!seen || seen == t));
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	for (uint64_t i = 0; i < 50; i++)
		cr_assert_null(table_get(t, 1000 + i));
	table_free(t);
}

static void
add(void *entry, void *arg)
{
	*(uint64_t *)arg += (uintptr_t)entry;
}

Test(dir, sizes)
{
	for (int size = 1; size < 3 * DIR_CHUNK + 2; size++) {
		struct peer_dir d = { 0 };
		uint64_t sum = 0, want = 0;

		cr_assert_eq(dir_init(&d, size), 0);
		for (int r = 0; r < size; r++)
			cr_assert_null(dir_get(&d, r));
		dir_each(&d, add, &sum);
		cr_assert_eq(sum, 0);
		for (int r = size - 1; r >= 0; r -= 7) {
			cr_assert_eq(dir_set(&d, r, (void *)(uintptr_t)(r + 1)), 0);
			want += (uint64_t)r + 1;
		}
		for (int r = 0; r < size; r++)
			cr_assert_eq((uintptr_t)dir_get(&d, r),
			             (size - 1 - r) % 7 ? 0 : (uintptr_t)(r + 1));
		dir_each(&d, add, &sum);
		cr_assert_eq(sum, want);
		dir_free(&d);
		dir_each(&d, add, &sum);
		cr_assert_eq(sum, want);
	}
}

/* A directory of a very large job costs what is touched. */
Test(dir, sparse)
{
	struct peer_dir d;
	int one;

	cr_assert_eq(dir_init(&d, 100000000), 0);
	cr_assert_eq(dir_set(&d, 99999999, &one), 0);
	cr_assert_eq(dir_get(&d, 99999999), &one);
	cr_assert_null(dir_get(&d, 99999998));
	cr_assert_null(dir_get(&d, 50000000));
	dir_free(&d);
}
