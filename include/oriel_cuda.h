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

/*
 * ---- Windows -----------------------------------------------------------
 *
 * oriel_win_create takes memory of a GPU as it takes any other: of the pool, of
 * cudaMalloc, any part of such an allocation; what each rank has is its own affair.
 * Ranks of the node reach it by the copy engine (transport "ce"); from other nodes,
 * and for atomics, it is ENOTSUP. oriel_win_ptr gives the address for this rank's GPU.
 * All calls of oriel.h take local buffers in memory of a GPU, too. They know nothing of
 * the streams that fill and read those: synchronize first. oriel_win_free may wait for
 * all that stands in the GPU's streams.
 */

/* oriel_win_alloc in the GPU's pool: zeroed memory of the window. Collective; ranks of one window
 * may take this, oriel_win_alloc and oriel_win_create by choice. */
int oriel_win_alloc_device(oriel_comm *comm, size_t size, size_t n_signals, void **base,
                           oriel_win **win);

/*
 * ---- On streams --------------------------------------------------------
 *
 * These calls enqueue, and return before anything has happened; none waits for a peer.
 * The stream is an order domain: its signal comes after its earlier puts to that target
 * in that window, and what it enqueues after a wait sees the data (doc/memory-model.md).
 * Buffers are the stream's until it has come past the call. oriel_flush says nothing of
 * them: synchronize the stream.
 *
 * The stream is one of the context's GPU; NULL is the default stream. Local buffers:
 * memory of a GPU, of oriel_mem_alloc, or pinned. Targets: ranks of the node, whose part
 * is memory of a GPU or of the host's pool. Others are ENOTSUP, and the detail says what
 * to use instead.
 *
 * Capture: all of them may be captured, and replayed any number of times. What they need
 * has to be there before: where a part of the window is memory of a GPU, making the
 * window sees to that; else make the first call on a target, and the first one with a
 * range of host memory, while the stream is not being captured. A captured call has its
 * values fixed, so slots must be reset: the waiting stream SETs its own slot to 0 when
 * it has done with the data, and a second pair of slots tells the sender so.
 *
 * Failure: when the communicator has failed or was aborted, a member has failed, or the
 * window is freed, streams do not wait any more: slots that they wait for are
 * overwritten (with value + 2^62 for GE, with the value for EQ; of EQ the last 4
 * different values of a slot are known), and the data is not there. After the stream was
 * synchronized oriel_flush on the window tells: it returns the failure, and so does
 * every wait for such a slot. oriel_signal_read shows what the slot holds. Synchronize
 * the streams before oriel_win_free.
 *
 * Errors: those of the calls of oriel.h of the same name; EPEER, EABORTED (nothing was
 * enqueued); ENOTSUP; EGPU.
 */

/* oriel_put. */
int oriel_put_on_stream(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                        struct CUstream_st *stream);
/* oriel_get. */
int oriel_get_on_stream(oriel_win *win, int target, size_t disp, void *dst, size_t len,
                        struct CUstream_st *stream);
/* oriel_put_signal. ENOTSUP for ADD: streams can only SET. */
int oriel_put_signal_on_stream(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                               size_t slot, enum oriel_signal_op op, uint64_t value,
                               struct CUstream_st *stream);
/* oriel_signal. The target may be this rank itself: to reset a slot. */
int oriel_signal_on_stream(oriel_win *win, int target, size_t slot, enum oriel_signal_op op,
                           uint64_t value, struct CUstream_st *stream);
/* The stream waits until this rank's own slot is value (ORIEL_EQ) or at least value (ORIEL_GE);
 * other comparisons, and values above ORIEL_SIGNAL_MAX, are EINVAL. It consumes nothing. */
int oriel_signal_wait_on_stream(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value,
                                struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
