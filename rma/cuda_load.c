#ifdef HAVE_CUDA_HEADERS
#include "rma/cuda_load.h"

#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define DRIVER "libcuda.so.1"

struct cuda_symbols cuda_lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[256];

static void
find_symbols(void *lib)
{
	const char *missing = NULL;

#define CUDA_FIND(f)                                                                               \
	*(void **)&cuda_lib.f = dlsym(lib, CUDA_NAME(f));                                          \
	missing = cuda_lib.f ? missing : CUDA_NAME(f);
	CUDA_SYMBOLS(CUDA_FIND)
#undef CUDA_FIND
	if (missing)
		snprintf(problem, sizeof(problem), "%s has no %s", DRIVER, missing);
}

static void
start_driver(void)
{
	CUresult rc = CU(cuInit)(0);
	const char *text = NULL;

	if (!rc)
		return;
	CU(cuGetErrorString)(rc, &text);
	snprintf(problem, sizeof(problem), "cuInit: %s (%d)", text ? text : "unknown error",
	         (int)rc);
}

static void
load(void)
{
	void *lib = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);

	if (lib)
		find_symbols(lib);
	else
		snprintf(problem, sizeof(problem), "%.255s", dlerror());
	if (lib && !problem[0])
		start_driver();
}

int
cuda_load(void)
{
	pthread_once(&once, load);
	return problem[0] ? fail(ORIEL_ENOTSUP, "%s", problem) : 0;
}

bool
cuda_loaded(void)
{
	void *lib = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD);

	if (lib)
		dlclose(lib);
	return lib != NULL;
}
#endif
