/*
 * gpu_cuda.h - the GPU of a context, for the files that call the driver.
 *
 * The driver works on the calling thread's current context: gpu_enter makes ours
 * current, gpu_leave puts back what was there.
 */
#ifndef RMA_GPU_CUDA_H
#define RMA_GPU_CUDA_H

#include "kernels/kernels.h"
#include "rma/cuda_load.h"
#include "rma/gpu.h"

#define GPU_TYPES 32  /* room for every enum oriel_type */
#define GPU_STREAMS 2 /* internal ones: more would alias in the hardware's queues */

struct gpu {
	oriel_ctx *ctx;
	CUdevice dev;
	CUcontext cu; /* the device's primary one, retained */
	char name[96];
	CUuuid uuid;
	int driver;       /* version, 1000 * major + 10 * minor */
	bool wait_values; /* streams can write and wait for 64-bit words */
	bool vmm;         /* memory can be shared by file descriptor */
	CUstream stream[GPU_STREAMS];
	CUmodule module;
	CUfunction fold[GPU_TYPES], copy, signal_add, exchange; /* kernels/kernels.h */
	bool kernels;                                           /* are there */
	char kernels_why[64];                                   /* if not */
	char chosen[96];                                        /* why this device */
	struct pool *pool;   /* device memory; a slab exists once something is allocated */
	struct gpu_mem *mem; /* rma/gpu_mem.h */
};

/* 0, or EGPU with the driver's words and what was being done. */
int gpu_check(CUresult rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* True: it has to be left again. */
int gpu_enter(const struct gpu *g, bool *entered);
void gpu_leave(bool entered);

/* rma/gpu_kernels.c. Without kernels the rest works: only an error of the driver fails. */
int gpu_kernels_open(struct gpu *g);
void gpu_kernels_close(struct gpu *g);
/* args: the kernel's structure. ENOTSUP: there are no kernels. */
int gpu_launch(const struct gpu *g, CUfunction f, unsigned blocks, unsigned threads, void *args,
               CUstream s);

#endif
