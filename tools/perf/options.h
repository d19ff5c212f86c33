/*
 * options.h - oriel_perf's command line.
 */
#ifndef TOOLS_PERF_OPTIONS_H
#define TOOLS_PERF_OPTIONS_H

#include "tools/perf/tests.h"
#include "tools/size.h"

static inline void
options_usage(void)
{
	printf("usage: oriel_perf [options]    with several ranks: orielrun -n 2 oriel_perf\n"
	       "  --test LIST      comma-separated; all without it:\n");
	for (size_t i = 0; i < PERF_N_TESTS; i++)
		printf("                     %-14s %s\n", perf_tests[i].name, perf_tests[i].what);
	printf("  --min SIZE       smallest message (1); K, M and G are understood\n"
	       "  --max SIZE       largest message (4M); collectives: of all ranks together\n"
	       "  --iters N        operations in one repeat; without it, as many as fit in 20 ms\n"
	       "  --mem pool|user  windows and local buffers in pool memory or in the user's own\n"
	       "  --check          verify the data of every size, before it is timed\n"
	       "  --json FILE      write the results there too; - is stdout\n"
	       "  --tune FILE      measure all algorithms of the collectives on this job and write\n"
	       "                   rules for ORIEL_TUNING; --test (of collectives), --min, --max,\n"
	       "                   --iters and --short hold\n"
	       "  --short          four sizes and a small table, in a few seconds\n"
	       "  --help           this text\n"
	       "Each number is a median over repeats, after warming up; point-to-point tests are\n"
	       "between ranks 0 and 1 (a single rank: with itself), collectives between all.\n");
}

/* Is this test in the list? No list: all are, or those of --short. */
static inline bool
options_selects(const struct perf_options *o, const struct perf_test *t)
{
	return o->tests ? perf_listed(o->tests, t->name) : !o->brief || t->brief;
}

static inline int
options_check_tests(const char *list)
{
	for (const char *at = list; at;) {
		const char *comma = strchr(at, ',');
		size_t n = comma ? (size_t)(comma - at) : strlen(at), i = 0;

		while (i < PERF_N_TESTS &&
		       (strncmp(at, perf_tests[i].name, n) || perf_tests[i].name[n]))
			i++;
		if (i == PERF_N_TESTS) {
			fprintf(stderr, "oriel_perf: --test: no test is named \"%.*s\"; there are",
			        (int)n, at);
			for (i = 0; i < PERF_N_TESTS; i++)
				fprintf(stderr, "%s %s", i ? "," : "", perf_tests[i].name);
			fprintf(stderr, "\n");
			return -1;
		}
		at = comma ? comma + 1 : NULL;
	}
	return 0;
}

/* Returns how many words after the name it took, or -1 after a line on stderr. */
static inline int
options_one(struct perf_options *o, const char *name, const char *value)
{
	const struct {
		const char *name;
		const char **text;
		size_t *size;
		bool *flag;
	} table[] = {
		{ .name = "--test", .text = &o->tests },  { .name = "--json", .text = &o->json },
		{ .name = "--tune", .text = &o->tune },
		{ .name = "--min", .size = &o->min },     { .name = "--max", .size = &o->max },
		{ .name = "--iters", .size = &o->iters }, { .name = "--check", .flag = &o->check },
		{ .name = "--short", .flag = &o->brief }, { .name = "--help", .flag = &o->help }
	};
	size_t i = 0, n = sizeof(table) / sizeof(table[0]);

	if (!strcmp(name, "--mem")) {
		o->user_memory = value && !strcmp(value, "user");
		if (o->user_memory || (value && !strcmp(value, "pool")))
			return 1;
		fprintf(stderr, "oriel_perf: --mem wants pool or user\n");
		return -1;
	}
	while (i < n && strcmp(name, table[i].name))
		i++;
	if (i == n) {
		fprintf(stderr, "oriel_perf: unknown option %s; see oriel_perf --help\n", name);
		return -1;
	}
	if (table[i].flag) {
		*table[i].flag = true;
		return 0;
	}
	if (!value ||
	    (table[i].size && (tool_size(value, table[i].size) || !*table[i].size))) {
		fprintf(stderr, "oriel_perf: %s wants %s\n", name,
		        table[i].size ? "a number from 1 on, such as 64K" : "a word");
		return -1;
	}
	if (table[i].text)
		*table[i].text = value;
	return 1;
}

static inline int
options_parse(struct perf_options *o, int argc, char **argv)
{
	bool given_max;

	*o = (struct perf_options){ .min = 1, .repeats = 7, .repeat_s = 0.02 };
	for (int i = 1; i < argc; i++) {
		int took = options_one(o, argv[i], argv[i + 1]);

		if (took < 0)
			return -1;
		i += took;
	}
	given_max = o->max != 0;
	if (!given_max)
		o->max = o->brief ? 1 << 20 : 4 << 20;
	if (o->brief) {
		o->repeats = 3;
		o->repeat_s = 0.005;
	}
	if (!given_max && o->min > o->max)
		o->max = o->min;
	if (o->min > o->max) {
		fprintf(stderr, "oriel_perf: --min %zu is more than --max %zu\n", o->min, o->max);
		return -1;
	}
	return o->tests && !o->tune ? options_check_tests(o->tests) : 0;
}

#endif
