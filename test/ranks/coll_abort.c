/*
 * coll_abort.c - oriel_comm_abort while requests of several communicators are
 * under way: those of the aborted one end with EABORTED in all forms, wherever
 * they are, and say who it was; the others' complete. Aborts that come twice, at
 * the same time, before a start, and with persistent requests that do not run.
 */
#include "test/ranks/calls.h"

#define N_REQS 5 /* more than calls may be under way: the last ones wait for their slot */
#define N_OTHERS 3

struct fight {
	struct ranks *r;
	struct call a[N_REQS], b[N_OTHERS]; /* of the aborted communicator, and of another */
	int kind;
};

static bool
make(struct fight *f, struct ranks *r, int kind, size_t len)
{
	oriel_comm *a, *b;

	f->r = r;
	f->kind = kind;
	if (!OK(oriel_comm_dup(r->world, &a)) || !OK(oriel_comm_dup(r->world, &b)))
		return false;
	/* Calls that are under way together have buffers of their own. */
	for (int i = 0; i < N_REQS; i++)
		if (!call_make(&f->a[i], r, a, len, 0, (kind + i) % 2))
			return false;
	for (int i = 0; i < N_OTHERS; i++)
		if (!call_make(&f->b[i], r, b, len, 0, false))
			return false;
	ranks_watch(b);
	return true;
}

static void
unmake(struct fight *f)
{
	struct ranks *r = f->r;
	int rc = oriel_comm_free(f->a[0].comm);

	CHECK(rc == ORIEL_EABORTED, "comm_free after an abort: %d (%s)", rc, oriel_detail());
	ranks_unwatch(f->b[0].comm);
	OK(oriel_comm_free(f->b[0].comm));
	/* Whoever is still in a call of a has been told; nobody writes its buffers any more. */
	for (int i = 0; i < N_REQS; i++) {
		CHECK(call_guarded(&f->a[i]), "something is written outside");
		call_free(&f->a[i], r);
	}
	for (int i = 0; i < N_OTHERS; i++) {
		CHECK(call_guarded(&f->b[i]), "something is written outside");
		call_free(&f->b[i], r);
	}
}

/* The code, and the rank that has done it. */
static void
told(int rc, int by, const char *what)
{
	const char *d = oriel_detail();

	CHECK(rc == ORIEL_EABORTED, "%s: expected EABORTED, seen %d (%s)", what, rc, d);
	CHECK(strstr(d, "aborted"), "%s: no word of an abort: %s", what, d);
	CHECK(by < 0 || call_names(d, by), "%s: it was rank %d: %s", what, by, d);
}

/* Each ends by itself; the odd ones by testing. */
static void
end_aborted(oriel_req **req, int n, int by)
{
	for (int i = n - 1; i >= 0; i--) {
		int done = 0, rc = 0;

		if (!req[i])
			continue;
		if (i % 2 == 0)
			rc = oriel_req_wait(&req[i], RANKS_WAIT_NS);
		while (i % 2 && !done && !rc)
			rc = oriel_req_test(&req[i], &done);
		/* A rank may be through a call of its own before the abort. */
		if (rc)
			told(rc, by, "request");
		CHECK(!req[i], "a request that has failed is left");
	}
}

