/*
 * exchange.c - ll_exchange between ranks that are streams of one device: what comes
 * out of thousands of calls whose modes, sizes, addresses and grids change, in the
 * order of streams and from graphs, around the end of the numbers, and when it is
 * stopped.
 */
#include "coll/reduce_impl.h"
#include "rma/ctx.h"
#include "test/kernels/device.h"

#include <sched.h>

#define MOST_RANKS 4
#define MOST_BYTES ((size_t)6000) /* of a block */
#define OUT ((size_t)1 << 20)     /* what a batch of calls can write */
#define POOL ((size_t)64 << 10)   /* what it can read */
#define MOST_CALLS 64             /* of a batch */

static oriel_ctx cpu;
static CUfunction f;

struct call {
	struct kernel_exchange a[MOST_RANKS]; /* each rank's */
	unsigned blocks[MOST_RANKS], threads[MOST_RANKS];
};

static struct {
	int n;
	CUdeviceptr scratch[MOST_RANKS], state[MOST_RANKS], out[MOST_RANKS], pool[MOST_RANKS];
	uint32_t *abort, *status; /* of each rank; pinned */
	CUstream s[MOST_RANKS];
	/* What is at out and pool: pinned. */
	unsigned char *before[MOST_RANKS], *in[MOST_RANKS], *after;
	unsigned char *expected[MOST_RANKS];
} job;

static void
begin_job(int ranks)
{
	begin();
	cpu.reduce = &reduce_base;
	f = function("ll_exchange");
	job.n = ranks;
	job.abort = pinned(64);
	job.status = pinned(64);
	job.after = pinned(OUT);
	for (int r = 0; r < ranks; r++) {
		job.scratch[r] = memory(exchange_scratch(ranks, MOST_BYTES));
		job.state[r] = memory(sizeof(struct exchange_state));
		job.out[r] = memory(OUT);
		job.pool[r] = memory(POOL);
		job.before[r] = pinned(OUT);
		job.in[r] = pinned(POOL);
		job.expected[r] = malloc(OUT);
		job.s[r] = stream();
	}
}

/* As if so many calls had been made. */
static void
set_calls(uint32_t calls)
{
	struct exchange_state *s = pinned(sizeof(*s));

	s->call = calls;
	for (int r = 0; r < job.n; r++)
		GOOD(cuMemcpyHtoD(job.state[r], s, sizeof(*s)));
	GOOD(cuMemFreeHost(s));
}

/* ---- Calls ---- */

static size_t
draw_bytes(void)
{
	switch (below(6)) {
	case 0:
		return 0;
	case 1:
		return below(17);
	case 2:
		return MOST_BYTES - below(100);
	default:
		return below(below(2) ? 300 : MOST_BYTES);
	}
}

/* Whether op is one of the type's. */
static bool
fit(int type, int op)
{
	return reduce_base.of[type].pair[op] != NULL;
}

/* What all ranks have in common. Blocks are `bytes` long and may have gaps. */
static struct kernel_exchange
draw_common(void)
{
	struct kernel_exchange a = { .slot = exchange_slot(MOST_BYTES), .ranks = job.n };
	size_t size = 1;

	a.mode = (int)below(3);
	a.bytes = draw_bytes();
	do {
		a.type = (int)below(ORIEL_TYPES);
		a.op = (int)(1 + below(KERNEL_XOR));
	} while (!fit(a.type, a.op));
	if (a.mode == EXCHANGE_REDUCE)
		size = reduce_size(a.type);
	a.bytes -= a.bytes % size;
	a.out_stride = (int64_t)(a.bytes + (below(2) ? below(20) : 0));
	a.in_stride = (int64_t)(a.bytes + (below(2) ? below(20) : 0));
	for (int r = 0; r < job.n; r++)
		a.scratch[r] = job.scratch[r];
	return a;
}

/* Rank r's own: where its data lies and how many threads move it. *pos: how much of out is used. */
static void
draw_own(struct call *c, const struct kernel_exchange *common, int r, size_t *pos)
{
	unsigned most = (unsigned)(multiprocessors / job.n);
	bool in_place = !below(4);
	struct kernel_exchange *a = &c->a[r];

	*a = *common;
	a->rank = r;
	a->state = job.state[r];
	a->abort = (uintptr_t)&job.abort[r];
	a->status = (uintptr_t)&job.status[r];
	*pos = (*pos + 15) / 16 * 16 + 32 + (below(2) ? below(16) : 0);
	a->out = job.out[r] + *pos;
	a->in = job.pool[r] + (below(2) ? 16 * below(1000) : below(16000));
	if (in_place && a->mode == EXCHANGE_ALLTOALL)
		a->in_stride = a->out_stride;
	if (in_place)
		a->in = a->out + (a->mode == EXCHANGE_GATHER ? (uint64_t)(r * a->out_stride) : 0);
	*pos += (size_t)job.n * (size_t)a->out_stride;
	c->blocks[r] = 1 + (unsigned)below(most < 1 ? 1 : most > 8 ? 8 : most);
	c->threads[r] = 32 * (1 + (unsigned)below(KERNEL_THREADS / 32));
}

