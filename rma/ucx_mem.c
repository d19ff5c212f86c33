/*
 * ucx_mem.c - registrations of our memory and the keys that peers need to write
 * it; the keys of peers that plans use, unpacked.
 *
 * A window's registration lives as long as the window. What plans let peers
 * write is registered when first asked for and kept: a slab of the pool for
 * ever, other memory in a cache of UCX_REGS_MAX ranges. A cached registration
 * is of no use once its range has been unmapped, even if something else is
 * mapped there later: UCX's memory events mark it. They are asked for only
 * where some transport pins memory; else a key says nothing about pages.
 */
#ifdef HAVE_UCX
#include "rma/ucx_impl.h"

#include <stdlib.h>
#include <string.h>

#define UCX_REGS_MAX 64

struct ucx_regs {
	uint64_t clock;
	struct ucx_reg *slab[POOL_MAX_SLABS];
	struct ucx_reg cached[UCX_REGS_MAX]; /* len 0: free */
};

/* Any thread that unmaps memory calls this, with whatever locks it has: no lock in here. */
static void
on_unmapped(ucm_event_type_t type, ucm_event_t *event, void *arg)
{
	struct ucx_regs *regs = arg;
	uintptr_t start = (uintptr_t)event->vm_unmapped.address;
	uintptr_t end = start + event->vm_unmapped.size;

	(void)type;
	for (size_t i = 0; i < UCX_REGS_MAX; i++) {
		struct ucx_reg *r = &regs->cached[i];
		size_t len = load_acquire(&r->len);
		uintptr_t addr = load_relaxed(&r->addr);

		if (len && addr < end && start < addr + len)
			store_release(&r->stale, 1);
	}
}

int
ucx_mem_open(struct ucx *u)
{
	u->regs = calloc(1, sizeof(*u->regs));
	return u->regs ? 0 : fail(ORIEL_ENOMEM, "no memory for registrations");
}

int
ucx_mem_watch(struct ucx *u)
{
	ucs_status_t s = ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 1000, on_unmapped, u->regs);

	return s == UCS_OK
	               ? 0
	               : fail(ORIEL_ETRANSPORT, "ucm_set_event_handler: %s", ucs_status_string(s));
}

static void
unmap(struct ucx *u, ucp_mem_h memh)
{
	ucs_status_t s = ucp_mem_unmap(u->context, memh);

	if (s != UCS_OK)
		log_at(LOG_WARN, "rank %d: ucp_mem_unmap: %s", u->ctx->boot.rank,
		       ucs_status_string(s));
}

static int
map(struct ucx *u, void *addr, size_t size, ucp_mem_h *memh, void *key, size_t *key_len)
{
	ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
		                                      UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		                        .address = addr,
		                        .length = size };
	ucs_status_t s = ucp_mem_map(u->context, &params, memh);
	void *buf;
	size_t len;

	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "registering %zu bytes at %p with UCX: %s", size,
		            addr, ucs_status_string(s));
	s = ucp_rkey_pack(u->context, *memh, &buf, &len);
	if (s != UCS_OK) {
		unmap(u, *memh);
		return fail(ORIEL_ETRANSPORT, "ucp_rkey_pack: %s", ucs_status_string(s));
	}
	if (len <= UCX_KEY_MAX) {
		memcpy(key, buf, len);
		*key_len = len;
	}
	ucp_rkey_buffer_release(buf);
	if (len <= UCX_KEY_MAX)
		return 0;
	unmap(u, *memh);
	return fail(ORIEL_ELIMIT,
	            "UCX's key is %zu bytes, the most is %d: choose fewer "
	            "transports with ORIEL_UCX_TLS",
	            len, UCX_KEY_MAX);
}

/*
 * ---- Windows ----
 */

static void
chain(struct ucx_win *w, struct ucx_win **head)
{
	w->at = head;
	w->next = *head;
	if (w->next)
		w->next->at = &w->next;
	*head = w;
}

static void
win_drop(struct ucx *u, struct ucx_win *w)
{
	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	unmap(u, w->memh);
	free(w);
}

int
ucx_win_reg(oriel_win *win)
{
	oriel_ctx *ctx = win->ctx;
	struct ucx_win *w;
	int rc;

	if (!ctx->ucx || !win->size || ctx->ucx->no_keys)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(ORIEL_ENOMEM, "no memory for a window's registration");
	pthread_mutex_lock(&ctx->progress);
	rc = map(ctx->ucx, win->base, win->size, &w->memh, w->key, &w->key_len);
	if (!rc)
		chain(w, &ctx->ucx->wins);
	pthread_mutex_unlock(&ctx->progress);
	if (rc) {
		free(w);
		return rc;
	}
	win->ucx = w;
	return 0;
}

