/*
 * cuda_load.h - the CUDA driver, opened at run time.
 *
 * One binary serves machines with and without a GPU, and a stand-in (sim/cuda) can
 * take the driver's place. A function is called as CU(cuMemAlloc)(&p, n), by the
 * name that cuda.h documents; the header's macros choose the version.
 *
 * Opened once a process and never closed; the table is what a linker would have
 * filled in.
 */
#ifndef RMA_CUDA_LOAD_H
#define RMA_CUDA_LOAD_H

#include <cuda.h>
#include <stdbool.h>

/* Every function of the driver that is used. */
#define CUDA_SYMBOLS(X)                                                                            \
	X(cuCtxEnablePeerAccess)                                                                   \
	X(cuCtxGetCurrent)                                                                         \
	X(cuCtxGetDevice)                                                                          \
	X(cuCtxPopCurrent)                                                                         \
	X(cuCtxPushCurrent)                                                                        \
	X(cuDeviceCanAccessPeer)                                                                   \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetAttribute)                                                                    \
	X(cuDeviceGetCount)                                                                        \
	X(cuDeviceGetName)                                                                         \
	X(cuDeviceGetUuid)                                                                         \
	X(cuDevicePrimaryCtxRelease)                                                               \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuDriverGetVersion)                                                                      \
	X(cuEventCreate)                                                                           \
	X(cuEventDestroy)                                                                          \
	X(cuEventQuery)                                                                            \
	X(cuEventRecord)                                                                           \
	X(cuEventSynchronize)                                                                      \
	X(cuGetErrorName)                                                                          \
	X(cuGetErrorString)                                                                        \
	X(cuInit)                                                                                  \
	X(cuIpcCloseMemHandle)                                                                     \
	X(cuIpcGetMemHandle)                                                                       \
	X(cuIpcOpenMemHandle)                                                                      \
	X(cuLaunchKernel)                                                                          \
	X(cuMemAddressFree)                                                                        \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAlloc)                                                                              \
	X(cuMemCreate)                                                                             \
	X(cuMemExportToShareableHandle)                                                            \
	X(cuMemFree)                                                                               \
	X(cuMemGetAddressRange)                                                                    \
	X(cuMemGetAllocationGranularity)                                                           \
	X(cuMemHostGetDevicePointer)                                                               \
	X(cuMemHostRegister)                                                                       \
	X(cuMemHostUnregister)                                                                     \
	X(cuMemImportFromShareableHandle)                                                          \
	X(cuMemMap)                                                                                \
	X(cuMemRelease)                                                                            \
	X(cuMemSetAccess)                                                                          \
	X(cuMemUnmap)                                                                              \
	X(cuMemcpyAsync)                                                                           \
	X(cuMemcpyDtoDAsync)                                                                       \
	X(cuMemcpyDtoHAsync)                                                                       \
	X(cuMemcpyHtoDAsync)                                                                       \
	X(cuMemsetD8Async)                                                                         \
	X(cuModuleGetFunction)                                                                     \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleUnload)                                                                          \
	X(cuPointerGetAttribute)                                                                   \
	X(cuStreamCreateWithPriority)                                                              \
	X(cuStreamDestroy)                                                                         \
	X(cuStreamGetCtx)                                                                          \
	X(cuStreamIsCapturing)                                                                     \
	X(cuStreamQuery)                                                                           \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamWaitEvent)                                                                       \
	X(cuStreamWaitValue64)                                                                     \
	X(cuStreamWriteValue64)

/* Names get their version before they are pasted: two steps. */
#define CUDA_NAME_(f) #f
#define CUDA_NAME(f) CUDA_NAME_(f)

struct cuda_symbols {
#define CUDA_FIELD(f) __typeof__(f) *f;
	CUDA_SYMBOLS(CUDA_FIELD)
#undef CUDA_FIELD
};

extern struct cuda_symbols cuda_lib;
#define CU(f) (cuda_lib.f)

/*
 * ENOTSUP, and the detail names the library or the function that is not there.
 * Initializes the driver, which takes a while if nobody in the process has.
 */
int cuda_load(void);
/* Some of the process uses the driver already; opens nothing. */
bool cuda_loaded(void);

#endif
