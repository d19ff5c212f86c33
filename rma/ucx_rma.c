/*
 * ucx_rma.c - puts, gets and flushes of one peer, and waiting for them.
 *
 * A put or get is posted in parts, a bounded number at a time: UCX would take
 * any length, but then a sign of life would wait behind gigabytes.
 */
#ifdef HAVE_UCX
#include "rma/ucx_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * ---- Operations ----
 */

static struct ucx_op *
op_new(struct ucx *u)
{
	struct ucx_op *op = u->free_ops;

	if (!op)
		return malloc(sizeof(*op));
	u->free_ops = op->next;
	return op;
}

void
ucx_rma_free(struct ucx *u)
{
	while (u->free_ops) {
		struct ucx_op *op = u->free_ops;

		u->free_ops = op->next;
		free(op);
	}
}

/* The caller's buffer is the caller's again. */
static void
op_release(struct ucx_op *op, int status)
{
	oriel_req *req = op->req;

	op->req = NULL;
	if (!req)
		return;
	if (status)
		store_relaxed(&req->status, status);
	add_release(&req->pending, (uint32_t)-1);
}

static void
op_end(struct ucx_op *op, int status)
{
	struct ucx_peer *p = op->peer;

	if (op->prev)
		op->prev->next = op->next;
	else
		p->ops = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		p->ops_last = op->prev;
	op_release(op, status);
	op->next = p->u->free_ops;
	p->u->free_ops = op;
	store_release(&p->n_ops, p->n_ops - 1);
	store_release(&p->ops_done, p->ops ? p->ops->number - 1 : p->ops_begun);
}

static void
on_part(void *request, ucs_status_t status, void *arg)
{
	struct ucx_op *op = arg;
	struct ucx_peer *p = op->peer;

	ucp_request_free(request);
	p->n_parts--;
	op->parts--;
	if (status != UCS_OK)
		ucx_broke(p, status);
	if (p->closed || p->on_broken) /* the end of the operation is ucx_drop_ops */
		return;
	if (!op->parts && op->posted == op->len)
		op_end(op, 0);
	if (p->unposted)
		ucx_ready(p);
}

static bool
post_part(struct ucx_peer *p, struct ucx_op *op)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
		                                      UCP_OP_ATTR_FIELD_USER_DATA,
		                      .cb.send = on_part,
		                      .user_data = op };
	size_t left = op->len - op->posted, n = left < UCX_PART ? left : UCX_PART;
	char *local = op->local + op->posted;
	uint64_t remote = op->remote + op->posted;
	void *r = op->get ? ucp_get_nbx(p->ep, local, n, remote, op->rkey, &param)
	                  : ucp_put_nbx(p->ep, local, n, remote, op->rkey, &param);

	if (UCS_PTR_IS_ERR(r)) {
		ucx_broke(p, UCS_PTR_STATUS(r));
		return false;
	}
	if (r) {
		p->n_parts++;
		op->parts++;
	}
	op->posted += n;
	return true;
}

bool
ucx_post_ops(struct ucx_peer *p)
{
	struct ucx_op *op;

	while ((op = p->unposted)) {
		while (op->posted < op->len && p->n_parts < UCX_PARTS_MAX)
			if (!post_part(p, op))
				return false;
		if (op->posted < op->len)
			break;
		p->unposted = op->next;
		if (!op->get)
			p->posted++;
		if (!op->parts)
			op_end(op, 0);
	}
	return true;
}

int
ucx_op_issue(struct ucx_peer *p, bool get, ucp_rkey_h rkey, uint64_t remote, void *local,
             size_t len, oriel_req *req)
{
	struct ucx_op *op = op_new(p->u);

	if (!op)
		return fail(ORIEL_ENOMEM, "no memory for a %s", get ? "get" : "put");
	*op = (struct ucx_op){ .prev = p->ops_last,
		               .peer = p,
		               .number = p->ops_begun + 1,
		               .get = get,
		               .local = local,
		               .remote = remote,
		               .rkey = rkey,
		               .len = len,
		               .req = req };
	if (p->ops_last)
		p->ops_last->next = op;
	else
		p->ops = op;
	p->ops_last = op;
	if (!p->unposted)
		p->unposted = op;
	if (!get)
		p->issued++;
	store_release(&p->ops_begun, p->ops_begun + 1);
	store_release(&p->n_ops, p->n_ops + 1);
	ucx_pump(p);
	ucx_reap(p->u);
	return 0;
}