/* The last rank aborts a instead of calling; the others have requests on both. */
static bool
cancel(struct ranks *r, int kind, size_t len)
{
	oriel_req *req_a[N_REQS] = { NULL }, *req_b[N_OTHERS] = { NULL }, *again = NULL;
	int by = r->size - 1, rc = 0;
	struct fight f;

	if (!make(&f, r, kind, len))
		return false;
	if (r->rank == by) {
		OK(oriel_comm_abort(f.a[0].comm));
		told(oriel_barrier(f.a[0].comm), by, "barrier of the rank that aborts");
	}
	/* The abort may come before, between or after these. */
	for (int i = 0; i < N_REQS && r->rank != by && !rc; i++)
		rc = i == 2 ? call_begin(&f.a[i], kind, PERSISTENT, &again)
		            : call_begin(&f.a[i], kind, NONBLOCKING, &req_a[i]);
	if (rc)
		told(rc, by, "a start after the abort");
	for (int i = 0; i < N_OTHERS; i++)
		if (!OK(call_begin(&f.b[i], kind, NONBLOCKING, &req_b[i])))
			return false;
	if (again) {
		rc = oriel_start(again);
		rc = rc ? rc : oriel_req_wait(&again, RANKS_WAIT_NS);
		if (rc)
			told(rc, by, "persistent request");
		OK(oriel_req_free(&again));
	}
	end_aborted(req_a, N_REQS, by);
	/* Whatever was through: nothing gets past the abort, at the latest here. */
	told(oriel_barrier(f.a[0].comm), by, "barrier after the abort");
	if (!OK(oriel_req_waitall(N_OTHERS, req_b, RANKS_WAIT_NS)))
		return false;
	unmake(&f);
	return OK(oriel_barrier(r->world));
}

/* A persistent request that does not run: its start tells, and it can be freed. */
static bool
idle(struct ranks *r)
{
	oriel_req *ran = NULL, *never = NULL;
	struct fight f;

	if (!make(&f, r, call_number("allreduce"), 1000) ||
	    !OK(call_begin(&f.a[0], f.kind, PERSISTENT, &ran)) ||
	    !OK(call_begin(&f.a[1], f.kind, PERSISTENT, &never)) || !OK(oriel_start(ran)) ||
	    !OK(oriel_req_wait(&ran, RANKS_WAIT_NS)) || !OK(oriel_barrier(r->world)))
		return false;
	if (r->rank == 0) {
		OK(oriel_comm_abort(f.a[0].comm));
		OK(oriel_comm_abort(f.a[0].comm)); /* twice is once */
	}
	if (!OK(oriel_barrier(r->world)))
		return false;
	/* Nothing ran, so nothing has failed. */
	OK(oriel_req_wait(&ran, RANKS_WAIT_NS));
	OK(oriel_req_wait(&never, RANKS_WAIT_NS));
	for (int i = 0; i < 2; i++) {
		oriel_req **req = i ? &ran : &never;
		int rc = oriel_start(*req);

		rc = rc ? rc : oriel_req_wait(req, RANKS_WAIT_NS);
		told(rc, 0, "start of a request of before");
		OK(oriel_req_free(req));
	}
	told(call_begin(&f.a[1], f.kind, PERSISTENT, &never), 0, "init");
	CHECK(!never, "a refused init leaves a request");
	unmake(&f);
	return OK(oriel_barrier(r->world));
}

/* All at the same time: each names one of them, it may be itself. */
static bool
all_at_once(struct ranks *r)
{
	struct fight f;
	int named = -1;
	const char *at;

	if (!make(&f, r, call_number("alltoall"), 3000))
		return false;
	if (r->rank % 2 == 0)
		ranks_delay(ranks_random(r, 100000));
	OK(oriel_comm_abort(f.a[0].comm));
	told(call_begin(&f.a[0], f.kind, BLOCKING, NULL), -1, "alltoall");
	at = strstr(oriel_detail(), " aborted");
	for (; at && at > oriel_detail() && at[-1] >= '0' && at[-1] <= '9'; at--)
		;
	named = at ? atoi(at) : -1;
	CHECK(named >= 0 && named < r->size, "nobody is named: %s", oriel_detail());
	unmake(&f);
	return OK(oriel_barrier(r->world));
}

static int
run(struct ranks *r)
{
	static const size_t lens[] = { 8, 3000, 100000 };
	uint64_t rounds = r->rounds ? r->rounds : 1;

	if (r->size < 2)
		return ranks_skip("it takes two to be told");
	for (uint64_t round = 0; round < rounds; round++)
		for (int kind = 0; kind < CALLS; kind++)
			if (!cancel(r, kind, lens[(round + (uint64_t)kind) % 3]))
				return 1;
	return !idle(r) || !all_at_once(r);
}

RANKS_MAIN(run)
