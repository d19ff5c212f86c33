/*
 * gpu_coll.c - collectives on streams that move data, against what they must give:
 * random calls, sizes, roots and offsets, in place and not, on several streams, one
 * behind the other without a pause; the same captured into a graph and replayed.
 *
 * --rounds N: random calls; replays are half as many.
 */
#include "test/ranks/gpu_test.h"

#define MOST ((size_t)96 << 10) /* bytes of a block */
#define STREAMS 3

enum op { ALLGATHER, ALLTOALL, BCAST, GATHER, SCATTER, BARRIER, OPS };
static const char *const op_names[OPS] = { "allgather", "alltoall", "bcast",
	                                   "gather",    "scatter",  "barrier" };

struct call { /* the same on all ranks, but for in place */
	enum op op;
	size_t len;
	int root;
	bool in_place;
	uint64_t round;
};

struct work {
	struct test g;
	struct ranks *r;
	CUstream stream[STREAMS];
	unsigned char *in, *out, *host;
	size_t room;   /* of each */
	uint64_t dice; /* the same on all ranks */
};

static uint64_t
shared(struct work *t)
{
	return ranks_next(&t->dice);
}

/* Byte k of the block that rank from has for rank to. */
static unsigned char
byte_at(const struct call *c, int from, int to, size_t k)
{
	return (unsigned char)((size_t)from * 37 + (size_t)to * 101 + c->round * 7 + k * 13 +
	                       (k >> 8));
}

static void
fill_block(unsigned char *p, const struct call *c, int from, int to)
{
	for (size_t k = 0; k < c->len; k++)
		p[k] = byte_at(c, from, to, k);
}

static bool
holds(const unsigned char *p, const struct call *c, int from, int to)
{
	for (size_t k = 0; k < c->len; k++)
		if (p[k] != byte_at(c, from, to, k))
			return CHECK(
			        false,
			        "%s of %zu bytes, root %d%s, round %llu: byte %zu of the block "
			        "from %d is wrong",
			        op_names[c->op], c->len, c->root, c->in_place ? ", in place" : "",
			        (unsigned long long)c->round, k, from);
	return true;
}

/* What every rank puts into its buffers before the call; nothing is where results come. */
static void
fill(struct work *t, const struct call *c, CUstream s)
{
	int n = t->r->size, me = t->r->rank;
	unsigned char *at = t->host;
	bool all = c->op == ALLTOALL || (c->op == SCATTER && me == c->root);

	memset(t->host, 0xee, t->room);
	if (c->in_place && c->op == ALLGATHER)
		fill_block(t->host + (size_t)me * c->len, c, me, 0);
	if (c->in_place && c->op == GATHER && me == c->root)
		fill_block(t->host + (size_t)me * c->len, c, me, 0);
	if (c->op == BCAST && me == c->root)
		fill_block(t->host, c, me, 0);
	copy_and_wait(s, t->out, t->host, t->room);
	for (int to = 0; to < (all ? n : 1); to++, at += c->len)
		fill_block(at, c, me, to);
	copy_and_wait(s, t->in, t->host, t->room);
}

static bool
start(struct work *t, const struct call *c, CUstream s)
{
	oriel_comm *w = t->r->world;
	bool root = t->r->rank == c->root;
	void *in = c->in_place ? NULL : t->in;

	switch (c->op) {
	case ALLGATHER:
		return OK(oriel_allgather_on_stream(w, in, t->out, c->len, s));
	case ALLTOALL:
		return OK(oriel_alltoall_on_stream(w, t->in, t->out, c->len, s));
	case BCAST:
		return OK(oriel_bcast_on_stream(w, t->out, c->len, c->root, s));
	case GATHER:
		return OK(oriel_gather_on_stream(w, root ? in : t->in, t->out, c->len, c->root, s));
	case SCATTER:
		return OK(oriel_scatter_on_stream(w, t->in, root && c->in_place ? NULL : t->out,
		                                  c->len, c->root, s));
	default:
		return OK(oriel_barrier_on_stream(w, s));
	}
}

static void
check(struct work *t, const struct call *c, CUstream s)
{
	int n = t->r->size, me = t->r->rank;
	bool good = true;

	copy_and_wait(s, t->host, t->out, t->room);
	for (int from = 0; from < n && good; from++) {
		const unsigned char *p = t->host + (size_t)from * c->len;

		if (c->op == ALLGATHER || (c->op == GATHER && me == c->root))
			good = holds(p, c, from, 0);
		else if (c->op == ALLTOALL)
			good = holds(p, c, from, me);
	}
	if (c->op == BCAST)
		holds(t->host, c, c->root, 0);
	if (c->op == SCATTER && !(c->in_place && me == c->root))
		holds(t->host, c, c->root, me);
}

static struct call
any_call(struct work *t, uint64_t round)
{
	struct call c = { .op = (enum op)(shared(t) % OPS), .round = round };
	size_t n = (size_t)(shared(t) % 20);

	c.len = n < 4 ? n * 7 : (size_t)(shared(t) % MOST) >> (n % 12);
	c.root = (int)(shared(t) % (unsigned)t->r->size);
	c.in_place = shared(t) % 3 == 0;
	return c;
}

static void
random_calls(struct work *t, uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++) {
		struct call c = any_call(t, i);
		CUstream s = t->stream[shared(t) % STREAMS];

		fill(t, &c, s);
		if (!start(t, &c, s))
			return;
		check(t, &c, s);
	}
}

