/*
 * target.c - other ranks' parts of a window: found on first contact, in the control
 * slab of a rank of the node, else by asking the rank.
 */
#include "rma/ce.h"
#include "rma/ucx.h"
#include "rma/win.h"

#include <stdlib.h>
#include <string.h>

/* The owner published it before the window's creation ended, here as everywhere. */
static int
rec_find(const struct peer *p, uint64_t id, struct win_rec *rec)
{
	size_t at = id % CTL_WINS;

	for (size_t n = 0; n < CTL_WINS; n++, at = (at + 1) % CTL_WINS) {
		const struct win_rec *r = &p->ctl->wins[at];
		uint64_t found = load_acquire(&r->id);

		if (!found)
			break;
		if (found == id) {
			rec->id = id;
			memcpy((char *)rec + sizeof(rec->id), (const char *)r + sizeof(r->id),
			       sizeof(*r) - sizeof(r->id));
			return 0;
		}
	}
	return fail(ORIEL_EHANDLE, "rank %d has no such window (any more)", p->rank);
}

struct win_query {
	uint64_t token;
	uint64_t id;
};

void
win_on_lookup(oriel_ctx *ctx, const struct am_msg *m)
{
	struct {
		struct win_rec rec;
		char key[UCX_KEY_MAX];
	} out;
	size_t key_len = sizeof(out.key);
	struct win_query q;
	oriel_win *w;

	if (m->hdr_len != sizeof(q))
		return;
	memcpy(&q, m->hdr, sizeof(q));
	w = win_find(ctx, q.id);
	if (!w || comm_rank_of(w->comm, m->from->rank) < 0) {
		am_answer(ctx, m, q.token, ORIEL_EHANDLE, NULL, 0);
		return;
	}
	out.rec = w->rec;
	if (!ctx->ucx || ucx_win_key(w, out.key, &key_len))
		key_len = 0;
	am_answer(ctx, m, q.token, 0, &out, sizeof(out.rec) + key_len);
}

/* A rank of another node: asks it. t->priv becomes the key, for the transport. */
static int
ask_remote(oriel_win *w, struct target *t)
{
	struct win_query q = { .id = w->id };
	size_t len = sizeof(struct win_rec) + UCX_KEY_MAX;
	char answer[sizeof(struct win_rec) + UCX_KEY_MAX];
	struct ucx_key_blob *key;
	int rc = am_call(t->peer, AM_WIN, &q, sizeof(q), NULL, 0, answer, &len,
	                 deadline_after((uint64_t)w->ctx->knobs.v.boot_timeout));

	if (rc == ORIEL_EHANDLE)
		return fail(rc, "rank %d has no such window (any more)", t->peer->rank);
	if (rc)
		return fail_in(rc, "asking for the window");
	if (len < sizeof(t->rec))
		return fail(ORIEL_EPEER, "rank %d describes the window in %zu bytes", t->peer->rank,
		            len);
	memcpy(&t->rec, answer, sizeof(t->rec));
	key = malloc(sizeof(*key) + len);
	if (!key)
		return fail(ORIEL_ENOMEM, "no memory for a window's key");
	key->len = len - sizeof(t->rec);
	memcpy(key->key, answer + sizeof(t->rec), key->len);
	t->priv = key;
	return 0;
}

/* Its signals are where others' are. */
static int
attach_gpu(oriel_win *w, struct target *t)
{
	t->tp = &transport_ce;
	if (!list_has(w->ctx->knobs.s.transports, t->tp->name))
		return fail(ORIEL_ENOTSUP, "its part is memory of a GPU, and ORIEL_TRANSPORTS has "
		                           "no \"ce\"");
	return t->tp->attach(w, t);
}

static int
attach_far(oriel_win *w, struct target *t)
{
	int rc;

	t->tp = &transport_ucx;
	rc = ask_remote(w, t);
	if (rc)
		return rc;
	if (t->rec.on_gpu) {
		free(t->priv);
		return fail(ORIEL_ENOTSUP,
		            "its part is memory of a GPU, which only ranks that share memory with "
		            "it reach: %s",
		            t->peer->why_not);
	}
	pthread_mutex_lock(&w->ctx->lock);
	rc = t->tp->attach(w, t);
	pthread_mutex_unlock(&w->ctx->lock);
	return rc;
}

static int
attach_own(oriel_win *w, struct target *t)
{
	t->rec = w->rec;
	t->signals = w->signals;
	t->wake = &w->ctx->ctl->wake;
	if (t->rec.on_gpu)
		return attach_gpu(w, t);
	t->base = w->base ? w->base : (char *)w->ctx->ctl;
	return 0;
}

