#ifdef HAVE_CUDA_HEADERS
/*
 * streams.c - puts, gets, signals and waits on streams of the application.
 */
#include "oriel_cuda.h"
#include "rma/awaited.h"
#include "rma/ce_cuda.h"

struct call { /* one that is being made */
	oriel_win *win;
	struct target *t;
	struct ce *ce;
	CUstream stream;
	bool entered;
};

/* ---- Entering ---- */

/* What is not there yet is made by calls that must not be made while a stream is captured. */
static int
not_captured(const struct call *c, int target)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	int rc = gpu_check(CU(cuStreamIsCapturing)(c->stream, &status), "cuStreamIsCapturing");

	if (!rc && status != CU_STREAM_CAPTURE_STATUS_NONE)
		rc = fail(ORIEL_ENOTSUP,
		          "the stream is being captured, and this is the window's first call on a "
		          "stream for rank %d: make one before, such as a put of no bytes",
		          target);
	return rc;
}

static int
check_stream(const struct call *c)
{
	CUcontext cu = NULL;
	int rc = gpu_check(CU(cuStreamGetCtx)(c->stream, &cu), "cuStreamGetCtx of %p",
	                   (void *)c->stream);

	if (!rc && cu != c->ce->g->cu)
		rc = fail(ORIEL_EINVAL, "the stream %p is not one of GPU %d's primary context",
		          (void *)c->stream, (int)c->ce->g->dev);
	return rc;
}

static int
meet(struct call *c, int target)
{
	int rc;

	c->t = win_met(c->win, target);
	if (likely(c->t && (load_relaxed(&c->t->sig_dev) || !c->t->n_signals)))
		return 0;
	rc = dir_get(&c->win->targets, target) ? 0 : not_captured(c, target);
	if (!rc)
		rc = win_target(c->win, target, &c->t);
	if (rc)
		return rc;
	if (!c->t->peer->ctl)
		return fail(ORIEL_ENOTSUP,
		            "streams reach ranks of the node that share memory; rank %d: %s",
		            target, c->t->peer->why_not);
	if (c->t->n_signals && !load_relaxed(&c->t->sig_dev)) {
		rc = not_captured(c, target);
		if (!rc)
			rc = ce_meet(c->win, c->t);
	}
	return rc;
}

/* After success: leave(). */
static int
enter(struct call *c, oriel_win *win, int target, struct CUstream_st *stream)
{
	int rc = win_enter(win);

	if (!rc && (unsigned)target >= (unsigned)win->comm->size)
		rc = fail(ORIEL_ERANK, "target %d: the communicator has ranks 0 to %d", target,
		          win->comm->size - 1);
	if (!rc && comm_failed(win->comm))
		rc = comm_fail_error(win->comm, comm_failed(win->comm));
	c->win = win;
	c->stream = stream;
	if (!rc)
		rc = ce_enter(win->ctx, &c->ce, &c->entered);
	if (rc)
		return rc;
	rc = check_stream(c);
	if (!rc)
		rc = meet(c, target);
	if (rc)
		gpu_leave(c->entered);
	return rc;
}

static int
leave(const struct call *c, int rc)
{
	gpu_leave(c->entered);
	return rc;
}

/* ---- Data ---- */

struct place {
	CUdeviceptr at;
	bool pieces; /* host memory, pinned piece by piece */
	size_t off;  /* from the beginning of a piece */
};

static int
host_place(struct call *c, struct peer *peer, const void *p, size_t len, size_t slab_off,
           struct place *out)
{
	out->pieces = true;
	out->off = slab_off % CTL_PIN_CHUNK;
	return gpu_host(c->ce->g, peer, p, len, &out->at);
}

static int
local_place(struct call *c, const void *p, size_t len, struct place *out)
{
	enum ce_reach reach;
	unsigned slab;
	size_t off;
	int rc;

	if (pool_find(c->win->ctx->pool, p, len, &slab, &off))
		return host_place(c, NULL, p, len, off, out);
	rc = ce_reach(c->ce, p, len, &reach);
	if (!rc && reach == CE_BOUNCED)
		rc = fail(ORIEL_ENOTSUP,
		          "%zu bytes at %p are host memory that the driver has not pinned: a "
		          "stream needs memory of a GPU, of oriel_mem_alloc, or pinned",
		          len, p);
	*out = (struct place){ .at = (CUdeviceptr)p };
	return rc;
}

static int
target_place(struct call *c, int target, size_t disp, size_t len, struct place *out)
{
	struct target *t = c->t;
	void *p = t->base + disp;
	bool own = t->peer->rank == c->win->ctx->boot.rank;
	int rc = 0;

	if (t->dev) {
		*out = (struct place){ .at = t->dev + disp };
		return 0;
	}
	if (!t->rec.slab)
		return fail(ORIEL_ENOTSUP,
		            "rank %d's part is host memory outside the pool: a stream needs memory "
		            "of a GPU, or of oriel_win_alloc or oriel_mem_alloc",
		            target);
	/* Of ranks of the same process it may not be mapped yet. */
	if (!own)
		rc = peer_map(t->peer, t->rec.slab - 1, t->rec.slab_off + disp, len, &p);
	return rc ? rc : host_place(c, own ? NULL : t->peer, p, len, t->rec.slab_off + disp, out);
}

static size_t
until_piece_ends(const struct place *p, size_t at, size_t len)
{
	size_t left = CTL_PIN_CHUNK - (p->off + at) % CTL_PIN_CHUNK;

	return p->pieces && left < len ? left : len;
}

