/*
 * coll_misuse.c - collectives and requests that are called wrongly: every form
 * of every one returns the documented error with a detail that names the
 * culprit, before anything is sent, so that the communicator works afterwards.
 */
#include "test/ranks/calls.h"

static const char *const form_name[] = { "blocking", "nonblocking", "persistent" };

/* The call fails in all its forms, and says so. */
static void
refused(const struct call *c, int kind, int code, const char *says)
{
	for (int form = BLOCKING; form <= PERSISTENT; form++) {
		oriel_req *req = NULL;
		int rc = call_begin(c, kind, form, &req);

		CHECK(rc == code, "%s, %s: expected \"%s\", seen \"%s\" (%s)", call_name[kind],
		      form_name[form], oriel_strerror(code), oriel_strerror(rc), oriel_detail());
		CHECK(rc >= 0 || strstr(oriel_detail(), says),
		      "%s, %s: the detail does not say \"%s\": %s", call_name[kind],
		      form_name[form], says, oriel_detail());
		CHECK(!req, "%s, %s: a refused call leaves a request", call_name[kind],
		      form_name[form]);
	}
}

static bool
is(int kind, const char *begins)
{
	return !strncmp(call_name[kind], begins, strlen(begins));
}

static bool
is_exactly(int kind, const char *name)
{
	return !strcmp(call_name[kind], name);
}

static bool
is_rooted(int kind)
{
	return is(kind, "bcast") || is(kind, "gather") || is(kind, "scatter") ||
	       is_exactly(kind, "reduce");
}

static bool
combines(int kind)
{
	return kind >= call_number("reduce");
}

static bool
has_lens(int kind)
{
	return strchr(call_name[kind] + 1, 'v') && !strstr(call_name[kind], "list");
}

static void
bad_buffers(const struct call *good, int kind)
{
	struct call c = *good;

	if (is(kind, "barrier"))
		return;
	c.root = c.rank;
	if (is(kind, "scatter"))
		c.in = NULL;
	else
		c.out = NULL;
	refused(&c, kind, ORIEL_EINVAL,
	        is(kind, "scatter") ? "in is NULL"
	        : is(kind, "bcast") ? "buf is NULL"
	                            : "out is NULL");
	if (is(kind, "bcast"))
		return;
	c = *good;
	c.root = c.rank;
	c.in = c.out + 1;
	/* Its own block is where it belongs. */
	if (c.size > 1 || combines(kind))
		refused(&c, kind, ORIEL_EINVAL, "overlaps");
}

static void
bad_roots(const struct call *good, int kind)
{
	static const int far[] = { -1, INT32_MIN, 1 << 30 };
	struct call c = *good;

	for (size_t i = 0; i < 3; i++) {
		c.root = far[i];
		refused(&c, kind, ORIEL_ERANK, "root");
	}
	c.root = c.size;
	refused(&c, kind, ORIEL_ERANK, "root");
}

static void
bad_types(const struct call *good, int kind)
{
	static const int types[] = { -1, ORIEL_TYPES, 9999, ORIEL_OPAQUE(0),
		                     ORIEL_OPAQUE((1 << 20) + 1) };
	struct call c = *good;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		c.type = types[i];
		refused(&c, kind, ORIEL_EINVAL, "type");
	}
	c = *good;
	c.op = NULL;
	refused(&c, kind, ORIEL_EINVAL, "op");
	c.op = (const oriel_op *)(uintptr_t)77;
	refused(&c, kind, ORIEL_EINVAL, "op");
	c.op = ORIEL_AND;
	c.type = ORIEL_FLOAT;
	refused(&c, kind, ORIEL_EINVAL, "float");
	c.op = ORIEL_SUM;
	c.type = ORIEL_OPAQUE(8);
	refused(&c, kind, ORIEL_EINVAL, "op");
	if (!is(kind, "scan") && !is(kind, "exscan"))
		return;
	c = *good;
	c.op = ORIEL_AVG;
	refused(&c, kind, ORIEL_EINVAL, "average");
}

static void
bad_sizes(const struct call *good, int kind)
{
	struct call c = *good;
	size_t *table = c.lens, old = table[c.size - 1];

	c.root = c.rank;
	if (has_lens(kind)) {
		if (is(kind, "alltoall"))
			table = c.both, old = table[c.size - 1];
		table[c.size - 1] = SIZE_MAX - 1;
		refused(&c, kind, ORIEL_ERANGE,
		        call_name[kind][0] == 'r' ? "reduce_scatter" : "block");
		table[c.size - 1] = old;
	} else if (strstr(call_name[kind], "list")) {
		struct oriel_piece far = { SIZE_MAX - 8, 64 };

		good->blocks[0].piece = good->both_blocks[0].piece = &far;
		refused(&c, kind, ORIEL_ERANGE, "block 0");
		good->blocks[0].piece = good->pieces;
		good->both_blocks[0].piece = good->pieces + 2 * c.size;
	} else if (!is(kind, "barrier")) {
		c.len = SIZE_MAX;
		refused(&c, kind, ORIEL_ERANGE,
		        is(kind, "reduce_scatter") ? "reduce_scatter" : call_name[kind]);
		c.len = SIZE_MAX / 2 + 1;
		refused(&c, kind, ORIEL_ERANGE, call_name[kind]);
	}
}

