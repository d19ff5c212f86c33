/*
 * staged.c - a same-node peer's ordinary memory where the system forbids
 * process_vm_*: operations travel through the rings of the control slabs, and
 * the owner's helper (or a thread of it that waits) executes them.
 */
#include "rma/win.h"

static int
staged_attach(oriel_win *win, struct target *t)
{
	/* Signals must stay behind the data in the ring. */
	(void)win;
	t->signals = NULL;
	return 0;
}

static int
staged_put(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len,
           oriel_req *req)
{
	if (req)
		add_release(&req->pending, -1u);
	return ops_put(t->peer, win->id, disp, src, len);
}

static int
staged_get(oriel_win *win, struct target *t, size_t disp, void *dst, size_t len, oriel_req *req)
{
	if (req)
		add_release(&req->pending, -1u);
	return ops_get(t->peer, win->id, disp, dst, len);
}

static int
staged_put_signal(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len,
                  size_t slot, int add, uint64_t value)
{
	return ops_put_signal(t->peer, win->id, disp, src, len, slot, add, value);
}

static int
staged_flush(oriel_win *win, struct target *t, bool local)
{
	/* Sources are copied into the ring at once. */
	return local ? 0 : am_sync(t->peer, ctx_call_deadline(win->ctx));
}

static int
staged_atomic(oriel_win *win, struct target *t, int kind, size_t disp, uint64_t a, uint64_t b,
              uint64_t *old)
{
	return ops_atomic_call(t->peer, win->id, kind, disp, a, b, old);
}

static int
staged_accumulate(oriel_win *win, struct target *t, size_t disp, const void *src, size_t count,
                  int type)
{
	return ops_accumulate_call(t->peer, win->id, disp, src, count, type);
}

const struct transport transport_staged = {
	.name = "staged",
	.id = TP_STAGED,
	.attach = staged_attach,
	.put = staged_put,
	.get = staged_get,
	.put_signal = staged_put_signal,
	.flush = staged_flush,
	.atomic = staged_atomic,
	.accumulate = staged_accumulate,
};
