/*
 * explain.c - oriel_explain: it says what the calls do (their flight recorder
 * is asked), the same on all ranks, and names every peer with its path.
 *
 * --algorithm=NAMES forces some, as ORIEL_ALGORITHM does. --nodes N --each G: the
 * world is on N nodes of G ranks; N 0: nobody knows how it lies on several.
 */
#include "test/ranks/ranks.h"

#include <dirent.h>

#define LINES 32
#define TEXT 400

static char algorithm[300] = "ORIEL_ALGORITHM=", recorder[300] = "ORIEL_RECORDER=";

struct lines {
	int n;
	char text[LINES][TEXT];
};

static void
keep(void *arg, const char *text)
{
	struct lines *l = arg;

	if (l->n < LINES)
		snprintf(l->text[l->n++], TEXT, "%s", text);
}

/* What follows "key: " in the first line that begins so, or NULL. */
static const char *
value(const struct lines *l, const char *key)
{
	size_t n = strlen(key);

	for (int i = 0; i < l->n; i++)
		if (!strncmp(l->text[i], key, n) && l->text[i][n] == ':')
			return l->text[i] + n + 2;
	return NULL;
}

static bool
explained(oriel_comm *comm, const char *name, size_t len, struct lines *l)
{
	static const char *const keys[] = { "algorithm", "because", "chunks", "cost" };

	l->n = 0;
	if (!OK(oriel_explain(comm, name, len, keep, l)))
		return false;
	for (size_t i = 0; i < 4; i++)
		if (!NEED(value(l, keys[i]) != NULL, "%s of %zu: no line \"%s\"", name, len,
		          keys[i]))
			return false;
	return CHECK(!strncmp(l->text[0], name, strlen(name)), "the first line is \"%s\"",
	             l->text[0]);
}

/* Every line but those about this rank's own peers is the same everywhere. */
static bool
all_agree(oriel_comm *comm, const struct lines *l)
{
	int n = oriel_comm_size(comm), me = oriel_comm_rank(comm);
	char mine[4 * TEXT] = "", *all = malloc((size_t)n * sizeof(mine));
	size_t len = 0;
	bool good = NEED(all != NULL, "no memory");

	for (int i = 0; i < l->n && len < sizeof(mine); i++)
		if (strncmp(l->text[i], "path", 4))
			len += (size_t)snprintf(mine + len, sizeof(mine) - len, "%s\n", l->text[i]);
	good = good && OK(oriel_allgather(comm, mine, all, sizeof(mine)));
	for (int i = 0; i < n && good; i++)
		good = CHECK(!strcmp(all + (size_t)i * sizeof(mine), mine),
		             "rank %d and rank %d say\n%s\n%s", me, i, mine,
		             all + (size_t)i * sizeof(mine));
	free(all);
	return good;
}

/* How often the list "1, 3..5" of a path's line names a rank. */
static int
times_listed(const char *list, int rank)
{
	int n = 0;

	while (*list && *list != ':') {
		char *end;
		long low = strtol(list, &end, 10), high = low;

		if (!strncmp(end, "..", 2))
			high = strtol(end + 2, &end, 10);
		n += rank >= low && rank <= high;
		list = end + strspn(end, ", ");
		if (end == list && *list != ':')
			return -1;
	}
	return n;
}

/* The ring puts to the next rank, Bruck of radix P to all: one line names each, with its path. */
static bool
names_peers(oriel_comm *comm, const struct lines *l, bool ring)
{
	int n = oriel_comm_size(comm), me = oriel_comm_rank(comm);
	bool good = true;

	for (int r = 0; r < n && good; r++) {
		int times = 0, wanted = r != me && (!ring || r == (me + 1) % n);
		char path[TEXT];

		good = OK(oriel_path(comm, r, 0, path, sizeof(path)));
		for (int i = 0; i < l->n && good; i++) {
			const char *t = l->text[i];
			int here = strncmp(t, "path to ", 8) ? 0 : times_listed(t + 8, r);

			good = CHECK(here >= 0, "no list of ranks: \"%s\"", t) &&
			       CHECK(!here || strstr(t, path), "\"%s\" has not \"%s\"", t, path);
			times += here;
		}
		good = good && CHECK(times == wanted, "rank %d is listed %d times, expected %d", r,
		                     times, wanted);
	}
	return good;
}

