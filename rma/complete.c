/*
 * complete.c - flushes, and the operations that complete before they return.
 */
#include "rma/awaited.h"
#include "rma/ce.h"
#include "rma/win.h"

#include <stdio.h>

static int
flush_target(oriel_win *win, struct target *t, bool local)
{
	/* First: it names who began it, and others have left since. */
	if (unlikely(load_relaxed(&win->released)))
		return awaited_error(win);
	if (peer_failed(t->peer))
		return peer_error(t->peer);
	/* Mapped memory: the stores were made; a fence makes them visible before what follows. */
	if (likely(t->base != NULL)) {
		if (!local)
			fence_full();
		return 0;
	}
	return t->tp->flush(win, t, local);
}

static int
flush_one(oriel_win *win, int target, bool local)
{
	struct target *t;
	int rc;

	if (likely(win_live(win) && (unsigned)target < (unsigned)win->comm->size)) {
		t = dir_get(&win->targets, target);
		return t ? flush_target(win, t, local) : 0; /* never talked to it */
	}
	rc = win_target_slow(win, target, &t);
	return rc ? rc : flush_target(win, t, local);
}

struct flush_each {
	oriel_win *win;
	bool local;
	int rc;
	char detail[512]; /* of rc: later errors have theirs */
};

static void
flush_entry(void *entry, void *arg)
{
	struct flush_each *f = arg;
	int rc = flush_target(f->win, entry, f->local);

	if (!rc || f->rc)
		return;
	f->rc = rc;
	snprintf(f->detail, sizeof(f->detail), "%s", oriel_detail());
}

/* Every target is flushed, also after one has failed; the first error is returned. */
static int
flush_every(oriel_win *win, bool local)
{
	struct flush_each f = { .win = win, .local = local };
	int rc = win_enter(win);

	if (rc)
		return rc;
	dir_each(&win->targets, flush_entry, &f);
	return f.rc ? fail(f.rc, "%s", f.detail) : 0;
}

int
oriel_flush(oriel_win *win, int target)
{
	return flush_one(win, target, false);
}

int
oriel_flush_local(oriel_win *win, int target)
{
	return flush_one(win, target, true);
}

int
oriel_flush_all(oriel_win *win)
{
	return flush_every(win, false);
}

int
oriel_flush_local_all(oriel_win *win)
{
	return flush_every(win, true);
}

static int
atomic(oriel_win *win, int target, int kind, size_t disp, uint64_t a, uint64_t b, uint64_t *old)
{
	struct target *t;
	uint64_t seen;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (!range_inside(disp, 8, t->size))
		return fail(ORIEL_ERANGE,
		            "8 bytes at displacement %zu: rank %d's part has %zu bytes", disp,
		            target, t->size);
	if ((disp | (t->rec.base + disp)) % 8)
		return fail(ORIEL_EINVAL,
		            "atomic at displacement %zu: %s at rank %d is not a multiple of 8",
		            disp, disp % 8 ? "the displacement" : "the address", target);
	if (!t->base)
		return t->tp->atomic(win, t, kind, disp, a, b, old);
	seen = ops_atomic((uint64_t *)(t->base + disp), kind, a, b);
	if (old)
		*old = seen;
	return 0;
}

int
oriel_fetch_add(oriel_win *win, int target, size_t disp, uint64_t add, uint64_t *old)
{
	return atomic(win, target, ATOMIC_ADD, disp, add, 0, old);
}

int
oriel_compare_swap(oriel_win *win, int target, size_t disp, uint64_t expected, uint64_t desired,
                   uint64_t *old)
{
	return atomic(win, target, ATOMIC_CAS, disp, expected, desired, old);
}

int
oriel_accumulate(oriel_win *win, int target, size_t disp, const void *src, size_t count,
                 enum oriel_type type)
{
	size_t size = ops_type_size((int)type);
	struct target *t;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (!size)
		return fail(ORIEL_EINVAL, "type %d does not exist", (int)type);
	if (count > ORIEL_ACCUMULATE_MAX / size)
		return fail(ORIEL_ELIMIT, "%zu elements of %zu bytes: at most %d bytes at once",
		            count, size, ORIEL_ACCUMULATE_MAX);
	if (!range_inside(disp, count * size, t->size))
		return fail(ORIEL_ERANGE,
		            "%zu bytes at displacement %zu: rank %d's part has %zu bytes",
		            count * size, disp, target, t->size);
	if (!count)
		return 0;
	if (!src)
		return fail(ORIEL_EINVAL, "src is NULL and count is %zu", count);
	if (ce_must_stage(win, t, src))
		return fail(ORIEL_ENOTSUP, "an accumulate from memory of a GPU: copy it to the "
		                           "host first");
	if (disp % size || (t->rec.base + disp) % size)
		return fail(
		        ORIEL_EINVAL,
		        "displacement %zu: the elements at rank %d are not aligned to %zu bytes",
		        disp, target, size);
	if (!t->base)
		return t->tp->accumulate(win, t, disp, src, count, (int)type);
	ops_accumulate(t->base + disp, src, count, (int)type);
	return 0;
}
