#include "sim/cuda/standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_once_t once;
	bool initialized;
	int n;
	struct device device[MAX_DEVICES];
	uint64_t random;
	char fail_name[64];
	uint64_t fail_at, fail_with, failing_calls;
} driver = { .once = PTHREAD_ONCE_INIT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define STACK 16
static __thread CUcontext stack[STACK];
static __thread int depth;

uint64_t
standin_knob(const char *name, uint64_t def)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : def;
}

static void
read_failure(void)
{
	const char *text = getenv("STANDIN_FAIL");
	unsigned long long at = 0, with = 0;

	if (!text || sscanf(text, "%63[^:]:%llu:%llu", driver.fail_name, &at, &with) < 2)
		return;
	driver.fail_at = at;
	driver.fail_with = with                             ? with
	                   : strcmp(driver.fail_name, "op") ? CUDA_ERROR_UNKNOWN
	                                                    : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void
start(void)
{
	uint64_t n = standin_knob("STANDIN_DEVICES", 2);

	driver.n = n > MAX_DEVICES ? MAX_DEVICES : (int)n;
	driver.random = standin_knob("STANDIN_SEED", 1) * 7919 + (uint64_t)getpid();
	for (int i = 0; i < driver.n; i++) {
		struct device *d = &driver.device[i];

		d->id = i;
		d->primary.dev = d;
		d->free_multiprocessors = MULTIPROCESSORS;
	}
	read_failure();
}

uint64_t
standin_random(void)
{
	uint64_t x =
	        __atomic_add_fetch(&driver.random, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t
standin_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

CUresult
standin_injected(const char *name)
{
	size_t n = strlen(driver.fail_name);

	/* cuda.h adds "_v2" and the like to some names. */
	if (!n || strncmp(name, driver.fail_name, n) || (name[n] && name[n] != '_'))
		return CUDA_SUCCESS;
	if (__atomic_add_fetch(&driver.failing_calls, 1, __ATOMIC_RELAXED) != driver.fail_at)
		return CUDA_SUCCESS;
	return (CUresult)driver.fail_with;
}

CUresult
standin_enter(const char *name)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	return standin_injected(name);
}

CUresult
standin_enter_context(const char *name, struct device **dev)
{
	CUresult rc = standin_enter(name);

	*dev = standin_current();
	if (!rc && !*dev)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	if (!rc)
		rc = (CUresult)__atomic_load_n(&(*dev)->broken, __ATOMIC_ACQUIRE);
	return rc;
}

struct device *
standin_current(void)
{
	return depth && stack[depth - 1] ? stack[depth - 1]->dev : NULL;
}

struct device *
standin_device(int id)
{
	return id >= 0 && id < driver.n ? &driver.device[id] : NULL;
}

int
standin_devices(void)
{
	return driver.n;
}

/* ---- The driver ---- */

CUresult
cuInit(unsigned flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_once(&driver.once, start);
	if (!driver.n)
		return CUDA_ERROR_NO_DEVICE;
	driver.initialized = true;
	return standin_injected(__func__);
}

CUresult
cuDriverGetVersion(int *version)
{
	*version = CUDA_VERSION;
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no context is current" },
	{ CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	  "peer access is already enabled" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "not permitted while a stream is captured" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "the capture was invalidated" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	  "the capture has a stream that was not joined" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
	  "the capture did not begin in this stream" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult
error_text(CUresult code, const char **text, bool name)
{
	*text = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code)
			*text = name ? errors[i].name : errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGetErrorName(CUresult error, const char **name)
{
	return error_text(error, name, true);
}

CUresult
cuGetErrorString(CUresult error, const char **text)
{
	return error_text(error, text, false);
}

/* ---- Devices ---- */

CUresult
cuDeviceGetCount(int *count)
{
	ENTER();
	*count = driver.n;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER();
	if (!standin_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetName(char *name, int len, CUdevice dev)
{
	ENTER();
	if (!standin_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "stand-in");
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	ENTER();
	if (!standin_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid->bytes, "stand-in", 8);
	uuid->bytes[15] = (char)dev;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceTotalMem(size_t *bytes, CUdevice dev)
{
	ENTER();
	if (!standin_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = (size_t)1 << 40;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
	ENTER();
	if (!standin_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = MULTIPROCESSORS;
		break;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		*value = 3;
		break;
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
		*value = 1;
		break;
	default: /* what it does not know it does not have */
		*value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult
cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	ENTER();
	if (!standin_device(dev) || !standin_device(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}

/* ---- Contexts: the primary ones only ---- */

CUresult
cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	struct device *d = standin_device(dev);

	ENTER();
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	d->retained++;
	pthread_mutex_unlock(&lock);
	*ctx = &d->primary;
	return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxRelease(CUdevice dev)
{
	struct device *d = standin_device(dev);
	CUresult rc = CUDA_SUCCESS;

	ENTER();
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (d->retained)
		d->retained--;
	else
		rc = CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_unlock(&lock);
	return rc;
}

CUresult
cuCtxPushCurrent(CUcontext ctx)
{
	ENTER();
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth == STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

CUresult
cuCtxPopCurrent(CUcontext *ctx)
{
	ENTER();
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (ctx)
		*ctx = stack[depth];
	return CUDA_SUCCESS;
}

CUresult
cuCtxSetCurrent(CUcontext ctx)
{
	ENTER();
	if (!depth)
		depth = 1;
	stack[depth - 1] = ctx;
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetCurrent(CUcontext *ctx)
{
	ENTER();
	*ctx = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetDevice(CUdevice *device)
{
	ENTER_CONTEXT(dev);
	*device = dev->id;
	return CUDA_SUCCESS;
}

CUresult
cuCtxSynchronize(void)
{
	ENTER_UNCAPTURED(dev);
	return standin_drain_device(dev);
}

CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	ENTER_CONTEXT(dev);
	uint32_t bit;

	if (!peer || flags || peer->dev == dev)
		return CUDA_ERROR_INVALID_VALUE;
	bit = UINT32_C(1) << peer->dev->id;
	if (__atomic_fetch_or(&dev->peers, bit, __ATOMIC_ACQ_REL) & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	return CUDA_SUCCESS;
}
