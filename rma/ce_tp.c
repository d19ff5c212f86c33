#ifdef HAVE_CUDA_HEADERS
/*
 * ce_tp.c - the transport of windows in memory of GPUs, for the ranks of a node.
 */
#include "rma/ce_cuda.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct gpu_where) == CTL_WHERE_WORDS * sizeof(uint64_t),
               "it fits a window's");

/* ---- Windows ---- */

static bool
is_any_device(const void *p)
{
	unsigned type;

	return !CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	                                  (CUdeviceptr)p) &&
	       type == CU_MEMORYTYPE_DEVICE;
}

int
ce_describe(oriel_win *w)
{
	struct gpu_where where;
	struct gpu *g;
	unsigned slab;
	size_t off;
	int rc;

	/* Where nobody uses the driver there is no memory of it. */
	if (!gpu_of(w->ctx) && (!cuda_loaded() || cuda_load()))
		return 0;
	/* A process that uses GPUs may put from their memory, whatever this window is. */
	rc = gpu_need(w->ctx, &g);
	if (rc)
		return w->size && is_any_device(w->base)
		               ? fail_in(rc, "%p is memory of a GPU", (void *)w->base)
		               : 0;
	if (!w->size || !ce_is_device(w->ctx, w->base))
		return 0;
	if (gpu_kind(g, w->base, NULL) == GPU_FAR)
		return fail(ORIEL_ENOTSUP, "%p is memory of a GPU that GPU %d cannot reach",
		            (void *)w->base, (int)g->dev);
	if (pool_find(g->pool, w->base, 1, &slab, &off) &&
	    !pool_find(g->pool, w->base, w->size, &slab, &off))
		return fail(ORIEL_EINVAL, "%zu bytes at %p go beyond their slab of the GPU's pool",
		            w->size, (void *)w->base);
	rc = gpu_describe(g, w->base, w->size, &where);
	if (rc)
		return rc;
	w->rec.on_gpu = 1;
	memcpy(w->rec.where, &where, sizeof(where));
	return 0;
}

int
ce_meet(oriel_win *w, struct target *t)
{
	bool own = t->peer->rank == w->ctx->boot.rank;
	struct ce *ce;
	CUdeviceptr at = 0;
	bool entered;
	int rc;

	if (load_acquire(&t->sig_dev) || !t->n_signals)
		return 0;
	rc = ce_enter(w->ctx, &ce, &entered);
	if (rc)
		return rc;
	rc = gpu_host(ce->g, own ? NULL : t->peer, t->signals, t->n_signals * sizeof(*t->signals),
	              &at);
	gpu_leave(entered);
	if (rc)
		return fail_in(rc, "signals of rank %d", t->peer->rank);
	wake_by_streams(t->wake);
	store_release(&t->sig_dev, at);
	return 0;
}

void
ce_tidy(oriel_ctx *ctx)
{
	struct gpu *g = gpu_of(ctx);

	if (g)
		gpu_tidy(g, GPU_IDLE);
}

static int
ce_attach(oriel_win *w, struct target *t)
{
	struct gpu_where where;
	struct ce *ce;
	CUdeviceptr at;
	bool entered;
	int rc = ce_enter(w->ctx, &ce, &entered);

	if (rc)
		return fail_in(rc, "its part is memory of a GPU");
	gpu_leave(entered);
	if (t->peer->rank == w->ctx->boot.rank) {
		t->dev = (uintptr_t)w->base;
		return 0;
	}
	memcpy(&where, t->rec.where, sizeof(where));
	rc = gpu_map(ce->g, t->peer, &where, t->rec.size, &at);
	if (!rc)
		t->dev = at;
	return rc;
}

static void
ce_detach(oriel_win *w, struct target *t)
{
	struct gpu *g = gpu_of(w->ctx);

	if (t->dev && g && t->peer->rank != w->ctx->boot.rank)
		gpu_unmap(g, t->dev);
}

/* ---- Requests ---- */

/* A failed peer's memory stays mapped, and the copies come to their end. */
static bool
copied(const oriel_req *req)
{
	struct ce *ce = req->ctx->ce;

	return ce_reached(ce, req->mark) || ce_broken(ce) || load_acquire(&ce->broken);
}

static int
copies_done(oriel_req **req)
{
	const struct ce *ce = (*req)->ctx->ce;
	int rc = 0;

	if (!ce_reached(ce, (*req)->mark))
		rc = fail(load_acquire(&ce->broken), "the transfer with rank %d failed",
		          (*req)->peer->rank);
	req_bury(req);
	return rc;
}

static void
copies_name(const oriel_req *req, char *text, size_t cap)
{
	snprintf(text, cap, "transfer with rank %d", req->peer->rank);
}

static const struct req_ops copies_ops = {
	.ready = copied,
	.done = copies_done,
	.name = copies_name,
};

/* ---- Moves ---- */

static int
move(struct ce *ce, oriel_win *w, struct target *t, size_t disp, void *local, size_t len,
     bool is_put)
{
	struct ce_end end = { .win = w, .t = t, .host = local };
	enum ce_reach reach;
	int rc = ce_reach(ce, local, len, &reach);

	if (rc)
		return rc;
	if (reach == CE_AT_ONCE)
		return is_put ? ce_copy(ce, t->dev + disp, (CUdeviceptr)local, len)
		              : ce_copy(ce, (CUdeviceptr)local, t->dev + disp, len);
	return is_put ? ce_in(ce, t->dev + disp, &end, len) : ce_out(ce, &end, t->dev + disp, len);
}

