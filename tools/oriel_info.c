/*
 * oriel_info.c - tells what this build of Oriel is and what it would do here:
 * version, transports and why each is on or off, every knob; started as
 * several ranks, also which path each rank takes to each other rank. With
 * --explain it tells which algorithm a collective would use, and why; with
 * --recorder it reads the flight recorder of a rank that hangs or is dead.
 */
#include "oriel.h"
#include "tools/size.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_TEXT 160   /* characters of one path's explanation that are kept */
#define REPORT_LEN 8192 /* characters of one rank's paths */

static const char usage[] =
        "usage: oriel_info [--explain COLLECTIVE SIZE [--ranks N [--node G]] |\n"
        "                   --recorder FILE | --version | --help]\n"
        "  (nothing)        version, transports, knobs; with several ranks, their paths:\n"
        "                   orielrun -n 4 oriel_info\n"
        "  --explain COLLECTIVE SIZE\n"
        "                   the algorithm of such a call, and why: oriel_info --explain allgather\n"
        "                   64KiB; SIZE is one rank's block, or the vector (bcast, reduce, scan)\n"
        "  --ranks N        on N ranks that need not be there, on one node\n"
        "  --node G         every G of them on a node; 0: in no such order\n"
        "  --recorder FILE  what the flight recorder in FILE says: a file in $ORIEL_RECORDER,\n"
        "                   or /proc/PID/fd/N of a rank that hangs\n"
        "  --version        the library's version\n"
        "  --help           this text\n";

static const char *const kinds[] = { "pool memory", "ordinary memory" };

/* One rank's paths, built where it runs and printed by rank 0. */
struct report {
	size_t len;
	bool full;
	char text[REPORT_LEN];
};

static void
print_line(void *arg, const char *text)
{
	(void)arg;
	puts(text);
}

static int
failed(const char *what, int err)
{
	fprintf(stderr, "oriel_info: %s: %s: %s\n", what, oriel_strerror(err), oriel_detail());
	return 1;
}

static void __attribute__((format(printf, 2, 3))) add(struct report *r, const char *fmt, ...)
{
	static const char more[] = "  ... (more than fits)\n";
	size_t room = sizeof(r->text) - sizeof(more) - r->len;
	va_list ap;
	int n;

	if (r->full)
		return;
	va_start(ap, fmt);
	n = vsnprintf(r->text + r->len, room, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < room) {
		r->len += (size_t)n;
		return;
	}
	memcpy(r->text + r->len, more, sizeof(more));
	r->full = true;
}

/* Lines such as "rank 0 -> 1..3, pool memory: direct: ..."; equal neighbours share one. */
static int
describe_paths(oriel_comm *world, struct report *r)
{
	int me = oriel_comm_rank(world), n = oriel_comm_size(world);

	for (int kind = 0; kind < 2; kind++) {
		char text[2][PATH_TEXT];
		int first = 0;

		for (int to = 0; to <= n; to++) {
			int len = to < n ? oriel_path(world, to, kind, text[1], PATH_TEXT) : 0;

			if (len < 0)
				return len;
			if (to > 0 && (to == n || strcmp(text[0], text[1]))) {
				add(r, "rank %d -> %d", me, first);
				if (first < to - 1)
					add(r, "..%d", to - 1);
				add(r, ", %s: %s\n", kinds[kind], text[0]);
				first = to;
			}
			memcpy(text[0], text[1], PATH_TEXT);
		}
	}
	return 0;
}

/* Collective; rank 0 prints. */
static int
print_paths(oriel_comm *world)
{
	int n = oriel_comm_size(world), err;
	struct report *mine = calloc(1, sizeof(*mine));
	char *all = malloc((size_t)n * REPORT_LEN);

	if (!mine || !all) {
		fprintf(stderr, "oriel_info: no memory for the paths of %d ranks\n", n);
		free(mine);
		free(all);
		return ORIEL_ENOMEM;
	}
	err = describe_paths(world, mine);
	if (!err)
		err = oriel_allgather(world, mine->text, all, REPORT_LEN);
	for (int r = 0; r < n && !err && oriel_comm_rank(world) == 0; r++)
		fputs(all + (size_t)r * REPORT_LEN, stdout);
	free(mine);
	free(all);
	return err;
}