/* The blocking calls, on the same memory. */
static void
blocking(struct work *t, uint64_t rounds)
{
	oriel_comm *w = t->r->world;
	CUstream s = t->stream[0];
	oriel_req *req = NULL;
	int rc;

	for (uint64_t i = 0; i < rounds; i++) {
		struct call c = any_call(t, i);
		void *in = c.in_place ? NULL : t->in;
		bool root = t->r->rank == c.root;

		fill(t, &c, s);
		if (c.op == ALLGATHER)
			OK(oriel_allgather(w, in, t->out, c.len));
		else if (c.op == ALLTOALL)
			OK(oriel_alltoall(w, t->in, t->out, c.len));
		else if (c.op == BCAST)
			OK(oriel_bcast(w, t->out, c.len, c.root));
		else if (c.op == GATHER)
			OK(oriel_gather(w, root ? in : t->in, t->out, c.len, c.root));
		else if (c.op == SCATTER)
			OK(oriel_scatter(w, t->in, root && c.in_place ? NULL : t->out, c.len,
			                 c.root));
		else
			OK(oriel_barrier(w));
		check(t, &c, s);
	}
	rc = oriel_ibcast(w, t->out, 64, 0, &req);
	CHECK(rc == ORIEL_ENOTSUP && !req, "a request on device memory: %d", rc);
	/* What cannot be says so, and the communicator lives on. */
	rc = oriel_alltoall_on_stream(w, NULL, t->out, 64, s);
	CHECK(rc == ORIEL_ENOTSUP, "alltoall in place: %d", rc);
	rc = oriel_alltoall(w, NULL, t->out, 64);
	CHECK(rc == ORIEL_ENOTSUP, "alltoall in place on device memory: %d", rc);
	rc = oriel_send(w, 0, 0, t->out, 64);
	CHECK(rc == ORIEL_ENOTSUP, "send of device memory: %d", rc);
	rc = oriel_recv(w, ORIEL_ANY, 0, t->out, 64, NULL);
	CHECK(rc == ORIEL_ENOTSUP, "receive into device memory: %d", rc);
}

/* Calls without a pause: each result is the next one's source. */
static void
chains(struct work *t, uint64_t rounds)
{
	int n = t->r->size, me = t->r->rank;
	size_t len = 4096;
	struct call c = { .op = ALLGATHER, .len = len };
	CUstream s = t->stream[0];

	for (uint64_t i = 0; i < rounds; i++) {
		c.round = i;
		memset(t->host, 0, t->room);
		fill_block(t->host, &c, me, 0);
		copy_and_wait(s, t->in, t->host, t->room);
		/* A block that goes around: after n bcasts and gathers it is where it was. */
		OK(oriel_allgather_on_stream(t->r->world, t->in, t->out, len, s));
		for (int k = 0; k < n; k++)
			OK(oriel_allgather_on_stream(t->r->world, t->out + (size_t)me * len, t->out,
			                             len, t->stream[k % STREAMS]));
		check(t, &c, t->stream[(n - 1) % STREAMS]);
	}
}

/* A graph of several collectives, replayed by ranks that come late by turns. What goes in changes
 * from replay to replay; the same calls outside of the graph in between. */
static void
replays(struct work *t, uint64_t rounds)
{
	struct call calls[4];
	CUstream s = t->stream[0];
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	struct call last = { 0 };

	for (int i = 0; i < 4; i++)
		calls[i] = any_call(t, (uint64_t)i);
	last = (struct call){ .op = ALLGATHER, .len = 1000 };
	GOOD(t->g.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 4; i++)
		if (!start(t, &calls[i], s))
			return;
	if (!start(t, &last, s))
		return;
	GOOD(t->g.cuStreamEndCapture(s, &graph));
	if (!GOOD(t->g.cuGraphInstantiate(&exec, graph, 0)))
		return;
	for (uint64_t i = 0; i < rounds; i++) {
		last.round = i;
		fill(t, &last, s);
		if (i % (unsigned)t->r->size == (unsigned)t->r->rank)
			ranks_delay(ranks_random(t->r, 200000));
		GOOD(t->g.cuGraphLaunch(exec, s));
		check(t, &last, s);
		if (i % 7 == 0) {
			calls[3].round = i;
			fill(t, &calls[3], s);
			start(t, &calls[3], s);
			check(t, &calls[3], s);
		}
	}
	GOOD(t->g.cuGraphExecDestroy(exec));
	GOOD(t->g.cuGraphDestroy(graph));
}

static int
run(struct ranks *r)
{
	struct work t = { .r = r, .room = MOST * (size_t)r->size, .dice = r->seed };
	uint64_t rounds = r->rounds ? r->rounds : 150;

	if (!test_begin(&t.g, r))
		return 1;
	for (int i = 0; i < STREAMS; i++)
		t.stream[i] = test_stream();
	t.in = test_take(t.room);
	t.out = test_take(t.room);
	t.host = malloc(t.room);
	NEED(t.host, "no memory");
	random_calls(&t, rounds);
	blocking(&t, rounds / 3);
	chains(&t, rounds / 5);
	replays(&t, rounds / 2);
	OK(oriel_barrier(r->world));
	for (int i = 0; i < STREAMS; i++)
		GOOD(CU(cuStreamDestroy)(t.stream[i]));
	test_drop(t.in);
	test_drop(t.out);
	free(t.host);
	test_end(&t.g);
	return 0;
}

RANKS_MAIN(run)
