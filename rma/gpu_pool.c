#ifdef HAVE_CUDA_HEADERS
#include "rma/gpu_pool.h"

#include "rma/slabs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* gpu_check, but for what the caller may be able to help. */
static int
check_room(const struct gpu *g, CUresult rc, size_t size, const char *what)
{
	if (rc == CUDA_ERROR_OUT_OF_MEMORY)
		return fail(ORIEL_ENOMEM, "%s: GPU %d has no %zu bytes left", what, (int)g->dev,
		            size);
	return gpu_check(rc, "%s of %zu bytes on GPU %d", what, size, (int)g->dev);
}

/* ---- Slabs that are given away as file descriptors ---- */

static CUmemAccessDesc
access_of(int dev)
{
	CUmemAccessDesc d;

	memset(&d, 0, sizeof(d));
	d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	d.location.id = dev;
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return d;
}

int
gpu_map_handle(struct gpu *g, CUmemGenericAllocationHandle handle, size_t size, bool others,
               CUdeviceptr *out)
{
	CUmemAccessDesc access[GPU_DEVICES];
	size_t n = 0;
	CUdeviceptr at = 0;
	int rc = check_room(g, CU(cuMemAddressReserve)(&at, size, POOL_SLAB_ALIGN, 0, 0), size,
	                    "cuMemAddressReserve");

	if (rc)
		return rc;
	rc = check_room(g, CU(cuMemMap)(at, size, 0, handle, 0), size, "cuMemMap");
	if (rc)
		goto free_range;
	access[n++] = access_of(g->dev);
	for (int d = 0; others && d < g->mem->n_devices; d++)
		if (d != g->dev && g->mem->reachable[d])
			access[n++] = access_of(d);
	rc = check_room(g, CU(cuMemSetAccess)(at, size, access, n), size, "cuMemSetAccess");
	if (rc)
		goto unmap;
	*out = at;
	return 0;
unmap:
	CU(cuMemUnmap)(at, size);
free_range:
	CU(cuMemAddressFree)(at, size);
	return rc;
}

void
gpu_unmap_range(CUdeviceptr at, size_t size)
{
	CU(cuMemUnmap)(at, size);
	CU(cuMemAddressFree)(at, size);
}

