/*
 * tune.c - oriel_perf --tune: what it writes is read again, and its rules are
 * what holds on such a job, for each size, and on no other job.
 *
 * Starts jobs of its own.
 */
#include "test/ranks/jobs.h"

#define LONGEST 4096
#ifdef HAVE_UCX
#define BETWEEN_NODES 1
#else
#define BETWEEN_NODES 0
#endif

struct answer {
	char because[LONGEST];
};

static void
keep(void *arg, const char *text)
{
	struct answer *a = arg;

	if (!strncmp(text, "because: ", 9))
		snprintf(a->because, sizeof(a->because), "%s", text + 9);
}

/* Its exit status; what it printed is in said. */
static int
tune(const char *file, int ranks, int split, const char *more, char said[LONGEST])
{
	char command[1024];
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command),
	         "exec env ORIEL_NODE_SPLIT=%d %s/tools/orielrun -n %d %s/tools/oriel_perf --tune "
	         "%s --short --iters 4 --max 16K %s 2>&1",
	         split, jobs_build(), ranks, jobs_build(), file, more);
	f = popen(command, "r");
	if (!CHECK(f != NULL, "cannot start %s", command))
		return -1;
	n = fread(said, 1, LONGEST - 1, f);
	said[n] = 0;
	return pclose(f);
}

static const char *const names[] = { "barrier",        "allgather", "alltoall", "bcast",
	                             "gather",         "scatter",   "reduce",   "allreduce",
	                             "reduce_scatter", "scan",      "exscan" };
#define N_NAMES (sizeof(names) / sizeof(names[0]))
static const char several_names[] = "barrier,allgather,allreduce";

/* Is name a word of the list? */
static bool
listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

static bool
decides(oriel_ctx *ctx, const char *file, const char *name, size_t len, int ranks, int node,
        bool wanted)
{
	struct answer a = { "" };

	return OK(oriel_explain_ranks(ctx, name, len, ranks, node, keep, &a)) &&
	       CHECK((strstr(a.because, file) != NULL) == wanted,
	             "%s of %zu on %d ranks, %d a node: %s", name, len, ranks, node, a.because);
}

/* several: each rank was on a node of its own. */
static bool
rules_hold(struct ranks *r, const char *file, int ranks, bool several)
{
	static const size_t sizes[] = { 0, 1, 2, 8, 9, 500, 4096, 30000, 1 << 20, 1 << 30 };
	char tuning[300];
	const char *knobs[] = { tuning, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };
	oriel_ctx *ctx;
	bool good = true;

	(void)r;
	snprintf(tuning, sizeof(tuning), "ORIEL_TUNING=%s", file);
	if (!OK(oriel_init(&opts, &ctx)))
		return false;
	for (size_t n = 0; n < N_NAMES; n++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			bool here = !several || listed(several_names, names[n]);

			good &= decides(ctx, file, names[n], sizes[i], ranks, several ? 1 : ranks,
			                here) &&
			        decides(ctx, file, names[n], sizes[i], ranks, several ? ranks : 0,
			                false) &&
			        decides(ctx, file, names[n], sizes[i], ranks + 1, 0, false);
		}
	return OK(oriel_fini(ctx)) && good;
}

static int
run(struct ranks *r)
{
	char folder[] = "/tmp/oriel-tune-XXXXXX", file[64], said[LONGEST];
	char only[64];
	bool good = true;

	snprintf(only, sizeof(only), "--test %s", several_names);
	if (r->size != 1 || r->threads)
		return ranks_skip("it wants one process, which starts others");
	jobs_leave_launcher();
	if (!NEED(mkdtemp(folder) != NULL, "no folder"))
		return 1;
	snprintf(file, sizeof(file), "%s/rules", folder);
	for (int several = 0; several <= BETWEEN_NODES && good; several++)
		good = CHECK(tune(file, 3, several, several ? only : "", said) == 0,
		             "it fails:\n%.700s", said) &&
		       CHECK(strstr(said, " rules"), "it says\n%.700s", said) &&
		       rules_hold(r, file, 3, several);
	good = good && CHECK(tune(file, 2, 0, "--test barrier", said) == 0, "%.700s", said) &&
	       CHECK(strstr(said, ": 1 rules"), "it says\n%.700s", said);
	CHECK(tune(file, 2, 0, "--test barrier,put", said) != 0 &&
	              strstr(said, "no collective is named \"put\""),
	      "it says\n%.700s", said);
	CHECK(tune("/nowhere/rules", 2, 0, "", said) != 0 &&
	              strstr(said, "cannot write /nowhere/rules: No such file"),
	      "it says\n%.700s", said);
	unlink(file);
	rmdir(folder);
	return !good;
}

RANKS_MAIN(run)