void
ucx_win_dereg(oriel_win *win)
{
	oriel_ctx *ctx = win->ctx;

	pthread_mutex_lock(&ctx->progress);
	if (win->ucx && ctx->ucx)
		win_drop(ctx->ucx, win->ucx);
	pthread_mutex_unlock(&ctx->progress);
	win->ucx = NULL;
}

int
ucx_win_key(oriel_win *win, void *key, size_t *len)
{
	const struct ucx_win *w = win->ucx;

	if (!w) {
		*len = 0;
		return 0;
	}
	if (*len < w->key_len)
		return fail(ORIEL_ELIMIT, "a key of %zu bytes, room for %zu", w->key_len, *len);
	memcpy(key, w->key, w->key_len);
	*len = w->key_len;
	return 0;
}

/*
 * ---- Keys of mine for plans ----
 */

static void
reg_drop(struct ucx *u, struct ucx_reg *r)
{
	if (r->len && r->memh)
		unmap(u, r->memh);
	r->memh = NULL;
	store_release(&r->len, 0);
}

/* Fills r for the range. Where nothing is pinned the key alone is enough. */
static int
reg_make(struct ucx *u, struct ucx_reg *r, uintptr_t addr, size_t len)
{
	size_t key_len;
	int rc;

	store_relaxed(&r->stale, 0);
	store_relaxed(&r->addr, addr);
	store_release(&r->len, len); /* watched before it is pinned */
	rc = map(u, (void *)addr, len, &r->memh, r->key, &key_len);
	if (rc) {
		r->memh = NULL;
		store_release(&r->len, 0);
		return rc;
	}
	r->key_len = (uint32_t)key_len;
	if (!u->pins) {
		unmap(u, r->memh);
		r->memh = NULL;
	}
	return 0;
}

static int
slab_reg(struct ucx *u, unsigned id, struct ucx_reg **out)
{
	struct ucx_reg **r = &u->regs->slab[id];
	const struct slab *slab = pool_slab(u->ctx->pool, id);
	int rc;

	if (!*r) {
		*r = calloc(1, sizeof(**r));
		if (!*r)
			return fail(ORIEL_ENOMEM, "no memory for a slab's registration");
		rc = reg_make(u, *r, (uintptr_t)slab->base, slab->size);
		if (rc) {
			free(*r);
			*r = NULL;
			return rc;
		}
	}
	*out = *r;
	return 0;
}

static int
cached_reg(struct ucx *u, uintptr_t addr, size_t len, struct ucx_reg **out)
{
	struct ucx_reg *victim = NULL;

	for (size_t i = 0; i < UCX_REGS_MAX; i++) {
		struct ucx_reg *r = &u->regs->cached[i];

		if (r->len && load_acquire(&r->stale))
			reg_drop(u, r);
		if (r->len && range_inside(addr - r->addr, len, r->len) && addr >= r->addr) {
			*out = r;
			return 0;
		}
		if (!victim || (victim->len && (!r->len || r->used < victim->used)))
			victim = r;
	}
	reg_drop(u, victim);
	*out = victim;
	return reg_make(u, victim, addr, len);
}

int
ucx_mem_key(oriel_ctx *ctx, const void *addr, size_t size, void *key, size_t *len)
{
	struct ucx *u = ctx->ucx;
	struct ucx_reg *r = NULL;
	unsigned slab;
	size_t off;
	int rc;

	if (!size)
		return fail(ORIEL_EINVAL, "no key for an empty range");
	if (u->no_keys) {
		*len = 0;
		return 0;
	}
	pthread_mutex_lock(&ctx->progress);
	if (pool_find(ctx->pool, addr, size, &slab, &off))
		rc = slab_reg(u, slab, &r);
	else
		rc = cached_reg(u, (uintptr_t)addr, size, &r);
	if (!rc && *len < r->key_len)
		rc = fail(ORIEL_ELIMIT, "a key of %u bytes, room for %zu", r->key_len, *len);
	if (!rc) {
		r->used = ++u->regs->clock;
		memcpy(key, r->key, r->key_len);
		*len = r->key_len;
	}
	pthread_mutex_unlock(&ctx->progress);
	return rc;
}