/* What a rank that is not the root sends or gets. */
static void
bad_own_length(const struct call *good, int kind)
{
	struct call c = *good;
	size_t old = c.lens[c.rank];

	if (c.size == 1 || !(is(kind, "gatherv") || is(kind, "scatterv")))
		return;
	c.root = (c.rank + 1) % c.size;
	c.lens[c.rank] = SIZE_MAX;
	refused(&c, kind, ORIEL_ERANGE, is(kind, "gatherv") ? "gather" : "scatter");
	c.lens[c.rank] = old;
}

static void
bad_tables(const struct call *good, int kind)
{
	struct call c = *good;

	if (!strchr(call_name[kind] + 1, 'v'))
		return;
	c.root = c.rank;
	c.displs = NULL;
	if (has_lens(kind) && !combines(kind))
		refused(&c, kind, ORIEL_EINVAL, "NULL");
	c = *good;
	c.root = c.rank;
	c.blocks = c.both_blocks = NULL;
	c.both = NULL;
	if (!has_lens(kind) || is(kind, "alltoall"))
		refused(&c, kind, ORIEL_EINVAL, "NULL");
}

static void
bad_handles(const struct call *good, int kind)
{
	struct call c = *good;
	int rc;

	c.comm = NULL;
	refused(&c, kind, ORIEL_EHANDLE, "communicator is NULL");
	for (int form = NONBLOCKING; form <= PERSISTENT; form++) {
		rc = call_begin(good, kind, form, NULL);
		CHECK(rc == ORIEL_EINVAL && strstr(oriel_detail(), "req is NULL"), "%s: %d (%s)",
		      call_name[kind], rc, oriel_detail());
	}
}

/* All of them, in all forms: nothing is left of what was refused. */
static bool
works(const struct call *c)
{
	for (int kind = 0; kind < CALLS; kind++) {
		oriel_req *req = NULL;

		if (!OK(call_begin(c, kind, BLOCKING, NULL)) ||
		    !OK(call_begin(c, kind, NONBLOCKING, &req)) ||
		    !OK(oriel_req_wait(&req, RANKS_WAIT_NS)) ||
		    !OK(call_begin(c, kind, PERSISTENT, &req)) || !OK(oriel_start(req)) ||
		    !OK(oriel_req_wait(&req, RANKS_WAIT_NS)) || !OK(oriel_req_free(&req)))
			return false;
	}
	return CHECK(call_guarded(c), "something is written outside");
}

/* ---- Requests ---- */

static bool
busy(int rc, const char *what)
{
	return CHECK(rc == ORIEL_EBUSY, "%s: %d (%s)", what, rc, oriel_detail()) &&
	       CHECK(strstr(oriel_detail(), "barrier") && strstr(oriel_detail(), "communicator"),
	             "%s does not name the request: %s", what, oriel_detail());
}

/* Rank 0's barrier runs until the others start theirs, which they do when it has said so. */
static bool
running(struct ranks *r, oriel_comm *comm, bool persistent)
{
	oriel_req *req = NULL, *same;

	if (r->rank && !OK(oriel_barrier(r->world)))
		return false;
	if (!OK(persistent ? oriel_barrier_init(comm, &req) : oriel_ibarrier(comm, &req)) ||
	    (persistent && !OK(oriel_start(req))))
		return false;
	if (!r->rank && r->size > 1) {
		same = req;
		busy(oriel_req_free(&req), "oriel_req_free");
		CHECK(req == same, "the request has changed");
		FAILS(ORIEL_ETIMEDOUT, oriel_req_wait(&req, 0));
		CHECK(req == same, "the request has changed");
		if (persistent)
			busy(oriel_start(req), "oriel_start");
	}
	if (!persistent) {
		FAILS(ORIEL_EINVAL, oriel_start(req));
		CHECK(strstr(oriel_detail(), "not persistent"), "%s", oriel_detail());
	}
	if (!r->rank && !OK(oriel_barrier(r->world)))
		return false;
	if (!OK(oriel_req_wait(&req, RANKS_WAIT_NS)))
		return false;
	if (!persistent)
		return CHECK(!req, "a request that is done is left");
	/* Not running: wait and test find it complete. */
	return OK(oriel_req_wait(&req, 0)) && CHECK(req != NULL, "wait has freed it") &&
	       OK(oriel_req_free(&req)) && CHECK(!req, "free leaves the handle");
}

