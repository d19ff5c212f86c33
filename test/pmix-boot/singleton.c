#include "pmix-boot/boot.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void
alone(struct boot *b)
{
	struct knobs k;

	unsetenv("PMIX_NAMESPACE");
	cr_assert_eq(knobs_load(&k, NULL), 0, "%s", oriel_detail());
	cr_assert_eq(boot_open(b, NULL, &k), 0, "%s", oriel_detail());
	cr_assert_eq(b->ops, &boot_singleton);
}

Test(singleton, place)
{
	struct boot one, two;

	alone(&one);
	alone(&two);
	cr_assert_eq(one.rank, 0);
	cr_assert_eq(one.size, 1);
	cr_assert_eq(one.n_local, 1);
	cr_assert_eq(one.local[0], 0);
	cr_assert(one.host[0] && one.launcher[0]);
	/* Two contexts of a process are two jobs. */
	cr_assert(strcmp(one.job, two.job));
	boot_close(&one);
	boot_close(&two);
}

Test(singleton, records)
{
	char value[8];
	size_t len = sizeof(value);
	struct boot b;

	alone(&b);
	cr_assert_eq(boot_put(&b, "a", "one", 4), 0);
	cr_assert_eq(boot_get(&b, 0, "a", value, &len, 0), ORIEL_EBOOT, "it has not been fenced");
	cr_assert_eq(boot_fence(&b, false, 0), 0);
	cr_assert_eq(boot_get(&b, 0, "a", value, &len, 0), 0);
	cr_assert(len == 4 && !strcmp(value, "one"));

	/* A second value hides the first, from the next fence on. */
	cr_assert_eq(boot_put(&b, "a", "second", 7), 0);
	len = sizeof(value);
	cr_assert_eq(boot_get(&b, 0, "a", value, &len, 0), 0);
	cr_assert(!strcmp(value, "one"));
	cr_assert_eq(boot_fence(&b, false, 0), 0);
	len = sizeof(value);
	cr_assert_eq(boot_get(&b, 0, "a", value, &len, 0), 0);
	cr_assert(len == 7 && !strcmp(value, "second"));

	len = 6;
	cr_assert_eq(boot_get(&b, 0, "a", value, &len, 0), ORIEL_ERANGE);
	cr_assert_eq(len, 6, "results are written on success only");
	cr_assert(strstr(oriel_detail(), "7 bytes"));
	cr_assert_eq(boot_get(&b, 0, "b", value, &len, 0), ORIEL_EBOOT);
	cr_assert(strstr(oriel_detail(), "\"b\""));
	boot_close(&b);
}

static void
never_told(void *arg, int rank, const char *why)
{
	(void)arg;
	cr_assert_fail("told of rank %d: %s", rank, why);
}

Test(singleton, nobody_to_watch_or_leave)
{
	struct boot b;

	alone(&b);
	b.on_failure = never_told;
	cr_assert_eq(boot_watch(&b), 0);
	cr_assert_eq(boot_leave(&b), 0);
	cr_assert_eq(boot_put(&b, "a", "1", 2), 0);
	cr_assert_eq(boot_fence(&b, false, 0), 0);
	boot_close(&b);
}
