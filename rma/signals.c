/*
 * signals.c - raising a peer's slot after the data, and waiting for one's own.
 */
#include "base/copy.h"
#include "rma/awaited.h"
#include "rma/ce.h"
#include "rma/win.h"

#include <stdlib.h>
#include <string.h>

#define SPIN_FIRST                                                                                 \
	2000 /* looks at the word before the general way of waiting, which polls all else too */

static const char *const cmp_text[] = { "==", "!=", ">=", ">", "<=", "<" };

static int
slot_error(const struct target *t, int target, size_t slot)
{
	return fail(ORIEL_ERANGE, "signal slot %zu: rank %d has %zu slots in this window", slot,
	            target, t->n_signals);
}

static int
signal_args(const struct target *t, int target, size_t slot, enum oriel_signal_op op,
            uint64_t value)
{
	if (slot >= t->n_signals)
		return slot_error(t, target, slot);
	if (value > ORIEL_SIGNAL_MAX)
		return fail(ORIEL_EINVAL, "signal value %llu is above ORIEL_SIGNAL_MAX",
		            (unsigned long long)value);
	return fail(ORIEL_EINVAL, "signal op %d is neither SET nor ADD", (int)op);
}

/* All checks, and everything that is not a copy and a store into memory that is mapped here. */
static __attribute__((noinline)) int
put_signal(oriel_win *win, int target, size_t disp, const void *src, size_t len, size_t slot,
           enum oriel_signal_op op, uint64_t value)
{
	struct target *t;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (slot >= t->n_signals || value > ORIEL_SIGNAL_MAX || (unsigned)op > 1)
		return signal_args(t, target, slot, op, value);
	if (!range_inside(disp, len, t->size))
		return fail(ORIEL_ERANGE,
		            "%zu bytes at displacement %zu: rank %d's part has %zu bytes", len,
		            disp, target, t->size);
	if (!src && len)
		return fail(ORIEL_EINVAL, "src is NULL and len is %zu", len);
	if (len && ce_must_stage(win, t, src)) {
		rc = ce_stage(win, t, disp, (void *)(uintptr_t)src, len, true);
		if (rc)
			return rc;
		len = 0;
	}
	if (!t->base)
		return t->tp->put_signal(win, t, disp, src, len, slot, op, value);
	if (len)
		copy_bytes(t->base + disp, src, len);
	ctx_delay(win->ctx);
	signal_raise(&t->signals[slot], op, value, t->wake);
	return 0;
}

int
oriel_put_signal(oriel_win *win, int target, size_t disp, const void *src, size_t len, size_t slot,
                 enum oriel_signal_op op, uint64_t value)
{
	struct target *t = win_met(win, target);

	if (unlikely(!t || !t->base || slot >= t->n_signals || value > ORIEL_SIGNAL_MAX ||
	             (unsigned)op > 1 || !src || !range_inside(disp, len, t->size) ||
	             (win->ctx->knobs.v.delay | (intptr_t)load_relaxed(&win->ctx->gpu))))
		return put_signal(win, target, disp, src, len, slot, op, value);
	if (len == 8)
		memcpy(t->base + disp, src, 8);
	else
		copy_bytes(t->base + disp, src, len);
	signal_raise(&t->signals[slot], op, value, t->wake);
	return 0;
}

int
oriel_signal(oriel_win *win, int target, size_t slot, enum oriel_signal_op op, uint64_t value)
{
	return put_signal(win, target, 0, NULL, 0, slot, op, value);
}

/*
 * ---- Waiting ----
 */

struct wait {
	oriel_win *win;
	const struct oriel_cond *conds;
	size_t n;
	int source; /* rank of the communicator, or -1 */
	bool all;
	size_t done;   /* all: conditions before this one have held */
	size_t which;  /* any: the one that holds */
	uint64_t seen; /* the slot's value that decided */
	struct peer *source_peer;
	struct recorder_wait *rec;
};

static bool
cond_met(struct wait *w, size_t i)
{
	const struct oriel_cond *c = &w->conds[i];

	w->seen = load_acquire(&w->win->signals[c->slot]);
	return signal_holds(w->seen, c->cmp, c->value) && !awaited_released(w->win, c->slot);
}

/* A slot was overwritten to let streams go: what it shows means nothing any more. */
static int
wait_released(const struct wait *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (awaited_released(w->win, w->conds[i].slot))
			return awaited_error(w->win);
	return 0;
}

