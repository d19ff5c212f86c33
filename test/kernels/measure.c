/*
 * measure.c - how long kernels take on a device. It prints; nothing is asserted of
 * times. kernels/README.md has the figures.
 */
#include "test/kernels/device.h"

#include <stdio.h>

#define FOLD_BYTES ((size_t)64 << 20)
#define MOST ((size_t)64 << 10)
#define RANKS 2
#define CALLS 20 /* in a graph */
#define REPLAYS 51

static void
begin_measuring(void)
{
	begin();
	if (multiprocessors < 16)
		cr_skip_test("times of the stand-in are nobody's");
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static int
by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static float
median(float *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_size);
	return v[n / 2];
}

/* Milliseconds of a launch; the median of several. */
static float
time_launch(CUfunction f, unsigned blocks, CUstream s, const void *argument)
{
	CUevent first, last;
	float ms[9];

	GOOD(cuEventCreate(&first, 0));
	GOOD(cuEventCreate(&last, 0));
	for (int i = 0; i < 9; i++) {
		GOOD(cuEventRecord(first, s));
		launch(f, blocks, KERNEL_THREADS, s, argument);
		GOOD(cuEventRecord(last, s));
		GOOD(cuEventSynchronize(last));
		GOOD(cuEventElapsedTime(&ms[i], first, last));
	}
	GOOD(cuEventDestroy(first));
	GOOD(cuEventDestroy(last));
	return median(ms, 9);
}

static void
random_memory(CUdeviceptr p, size_t len)
{
	char *host = pinned(len);

	fill(host, len);
	GOOD(cuMemcpyHtoD(p, host, len));
	GOOD(cuMemFreeHost(host));
}

Test(kernels_measure, folds)
{
	static const int types[] = { ORIEL_FLOAT,  ORIEL_BFLOAT16,    ORIEL_FLOAT16,
		                     ORIEL_DOUBLE, ORIEL_FLOAT8_E4M3, ORIEL_INT8 };
	static const unsigned grids[] = { 1, 2, 4, 8, 16, 32, 132, 264 };
	CUdeviceptr src, dst;
	CUstream s;

	begin_measuring();
	s = stream();
	src = memory(2 * FOLD_BYTES);
	dst = memory(FOLD_BYTES);
	random_memory(src, 2 * FOLD_BYTES);
	printf("bytes read and written, GB/s, 2 terms of 64 MiB, sum, blocks of %d:\n",
	       KERNEL_THREADS);
	for (size_t t = 0; t <= sizeof(types) / sizeof(*types); t++) {
		bool copies = t == sizeof(types) / sizeof(*types);
		const char *name = copies ? "copy" : kernels_fold_name(types[t]);
		struct kernel_fold a = { .dst = dst,
			                 .src = src,
			                 .stride = (int64_t)FOLD_BYTES,
			                 .terms = 2,
			                 .op = KERNEL_SUM };
		struct kernel_copy copy = { dst, src, FOLD_BYTES };
		size_t size =
		        !copies && (types[t] == ORIEL_FLOAT8_E4M3 || types[t] == ORIEL_INT8)   ? 1
		        : !copies && (types[t] == ORIEL_BFLOAT16 || types[t] == ORIEL_FLOAT16) ? 2
		        : !copies && types[t] == ORIEL_DOUBLE                                  ? 8
		                                                                               : 4;

		a.count = FOLD_BYTES / size;
		printf("%-18s", name);
		for (size_t g = 0; g < sizeof(grids) / sizeof(*grids); g++) {
			float ms = time_launch(function(name), grids[g], s,
			                       copies ? (const void *)&copy : &a);

			printf(" %u: %.0f", grids[g],
			       (double)(copies ? 2 : 3) * (double)FOLD_BYTES / (double)ms / 1e6);
		}
		printf("\n");
	}
}

/* ---- ll_exchange ---- */

static struct {
	CUdeviceptr scratch[RANKS], state[RANKS], in[RANKS], out[RANKS];
	CUstream s[RANKS];
	uint32_t *words; /* abort, status */
	CUfunction f;
} job;

