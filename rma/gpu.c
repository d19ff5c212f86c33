#ifdef HAVE_CUDA_HEADERS
#include "rma/gpu.h"

#include "rma/gpu_mem.h"
#include "rma/torch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_DEVICE (-1)

int
gpu_check(CUresult rc, const char *fmt, ...)
{
	const char *name = NULL, *text = NULL;
	char what[256];
	va_list ap;

	if (likely(!rc))
		return 0;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	CU(cuGetErrorName)(rc, &name);
	CU(cuGetErrorString)(rc, &text);
	return fail(ORIEL_EGPU, "%s: %s (%s)", what, text ? text : "unknown error",
	            name ? name : "?");
}

int
gpu_enter(const struct gpu *g, bool *entered)
{
	CUcontext now = NULL;

	*entered = false;
	if (!CU(cuCtxGetCurrent)(&now) && now == g->cu)
		return 0;
	*entered = true;
	return gpu_check(CU(cuCtxPushCurrent)(g->cu), "cuCtxPushCurrent for GPU %d", (int)g->dev);
}

void
gpu_leave(bool entered)
{
	CUcontext ours;

	if (entered)
		CU(cuCtxPopCurrent)(&ours);
}

/* ---- Which device ---- */

/* The device of the calling thread's context, or NO_DEVICE. */
static int
current_device(void)
{
	CUcontext cu = NULL;
	CUdevice dev;

	if (CU(cuCtxGetCurrent)(&cu) || !cu || CU(cuCtxGetDevice)(&dev))
		return NO_DEVICE;
	return dev;
}

/* ORIEL_CUDA=on: ranks of the node take devices by turns. A number: that one. */
static int
knob_device(oriel_ctx *ctx, int n_devices, int *dev, char *why, size_t cap)
{
	const char *knob = ctx->knobs.s.cuda;
	char *end;
	long n;

	if (!strcmp(knob, "on")) {
		*dev = ctx->my_local % n_devices;
		snprintf(why, cap, "ORIEL_CUDA=on, and this is rank %d of the node", ctx->my_local);
		return 0;
	}
	n = strtol(knob, &end, 10);
	if (*end || end == knob || n < 0 || n >= n_devices)
		return fail(ORIEL_EINVAL,
		            "ORIEL_CUDA=%s: neither off, auto, on nor a device from 0 to %d", knob,
		            n_devices - 1);
	*dev = (int)n;
	snprintf(why, cap, "ORIEL_CUDA=%d", *dev);
	return 0;
}

static int
choose_device(oriel_ctx *ctx, int *dev, char *why, size_t cap)
{
	int n = 0, rc = gpu_check(CU(cuDeviceGetCount)(&n), "cuDeviceGetCount");

	if (!rc && !n)
		rc = fail(ORIEL_ENOTSUP, "the CUDA driver is there and sees no GPU");
	if (rc)
		return rc;
	if (strcmp(ctx->knobs.s.cuda, "auto"))
		return knob_device(ctx, n, dev, why, cap);
	*dev = current_device();
	if (*dev == NO_DEVICE)
		return fail(ORIEL_ENOTSUP, "the calling thread has no CUDA context, and ORIEL_CUDA "
		                           "names no device");
	snprintf(why, cap, "the calling thread's");
	return 0;
}

/* ---- Opening ---- */

static int
attribute(const struct gpu *g, CUdevice_attribute what, bool *is)
{
	int value = 0;
	int rc = gpu_check(CU(cuDeviceGetAttribute)(&value, what, g->dev),
	                   "cuDeviceGetAttribute %d of GPU %d", (int)what, (int)g->dev);

	*is = value != 0;
	return rc;
}

static int
describe(struct gpu *g)
{
	int rc = gpu_check(CU(cuDeviceGetName)(g->name, sizeof(g->name), g->dev),
	                   "cuDeviceGetName of GPU %d", (int)g->dev);

	if (!rc)
		rc = gpu_check(CU(cuDeviceGetUuid)(&g->uuid, g->dev), "cuDeviceGetUuid of GPU %d",
		               (int)g->dev);
	if (!rc)
		rc = gpu_check(CU(cuDriverGetVersion)(&g->driver), "cuDriverGetVersion");
	if (!rc)
		rc = attribute(g, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
		               &g->wait_values);
	if (!rc)
		rc = attribute(g, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		               &g->vmm);
	return rc;
}

static int
make_streams(struct gpu *g)
{
	int rc = 0;

	/* All at once: making one later may wait for what runs. */
	for (int i = 0; i < GPU_STREAMS && !rc; i++)
		rc = gpu_check(
		        CU(cuStreamCreateWithPriority)(&g->stream[i], CU_STREAM_NON_BLOCKING, 0),
		        "cuStreamCreateWithPriority on GPU %d", (int)g->dev);
	return rc;
}

static void
gpu_free(struct gpu *g)
{
	bool entered;

	if (g->cu && !gpu_enter(g, &entered)) {
		gpu_mem_close(g);
		for (int i = 0; i < GPU_STREAMS; i++)
			if (g->stream[i])
				CU(cuStreamDestroy)(g->stream[i]);
		gpu_kernels_close(g);
		gpu_leave(entered);
	}
	if (g->cu)
		CU(cuDevicePrimaryCtxRelease)(g->dev);
	free(g);
}

