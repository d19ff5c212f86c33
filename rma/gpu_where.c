#ifdef HAVE_CUDA_HEADERS
/*
 * gpu_where.c - device memory for peers of the node: described by its owner, mapped
 * by the others.
 */
#include "rma/gpu_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct gpu_where) == 120 && sizeof(CUuuid) == 16, "it travels");
_Static_assert(sizeof(struct gpu_where) <= 128, "it fits a message's header");

struct described {       /* an allocation of the application's */
	uint64_t buffer; /* 0: empty */
	uint64_t base, size;
	CUuuid uuid;
	CUipcMemHandle handle;
};

struct opened { /* an allocation of a peer's that is open here */
	struct opened *next;
	struct peer *peer;
	uint64_t base; /* in the owner's process */
	uint64_t size;
	uint64_t buffer;
	CUipcMemHandle handle;
	CUdeviceptr at;
	unsigned refs;
	bool stale; /* the owner has freed it */
	uint64_t used;
};

struct gpu_peer {
	struct gpu *g;
	CUdeviceptr slab[POOL_MAX_SLABS]; /* 0: not mapped */
};

/* ---- Describing ---- */

static void
fill_ipc(struct gpu_where *w, const struct described *d, uint64_t addr)
{
	memset(w, 0, sizeof(*w));
	w->kind = GPU_WHERE_IPC;
	w->addr = addr;
	w->offset = addr - d->base;
	w->size = d->size;
	w->buffer = d->buffer;
	memcpy(w->uuid, &d->uuid, sizeof(w->uuid));
	memcpy(w->handle, &d->handle, sizeof(w->handle));
}

static int
not_shareable(const void *p)
{
	return fail(ORIEL_ENOTSUP,
	            "%p: other processes cannot be given memory of this kind (PyTorch's expandable "
	            "segments, cudaMallocAsync, cuMemMap): use oriel_mem_alloc_device, "
	            "oriel_torch_alloc or cudaMalloc",
	            p);
}

/* Asks the driver about the allocation that p lies in, whose number is known. */
static int
look_up(CUdeviceptr p, struct described *d)
{
	unsigned char capable = 0;
	CUdeviceptr base;
	size_t size;
	int dev, rc;

	if (CU(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
	                              p) ||
	    !capable)
		return not_shareable((void *)p);
	rc = gpu_check(CU(cuPointerGetAttribute)(&dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p),
	               "cuPointerGetAttribute of %p", (void *)p);
	if (!rc)
		rc = gpu_check(CU(cuDeviceGetUuid)(&d->uuid, dev), "cuDeviceGetUuid of GPU %d",
		               dev);
	if (!rc)
		rc = gpu_check(CU(cuMemGetAddressRange)(&base, &size, p),
		               "cuMemGetAddressRange of %p", (void *)p);
	if (!rc)
		rc = gpu_check(CU(cuIpcGetMemHandle)(&d->handle, p), "cuIpcGetMemHandle of %p",
		               (void *)p);
	if (rc)
		return rc;
	d->base = base;
	d->size = size;
	return 0;
}

/* Under mem->lock. */
static int
find_described(struct gpu *g, CUdeviceptr p, uint64_t buffer, const struct described **out)
{
	struct described *all = g->mem->described, new = { .buffer = buffer };
	bool entered;
	int rc;

	for (unsigned i = 0; i < GPU_DESCRIBED; i++)
		if (all[i].buffer == buffer && p - all[i].base < all[i].size) {
			*out = &all[i];
			return 0;
		}
	rc = gpu_enter(g, &entered);
	if (rc)
		return rc;
	rc = look_up(p, &new);
	gpu_leave(entered);
	if (rc)
		return rc;
	*out = &all[g->mem->n_described % GPU_DESCRIBED];
	all[g->mem->n_described++ % GPU_DESCRIBED] = new;
	return 0;
}

