/*
 * oriel_cuda.h - memory of GPUs; collectives on their streams.
 *
 * A context has at most one GPU: that of the CUDA context of the thread that first
 * needs it, or the one that ORIEL_CUDA names (oriel_info shows which, and why not).
 * This header does not include cuda.h; a stream is what the driver calls CUstream and
 * the runtime cudaStream_t. A library that was built without CUDA's headers, or runs
 * on a machine without a GPU, returns ENOTSUP.
 *
 * Conventions are those of oriel.h.
 */
#ifndef ORIEL_CUDA_H
#define ORIEL_CUDA_H

#include "oriel.h"
#include "oriel_cuda_coll.h"

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/*
 * ---- Memory ------------------------------------------------------------
 */

/*
 * Device memory of the context's GPU, from a pool whose slabs the ranks of the node
 * map once. Local, not collective. align: a power of two, 0 for 64. len 0 gives a
 * pointer that may be freed. Contents are undefined. Freed by oriel_mem_free when no
 * stream and no window uses it any more; the GPU's memory stays with the pool until
 * the context ends. Errors: EINVAL, ENOMEM (ORIEL_GPU_POOL_MAX, or the GPU is full),
 * ENOTSUP (no GPU), EGPU.
 */
int oriel_mem_alloc_device(oriel_ctx *ctx, size_t len, size_t align, void **ptr);
/* oriel_mem_stats of that pool; its registrations are 0. Local. Errors: EHANDLE, EINVAL, ENOTSUP.
 */
int oriel_mem_stats_device(oriel_ctx *ctx, struct oriel_mem_stats *stats);

/*
 * For PyTorch's CUDAPluggableAllocator, best below a torch.cuda.MemPool: tensors of
 * it then lie in the pool, and peers reach them. The two functions are told no
 * context, so the process keeps one for each device.
 *
 * Makes ctx the one for its device, instead of any other. A context that ends takes
 * itself out; its tensors must be gone by then. NULL: no device has one any more.
 * Errors: EHANDLE, ENOTSUP (no GPU), EGPU.
 */
int oriel_torch_use(oriel_ctx *ctx);
/* Memory of a device's pool; NULL if there is no context for the device, or no memory.
 * oriel_detail() says why. */
void *oriel_torch_alloc(ssize_t size, int device, struct CUstream_st *stream);
/*
 * Waits for what was enqueued in the stream, unless it is being captured, as cudaFree
 * would, and gives the memory back. Other streams must have finished with it: torch's
 * caching allocator, which a MemPool has, keeps its blocks by stream and sees to that.
 */
void oriel_torch_free(void *ptr, ssize_t size, int device, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