static bool
wait_ready(void *arg)
{
	struct wait *w = arg;

	if (w->all) {
		while (w->done < w->n && cond_met(w, w->done))
			w->done++;
		return w->done == w->n;
	}
	for (size_t i = 0; i < w->n; i++) {
		if (cond_met(w, i)) {
			w->which = i;
			return true;
		}
	}
	return false;
}

/* The condition that is named in an error: the first that does not hold. */
static const struct oriel_cond *
wait_open(struct wait *w)
{
	size_t i = w->all ? w->done : 0;

	cond_met(w, i);
	return &w->conds[i];
}

static int
wait_error(struct wait *w)
{
	const struct oriel_cond *c = wait_open(w);

	return fail_more(0, "; rank %d waits for slot %zu %s %llu%s, seen %llu", w->win->comm->rank,
	                 c->slot, cmp_text[c->cmp], (unsigned long long)c->value,
	                 w->n > 1 ? " (and others)" : "", (unsigned long long)w->seen);
}

static int
wait_doomed(void *arg)
{
	struct wait *w = arg;
	oriel_comm *comm = w->win->comm;
	uint64_t word = comm_failed(comm);
	struct peer *p;
	int rc = wait_released(w);

	if (rc)
		return rc;
	if (word & COMM_FAIL_ABORT)
		return comm_fail_error(comm, word);
	if (w->source_peer) {
		peer_watch(w->source_peer);
		p = peer_failed(w->source_peer) ? w->source_peer : NULL;
	} else {
		p = comm_failed_member(comm);
	}
	if (!p || wait_ready(w))
		return 0;
	/* Once the communicator has failed all name the same rank; others have left since. */
	word = w->source_peer ? 0 : comm_failed(comm);
	return word ? comm_fail_error(comm, word) : peer_error(p);
}

static struct recorder_wait *
record_begin(struct wait *w)
{
	struct recorder *r = w->win->ctx->rec_out;
	const struct oriel_cond *c = wait_open(w);
	uint64_t now = now_ns(), unused;

	for (int i = 0; i < RECORDER_WAITS; i++) {
		struct recorder_wait *e = &r->wait[i];

		unused = 0;
		if (load_relaxed(&e->since_ns) || !cas_acq_rel(&e->since_ns, &unused, now))
			continue;
		store_relaxed(&e->win, w->win->id);
		store_relaxed(&e->slot, c->slot);
		store_relaxed(&e->expected, c->value);
		store_relaxed(&e->seen, w->seen);
		store_relaxed(&e->cmp, (int32_t)c->cmp);
		store_relaxed(&e->source, w->source_peer ? w->source_peer->rank : -1);
		return e;
	}
	return NULL;
}

/* The word is not there yet: everything that is not the fast path. */
static int
wait_slow(struct wait *w, uint64_t timeout_ns)
{
	oriel_ctx *ctx = w->win->ctx;
	uint64_t deadline;
	int rc;

	rc = wait_released(w);
	if (rc) {
		wait_error(w);
		return rc;
	}
	if (!timeout_ns) {
		ctx_progress(ctx);
		if (wait_ready(w))
			return 0;
		fail(ORIEL_ETIMEDOUT, "not there now");
		wait_error(w);
		return ORIEL_ETIMEDOUT;
	}
	if (w->source >= 0) {
		rc = comm_peer(w->win->comm, w->source, &w->source_peer);
		if (rc)
			return rc;
	}
	if (!ctx->crowded && !ctx->has_remote) {
		oriel_spin(ctx, &w->win->signals[w->conds[0].slot], w->seen, SPIN_FIRST);
		if (wait_ready(w))
			return 0;
	}
	deadline = deadline_after(timeout_ns);
	w->rec = record_begin(w);
	rc = ctx_wait(ctx, wait_ready, wait_doomed, w, deadline);
	if (w->rec)
		store_release(&w->rec->since_ns, 0);
	if (rc == ORIEL_ETIMEDOUT)
		fail(rc, "timed out after %llu ms", (unsigned long long)(timeout_ns / 1000000));
	if (rc)
		wait_error(w);
	return rc;
}

static int
wait_enter(oriel_win *win, size_t slot, enum oriel_cmp cmp)
{
	int rc = likely(win_live(win)) ? 0 : win_enter(win);

	if (rc)
		return rc;
	if (slot >= win->n_signals)
		return fail(ORIEL_ERANGE, "signal slot %zu: this rank has %zu slots in this window",
		            slot, win->n_signals);
	if ((unsigned)cmp > ORIEL_LT)
		return fail(ORIEL_EINVAL, "comparison %d is none of EQ, NE, GE, GT, LE, LT",
		            (int)cmp);
	return 0;
}

