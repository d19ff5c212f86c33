#include "rma/win.h"

#include "oriel_cuda.h"
#include "rma/awaited.h"
#include "rma/ce.h"
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

oriel_win *
win_find(oriel_ctx *ctx, uint64_t id)
{
	return table_get(ctx->wins, id);
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
	if (!w->rec.slab) {
		rc = ce_describe(w);
		if (rc)
			return rc;
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
	if (ctx->ucx && w->comm->size > 1 && size && !w->rec.on_gpu) {
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
pool_give(oriel_win *w, struct pool *pool, void *p)
{
	if (zombies(w))
		pool_retire(pool, p);
	else
		pool_free(pool, p);
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
	awaited_release(w);
	awaited_free(w);
	dir_each(&w->targets, target_free, w);
	dir_free(&w->targets);
	if (w->ucx) {
		pthread_mutex_lock(&ctx->lock);
		ucx_win_dereg(w);
		pthread_mutex_unlock(&ctx->lock);
	}
	if (w->signals)
		pool_give(w, ctx->pool, w->signals);
	if (w->own_base && w->base)
		pool_give(w, w->on_gpu_pool ? gpu_pool(ctx) : ctx->pool, w->base);
	__atomic_fetch_sub(&w->comm->n_windows, 1, __ATOMIC_RELAXED);
	store_release(&w->magic, 0);
	ctx_bury(ctx, w);
}

enum owner { USERS, POOLS, GPU_POOLS }; /* of a window's memory */

static int
win_make(oriel_comm *comm, void *base, size_t size, size_t n_signals, int rc, enum owner owner,
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
	w->own_base = owner != USERS;
	w->on_gpu_pool = owner == GPU_POOLS;
	__atomic_fetch_add(&comm->n_windows, 1, __ATOMIC_RELAXED);
	w->magic = WIN_MAGIC;
	if (!rc)
		rc = win_prepare(w, base, size, n_signals);
	if (!rc && log_on(LOG_DEBUG))
		log_at(LOG_DEBUG, "window %016lx: %zu bytes, %zu signals, %s", (unsigned long)w->id,
		       size, n_signals,
		       w->rec.slab     ? "pool memory"
		       : w->rec.on_gpu ? "memory of a GPU"
		                       : "ordinary memory");
	rc = comm_agree(comm, rc, what);
	if (rc) {
		win_unmake(w);
		return rc;
	}
	win_meet_node(w);
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
	return win_make(comm, base, size, n_signals, rc, USERS, "oriel_win_create", win);
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
	rc = win_make(comm, p, size, n_signals, rc, POOLS, "oriel_win_alloc", win);
	if (rc)
		return rc;
	*base = p;
	return 0;
}

int
oriel_win_alloc_device(oriel_comm *comm, size_t size, size_t n_signals, void **base,
                       oriel_win **win)
{
	struct gpu *g;
	void *p = NULL;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!win || !base)
		rc = fail(ORIEL_EINVAL, "%s is NULL", win ? "base" : "win");
	else if (size)
		rc = gpu_need(comm->ctx, &g);
	if (!rc && size)
		rc = pool_alloc_zeroed(gpu_pool(comm->ctx), size, CACHE_LINE, &p);
	rc = win_make(comm, p, size, n_signals, rc, GPU_POOLS, "oriel_win_alloc_device", win);
	if (rc)
		return rc;
	*base = p;
	return 0;
}

int
oriel_win_free(oriel_win *win)
{
	oriel_ctx *ctx;
	int rc, agreed;

	if (!win)
		return 0;
	rc = win_enter(win);
	if (rc && rc != ORIEL_EEXPELLED)
		return rc;
	/* All are done with everyone's memory once all have agreed; a failure does not
	 * keep the window alive, it only keeps its memory (zombies). */
	rc = rc ? rc : oriel_flush_all(win);
	ctx = win->ctx;
	agreed = comm_agree(win->comm, rc, "oriel_win_free");
	win_unmake(win);
	if (!rc && !agreed)
		ce_tidy(ctx);
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
	if (!t->base && !t->dev)
		return fail(ORIEL_ENOTSUP, "rank %d's part is not mapped here: %s", target,
		            t->peer->ctl ? "it is ordinary memory of another process"
		                         : t->peer->why_not);
	*ptr = !t->size ? NULL : t->dev ? (void *)(uintptr_t)t->dev : t->base;
	return 0;
}
