/*
 * memory.c - the public face of the pools and of the registry.
 */
#include "oriel_cuda.h"
#include "rma/gpu.h"

static int
alloc_args(size_t align, void *const *ptr)
{
	if (!ptr)
		return fail(ORIEL_EINVAL, "ptr is NULL");
	if (align && !is_pow2(align))
		return fail(ORIEL_EINVAL, "alignment %zu is not a power of two", align);
	return 0;
}

int
oriel_mem_alloc(oriel_ctx *ctx, size_t len, size_t align, void **ptr)
{
	int rc = ctx_enter(ctx);

	if (!rc)
		rc = alloc_args(align, ptr);
	return rc ? rc : pool_alloc(ctx->pool, len, align, ptr);
}

int
oriel_mem_alloc_device(oriel_ctx *ctx, size_t len, size_t align, void **ptr)
{
	struct gpu *g;
	int rc = ctx_enter(ctx);

	if (!rc)
		rc = alloc_args(align, ptr);
	if (!rc)
		rc = gpu_need(ctx, &g);
	return rc ? rc : pool_alloc(gpu_pool(ctx), len, align, ptr);
}

int
oriel_mem_free(oriel_ctx *ctx, void *ptr)
{
	struct pool *device;
	unsigned id;
	size_t offset;
	int rc = ctx_enter(ctx);

	if (rc)
		return rc;
	device = gpu_pool(ctx);
	if (unlikely(device) && pool_find(device, ptr, 1, &id, &offset))
		return pool_free(device, ptr);
	return pool_free(ctx->pool, ptr);
}

int
oriel_mem_stats(oriel_ctx *ctx, struct oriel_mem_stats *stats)
{
	struct oriel_mem_stats s = { 0 };
	int rc = ctx_enter(ctx);

	if (rc)
		return rc;
	if (!stats)
		return fail(ORIEL_EINVAL, "stats is NULL");
	pool_stats(ctx->pool, &s);
	registry_stats(ctx->registry, &s);
	*stats = s;
	return 0;
}

int
oriel_mem_stats_device(oriel_ctx *ctx, struct oriel_mem_stats *stats)
{
	struct oriel_mem_stats s = { 0 };
	struct gpu *g;
	int rc = ctx_enter(ctx);

	if (rc)
		return rc;
	if (!stats)
		return fail(ORIEL_EINVAL, "stats is NULL");
	rc = gpu_need(ctx, &g);
	if (rc)
		return rc;
	pool_stats(gpu_pool(ctx), &s);
	*stats = s;
	return 0;
}

static int
range_args(const void *addr, size_t len)
{
	if (!addr)
		return fail(ORIEL_EINVAL, "addr is NULL");
	if (!len)
		return fail(ORIEL_EINVAL, "len is 0");
	if ((uintptr_t)addr + len < (uintptr_t)addr)
		return fail(ORIEL_EINVAL, "%zu bytes at %p wrap around", len, addr);
	return 0;
}

int
oriel_mem_reg(oriel_ctx *ctx, const void *addr, size_t len)
{
	const struct reg *reg;
	int rc = ctx_enter(ctx);

	if (!rc)
		rc = range_args(addr, len);
	return rc ? rc : registry_reg(ctx->registry, addr, len, &reg);
}

int
oriel_mem_dereg(oriel_ctx *ctx, const void *addr, size_t len)
{
	int rc = ctx_enter(ctx);

	if (!rc)
		rc = range_args(addr, len);
	return rc ? rc : registry_dereg(ctx->registry, addr, len);
}