static int
info(void)
{
	oriel_ctx *ctx;
	oriel_comm *world;
	int err = oriel_init(NULL, &ctx);

	if (err)
		return failed("init", err);
	world = oriel_world(ctx);
	if (oriel_comm_rank(world) == 0)
		err = oriel_info(ctx, print_line, NULL);
	if (!err)
		err = print_paths(world);
	if (err) {
		failed("info", err);
		/* The other ranks must not wait for this one's paths. */
		oriel_comm_abort(world);
		return 1;
	}
	err = oriel_fini(ctx);
	return err ? failed("fini", err) : 0;
}

/* What --explain asks. */
struct question {
	const char *name;
	size_t bytes;
	int ranks; /* 0: those that are here */
	int node;  /* -1: all on one */
};

/* A whole number from least on; -1 after a line on stderr. */
static int
number(const char *option, const char *text, int least)
{
	size_t n;

	if (text && text[0] && strspn(text, "0123456789") == strlen(text) && !tool_size(text, &n) &&
	    n >= (size_t)least && n <= INT_MAX)
		return (int)n;
	fprintf(stderr, "oriel_info: %s wants a number from %d on\n", option, least);
	return -1;
}

/* args: what follows --explain, NULL at its end. Nonzero after a line on stderr. */
static int
parse_question(char **args, struct question *q)
{
	*q = (struct question){ .node = -1 };
	if (!args[0] || !args[1] || tool_size(args[1], &q->bytes)) {
		fprintf(stderr, "oriel_info: --explain wants a collective and a size, such as "
		                "allgather 64KiB\n");
		return -1;
	}
	q->name = args[0];
	for (args += 2; *args; args += 2) {
		bool ranks = !strcmp(*args, "--ranks");
		int n;

		if (!ranks && strcmp(*args, "--node")) {
			fprintf(stderr, "oriel_info: unknown option %s; see oriel_info --help\n",
			        *args);
			return -1;
		}
		n = number(*args, args[1], ranks);
		if (n < 0)
			return -1;
		*(ranks ? &q->ranks : &q->node) = n;
	}
	if (q->node >= 0 && !q->ranks) {
		fprintf(stderr, "oriel_info: --node goes with --ranks\n");
		return -1;
	}
	return 0;
}

/* Rank 0 prints. */
static int
explain(const struct question *q)
{
	oriel_ctx *ctx;
	oriel_comm *world;
	int err = oriel_init(NULL, &ctx);

	if (err)
		return failed("init", err);
	world = oriel_world(ctx);
	if (oriel_comm_rank(world) == 0) {
		if (q->ranks)
			err = oriel_explain_ranks(ctx, q->name, q->bytes, q->ranks,
			                          q->node < 0 ? q->ranks : q->node, print_line,
			                          NULL);
		else
			err = oriel_explain(world, q->name, q->bytes, print_line, NULL);
	}
	if (err) {
		failed("explain", err);
		oriel_comm_abort(world);
		return 1;
	}
	err = oriel_fini(ctx);
	return err ? failed("fini", err) : 0;
}

static int
recorder(const char *file)
{
	int err = oriel_recorder_read(file, print_line, NULL);

	return err ? failed(file, err) : 0;
}

int
main(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : NULL;
	struct question q;
	int err;

	if (!option) {
		err = info();
	} else if (!strcmp(option, "--explain")) {
		if (parse_question(argv + 2, &q))
			return 2;
		err = explain(&q);
	} else if (!strcmp(option, "--recorder") && argc == 3) {
		err = recorder(argv[2]);
	} else if (!strcmp(option, "--version") && argc == 2) {
		err = printf("oriel %s\n", oriel_version()) < 0;
	} else if (!strcmp(option, "--help") && argc == 2) {
		err = fputs(usage, stdout) < 0;
	} else if (!strcmp(option, "--recorder")) {
		fprintf(stderr, "oriel_info: --recorder wants one file\n");
		return 2;
	} else {
		bool known = !strcmp(option, "--version") || !strcmp(option, "--help");

		fprintf(stderr, "oriel_info: unknown option %s; see oriel_info --help\n",
		        argv[known ? 2 : 1]);
		return 2;
	}
	if (fflush(stdout)) {
		perror("oriel_info: writing");
		return 1;
	}
	return err;
}