static int
make_shareable(struct gpu *g, size_t size, struct slab *slab)
{
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	int fd = -1, rc;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = g->dev;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	rc = check_room(g, CU(cuMemCreate)(&handle, size, &prop, 0), size, "cuMemCreate");
	if (rc)
		return rc;
	rc = gpu_check(CU(cuMemExportToShareableHandle)(
	                       &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	               "cuMemExportToShareableHandle of %zu bytes of GPU %d", size, (int)g->dev);
	if (rc)
		goto release;
	rc = gpu_map_handle(g, handle, size, g->mem->shared_process, &at);
	if (rc) {
		close(fd);
		goto release;
	}
	slab->base = (char *)at;
	slab->fd = fd;
release:
	/* The mapping keeps the memory, and so does the descriptor. */
	CU(cuMemRelease)(handle);
	return rc;
}

/* ---- Slabs that are given away as cudaIpc handles ---- */

static int
make_plain(const struct gpu *g, size_t size, struct slab *slab)
{
	/* The driver promises less of an alignment than we do. To try and free again is no way:
	 * cuMemFree waits for the device. */
	size_t room = size + POOL_SLAB_ALIGN - 256;
	CUdeviceptr at;
	int rc = check_room(g, CU(cuMemAlloc)(&at, room), room, "cuMemAlloc");

	if (rc)
		return rc;
	slab->own = (void *)at;
	slab->base = (char *)round_up(at, POOL_SLAB_ALIGN);
	slab->fd = -1;
	return 0;
}

/* ---- The source ---- */

static int
slab_make(void *arg, size_t size, struct slab *slab)
{
	struct gpu *g = arg;
	struct gpu_mem *m = g->mem;
	bool entered;
	int rc = gpu_enter(g, &entered);

	if (rc)
		return rc;
	rc = m->by_fd ? make_shareable(g, size, slab) : make_plain(g, size, slab);
	if (m->by_fd && rc == ORIEL_EGPU) {
		log_at(LOG_WARN, "GPU pool: no file descriptors any more: %s", oriel_detail());
		snprintf(m->why, sizeof(m->why), "the driver makes no descriptors");
		m->by_fd = false;
		rc = make_plain(g, size, slab);
	}
	gpu_leave(entered);
	return rc;
}

static void
slab_drop(void *arg, struct slab *slab)
{
	const struct gpu *g = arg;
	bool entered;

	if (gpu_enter(g, &entered))
		return;
	if (slab->own) {
		CU(cuMemFree)((CUdeviceptr)slab->own);
	} else {
		gpu_unmap_range((CUdeviceptr)slab->base, slab->size);
		close(slab->fd);
	}
	gpu_leave(entered);
}

static int
slab_zero(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	const struct gpu *g = arg;
	bool entered;
	int rc = gpu_enter(g, &entered);

	if (rc)
		return rc;
	rc = gpu_check(
	        CU(cuMemsetD8Async)((CUdeviceptr)slab->base + offset, 0, len, g->mem->chores),
	        "zeroing %zu bytes of GPU %d", len, (int)g->dev);
	if (!rc)
		rc = gpu_check(CU(cuStreamSynchronize)(g->mem->chores),
		               "zeroing %zu bytes of GPU %d", len, (int)g->dev);
	gpu_leave(entered);
	return rc;
}

static const struct pool_source device_source = {
	.make = slab_make,
	.drop = slab_drop,
	.zero = slab_zero,
};

static int
on_slab(void *arg, const struct slab *slab)
{
	const struct gpu *g = arg;

	slabs_show(&g->ctx->ctl->gpu_slabs[slab->id], slab);
	return 0;
}

static int
make_pool(struct gpu *g)
{
	struct pool_config pc = {
		.slab_size = (size_t)g->ctx->knobs.v.gpu_pool_slab,
		.max_bytes = (size_t)g->ctx->knobs.v.gpu_pool_max,
		.source = &device_source,
		.source_arg = g,
		.on_slab = on_slab,
		.arg = g,
	};
	int rc = pool_create(&pc, &g->pool);

	return rc ? fail_in(rc, "ORIEL_GPU_POOL_SLAB, ORIEL_GPU_POOL_MAX") : 0;
}

/* ---- How it is shared ---- */

/* Processes of the node can take descriptors out of one another: we ask what the others would. */
static bool
fds_can_be_taken(const oriel_ctx *ctx, char *why, size_t cap)
{
	for (int i = 0; i < ctx->boot.n_local; i++) {
		const struct peer *p = ctx->local[i];
		int fd;

		if (p->same_process || !p->ctl)
			continue;
		fd = peer_take_fd(p, p->rec.ctl_fd);
		if (fd < 0) {
			snprintf(why, cap, "pidfd_getfd of process %d: %s", (int)p->rec.pid,
			         strerror(errno));
			return false;
		}
		close(fd);
	}
	snprintf(why, cap, "pidfd_getfd works");
	return true;
}

static bool
granularity_fits(const struct gpu *g)
{
	CUmemAllocationProp prop;
	size_t grain = 0;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = g->dev;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return !CU(cuMemGetAllocationGranularity)(&grain, &prop,
	                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM) &&
	       grain && POOL_SLAB_ALIGN % grain == 0;
}

static int
choose_sharing(struct gpu *g)
{
	const char *knob = g->ctx->knobs.s.gpu_share;
	struct gpu_mem *m = g->mem;
	bool is_auto = !strcmp(knob, "auto");

	if (!is_auto && strcmp(knob, "fd") && strcmp(knob, "ipc"))
		return fail(ORIEL_EINVAL, "ORIEL_GPU_SHARE=%s: neither auto, fd nor ipc", knob);
	if (!strcmp(knob, "ipc"))
		snprintf(m->why, sizeof(m->why), "ORIEL_GPU_SHARE=ipc");
	else if (!g->vmm || !granularity_fits(g))
		snprintf(m->why, sizeof(m->why), "GPU %d has no memory with descriptors",
		         (int)g->dev);
	else
		m->by_fd = fds_can_be_taken(g->ctx, m->why, sizeof(m->why));
	if (!strcmp(knob, "fd") && !m->by_fd)
		return fail(ORIEL_ENOTSUP, "ORIEL_GPU_SHARE=fd is not possible: %s", m->why);
	return 0;
}

/* ---- Devices of the process ---- */

static int
look_at_devices(struct gpu *g)
{
	struct gpu_mem *m = g->mem;
	int rc = gpu_check(CU(cuDeviceGetCount)(&m->n_devices), "cuDeviceGetCount");

	if (m->n_devices > GPU_DEVICES)
		m->n_devices = GPU_DEVICES;
	for (int d = 0; d < m->n_devices && !rc; d++) {
		int can = d == g->dev;

		rc = gpu_check(CU(cuDeviceGetUuid)(&m->uuid[d], d), "cuDeviceGetUuid of GPU %d", d);
		if (!rc && d != g->dev)
			rc = gpu_check(CU(cuDeviceCanAccessPeer)(&can, g->dev, d),
			               "cuDeviceCanAccessPeer of GPU %d", d);
		m->reachable[d] = can;
	}
	return rc;
}

int
gpu_by_uuid(const struct gpu *g, const void *uuid)
{
	for (int d = 0; d < g->mem->n_devices; d++)
		if (!memcmp(&g->mem->uuid[d], uuid, sizeof(CUuuid)))
			return d;
	return -1;
}

/* Under mem->lock. */
static int
enable_access(struct gpu *g, int dev)
{
	CUcontext other;
	CUresult r;
	bool entered;
	int rc = gpu_check(CU(cuDevicePrimaryCtxRetain)(&other, dev),
	                   "cuDevicePrimaryCtxRetain of GPU %d", dev);

	if (!rc)
		rc = gpu_enter(g, &entered);
	if (rc)
		return rc;
	r = CU(cuCtxEnablePeerAccess)(other, 0);
	if (r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		r = CUDA_SUCCESS;
	gpu_leave(entered);
	rc = gpu_check(r, "cuCtxEnablePeerAccess of GPU %d to GPU %d", (int)g->dev, dev);
	if (rc)
		CU(cuDevicePrimaryCtxRelease)(dev);
	else
		store_release(&g->mem->enabled[dev], other);
	return rc;
}

int
gpu_reach(struct gpu *g, int dev)
{
	struct gpu_mem *m = g->mem;
	int rc = 0;

	if (likely(dev == g->dev))
		return 0;
	if (dev < 0 || dev >= m->n_devices || !m->reachable[dev])
		return fail(ORIEL_ENOTSUP, "GPU %d cannot reach memory of GPU %d", (int)g->dev,
		            dev);
	if (load_acquire(&m->enabled[dev]))
		return 0;
	pthread_mutex_lock(&m->lock);
	if (!m->enabled[dev])
		rc = enable_access(g, dev);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

enum gpu_kind
gpu_kind(struct gpu *g, const void *p, int *dev)
{
	unsigned type = 0, id;
	size_t offset;
	int home = g->dev;
	bool ours = pool_find(g->pool, p, 1, &id, &offset);

	if (!ours &&
	    CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)p))
		return GPU_HOST;
	if (!ours && type != CU_MEMORYTYPE_DEVICE)
		return GPU_PINNED;
	if (!ours &&
	    CU(cuPointerGetAttribute)(&home, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)p))
		return GPU_FAR;
	if (dev)
		*dev = home;
	return gpu_reach(g, home) ? GPU_FAR : GPU_DEVICE;
}

