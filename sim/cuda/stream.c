/*
 * stream.c - the driver's functions of streams: copies, fills, words, waits.
 */
#include "sim/cuda/standin.h"

#include <string.h>

/* The stream of a call, or what is wrong with it. */
#define ENTER_STREAM(s, handle)                                                                    \
	ENTER_CONTEXT(dev);                                                                        \
	struct CUstream_st *s = standin_stream(dev, handle);                                       \
	if (!(s))                                                                                  \
	return CUDA_ERROR_INVALID_HANDLE

CUresult
cuStreamCreate(CUstream *out, unsigned flags)
{
	ENTER_CONTEXT(dev);
	if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	*out = standin_stream_new(dev, !(flags & CU_STREAM_NON_BLOCKING));
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	(void)priority;
	return cuStreamCreate(out, flags);
}

CUresult
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	ENTER();
	*least = 0;
	*greatest = -5;
	return CUDA_SUCCESS;
}

/* Does not wait for what the stream still has to do. */
CUresult
cuStreamDestroy(CUstream handle)
{
	ENTER();
	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD ||
	    handle->capture)
		return CUDA_ERROR_INVALID_HANDLE;
	handle->gone = true;
	return CUDA_SUCCESS;
}

CUresult
cuStreamSynchronize(CUstream handle)
{
	ENTER_STREAM(s, handle);
	CUresult rc = standin_capture_asked(s);

	return rc ? rc : standin_drain(s);
}

CUresult
cuStreamQuery(CUstream handle)
{
	ENTER_STREAM(s, handle);
	CUresult rc = standin_capture_asked(s);

	if (!rc && __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) != s->issued)
		rc = CUDA_ERROR_NOT_READY;
	return rc;
}

CUresult
cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
	ENTER_STREAM(s, handle);
	*ctx = &s->dev->primary;
	return CUDA_SUCCESS;
}

CUresult
cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *arg)
{
	ENTER_STREAM(s, handle);
	struct op op = { .kind = OP_HOST, .fn = fn, .fn_arg = arg };

	return fn ? standin_enqueue(s, &op) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Copies ---- */

static bool
is_pageable(CUdeviceptr p)
{
	return standin_home(p) < 0 && !standin_is_pinned(p);
}

static CUresult
copy(struct CUstream_st *s, CUdeviceptr dst, CUdeviceptr src, size_t len)
{
	struct op op = { .kind = OP_COPY,
		         .dst = dst,
		         .src = src,
		         .knows_dst = standin_knows(dst),
		         .knows_src = standin_knows(src),
		         .len = len };
	CUresult rc;

	if (!len)
		return CUDA_SUCCESS;
	if (!standin_host_of(s->dev, dst, len, false) || !standin_host_of(s->dev, src, len, false))
		return CUDA_ERROR_INVALID_VALUE;
	rc = standin_enqueue(s, &op);
	/* The driver waits for the stream before it copies to or from pageable memory. */
	if (!rc && !s->capture && (is_pageable(dst) || is_pageable(src)))
		rc = standin_drain(s);
	return rc;
}

static CUresult
copy_now(struct device *dev, CUdeviceptr dst, CUdeviceptr src, size_t len)
{
	struct CUstream_st *s = standin_stream(dev, NULL);
	CUresult rc = standin_capture_forbids();

	if (rc)
		return rc;
	rc = s ? copy(s, dst, src, len) : CUDA_ERROR_OUT_OF_MEMORY;

	return rc ? rc : standin_drain(s);
}

CUresult
cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t len)
{
	ENTER_CONTEXT(dev);
	return copy_now(dev, dst, src, len);
}

CUresult
cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t len)
{
	ENTER_CONTEXT(dev);
	if (len && !standin_host_of(dev, dst, len, true))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_now(dev, dst, (uintptr_t)src, len);
}

CUresult
cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t len)
{
	ENTER_CONTEXT(dev);
	if (len && !standin_host_of(dev, src, len, true))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_now(dev, (uintptr_t)dst, src, len);
}

