/*
 * gpu_kernels.c - the embedded kernels of a GPU, all loaded when it is opened:
 * loading one later may wait for what runs on the device.
 */
#ifdef HAVE_CUDA_HEADERS
#include "rma/gpu_cuda.h"

#include <string.h>

static int
find(struct gpu *g, const char *name, CUfunction *f)
{
	return gpu_check(CU(cuModuleGetFunction)(f, g->module, name), "kernel %s", name);
}

int
gpu_kernels_open(struct gpu *g)
{
	size_t len;
	const void *image = kernels_image(&len);
	int rc;

	if (!image) {
		strcpy(g->kernels_why, "this build was made without a CUDA compiler");
		return 0;
	}
	rc = gpu_check(CU(cuModuleLoadData)(&g->module, image), "loading the kernels");
	for (int type = 0; type < GPU_TYPES && !rc; type++)
		if (kernels_fold_name(type))
			rc = find(g, kernels_fold_name(type), &g->fold[type]);
	if (!rc)
		rc = find(g, "copy", &g->copy);
	if (!rc)
		rc = find(g, "signal_add", &g->signal_add);
	if (!rc)
		rc = find(g, "ll_exchange", &g->exchange);
	g->kernels = !rc;
	return rc;
}

void
gpu_kernels_close(struct gpu *g)
{
	if (g->module)
		CU(cuModuleUnload)(g->module);
}

int
gpu_launch(const struct gpu *g, CUfunction f, unsigned blocks, unsigned threads, void *args,
           CUstream s)
{
	void *params[] = { args };

	if (!g->kernels)
		return fail(ORIEL_ENOTSUP, "no kernels: %s", g->kernels_why);
	return gpu_check(CU(cuLaunchKernel)(f, blocks, 1, 1, threads, 1, 1, 0, s, params, NULL),
	                 "cuLaunchKernel");
}
#endif