/* One round; *rc: what comm_free said. The AllGather needs rank 0's credits where it goes by lines.
 */
static bool
free_once(struct ranks *r, oriel_comm *comm, unsigned char *out, size_t len, int *rc)
{
	oriel_req *req, *go;

	if (r->rank && !OK(oriel_barrier(r->world)))
		return false;
	if (!OK(oriel_iallgather(comm, NULL, out, len, &req)))
		return false;
	if (r->rank) {
		if (!OK(oriel_req_wait(&req, RANKS_WAIT_NS)))
			return false;
		*rc = oriel_comm_free(comm);
		return true;
	}
	if (!OK(oriel_ibarrier(r->world, &go)))
		return false;
	*rc = oriel_comm_free(comm);
	CHECK(*rc != ORIEL_EBUSY || strstr(oriel_detail(), "request"), "what is busy: %s",
	      oriel_detail());
	return OK(oriel_req_wait(&go, RANKS_WAIT_NS)) && OK(oriel_req_wait(&req, RANKS_WAIT_NS));
}

/*
 * Rank 0 frees the communicator while its request runs, which it does unless the
 * others are faster than its next line: then another round is played.
 */
static bool
free_running(struct ranks *r)
{
	const size_t len = 200000;
	unsigned char *out = malloc((size_t)r->size * len);
	oriel_comm *comm = NULL;
	int rc = 0;

	for (int round = 0; round < 100 && rc != ORIEL_EBUSY; round++)
		if (!OK(oriel_comm_dup(r->world, &comm)) || !free_once(r, comm, out, len, &rc) ||
		    !NEED(!rc || rc == ORIEL_EBUSY, "comm_free: %d (%s)", rc, oriel_detail()))
			return false;
	CHECK(rc == ORIEL_EBUSY, "a communicator with a running request was freed");
	CHECK(r->rank == 0 || strstr(oriel_detail(), "rank 0"), "who has it: %s", oriel_detail());
	free(out);
	/* It lives, and can be freed now. */
	return rc ? OK(oriel_barrier(comm)) && OK(oriel_comm_free(comm)) : true;
}

static void
no_handles(struct ranks *r)
{
	oriel_req *none = NULL, *req, *list[2] = { NULL, NULL };
	int done = 0;

	FAILS(ORIEL_EHANDLE, oriel_start(NULL));
	FAILS(ORIEL_EINVAL, oriel_req_free(NULL));
	OK(oriel_req_free(&none));
	FAILS(ORIEL_EINVAL, oriel_req_wait(NULL, 0));
	FAILS(ORIEL_EINVAL, oriel_req_waitall(2, NULL, 0));
	OK(oriel_req_waitall(0, NULL, 0));
	OK(oriel_req_waitall(2, list, 0));
	FAILS(ORIEL_EINVAL, oriel_req_testall(2, list, NULL));
	OK(oriel_req_testall(2, list, &done));
	CHECK(done == 1, "requests that are NULL are not complete");
	/* A handle that is gone is told. */
	if (OK(oriel_barrier_init(r->world, &req))) {
		list[1] = req;
		OK(oriel_req_free(&req));
		FAILS(ORIEL_EHANDLE, oriel_start(list[1]));
		FAILS(ORIEL_EHANDLE, oriel_req_waitall(2, list, 0));
		CHECK(strstr(oriel_detail(), "request 1"), "which: %s", oriel_detail());
	}
}

/* In order, though it looks like a mistake: in place, and no rank has anything to send. */
static bool
nothing_in_place(struct ranks *r)
{
	size_t *none = calloc((size_t)r->size, sizeof(*none));
	char out = 7;
	bool good = NEED(none != NULL, "no memory") &&
	            OK(oriel_alltoallv(r->world, NULL, NULL, NULL, &out, none, none));

	CHECK(out == 7, "something is written");
	free(none);
	return good;
}

static int
run(struct ranks *r)
{
	oriel_comm *comm;
	struct call c;

	for (int pool = 0; pool < 2; pool++) {
		if (!call_make(&c, r, r->world, 40, 0, pool))
			return 1;
		for (int kind = 0; kind < CALLS; kind++) {
			bad_handles(&c, kind);
			bad_buffers(&c, kind);
			if (is_rooted(kind))
				bad_roots(&c, kind);
			if (combines(kind))
				bad_types(&c, kind);
			bad_sizes(&c, kind);
			bad_own_length(&c, kind);
			bad_tables(&c, kind);
		}
		CHECK(call_guarded(&c), "something is written");
		if (!works(&c))
			return 1;
		call_free(&c, r);
	}
	no_handles(r);
	if (!nothing_in_place(r) || !OK(oriel_comm_dup(r->world, &comm)) ||
	    !running(r, comm, false) || !running(r, comm, true) || !OK(oriel_comm_free(comm)))
		return 1;
	return r->size > 1 && !free_running(r);
}

RANKS_MAIN(run)
