#include "base/base.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(base, detail_of_the_last_failure)
{
	cr_assert_eq(fail(ORIEL_ERANK, "rank %d of %d", 7, 4), ORIEL_ERANK);
	cr_assert_str_eq(oriel_detail(), "rank 7 of 4");
	cr_assert_eq(fail_in(ORIEL_EPEER, "while %s", "waiting"), ORIEL_EPEER);
	cr_assert_str_eq(oriel_detail(), "while waiting: rank 7 of 4");
	cr_assert_eq(fail_more(0, "; slot %d", 3), 0);
	cr_assert_str_eq(oriel_detail(), "while waiting: rank 7 of 4; slot 3");
	cr_assert_eq(fail_errno(ORIEL_ETRANSPORT, ENOENT, "opening %s", "x"), ORIEL_ETRANSPORT);
	cr_assert_str_eq(oriel_detail(), "opening x: No such file or directory");
	cr_assert_eq(fail_errno(ORIEL_ETRANSPORT, 99999, "y"), ORIEL_ETRANSPORT);
	cr_assert_str_eq(oriel_detail(), "y: ?");
	fail(-1, "%s", "");
	cr_assert_str_eq(oriel_detail(), "");
	/* An argument of fail that is the old detail itself. */
	fail(-1, "first");
	fail_in(-1, "second (%s)", oriel_detail());
	cr_assert_str_eq(oriel_detail(), "second (first): first");
}

Test(base, long_details_are_cut)
{
	char text[3000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	fail(-1, "%s", text);
	cr_assert_eq(strlen(oriel_detail()), 511);
	fail_more(-1, "more");
	cr_assert_eq(strlen(oriel_detail()), 511);
	fail_errno(-1, ENOENT, "%s", text);
	cr_assert(strlen(oriel_detail()) <= 511);
	for (int i = 0; i < 10; i++)
		fail_in(-1, "%s", text);
	cr_assert(strlen(oriel_detail()) <= 511 && strlen(oriel_detail()) > 200);
	/* What is outermost is kept, and some of what was seen. */
	fail(-1, "cause");
	fail_in(-1, "%s", text);
	cr_assert(strstr(oriel_detail(), ": cause"));
	fail(-1, "%.500s", text);
	fail_more(-1, "; and %s", text);
	cr_assert_eq(strlen(oriel_detail()), 511);
}

static void *
other_thread(void *arg)
{
	cr_assert_str_eq(oriel_detail(), "");
	fail(-1, "theirs");
	return arg;
}

Test(base, detail_belongs_to_its_thread)
{
	pthread_t thread;

	fail(-1, "mine");
	cr_assert_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
	pthread_join(thread, NULL);
	cr_assert_str_eq(oriel_detail(), "mine");
}

Test(base, every_error_has_its_text)
{
#define TEXT_IS(name, value, text)                                                                 \
	cr_assert_str_eq(oriel_strerror(value), "ORIEL_" #name ": " text);                         \
	cr_assert_eq(ORIEL_##name, value);
	ORIEL_ERRORS(TEXT_IS)
#undef TEXT_IS
	cr_assert_str_eq(oriel_strerror(0), "success");
	cr_assert_str_eq(oriel_strerror(1), "not an Oriel error");
	cr_assert_str_eq(oriel_strerror(-18), "not an Oriel error");
	cr_assert_str_eq(oriel_strerror(INT32_MIN), "not an Oriel error");
	cr_assert_str_eq(oriel_version(), "0.1.0");
}

Test(base, clock_and_deadlines)
{
	uint64_t a = now_ns(), b = now_ns(), d;

	cr_assert(b >= a && a > 0);
	d = deadline_after(1000000000);
	cr_assert(d >= b + 1000000000 && d <= now_ns() + 1000000000);
	cr_assert_eq(deadline_after(ORIEL_FOREVER), ORIEL_FOREVER);
	cr_assert_eq(deadline_after(ORIEL_FOREVER - 5), ORIEL_FOREVER);
	cr_assert(deadline_after((UINT64_C(1) << 62) - 1) > b);
}

Test(base, arithmetic)
{
	cr_assert(range_inside(0, 0, 0) && range_inside(5, 0, 5) && range_inside(0, 5, 5));
	cr_assert(range_inside(1, SIZE_MAX - 1, SIZE_MAX));
	cr_assert(!range_inside(6, 0, 5) && !range_inside(0, 6, 5) && !range_inside(1, 5, 5));
	cr_assert(!range_inside(SIZE_MAX, 2, 5) && !range_inside(2, SIZE_MAX, 5) &&
	          !range_inside(SIZE_MAX, SIZE_MAX, SIZE_MAX));
	cr_assert(round_up(0, 8) == 0 && round_up(1, 8) == 8 && round_up(8, 8) == 8);
	cr_assert(is_pow2(1) && is_pow2(4096) && !is_pow2(0) && !is_pow2(48));
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Numbers that count up, as ids do: no two alike, and about half of the bits change at each step.
 */
Test(base, hash_spreads)
{
	enum { N = 20000 };
	uint64_t *h = malloc(N * sizeof(*h)), changed = 0;

	cr_assert(h);
	for (uint64_t i = 0; i < N; i++) {
		h[i] = hash_bytes(0, &i, sizeof(i));
		cr_assert_eq(h[i], hash_bytes(0, &i, sizeof(i)));
		if (i)
			changed += (uint64_t)__builtin_popcountll(h[i] ^ h[i - 1]);
	}
	cr_assert(changed > 30 * (uint64_t)N && changed < 34 * (uint64_t)N, "%f bits a step",
	          (double)changed / N);
	qsort(h, N, sizeof(*h), by_value);
	for (int i = 1; i < N; i++)
		cr_assert(h[i] != h[i - 1]);
	cr_assert(hash_bytes(1, "a", 1) != hash_bytes(0, "a", 1));
	cr_assert(hash_bytes(0, "a", 1) != hash_bytes(0, "b", 1));
	cr_assert(hash_bytes(0, "ab", 2) != hash_bytes(hash_bytes(0, "b", 1), "a", 1));
	free(h);
}

/* What log_at writes to the standard error, at each level. */
Test(base, log_levels)
{
	char text[2048], path[] = "/tmp/oriel-log-XXXXXX", long_text[2000];
	int file = mkstemp(path), old = dup(STDERR_FILENO);
	ssize_t n;

	cr_assert(file >= 0 && old >= 0);
	unlink(path);
	memset(long_text, 'y', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = 0;
	dup2(file, STDERR_FILENO);
	log_at(LOG_ERROR, "before any level is set");
	log_set_level(LOG_WARN);
	log_at(LOG_ERROR, "one");
	log_at(LOG_INFO, "not this");
	fail(-1, "nor that");
	log_set_level(LOG_DEBUG);
	fail(-1, "two");
	log_at(LOG_DEBUG, "%s", long_text);
	log_set_level(-1);
	log_at(LOG_ERROR, "silence");
	dup2(old, STDERR_FILENO);
	n = pread(file, text, sizeof(text) - 1, 0);
	cr_assert(n > 0);
	text[n] = 0;
	cr_assert(strstr(text, "] error: one\n") && strstr(text, "] debug: two\n"), "%s", text);
	cr_assert(!strstr(text, "before") && !strstr(text, "not this") && !strstr(text, "nor") &&
	                  !strstr(text, "silence"),
	          "%s", text);
	cr_assert(n < 700 && text[n - 1] == '\n', "a long line has %zd bytes", n);
	close(file);
	close(old);
}