static int
describe_other(struct gpu *g, const void *p, size_t len, struct gpu_where *out)
{
	CUdeviceptr at = (CUdeviceptr)p;
	const struct described *d;
	unsigned long long buffer;
	unsigned type;
	int rc;

	/* Memory that was freed and allocated again has another number: asked for each time. */
	if (CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ||
	    type != CU_MEMORYTYPE_DEVICE ||
	    CU(cuPointerGetAttribute)(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, at))
		return fail(ORIEL_EINVAL, "%p is no device memory", p);
	pthread_mutex_lock(&g->mem->lock);
	rc = find_described(g, at, buffer, &d);
	if (!rc && !range_inside(at - d->base, len, d->size))
		rc = fail(ORIEL_EINVAL,
		          "%zu bytes at %p go beyond their allocation of %zu bytes at %p", len, p,
		          (size_t)d->size, (void *)d->base);
	if (!rc)
		fill_ipc(out, d, at);
	pthread_mutex_unlock(&g->mem->lock);
	return rc;
}

int
gpu_describe(struct gpu *g, const void *p, size_t len, struct gpu_where *out)
{
	const struct slab *slab;
	unsigned id;
	size_t offset;

	/* A slab of cudaMalloc is described like others' memory. */
	if (!pool_find(g->pool, p, len, &id, &offset) || (slab = pool_slab(g->pool, id))->fd < 0)
		return describe_other(g, p, len, out);
	memset(out, 0, sizeof(*out));
	out->kind = GPU_WHERE_POOL;
	out->slab = id;
	out->addr = (uintptr_t)p;
	out->offset = offset;
	out->size = slab->size;
	memcpy(out->uuid, &g->uuid, sizeof(out->uuid));
	return 0;
}

/* ---- A peer's pool ---- */

/* Within gpu_enter. */
static int
import_slab(struct gpu *g, struct peer *p, const struct ctl_slab *s, unsigned id, CUdeviceptr *at)
{
	CUmemGenericAllocationHandle handle;
	int rc, fd = peer_take_fd(p, s->fd);

	if (fd < 0)
		return fail_errno(ORIEL_ETRANSPORT, errno,
		                  "taking GPU slab %u out of process %d of rank %d "
		                  "(ORIEL_GPU_SHARE=ipc avoids it)",
		                  id, (int)p->rec.pid, p->rank);
	rc = gpu_check(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd,
	                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	               "cuMemImportFromShareableHandle of GPU slab %u of rank %d", id, p->rank);
	close(fd);
	if (rc)
		return rc;
	rc = gpu_map_handle(g, handle, s->size, false, at);
	CU(cuMemRelease)(handle);
	return rc ? fail_in(rc, "GPU slab %u of rank %d", id, p->rank) : 0;
}

/* Under mem->lock. */
static int
map_slab(struct gpu *g, struct peer *p, const struct ctl_slab *s, unsigned id)
{
	CUdeviceptr at;
	bool entered;
	int rc;

	if (!p->gpu) {
		struct gpu_peer *new = calloc(1, sizeof(*new));

		if (!new)
			return fail(ORIEL_ENOMEM, "no memory for rank %d's GPU", p->rank);
		new->g = g;
		store_release(&p->gpu, new);
	}
	if (p->gpu->slab[id])
		return 0;
	rc = gpu_enter(g, &entered);
	if (rc)
		return rc;
	rc = import_slab(g, p, s, id, &at);
	gpu_leave(entered);
	if (!rc)
		store_release(&p->gpu->slab[id], at);
	return rc;
}

static CUdeviceptr
mapped_slab(const struct peer *p, unsigned id)
{
	const struct gpu_peer *gp = load_acquire(&p->gpu);

	return gp ? load_acquire(&gp->slab[id]) : 0;
}

static int
map_pool(struct gpu *g, struct peer *p, const struct gpu_where *w, size_t len, CUdeviceptr *out)
{
	const struct ctl_slab *s;
	int rc = 0;

	if (!p->ctl || w->slab >= POOL_MAX_SLABS ||
	    !load_acquire(&(s = &p->ctl->gpu_slabs[w->slab])->live))
		return fail(ORIEL_EPEER, "rank %d names GPU slab %u, which does not exist", p->rank,
		            w->slab);
	if (!range_inside(w->offset, len, s->size))
		return fail(ORIEL_EPEER,
		            "rank %d names %zu bytes at %zu of its GPU slab %u of %zu bytes",
		            p->rank, len, (size_t)w->offset, w->slab, (size_t)s->size);
	if (p->same_process) {
		/* It granted access to every device that can have it. */
		int dev = gpu_by_uuid(g, w->uuid);

		if (dev != g->dev && (dev < 0 || !g->mem->reachable[dev]))
			return fail(ORIEL_ENOTSUP,
			            "GPU %d cannot reach memory of GPU %d of rank %d", (int)g->dev,
			            dev, p->rank);
		*out = s->base + w->offset;
		return 0;
	}
	if (!mapped_slab(p, w->slab)) {
		pthread_mutex_lock(&g->mem->lock);
		rc = map_slab(g, p, s, w->slab);
		pthread_mutex_unlock(&g->mem->lock);
	}
	if (rc)
		return peer_gone(p) ? peer_error(p) : rc;
	*out = mapped_slab(p, w->slab) + w->offset;
	return 0;
}

