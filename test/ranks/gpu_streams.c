/*
 * gpu_streams.c - puts, gets, signals and waits on streams: the lines of the memory model
 * for streams, in rings; streams and hosts that wait for each other; graphs that are
 * replayed while ranks are skewed; what is refused.
 *
 * With one hardware queue a host's copy stands behind its own waiting stream, so where
 * both are mixed one half of the ranks waits on streams, and the other on the host.
 */
#include "test/ranks/gpu_test.h"

#define MOST ((size_t)200 * 1024)
#define BATCH 20 /* rounds that are enqueued without a look */

enum { DATA = 0, ACK, READY, SLOTS };

struct loop {
	struct test *t;
	oriel_win *win;
	struct buffer part;
	struct buffer src, out; /* BATCH and BATCH times MOST */
	unsigned char *host, *want;
};

static bool
loop_open(struct loop *g, struct test *t, enum kind part, enum kind src, enum kind out)
{
	memset(g, 0, sizeof(*g));
	g->t = t;
	g->host = malloc(BATCH * MOST);
	g->want = malloc(MOST);
	return NEED(g->host && g->want, "no memory") && buffer_make(t, part, MOST, &g->part) &&
	       buffer_make(t, src, BATCH * MOST, &g->src) &&
	       buffer_make(t, out, BATCH * MOST, &g->out) &&
	       OK(oriel_win_create(t->r->world, g->part.p, MOST, SLOTS, &g->win)) &&
	       /* First contact, for windows that do not make it themselves. */
	       OK(oriel_put_on_stream(g->win, t->right, 0, NULL, 0, t->stream)) &&
	       OK(oriel_put_on_stream(g->win, t->left, 0, NULL, 0, t->stream)) &&
	       OK(oriel_put_on_stream(g->win, t->r->rank, 0, NULL, 0, t->stream)) &&
	       OK(oriel_barrier(t->r->world));
}

static bool
loop_close(struct loop *g)
{
	bool ok = GOOD(CU(cuStreamSynchronize)(g->t->stream)) && OK(oriel_win_free(g->win));

	buffer_free(g->t, &g->part);
	buffer_free(g->t, &g->src);
	buffer_free(g->t, &g->out);
	free(g->host);
	free(g->want);
	return ok;
}

static size_t
len_of(uint64_t seed, uint64_t round)
{
	uint64_t state = seed * 7777 + round, most = ranks_next(&state) % 4;

	return 1 + ranks_next(&state) % (most < 2 ? 64 : most == 2 ? 5000 : MOST);
}

static uint64_t
seed_of(int rank, uint64_t round)
{
	return round * 64 + (uint64_t)rank;
}

/* What came in each round of the batch is what the left rank has put in that round. */
static bool
check_batch(struct loop *g, uint64_t first)
{
	struct ranks *r = g->t->r;

	if (!GOOD(CU(cuStreamSynchronize)(g->t->stream)) ||
	    !buffer_read(g->t, &g->out, 0, g->host, BATCH * MOST))
		return false;
	for (uint64_t i = 0; i < BATCH; i++) {
		size_t len = len_of(r->seed, first + i), k;

		pattern(g->want, seed_of(g->t->left, first + i), len);
		k = mismatch(g->host + i * MOST, g->want, len);
		if (!NEED(k == len, "round %lu: byte %zu of %zu is %x and not %x",
		          (unsigned long)(first + i), k, len, g->host[i * MOST + k], g->want[k]))
			return false;
	}
	return true;
}

static bool
write_sources(struct loop *g, uint64_t first)
{
	for (uint64_t i = 0; i < BATCH; i++)
		pattern(g->host + i * MOST, seed_of(g->t->r->rank, first + i),
		        len_of(g->t->r->seed, first + i));
	return buffer_write(g->t, &g->src, 0, g->host, BATCH * MOST);
}

/* What stands in the own part goes to out. The driver's own copy, but where it would go across
 * pinned pieces. */
static bool
take_out(const struct loop *g, uint64_t round, size_t i, size_t len)
{
	char *out = g->out.p + i * MOST;

	if (round % 2 || g->part.kind == HOST_POOL)
		return OK(oriel_get_on_stream(g->win, g->t->r->rank, 0, out, len, g->t->stream));
	return GOOD(CU(cuMemcpyAsync)((CUdeviceptr)out, (CUdeviceptr)g->part.p, len, g->t->stream));
}