/* As many as there is room for. */
static int
draw_batch(struct call *c, int most)
{
	size_t pos[MOST_RANKS] = { 0 }, room = (size_t)job.n * (MOST_BYTES + 20) + 64;
	int n = 0;

	for (; n < most; n++) {
		struct kernel_exchange common = draw_common();

		for (int r = 0; r < job.n; r++) {
			if (pos[r] + room > OUT)
				return n;
			draw_own(&c[n], &common, r, &pos[r]);
		}
	}
	return n;
}

/* ---- What is to come out ---- */

/* Where the block is that rank r gives to q, on the host. */
static const unsigned char *
block_on_host(const struct kernel_exchange *a, int q)
{
	uint64_t at = a->in + (a->mode == EXCHANGE_ALLTOALL ? (uint64_t)(q * a->in_stride) : 0);

	return at - job.out[a->rank] < OUT ? job.before[a->rank] + (at - job.out[a->rank])
	                                   : job.in[a->rank] + (at - job.pool[a->rank]);
}

static void
reduce_on_host(const struct call *c, const struct kernel_exchange *a, unsigned char *to)
{
	static unsigned char terms[MOST_RANKS * MOST_BYTES];
	struct reducer r;

	cr_assert_eq(reduce_lookup(&cpu, a->type,
	                           (const oriel_op *)(uintptr_t)a->op, /* lint: allow */
	                           "test", &r),
	             0);
	for (int q = 0; q < job.n; q++)
		memcpy(terms + (size_t)q * a->bytes, block_on_host(&c->a[q], 0), a->bytes);
	r.fold(&r, to, terms, a->bytes, job.n, a->bytes / r.elem);
	if (r.finish)
		r.finish(&r, to, a->bytes / r.elem, job.n);
}

static void
expect(const struct call *c)
{
	for (int r = 0; r < job.n; r++) {
		const struct kernel_exchange *a = &c->a[r];
		unsigned char *out = job.expected[r] + (a->out - job.out[r]);

		if (a->mode == EXCHANGE_REDUCE)
			reduce_on_host(c, a, out);
		else
			for (int q = 0; q < job.n; q++)
				memcpy(out + q * a->out_stride, block_on_host(&c->a[q], r),
				       a->bytes);
	}
}

/* New data, in device memory before anything is launched. */
static void
prepare(const struct call *c, int n)
{
	for (int r = 0; r < job.n; r++) {
		fill(job.in[r], POOL);
		fill(job.before[r], OUT);
		memcpy(job.expected[r], job.before[r], OUT);
		GOOD(cuMemcpyHtoDAsync(job.pool[r], job.in[r], POOL, job.s[r]));
		GOOD(cuMemcpyHtoDAsync(job.out[r], job.before[r], OUT, job.s[r]));
		GOOD(cuStreamSynchronize(job.s[r]));
	}
	for (int i = 0; i < n; i++)
		expect(&c[i]);
}

static void
blame(const struct call *c, int n, int r, size_t at)
{
	const struct kernel_exchange *a = NULL;
	int i = 0;

	for (; i < n; i++)
		if (c[i].a[r].out - job.out[r] <= at)
			a = &c[i].a[r];
	for (i = 0; i < n && &c[i].a[r] != a; i++)
		;
	cr_assert(a);
	cr_assert(false,
	          "rank %d of %d, call %d of %d: byte %zu of out is %02x, not %02x; mode %d, type "
	          "%d, "
	          "op %d, %lu bytes, stride %ld, in %s place, %u blocks of %u",
	          r, job.n, i, n, (size_t)(at - (a->out - job.out[r])), job.after[at],
	          job.expected[r][at], a->mode, a->type, a->op, (unsigned long)a->bytes,
	          (long)a->out_stride, a->in - job.out[r] < OUT ? "its" : "another", c[i].blocks[r],
	          c[i].threads[r]);
}

static void
verify(const struct call *c, int n)
{
	for (int r = 0; r < job.n; r++)
		GOOD(cuStreamSynchronize(job.s[r]));
	for (int r = 0; r < job.n; r++) {
		GOOD(cuMemcpyDtoHAsync(job.after, job.out[r], OUT, job.s[r]));
		GOOD(cuStreamSynchronize(job.s[r]));
		for (size_t i = 0; memcmp(job.after, job.expected[r], OUT); i++)
			if (job.after[i] != job.expected[r][i])
				blame(c, n, r, i);
		cr_assert_eq(job.status[r], 0);
	}
}

static void
launch_rank(const struct call *c, int r)
{
	launch(f, c->blocks[r], c->threads[r], job.s[r], &c->a[r]);
}

/* Call by call, or one rank far ahead of the others. */
static void
launch_batch(const struct call *c, int n)
{
	int at[MOST_RANKS] = { 0 }, left = n * job.n;

	while (left) {
		int r = (int)below((size_t)job.n), many = below(4) ? 1 : (int)below(MOST_CALLS);

		for (; many > 0 && at[r] < n; many--, left--)
			launch_rank(&c[at[r]++], r);
	}
}