/* ---- A peer's other memory ---- */

/*
 * Closing waits for everything that stands in the device's streams, and that may wait
 * for a peer that waits for us: it is left to gpu_tidy. Within gpu_enter and under
 * mem->lock; nothing uses it.
 */
static void
close_opened(struct gpu *g, struct opened **at)
{
	struct opened *o = *at;
	CUresult rc = CU(cuIpcCloseMemHandle)(o->at);

	if (rc)
		log_at(LOG_WARN, "cuIpcCloseMemHandle of memory of rank %d: error %d",
		       o->peer->rank, (int)rc);
	*at = o->next;
	g->mem->n_idle -= !o->refs;
	free(o);
}

/* What is open of the peer where w is now, and is not w, was freed by the peer meanwhile. */
static void
mark_stale(const struct gpu *g, const struct peer *p, const struct gpu_where *w)
{
	uint64_t base = w->addr - w->offset;

	for (struct opened *o = g->mem->opened; o; o = o->next)
		if (o->peer == p && o->buffer != w->buffer && o->base < base + w->size &&
		    base < o->base + o->size)
			o->stale = true;
}

static void
close_idle(struct gpu *g, unsigned keep)
{
	struct opened **at = &g->mem->opened, *o;

	while ((o = *at)) {
		if (o->stale && !o->refs)
			close_opened(g, at);
		else
			at = &o->next;
	}
	while (g->mem->n_idle > keep) {
		struct opened **oldest = NULL;

		for (at = &g->mem->opened; *at; at = &(*at)->next)
			if (!(*at)->refs && (!oldest || (*at)->used < (*oldest)->used))
				oldest = at;
		close_opened(g, oldest);
	}
}

void
gpu_tidy(struct gpu *g, unsigned keep)
{
	bool entered;

	pthread_mutex_lock(&g->mem->lock);
	if (g->mem->n_idle && !gpu_enter(g, &entered)) {
		close_idle(g, keep);
		gpu_leave(entered);
	}
	pthread_mutex_unlock(&g->mem->lock);
}

static struct opened *
find_opened(const struct gpu *g, const struct peer *p, const struct gpu_where *w)
{
	struct opened *o = g->mem->opened;

	while (o && !(o->peer == p && o->buffer == w->buffer && o->base == w->addr - w->offset &&
	              o->size == w->size && !memcmp(&o->handle, w->handle, sizeof(o->handle))))
		o = o->next;
	return o;
}