static __attribute__((noinline)) int
wait_one(oriel_win *win, int source, size_t slot, enum oriel_cmp cmp, uint64_t value,
         uint64_t timeout_ns, uint64_t *seen)
{
	struct oriel_cond c = { slot, cmp, value };
	struct wait w = { .win = win, .conds = &c, .n = 1, .source = source };
	int rc = wait_enter(win, slot, cmp);

	if (rc)
		return rc;
	if (source >= win->comm->size)
		return fail(ORIEL_ERANK, "source %d: the communicator has ranks 0 to %d", source,
		            win->comm->size - 1);
	if (!cond_met(&w, 0)) {
		rc = wait_slow(&w, timeout_ns);
		if (rc)
			return rc;
	}
	if (seen)
		*seen = w.seen;
	return 0;
}

/* The arguments stand where the caller's caller put them: the common path moves none. */
static __attribute__((noinline)) int
wait_anyone(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value, uint64_t timeout_ns,
            uint64_t *seen)
{
	return wait_one(win, -1, slot, cmp, value, timeout_ns, seen);
}

int
oriel_signal_wait(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value,
                  uint64_t timeout_ns, uint64_t *seen)
{
	if (likely(win_live(win) && slot < win->n_signals)) {
		uint64_t v = load_acquire(&win->signals[slot]);

		if (likely(cmp == ORIEL_GE && v >= value && !load_relaxed(&win->released))) {
			if (seen)
				*seen = v;
			return 0;
		}
	}
	return wait_anyone(win, slot, cmp, value, timeout_ns, seen);
}

int
oriel_signal_wait_from(oriel_win *win, int source, size_t slot, enum oriel_cmp cmp, uint64_t value,
                       uint64_t timeout_ns, uint64_t *seen)
{
	if (source < 0)
		return fail(ORIEL_ERANK, "source %d is negative", source);
	return wait_one(win, source, slot, cmp, value, timeout_ns, seen);
}

int
oriel_signal_test(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value, int *met)
{
	int rc = wait_enter(win, slot, cmp);

	if (rc)
		return rc;
	if (!met)
		return fail(ORIEL_EINVAL, "met is NULL");
	if (awaited_released(win, slot))
		return awaited_error(win);
	*met = signal_holds(load_acquire(&win->signals[slot]), cmp, value);
	if (!*met) {
		ctx_progress(win->ctx);
		*met = signal_holds(load_acquire(&win->signals[slot]), cmp, value);
	}
	return 0;
}

int
oriel_signal_read(oriel_win *win, size_t slot, uint64_t *value)
{
	int rc = wait_enter(win, slot, ORIEL_EQ);

	if (rc)
		return rc;
	if (!value)
		return fail(ORIEL_EINVAL, "value is NULL");
	*value = load_acquire(&win->signals[slot]);
	return 0;
}

static int
wait_many(oriel_win *win, size_t n, const struct oriel_cond *conds, uint64_t timeout_ns, bool all,
          size_t *which)
{
	struct wait w = { .win = win, .conds = conds, .n = n, .source = -1, .all = all };
	int rc = win_enter(win);

	if (rc)
		return rc;
	if (n && !conds)
		return fail(ORIEL_EINVAL, "conds is NULL and n is %zu", n);
	for (size_t i = 0; i < n; i++) {
		rc = wait_enter(win, conds[i].slot, conds[i].cmp);
		if (rc)
			return fail_in(rc, "condition %zu", i);
	}
	if (!n)
		return all ? 0 : fail(ORIEL_EINVAL, "any of no conditions never holds");
	if (!wait_ready(&w)) {
		rc = wait_slow(&w, timeout_ns);
		if (rc)
			return rc;
	}
	if (which)
		*which = w.which;
	return 0;
}

int
oriel_signal_wait_any(oriel_win *win, size_t n, const struct oriel_cond *conds, uint64_t timeout_ns,
                      size_t *which)
{
	return wait_many(win, n, conds, timeout_ns, false, which);
}

int
oriel_signal_wait_all(oriel_win *win, size_t n, const struct oriel_cond *conds, uint64_t timeout_ns)
{
	return wait_many(win, n, conds, timeout_ns, true, NULL);
}