static int
ce_move(oriel_win *w, struct target *t, size_t disp, void *local, size_t len, oriel_req *req,
        bool is_put)
{
	struct ce *ce;
	bool entered;
	int rc = ce_enter(w->ctx, &ce, &entered);

	if (rc)
		return rc;
	rc = move(ce, w, t, disp, local, len, is_put);
	if (!rc && req) {
		req->pending = 0;
		req->ops = &copies_ops;
		rc = ce_mark(ce, &req->mark);
	}
	gpu_leave(entered);
	return rc;
}

static int
ce_put(oriel_win *w, struct target *t, size_t disp, const void *src, size_t len, oriel_req *req)
{
	return ce_move(w, t, disp, (void *)(uintptr_t)src, len, req, true);
}

static int
ce_get(oriel_win *w, struct target *t, size_t disp, void *dst, size_t len, oriel_req *req)
{
	return ce_move(w, t, disp, dst, len, req, false);
}

int
ce_stage(oriel_win *w, struct target *t, size_t disp, void *local, size_t len, bool is_put)
{
	struct ce_end end = { .win = w, .t = t, .disp = disp };
	enum ce_reach reach;
	uint64_t mark;
	struct ce *ce;
	bool entered;
	int rc = ce_enter(w->ctx, &ce, &entered);

	if (rc)
		return rc;
	rc = ce_reach(ce, local, len, &reach);
	if (!rc && is_put) {
		rc = ce_out(ce, &end, (CUdeviceptr)local, len);
	} else if (!rc) {
		rc = ce_in(ce, (CUdeviceptr)local, &end, len);
		/* No flush of the target's transport would know of it. */
		if (!rc)
			rc = ce_mark(ce, &mark);
		if (!rc)
			rc = ce_wait(ce, mark, w, t);
	}
	gpu_leave(entered);
	return rc;
}

/* ---- Signals and completion ---- */

static int
settle(struct ce *ce, oriel_win *w, const struct target *t)
{
	uint64_t mark;
	int rc = ce_mark(ce, &mark);

	return rc ? rc : ce_wait(ce, mark, w, t);
}

/*
 * SET is a word that the stream writes behind the data. Streams cannot add: until a
 * kernel does it, the data is waited for and this thread adds.
 */
static int
raise_slot(struct ce *ce, oriel_win *w, struct target *t, size_t slot, int op, uint64_t value)
{
	int rc;

	if (op == ORIEL_SIGNAL_SET && !ce_idle(ce))
		return ce_word(ce, t->sig_dev + slot * sizeof(uint64_t), value);
	rc = settle(ce, w, t);
	if (rc)
		return rc;
	ctx_delay(w->ctx);
	signal_raise(&t->signals[slot], op, value, t->wake);
	return 0;
}

static int
ce_put_signal(oriel_win *w, struct target *t, size_t disp, const void *src, size_t len, size_t slot,
              int op, uint64_t value)
{
	struct ce *ce;
	bool entered;
	int rc = ce_meet(w, t);

	if (!rc)
		rc = ce_enter(w->ctx, &ce, &entered);
	if (rc)
		return rc;
	if (len)
		rc = move(ce, w, t, disp, (void *)(uintptr_t)src, len, true);
	if (!rc)
		rc = raise_slot(ce, w, t, slot, op, value);
	gpu_leave(entered);
	return rc;
}

static int
ce_flush(oriel_win *w, struct target *t, bool local)
{
	struct ce *ce;
	bool entered;
	int rc = ce_enter(w->ctx, &ce, &entered);

	(void)local;
	if (rc)
		return rc;
	rc = settle(ce, w, t);
	gpu_leave(entered);
	return rc;
}

static int
not_on_gpu(const struct target *t, const char *what)
{
	return fail(ORIEL_ENOTSUP,
	            "%s on rank %d's part, which is memory of a GPU: use host memory "
	            "for words that are updated",
	            what, t->peer->rank);
}

static int
ce_atomic(oriel_win *w, struct target *t, int kind, size_t disp, uint64_t a, uint64_t b,
          uint64_t *old)
{
	(void)w;
	(void)disp;
	(void)a;
	(void)b;
	(void)old;
	return not_on_gpu(t, kind == ATOMIC_ADD ? "a fetch_add" : "a compare_swap");
}

static int
ce_accumulate(oriel_win *w, struct target *t, size_t disp, const void *src, size_t count, int type)
{
	(void)w;
	(void)disp;
	(void)src;
	(void)count;
	(void)type;
	return not_on_gpu(t, "an accumulate");
}

const struct transport transport_ce = {
	.name = "ce",
	.id = TP_CE,
	.attach = ce_attach,
	.detach = ce_detach,
	.put = ce_put,
	.get = ce_get,
	.put_signal = ce_put_signal,
	.flush = ce_flush,
	.atomic = ce_atomic,
	.accumulate = ce_accumulate,
};
#endif