/* This rank's own recorder: the only file in its folder. */
static bool
last_call(struct lines *l)
{
	const char *folder = recorder + strlen("ORIEL_RECORDER=");
	struct dirent *e;
	char file[600] = "";
	DIR *d = opendir(folder);

	while (d && (e = readdir(d)))
		if (strstr(e->d_name, ".rec"))
			snprintf(file, sizeof(file), "%s/%s", folder, e->d_name);
	if (d)
		closedir(d);
	l->n = 0;
	return OK(oriel_recorder_read(file, keep, l));
}

/* The call that has just run is the one that was explained. */
static bool
tells_what_runs(struct ranks *r, oriel_comm *comm, size_t len)
{
	struct lines said, seen;
	char *out = calloc((size_t)oriel_comm_size(comm), len ? len : 1);
	bool good = explained(comm, "allgather", len, &said);
	char name[64] = "";

	if (!r->threads && good && oriel_comm_size(comm) > 1) {
		int calls = 0;

		good = OK(oriel_allgather(comm, NULL, out, len)) && last_call(&seen);
		sscanf(value(&said, "algorithm"), "%63[^: ]", name);
		for (int i = 0; i < seen.n && !calls; i++)
			if (strstr(seen.text[i], "call ")) {
				calls++;
				good &= CHECK(strstr(seen.text[i], name), "explained: %s, run: %s",
				              name, seen.text[i]);
			}
		good &= CHECK(calls == 1, "the recorder names no call");
	}
	free(out);
	return good;
}

static bool
wrong_questions(struct ranks *r)
{
	static const char *const bad[] = { "",           "allgathe", "allgatherr",
		                           "vallgather", "bcastv",   "barrierv",
		                           "v",          "_list",    "allgather_list" };
	struct lines l = { 0 };

	FAILS(ORIEL_EHANDLE, oriel_explain(NULL, "allgather", 8, keep, &l));
	FAILS(ORIEL_EINVAL, oriel_explain(r->world, NULL, 8, keep, &l));
	FAILS(ORIEL_EINVAL, oriel_explain(r->world, "allgather", 8, NULL, &l));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		FAILS(ORIEL_EINVAL, oriel_explain(r->world, bad[i], 8, keep, &l));
		CHECK(strstr(oriel_detail(), "reduce_scatter"), "the names are not told: %s",
		      oriel_detail());
	}
	FAILS(ORIEL_EINVAL, oriel_explain_ranks(r->ctx, "allgather", 8, 0, 0, keep, &l));
	FAILS(ORIEL_EINVAL, oriel_explain_ranks(r->ctx, "allgather", 8, 6, 4, keep, &l));
	FAILS(ORIEL_EINVAL, oriel_explain_ranks(r->ctx, "allgather", 8, 6, -1, keep, &l));
	FAILS(ORIEL_EHANDLE, oriel_explain_ranks(NULL, "allgather", 8, 6, 3, keep, &l));
	return CHECK(!l.n, "an error, and a line \"%s\"", l.text[0]);
}

/* Ranks that are not there: as for a job of that size, but without paths. */
static bool
ranks_that_are_not_there(struct ranks *r)
{
	struct lines l = { 0 };

	if (!OK(oriel_explain_ranks(r->ctx, "allgatherv", 1 << 20, 98304, 8, keep, &l)))
		return false;
	CHECK(strstr(l.text[0], "98304 ranks on 12288 nodes of 8"), "%s", l.text[0]);
	CHECK(value(&l, "algorithm") && value(&l, "because"), "no algorithm");
	for (int i = 0; i < l.n; i++)
		CHECK(strncmp(l.text[i], "path", 4), "a path to nobody: %s", l.text[i]);
	return true;
}