static int
gpu_make(oriel_ctx *ctx, struct gpu *g)
{
	bool entered;
	int dev, rc = choose_device(ctx, &dev, g->chosen, sizeof(g->chosen));

	g->ctx = ctx;
	if (!rc)
		rc = gpu_check(CU(cuDeviceGet)(&g->dev, dev), "cuDeviceGet %d", dev);
	if (!rc)
		rc = describe(g);
	if (!rc)
		rc = gpu_check(CU(cuDevicePrimaryCtxRetain)(&g->cu, g->dev),
		               "cuDevicePrimaryCtxRetain of GPU %d", dev);
	if (!rc)
		rc = gpu_enter(g, &entered);
	if (rc)
		return rc;
	rc = make_streams(g);
	if (!rc)
		rc = gpu_mem_open(g);
	if (!rc)
		rc = gpu_kernels_open(g);
	gpu_leave(entered);
	return rc;
}

static void
say_why_not(oriel_ctx *ctx)
{
	snprintf(ctx->gpu_why, sizeof(ctx->gpu_why), "%.*s", (int)sizeof(ctx->gpu_why) - 1,
	         oriel_detail());
}

/* Under ctx->lock. */
static int
gpu_open(oriel_ctx *ctx)
{
	struct gpu *g;
	int rc = strcmp(ctx->knobs.s.cuda, "off") ? cuda_load()
	                                          : fail(ORIEL_ENOTSUP, "ORIEL_CUDA=off");

	g = rc ? NULL : calloc(1, sizeof(*g));
	if (!rc)
		rc = g ? gpu_make(ctx, g) : fail(ORIEL_ENOMEM, "no memory for a GPU's state");
	if (rc) {
		say_why_not(ctx);
		if (g)
			gpu_free(g);
		return rc;
	}
	store_release(&ctx->gpu, g);
	return 0;
}

int
gpu_need(oriel_ctx *ctx, struct gpu **gpu)
{
	int rc = 0;

	*gpu = gpu_of(ctx);
	if (likely(*gpu))
		return 0;
	pthread_mutex_lock(&ctx->lock);
	if (!gpu_of(ctx))
		rc = gpu_open(ctx);
	pthread_mutex_unlock(&ctx->lock);
	*gpu = gpu_of(ctx);
	return rc ? fail_in(rc, "no GPU") : 0;
}

int
gpu_init(oriel_ctx *ctx)
{
	const char *knob = ctx->knobs.s.cuda;
	struct gpu *g;
	int rc;

	if (strcmp(knob, "auto") && strcmp(knob, "off"))
		return gpu_need(ctx, &g);
	if (!strcmp(knob, "off")) {
		snprintf(ctx->gpu_why, sizeof(ctx->gpu_why), "ORIEL_CUDA=off");
		return 0;
	}
	snprintf(ctx->gpu_why, sizeof(ctx->gpu_why),
	         "nobody has asked for it: this process uses no CUDA context");
	/* Where the application has not started the driver, neither do we: that takes a second. */
	if (!cuda_loaded() || cuda_load() || current_device() == NO_DEVICE)
		return 0;
	rc = gpu_need(ctx, &g);
	if (rc)
		log_at(LOG_WARN, "GPU off: %s", oriel_detail());
	return 0;
}

bool
gpu_holds(const oriel_ctx *ctx, const void *p)
{
	struct gpu *g = gpu_of(ctx);
	enum gpu_kind kind = g && p ? gpu_kind(g, p, NULL) : GPU_HOST;

	return kind == GPU_DEVICE || kind == GPU_FAR;
}

void
gpu_close(oriel_ctx *ctx)
{
	struct gpu *g = gpu_of(ctx);
	const struct slab *slab;

	torch_forget(ctx);
	/* Ranks of the same process may have pinned them even if this one has no GPU. */
	for (unsigned i = 0; ctx->pool && (slab = pool_slab(ctx->pool, i)); i++)
		gpu_host_forget(slab->base);
	ctx->gpu = NULL;
	if (g)
		gpu_free(g);
}

void
gpu_say(oriel_ctx *ctx, const struct out *out)
{
	const struct gpu *g = gpu_of(ctx);
	struct oriel_mem_stats s = { 0 };

	if (!g) {
		out_say(out, "gpu: off (%s)", ctx->gpu_why);
		return;
	}
	out_say(out, "gpu: on, device %d (%s), %s; driver %d.%d", (int)g->dev, g->chosen, g->name,
	        g->driver / 1000, g->driver % 1000 / 10);
	out_say(out, "gpu: streams %s wait for words, memory is shared by %s (%s)",
	        g->wait_values ? "can" : "cannot", g->mem->by_fd ? "file descriptor" : "cudaIpc",
	        g->mem->why);
	pool_stats(g->pool, &s);
	out_say(out, "gpu: pool: %zu slabs of %zu bytes together, %zu in use, %zu at most", s.slabs,
	        s.reserved_bytes, s.used_bytes, s.peak_bytes);
	out_say(out, "gpu: kernels %s%s%s", g->kernels ? "loaded" : "off: ", g->kernels_why,
	        g->kernels ? ", reductions by ORIEL_GPU_BLOCKS thread blocks" : "");
}
#endif
