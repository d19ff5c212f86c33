/*
 * ucx_tp.c - the transport of windows to ranks of other nodes.
 *
 * A put of at most UCX_PUT_MESSAGE_MAX bytes goes as a message where UCX has no
 * transport with real puts: over TCP a put is a message with an answer anyway,
 * and a message needs no flush before the signal that follows it. To a target
 * without a key (its UCX would only emulate puts) all sizes go so. A signal is
 * always a message; with at most AM_DATA_MAX bytes of data it carries them.
 */
#ifdef HAVE_UCX
#include "rma/ucx_impl.h"

#include <stdlib.h>

static int
make_target(struct ucx_peer *p, const struct ucx_key_blob *key, struct ucx_target **out)
{
	struct ucx_target *k = calloc(1, sizeof(*k));
	ucs_status_t s;

	if (!k)
		return fail(ORIEL_ENOMEM, "no memory for a window's key");
	ucx_pump(p); /* makes the endpoint */
	s = p->ep ? ucp_ep_rkey_unpack(p->ep, key->key, &k->rkey) : UCS_ERR_UNREACHABLE;
	ucx_reap(p->u);
	if (s != UCS_OK) {
		free(k);
		return peer_failed(p->peer)
		               ? peer_error(p->peer)
		               : fail(ORIEL_ETRANSPORT, "rank %d's window has no usable key: %s",
		                      p->peer->rank, ucs_status_string(s));
	}
	k->at = &p->targets;
	k->next = p->targets;
	if (k->next)
		k->next->at = &k->next;
	p->targets = k;
	*out = k;
	return 0;
}

void
ucx_target_free(struct ucx_target *k)
{
	*k->at = k->next;
	if (k->next)
		k->next->at = k->at;
	ucp_rkey_destroy(k->rkey);
	free(k);
}

static int
ucx_attach(oriel_win *win, struct target *t)
{
	struct ucx_key_blob *key = t->priv;
	struct ucx_target *k = NULL;
	struct ucx_peer *p;
	int rc;

	t->priv = NULL;
	pthread_mutex_lock(&win->ctx->progress);
	rc = ucx_peer_get(t->peer, &p);
	if (!rc && t->rec.size && key && key->len)
		rc = make_target(p, key, &k);
	pthread_mutex_unlock(&win->ctx->progress);
	free(key);
	t->priv = k;
	return rc;
}

static void
ucx_detach(oriel_win *win, struct target *t)
{
	pthread_mutex_lock(&win->ctx->progress);
	if (t->priv && win->ctx->ucx)
		ucx_target_free(t->priv);
	pthread_mutex_unlock(&win->ctx->progress);
	t->priv = NULL;
}

static int
issue(struct target *t, bool get, size_t disp, void *local, size_t len, oriel_req *req)
{
	oriel_ctx *ctx = t->peer->ctx;
	struct ucx_peer *p = load_acquire(&t->peer->ucx);
	const struct ucx_target *k = t->priv;
	int rc = 0;

	if (load_relaxed(&p->n_ops) >= UCX_OPS_MAX)
		rc = ucx_wait_room(p, &p->n_ops, UCX_OPS_MAX);
	if (rc)
		return rc;
	pthread_mutex_lock(&ctx->progress);
	rc = ucx_peer_get(t->peer, &p);
	if (!rc)
		rc = ucx_op_issue(p, get, k->rkey, t->rec.base + disp, local, len, req);
	pthread_mutex_unlock(&ctx->progress);
	return rc;
}

static void
req_done(oriel_req *req)
{
	if (req)
		add_release(&req->pending, (uint32_t)-1);
}

static int
ucx_put(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len, oriel_req *req)
{
	int rc = 0;

	if (t->priv && len && (len > UCX_PUT_MESSAGE_MAX || win->ctx->ucx->offload))
		return issue(t, false, disp, (void *)(uintptr_t)src, len, req);
	if (len)
		rc = ops_put(t->peer, win->id, disp, src, len);
	if (!rc)
		req_done(req);
	return rc;
}

static int
ucx_get(oriel_win *win, struct target *t, size_t disp, void *dst, size_t len, oriel_req *req)
{
	int rc = 0;

	if (t->priv && len && win->ctx->ucx->has_get)
		return issue(t, true, disp, dst, len, req);
	if (len)
		rc = ops_get(t->peer, win->id, disp, dst, len);
	if (!rc)
		req_done(req);
	return rc;
}

static int
ucx_put_signal(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len,
               size_t slot, int add, uint64_t value)
{
	int rc;

	if (len <= AM_DATA_MAX || !t->priv)
		return ops_put_signal(t->peer, win->id, disp, src, len, slot, add, value);
	rc = issue(t, false, disp, (void *)(uintptr_t)src, len, NULL);
	return rc ? rc : ops_put_signal(t->peer, win->id, 0, NULL, 0, slot, add, value);
}

static int
ucx_flush(oriel_win *win, struct target *t, bool local)
{
	struct ucx_peer *p = load_acquire(&t->peer->ucx);
	uint64_t deadline = ctx_call_deadline(win->ctx), ops;
	int rc;

	rc = ucx_wait_local(p, deadline);
	if (rc || local)
		return rc;
	ops = load_acquire(&p->ops_sent);
	if (ops == load_relaxed(&p->ops_synced))
		return ucx_quiet(t->peer, deadline);
	/* The question is ordered behind all messages and all puts: its answer covers both. */
	rc = am_sync(t->peer, deadline);
	if (!rc && load_relaxed(&p->ops_synced) < ops)
		store_relaxed(&p->ops_synced, ops);
	return rc;
}

static int
ucx_atomic(oriel_win *win, struct target *t, int kind, size_t disp, uint64_t a, uint64_t b,
           uint64_t *old)
{
	return ops_atomic_call(t->peer, win->id, kind, disp, a, b, old);
}

static int
ucx_accumulate(oriel_win *win, struct target *t, size_t disp, const void *src, size_t count,
               int type)
{
	return ops_accumulate_call(t->peer, win->id, disp, src, count, type);
}

const struct transport transport_ucx = { .name = "ucx",
	                                 .id = TP_UCX,
	                                 .attach = ucx_attach,
	                                 .detach = ucx_detach,
	                                 .put = ucx_put,
	                                 .get = ucx_get,
	                                 .put_signal = ucx_put_signal,
	                                 .flush = ucx_flush,
	                                 .atomic = ucx_atomic,
	                                 .accumulate = ucx_accumulate };
#endif
