#include "pmix-boot/threads.h"
#include "pmix-boot/boot.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define RANKS 8
#define ROUNDS 50

struct rank_arg {
	struct threads_boot *tb;
	int rank;
	const char *wrong; /* what failed */
};

/* Criterion's asserts are for the test's own thread. */
#define CHECK(a, cond)                                                                             \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(a)->wrong = #cond;                                                        \
			return NULL;                                                               \
		}                                                                                  \
	} while (0)

/* Each round every rank sees every other's value of this round, and none of the next. */
static void *
rounds(void *arg)
{
	struct rank_arg *a = arg;
	struct oriel_bootstrap t;
	struct knobs k;
	struct boot b;

	CHECK(a, !threads_boot_table(a->tb, a->rank, &t));
	CHECK(a, !knobs_load(&k, NULL));
	CHECK(a, !boot_open(&b, &t, &k));
	CHECK(a, b.rank == a->rank && b.size == RANKS && b.n_local == RANKS);
	for (int i = 0; i < ROUNDS; i++) {
		int value = i * RANKS + a->rank;

		CHECK(a, !boot_put(&b, "value", &value, sizeof(value)));
		CHECK(a, !boot_fence(&b, false, 60 * SECOND));
		for (int r = 0; r < RANKS; r++) {
			size_t len = sizeof(value);

			CHECK(a, !boot_get(&b, r, "value", &value, &len, SECOND));
			CHECK(a, value == i * RANKS + r);
		}
		CHECK(a, !boot_fence(&b, false, ORIEL_FOREVER));
	}
	boot_close(&b);
	return NULL;
}

Test(threads, rounds)
{
	struct rank_arg args[RANKS];
	pthread_t threads[RANKS];
	struct threads_boot *tb;

	cr_assert_eq(threads_boot_create(RANKS, &tb), 0);
	for (int r = 0; r < RANKS; r++) {
		args[r] = (struct rank_arg){ .tb = tb, .rank = r };
		cr_assert_eq(pthread_create(&threads[r], NULL, rounds, &args[r]), 0);
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	for (int r = 0; r < RANKS; r++)
		cr_assert_null(args[r].wrong, "rank %d: %s", r, args[r].wrong);
	threads_boot_destroy(tb);
}

static void *
fence_once(void *arg)
{
	struct rank_arg *a = arg;
	struct oriel_bootstrap t;

	CHECK(a, !threads_boot_table(a->tb, a->rank, &t));
	CHECK(a, !t.fence(t.arg, 60 * SECOND));
	return NULL;
}

/* A fence that timed out is as if it had not been called: the next one works. */
Test(threads, fence_times_out)
{
	struct rank_arg other;
	struct threads_boot *tb;
	struct oriel_bootstrap t;
	pthread_t thread;
	uint64_t start = now_ns();

	cr_assert_eq(threads_boot_create(2, &tb), 0);
	cr_assert_eq(threads_boot_table(tb, 0, &t), 0);
	cr_assert_eq(t.fence(t.arg, SECOND / 20), ORIEL_ETIMEDOUT);
	cr_assert(now_ns() - start >= SECOND / 20);
	cr_assert(strstr(oriel_detail(), "1 of 2"));
	cr_assert_eq(t.fence(t.arg, 0), ORIEL_ETIMEDOUT);
	other = (struct rank_arg){ .tb = tb, .rank = 1 };
	cr_assert_eq(pthread_create(&thread, NULL, fence_once, &other), 0);
	cr_assert_eq(t.fence(t.arg, 60 * SECOND), 0, "%s", oriel_detail());
	pthread_join(thread, NULL);
	cr_assert_null(other.wrong, "%s", other.wrong);
	threads_boot_destroy(tb);
}

Test(threads, errors)
{
	char value[4] = "abc";
	size_t len = sizeof(value);
	struct threads_boot *tb = NULL;
	struct oriel_bootstrap t;

	cr_assert_eq(threads_boot_create(0, &tb), ORIEL_EINVAL);
	cr_assert_null(tb);
	threads_boot_destroy(NULL);
	cr_assert_eq(threads_boot_create(1, &tb), 0);
	cr_assert_eq(threads_boot_table(tb, 1, &t), ORIEL_ERANK);
	cr_assert_eq(threads_boot_table(tb, -1, &t), ORIEL_ERANK);
	cr_assert_eq(threads_boot_table(tb, 0, &t), 0);
	cr_assert_eq(t.put(t.arg, "k", value, 4), 0);
	cr_assert_eq(t.get(t.arg, 0, "k", value, &len, 0), ORIEL_EBOOT, "it has not been fenced");
	cr_assert_eq(t.fence(t.arg, 0), 0);
	cr_assert_eq(t.get(t.arg, 0, "k", value, &len, 0), 0);
	cr_assert_eq(t.get(t.arg, 0, "l", value, &len, 0), ORIEL_EBOOT);
	cr_assert_eq(t.get(t.arg, 1, "k", value, &len, 0), ORIEL_ERANK);
	len = 3;
	cr_assert_eq(t.get(t.arg, 0, "k", value, &len, 0), ORIEL_ERANGE);
	threads_boot_destroy(tb);
}

Test(threads, two_at_a_time_have_two_names)
{
	struct threads_boot *a, *b;
	struct oriel_bootstrap ta, tb;

	cr_assert(!threads_boot_create(1, &a) && !threads_boot_create(1, &b));
	cr_assert(!threads_boot_table(a, 0, &ta) && !threads_boot_table(b, 0, &tb));
	cr_assert(strcmp(ta.job, tb.job));
	threads_boot_destroy(a);
	threads_boot_destroy(b);
}
