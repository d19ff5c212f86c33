/*
 * gpu_abort.c - a communicator that fails lets go of every stream that waits on it,
 * within a second, at one hardware queue, too; all ranks name the same culprit, in
 * calls and in oriel_comm_status.
 */
#include "test/ranks/gpu_test.h"

#define LEN ((size_t)4096)

static uint64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The stream of the last rank hangs before its calls, so that the others' wait for it. */
static void
abort_while_waiting(const struct test *t, bool captured)
{
	const struct ranks *r = t->r;
	CUstream s = test_stream(), other = test_stream();
	unsigned char *in = test_take(LEN), *out = test_take(LEN * (size_t)r->size);
	bool last = r->rank == r->size - 1;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUdeviceptr word;
	uint64_t *latch, since;
	oriel_comm *c;
	int rc;

	if (!OK(oriel_comm_dup(r->world, &c)))
		return;
	NEED(!t->cuMemHostAlloc((void **)&latch, 4096, CU_MEMHOSTALLOC_DEVICEMAP),
	     "no pinned memory");
	*latch = 0;
	GOOD(CU(cuMemHostGetDevicePointer)(&word, latch, 0));
	/* Once in good order: everything is mapped. */
	OK(oriel_allgather_on_stream(c, in, out, LEN, s));
	GOOD(CU(cuStreamSynchronize)(s));
	if (captured)
		GOOD(t->cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	else if (last)
		GOOD(CU(cuStreamWaitValue64)(s, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	for (int i = 0; i < 3; i++)
		OK(oriel_allgather_on_stream(c, in, out, LEN, s));
	if (captured) {
		GOOD(t->cuStreamEndCapture(s, &graph));
		GOOD(t->cuGraphInstantiate(&exec, graph, 0));
		if (!last)
			GOOD(t->cuGraphLaunch(exec, s));
	}
	OK(oriel_barrier(r->world));
	CHECK(last || r->size == 1 || CU(cuStreamQuery)(s) == CUDA_ERROR_NOT_READY,
	      "the stream does not wait");
	CHECK(!oriel_comm_status(c), "status before the failure");
	OK(oriel_barrier(r->world));
	since = now();
	if (last)
		OK(oriel_comm_abort(c));
	*(volatile uint64_t *)latch = 1;
	GOOD(CU(cuStreamSynchronize)(s));
	CHECK(now() - since < UINT64_C(2000000000), "the stream went on after %.1f s",
	      (double)(now() - since) / 1e9);
	while (!(rc = oriel_comm_status(c)))
		;
	CHECK(rc == ORIEL_EABORTED, "status: %d (%s)", rc, oriel_detail());
	rc = oriel_allgather_on_stream(c, in, out, LEN, other);
	CHECK(rc == ORIEL_EABORTED, "a call after the abort: %d (%s)", rc, oriel_detail());
	OK(oriel_barrier(r->world));
	rc = oriel_comm_free(c);
	CHECK(rc == ORIEL_EABORTED || r->size == 1, "comm_free: %d (%s)", rc, oriel_detail());
	if (exec)
		GOOD(t->cuGraphExecDestroy(exec));
	if (graph)
		GOOD(t->cuGraphDestroy(graph));
	GOOD(CU(cuStreamDestroy)(s));
	GOOD(CU(cuStreamDestroy)(other));
	GOOD(t->cuMemFreeHost(latch));
	test_drop(in);
	test_drop(out);
}

static int
run(struct ranks *r)
{
	struct test t;

	if (!test_begin(&t, r))
		return 1;
	abort_while_waiting(&t, false);
	abort_while_waiting(&t, true);
	test_end(&t);
	return 0;
}

RANKS_MAIN(run)