/* M1: the stream that waited finds the data; M3: the stream that has put may write its source. */
static bool
one_round(struct loop *g, uint64_t round, size_t i, enum oriel_cmp cmp)
{
	struct ranks *r = g->t->r;
	size_t len = len_of(r->seed, round), half = round % 3 ? 0 : len / 2;
	char *src = g->src.p + i * MOST;
	CUstream s = g->t->stream;

	/* The last round's data has been taken out over there. */
	if (round > 1 && !OK(oriel_signal_wait_on_stream(g->win, ACK, ORIEL_GE, round - 1, s)))
		return false;
	if (!OK(oriel_put_on_stream(g->win, g->t->right, 0, src, half, s)) ||
	    !OK(oriel_put_signal_on_stream(g->win, g->t->right, half, src + half, len - half, DATA,
	                                   ORIEL_SIGNAL_SET, round, s)))
		return false;
	if (is_device(g->src.kind) && !GOOD(CU(cuMemsetD8Async)((CUdeviceptr)src, 0xee, MOST, s)))
		return false;
	return OK(oriel_signal_wait_on_stream(g->win, DATA, cmp, round, s)) &&
	       take_out(g, round, i, len) &&
	       OK(oriel_signal_on_stream(g->win, g->t->left, ACK, ORIEL_SIGNAL_SET, round, s));
}

static bool
rings(struct test *t)
{
	static const enum kind kinds[][3] = {
		{ DEVICE_POOL, DEVICE_POOL, HOST_PINNED },
		{ DEVICE_PLAIN, HOST_POOL, DEVICE_PLAIN },
		{ HOST_POOL, DEVICE_PLAIN, HOST_PINNED },
		{ DEVICE_POOL, HOST_PINNED, DEVICE_POOL },
	};
	uint64_t rounds = t->r->rounds ? t->r->rounds : 500;
	struct loop g;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (!loop_open(&g, t, kinds[k][0], kinds[k][1], kinds[k][2]))
			return false;
		for (uint64_t first = 1; first <= rounds; first += BATCH) {
			if (!write_sources(&g, first))
				return false;
			for (size_t i = 0; i < BATCH; i++)
				if (!one_round(&g, first + i, i, i % 2 ? ORIEL_EQ : ORIEL_GE))
					return false;
			if (!check_batch(&g, first))
				return false;
		}
		if (!loop_close(&g))
			return false;
	}
	return true;
}

/* ---- Hosts and streams ---- */

/* The senders' streams raise what the others' hosts wait for, which nobody wakes. */
static bool
host_waits(struct loop *g, uint64_t round, bool sends)
{
	struct ranks *r = g->t->r;
	size_t len = len_of(r->seed, round), k;

	if (sends) {
		pattern(g->host, seed_of(r->rank, round), len);
		return buffer_write(g->t, &g->src, 0, g->host, len) &&
		       OK(oriel_put_signal_on_stream(g->win, g->t->right, 0, g->src.p, len, DATA,
		                                     ORIEL_SIGNAL_SET, round, g->t->stream)) &&
		       OK(oriel_signal_wait(g->win, ACK, ORIEL_EQ, round, RANKS_WAIT_NS, NULL));
	}
	if (!OK(oriel_signal_wait(g->win, DATA, ORIEL_EQ, round, RANKS_WAIT_NS, NULL)) ||
	    !buffer_read(g->t, &g->part, 0, g->host, len))
		return false;
	pattern(g->want, seed_of(g->t->left, round), len);
	k = mismatch(g->host, g->want, len);
	return NEED(k == len, "round %lu: byte %zu of %zu is wrong", (unsigned long)round, k,
	            len) &&
	       OK(oriel_signal(g->win, g->t->left, ACK, ORIEL_SIGNAL_SET, round));
}

/* The senders' hosts raise what the others' streams wait for. */
static bool
stream_waits(struct loop *g, uint64_t round, bool sends)
{
	struct ranks *r = g->t->r;
	size_t len = len_of(r->seed, round), k;
	CUstream s = g->t->stream;

	if (sends) {
		pattern(g->host, seed_of(r->rank, round), len);
		return buffer_write(g->t, &g->src, 0, g->host, len) &&
		       OK(oriel_put_signal(g->win, g->t->right, 0, g->src.p, len, DATA,
		                           round % 5 ? ORIEL_SIGNAL_SET : ORIEL_SIGNAL_ADD,
		                           round % 5 ? round : 1)) &&
		       OK(oriel_signal_wait(g->win, ACK, ORIEL_GE, round, RANKS_WAIT_NS, NULL));
	}
	if (!OK(oriel_signal_wait_on_stream(g->win, DATA, ORIEL_GE, round, s)) ||
	    !OK(oriel_get_on_stream(g->win, r->rank, 0, g->out.p, len, s)) ||
	    !OK(oriel_signal_on_stream(g->win, g->t->left, ACK, ORIEL_SIGNAL_SET, round, s)) ||
	    !GOOD(CU(cuStreamSynchronize)(s)) || !buffer_read(g->t, &g->out, 0, g->host, len))
		return false;
	pattern(g->want, seed_of(g->t->left, round), len);
	k = mismatch(g->host, g->want, len);
	return NEED(k == len, "round %lu: byte %zu of %zu is wrong", (unsigned long)round, k, len);
}