static void
count_rows(void *arg, const struct oriel_algorithm *a)
{
	int *seen = arg;
	bool bruck = !strcmp(a->name, "bruck");

	seen[0] += bruck;
	seen[1] += !strcmp(a->name, "ring");
	CHECK(!bruck || (a->min_arg == 2 && a->max_arg >= 2), "bruck:%d to %d", a->min_arg,
	      a->max_arg);
	CHECK(!a->unfit || (!bruck && strcmp(a->name, "ring")), "%s: %s", a->name, a->unfit);
}

static bool
lists_algorithms(struct ranks *r)
{
	int seen[2] = { 0, 0 }, node = -1;

	FAILS(ORIEL_EINVAL, oriel_algorithms(r->world, "allgatherv", &node, count_rows, seen));
	FAILS(ORIEL_EINVAL, oriel_algorithms(r->world, "allgather", &node, NULL, seen));
	return OK(oriel_algorithms(r->world, "allgather", &node, count_rows, seen)) &&
	       CHECK(seen[0] == 1 && seen[1] == 1, "bruck %d times, ring %d times", seen[0],
	             seen[1]) &&
	       CHECK(node >= 0 && node <= r->size, "%d ranks a node", node);
}

static bool
lies_on_nodes(const char *text)
{
	int nodes = (int)ranks_number("--nodes", 0);
	char want[64] = "not known";

	if (nodes)
		snprintf(want, sizeof(want), "%d nodes of %d", nodes,
		         (int)ranks_number("--each", 0));
	return CHECK(strstr(text, want), "\"%s\" is not in \"%s\"", want, text);
}

static int
run(struct ranks *r)
{
	static const size_t sizes[] = { 0, 8, 4096, 100000, 1 << 20 };
	const char *forced = strchr(algorithm, '=') + 1;
	struct lines *l = calloc(1, sizeof(*l));
	oriel_comm *sub;

	if (!NEED(l != NULL, "no memory") || !wrong_questions(r) || !ranks_that_are_not_there(r) ||
	    !lists_algorithms(r))
		return 1;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (!tells_what_runs(r, r->world, sizes[i]) ||
		    !explained(r->world, "allgather", sizes[i], l) || !all_agree(r->world, l))
			return 1;
		if (forced[0] && (!CHECK(strstr(value(l, "because"), forced), "because: %s",
		                         value(l, "because")) ||
		                  !names_peers(r->world, l, strstr(forced, "ring") != NULL)))
			return 1;
	}
	if (ranks_flag("--nodes") && !lies_on_nodes(l->text[0]))
		return 1;
	if (!explained(r->world, "barrier", 0, l) || !all_agree(r->world, l) ||
	    !explained(r->world, "allgatherv_list", 9, l) || !all_agree(r->world, l))
		return 1;
	if (!OK(oriel_comm_split(r->world, r->rank % 2, 0, &sub)))
		return 1;
	ranks_watch(sub);
	if (!tells_what_runs(r, sub, 8) || !explained(sub, "allgather", 8, l) || !all_agree(sub, l))
		return 1;
	ranks_unwatch(sub);
	free(l);
	return !OK(oriel_comm_free(sub));
}

static void
remove_recorder(const char *folder)
{
	struct dirent *e;
	DIR *d = opendir(folder);

	while (d && (e = readdir(d)))
		if (strstr(e->d_name, ".rec"))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(folder);
}

int
main(int argc, char **argv)
{
	char folder[] = "/tmp/oriel-explain-XXXXXX";
	const char *knobs[] = { algorithm, recorder, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };
	int status;

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--algorithm=", 12))
			snprintf(algorithm, sizeof(algorithm), "ORIEL_ALGORITHM=%.200s",
			         argv[i] + 12);
	if (!mkdtemp(folder)) {
		perror(folder);
		return 1;
	}
	snprintf(recorder, sizeof(recorder), "ORIEL_RECORDER=%s", folder);
	status = ranks_main(argc, argv, run, &opts);
	remove_recorder(folder);
	return status;
}