static int
attach_local(oriel_win *w, struct target *t)
{
	struct peer *p = t->peer;
	void *ptr = NULL;
	int rc = 0;

	if (t->rec.n_signals) {
		rc = peer_map(p, t->rec.sig_slab - 1, t->rec.sig_off, t->rec.n_signals * 8, &ptr);
		t->signals = ptr;
		t->wake = &p->ctl->wake;
	}
	if (rc)
		return rc;
	if (t->rec.on_gpu)
		return attach_gpu(w, t);
	if (p->same_process || !t->rec.size) {
		t->base = (char *)(uintptr_t)t->rec.base;
		/* An empty part has no address, but its signals are as near as they can be. */
		if (!t->base)
			t->base = (char *)p->ctl;
		return 0;
	}
	if (t->rec.slab) {
		rc = peer_map(p, t->rec.slab - 1, t->rec.slab_off, t->rec.size, &ptr);
		t->base = ptr;
		return rc;
	}
	t->tp = peer_cma(p) ? &transport_cma : &transport_staged;
	if (!list_has(w->ctx->knobs.s.transports, t->tp->name))
		return fail(ORIEL_ENOTSUP,
		            "rank %d's window is ordinary memory: cma is off (%s), and "
		            "ORIEL_TRANSPORTS has no \"staged\"",
		            comm_rank_of(w->comm, p->rank), p->cma_why);
	return t->tp->attach(w, t);
}

static int
attach(oriel_win *w, struct target *t)
{
	struct peer *p = t->peer;
	int rc;

	if (p->rank == w->ctx->boot.rank) {
		rc = attach_own(w, t);
	} else if (p->ctl) {
		rc = rec_find(p, w->id, &t->rec);
		if (!rc)
			rc = attach_local(w, t);
	} else if (w->ctx->ucx) {
		rc = attach_far(w, t);
	} else {
		rc = fail(ORIEL_ENOTSUP, "rank %d cannot be reached: %s; ucx: %s",
		          comm_rank_of(w->comm, p->rank), p->why_not, w->ctx->tp[TP_UCX].why);
	}
	t->size = t->rec.size;
	t->n_signals = t->rec.n_signals;
	return rc;
}

static int
target_make(oriel_win *w, int rank, struct target **out)
{
	struct target *t = calloc(1, sizeof(*t)), *other;
	int rc;

	if (!t)
		return fail(ORIEL_ENOMEM, "no memory for a window's target");
	rc = comm_peer(w->comm, rank, &t->peer);
	if (!rc)
		rc = attach(w, t);
	if (rc) {
		free(t);
		return fail_in(rc, "window, target %d", rank);
	}
	pthread_mutex_lock(&w->ctx->lock);
	other = dir_get(&w->targets, rank);
	if (!other)
		rc = dir_set(&w->targets, rank, t);
	pthread_mutex_unlock(&w->ctx->lock);
	if (other || rc) { /* another thread was first, or no memory */
		if (t->tp && t->tp->detach)
			t->tp->detach(w, t);
		free(t);
	}
	*out = other ? other : t;
	return rc;
}

int
win_enter(const oriel_win *w)
{
	if (!w)
		return fail(ORIEL_EHANDLE, "window is NULL");
	if (w->magic != WIN_MAGIC)
		return fail(ORIEL_EHANDLE, "%p is not a live window", (const void *)w);
	return ctx_enter(w->ctx);
}

int
win_target_slow(oriel_win *w, int rank, struct target **t)
{
	int rc = win_enter(w);

	if (rc)
		return rc;
	if (rank < 0 || rank >= w->comm->size)
		return fail(ORIEL_ERANK, "target %d: the communicator has ranks 0 to %d", rank,
		            w->comm->size - 1);
	*t = dir_get(&w->targets, rank);
	if (!*t) {
		rc = target_make(w, rank, t);
		if (rc)
			return rc;
	}
	return peer_failed((*t)->peer) ? peer_error((*t)->peer) : 0;
}

/*
 * If any part is memory of a GPU all targets of the node are met at once: mapping them
 * later may happen while a stream is captured, where it is not allowed. An error is
 * left to the call that needs the target.
 */
void
win_meet_node(oriel_win *w)
{
	oriel_ctx *ctx = w->ctx;
	bool any = w->rec.on_gpu;
	struct win_rec rec;
	struct target *t;

	if (likely(!gpu_of(ctx)))
		return;
	for (int i = 0; i < ctx->boot.n_local && !any; i++) {
		const struct peer *p = ctx->local[i];

		any = i != ctx->my_local && p->ctl && comm_rank_of(w->comm, p->rank) >= 0 &&
		      !rec_find(p, w->id, &rec) && rec.on_gpu;
	}
	for (int i = 0; i < ctx->boot.n_local && any; i++) {
		int r = comm_rank_of(w->comm, ctx->local[i]->rank);

		if (r >= 0 && ctx->local[i]->ctl && !win_target(w, r, &t))
			ce_meet(w, t);
	}
}
