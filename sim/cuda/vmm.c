/*
 * vmm.c - cuMemCreate and cuMemMap: memory and addresses apart, and memory that
 * other processes are given as a file descriptor.
 */
#include "sim/cuda/ranges.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
good_properties(const CUmemAllocationProp *p)
{
	return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && standin_device(p->location.id);
}

CUresult
cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *p,
                              CUmemAllocationGranularity_flags which)
{
	ENTER();
	(void)which;
	if (!good_properties(p))
		return CUDA_ERROR_INVALID_VALUE;
	*out = GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *p,
            unsigned long long flags)
{
	ENTER();
	struct backing *b;

	if (!good_properties(p) || flags || !size || size % GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	b = backing_new(p->location.id, size);
	*out = (uintptr_t)b;
	return b ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
	ENTER();
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	backing_put((struct backing *)(uintptr_t)handle);
	return CUDA_SUCCESS;
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *p)
{
	ENTER();
	const struct range *r;

	*out = 0;
	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	if (r && r->kind == MAPPED) {
		backing_get(r->backing);
		*out = (uintptr_t)r->backing;
	}
	pthread_rwlock_unlock(&ranges.lock);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align, CUdeviceptr at,
                    unsigned long long flags)
{
	ENTER();
	(void)at; /* a wish */
	if (flags || !size || size % GRANULARITY || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	*out = range_reserve(size, align > GRANULARITY ? align : GRANULARITY);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuMemAddressFree(CUdeviceptr at, size_t size)
{
	ENTER();
	if (!at || !size || size % GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	range_unreserve((uintptr_t)at, size);
	return CUDA_SUCCESS;
}

CUresult
cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
         unsigned long long flags)
{
	ENTER();
	struct backing *b = (struct backing *)(uintptr_t)handle;

	if (!at || !b || flags || !size || size % GRANULARITY || offset % GRANULARITY ||
	    size > b->size || offset > b->size - size)
		return CUDA_ERROR_INVALID_VALUE;
	backing_get(b);
	/* Nobody may touch it before cuMemSetAccess. */
	if (range_map((uintptr_t)at, size, b, offset, MAPPED, 0))
		return CUDA_SUCCESS;
	backing_put(b);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemUnmap(CUdeviceptr at, size_t size)
{
	ENTER();
	struct range r;

	/* Of several mappings one behind the other, all. */
	while (size) {
		if (!ranges_take((uintptr_t)at, MAPPED, &r))
			return CUDA_ERROR_INVALID_VALUE;
		range_unmap(&r);
		if (r.len > size)
			return CUDA_ERROR_INVALID_VALUE;
		at += r.len;
		size -= r.len;
	}
	return CUDA_SUCCESS;
}

CUresult
cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	ENTER();
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	struct range *r;

	pthread_rwlock_wrlock(&ranges.lock);
	for (CUdeviceptr p = at; p < at + size; p = r->at + r->len) {
		r = ranges_find((uintptr_t)p);
		rc = r && r->kind == MAPPED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		for (size_t i = 0; i < n && !rc; i++) {
			uint32_t bit = UINT32_C(1) << desc[i].location.id;

			if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
			    !standin_device(desc[i].location.id))
				rc = CUDA_ERROR_INVALID_DEVICE;
			else if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
				r->access |= bit;
			else
				r->access &= ~bit;
		}
		if (rc)
			break;
	}
	pthread_rwlock_unlock(&ranges.lock);
	return rc;
}

CUresult
cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                             CUmemAllocationHandleType type, unsigned long long flags)
{
	ENTER();
	const struct backing *b = (const struct backing *)(uintptr_t)handle;
	int fd;

	if (!b || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	fd = dup(b->fd);
	/* A mark that stays with what others are given, and that opening its path does not get. */
	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK))
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

CUresult
cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                               CUmemAllocationHandleType type)
{
	ENTER();
	int fd = dup((int)(intptr_t)os_handle), device = backing_device(fd);
	struct backing *b;
	struct stat s;

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !standin_device(device) ||
	    !(fcntl(fd, F_GETFL) & O_NONBLOCK) || fstat(fd, &s)) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	b = backing_of(fd, device, (size_t)s.st_size);
	*out = (uintptr_t)b;
	return b ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
