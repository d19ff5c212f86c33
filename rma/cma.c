/*
 * cma.c - a same-node peer's ordinary memory: one process writes or reads the
 * other's with process_vm_writev and process_vm_readv. The call returns when the
 * bytes are there, so a store-release of the signal after it is ordered.
 */
#include "rma/win.h"

#include <errno.h>
#include <limits.h>
#include <sys/uio.h>

#define CMA_BATCH 256 /* segments in one system call */

typedef ssize_t cma_fn(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                       unsigned long, unsigned long);

static int
cma_attach(oriel_win *win, struct target *t)
{
	(void)win;
	(void)t;
	return 0;
}

/* Moves all of local and remote, which have the same lengths; both are changed. */
static int
cma_move(oriel_win *win, struct target *t, cma_fn *fn, const char *what, struct iovec *local,
         struct iovec *remote, unsigned n)
{
	unsigned at = 0;

	while (at < n) {
		ssize_t got = fn(t->peer->rec.pid, local + at, n - at, remote + at, n - at, 0);
		size_t left;

		if (got <= 0) {
			int err = got ? errno : EIO;

			if (err == EINTR)
				continue;
			if (err == ESRCH) {
				peer_fail(t->peer, true, "process %d is gone",
				          (int)t->peer->rec.pid);
				return peer_error(t->peer);
			}
			return fail_errno(
			        ORIEL_ETRANSPORT, err, "%s %zu bytes at %p of process %d (rank %d)",
			        what, local[at].iov_len, remote[at].iov_base, (int)t->peer->rec.pid,
			        comm_rank_of(win->comm, t->peer->rank));
		}
		for (left = (size_t)got; at < n && left >= local[at].iov_len; at++)
			left -= local[at].iov_len;
		if (left) { /* the kernel stopped inside a segment */
			local[at].iov_base = (char *)local[at].iov_base + left;
			local[at].iov_len -= left;
			remote[at].iov_base = (char *)remote[at].iov_base + left;
			remote[at].iov_len -= left;
		}
	}
	return 0;
}

static void *
remote_addr(const struct target *t, size_t disp)
{
	return (void *)(uintptr_t)(t->rec.base + disp);
}

static int
cma_put(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len, oriel_req *req)
{
	struct iovec local = { (void *)(uintptr_t)src, len },
	             remote = { remote_addr(t, disp), len };

	if (req)
		add_release(&req->pending, -1u);
	return cma_move(win, t, process_vm_writev, "writing", &local, &remote, len ? 1 : 0);
}

static int
cma_get(oriel_win *win, struct target *t, size_t disp, void *dst, size_t len, oriel_req *req)
{
	struct iovec local = { dst, len }, remote = { remote_addr(t, disp), len };

	if (req)
		add_release(&req->pending, -1u);
	return cma_move(win, t, process_vm_readv, "reading", &local, &remote, len ? 1 : 0);
}

static int
cma_vector(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n, cma_fn *fn,
           const char *what)
{
	struct iovec local[CMA_BATCH], remote[CMA_BATCH];

	while (n) {
		unsigned m = 0;
		int rc;

		for (; n && m < CMA_BATCH; segs++, n--) {
			if (!segs->len)
				continue;
			local[m] = (struct iovec){ segs->addr, segs->len };
			remote[m++] = (struct iovec){ remote_addr(t, segs->disp), segs->len };
		}
		rc = cma_move(win, t, fn, what, local, remote, m);
		if (rc)
			return rc;
	}
	return 0;
}

static int
cma_putv(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n)
{
	return cma_vector(win, t, segs, n, process_vm_writev, "writing");
}

static int
cma_getv(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n)
{
	return cma_vector(win, t, segs, n, process_vm_readv, "reading");
}

static int
cma_put_signal(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len,
               size_t slot, int add, uint64_t value)
{
	int rc = cma_put(win, t, disp, src, len, NULL);

	if (rc)
		return rc;
	ctx_delay(win->ctx);
	signal_raise(&t->signals[slot], add, value, t->wake);
	return 0;
}

static int
cma_flush(oriel_win *win, struct target *t, bool local)
{
	(void)win;
	(void)t;
	(void)local;
	return 0;
}

static int
cma_atomic(oriel_win *win, struct target *t, int kind, size_t disp, uint64_t a, uint64_t b,
           uint64_t *old)
{
	return ops_atomic_call(t->peer, win->id, kind, disp, a, b, old);
}

static int
cma_accumulate(oriel_win *win, struct target *t, size_t disp, const void *src, size_t count,
               int type)
{
	return ops_accumulate_call(t->peer, win->id, disp, src, count, type);
}

const struct transport transport_cma = {
	.name = "cma",
	.id = TP_CMA,
	.attach = cma_attach,
	.put = cma_put,
	.get = cma_get,
	.putv = cma_putv,
	.getv = cma_getv,
	.put_signal = cma_put_signal,
	.flush = cma_flush,
	.atomic = cma_atomic,
	.accumulate = cma_accumulate,
};
