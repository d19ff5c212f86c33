/*
 * report.h - how oriel_perf shows results: a table while it measures, a short
 * matrix, JSON; and progress on a terminal.
 */
#ifndef TOOLS_PERF_REPORT_H
#define TOOLS_PERF_REPORT_H

#include "tools/perf/perf.h"

#include <errno.h>
#include <unistd.h>

/* "64K" where that is exact. */
static inline const char *
report_size(size_t bytes, char text[32])
{
	static const char units[] = "KMG";
	int unit = -1;

	while (unit < 2 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, unit < 0 ? "%zu" : "%zu%c", bytes, unit < 0 ? ' ' : units[unit]);
	return text;
}

/* The result's number in the test's unit. */
static inline double
report_value(const struct perf_result *r, double seconds)
{
	switch (r->test->unit) {
	case PERF_GB:
		return 1e-9 * (double)r->bytes / seconds;
	case PERF_MOPS:
		return 1e-6 / seconds;
	default:
		return 1e6 * seconds;
	}
}

static const char *const report_units[] = {
	[PERF_US] = "us", [PERF_GB] = "GB/s", [PERF_MOPS] = "M/s"
};

static inline void
report_test(const struct perf *p, const struct perf_test *t)
{
	const char *unit = report_units[t->unit];

	printf("\n# %s: %s\n# %s memory, %d ranks%s\n", t->name, t->what,
	       p->opt.user_memory ? "user" : "pool", p->n_ranks,
	       p->opt.check ? ", data verified" : "");
	printf("%12s %12s %12s %12s\n", t->max ? "bytes" : "", "iterations", "median", "best");
	printf("%12s %12s %12s %12s\n", "", "", unit, unit);
}

static inline void
report_line(const struct perf_result *r)
{
	char text[32];

	printf("%12s %12zu %12.4g %12.4g\n", r->test->max ? report_size(r->bytes, text) : "",
	       r->iters, report_value(r, r->median_s), report_value(r, r->best_s));
	fflush(stdout);
}

/* One line a test, one column a size; a test without sizes has only its first column. */
static inline void
report_matrix(const struct perf_result *results, size_t n, const size_t *sizes, size_t n_sizes)
{
	char text[32];

	printf("%-16s", "");
	for (size_t i = 0; i < n_sizes; i++)
		printf(" %9s", report_size(sizes[i], text));
	printf("\n");
	for (size_t i = 0; i < n;) {
		const struct perf_test *t = results[i].test;

		printf("%-16s", t->name);
		for (size_t k = 0; k < n_sizes; k++) {
			bool here = i < n && results[i].test == t &&
			            (results[i].bytes == sizes[k] || !t->max);

			if (here)
				printf(" %9.3g", report_value(&results[i], results[i].median_s));
			else
				printf(" %9s", "");
			i += here;
		}
		printf("  %s\n", report_units[t->unit]);
	}
}

/* Writes to FILE, "-" being stdout. 0, or -1 after a line on stderr. */
static inline int
report_json(const struct perf *p, const struct perf_result *results, size_t n)
{
	bool to_stdout = !strcmp(p->opt.json, "-");
	FILE *f = to_stdout ? stdout : fopen(p->opt.json, "w");
	int err = !f;

	if (f) {
		fprintf(f, "[");
		for (size_t i = 0; i < n; i++)
			fprintf(f,
			        "%s\n{\"test\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"memory\": "
			        "\"%s\", \"iterations\": %zu, \"repeats\": %zu, \"median_us\": "
			        "%.6g, "
			        "\"best_us\": %.6g, \"value\": %.6g, \"unit\": \"%s\"}",
			        i ? "," : "", results[i].test->name, results[i].bytes, p->n_ranks,
			        p->opt.user_memory ? "user" : "pool", results[i].iters,
			        p->opt.repeats, 1e6 * results[i].median_s, 1e6 * results[i].best_s,
			        report_value(&results[i], results[i].median_s),
			        report_units[results[i].test->unit]);
		fprintf(f, "\n]\n");
		err = ferror(f) || (to_stdout ? fflush(f) : fclose(f));
	}
	if (err)
		fprintf(stderr, "oriel_perf: cannot write %s: %s\n", p->opt.json, strerror(errno));
	return err ? -1 : 0;
}

/* What is being measured, on a terminal only; text NULL clears it. */
static inline void
report_progress(const struct perf *p, const char *test, size_t bytes)
{
	char text[32];

	if (p->me != 0 || !isatty(STDERR_FILENO))
		return;
	if (test)
		fprintf(stderr, "\r\033[K%s %s ...", test, report_size(bytes, text));
	else
		fprintf(stderr, "\r\033[K");
	fflush(stderr);
}

#endif
