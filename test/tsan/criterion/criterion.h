/*
 * criterion.h - stands in for Criterion's header under -fsanitize=thread, where
 * Criterion cannot start: the memory that its children inherit lies where the
 * sanitizer does not allow any. With -Itest/tsan before the system's headers the
 * same tests build without libcriterion; each runs in a forked child.
 *
 * The program takes words: only tests whose "suite/name" contains one of them run.
 */
#ifndef TEST_TSAN_CRITERION_H
#define TEST_TSAN_CRITERION_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TSAN_SKIPPED 77

struct tsan_test {
	const char *name;
	void (*run)(void);
	struct tsan_test *next;
};

/* Weak: one of each, however many files of tests are linked. */
__attribute__((weak)) struct tsan_test *tsan_tests;

__attribute__((format(printf, 4, 5), noreturn, unused)) static void
tsan_stop(int status, const char *where, const char *what, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: %s:", where, what);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(status);
}

#define TSAN_TEXT2(x) #x
#define TSAN_TEXT(x) TSAN_TEXT2(x)
#define TSAN_WHERE __FILE__ ":" TSAN_TEXT(__LINE__)

#define Test(suite, test, ...)                                                                     \
	static void suite##_##test##_run(void);                                                    \
	__attribute__((constructor)) static void suite##_##test##_add(void)                        \
	{                                                                                          \
		static struct tsan_test t = { #suite "/" #test, suite##_##test##_run, NULL };      \
		t.next = tsan_tests;                                                               \
		tsan_tests = &t;                                                                   \
	}                                                                                          \
	static void suite##_##test##_run(void)

/* Like Criterion's: an optional format and its arguments follow. */
#define cr_assert(cond, ...)                                                                       \
	do {                                                                                       \
		if (!(cond))                                                                       \
			tsan_stop(1, TSAN_WHERE, #cond " is false", " " __VA_ARGS__);              \
	} while (0)
#define cr_assert_not(cond, ...) cr_assert(!(cond), ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...) cr_assert((a) < (b), ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...) cr_assert((a) <= (b), ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b), ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...) cr_assert((a) >= (b), ##__VA_ARGS__)
#define cr_assert_null(a, ...) cr_assert((a) == NULL, ##__VA_ARGS__)
#define cr_assert_not_null(a, ...) cr_assert((a) != NULL, ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(!strcmp(a, b), ##__VA_ARGS__)
#define cr_assert_fail(...) tsan_stop(1, TSAN_WHERE, "failed", " " __VA_ARGS__)
#define cr_skip_test(...) tsan_stop(TSAN_SKIPPED, TSAN_WHERE, "skipped", " " __VA_ARGS__)
#define cr_log_info(...) ((void)0)

static inline bool
tsan_wanted(const struct tsan_test *t, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(t->name, argv[i]))
			return true;
	return argc < 2;
}

__attribute__((weak)) int
main(int argc, char **argv)
{
	int status, passed = 0, skipped = 0, failed = 0;

	for (struct tsan_test *t = tsan_tests; t; t = t->next) {
		pid_t child;

		if (!tsan_wanted(t, argc, argv))
			continue;
		child = fork();
		if (!child) {
			t->run();
			exit(0); /* not _exit: the sanitizer's status is given at exit */
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		if (WIFEXITED(status) && !WEXITSTATUS(status)) {
			passed++;
		} else if (WIFEXITED(status) && WEXITSTATUS(status) == TSAN_SKIPPED) {
			skipped++;
		} else {
			failed++;
			fprintf(stderr, "FAIL %s: status 0x%x\n", t->name, (unsigned)status);
		}
	}
	fprintf(stderr, "%d passed, %d skipped, %d failed\n", passed, skipped, failed);
	return failed || !passed;
}

#endif