static int
copy(struct call *c, const struct place *dst, const struct place *src, size_t len)
{
	int rc = 0;

	for (size_t at = 0; at < len && !rc;) {
		size_t n = until_piece_ends(src, at, until_piece_ends(dst, at, len - at));

		rc = gpu_check(CU(cuMemcpyAsync)(dst->at + at, src->at + at, n, c->stream),
		               "copying %zu bytes on a stream", n);
		at += n;
	}
	return rc;
}

static int
move(struct call *c, int target, size_t disp, const void *local, size_t len, bool is_put)
{
	struct place here, there;
	int rc;

	if (!range_inside(disp, len, c->t->size))
		return fail(ORIEL_ERANGE,
		            "%zu bytes at displacement %zu: rank %d's part has %zu bytes", len,
		            disp, target, c->t->size);
	if (!len)
		return 0;
	if (!local)
		return fail(ORIEL_EINVAL, "%s is NULL and len is %zu", is_put ? "src" : "dst", len);
	rc = local_place(c, local, len, &here);
	if (!rc)
		rc = target_place(c, target, disp, len, &there);
	if (rc)
		return rc;
	return is_put ? copy(c, &there, &here, len) : copy(c, &here, &there, len);
}

int
oriel_put_on_stream(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                    struct CUstream_st *stream)
{
	struct call c;
	int rc = enter(&c, win, target, stream);

	return rc ? rc : leave(&c, move(&c, target, disp, src, len, true));
}

int
oriel_get_on_stream(oriel_win *win, int target, size_t disp, void *dst, size_t len,
                    struct CUstream_st *stream)
{
	struct call c;
	int rc = enter(&c, win, target, stream);

	return rc ? rc : leave(&c, move(&c, target, disp, dst, len, false));
}

/* ---- Signals ---- */

static int
check_signal(const struct call *c, int target, size_t slot, enum oriel_signal_op op, uint64_t value)
{
	if (slot >= c->t->n_signals)
		return fail(ORIEL_ERANGE, "signal slot %zu: rank %d has %zu slots in this window",
		            slot, target, c->t->n_signals);
	if (value > ORIEL_SIGNAL_MAX)
		return fail(ORIEL_EINVAL, "signal value %llu is above ORIEL_SIGNAL_MAX",
		            (unsigned long long)value);
	if (op != ORIEL_SIGNAL_SET && op != ORIEL_SIGNAL_ADD)
		return fail(ORIEL_EINVAL, "signal op %d is neither SET nor ADD", (int)op);
	return 0;
}

/* The one place where streams raise slots: a kernel that adds goes here. */
static int
raise_slot(struct call *c, size_t slot, enum oriel_signal_op op, uint64_t value)
{
	CUdeviceptr at = c->t->sig_dev + slot * sizeof(value);

	if (op == ORIEL_SIGNAL_ADD)
		return fail(ORIEL_ENOTSUP, "streams cannot ADD to a signal: let each sender SET a "
		                           "slot of its own");
	return gpu_check(CU(cuStreamWriteValue64)(c->stream, at, value, 0),
	                 "cuStreamWriteValue64 to slot %zu", slot);
}

int
oriel_put_signal_on_stream(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                           size_t slot, enum oriel_signal_op op, uint64_t value,
                           struct CUstream_st *stream)
{
	struct call c;
	int rc = enter(&c, win, target, stream);

	if (rc)
		return rc;
	rc = check_signal(&c, target, slot, op, value);
	if (!rc)
		rc = move(&c, target, disp, src, len, true);
	if (!rc)
		rc = raise_slot(&c, slot, op, value);
	return leave(&c, rc);
}

int
oriel_signal_on_stream(oriel_win *win, int target, size_t slot, enum oriel_signal_op op,
                       uint64_t value, struct CUstream_st *stream)
{
	return oriel_put_signal_on_stream(win, target, 0, NULL, 0, slot, op, value, stream);
}

static int
wait_on(struct call *c, size_t slot, enum oriel_cmp cmp, uint64_t value)
{
	oriel_comm *comm = c->win->comm;
	const struct peer *failed;
	int rc;

	if (slot >= c->win->n_signals)
		return fail(ORIEL_ERANGE, "signal slot %zu: this rank has %zu slots in this window",
		            slot, c->win->n_signals);
	if (cmp != ORIEL_EQ && cmp != ORIEL_GE)
		return fail(ORIEL_EINVAL,
		            "comparison %d: streams wait for ORIEL_EQ and ORIEL_GE "
		            "only",
		            (int)cmp);
	if (value > ORIEL_SIGNAL_MAX)
		return fail(ORIEL_EINVAL, "value %llu is above ORIEL_SIGNAL_MAX",
		            (unsigned long long)value);
	rc = awaited_note(c->win, slot, (int)cmp, value);
	if (rc)
		return rc;
	/* From now on whoever finds a failure lets the stream go. */
	failed = comm_failed_member(comm);
	if (comm_failed(comm))
		return comm_fail_error(comm, comm_failed(comm));
	if (failed)
		return peer_error(failed);
	return gpu_check(CU(cuStreamWaitValue64)(c->stream, c->t->sig_dev + slot * sizeof(value),
	                                         value,
	                                         cmp == ORIEL_EQ ? CU_STREAM_WAIT_VALUE_EQ
	                                                         : CU_STREAM_WAIT_VALUE_GEQ),
	                 "cuStreamWaitValue64 of slot %zu", slot);
}

int
oriel_signal_wait_on_stream(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value,
                            struct CUstream_st *stream)
{
	struct call c;
	int rc = win_enter(win);

	if (!rc)
		rc = enter(&c, win, win->comm->rank, stream);
	return rc ? rc : leave(&c, wait_on(&c, slot, cmp, value));
}
#endif