void
ucx_drop_ops(struct ucx_peer *p)
{
	p->unposted = NULL;
	while (p->ops && !p->ops->parts)
		op_end(p->ops, ORIEL_EPEER);
	for (struct ucx_op *op = p->ops, *next; op; op = next) {
		next = op->next;
		if (op->parts)
			op_release(op, ORIEL_EPEER); /* UCX still names it: memory stays */
		else
			op_end(op, ORIEL_EPEER);
	}
}

/*
 * ---- Flush ----
 */

static void
flushed(struct ucx_peer *p, ucs_status_t status)
{
	p->flushing = false;
	if (status != UCS_OK) {
		ucx_broke(p, status);
		return;
	}
	if (p->closed) /* UCX calls a flush that was cut short a success at times */
		return;
	store_release(&p->flushed, p->flush_covers);
	store_relaxed(&p->peer->heard_at, now_ns());
}

static void
on_flushed(void *request, ucs_status_t status, void *arg)
{
	struct ucx_peer *p = arg;

	ucp_request_free(request);
	flushed(p, status);
	ucx_ready(p);
}

bool
ucx_start_flush(struct ucx_peer *p)
{
	uint64_t want = p->wanted;
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
		                                      UCP_OP_ATTR_FIELD_USER_DATA,
		                      .cb.send = on_flushed,
		                      .user_data = p };
	void *r;

	if (p->queue && p->queue->after > want)
		want = p->queue->after;
	if (p->flushing || want <= p->flushed || p->posted < want)
		return false;
	p->flush_covers = p->posted;
	p->flushing = true;
	r = ucp_ep_flush_nbx(p->ep, &param);
	if (r && !UCS_PTR_IS_ERR(r))
		return false;
	flushed(p, r ? UCS_PTR_STATUS(r) : UCS_OK);
	return !p->on_broken;
}

/*
 * ---- Waits ----
 */

struct wait {
	struct ucx_peer *p;
	const uint32_t *n;
	uint32_t max;
	const uint64_t *done; /* a counter, and what it must reach */
	uint64_t number;
};

static bool
has_room(void *arg)
{
	struct wait *w = arg;

	return load_acquire(w->n) < w->max;
}

static bool
is_done(void *arg)
{
	struct wait *w = arg;

	return load_acquire(w->done) >= w->number;
}

static int
doomed(void *arg)
{
	struct wait *w = arg;
	struct peer *peer = w->p->peer;

	peer_watch(peer);
	if (peer_failed(peer))
		return peer_error(peer);
	if (load_relaxed(&w->p->closed))
		return fail(ORIEL_EPEER, "rank %d has ended its context", peer->rank);
	return 0;
}

static int
wait_for(struct wait *w, bool (*ready)(void *arg), uint64_t deadline, const char *what)
{
	struct peer *peer = w->p->peer;
	int rc = ctx_wait(peer->ctx, ready, doomed, w, deadline);

	if (rc == ORIEL_ETIMEDOUT)
		return fail(rc, "waiting for %s rank %d", what, peer->rank);
	/* What UCX calls complete is not, if the peer failed meanwhile. */
	return rc || !peer_failed(peer) ? rc : peer_error(peer);
}

int
ucx_wait_room(struct ucx_peer *p, const uint32_t *n, uint32_t max)
{
	struct wait w = { .p = p, .n = n, .max = max };

	return wait_for(&w, has_room, ORIEL_FOREVER, "room for one more operation to");
}

int
ucx_wait_flushed(struct ucx_peer *p, uint64_t put, uint64_t deadline)
{
	struct wait w = { .p = p, .done = &p->flushed, .number = put };

	return wait_for(&w, is_done, deadline, "puts to be complete at");
}

int
ucx_wait_local(struct ucx_peer *p, uint64_t deadline)
{
	struct wait w = { .p = p, .done = &p->ops_done, .number = load_acquire(&p->ops_begun) };

	return wait_for(&w, is_done, deadline, "buffers of operations to");
}

uint64_t
ucx_quiet_start(struct peer *to)
{
	struct ucx_peer *p = load_acquire(&to->ucx);
	uint64_t put;

	if (!p)
		return 0;
	pthread_mutex_lock(&to->ctx->progress);
	put = p->issued;
	if (p->wanted < put)
		p->wanted = put;
	ucx_pump(p);
	ucx_reap(p->u);
	pthread_mutex_unlock(&to->ctx->progress);
	return put;
}

bool
ucx_quiet_done(const struct peer *to, uint64_t mark)
{
	const struct ucx_peer *p = load_acquire(&to->ucx);

	return !p || load_acquire(&p->flushed) >= mark;
}

int
ucx_quiet(struct peer *to, uint64_t deadline)
{
	uint64_t mark = ucx_quiet_start(to);

	return ucx_quiet_done(to, mark) ? 0 : ucx_wait_flushed(to->ucx, mark, deadline);
}
#endif
