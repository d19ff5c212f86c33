/*
 * coll_disagree.c - ranks that do not call the same: another collective, size,
 * root, type, op, or lengths that do not agree, in every form. Somebody finds it
 * (EMISMATCH), all get an error, nobody hangs, no byte outside is written.
 */
#include "test/ranks/calls.h"

#define LIMIT_MS 3000 /* ORIEL_CALL_TIMEOUT: for ranks that wait for one another crosswise */
#define LATER 12      /* calls by which a disagreement is found that leaves no one waiting */

struct trial {
	struct ranks *r;
	struct call c;
	int kind, form;
	const char *what;
	char detail[600];
	int rc;
	unsigned silent, trials; /* found by nobody's EMISMATCH, but by a time limit */
};

static int
call_and_wait(struct trial *t)
{
	oriel_req *req = NULL;
	int rc = call_begin(&t->c, t->kind, t->form, &req), again;

	if (rc || t->form == BLOCKING)
		return rc;
	if (t->form == PERSISTENT)
		rc = oriel_start(req);
	rc = rc ? rc : oriel_req_wait(&req, RANKS_WAIT_NS);
	if (t->form == PERSISTENT && req) {
		snprintf(t->detail, sizeof(t->detail), "%s", oriel_detail());
		again = oriel_req_free(&req);
		CHECK(!again, "oriel_req_free: %d", again);
	}
	return rc;
}

/* The call, and if it is good those after it until an error. */
static void
provoke(struct trial *t)
{
	t->detail[0] = '\0';
	t->rc = call_and_wait(t);
	for (int i = 0; i < LATER && !t->rc; i++) {
		t->detail[0] = '\0';
		t->rc = oriel_barrier(t->c.comm);
	}
	if (!t->detail[0])
		snprintf(t->detail, sizeof(t->detail), "%s", oriel_detail());
}

/* One bit for each kind of end, of all ranks. */
static bool
judge(struct trial *t)
{
	uint64_t ends = t->rc == 0                 ? 1
	                : t->rc == ORIEL_EMISMATCH ? 2
	                : t->rc == ORIEL_EPEER     ? 4
	                : t->rc == ORIEL_ETIMEDOUT ? 8
	                                           : 16;
	struct ranks *r = t->r;

	CHECK(ends != 1, "%s, %s, form %d: %d calls later nobody has noticed", t->what,
	      call_name[t->kind], t->form, LATER);
	CHECK(ends != 16, "%s, %s, form %d: error %d (%s)", t->what, call_name[t->kind], t->form,
	      t->rc, t->detail);
	CHECK(t->rc == 0 || strstr(t->detail, "rank"), "%s: nobody is named: %s", t->what,
	      t->detail);
	CHECK(call_guarded(&t->c), "%s, %s: something is written outside", t->what,
	      call_name[t->kind]);
	if (!OK(oriel_allreduce(r->world, NULL, &ends, 1, ORIEL_UINT64, ORIEL_OR)))
		return false;
	t->trials++;
	t->silent += !(ends & 2);
	return true;
}

static bool
begin_trial(struct trial *t, int kind, int form, size_t len, const char *what)
{
	oriel_comm *comm;

	t->kind = kind;
	t->form = form;
	t->what = what;
	return OK(oriel_comm_dup(t->r->world, &comm)) &&
	       call_make(&t->c, t->r, comm, len, 0, len % 2);
}

static bool
end_trial(struct trial *t)
{
	bool good;

	provoke(t);
	good = judge(t);
	oriel_comm_free(t->c.comm);
	call_free(&t->c, t->r);
	return good && OK(oriel_barrier(t->r->world));
}

/* The odd rank calls something else. */
static bool
other_call(struct trial *t, int kind, int form, bool odd)
{
	int other = (kind + 1 + (int)(t->r->seed % (CALLS - 1))) % CALLS;

	/* Siblings that differ in how their sizes are written only are one collective. */
	while (!strncmp(call_name[other], call_name[kind], 5))
		other = (other + 1) % CALLS;
	if (!begin_trial(t, kind, form, 500, "another collective"))
		return false;
	if (odd)
		t->kind = other;
	return end_trial(t);
}

static bool
other_size(struct trial *t, int kind, int form, bool odd)
{
	static const size_t lens[][2] = { { 8, 9 }, { 40, 3000 }, { 5000, 60000 }, { 20, 60000 } };
	size_t which = (size_t)(kind + form) % 4;

	if (!begin_trial(t, kind, form, lens[which][1], "another size"))
		return false;
	if (odd)
		t->c.len = lens[which][0];
	if (!end_trial(t))
		return false;
	return true;
}

static bool
other_root(struct trial *t, int kind, int form, bool odd)
{
	if (!begin_trial(t, kind, form, 3000, "another root"))
		return false;
	t->c.root = odd ? 1 : 0;
	return end_trial(t);
}

static bool
other_type(struct trial *t, int kind, int form, bool odd)
{
	if (!begin_trial(t, kind, form, 100, "another type"))
		return false;
	if (odd)
		t->c.type = ORIEL_INT8;
	return end_trial(t);
}

static bool
other_op(struct trial *t, int kind, int form, bool odd)
{
	if (!begin_trial(t, kind, form, 100, "another op"))
		return false;
	if (odd)
		t->c.op = ORIEL_MAX;
	return end_trial(t);
}

