/*
 * no_ce.c - the library built without CUDA's headers: no window is memory of a GPU,
 * and no stream is known.
 */
#ifndef HAVE_CUDA_HEADERS
#include "oriel_cuda.h"
#include "rma/ce.h"

int
ce_describe(oriel_win *w)
{
	(void)w;
	return 0;
}

int
ce_meet(oriel_win *w, struct target *t)
{
	(void)w;
	(void)t;
	return 0;
}

void
ce_tidy(oriel_ctx *ctx)
{
	(void)ctx;
}

bool
ce_is_device(oriel_ctx *ctx, const void *p)
{
	(void)ctx;
	(void)p;
	return false;
}

static int
off(oriel_win *w)
{
	struct gpu *g;

	return gpu_need(w->ctx, &g);
}

int
ce_stage(oriel_win *w, struct target *t, size_t disp, void *local, size_t len, bool is_put)
{
	(void)t;
	(void)disp;
	(void)local;
	(void)len;
	(void)is_put;
	return off(w);
}

void
ce_close(oriel_ctx *ctx)
{
	(void)ctx;
}

static int
ce_attach(oriel_win *w, struct target *t)
{
	(void)t;
	return fail_in(off(w), "its part is memory of a GPU");
}

const struct transport transport_ce = { .name = "ce", .id = TP_CE, .attach = ce_attach };

/* ---- Streams ---- */

static int
no_streams(oriel_win *w)
{
	int rc = win_enter(w);

	return rc ? rc : off(w);
}

int
oriel_put_on_stream(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                    struct CUstream_st *stream)
{
	(void)target;
	(void)disp;
	(void)src;
	(void)len;
	(void)stream;
	return no_streams(win);
}

int
oriel_get_on_stream(oriel_win *win, int target, size_t disp, void *dst, size_t len,
                    struct CUstream_st *stream)
{
	(void)target;
	(void)disp;
	(void)dst;
	(void)len;
	(void)stream;
	return no_streams(win);
}

int
oriel_put_signal_on_stream(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                           size_t slot, enum oriel_signal_op op, uint64_t value,
                           struct CUstream_st *stream)
{
	(void)slot;
	(void)op;
	(void)value;
	return oriel_put_on_stream(win, target, disp, src, len, stream);
}

int
oriel_signal_on_stream(oriel_win *win, int target, size_t slot, enum oriel_signal_op op,
                       uint64_t value, struct CUstream_st *stream)
{
	return oriel_put_signal_on_stream(win, target, 0, NULL, 0, slot, op, value, stream);
}

int
oriel_signal_wait_on_stream(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value,
                            struct CUstream_st *stream)
{
	(void)slot;
	(void)cmp;
	(void)value;
	(void)stream;
	return no_streams(win);
}
#endif