static bool
mixed(struct test *t)
{
	static const enum kind parts[] = { DEVICE_POOL, HOST_POOL, DEVICE_PLAIN };
	uint64_t rounds = t->r->rounds ? t->r->rounds : 100;
	struct loop g;

	if (t->r->size % 2)
		return true;
	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
		for (int phase = 0; phase < 4; phase++) {
			bool sends = t->r->rank % 2 == phase % 2;

			if (!loop_open(&g, t, parts[k], DEVICE_POOL, HOST_PINNED))
				return false;
			for (uint64_t i = 1; i <= rounds; i++)
				if (!(phase < 2 ? host_waits : stream_waits)(&g, i, sends))
					return false;
			if (!loop_close(&g))
				return false;
		}
	return true;
}

/* ---- Graphs ---- */

/*
 * One edge to the right, with two cells: the receiver says ready at the sender; the sender
 * takes that back, puts and signals; the receiver uses the data, and takes the signal back
 * last. from and to are fixed.
 */
static bool
edge(struct loop *g, const struct buffer *from, const struct buffer *to)
{
	struct ranks *r = g->t->r;
	CUstream s = g->t->stream;

	return OK(oriel_signal_on_stream(g->win, g->t->left, READY, ORIEL_SIGNAL_SET, 1, s)) &&
	       OK(oriel_signal_wait_on_stream(g->win, READY, ORIEL_GE, 1, s)) &&
	       OK(oriel_signal_on_stream(g->win, r->rank, READY, ORIEL_SIGNAL_SET, 0, s)) &&
	       OK(oriel_put_signal_on_stream(g->win, g->t->right, 0, from->p, MOST, DATA,
	                                     ORIEL_SIGNAL_SET, 1, s)) &&
	       OK(oriel_signal_wait_on_stream(g->win, DATA, ORIEL_GE, 1, s)) &&
	       OK(oriel_get_on_stream(g->win, r->rank, 0, to->p, MOST, s)) &&
	       OK(oriel_signal_on_stream(g->win, r->rank, DATA, ORIEL_SIGNAL_SET, 0, s));
}

