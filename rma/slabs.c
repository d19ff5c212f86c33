#include "rma/slabs.h"

#include "alloc/memfd.h"

#include <string.h>

static char name[] = "oriel-pool";

static int
host_make(void *arg, size_t size, struct slab *slab)
{
	(void)arg;
	return memfd_make(name, size, slab);
}

static void
host_drop(void *arg, struct slab *slab)
{
	(void)arg;
	memfd_drop(name, slab);
}

/*
 * The chunks that lie wholly in the range, unless some are pinned. Those at its ends
 * belong to the neighbours, too, who may have them pinned at any time; these nobody.
 */
static bool
droppable(const oriel_ctx *ctx, const struct slab *slab, size_t offset, size_t len, size_t *from,
          size_t *end)
{
	*from = round_up(offset, CTL_PIN_CHUNK);
	*end = (offset + len) & ~((size_t)CTL_PIN_CHUNK - 1);
	return *from < *end && !ctl_slab_pinned(&ctx->ctl->slabs[slab->id], *from, *end);
}

static void
host_punch(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	size_t from, end;

	if (droppable(arg, slab, offset, len, &from, &end))
		memfd_punch(name, slab, from, end - from);
}

static int
host_zero(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	size_t from, end;

	if (len < POOL_PUNCH_MIN || !droppable(arg, slab, offset, len, &from, &end)) {
		memset(slab->base + offset, 0, len);
		return 0;
	}
	memset(slab->base + offset, 0, from - offset);
	memset(slab->base + end, 0, offset + len - end);
	return memfd_zero(name, slab, from, end - from);
}

static const struct pool_source host_source = {
	.make = host_make,
	.drop = host_drop,
	.punch = host_punch,
	.zero = host_zero,
	.fresh_is_zero = true,
};

void
slabs_show(struct ctl_slab *shown, const struct slab *slab)
{
	shown->size = slab->size;
	shown->base = (uintptr_t)slab->base;
	shown->fd = slab->fd;
	store_release(&shown->live, 1);
}

static int
on_slab(void *arg, const struct slab *slab)
{
	oriel_ctx *ctx = arg;

	slabs_show(&ctx->ctl->slabs[slab->id], slab);
	return 0;
}

int
slabs_open(oriel_ctx *ctx)
{
	struct pool_config pc = {
		.slab_size = (size_t)ctx->knobs.v.pool_slab,
		.max_bytes = (size_t)ctx->knobs.v.pool_max,
		.source = &host_source,
		.source_arg = ctx,
		.on_slab = on_slab,
		.arg = ctx,
	};

	return pool_create(&pc, &ctx->pool);
}
