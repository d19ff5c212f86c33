/*
 * put.c - puts and gets in all their forms. Where the target is mapped here a
 * put is a copy; the rest goes through the target's transport.
 */
#include "base/copy.h"
#include "rma/ce.h"
#include "rma/win.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRIDE_BATCH 64 /* blocks handed to a transport at once */

static int
range_error(const struct target *t, int target, size_t disp, size_t len)
{
	return fail(ORIEL_ERANGE, "%zu bytes at displacement %zu: rank %d's part has %zu bytes",
	            len, disp, target, t->size);
}

static int
null_error(const char *name, size_t len)
{
	return fail(ORIEL_EINVAL, "%s is NULL and len is %zu", name, len);
}

/* Most messages are words; a call for each would cost as much again. */
static inline void
copy(void *dst, const void *src, size_t len)
{
	if (len == 8)
		memcpy(dst, src, 8);
	else
		copy_bytes(dst, src, len);
}

/* All checks, and everything that is not a copy to memory that is mapped here. */
static __attribute__((noinline)) int
move(oriel_win *win, int target, size_t disp, void *local, size_t len, bool is_put)
{
	struct target *t;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (!range_inside(disp, len, t->size))
		return range_error(t, target, disp, len);
	if (!len)
		return 0;
	if (!local)
		return null_error(is_put ? "src" : "dst", len);
	if (ce_must_stage(win, t, local))
		return ce_stage(win, t, disp, local, len, is_put);
	if (t->base) {
		copy_bytes(is_put ? t->base + disp : local, is_put ? local : t->base + disp, len);
		return 0;
	}
	return is_put ? t->tp->put(win, t, disp, local, len, NULL)
	              : t->tp->get(win, t, disp, local, len, NULL);
}

/* Buffers have to be looked at. A plain load, which costs an instruction less: it is set once, and
 * who passes memory of a GPU has made the window, or called, after that. */
static inline bool
has_gpu(const oriel_win *win)
{
	return win->ctx->gpu != NULL;
}

int
oriel_put(oriel_win *win, int target, size_t disp, const void *src, size_t len)
{
	struct target *t = win_met(win, target);

	if (unlikely(!t || !t->base || has_gpu(win) || !src || !range_inside(disp, len, t->size)))
		return move(win, target, disp, (void *)(uintptr_t)src, len, true);
	copy(t->base + disp, src, len);
	return 0;
}

int
oriel_get(oriel_win *win, int target, size_t disp, void *dst, size_t len)
{
	struct target *t = win_met(win, target);

	if (unlikely(!t || !t->base || has_gpu(win) || !dst || !range_inside(disp, len, t->size)))
		return move(win, target, disp, dst, len, false);
	copy(dst, t->base + disp, len);
	return 0;
}

/*
 * ---- Many pieces ----
 */

static int
segs_check(const struct target *t, int target, const struct oriel_seg *segs, size_t n)
{
	if (n && !segs)
		return fail(ORIEL_EINVAL, "segs is NULL and n_segs is %zu", n);
	for (size_t i = 0; i < n; i++) {
		if (!range_inside(segs[i].disp, segs[i].len, t->size))
			return fail_in(range_error(t, target, segs[i].disp, segs[i].len),
			               "segment %zu", i);
		if (segs[i].len && !segs[i].addr)
			return fail(ORIEL_EINVAL, "segment %zu: addr is NULL", i);
	}
	return 0;
}

static int segs_move(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n,
                     bool is_put, bool maybe_gpu);

/* Some may be memory of a GPU. */
static int
segs_stage(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n, bool is_put)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct oriel_seg *s = &segs[i];

		if (s->len && ce_must_stage(win, t, s->addr))
			rc = ce_stage(win, t, s->disp, s->addr, s->len, is_put);
		else
			rc = segs_move(win, t, s, 1, is_put, false);
	}
	return rc;
}

/* maybe_gpu: they have to be looked at, one by one. */
static int
segs_move(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n, bool is_put,
          bool maybe_gpu)
{
	int (*all)(oriel_win *, struct target *, const struct oriel_seg *, size_t);
	int rc = 0;

	if (maybe_gpu)
		return segs_stage(win, t, segs, n, is_put);
	if (t->base) {
		for (size_t i = 0; i < n; i++) {
			char *there = t->base + segs[i].disp;

			if (segs[i].len)
				copy_bytes(is_put ? there : segs[i].addr,
				           is_put ? segs[i].addr : there, segs[i].len);
		}
		return 0;
	}
	all = is_put ? t->tp->putv : t->tp->getv;
	if (all)
		return all(win, t, segs, n);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct oriel_seg *s = &segs[i];

		if (s->len)
			rc = is_put ? t->tp->put(win, t, s->disp, s->addr, s->len, NULL)
			            : t->tp->get(win, t, s->disp, s->addr, s->len, NULL);
	}
	return rc;
}

static int
list(oriel_win *win, int target, const struct oriel_seg *segs, size_t n, bool is_put)
{
	struct target *t;
	int rc = win_target(win, target, &t);

	if (!rc)
		rc = segs_check(t, target, segs, n);
	return rc ? rc
	          : segs_move(win, t, segs, n, is_put,
	                      unlikely(gpu_of(win->ctx)) && t->tp != &transport_ce);
}

