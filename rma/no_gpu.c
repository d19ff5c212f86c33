/*
 * no_gpu.c - the library built without CUDA's headers: there is no GPU, and this
 * is why.
 */
#ifndef HAVE_CUDA_HEADERS
#include "rma/gpu.h"

#include <string.h>

static int
off(void)
{
	return fail(ORIEL_ENOTSUP, "no GPU: built without CUDA's headers");
}

int
gpu_init(oriel_ctx *ctx)
{
	const char *knob = ctx->knobs.s.cuda;

	strcpy(ctx->gpu_why, "built without CUDA's headers");
	return strcmp(knob, "auto") && strcmp(knob, "off") ? off() : 0;
}

void
gpu_close(oriel_ctx *ctx)
{
	(void)ctx;
}

bool
gpu_holds(const oriel_ctx *ctx, const void *p)
{
	(void)ctx;
	(void)p;
	return false;
}

int
gpu_need(oriel_ctx *ctx, struct gpu **gpu)
{
	(void)ctx;
	*gpu = NULL;
	return off();
}

struct pool *
gpu_pool(const oriel_ctx *ctx)
{
	(void)ctx;
	return NULL;
}

int
gpu_device(const oriel_ctx *ctx)
{
	(void)ctx;
	return -1;
}

void
gpu_drain(const oriel_ctx *ctx, struct CUstream_st *stream)
{
	(void)ctx;
	(void)stream;
}

void
gpu_peer_free(struct peer *peer)
{
	(void)peer;
}

void
gpu_say(oriel_ctx *ctx, const struct out *out)
{
	out_say(out, "gpu: off (%s)", ctx->gpu_why);
}
#endif
