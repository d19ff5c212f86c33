/*
 * ce_cuda.h - copies on a context's stream 0, for ce.c, ce_tp.c and streams.c.
 *
 * All calls are made between ce_enter and gpu_leave. ce->lock is held during calls of
 * the driver that enqueue, and never while waiting; no other lock is taken inside it.
 */
#ifndef RMA_CE_CUDA_H
#define RMA_CE_CUDA_H

#include "rma/ce.h"
#include "rma/gpu_mem.h"

#define CE_BUFFER                                                                                  \
	CTL_PIN_CHUNK /* bytes of a bounce buffer: no copy goes across two pinned pieces */
#define CE_BUFFERS 16
#define CE_BATCH 8 /* that one call has at a time */

struct ce {
	oriel_ctx *ctx;
	struct gpu *g;
	pthread_mutex_t lock;
	uint64_t posted; /* copies and words on the stream, ever */
	uint64_t marked; /* posted at the last mark */
	uint64_t *word;  /* the stream has come to this mark */
	CUdeviceptr word_dev;
	char *memory;               /* the buffers */
	uint64_t until[CE_BUFFERS]; /* in use until this mark */
	unsigned next;
	uint64_t asked_at; /* the driver, whether the stream is well */
	int broken;        /* it said EGPU */
};

/* Opens what is not open, and makes the GPU's context current. */
int ce_enter(oriel_ctx *ctx, struct ce **ce, bool *entered);

/* How a copy can reach a local buffer. */
enum ce_reach {
	CE_AT_ONCE, /* the GPU's memory, or pinned */
	CE_BOUNCED, /* through a buffer */
};
/* ENOTSUP: memory of a GPU that ours cannot reach. */
int ce_reach(struct ce *ce, const void *p, size_t len, enum ce_reach *reach);

int ce_copy(struct ce *ce, CUdeviceptr dst, CUdeviceptr src, size_t len);
int ce_word(struct ce *ce, CUdeviceptr at, uint64_t value);
/* *mark: the stream is there when all posted so far is done. */
int ce_mark(struct ce *ce, uint64_t *mark);
static inline bool
ce_reached(const struct ce *ce, uint64_t mark)
{
	return load_acquire(ce->word) >= mark;
}
/* Nothing is on the stream. */
bool ce_idle(struct ce *ce);
/* Why the stream will get nowhere any more: EGPU. 0: it may. */
int ce_broken(struct ce *ce);
/* Until the stream is there. Errors: EGPU, ETIMEDOUT, EPEER, EABORTED, EEXPELLED. */
int ce_wait(struct ce *ce, uint64_t mark, oriel_win *win, const struct target *t);

/* Where the host's bytes of a bounced copy come from, or go to. */
struct ce_end {
	oriel_win *win;
	struct target *t;
	char *host;  /* there, or, if it is NULL, in the target's part */
	size_t disp; /* from here on */
};
/* dst is the GPU's. Returns when the source has been read. */
int ce_in(struct ce *ce, CUdeviceptr dst, const struct ce_end *src, size_t len);
/* src is the GPU's. Returns when the data is there; in a target's part, as after its puts. */
int ce_out(struct ce *ce, const struct ce_end *dst, CUdeviceptr src, size_t len);

#endif