int
oriel_put_list(oriel_win *win, int target, const struct oriel_seg *segs, size_t n_segs)
{
	return list(win, target, segs, n_segs, true);
}

int
oriel_get_list(oriel_win *win, int target, const struct oriel_seg *segs, size_t n_segs)
{
	return list(win, target, segs, n_segs, false);
}

/* The whole extent, overflow included, before the first block moves. */
static int
strided_check(const struct target *t, int target, size_t disp, size_t disp_stride,
              const void *local, size_t local_stride, size_t len, size_t n)
{
	size_t last;

	if (!len || !n)
		return range_inside(disp, 0, t->size) ? 0 : range_error(t, target, disp, 0);
	if (!local)
		return fail(ORIEL_EINVAL, "the local buffer is NULL");
	if (n > 1 && (disp_stride < len || local_stride < len))
		return fail(ORIEL_EINVAL, "strides of %zu and %zu bytes: blocks of %zu overlap",
		            disp_stride, local_stride, len);
	if (__builtin_mul_overflow(n - 1, disp_stride, &last) ||
	    __builtin_add_overflow(last, disp, &last) || !range_inside(last, len, t->size))
		return fail(ORIEL_ERANGE,
		            "%zu blocks of %zu bytes, %zu apart from displacement %zu: rank %d's "
		            "part has %zu bytes",
		            n, len, disp_stride, disp, target, t->size);
	return 0;
}

static int
strided(oriel_win *win, int target, size_t disp, size_t disp_stride, void *local,
        size_t local_stride, size_t len, size_t n, bool is_put)
{
	struct oriel_seg segs[STRIDE_BATCH];
	struct target *t;
	bool on_gpu;
	int rc = win_target(win, target, &t);

	if (!rc)
		rc = strided_check(t, target, disp, disp_stride, local, local_stride, len, n);
	if (rc || !len || !n)
		return rc;
	on_gpu = ce_must_stage(win, t, local);
	for (size_t i = 0; i < n && !rc;) {
		size_t m = 0;

		for (; i < n && m < STRIDE_BATCH; i++, m++)
			segs[m] = (struct oriel_seg){ disp + i * disp_stride,
				                      (char *)local + i * local_stride, len };
		rc = segs_move(win, t, segs, m, is_put, on_gpu);
	}
	return rc;
}

int
oriel_put_strided(oriel_win *win, int target, size_t disp, size_t disp_stride, const void *src,
                  size_t src_stride, size_t block_len, size_t n_blocks)
{
	return strided(win, target, disp, disp_stride, (void *)(uintptr_t)src, src_stride,
	               block_len, n_blocks, true);
}

int
oriel_get_strided(oriel_win *win, int target, size_t disp, size_t disp_stride, void *dst,
                  size_t dst_stride, size_t block_len, size_t n_blocks)
{
	return strided(win, target, disp, disp_stride, dst, dst_stride, block_len, n_blocks, false);
}

/*
 * ---- Requests ----
 */

static bool
transfer_ready(const oriel_req *req)
{
	return load_acquire(&req->pending) == 0;
}

/* A failed peer's transfers are completed with EPEER by the transport. */
static int
transfer_doomed(oriel_req *req)
{
	peer_watch(req->peer);
	return 0;
}

static int
transfer_done(oriel_req **req)
{
	int rc = (*req)->status;

	if (rc == ORIEL_EPEER && peer_failed((*req)->peer))
		peer_error((*req)->peer);
	else if (rc)
		fail(rc, "the transfer with rank %d failed", (*req)->peer->rank);
	req_bury(req);
	return rc;
}

static void
transfer_name(const oriel_req *req, char *text, size_t cap)
{
	snprintf(text, cap, "transfer with rank %d", req->peer->rank);
}

static const struct req_ops transfer_ops = {
	.ready = transfer_ready,
	.doomed = transfer_doomed,
	.done = transfer_done,
	.name = transfer_name,
};

static int
request(oriel_win *win, int target, size_t disp, void *local, size_t len, bool is_put,
        oriel_req **out)
{
	struct target *t;
	oriel_req *req;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (!out)
		return fail(ORIEL_EINVAL, "req is NULL");
	if (!range_inside(disp, len, t->size))
		return range_error(t, target, disp, len);
	if (len && !local)
		return null_error(is_put ? "src" : "dst", len);
	req = calloc(1, sizeof(*req));
	if (!req)
		return fail(ORIEL_ENOMEM, "no memory for a request");
	req_init(req, win->ctx, &transfer_ops);
	req->peer = t->peer;
	if (len && ce_must_stage(win, t, local)) {
		rc = ce_stage(win, t, disp, local, len, is_put);
	} else if (len && t->base) {
		copy_bytes(is_put ? t->base + disp : local, is_put ? local : t->base + disp, len);
	} else if (len) {
		req->pending = 1;
		rc = is_put ? t->tp->put(win, t, disp, local, len, req)
		            : t->tp->get(win, t, disp, local, len, req);
	}
	if (rc) {
		free(req);
		return rc;
	}
	*out = req;
	return 0;
}

int
oriel_rput(oriel_win *win, int target, size_t disp, const void *src, size_t len, oriel_req **req)
{
	return request(win, target, disp, (void *)(uintptr_t)src, len, true, req);
}

int
oriel_rget(oriel_win *win, int target, size_t disp, void *dst, size_t len, oriel_req **req)
{
	return request(win, target, disp, dst, len, false, req);
}