static bool
capture(struct loop *g, const struct buffer *from, const struct buffer *to, CUgraphExec *exec)
{
	CUgraph graph;

	return GOOD(g->t->cuStreamBeginCapture(g->t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) &&
	       edge(g, from, to) && GOOD(g->t->cuStreamEndCapture(g->t->stream, &graph)) &&
	       GOOD(g->t->cuGraphInstantiate(exec, graph, 0)) && GOOD(g->t->cuGraphDestroy(graph));
}

static bool
copy_on(const struct loop *g, void *dst, const void *src)
{
	return GOOD(CU(cuMemcpyAsync)((CUdeviceptr)dst, (CUdeviceptr)src, MOST, g->t->stream));
}

/* Ranks are ahead and behind by turns. */
static bool
replay(struct loop *g, CUgraphExec exec, const struct buffer *from, const struct buffer *to,
       uint64_t first)
{
	for (uint64_t i = 0; i < BATCH; i++) {
		pattern(g->host + i * MOST, seed_of(g->t->r->rank, first + i),
		        len_of(g->t->r->seed, first + i));
	}
	if (!buffer_write(g->t, &g->src, 0, g->host, BATCH * MOST))
		return false;
	for (uint64_t i = 0; i < BATCH; i++) {
		if (ranks_random(g->t->r, 4) == 0)
			ranks_delay(ranks_random(g->t->r, 3000000));
		if (!copy_on(g, from->p, g->src.p + i * MOST) ||
		    !GOOD(g->t->cuGraphLaunch(exec, g->t->stream)) ||
		    !copy_on(g, g->out.p + i * MOST, to->p))
			return false;
	}
	return check_batch(g, first);
}

static bool
graphs(struct test *t)
{
	uint64_t rounds = t->r->rounds ? t->r->rounds : 400;
	struct buffer from, to;
	struct loop g;
	CUgraphExec exec;

	/* Another part than that of the window's memory, so that nothing else makes contact. */
	if (!loop_open(&g, t, DEVICE_POOL, DEVICE_POOL, HOST_PINNED) ||
	    !buffer_make(t, DEVICE_POOL, MOST, &from) || !buffer_make(t, DEVICE_PLAIN, MOST, &to) ||
	    !capture(&g, &from, &to, &exec) || !OK(oriel_barrier(t->r->world)))
		return false;
	for (uint64_t first = 1; first <= rounds; first += BATCH)
		if (!replay(&g, exec, &from, &to, first))
			return false;
	GOOD(t->cuGraphExecDestroy(exec));
	buffer_free(t, &from);
	buffer_free(t, &to);
	return loop_close(&g);
}

/* A new window of device memory is captured at once; one of the host has to be met before. */
static bool
first_contact(struct test *t)
{
	oriel_win *device, *host;
	void *p, *q;
	CUgraph graph;

	if (!OK(oriel_win_alloc_device(t->r->world, 64, 1, &p, &device)) ||
	    !OK(oriel_win_alloc(t->r->world, 64, 1, &q, &host)) ||
	    !GOOD(t->cuStreamBeginCapture(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)))
		return false;
	OK(oriel_put_signal_on_stream(device, t->right, 0, p, 64, 0, ORIEL_SIGNAL_SET, 1,
	                              t->stream));
	OK(oriel_signal_wait_on_stream(device, 0, ORIEL_GE, 1, t->stream));
	FAILS(ORIEL_ENOTSUP, oriel_put_on_stream(host, t->right, 0, p, 64, t->stream));
	CHECK(strstr(oriel_detail(), "is being captured"), "%s", oriel_detail());
	FAILS(ORIEL_ENOTSUP, oriel_signal_wait_on_stream(host, 0, ORIEL_GE, 1, t->stream));
	if (!GOOD(t->cuStreamEndCapture(t->stream, &graph)))
		return false;
	GOOD(t->cuGraphDestroy(graph));
	return OK(oriel_win_free(host)) && OK(oriel_win_free(device));
}

/* ---- What is refused ---- */

static bool
refused(struct test *t)
{
	CUstream s = t->stream;
	struct buffer plain, own;
	oriel_win *win, *far;
	void *p;

	if (!buffer_make(t, HOST_PLAIN, 4096, &plain) || !buffer_make(t, HOST_PLAIN, 4096, &own) ||
	    !OK(oriel_win_alloc_device(t->r->world, 4096, 2, &p, &win)) ||
	    !OK(oriel_win_create(t->r->world, own.p, 4096, 2, &far)))
		return false;
	FAILS(ORIEL_EINVAL, oriel_signal_wait_on_stream(win, 0, ORIEL_NE, 1, s));
	CHECK(strstr(oriel_detail(), "ORIEL_EQ and ORIEL_GE only"), "%s", oriel_detail());
	FAILS(ORIEL_EINVAL, oriel_signal_wait_on_stream(win, 0, ORIEL_GE, ORIEL_SIGNAL_MAX + 1, s));
	FAILS(ORIEL_ERANGE, oriel_signal_wait_on_stream(win, 2, ORIEL_GE, 1, s));
	FAILS(ORIEL_ENOTSUP, oriel_signal_on_stream(win, t->right, 0, ORIEL_SIGNAL_ADD, 1, s));
	FAILS(ORIEL_EINVAL,
	      oriel_signal_on_stream(win, t->right, 0, ORIEL_SIGNAL_SET, ORIEL_SIGNAL_MAX + 1, s));
	FAILS(ORIEL_ERANGE, oriel_signal_on_stream(win, t->right, 2, ORIEL_SIGNAL_SET, 1, s));
	FAILS(ORIEL_ERANGE, oriel_put_on_stream(win, t->right, 4095, p, 2, s));
	FAILS(ORIEL_EINVAL, oriel_put_on_stream(win, t->right, 0, NULL, 2, s));
	FAILS(ORIEL_ERANK, oriel_put_on_stream(win, t->r->size, 0, p, 2, s));
	FAILS(ORIEL_ENOTSUP, oriel_put_on_stream(win, t->right, 0, plain.p, 8, s));
	CHECK(strstr(oriel_detail(), "oriel_mem_alloc"), "%s", oriel_detail());
	FAILS(ORIEL_ENOTSUP, oriel_get_on_stream(far, t->right, 0, p, 8, s));
	CHECK(strstr(oriel_detail(), "outside the pool"), "%s", oriel_detail());
	/* Its signals are as good as any. */
	OK(oriel_signal_on_stream(far, t->right, 0, ORIEL_SIGNAL_SET, 7, s));
	OK(oriel_signal_wait_on_stream(far, 0, ORIEL_EQ, 7, s));
	GOOD(CU(cuStreamSynchronize)(s));
	if (!OK(oriel_win_free(far)) || !OK(oriel_win_free(win)))
		return false;
	buffer_free(t, &plain);
	buffer_free(t, &own);
	return true;
}

/* ---- Letting streams go ---- */

/* The waits of a stream that resets its slots, as captured programs do. */
static bool
enqueue_waits(struct test *t, oriel_win *win, int n)
{
	for (int i = 0; i < n; i++) {
		if (!OK(oriel_signal_wait_on_stream(win, 0, ORIEL_GE, 5, t->stream)) ||
		    !OK(oriel_signal_wait_on_stream(win, 1, ORIEL_EQ, (uint64_t)(i % 3) + 1,
		                                    t->stream)) ||
		    !OK(oriel_signal_on_stream(win, t->r->rank, 0, ORIEL_SIGNAL_SET, 0,
		                               t->stream)) ||
		    !OK(oriel_signal_on_stream(win, t->r->rank, 1, ORIEL_SIGNAL_SET, 0, t->stream)))
			return false;
	}
	return true;
}

static bool
ends_soon(const struct test *t, const char *what)
{
	uint64_t begin = ranks_now_ns();

	GOOD(CU(cuStreamSynchronize)(t->stream));
	return NEED(ranks_now_ns() - begin < 5 * UINT64_C(1000000000), "%s: %lu ms", what,
	            (unsigned long)((ranks_now_ns() - begin) / 1000000));
}

static bool
aborted(struct test *t)
{
	/* Alone there is no helper, which goes on letting go. */
	int n = t->r->size > 1 ? 6 : 1, last = t->r->size - 1;
	uint64_t word = 0;
	oriel_comm *comm;
	oriel_win *win;
	void *p;
	int met;

	if (!OK(oriel_comm_dup(t->r->world, &comm)) ||
	    !OK(oriel_win_alloc_device(comm, 64, 4, &p, &win)) || !enqueue_waits(t, win, n) ||
	    !OK(oriel_barrier(t->r->world)))
		return false;
	if (t->r->rank == last)
		OK(oriel_comm_abort(comm));
	if (!ends_soon(t, "until an abort lets a stream go"))
		return false;
	FAILS(ORIEL_EABORTED, oriel_flush(win, t->right));
	FAILS(ORIEL_EABORTED, oriel_flush_all(win));
	FAILS(ORIEL_EABORTED, oriel_signal_wait(win, 0, ORIEL_GE, 1, RANKS_WAIT_NS, NULL));
	FAILS(ORIEL_EABORTED, oriel_signal_wait(win, 1, ORIEL_GE, 1, RANKS_WAIT_NS, NULL));
	FAILS(ORIEL_EABORTED, oriel_signal_test(win, 0, ORIEL_GE, 1, &met));
	FAILS(ORIEL_EABORTED, oriel_signal_wait_on_stream(win, 0, ORIEL_GE, 1, t->stream));
	FAILS(ORIEL_EABORTED, oriel_put_on_stream(win, t->right, 0, p, 8, t->stream));
	OK(oriel_signal_read(win, 3, &word));
	CHECK(!word, "a slot that nobody waits for has become %lu", (unsigned long)word);
	FAILS(ORIEL_EABORTED, oriel_win_free(win));
	oriel_comm_free(comm);
	return OK(oriel_barrier(t->r->world));
}

static bool
freed(struct test *t)
{
	oriel_win *win;
	void *p;

	if (!OK(oriel_win_alloc_device(t->r->world, 64, 1, &p, &win)) ||
	    !OK(oriel_signal_wait_on_stream(win, 0, ORIEL_GE, 5, t->stream)) ||
	    !OK(oriel_win_free(win)))
		return false;
	return ends_soon(t, "until the window's end lets a stream go");
}

static int
run(struct ranks *r)
{
	static bool (*const all[])(struct test *) = { refused, first_contact, rings, mixed,
		                                      graphs,  aborted,       freed };
	struct test t;
	bool ok = test_begin(&t, r);

	if (ok && !t.g->wait_values)
		return ranks_skip("the device's streams cannot wait for 64-bit words");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && ok; i++)
		ok = all[i](&t);
	if (ok)
		test_end(&t);
	return !ok;
}

RANKS_MAIN(run)