static CUgraphExec
graph_of(int r, int mode, size_t bytes, unsigned blocks, unsigned threads)
{
	struct kernel_exchange a = { .state = job.state[r],
		                     .slot = exchange_slot(MOST),
		                     .in = job.in[r],
		                     .out = job.out[r],
		                     .bytes = bytes,
		                     .in_stride = (int64_t)bytes,
		                     .out_stride = (int64_t)bytes,
		                     .abort = (uintptr_t)&job.words[0],
		                     .status = (uintptr_t)&job.words[1],
		                     .rank = r,
		                     .ranks = RANKS,
		                     .mode = mode,
		                     .type = ORIEL_FLOAT,
		                     .op = KERNEL_SUM };
	CUgraphExec exec;
	CUgraph graph;

	for (int q = 0; q < RANKS; q++)
		a.scratch[q] = job.scratch[q];
	GOOD(cuStreamBeginCapture(job.s[r], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < CALLS; i++)
		launch(job.f, blocks, threads, job.s[r], &a);
	GOOD(cuStreamEndCapture(job.s[r], &graph));
	GOOD(cuGraphInstantiate(&exec, graph, 0));
	GOOD(cuGraphDestroy(graph));
	return exec;
}

/* Microseconds a call: both ranks' graphs at the same time. */
static float
time_exchange(int mode, size_t bytes, unsigned blocks, unsigned threads)
{
	CUgraphExec exec[RANKS];
	CUevent first, last;
	float ms[REPLAYS];

	GOOD(cuEventCreate(&first, 0));
	GOOD(cuEventCreate(&last, 0));
	for (int r = 0; r < RANKS; r++)
		exec[r] = graph_of(r, mode, bytes, blocks, threads);
	for (int i = 0; i < REPLAYS; i++) {
		/* The first call waits for the second rank, so one call more than the others is
		 * timed with it. */
		GOOD(cuGraphLaunch(exec[1], job.s[1]));
		GOOD(cuEventRecord(first, job.s[0]));
		GOOD(cuGraphLaunch(exec[0], job.s[0]));
		GOOD(cuEventRecord(last, job.s[0]));
		GOOD(cuEventSynchronize(last));
		GOOD(cuStreamSynchronize(job.s[1]));
		GOOD(cuEventElapsedTime(&ms[i], first, last));
	}
	for (int r = 0; r < RANKS; r++)
		GOOD(cuGraphExecDestroy(exec[r]));
	GOOD(cuEventDestroy(first));
	GOOD(cuEventDestroy(last));
	return median(ms, REPLAYS) * 1000 / CALLS;
}

Test(kernels_measure, exchanges)
{
	static const unsigned grids[][2] = { { 1, 64 },  { 1, 512 },  { 2, 512 }, { 4, 512 },
		                             { 8, 512 }, { 16, 512 }, { 32, 256 } };
	static const char *const modes[] = { "gather", "alltoall", "reduce (float sum)" };

	begin_measuring();
	job.f = function("ll_exchange");
	job.words = pinned(64);
	for (int r = 0; r < RANKS; r++) {
		job.scratch[r] = memory(exchange_scratch(RANKS, MOST));
		job.state[r] = memory(sizeof(struct exchange_state));
		job.in[r] = memory(RANKS * MOST);
		job.out[r] = memory(RANKS * MOST);
		random_memory(job.in[r], RANKS * MOST);
		job.s[r] = stream();
	}
	for (int mode = EXCHANGE_GATHER; mode <= EXCHANGE_REDUCE; mode++) {
		printf("%s, %d ranks on a device, us a call in a graph of %d:\n", modes[mode],
		       RANKS, CALLS);
		for (size_t bytes = 0; bytes <= MOST;
		     bytes = bytes ? bytes * (bytes < 4096 ? 8 : 2) : 8) {
			printf("%6zu B", bytes);
			for (size_t g = 0; g < sizeof(grids) / sizeof(*grids); g++)
				printf(" %ux%u: %.2f", grids[g][0], grids[g][1],
				       (double)time_exchange(mode, bytes, grids[g][0],
				                             grids[g][1]));
			printf("\n");
		}
	}
}
