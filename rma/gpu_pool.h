/*
 * gpu_pool.h - what gpu_pool.c and gpu_where.c share.
 */
#ifndef RMA_GPU_POOL_H
#define RMA_GPU_POOL_H

#include "rma/gpu_mem.h"

/* Addresses for memory of a handle; others: devices of the process that reach it may use it, too.
 */
int gpu_map_handle(struct gpu *g, CUmemGenericAllocationHandle handle, size_t size, bool others,
                   CUdeviceptr *out);
void gpu_unmap_range(CUdeviceptr at, size_t size);

int gpu_where_open(struct gpu *g);
/* The peers are freed. */
void gpu_where_close(struct gpu *g);

#endif
