#ifdef HAVE_CUDA_HEADERS
/*
 * gpu_host.c - host memory that streams write and wait for: pinned piece by piece.
 *
 * What the driver has pinned is a matter of the process: it refuses to pin a page
 * twice, and ranks that are threads share their slabs. So this table belongs to the
 * process, too; the owner of a mapping takes its slabs out before they are unmapped.
 */
#include "rma/gpu_mem.h"

#include <stdlib.h>
#include <string.h>

struct pinned {
	struct pinned *next;
	const char *base; /* of a slab, as it is mapped here */
	size_t size;
	CUdevice dev;
	CUcontext cu;    /* retained: it may outlive the context that pinned first */
	uint64_t done[]; /* a bit for each piece */
};

static struct {
	pthread_mutex_t lock;
	struct pinned *all;
} host = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool
has_piece(const struct pinned *s, size_t i)
{
	return s->done[i / 64] >> i % 64 & 1;
}

static int
pinned_new(const struct gpu *g, const char *base, size_t size, struct pinned **out)
{
	size_t pieces = (size + CTL_PIN_CHUNK - 1) / CTL_PIN_CHUNK;
	struct pinned *s = calloc(1, sizeof(*s) + (pieces + 63) / 64 * sizeof(s->done[0]));
	int rc;

	if (!s)
		return fail(ORIEL_ENOMEM, "no memory for what is pinned of a slab");
	rc = gpu_check(CU(cuDevicePrimaryCtxRetain)(&s->cu, g->dev),
	               "cuDevicePrimaryCtxRetain of GPU %d", (int)g->dev);
	if (rc) {
		free(s);
		return rc;
	}
	s->base = base;
	s->size = size;
	s->dev = g->dev;
	s->next = host.all;
	host.all = s;
	*out = s;
	return 0;
}

static int
pin_piece(struct pinned *s, struct ctl_slab *shown, size_t i)
{
	size_t from = i * CTL_PIN_CHUNK;
	size_t len = s->size - from < CTL_PIN_CHUNK ? s->size - from : CTL_PIN_CHUNK;
	char *p = (char *)(uintptr_t)s->base + from;
	CUdeviceptr at = 0;
	int rc;

	/* Before: from then on the owner keeps the pages. */
	ctl_slab_pin(shown, from, from + len);
	rc = gpu_check(CU(cuMemHostRegister)(
	                       p, len, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
	               "cuMemHostRegister of %zu bytes of a slab", len);
	if (rc)
		return rc;
	s->done[i / 64] |= UINT64_C(1) << i % 64;
	rc = gpu_check(CU(cuMemHostGetDevicePointer)(&at, p, 0), "cuMemHostGetDevicePointer");
	if (!rc && at != (CUdeviceptr)p)
		rc = fail(ORIEL_ENOTSUP, "GPU %d has addresses of its own for host memory",
		          (int)s->dev);
	return rc;
}

static int
pin(const struct gpu *g, const char *base, struct ctl_slab *shown, size_t offset, size_t len)
{
	struct pinned *s = host.all;
	bool entered;
	int rc = 0;

	while (s && s->base != base)
		s = s->next;
	if (!s)
		rc = pinned_new(g, base, shown->size, &s);
	if (!rc)
		rc = gpu_enter(g, &entered);
	if (rc)
		return rc;
	for (size_t i = offset / CTL_PIN_CHUNK; i <= (offset + len - 1) / CTL_PIN_CHUNK && !rc; i++)
		if (!has_piece(s, i))
			rc = pin_piece(s, shown, i);
	gpu_leave(entered);
	return rc;
}

/* The slab of the peer, mapped here, that [p, p + len) lies in. */
static bool
find_slab(const oriel_ctx *ctx, const struct peer *peer, const void *p, size_t len, unsigned *id,
          size_t *offset)
{
	if (!peer || peer->rank == ctx->boot.rank)
		return pool_find(ctx->pool, p, len, id, offset);
	for (*id = 0; peer->ctl && *id < POOL_MAX_SLABS; ++*id) {
		const char *base = load_acquire(&peer->slab[*id]);

		*offset = (size_t)((uintptr_t)p - (uintptr_t)base);
		if (base && range_inside(*offset, len, peer->ctl->slabs[*id].size))
			return true;
	}
	return false;
}

int
gpu_host(struct gpu *g, struct peer *peer, const void *p, size_t len, CUdeviceptr *out)
{
	const oriel_ctx *ctx = g->ctx;
	const struct ctl *ctl = peer ? peer->ctl : ctx->ctl;
	unsigned id;
	size_t offset;
	int rc;

	len = len ? len : 1;
	if (!find_slab(ctx, peer, p, len, &id, &offset))
		return fail(ORIEL_EINVAL, "%zu bytes at %p are not in a slab of rank %d", len, p,
		            peer ? peer->rank : ctx->boot.rank);
	pthread_mutex_lock(&host.lock);
	rc = pin(g, (const char *)p - offset, (struct ctl_slab *)&ctl->slabs[id], offset, len);
	pthread_mutex_unlock(&host.lock);
	if (!rc)
		*out = (CUdeviceptr)p;
	return rc;
}

static void
unpin(struct pinned *s)
{
	size_t pieces = (s->size + CTL_PIN_CHUNK - 1) / CTL_PIN_CHUNK;
	bool entered = !CU(cuCtxPushCurrent)(s->cu);
	CUcontext ours;

	for (size_t i = 0; i < pieces && entered; i++)
		if (has_piece(s, i))
			CU(cuMemHostUnregister)((char *)(uintptr_t)s->base + i * CTL_PIN_CHUNK);
	if (entered)
		CU(cuCtxPopCurrent)(&ours);
	CU(cuDevicePrimaryCtxRelease)(s->dev);
	free(s);
}

void
gpu_host_forget(const void *base)
{
	struct pinned **at = &host.all, *s;

	pthread_mutex_lock(&host.lock);
	while ((s = *at) && s->base != base)
		at = &s->next;
	if (s) {
		*at = s->next;
		unpin(s);
	}
	pthread_mutex_unlock(&host.lock);
}
#endif