void
ucx_mem_close(struct ucx *u)
{
	while (u->wins)
		win_drop(u, u->wins);
	if (!u->regs)
		return;
	if (u->pins)
		ucm_unset_event_handler(UCM_EVENT_VM_UNMAPPED, on_unmapped, u->regs);
	for (size_t i = 0; i < UCX_REGS_MAX; i++)
		reg_drop(u, &u->regs->cached[i]);
	for (size_t i = 0; i < POOL_MAX_SLABS; i++)
		if (u->regs->slab[i]) {
			reg_drop(u, u->regs->slab[i]);
			free(u->regs->slab[i]);
		}
	free(u->regs);
	u->regs = NULL;
}

/*
 * ---- Peers' keys ----
 */

void
ucx_keys_free(struct ucx_peer *p)
{
	while (p->targets)
		ucx_target_free(p->targets);
	for (uint32_t i = 0; i < p->n_keys; i++)
		ucp_rkey_destroy(p->keys[i].rkey);
	free(p->keys);
	p->keys = NULL;
	p->n_keys = 0;
}

/* The oldest whose puts are all flushed, to be used anew; NULL: none. */
static struct ucx_key *
key_victim(struct ucx_peer *p)
{
	struct ucx_key *victim = NULL;

	for (uint32_t i = 0; i < p->n_keys; i++) {
		struct ucx_key *k = &p->keys[i];

		if (k->last_put <= p->flushed && (!victim || k->used < victim->used))
			victim = k;
	}
	return victim;
}

static int
key_new(struct ucx_peer *p, const void *bytes, size_t len, struct ucx_key **out)
{
	struct ucx_key *k = NULL;
	ucp_rkey_h rkey;
	ucs_status_t s;

	if (!p->keys)
		p->keys = calloc(UCX_KEYS_MAX, sizeof(*p->keys));
	if (!p->keys)
		return fail(ORIEL_ENOMEM, "no memory for keys of rank %d", p->peer->rank);
	k = p->n_keys < UCX_KEYS_MAX ? &p->keys[p->n_keys] : key_victim(p);
	if (!k)
		return ORIEL_EBUSY;
	s = ucp_ep_rkey_unpack(p->ep, bytes, &rkey);
	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "rank %d's key cannot be used: %s", p->peer->rank,
		            ucs_status_string(s));
	if (p->n_keys < UCX_KEYS_MAX)
		p->n_keys++;
	else
		ucp_rkey_destroy(k->rkey);
	memcpy(k->bytes, bytes, len);
	k->len = (uint32_t)len;
	k->rkey = rkey;
	*out = k;
	return 0;
}

static int
key_find(struct ucx_peer *p, const void *bytes, size_t len, struct ucx_key **out)
{
	for (uint32_t i = 0; i < p->n_keys; i++)
		if (p->keys[i].len == len && !memcmp(p->keys[i].bytes, bytes, len)) {
			*out = &p->keys[i];
			return 0;
		}
	return key_new(p, bytes, len, out);
}

/* EBUSY without a detail: all keys are in use by puts that are not flushed. */
static int
put_key(struct peer *to, const void *key, size_t key_len, uint64_t raddr, const void *src,
        size_t len)
{
	struct ucx_peer *p;
	struct ucx_key *k = NULL;
	int rc = ucx_peer_get(to, &p);

	if (rc)
		return rc;
	ucx_pump(p); /* makes the endpoint */
	ucx_reap(p->u);
	if (!p->ep)
		return peer_failed(to) ? peer_error(to)
		                       : fail(ORIEL_ETRANSPORT, "rank %d: no endpoint", to->rank);
	rc = key_find(p, key, key_len, &k);
	if (rc)
		return rc;
	k->used = ++p->key_clock;
	k->last_put = p->issued + 1;
	return ucx_op_issue(p, false, k->rkey, raddr, (void *)(uintptr_t)src, len, NULL);
}

int
ucx_put_key(struct peer *to, const void *key, size_t key_len, uint64_t raddr, const void *src,
            size_t len)
{
	struct ucx_peer *p = load_acquire(&to->ucx);
	int rc = 0;

	if (!len)
		return 0;
	if (!key_len || key_len > UCX_KEY_MAX)
		return fail(ORIEL_EINVAL, "a key of %zu bytes", key_len);
	if (p && load_relaxed(&p->n_ops) >= UCX_OPS_MAX)
		rc = ucx_wait_room(p, &p->n_ops, UCX_OPS_MAX);
	while (!rc) {
		pthread_mutex_lock(&to->ctx->progress);
		rc = put_key(to, key, key_len, raddr, src, len);
		pthread_mutex_unlock(&to->ctx->progress);
		if (rc != ORIEL_EBUSY)
			break;
		rc = ucx_quiet(to, ctx_call_deadline(to->ctx));
	}
	return rc;
}
#endif