static int
open_handle(const struct peer *p, const struct gpu_where *w, struct opened *o)
{
	CUdeviceptr base;
	size_t size;
	int rc;

	memcpy(&o->handle, w->handle, sizeof(o->handle));
	rc = gpu_check(
	        CU(cuIpcOpenMemHandle)(&o->at, o->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	        "cuIpcOpenMemHandle of %zu bytes of rank %d", (size_t)w->size, p->rank);
	if (rc)
		return rc;
	rc = gpu_check(CU(cuMemGetAddressRange)(&base, &size, o->at),
	               "cuMemGetAddressRange of memory of rank %d", p->rank);
	if (!rc && o->at + w->size > base + size)
		rc = fail(ORIEL_EPEER, "rank %d names %zu bytes of an allocation of %zu", p->rank,
		          (size_t)w->size, size);
	if (rc)
		CU(cuIpcCloseMemHandle)(o->at);
	return rc;
}

static int
open_new(struct gpu *g, struct peer *p, const struct gpu_where *w, struct opened **out)
{
	struct opened *o;
	int rc;

	mark_stale(g, p, w);
	o = calloc(1, sizeof(*o));
	if (!o)
		return fail(ORIEL_ENOMEM, "no memory for an allocation of rank %d", p->rank);
	rc = open_handle(p, w, o);
	if (rc) {
		free(o);
		return rc;
	}
	o->peer = p;
	o->base = w->addr - w->offset;
	o->size = w->size;
	o->buffer = w->buffer;
	o->next = g->mem->opened;
	g->mem->opened = o;
	g->mem->n_idle++;
	*out = o;
	return 0;
}

static int
map_opened(struct gpu *g, struct peer *p, const struct gpu_where *w, CUdeviceptr *out)
{
	struct opened *o = find_opened(g, p, w);
	bool entered;
	int rc = 0;

	if (!o) {
		rc = gpu_enter(g, &entered);
		if (rc)
			return rc;
		rc = open_new(g, p, w, &o);
		gpu_leave(entered);
	}
	if (rc)
		return rc;
	g->mem->n_idle -= !o->refs++;
	o->used = ++g->mem->clock;
	*out = o->at + w->offset;
	return 0;
}

static int
map_ipc(struct gpu *g, struct peer *p, const struct gpu_where *w, size_t len, CUdeviceptr *out)
{
	int rc;

	if (!range_inside(w->offset, len, w->size))
		return fail(ORIEL_EPEER,
		            "rank %d names %zu bytes at %zu of an allocation of %zu bytes", p->rank,
		            len, (size_t)w->offset, (size_t)w->size);
	if (p->same_process) {
		*out = w->addr;
		return gpu_reach(g, gpu_by_uuid(g, w->uuid));
	}
	pthread_mutex_lock(&g->mem->lock);
	rc = map_opened(g, p, w, out);
	pthread_mutex_unlock(&g->mem->lock);
	return rc && peer_gone(p) ? peer_error(p) : rc;
}

int
gpu_map(struct gpu *g, struct peer *peer, const struct gpu_where *w, size_t len, CUdeviceptr *out)
{
	CUdeviceptr at = 0;
	int rc;

	if (!peer)
		peer = g->ctx->local[g->ctx->my_local];
	if (w->kind != GPU_WHERE_POOL && w->kind != GPU_WHERE_IPC)
		return fail(ORIEL_EPEER, "rank %d describes GPU memory of kind %u", peer->rank,
		            w->kind);
	rc = w->kind == GPU_WHERE_POOL ? map_pool(g, peer, w, len, &at)
	                               : map_ipc(g, peer, w, len, &at);
	if (!rc)
		*out = at;
	return rc;
}

void
gpu_unmap(struct gpu *g, CUdeviceptr p)
{
	struct opened *o;

	pthread_mutex_lock(&g->mem->lock);
	o = g->mem->opened;
	while (o && (!o->refs || p - o->at >= o->size))
		o = o->next;
	if (o)
		g->mem->n_idle += !--o->refs;
	pthread_mutex_unlock(&g->mem->lock);
}

/* ---- Open, close ---- */

int
gpu_where_open(struct gpu *g)
{
	g->mem->described = calloc(GPU_DESCRIBED, sizeof(*g->mem->described));
	return g->mem->described ? 0 : fail(ORIEL_ENOMEM, "no memory for a GPU's state");
}

void
gpu_where_close(struct gpu *g)
{
	while (g->mem->opened)
		close_opened(g, &g->mem->opened);
	free(g->mem->described);
}

static void
unmap_peer(struct gpu *g, const struct peer *p)
{
	struct opened **at = &g->mem->opened, *o;

	while ((o = *at)) {
		if (o->peer == p)
			close_opened(g, at);
		else
			at = &o->next;
	}
	for (unsigned i = 0; p->gpu && i < POOL_MAX_SLABS; i++)
		if (p->gpu->slab[i])
			gpu_unmap_range(p->gpu->slab[i], p->ctl->gpu_slabs[i].size);
}

void
gpu_peer_free(struct peer *p)
{
	struct gpu *g = gpu_of(p->ctx);
	bool entered;

	if (!p->same_process)
		for (unsigned i = 0; i < POOL_MAX_SLABS; i++)
			if (p->slab[i])
				gpu_host_forget(p->slab[i]);
	if (g && !gpu_enter(g, &entered)) {
		pthread_mutex_lock(&g->mem->lock);
		unmap_peer(g, p);
		pthread_mutex_unlock(&g->mem->lock);
		gpu_leave(entered);
	}
	free(p->gpu);
}
#endif
