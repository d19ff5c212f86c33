/*
 * ucx_am.c - messages over UCX: their queue, their order, their delivery.
 *
 * UCX (from 1.16 on) may deliver messages of different sizes to one endpoint in
 * another order than they were sent, so each carries a number and waits for
 * its turn at the receiver. It is given to a message when it is posted; the
 * queue is the only way there, so the numbers are without gaps.
 *
 * A message is handled where UCX delivers it, inside ucp_worker_progress: no
 * copy and no detour for the latency that matters. Handlers answer with
 * am_reply, which ends in ucx_am_send(handler) and only queues.
 */
#ifdef HAVE_UCX
#include "rma/ucx_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * ---- Memory ----
 */

struct ucx_msg *
ucx_msg_new(struct ucx *u, size_t size)
{
	bool big = size > UCX_MSG_SMALL;
	struct ucx_msg **pool = big ? &u->free_big : &u->free_small, *m = *pool;

	if (m) {
		*pool = m->next;
		u->n_free--;
	} else {
		m = malloc(sizeof(*m) + (big ? WIRE_MAX : UCX_MSG_SMALL));
	}
	if (!m)
		return NULL;
	m->next = NULL;
	m->big = big;
	m->size = (uint32_t)size;
	return m;
}

void
ucx_msg_free(struct ucx *u, struct ucx_msg *m)
{
	struct ucx_msg **pool = m->big ? &u->free_big : &u->free_small;

	if (u->n_free >= UCX_FREE_MAX) {
		free(m);
		return;
	}
	m->next = *pool;
	*pool = m;
	u->n_free++;
}

void
ucx_msgs_free(struct ucx *u, struct ucx_msg *list)
{
	while (list) {
		struct ucx_msg *m = list;

		list = m->next;
		ucx_msg_free(u, m);
	}
}

static void
free_list(struct ucx_msg **list)
{
	while (*list) {
		struct ucx_msg *m = *list;

		*list = m->next;
		free(m);
	}
}

void
ucx_am_free(struct ucx *u)
{
	free_list(&u->strays);
	free_list(&u->free_small);
	free_list(&u->free_big);
}

/*
 * ---- Out ----
 */

static void
sent(struct ucx_msg *m, ucs_status_t status)
{
	struct ucx_peer *p = m->peer;

	if (status != UCS_OK)
		ucx_broke(p, status);
	ucx_msg_free(p->u, m);
}

static void
on_sent(void *request, ucs_status_t status, void *arg)
{
	struct ucx_msg *m = arg;
	struct ucx_peer *p = m->peer;

	ucp_request_free(request);
	p->n_posted--;
	if (p->queue)
		ucx_ready(p);
	sent(m, status);
}

static bool
post(struct ucx_peer *p, struct ucx_msg *m)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
		                                      UCP_OP_ATTR_FIELD_USER_DATA |
		                                      UCP_OP_ATTR_FIELD_FLAGS,
		                      .flags = UCP_AM_SEND_FLAG_EAGER,
		                      .cb.send = on_sent,
		                      .user_data = m };
	void *r;

	wire_set_seq(m->buf, p->seq++);
	r = ucp_am_send_nbx(p->ep, UCX_AM_ID, NULL, 0, m->buf, m->size, &param);
	if (!r || UCS_PTR_IS_ERR(r))
		sent(m, r ? UCS_PTR_STATUS(r) : UCS_OK);
	else
		p->n_posted++;
	return !p->on_broken;
}

bool
ucx_post_messages(struct ucx_peer *p)
{
	struct ucx_msg *m;

	while ((m = p->queue) && p->n_posted < UCX_POSTED_MAX && m->after <= p->flushed) {
		p->queue = m->next;
		if (!p->queue)
			p->queue_tail = &p->queue;
		store_release(&p->n_queued, p->n_queued - 1);
		if (!post(p, m))
			return false;
	}
	return true;
}

static void
queue_last(struct ucx_peer *p, struct ucx_msg *m)
{
	m->next = NULL;
	*p->queue_tail = m;
	p->queue_tail = &m->next;
	store_release(&p->n_queued, p->n_queued + 1);
}

static void
queue_first(struct ucx_peer *p, struct ucx_msg *m)
{
	m->next = p->queue;
	p->queue = m;
	if (!m->next)
		p->queue_tail = &m->next;
	store_release(&p->n_queued, p->n_queued + 1);
}

