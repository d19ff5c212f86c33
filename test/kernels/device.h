/*
 * device.h - what the tests of kernels share. They run on whichever libcuda.so.1 the
 * loader finds: the stand-in of this build, or with LD_LIBRARY_PATH a real one.
 */
#ifndef TEST_KERNELS_DEVICE_H
#define TEST_KERNELS_DEVICE_H

#include "kernels/kernels.h"

#include <criterion/criterion.h>
#include <cuda.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GOOD(call) cr_assert_eq(call, CUDA_SUCCESS, "%s", #call)
#define MAYBE_UNUSED __attribute__((unused))

static uint64_t rng;
static CUmodule module;
static int multiprocessors;

static inline uint64_t
rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng * UINT64_C(0x2545f4914f6cdd1d);
}

/* From 0 to n - 1. */
static inline size_t
below(size_t n)
{
	return (size_t)(rand64() % n);
}

/* The first device, with all kernels loaded; TEST_SEED draws other numbers. */
static MAYBE_UNUSED void
begin(void)
{
	const char *seed = getenv("TEST_SEED");
	const void *image;
	CUcontext ctx;
	size_t len;

	/* A kernel that is loaded when it is first called would wait for those that spin. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	rng = (seed ? strtoull(seed, NULL, 0) : 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	if (cuInit(0))
		cr_skip_test("no device");
	GOOD(cuDevicePrimaryCtxRetain(&ctx, 0));
	GOOD(cuCtxSetCurrent(ctx));
	GOOD(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	image = kernels_image(&len);
	GOOD(cuModuleLoadData(&module, image ? image : "of the stand-in"));
}

static inline CUfunction
function(const char *name)
{
	CUfunction f = NULL;

	cr_assert_eq(cuModuleGetFunction(&f, module, name), CUDA_SUCCESS, "%s", name);
	return f;
}

static inline void
launch(CUfunction f, unsigned blocks, unsigned threads, CUstream s, const void *argument)
{
	void *params[] = { (void *)(uintptr_t)argument };

	GOOD(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, params, NULL));
}

static MAYBE_UNUSED CUdeviceptr
memory(size_t len)
{
	CUdeviceptr p = 0;

	GOOD(cuMemAlloc(&p, len));
	GOOD(cuMemsetD8(p, 0, len));
	GOOD(cuStreamSynchronize(NULL));
	return p;
}

static MAYBE_UNUSED void *
pinned(size_t len)
{
	void *p = NULL;

	GOOD(cuMemHostAlloc(&p, len, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(p, 0, len);
	return p;
}

static MAYBE_UNUSED CUstream
stream(void)
{
	CUstream s = NULL;

	GOOD(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

/* Bytes, and among them what floats of all sizes do not take lightly: zeros, infinities, NaNs,
 * least and greatest numbers, ties, numbers that are alike. */
static MAYBE_UNUSED void
fill(void *p, size_t len)
{
	static const uint64_t special[] = { 0,
		                            UINT64_C(0x8000000080000000),
		                            UINT64_C(0x8000800080008000),
		                            UINT64_C(0x8080808080808080),
		                            UINT64_C(0x7f8000007f800000),
		                            UINT64_C(0x7c00fc007c00fc00),
		                            UINT64_C(0x7ff0000000000000),
		                            UINT64_C(0xfff0000000000000),
		                            UINT64_C(0x7f7fff7f7bff7b7e),
		                            UINT64_C(0x0000000100010101),
		                            UINT64_C(0x007fffff03ff0003),
		                            UINT64_C(0x7f80ff807f80ff80),
		                            UINT64_MAX };
	/* Numbers near 1 in fp64, fp32, bf16, fp16, fp8. */
	static const uint64_t one[][2] = {
		{ UINT64_C(0x3ff0000000000000), UINT64_C(0x000fffffffffffff) },
		{ UINT64_C(0x3f8000003f800000), UINT64_C(0x807fffff807fffff) },
		{ UINT64_C(0x3f803f803f803f80), UINT64_C(0x807f807f807f807f) },
		{ UINT64_C(0x3c003c003c003c00), UINT64_C(0x83ff83ff83ff83ff) },
		{ UINT64_C(0x3838383838383838), UINT64_C(0x8787878787878787) }
	};
	char *to = p;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t u = rand64(), k = rand64() % 16;

		if (k < 2)
			u = special[u % (sizeof(special) / sizeof(*special))];
		else if (k < 7)
			u = one[k - 2][0] | (u & one[k - 2][1]);
		memcpy(to + i, &u, len - i < 8 ? len - i : 8);
	}
}

#endif
