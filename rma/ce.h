/*
 * ce.h - the copy engine: windows in memory of GPUs, and local buffers there.
 *
 * Host calls put everything on the context's stream 0, so that what is issued first is
 * there first, signals included. The stream's progress is a word in pinned memory that
 * the stream writes now and then (a mark); whoever waits looks at it, and nobody waits
 * in the driver. Host memory that is not pinned goes through small pinned buffers, since
 * the driver would wait for the stream.
 *
 * Also there without CUDA (rma/no_ce.c).
 */
#ifndef RMA_CE_H
#define RMA_CE_H

#include "rma/gpu.h"
#include "rma/win.h"

struct ce;

/* Before peers see the window: is its memory a GPU's? Fills w->rec.on_gpu and where. */
int ce_describe(oriel_win *w);
/* What a copy on a stream needs of the target, which shares memory with us: an address of its
 * slots for streams, and that its sleepers nap. Any number of times. */
int ce_meet(oriel_win *w, struct target *t);
/* Opened allocations of peers that nobody has mapped any more are closed, if they are many. */
void ce_tidy(oriel_ctx *ctx);
/* The context has a GPU. Is p memory of one? */
bool ce_is_device(oriel_ctx *ctx, const void *p);
/* A local buffer that has to be copied to the host before the target's transport can move it. */
static inline bool
ce_must_stage(oriel_win *w, const struct target *t, const void *local)
{
	return unlikely(gpu_of(w->ctx)) && t->tp != &transport_ce && ce_is_device(w->ctx, local);
}
/* Moves it. Local and remote completion are as if local were host memory, but gets block. */
int ce_stage(oriel_win *w, struct target *t, size_t disp, void *local, size_t len, bool is_put);
/* Nothing is under way. */
void ce_close(oriel_ctx *ctx);

#endif