static struct ucx_msg *
make(struct ucx_peer *p, unsigned id, const void *hdr, size_t hdr_len, const void *data, size_t len)
{
	struct ucx *u = p->u;
	struct ucx_msg *m = ucx_msg_new(u, wire_size(hdr_len, len));
	char *to;

	if (!m) {
		fail(ORIEL_ENOMEM, "no memory for a message to rank %d", p->peer->rank);
		return NULL;
	}
	m->peer = p;
	m->after = p->issued;
	to = wire_start(m->buf, u->ctx->rec.token, (uint32_t)u->ctx->boot.rank, id, hdr, hdr_len);
	if (len)
		memcpy(to, data, len);
	return m;
}

int
ucx_queue_own(struct ucx_peer *p, enum wire_id id, const void *hdr, size_t hdr_len,
              const void *data, size_t len, bool first)
{
	struct ucx_msg *m = make(p, id, hdr, hdr_len, data, len);

	if (!m)
		return ORIEL_ENOMEM;
	if (first) {
		m->after = 0;
		queue_first(p, m);
	} else {
		queue_last(p, m);
	}
	return 0;
}

/* Signs of life wait for nothing: a big put must not look like a silent peer. */
static bool
is_urgent(unsigned id)
{
	return id == AM_PING || id == AM_PONG;
}

static int
queue(struct peer *to, unsigned id, const void *hdr, size_t hdr_len, const void *data, size_t len,
      struct ucx_peer **p)
{
	struct ucx_msg *m;
	int rc = ucx_peer_get(to, p);

	if (rc)
		return rc;
	m = make(*p, id, hdr, hdr_len, data, len);
	if (!m)
		return ORIEL_ENOMEM;
	if (is_urgent(id)) {
		m->after = 0;
		queue_first(*p, m);
	} else {
		queue_last(*p, m);
	}
	return 0;
}

int
ucx_am_send(struct peer *to, unsigned id, const void *hdr, size_t hdr_len, const void *data,
            size_t len, bool handler)
{
	oriel_ctx *ctx = to->ctx;
	struct ucx_peer *p = load_acquire(&to->ucx);
	int rc = 0;

	if (handler) {
		rc = queue(to, id, hdr, hdr_len, data, len, &p);
		if (!rc)
			ucx_ready(p);
		return rc;
	}
	if (p && load_relaxed(&p->n_queued) >= UCX_QUEUED_MAX)
		rc = ucx_wait_room(p, &p->n_queued, UCX_QUEUED_MAX);
	if (rc)
		return rc;
	pthread_mutex_lock(&ctx->progress);
	rc = queue(to, id, hdr, hdr_len, data, len, &p);
	if (!rc) {
		if (id == AM_OP)
			store_release(&p->ops_sent, p->ops_sent + 1);
		ucx_pump(p);
		ucx_reap(p->u);
	}
	pthread_mutex_unlock(&ctx->progress);
	if (!rc && peer_failed(to))
		rc = peer_error(to);
	return rc;
}

/*
 * ---- In ----
 */

static void
garbage(struct ucx *u, const char *why)
{
	if (!u->n_garbage++)
		log_at(LOG_WARN, "rank %d: a message over UCX is dropped: %s", u->ctx->boot.rank,
		       why);
}

static struct ucx_msg *
keep(struct ucx *u, const void *buf, size_t size, uint64_t seq)
{
	struct ucx_msg *m = ucx_msg_new(u, size);

	if (m) {
		memcpy(m->buf, buf, size);
		m->after = seq;
	}
	return m;
}

static void
handle(struct ucx_peer *p, const struct wire *w)
{
	if (w->id == WIRE_BYE) {
		p->bye = true;
		store_release(&p->peer->left, true);
	} else if (w->id != WIRE_HELLO) {
		am_deliver(p->u->ctx, p->peer, w->id, w->hdr, w->hdr_len, w->data, w->len);
	}
}

