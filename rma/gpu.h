/*
 * gpu.h - the GPU of a context: one device, its driver and what hangs off it.
 *
 * A context has at most one GPU (a process that drives several has several
 * contexts). It is opened at oriel_init if the calling thread has a CUDA context,
 * or if ORIEL_CUDA names a device; else by the first call that needs one. Files
 * that include cuda.h include rma/gpu_cuda.h; this header is for all others, and
 * what it declares is there without CUDA, too (rma/no_gpu.c).
 */
#ifndef RMA_GPU_H
#define RMA_GPU_H

#include "rma/ctx.h"

struct gpu;
struct gpu_peer;

/* At the end of oriel_init. Errors only if ORIEL_CUDA asks for what is not there. */
int gpu_init(oriel_ctx *ctx);
/* Nothing uses its memory or streams any more. */
void gpu_close(oriel_ctx *ctx);
/* Opens it if it is not open: the calling thread's device, or the one that ORIEL_CUDA names.
 * ENOTSUP says why there is none. */
int gpu_need(oriel_ctx *ctx, struct gpu **gpu);
/* NULL: not open. */
static inline struct gpu *
gpu_of(const oriel_ctx *ctx)
{
	return load_acquire(&ctx->gpu);
}
/* In plan/: the helper's look at communicators that streams wait on. Takes ctx->streams_lock. */
void stream_watch(oriel_ctx *ctx);
/* p is device memory, of whatever device; false without a GPU. */
bool gpu_holds(const oriel_ctx *ctx, const void *p);
/* Its pool of device memory; NULL: not open. */
struct pool *gpu_pool(const oriel_ctx *ctx);
/* The device's number; -1: not open. */
int gpu_device(const oriel_ctx *ctx);
/* Waits for what stands in a stream of the context's device, unless it is being captured. */
struct CUstream_st;
void gpu_drain(const oriel_ctx *ctx, struct CUstream_st *stream);
/* Nothing uses this peer's memory any more: what is mapped and pinned of it goes. */
void gpu_peer_free(struct peer *peer);
/* Lines for oriel_info. */
void gpu_say(oriel_ctx *ctx, const struct out *out);

#endif
