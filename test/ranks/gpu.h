/*
 * gpu.h - GPU tests: this rank's device, streams, memory that is filled and looked
 * at. The driver is the stand-in or the real one, as the loader finds it.
 */
#ifndef TEST_RANKS_GPU_H
#define TEST_RANKS_GPU_H

#include "oriel_cuda.h"
#include "rma/cuda_load.h"
#include "test/ranks/ranks.h"

#include <dlfcn.h>

#define GOOD(call) ranks_check_cuda((call), #call, __FILE__, __LINE__)

static inline bool
ranks_check_cuda(CUresult rc, const char *call, const char *file, int line)
{
	const char *name = NULL;

	if (rc)
		CU(cuGetErrorName)(rc, &name);
	return CHECK(!rc, "%s:%d: %s: %s", file, line, call, name ? name : "?");
}

/* The device that ORIEL_CUDA=on gives this rank, current on this thread. */
static inline bool
gpu_begin(struct ranks *r, CUdevice *dev)
{
	int n = 0, node_rank = 0, node_size = 0;
	CUcontext cu;

	if (!OK(oriel_comm_node(r->world, &node_rank, &node_size)) || cuda_load())
		return false;
	return GOOD(CU(cuDeviceGetCount)(&n)) && GOOD(CU(cuDeviceGet)(dev, node_rank % n)) &&
	       GOOD(CU(cuDevicePrimaryCtxRetain)(&cu, *dev)) && GOOD(CU(cuCtxPushCurrent)(cu));
}

static inline void
gpu_end(CUdevice dev)
{
	CUcontext cu;

	GOOD(CU(cuCtxPopCurrent)(&cu));
	GOOD(CU(cuDevicePrimaryCtxRelease)(dev));
}

/* Functions that the library does not use. */
#define GPU_SYMBOLS(X)                                                                             \
	X(cuGraphDestroy)                                                                          \
	X(cuGraphExecDestroy)                                                                      \
	X(cuGraphInstantiate)                                                                      \
	X(cuGraphLaunch)                                                                           \
	X(cuStreamBeginCapture)                                                                    \
	X(cuMemFreeHost)                                                                           \
	X(cuMemHostAlloc)                                                                          \
	X(cuStreamEndCapture)

static struct {
#define GPU_FIELD(f) __typeof__(f) *f;
	GPU_SYMBOLS(GPU_FIELD)
#undef GPU_FIELD
} gpu_lib;
#define GPU(f) (gpu_lib.f)

static inline bool
gpu_more_symbols(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	bool all = lib != NULL;

#define GPU_FIND(f)                                                                                \
	*(void **)&gpu_lib.f = lib ? dlsym(lib, CUDA_NAME(f)) : NULL;                              \
	all = all && gpu_lib.f;
	GPU_SYMBOLS(GPU_FIND)
#undef GPU_FIND
	return CHECK(all, "the driver lacks functions");
}

static inline CUstream
gpu_stream(void)
{
	CUstream s = NULL;

	GOOD(CU(cuStreamCreateWithPriority)(&s, CU_STREAM_NON_BLOCKING, 0));
	return s;
}

static inline unsigned char *
gpu_take(size_t len)
{
	CUdeviceptr p = 0;

	NEED(!CU(cuMemAlloc)(&p, len ? len : 1), "%zu bytes of device memory", len);
	return (unsigned char *)(uintptr_t)p;
}

static inline void
gpu_drop(void *p)
{
	GOOD(CU(cuMemFree)((CUdeviceptr)(uintptr_t)p));
}

/* In the stream's order; the host's memory is free when it returns. */
static inline void
gpu_write(CUstream s, void *to, const void *from, size_t len)
{
	if (len)
		GOOD(CU(cuMemcpyHtoDAsync)((CUdeviceptr)(uintptr_t)to, from, len, s));
	GOOD(CU(cuStreamSynchronize)(s));
}

static inline void
gpu_read(CUstream s, void *to, const void *from, size_t len)
{
	if (len)
		GOOD(CU(cuMemcpyDtoHAsync)(to, (CUdeviceptr)(uintptr_t)from, len, s));
	GOOD(CU(cuStreamSynchronize)(s));
}

#endif
