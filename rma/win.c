#include "rma/win.h"

#include "rma/ucx.h"

#include <stdlib.h>
#include <string.h>

#define REC_DELETED 1

/*
 * ---- The table of the control slab ----
 */

/* The entry that id may take, or NULL. */
static struct win_rec *
rec_vacant(struct ctl *ctl, uint64_t id)
{
	size_t at = id % CTL_WINS;

	for (size_t n = 0; n < CTL_WINS; n++, at = (at + 1) % CTL_WINS)
		if (load_relaxed(&ctl->wins[at].id) <= REC_DELETED)
			return &ctl->wins[at];
	return NULL;
}

/* Windows of several communicators may be made at the same time: ctx->lock. */
static int
rec_publish(oriel_win *w)
{
	const size_t id_len = sizeof(w->rec.id); /* the id is stored last */
	struct win_rec *r;

	pthread_mutex_lock(&w->ctx->lock);
	r = rec_vacant(w->ctx->ctl, w->id);
	if (r) {
		memcpy((char *)r + id_len, (const char *)&w->rec + id_len, sizeof(*r) - id_len);
		store_release(&r->id, w->id);
	}
	pthread_mutex_unlock(&w->ctx->lock);
	if (!r)
		return fail(ORIEL_ELIMIT, "this rank has %d windows already, the most at once",
		            CTL_WINS);
	w->slot = r;
	return 0;
}

static void
rec_remove(oriel_win *w)
{
	if (w->slot)
		store_release(&w->slot->id, REC_DELETED);
	w->slot = NULL;
}

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

oriel_win *
win_find(oriel_ctx *ctx, uint64_t id)
{
	return table_get(ctx->wins, id);
}

/*
 * ---- First contact with a target ----
 */

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
		t->rec = w->rec;
		t->base = w->base ? w->base : (char *)w->ctx->ctl;
		t->signals = w->signals;
		t->wake = &w->ctx->ctl->wake;
	} else if (p->ctl) {
		rc = rec_find(p, w->id, &t->rec);
		if (!rc)
			rc = attach_local(w, t);
		if (rc)
			return rc;
	} else if (w->ctx->ucx) {
		t->tp = &transport_ucx;
		rc = ask_remote(w, t);
		if (rc)
			return rc;
		pthread_mutex_lock(&w->ctx->lock);
		rc = t->tp->attach(w, t);
		pthread_mutex_unlock(&w->ctx->lock);
		if (rc)
			return rc;
	} else {
		return fail(ORIEL_ENOTSUP, "rank %d cannot be reached: %s; ucx: %s",
		            comm_rank_of(w->comm, p->rank), p->why_not, w->ctx->tp[TP_UCX].why);
	}
	t->size = t->rec.size;
	t->n_signals = t->rec.n_signals;
	return 0;
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
 * ---- Life ----
 */

static int
win_prepare(oriel_win *w, void *base, size_t size, size_t n_signals)
{
	oriel_ctx *ctx = w->ctx;
	void *p = NULL;
	unsigned slab;
	size_t off;
	int rc;

	if (size && !base)
		return fail(ORIEL_EINVAL, "base is NULL and size is %zu", size);
	if ((uintptr_t)base + size < (uintptr_t)base)
		return fail(ORIEL_EINVAL, "%zu bytes at %p wrap around", size, base);
	if (n_signals > SIZE_MAX / 8)
		return fail(ORIEL_EINVAL, "%zu signals are too many", n_signals);
	w->base = base;
	w->size = size;
	w->rec = (struct win_rec){
		.id = w->id, .size = size, .base = (uintptr_t)base, .n_signals = n_signals
	};
	if (size && pool_find(ctx->pool, base, size, &slab, &off)) {
		w->rec.slab = slab + 1;
		w->rec.slab_off = off;
	}
	if (n_signals) {
		rc = pool_alloc_zeroed(ctx->pool, n_signals * 8, CACHE_LINE, &p);
		if (rc)
			return fail_in(rc, "%zu signals", n_signals);
		w->signals = p;
		w->n_signals = n_signals;
		pool_find(ctx->pool, p, n_signals * 8, &slab, &off);
		w->rec.signals = (uintptr_t)p;
		w->rec.sig_slab = slab + 1;
		w->rec.sig_off = off;
	}
	rc = dir_init(&w->targets, w->comm->size);
	if (rc)
		return rc;
	if (ctx->ucx && w->comm->size > 1 && size) {
		pthread_mutex_lock(&ctx->lock);
		rc = ucx_win_reg(w);
		pthread_mutex_unlock(&ctx->lock);
		if (rc)
			return rc;
	}
	rc = table_put(ctx->wins, w->id, w);
	return rc ? rc : rec_publish(w);
}

static void
target_free(void *entry, void *arg)
{
	struct target *t = entry;

	if (t->tp && t->tp->detach)
		t->tp->detach(arg, t);
	free(t);
}

/*
 * May others still write to its memory after they have agreed, or could not? A
 * rank that failed but may only be stopped could, and so could one that has not
 * heard yet that the communicator was aborted.
 */
static bool
zombies(const oriel_win *w)
{
	if (comm_failed(w->comm))
		return true;
	for (struct peer *p = load_acquire(&w->ctx->failed_peers); p; p = p->next_failed)
		if (!load_acquire(&p->dead) && comm_rank_of(w->comm, p->rank) >= 0)
			return true;
	return false;
}