/* ---- Open, close ---- */

int
gpu_mem_open(struct gpu *g)
{
	struct gpu_mem *m = g->mem = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return fail(ORIEL_ENOMEM, "no memory for a GPU's state");
	pthread_mutex_init(&m->lock, NULL);
	for (int i = 0; i < g->ctx->boot.n_local; i++)
		m->shared_process |= i != g->ctx->my_local && g->ctx->local[i]->same_process;
	rc = look_at_devices(g);
	if (!rc)
		rc = choose_sharing(g);
	if (!rc)
		rc = gpu_check(
		        CU(cuStreamCreateWithPriority)(&m->chores, CU_STREAM_NON_BLOCKING, 0),
		        "cuStreamCreateWithPriority on GPU %d", (int)g->dev);
	if (!rc)
		rc = gpu_where_open(g);
	return rc ? rc : make_pool(g);
}

void
gpu_mem_close(struct gpu *g)
{
	struct gpu_mem *m = g->mem;

	if (!m)
		return;
	gpu_where_close(g);
	pool_destroy(g->pool);
	if (m->chores)
		CU(cuStreamDestroy)(m->chores);
	for (int d = 0; d < m->n_devices; d++)
		if (m->enabled[d])
			CU(cuDevicePrimaryCtxRelease)(d);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct pool *
gpu_pool(const oriel_ctx *ctx)
{
	const struct gpu *g = gpu_of(ctx);

	return g ? g->pool : NULL;
}

int
gpu_device(const oriel_ctx *ctx)
{
	const struct gpu *g = gpu_of(ctx);

	return g ? g->dev : -1;
}

void
gpu_drain(const oriel_ctx *ctx, struct CUstream_st *stream)
{
	const struct gpu *g = gpu_of(ctx);
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult rc;
	bool entered;

	if (!g || gpu_enter(g, &entered))
		return;
	rc = CU(cuStreamIsCapturing)(stream, &status);
	if (!rc && status == CU_STREAM_CAPTURE_STATUS_NONE)
		rc = CU(cuStreamSynchronize)(stream);
	gpu_leave(entered);
	if (rc)
		log_at(LOG_WARN, "waiting for a stream of GPU %d: error %d", (int)g->dev, (int)rc);
}
#endif