/* It came before its turn. */
static void
hold(struct ucx_peer *p, const struct wire *w, const void *buf, size_t size)
{
	struct ucx_msg **at = &p->held, *m;

	while (*at && (*at)->after < w->seq)
		at = &(*at)->next;
	if (*at && (*at)->after == w->seq) {
		garbage(p->u, "its number was seen already");
		return;
	}
	m = p->n_held < UCX_HELD_MAX ? keep(p->u, buf, size, w->seq) : NULL;
	if (!m) {
		/* To drop it would mean to wait for it for ever. */
		peer_fail(p->peer, false, "message %lu of it is missing, and %u later ones came",
		          (unsigned long)p->expected, p->n_held);
		return;
	}
	m->next = *at;
	*at = m;
	p->n_held++;
}

static void
take_held(struct ucx_peer *p)
{
	struct ucx_msg *m;
	struct wire w;

	while ((m = p->held) && m->after == p->expected) {
		p->held = m->next;
		p->n_held--;
		p->expected++;
		if (!wire_parse(m->buf, m->size, &w))
			handle(p, &w);
		ucx_msg_free(p->u, m);
	}
}

static void
receive(struct ucx_peer *p, const struct wire *w, const void *buf, size_t size)
{
	if (w->token != p->peer->rec.token) {
		garbage(p->u, "it is of another incarnation of its sender");
		return;
	}
	store_relaxed(&p->peer->heard_at, now_ns());
	if (w->seq < p->expected) {
		garbage(p->u, "its number was seen already");
	} else if (w->seq > p->expected) {
		hold(p, w, buf, size);
	} else {
		p->expected++;
		handle(p, w);
		if (unlikely(p->held))
			take_held(p);
	}
}

/* The sender is not known yet: its first message makes it so. */
static struct ucx_peer *
meet(struct ucx *u, const struct wire *w)
{
	struct ucx_peer *p;
	struct peer *peer;
	struct boot_rec rec;
	const char *why = wire_parse_hello(w, u->job, &rec);

	if (why) {
		garbage(u, why);
		return NULL;
	}
	if (peer_meet(u->ctx, (int)w->rank, &rec, &peer) || ucx_peer_get(peer, &p)) {
		garbage(u, oriel_detail());
		return NULL;
	}
	ucx_ready(p); /* makes the endpoint, outside of this callback */
	return p;
}

/* Messages that came before their sender's hello. */
static void
take_strays(struct ucx_peer *p)
{
	struct ucx_msg **at = &p->u->strays, *m;
	struct wire w;

	while ((m = *at)) {
		if (wire_parse(m->buf, m->size, &w) || (int)w.rank != p->peer->rank) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		p->u->n_strays--;
		receive(p, &w, m->buf, m->size);
		ucx_msg_free(p->u, m);
	}
}

static void
stray(struct ucx *u, const struct wire *w, const void *buf, size_t size)
{
	struct ucx_msg *m = u->n_strays < UCX_STRAYS_MAX ? keep(u, buf, size, w->seq) : NULL;

	if (!m) {
		garbage(u, "its sender has not said hello");
		return;
	}
	m->next = u->strays;
	u->strays = m;
	u->n_strays++;
}

static void
take_in(struct ucx *u, const void *buf, size_t size)
{
	struct ucx_peer *p = NULL;
	struct peer *peer;
	struct wire w;
	const char *why = wire_parse(buf, size, &w);

	if (!why && (w.rank >= (uint32_t)u->ctx->boot.size || (int)w.rank == u->ctx->boot.rank))
		why = "its rank is not one of the others'";
	if (why) {
		garbage(u, why);
		return;
	}
	peer = peer_find(u->ctx, (int)w.rank);
	if (peer)
		p = peer->ucx;
	if (!p && w.id == WIRE_HELLO)
		p = meet(u, &w);
	else if (!p)
		stray(u, &w, buf, size);
	if (!p || p->closed)
		return;
	receive(p, &w, buf, size);
	if (unlikely(w.id == WIRE_HELLO) && u->strays)
		take_strays(p);
}

ucs_status_t
ucx_on_am(void *arg, const void *header, size_t header_len, void *data, size_t len,
          const ucp_am_recv_param_t *param)
{
	struct ucx *u = arg;

	(void)header;
	if (header_len || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
		garbage(u, "it is not of this protocol");
		return UCS_OK;
	}
	/* Handlers may look at the header and the data as what they are. */
	if ((uintptr_t)data % 8 && len <= WIRE_MAX) {
		memcpy(u->aligned, data, len);
		data = u->aligned;
	}
	take_in(u, data, len);
	return UCS_OK;
}
#endif
