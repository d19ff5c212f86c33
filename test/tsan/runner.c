/*
 * runner.c - runs Criterion's tests where Criterion's own sandbox cannot start: under the thread
 * sanitizer, whose memory layout leaves no room for it.
 *
 * The tests, the assertion macros and their texts are Criterion's. This file's main(), and the few
 * functions through which a test reports, come before the library's. Each test runs in a forked
 * process, one at a time. Suites, fixtures, disabled tests, expected signals and exit statuses, and
 * parameters work as in Criterion.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum state { RUNNING, DONE, SKIPPED };

/* Lies in memory that the forked test shares with us. */
static struct result {
	enum state state;
	int failures;
	char why[512]; /* of a skip */
} * result;

static struct criterion_test *current;
static void *parameter;
static int tested, passing, failing, crashing;

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

static const struct criterion_suite *
suite_of(const struct criterion_test *t)
{
	for (struct criterion_suite **s = __start_cr_sts; s != __stop_cr_sts; s++)
		if (*s && !strcmp((*s)->name, t->category))
			return *s;
	return NULL;
}

/* ---- what Criterion's macros call ---- */

static void
fixture(bool setup)
{
	const struct criterion_suite *s = suite_of(current);
	void (*of_suite)(void) = NULL;
	void (*of_test)(void) = setup ? current->data->init : current->data->fini;

	if (s && s->data)
		of_suite = setup ? s->data->init : s->data->fini;
	if (setup && of_suite)
		of_suite();
	if (of_test)
		of_test();
	if (!setup && of_suite)
		of_suite();
}

void
criterion_internal_test_setup(void)
{
	fixture(true);
}

void
criterion_internal_test_main(void (*fn)(void))
{
	if (current->data->kind_ == CR_TEST_PARAMETERIZED)
		((void (*)(void *))fn)(parameter);
	else
		fn();
}

void
criterion_internal_test_teardown(void)
{
	fixture(false);
	result->state = DONE;
}

void
criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	__atomic_add_fetch(&result->failures, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "[----] %s:%u: %s\n", stats->file, stats->line,
	        stats->message ? stats->message : "");
}

/* The same for the assertions of criterion/new/assert.h; its first child is the expression. */
void
cri_assert_node_send(const char *file, size_t line, struct cri_assert_node *tree)
{
	struct criterion_assert_stats stats = { .file = file, .line = (unsigned)line };

	stats.message = tree->message;
	if (!stats.message && tree->nchild)
		stats.message = tree->children[0].repr;
	criterion_send_assert(&stats);
}

void
cri_asserts_passed_incr(void)
{
}

void
criterion_abort_test(void)
{
	int none = 0;

	/* The assertion has mostly been counted when it was sent. */
	__atomic_compare_exchange_n(&result->failures, &none, 1, false, __ATOMIC_RELAXED,
	                            __ATOMIC_RELAXED);
	result->state = DONE;
	exit(0);
}

void
criterion_continue_test(void)
{
}

void
criterion_skip_test(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(result->why, sizeof(result->why), format ? format : "", ap);
	va_end(ap);
	result->state = SKIPPED;
	exit(0);
}

void
criterion_test_die(const char *msg, ...)
{
	va_list ap;

	va_start(ap, msg);
	vfprintf(stderr, msg, ap);
	va_end(ap);
	criterion_abort_test();
}

/* ---- the run ---- */

/* The test's own wish, else its suite's. */
static int
wish(int of_test, int of_suite)
{
	return of_test ? of_test : of_suite;
}

static void
judge(const struct criterion_test *t, int status)
{
	const struct criterion_suite *s = suite_of(t);
	int signal = wish(t->data->signal, s && s->data ? s->data->signal : 0);
	int code = wish(t->data->exit_code, s && s->data ? s->data->exit_code : 0);
	bool good;

	if (result->state == SKIPPED) {
		fprintf(stderr, "[SKIP] %s::%s: %s\n", t->category, t->name, result->why);
		return;
	}
	tested++;
	if (signal)
		good = WIFSIGNALED(status) && WTERMSIG(status) == signal;
	else
		good = WIFEXITED(status) && WEXITSTATUS(status) == code &&
		       (code || result->state == DONE);
	if (good && !result->failures) {
		passing++;
		return;
	}
	failing++;
	crashing += !signal && WIFSIGNALED(status);
	fprintf(stderr, "[FAIL] %s::%s: wait status 0x%x, %d failed assertions%s\n", t->category,
	        t->name, status, result->failures,
	        result->state == RUNNING ? ", it did not reach its end" : "");
}

static void
run_one(struct criterion_test *t)
{
	int status;
	pid_t pid;

	*result = (struct result){ RUNNING, 0, "" };
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (!pid) {
		current = t;
		t->test();
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid) {
		perror("waitpid");
		exit(1);
	}
	judge(t, status);
}

static void
run_each_parameter(struct criterion_test *t)
{
	struct criterion_test_params p = t->data->param_();

	for (size_t i = 0; i < p.length; i++) {
		parameter = (char *)p.params + i * p.size;
		run_one(t);
	}
	if (p.cleanup)
		p.cleanup(&p);
}

int
main(void)
{
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	              0);
	if (result == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (struct criterion_test **t = __start_cr_tst; t != __stop_cr_tst; t++) {
		const struct criterion_suite *s;

		if (!*t)
			continue;
		s = suite_of(*t);
		if ((*t)->data->disabled || (s && s->data && s->data->disabled))
			fprintf(stderr, "[SKIP] %s::%s: disabled\n", (*t)->category, (*t)->name);
		else if ((*t)->data->kind_ == CR_TEST_PARAMETERIZED)
			run_each_parameter(*t);
		else
			run_one(*t);
	}
	fprintf(stderr,
	        "[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: %d \n",
	        tested, passing, failing, crashing);
	return failing ? 1 : 0;
}
