/*
 * torch.c - allocation without a context, as PyTorch's pluggable allocator calls it.
 *
 * The table is the process's: a device has one context for it.
 */
#include "rma/torch.h"

#include "oriel_cuda.h"
#include "rma/gpu.h"

#define DEVICES 64

static struct {
	/* For reading while a context is used: it cannot end meanwhile, and frees may wait for
	 * streams that wait for another thread's allocation. */
	pthread_rwlock_t lock;
	oriel_ctx *ctx[DEVICES];
} torch = { .lock = PTHREAD_RWLOCK_INITIALIZER };

void
torch_forget(const oriel_ctx *ctx)
{
	pthread_rwlock_wrlock(&torch.lock);
	for (int d = 0; d < DEVICES; d++)
		if (!ctx || torch.ctx[d] == ctx)
			torch.ctx[d] = NULL;
	pthread_rwlock_unlock(&torch.lock);
}

int
oriel_torch_use(oriel_ctx *ctx)
{
	struct gpu *g;
	int rc, dev;

	if (!ctx) {
		torch_forget(NULL);
		return 0;
	}
	rc = ctx_enter(ctx);
	if (!rc)
		rc = gpu_need(ctx, &g);
	if (rc)
		return rc;
	dev = gpu_device(ctx);
	if (dev >= DEVICES)
		return fail(ORIEL_ENOTSUP, "GPU %d: at most %d are known", dev, DEVICES);
	pthread_rwlock_wrlock(&torch.lock);
	torch.ctx[dev] = ctx;
	pthread_rwlock_unlock(&torch.lock);
	return 0;
}

/* Under the lock. */
static oriel_ctx *
context_of(int device)
{
	oriel_ctx *ctx = device >= 0 && device < DEVICES ? torch.ctx[device] : NULL;

	if (!ctx)
		fail(ORIEL_ENOTSUP, "no context was given to oriel_torch_use for GPU %d", device);
	return ctx && !ctx_enter(ctx) ? ctx : NULL;
}

void *
oriel_torch_alloc(ssize_t size, int device, struct CUstream_st *stream)
{
	void *ptr = NULL;
	oriel_ctx *ctx;

	(void)stream;
	if (size < 0) {
		fail(ORIEL_EINVAL, "size is negative");
		return NULL;
	}
	pthread_rwlock_rdlock(&torch.lock);
	ctx = context_of(device);
	if (ctx && pool_alloc(gpu_pool(ctx), (size_t)size, 0, &ptr))
		ptr = NULL;
	pthread_rwlock_unlock(&torch.lock);
	return ptr;
}

void
oriel_torch_free(void *ptr, ssize_t size, int device, struct CUstream_st *stream)
{
	oriel_ctx *ctx;

	(void)size;
	if (!ptr)
		return;
	pthread_rwlock_rdlock(&torch.lock);
	ctx = context_of(device);
	if (ctx)
		gpu_drain(ctx, stream);
	if (!ctx || pool_free(gpu_pool(ctx), ptr))
		log_at(LOG_WARN, "oriel_torch_free of %p of GPU %d: %s", ptr, device,
		       oriel_detail());
	pthread_rwlock_unlock(&torch.lock);
}