/* The same lengths, but two blocks have changed places. */
static bool
other_places(struct trial *t, int kind, int form, bool odd)
{
	if (!begin_trial(t, kind, form, 300, "other displacements"))
		return false;
	if (odd) {
		size_t first = t->c.displs[0];

		t->c.displs[0] = t->c.displs[1];
		t->c.displs[1] = first;
	}
	return end_trial(t);
}

/* What this rank says of the block between ranks a and b, and the others do not. */
static size_t *
length_between(struct trial *t, int a, int b, size_t *len)
{
	int me = t->c.rank;

	*len = t->c.len;
	if (me != a && me != b)
		return NULL;
	if (!strncmp(call_name[t->kind], "alltoall", 8))
		return &t->c.both[me == a ? b : a];
	return &t->c.lens[b];
}

/*
 * v forms whose ranks know their own lengths only: rank 1 sends or expects
 * another length than its partner does; whoever finds it names both.
 */
static bool
other_length(struct trial *t, const char *name, int form, size_t one, size_t two)
{
	char both[2][32];
	uint64_t named = 0;
	size_t len, *mine;

	if (!begin_trial(t, call_number(name), form, one > two ? one : two, "another length"))
		return false;
	mine = length_between(t, 0, 1, &len);
	if (mine)
		*mine = t->c.rank == 1 ? one : two;
	provoke(t);
	if (t->rc == ORIEL_EMISMATCH && strstr(t->detail, " sent and "))
		named = 1;
	CHECK(t->rc != 0, "%s of %zu and %zu bytes: nobody has noticed", name, one, two);
	/* Which is sent depends on the collective. A long block comes in parts, and the first is
	 * too much. */
	snprintf(both[0], sizeof(both[0]), " %zu expected", one);
	snprintf(both[1], sizeof(both[1]), " %zu expected", two);
	CHECK(!named || strstr(t->detail, both[0]) || strstr(t->detail, both[1]),
	      "neither %zu nor %zu is expected: %s", one, two, t->detail);
	snprintf(both[0], sizeof(both[0]), " %zu bytes were sent", one);
	snprintf(both[1], sizeof(both[1]), " %zu bytes were sent", two);
	CHECK(!named || strstr(t->detail, both[0]) || strstr(t->detail, both[1]) ||
	              strstr(t->detail, " or more were sent"),
	      "neither %zu nor %zu is sent: %s", one, two, t->detail);
	if (!judge(t) || !OK(oriel_allreduce(t->r->world, NULL, &named, 1, ORIEL_UINT64, ORIEL_OR)))
		return false;
	CHECK(named, "%s, %zu bytes sent and %zu expected: nobody names the lengths; here %d: %s",
	      name, one, two, t->rc, t->detail);
	oriel_comm_free(t->c.comm);
	call_free(&t->c, t->r);
	return OK(oriel_barrier(t->r->world));
}

static bool
lengths(struct trial *t)
{
	static const char *const names[] = { "alltoallv", "gatherv", "scatterv" };
	static const size_t lens[][2] = { { 20, 30 },       { 30, 20 },       { 20, 1500 },
		                          { 1500, 20 },     { 30000, 700 },   { 700, 30000 },
		                          { 60000, 30000 }, { 30000, 60000 }, { 0, 9 } };

	for (size_t n = 0; n < 3; n++)
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
			if (!other_length(t, names[n], (int)(i + n) % 3, lens[i][0], lens[i][1]))
				return false;
	return true;
}

static bool
rooted(int kind)
{
	const char *n = call_name[kind];

	return !strncmp(n, "bcast", 5) || !strncmp(n, "gather", 6) || !strncmp(n, "scatter", 7) ||
	       !strcmp(n, "reduce");
}

static int
run(struct ranks *r)
{
	struct trial t = { .r = r };
	bool odd = r->rank == (int)(r->seed % (uint64_t)r->size);

	if (r->size < 2)
		return ranks_skip("it takes two to disagree");
	for (int kind = 0; kind < CALLS; kind++) {
		int form = (int)((uint64_t)kind + r->seed) % 3;
		bool moves = kind > 0, v = strchr(call_name[kind] + 1, 'v') != NULL;

		if (!other_call(&t, kind, form, odd) ||
		    (moves && !v && !other_size(&t, kind, form, odd)) ||
		    (!strcmp(call_name[kind], "allgatherv") &&
		     !other_places(&t, kind, form, odd)) ||
		    (rooted(kind) && !other_root(&t, kind, form, odd)) ||
		    (kind >= call_number("reduce") &&
		     (!other_type(&t, kind, form, odd) || !other_op(&t, kind, form, odd))))
			return 1;
	}
	if (!lengths(&t))
		return 1;
	if (r->rank == 0)
		ranks_say(NULL, 0, "%u disagreements, %u of them found by a time limit only",
		          t.trials, t.silent);
	return 0;
}

int
main(int argc, char **argv)
{
	char limit[64];
	const char *knobs[] = { limit, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };

	snprintf(limit, sizeof(limit), "ORIEL_CALL_TIMEOUT=%dms", LIMIT_MS);
	return ranks_main(argc, argv, run, &opts);
}
