/*
 * gpu_test.h - what the tests of GPUs share: the driver, buffers of every kind,
 * filled and checked through the driver, and a stream of the rank's own.
 */
#ifndef TEST_RANKS_GPU_TEST_H
#define TEST_RANKS_GPU_TEST_H

#include "oriel_cuda.h"
#include "test/ranks/ranks.h"

#include "rma/gpu_mem.h"

#include <dlfcn.h>
#include <sys/mman.h>

/* The driver's functions that only tests call. */
#define TEST_SYMBOLS(X)                                                                            \
	X(cuStreamBeginCapture)                                                                    \
	X(cuStreamEndCapture)                                                                      \
	X(cuGraphInstantiate)                                                                      \
	X(cuGraphLaunch)                                                                           \
	X(cuGraphExecDestroy)                                                                      \
	X(cuGraphDestroy)                                                                          \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemFreeHost)

struct test {
	struct ranks *r;
	struct gpu *g;
	CUstream stream; /* the test's */
	int right, left;
#define TEST_FIELD(f) __typeof__(f) *f;
	TEST_SYMBOLS(TEST_FIELD)
#undef TEST_FIELD
};

/* The driver's call succeeds; else no rank can go on. */
#define GOOD(call) NEED(!gpu_check(call, "%s", #call), "%s", oriel_detail())

static inline CUstream
test_stream(void)
{
	CUstream s = NULL;

	GOOD(CU(cuStreamCreateWithPriority)(&s, CU_STREAM_NON_BLOCKING, 0));
	return s;
}

static inline bool
test_begin(struct test *t, struct ranks *r)
{
	bool entered, all = true;
	void *lib;

	*t = (struct test){ .r = r,
		            .right = (r->rank + 1) % r->size,
		            .left = (r->rank + r->size - 1) % r->size };
	if (!OK(gpu_need(r->ctx, &t->g)) || !OK(gpu_enter(t->g, &entered)))
		return false;
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
#define TEST_FIND(f) all &= lib && (*(void **)&t->f = dlsym(lib, CUDA_NAME(f))) != NULL;
	TEST_SYMBOLS(TEST_FIND)
#undef TEST_FIND
	t->stream = test_stream();
	return NEED(all, "the driver lacks a function") && t->stream;
}

static inline void
test_end(struct test *t)
{
	CUcontext ours;

	GOOD(CU(cuStreamSynchronize)(t->stream));
	GOOD(CU(cuStreamDestroy)(t->stream));
	CU(cuCtxPopCurrent)(&ours);
}

/* ---- Buffers ---- */

enum kind {
	DEVICE_POOL = 0,
	DEVICE_PLAIN, /* cuMemAlloc, with something before and behind */
	HOST_POOL,
	HOST_PLAIN,
	HOST_PINNED,
	N_KINDS
};
#define AROUND 4096 /* of DEVICE_PLAIN */

struct buffer {
	enum kind kind;
	size_t len;
	char *p;
};

static inline bool
buffer_make(const struct test *t, enum kind kind, size_t len, struct buffer *b)
{
	CUdeviceptr at;
	void *p = NULL;
	bool ok;

	switch (kind) {
	case DEVICE_POOL:
		ok = OK(oriel_mem_alloc_device(t->r->ctx, len, 0, &p));
		break;
	case DEVICE_PLAIN:
		ok = GOOD(CU(cuMemAlloc)(&at, len + 2 * AROUND));
		p = ok ? (char *)at + AROUND : NULL;
		break;
	case HOST_POOL:
		ok = OK(oriel_mem_alloc(t->r->ctx, len, 0, &p));
		break;
	case HOST_PINNED:
		ok = GOOD(t->cuMemHostAlloc(&p, len, 0));
		break;
	default:
		p = malloc(len);
		ok = NEED(p, "no memory");
	}
	*b = (struct buffer){ kind, len, p };
	return ok;
}

static inline void
buffer_free(const struct test *t, struct buffer *b)
{
	if (b->kind == DEVICE_PLAIN)
		GOOD(CU(cuMemFree)((CUdeviceptr)b->p - AROUND));
	else if (b->kind == HOST_PINNED)
		GOOD(t->cuMemFreeHost(b->p));
	else if (b->kind == HOST_PLAIN)
		free(b->p);
	else
		OK(oriel_mem_free(t->r->ctx, b->p));
}

/* Copies with whatever memory in the stream's order, and waits. */
static inline bool
copy_and_wait(CUstream s, void *dst, const void *src, size_t len)
{
	return (!len || GOOD(CU(cuMemcpyAsync)((CUdeviceptr)dst, (CUdeviceptr)src, len, s))) &&
	       GOOD(CU(cuStreamSynchronize)(s));
}

static inline bool
copy_now(const struct test *t, void *dst, const void *src, size_t len)
{
	return !len || copy_and_wait(t->stream, dst, src, len);
}

/* Memory of cuMemAlloc, which the driver frees. */
static inline unsigned char *
test_take(size_t len)
{
	CUdeviceptr p = 0;

	GOOD(CU(cuMemAlloc)(&p, len ? len : 1));
	return (unsigned char *)(uintptr_t)p;
}

static inline void
test_drop(void *p)
{
	GOOD(CU(cuMemFree)((CUdeviceptr)(uintptr_t)p));
}

static inline bool
is_device(enum kind kind)
{
	return kind == DEVICE_POOL || kind == DEVICE_PLAIN;
}

static inline bool
buffer_write(const struct test *t, struct buffer *b, size_t at, const void *src, size_t len)
{
	if (is_device(b->kind))
		return copy_now(t, b->p + at, src, len);
	memcpy(b->p + at, src, len);
	return true;
}

static inline bool
buffer_read(const struct test *t, const struct buffer *b, size_t at, void *dst, size_t len)
{
	if (is_device(b->kind))
		return copy_now(t, dst, b->p + at, len);
	memcpy(dst, b->p + at, len);
	return true;
}

/* ---- Patterns ---- */

static inline unsigned char
byte_of(uint64_t seed, size_t i)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + i / 8;

	return (unsigned char)(ranks_next(&state) >> i % 8 * 8);
}

static inline void
pattern(void *p, uint64_t seed, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *)p)[i] = byte_of(seed, i);
}

/* The first byte that differs, or len. */
static inline size_t
mismatch(const void *a, const void *b, size_t len)
{
	size_t i = 0;

	while (i < len && ((const char *)a)[i] == ((const char *)b)[i])
		i++;
	return i;
}

#endif
