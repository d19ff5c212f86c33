/*
 * ucx_ep.c - endpoints: one to each peer that was talked to or heard from, in
 * UCX's mode that reports a broken connection; and the orderly end.
 *
 * The first message to a peer is a hello with our record, so that a peer can be
 * answered without asking the bootstrap. Who hears a hello makes its own
 * endpoint, which is also how it learns of the sender's death.
 */
#ifdef HAVE_UCX
#include "rma/ucx_impl.h"

#include <stdlib.h>
#include <string.h>

int
ucx_peer_get(struct peer *peer, struct ucx_peer **out)
{
	struct ucx *u = peer->ctx->ucx;
	struct ucx_peer *p = peer->ucx;

	if (!p) {
		if (!peer->rec.ucx_len)
			return fail(ORIEL_ENOTSUP, "rank %d has no UCX", peer->rank);
		p = calloc(1, sizeof(*p));
		if (!p)
			return fail(ORIEL_ENOMEM, "no memory for UCX's part of rank %d",
			            peer->rank);
		p->u = u;
		p->peer = peer;
		p->queue_tail = &p->queue;
		p->next_peer = u->peers;
		u->peers = p;
		store_release(&peer->ucx, (void *)p);
	}
	if (peer_failed(peer))
		return peer_error(peer);
	if (p->closed)
		return fail(ORIEL_EPEER, "rank %d has ended its context", peer->rank);
	*out = p;
	return 0;
}

/* Called by UCX whenever it likes: only notes it down. */
static void
on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)ep;
	ucx_broke(arg, status);
}

bool
ucx_connect(struct ucx_peer *p)
{
	struct ucx *u = p->u;
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
		                                 UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
		                                 UCP_EP_PARAM_FIELD_ERR_HANDLER,
		                   .address = (const ucp_address_t *)p->peer->rec.ucx,
		                   .err_mode = UCP_ERR_HANDLING_MODE_PEER,
		                   .err_handler = { .cb = on_error, .arg = p } };
	ucs_status_t s = ucp_ep_create(u->worker, &params, &p->ep);

	if (s != UCS_OK) {
		p->ep = NULL;
		ucx_broke(p, s);
		return false;
	}
	if (ucx_queue_own(p, WIRE_HELLO, &u->job, sizeof(u->job), &u->ctx->rec,
	                  wire_rec_size(&u->ctx->rec), true)) {
		ucx_broke(p, UCS_ERR_NO_MEMORY);
		return false;
	}
	return true;
}

/* Everything of ours is out, and the peer has said that it ends too. */
static bool
is_quiet(const struct ucx_peer *p)
{
	return p->closed || (p->bye && p->bye_sent && !p->queue && !p->n_posted && !p->n_ops &&
	                     p->flushed == p->issued);
}

static bool
all_quiet(const struct ucx *u)
{
	for (const struct ucx_peer *p = u->peers; p; p = p->next_peer)
		if (!is_quiet(p))
			return false;
	return true;
}

static void
say_bye(struct ucx *u)
{
	for (struct ucx_peer *p = u->peers; p; p = p->next_peer) {
		if (p->bye_sent || p->closed)
			continue;
		p->bye_sent = true;
		p->wanted = p->issued;
		if (ucx_queue_own(p, WIRE_BYE, NULL, 0, NULL, 0, false))
			log_at(LOG_WARN, "rank %d gets no farewell: %s", p->peer->rank,
			       oriel_detail());
		ucx_ready(p);
	}
}

static bool
close_done(struct ucx_peer *p)
{
	if (p->closing && (UCS_PTR_IS_ERR(p->closing) ||
	                   ucp_request_check_status(p->closing) != UCS_INPROGRESS)) {
		if (!UCS_PTR_IS_ERR(p->closing))
			ucp_request_free(p->closing);
		p->closing = NULL;
	}
	return !p->closing;
}

/* Starts closing. In order with those that end too, by force with those that do not. */
static void
close_all(struct ucx *u)
{
	for (struct ucx_peer *p = u->peers; p; p = p->next_peer) {
		ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS };

		if (!p->ep)
			continue;
		param.flags = is_quiet(p) ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
		ucx_keys_free(p);
		p->closed = true;
		p->closing = ucp_ep_close_nbx(p->ep, &param);
		p->ep = NULL;
	}
}

static bool
wait_closed(struct ucx *u, uint64_t deadline)
{
	bool all = false;

	while (!all) {
		all = true;
		for (struct ucx_peer *p = u->peers; p; p = p->next_peer)
			all &= close_done(p);
		if (!all && now_ns() > deadline)
			return false;
		ucp_worker_progress(u->worker);
	}
	return true;
}

void
ucx_close_peers(struct ucx *u)
{
	uint64_t deadline = now_ns() + UCX_CLOSE_NS;
	struct ucx_peer *p;

	do {
		say_bye(u); /* to peers too that are heard only now */
		if (!ucp_worker_progress(u->worker))
			ucx_nap(u);
		ucx_carry_on(u);
	} while (!all_quiet(u) && now_ns() < deadline);
	close_all(u);
	if (!wait_closed(u, now_ns() + UCX_CLOSE_NS))
		log_at(LOG_WARN, "rank %d: UCX did not close all endpoints in time",
		       u->ctx->boot.rank);
	for (p = u->peers; p; p = p->next_peer) {
		ucx_drop_ops(p);
		ucx_keys_free(p);
	}
}

void
ucx_free_peers(struct ucx *u)
{
	struct ucx_peer *p;

	while ((p = u->peers)) {
		u->peers = p->next_peer;
		ucx_drop_ops(p);
		ucx_msgs_free(u, p->queue);
		ucx_msgs_free(u, p->held);
		store_release(&p->peer->ucx, (void *)NULL);
		free(p);
	}
}
#endif