static void
run_calls(int calls)
{
	static struct call c[MOST_CALLS];

	while (calls > 0) {
		int n = draw_batch(c, calls < MOST_CALLS ? calls : MOST_CALLS);

		prepare(c, n);
		launch_batch(c, n);
		verify(c, n);
		calls -= n;
	}
}

/* ---- Tests ---- */

Test(kernels_exchange, two_ranks)
{
	begin_job(2);
	run_calls(2000);
}

Test(kernels_exchange, three_ranks)
{
	begin_job(3);
	run_calls(1500);
}

Test(kernels_exchange, four_ranks)
{
	begin_job(4);
	run_calls(1200);
}

Test(kernels_exchange, one_rank)
{
	begin_job(1);
	run_calls(200);
}

/* Large calls leave lines with all flags that come again; then the numbers go round. */
Test(kernels_exchange, numbers_go_round)
{
	struct exchange_state s;

	begin_job(3);
	run_calls(100);
	set_calls(UINT32_MAX - 30);
	run_calls(60);
	GOOD(cuMemcpyDtoH(&s, job.state[2], sizeof(s)));
	cr_assert_eq(s.call, 60 - 30 + 1, "0 and 1 are left out");
	for (uint32_t i = 1; i < 4; i++) {
		set_calls((i << 30) - 15);
		run_calls(30);
	}
}

/* Whatever lies in the scratch with the flags of calls to come is gone when they come. */
Test(kernels_exchange, old_flags_are_wiped_out)
{
	size_t len = exchange_scratch(2, MOST_BYTES);
	uint32_t *old;

	begin_job(2);
	old = pinned(len);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t next = (i << 30) + 2; /* it and the one after it wipe */

		/* Flags of next + 2 in the half of the even calls, of next + 3 in the other. */
		for (size_t w = 1; w < len / 4; w += 2)
			old[w] = next + 2 + (w >= len / 8);
		set_calls(next - 1);
		for (int r = 0; r < job.n; r++)
			GOOD(cuMemcpyHtoD(job.scratch[r], old, len));
		run_calls(20);
	}
}

static CUgraphExec
capture(const struct call *c, int n, int r)
{
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;

	GOOD(cuStreamBeginCapture(job.s[r], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < n; i++)
		launch_rank(&c[i], r);
	GOOD(cuStreamEndCapture(job.s[r], &graph));
	GOOD(cuGraphInstantiate(&exec, graph, 0));
	GOOD(cuGraphDestroy(graph));
	return exec;
}

/* Each rank's calls are a graph; between replays come other calls, and other data. */
Test(kernels_exchange, graphs_are_replayed)
{
	static struct call c[20];
	CUgraphExec exec[MOST_RANKS];
	int n;

	begin_job(3);
	n = draw_batch(c, 20);
	for (int r = 0; r < job.n; r++)
		exec[r] = capture(c, n, r);
	for (int i = 0; i < 30; i++) {
		prepare(c, n);
		for (int r = 0; r < job.n; r++)
			GOOD(cuGraphLaunch(exec[r], job.s[r]));
		verify(c, n);
		run_calls((int)below(3));
	}
	/* In place, results are the data of the next replay: only that it ends can be said. */
	for (int i = 0; i < 50; i++)
		for (int r = 0; r < job.n; r++)
			GOOD(cuGraphLaunch(exec[r], job.s[r]));
	run_calls(10);
	for (int r = 0; r < job.n; r++)
		GOOD(cuGraphExecDestroy(exec[r]));
}

/* Something else begins and ends meanwhile. */
static void
assert_waits(int r, CUstream other, uint32_t *word)
{
	GOOD(cuStreamWriteValue32(other, (uintptr_t)word, 1, 0));
	GOOD(cuStreamSynchronize(other));
	cr_assert_eq(cuStreamQuery(job.s[r]), CUDA_ERROR_NOT_READY);
}

Test(kernels_exchange, calls_that_wait_can_be_stopped)
{
	static struct call c[3];
	CUstream other;
	uint32_t *word;

	begin_job(2);
	other = stream();
	word = pinned(4);
	run_calls(10);
	while (draw_batch(c, 3) < 3)
		;
	for (int i = 0; i < 3; i++)
		c[i].blocks[0] = 2;
	prepare(c, 3);
	for (int i = 0; i < 3; i++)
		launch_rank(&c[i], 0);
	assert_waits(0, other, word);
	cr_assert_eq(job.status[0], 0);
	__atomic_store_n(&job.abort[0], 77, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(job.s[0]));
	cr_assert_eq(job.status[0], 77);
	/* Of the first call rank 1 has everything; of the second one nothing will come. */
	launch_rank(&c[0], 1);
	GOOD(cuStreamSynchronize(job.s[1]));
	cr_assert_eq(job.status[1], 0);
	launch_rank(&c[1], 1);
	assert_waits(1, other, word);
	__atomic_store_n(&job.abort[1], 78, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(job.s[1]));
	cr_assert_eq(job.status[1], 78);
	/* No call waits any more. */
	launch_rank(&c[2], 1);
	GOOD(cuStreamSynchronize(job.s[1]));
}
