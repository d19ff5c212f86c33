/*
 * memory.c - cuMemAlloc, host memory, what a pointer is, cudaIpc.
 */
#include "sim/cuda/ranges.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- cuMemAlloc ---- */

CUresult
cuMemAlloc(CUdeviceptr *out, size_t size)
{
	ENTER_UNCAPTURED(dev);
	struct backing *b;

	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	b = backing_new(dev->id, size);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return range_map_anywhere(out, b, size, PLAIN, UINT32_C(1) << dev->id);
}

CUresult
cuMemFree(CUdeviceptr p)
{
	ENTER_UNCAPTURED(dev);
	struct range r;

	if (!p)
		return CUDA_SUCCESS;
	standin_drain_device(dev);
	if (!ranges_take((uintptr_t)p, PLAIN, &r))
		return CUDA_ERROR_INVALID_VALUE;
	range_unreserve(r.at, r.len);
	range_unmap(&r);
	return CUDA_SUCCESS;
}

CUresult
cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
	ENTER();
	const struct range *r;
	CUresult rc = CUDA_ERROR_NOT_FOUND;

	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	if (r) {
		if (base)
			*base = r->at;
		if (size)
			*size = r->len;
		rc = CUDA_SUCCESS;
	}
	pthread_rwlock_unlock(&ranges.lock);
	return rc;
}

/* ---- Host memory ---- */

CUresult
cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
	ENTER_UNCAPTURED(dev);
	struct range r = { .len = size, .kind = PINNED };
	void *p;

	(void)flags;
	(void)dev;
	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r.at = (uintptr_t)p;
	r.shadow = p;
	if (!ranges_add(&r)) {
		munmap(p, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = p;
	return CUDA_SUCCESS;
}

CUresult
cuMemFreeHost(void *p)
{
	ENTER_UNCAPTURED(dev);
	struct range r;

	standin_drain_device(dev);
	if (!ranges_take((uintptr_t)p, PINNED, &r))
		return CUDA_ERROR_INVALID_VALUE;
	munmap(p, r.len);
	return CUDA_SUCCESS;
}

CUresult
cuMemHostRegister(void *p, size_t size, unsigned flags)
{
	ENTER_CONTEXT(dev);
	struct range r = { .at = (uintptr_t)p, .len = size, .kind = REGISTERED, .shadow = p };

	(void)flags;
	(void)dev;
	if (!p || !size)
		return CUDA_ERROR_INVALID_VALUE;
	return ranges_add(&r) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult
cuMemHostUnregister(void *p)
{
	ENTER_CONTEXT(dev);
	struct range r;

	standin_drain_device(dev);
	return ranges_take((uintptr_t)p, REGISTERED, &r) ? CUDA_SUCCESS
	                                                 : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult
cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags)
{
	ENTER();
	const struct range *r;
	bool known;

	(void)flags;
	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	known = r && !r->backing;
	pthread_rwlock_unlock(&ranges.lock);
	*out = known ? (uintptr_t)p : 0;
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- What a pointer is ---- */

/* False: the attribute is not known. */
static bool
attribute_of(const struct range *r, CUpointer_attribute what, void *out)
{
	switch ((int)what) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)out = r->backing ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)out = r->backing ? r->backing->device : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)out = r->backing && r->kind != MAPPED
		                            ? &standin_device(r->backing->device)->primary
		                            : NULL;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)out = r->id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)out = r->at;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)out = r->len;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(bool *)out = r->kind == PLAIN;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)out = true;
		return true;
	default:
		return false;
	}
}

CUresult
cuPointerGetAttribute(void *out, CUpointer_attribute what, CUdeviceptr p)
{
	ENTER();
	const struct range *r;
	bool known;

	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	known = r && attribute_of(r, what, out);
	pthread_rwlock_unlock(&ranges.lock);
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- cudaIpc ---- */

struct ipc { /* in a CUipcMemHandle */
	int32_t pid, fd, device;
	uint64_t size, inode;
};
_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "it fits");

CUresult
cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p)
{
	ENTER_CONTEXT(dev);
	const struct range *r;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	(void)dev;
	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	if (r && r->kind == PLAIN) {
		struct ipc h = { .pid = getpid(),
			         .fd = r->backing->fd,
			         .device = r->backing->device,
			         .size = r->len,
			         .inode = backing_inode(r->backing->fd) };

		memset(out, 0, sizeof(*out));
		memcpy(out, &h, sizeof(h));
		rc = CUDA_SUCCESS;
	}
	pthread_rwlock_unlock(&ranges.lock);
	return rc;
}

/* An allocation that was opened before comes at the same address. */
static bool
open_again(uint64_t inode, CUdeviceptr *out)
{
	bool found = false;

	pthread_rwlock_wrlock(&ranges.lock);
	for (size_t i = 0; i < ranges.n && !found; i++) {
		struct range *r = &ranges.r[i];

		found = r->kind == OPENED && backing_inode(r->backing->fd) == inode;
		if (found) {
			r->opened++;
			*out = r->at;
		}
	}
	pthread_rwlock_unlock(&ranges.lock);
	return found;
}

CUresult
cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	ENTER_CONTEXT(dev);
	struct backing *b;
	char path[64];
	struct ipc h;
	int fd;

	memcpy(&h, &handle, sizeof(h));
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !standin_device(h.device))
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (open_again(h.inode, out))
		return CUDA_SUCCESS;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)h.pid, (int)h.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	/* Freed meanwhile: the number may be another file's. */
	if (fd >= 0 && backing_inode(fd) != h.inode) {
		close(fd);
		fd = -1;
	}
	b = backing_of(fd, h.device, h.size);
	if (!b)
		return CUDA_ERROR_INVALID_HANDLE;
	return range_map_anywhere(out, b, h.size, OPENED, UINT32_C(1) << dev->id);
}

CUresult
cuIpcCloseMemHandle(CUdeviceptr p)
{
	ENTER_CONTEXT(dev);
	struct range *r, gone;
	bool last;

	standin_drain_device(dev);
	pthread_rwlock_wrlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	if (!r || r->at != p || r->kind != OPENED) {
		pthread_rwlock_unlock(&ranges.lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	last = --r->opened == 0;
	if (last) {
		gone = *r;
		ranges_erase(r);
	}
	pthread_rwlock_unlock(&ranges.lock);
	if (last) {
		range_unreserve(gone.at, gone.len);
		range_unmap(&gone);
	}
	return CUDA_SUCCESS;
}
