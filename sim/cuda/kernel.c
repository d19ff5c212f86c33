/*
 * kernel.c - kernels are C functions. A module is whatever image it is loaded from:
 * its functions are those of the table below, and those that tests add.
 */
#include "sim/cuda/kernel.h"

#include <string.h>

#define MOST_KERNELS 64

static struct {
	pthread_mutex_t lock;
	const struct kernel *kernel[MOST_KERNELS];
	unsigned n;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int module; /* what all handles point to */

bool
standin_add_kernel(const struct kernel *k)
{
	bool room;

	pthread_mutex_lock(&table.lock);
	room = table.n < MOST_KERNELS;
	if (room)
		table.kernel[table.n++] = k;
	pthread_mutex_unlock(&table.lock);
	return room;
}

static const struct kernel *
find_kernel(const char *name)
{
	const struct kernel *found = NULL;

	pthread_mutex_lock(&table.lock);
	for (unsigned i = 0; i < table.n && !found; i++)
		if (!strcmp(table.kernel[i]->name, name))
			found = table.kernel[i];
	pthread_mutex_unlock(&table.lock);
	return found;
}

/* ---- Those that need no image ---- */

/* occupy(words): has its multiprocessors from words[0] = 1 on until words[1] is not 0. */
static bool
occupy(struct op *op, CUresult *error)
{
	uint32_t *words = standin_host_of(op->dev, op->argument[0], 8, true);

	if (!words) {
		*error = CUDA_ERROR_ILLEGAL_ADDRESS;
		return true;
	}
	__atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
	return __atomic_load_n(&words[1], __ATOMIC_ACQUIRE) != 0;
}

static const struct kernel occupy_kernel = { "occupy", 1, { 8 }, occupy };

__attribute__((constructor)) static void
add_kernels(void)
{
	standin_add_kernel(&occupy_kernel);
}

/* ---- The driver's functions ---- */

CUresult
cuModuleLoadData(CUmodule *out, const void *image)
{
	ENTER_CONTEXT(dev);
	(void)dev;
	if (!image)
		return CUDA_ERROR_INVALID_IMAGE;
	*out = (CUmodule)(void *)&module;
	return CUDA_SUCCESS;
}

CUresult
cuModuleUnload(CUmodule m)
{
	ENTER();
	return m == (CUmodule)(void *)&module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
	ENTER();
	if (m != (CUmodule)(void *)&module)
		return CUDA_ERROR_INVALID_HANDLE;
	*out = (CUfunction)(uintptr_t)find_kernel(name);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult
cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
               unsigned block_y, unsigned block_z, unsigned shared, CUstream handle, void **params,
               void **extra)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);
	const struct kernel *k = (const void *)f;
	struct op op = { .kind = OP_KERNEL, .kernel = k };
	uint64_t threads = (uint64_t)block_x * block_y * block_z, *to = op.argument;

	(void)shared;
	if (!k || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (extra || (k->n_args && !params) || !threads || threads > 1024 || !grid_x || !grid_y ||
	    !grid_z)
		return CUDA_ERROR_INVALID_VALUE;
	op.blocks = grid_x * grid_y * grid_z;
	op.threads = (unsigned)threads;
	for (unsigned i = 0; i < k->n_args; i++) {
		memcpy(to, params[i], k->arg_size[i]);
		to += (k->arg_size[i] + 7) / 8;
	}
	return standin_enqueue(s, &op);
}