CUresult
cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream handle)
{
	ENTER_STREAM(s, handle);
	return copy(s, dst, src, len);
}

CUresult
cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t len, CUstream handle)
{
	ENTER_CONTEXT(dev);
	if (len && !standin_host_of(dev, dst, len, true))
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemcpyAsync(dst, (uintptr_t)src, len, handle);
}

CUresult
cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t len, CUstream handle)
{
	ENTER_CONTEXT(dev);
	if (len && !standin_host_of(dev, src, len, true))
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemcpyAsync((uintptr_t)dst, src, len, handle);
}

CUresult
cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream handle)
{
	return cuMemcpyAsync(dst, src, len, handle);
}

CUresult
cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                  size_t len, CUstream handle)
{
	if (!dst_ctx || !src_ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return cuMemcpyAsync(dst, src, len, handle);
}

/* ---- Fills ---- */

static CUresult
fill(struct CUstream_st *s, CUdeviceptr dst, uint64_t value, unsigned width, size_t n)
{
	struct op op = {
		.kind = OP_FILL, .dst = dst, .value = value, .bytes = width, .len = n * width
	};

	if (dst % width || (n && !standin_host_of(s->dev, dst, op.len, true)))
		return CUDA_ERROR_INVALID_VALUE;
	return n ? standin_enqueue(s, &op) : CUDA_SUCCESS;
}

CUresult
cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream handle)
{
	ENTER_STREAM(s, handle);
	return fill(s, dst, value, 1, n);
}

CUresult
cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream handle)
{
	ENTER_STREAM(s, handle);
	return fill(s, dst, value, 4, n);
}

CUresult
cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t n)
{
	ENTER_STREAM(s, NULL);
	return fill(s, dst, value, 1, n);
}

/* ---- Words ---- */

static CUresult
word(struct CUstream_st *s, enum op_kind kind, CUdeviceptr at, uint64_t value, unsigned bytes,
     unsigned flags)
{
	struct op op = { .kind = kind, .dst = at, .value = value, .bytes = bytes, .flags = flags };

	if (at % bytes || !standin_host_of(s->dev, at, bytes, true))
		return CUDA_ERROR_INVALID_VALUE;
	return standin_enqueue(s, &op);
}

CUresult
cuStreamWriteValue32(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	ENTER_STREAM(s, handle);
	return word(s, OP_WRITE, at, value, 4, flags);
}

CUresult
cuStreamWriteValue64(CUstream handle, CUdeviceptr at, cuuint64_t value, unsigned flags)
{
	ENTER_STREAM(s, handle);
	return word(s, OP_WRITE, at, value, 8, flags);
}

CUresult
cuStreamWaitValue32(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	ENTER_STREAM(s, handle);
	return word(s, OP_AWAIT, at, value, 4, flags);
}

CUresult
cuStreamWaitValue64(CUstream handle, CUdeviceptr at, cuuint64_t value, unsigned flags)
{
	ENTER_STREAM(s, handle);
	return word(s, OP_AWAIT, at, value, 8, flags);
}

static CUresult
batched(struct CUstream_st *s, const CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return word(s, OP_AWAIT, p->waitValue.address, p->waitValue.value, 4,
		            p->waitValue.flags);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return word(s, OP_AWAIT, p->waitValue.address, p->waitValue.value64, 8,
		            p->waitValue.flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return word(s, OP_WRITE, p->writeValue.address, p->writeValue.value, 4,
		            p->writeValue.flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return word(s, OP_WRITE, p->writeValue.address, p->writeValue.value64, 8,
		            p->writeValue.flags);
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult
cuStreamBatchMemOp(CUstream handle, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags)
{
	ENTER_STREAM(s, handle);
	CUresult rc = flags || (n && !p) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	for (unsigned i = 0; i < n && !rc; i++)
		rc = batched(s, &p[i]);
	return rc;
}