static void
pool_give(oriel_win *w, void *p)
{
	if (zombies(w))
		pool_retire(w->ctx->pool, p);
	else
		pool_free(w->ctx->pool, p);
}

/* Handlers may be looking at it under ctx->progress: out of the table first. */
static void
win_unmake(oriel_win *w)
{
	oriel_ctx *ctx = w->ctx;

	rec_remove(w);
	pthread_mutex_lock(&ctx->progress);
	table_del(ctx->wins, w->id);
	pthread_mutex_unlock(&ctx->progress);
	dir_each(&w->targets, target_free, w);
	dir_free(&w->targets);
	if (w->ucx) {
		pthread_mutex_lock(&ctx->lock);
		ucx_win_dereg(w);
		pthread_mutex_unlock(&ctx->lock);
	}
	if (w->signals)
		pool_give(w, w->signals);
	if (w->own_base && w->base)
		pool_give(w, w->base);
	__atomic_fetch_sub(&w->comm->n_windows, 1, __ATOMIC_RELAXED);
	store_release(&w->magic, 0);
	ctx_bury(ctx, w);
}

static int
win_make(oriel_comm *comm, void *base, size_t size, size_t n_signals, int rc, bool own_base,
         const char *what, oriel_win **out)
{
	oriel_ctx *ctx = comm->ctx;
	uint64_t key[2] = { comm->id, ++comm->n_wins };
	oriel_win *w = calloc(1, sizeof(*w));

	if (!w) {
		rc = fail(ORIEL_ENOMEM, "no memory for a window");
		comm_agree(comm, rc, what);
		return rc;
	}
	w->ctx = ctx;
	w->comm = comm;
	w->id = hash_bytes(0, key, sizeof(key)) | 2; /* never 0 or 1 */
	w->own_base = own_base;
	__atomic_fetch_add(&comm->n_windows, 1, __ATOMIC_RELAXED);
	w->magic = WIN_MAGIC;
	if (!rc)
		rc = win_prepare(w, base, size, n_signals);
	if (!rc && log_on(LOG_DEBUG))
		log_at(LOG_DEBUG, "window %016lx: %zu bytes, %zu signals, %s", (unsigned long)w->id,
		       size, n_signals, w->rec.slab ? "pool memory" : "ordinary memory");
	rc = comm_agree(comm, rc, what);
	if (rc) {
		win_unmake(w);
		return rc;
	}
	*out = w;
	return 0;
}

int
oriel_win_create(oriel_comm *comm, void *base, size_t size, size_t n_signals, oriel_win **win)
{
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!win)
		rc = fail(ORIEL_EINVAL, "win is NULL");
	return win_make(comm, base, size, n_signals, rc, false, "oriel_win_create", win);
}

int
oriel_win_alloc(oriel_comm *comm, size_t size, size_t n_signals, void **base, oriel_win **win)
{
	void *p = NULL;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!win || !base)
		rc = fail(ORIEL_EINVAL, "%s is NULL", win ? "base" : "win");
	else if (size)
		rc = pool_alloc_zeroed(comm->ctx->pool, size, CACHE_LINE, &p);
	rc = win_make(comm, p, size, n_signals, rc, true, "oriel_win_alloc", win);
	if (rc)
		return rc;
	*base = p;
	return 0;
}

int
oriel_win_free(oriel_win *win)
{
	int rc, agreed;

	if (!win)
		return 0;
	rc = win_enter(win);
	if (rc && rc != ORIEL_EEXPELLED)
		return rc;
	/* All are done with everyone's memory once all have agreed; a failure does not
	 * keep the window alive, it only keeps its memory (zombies). */
	rc = rc ? rc : oriel_flush_all(win);
	agreed = comm_agree(win->comm, rc, "oriel_win_free");
	win_unmake(win);
	return rc ? rc : agreed;
}

static bool
not_ending(const void *win)
{
	return !((const oriel_win *)win)->ending;
}

void
win_flush_left(oriel_ctx *ctx)
{
	oriel_win *w;

	while ((w = table_find(ctx->wins, not_ending))) {
		w->ending = true;
		oriel_flush_all(w);
	}
}

static bool
any(const void *win)
{
	return win != NULL;
}

void
win_free_left(oriel_ctx *ctx)
{
	oriel_win *w;

	while ((w = table_find(ctx->wins, any)))
		win_unmake(w);
}

int
oriel_win_query(oriel_win *win, int target, size_t *size, size_t *n_signals)
{
	struct target *t;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (size)
		*size = t->size;
	if (n_signals)
		*n_signals = t->n_signals;
	return 0;
}

int
oriel_win_ptr(oriel_win *win, int target, void **ptr)
{
	struct target *t;
	int rc = win_target(win, target, &t);

	if (rc)
		return rc;
	if (!ptr)
		return fail(ORIEL_EINVAL, "ptr is NULL");
	if (!t->base)
		return fail(ORIEL_ENOTSUP, "rank %d's part is not mapped here: %s", target,
		            t->peer->ctl ? "it is ordinary memory of another process"
		                         : t->peer->why_not);
	*ptr = t->size ? t->base : NULL;
	return 0;
}
