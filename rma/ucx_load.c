#ifdef HAVE_UCX
#include "rma/ucx_load.h"

#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct ucx_symbols ucx_lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[256];

static void
find_symbols(void *lib)
{
	const char *missing = NULL;

#define UCX_FIND(f)                                                                                \
	*(void **)&ucx_lib.f = dlsym(lib, #f);                                                     \
	missing = ucx_lib.f ? missing : #f;
	UCX_SYMBOLS(UCX_FIND)
#undef UCX_FIND
	if (missing)
		snprintf(problem, sizeof(problem), "libucp.so.0 has no %s", missing);
}

static void
load(void)
{
	void *lib;

	/* Said before UCX reads it: the process's signals are the application's. */
	setenv("UCX_HANDLE_ERRORS", "none", 0);
	lib = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
	if (lib)
		find_symbols(lib);
	else
		snprintf(problem, sizeof(problem), "%.255s", dlerror());
}

int
ucx_load(void)
{
	pthread_once(&once, load);
	return problem[0] ? fail(ORIEL_ENOTSUP, "%s", problem) : 0;
}
#endif
