#include "rma/am.h"

#include "base/copy.h"
#include "rma/ucx.h"

#include <stdlib.h>
#include <string.h>

#define CONGESTED 64 /* queued replies at which rings are drained no further */

struct am_queued { /* a reply whose carrier was full */
	struct am_queued *next;
	struct peer *to;
	enum am_id id;
	size_t hdr_len, len;
	char bytes[]; /* header, then data */
};

struct am {
	pthread_mutex_t lock; /* of calls: a reply writes to a stack that must still be there */
	struct table *calls;  /* token -> struct am_call on a caller's stack */
	uint64_t next_token;
	/* Under ctx->progress: */
	struct am_queued *head, **tail;
	unsigned n_queued;
	uint64_t round;
};

struct reply_hdr {
	uint64_t token;
	int32_t status;
	uint32_t pad;
};

int
am_open(oriel_ctx *ctx)
{
	struct am *am = calloc(1, sizeof(*am));

	if (am)
		am->calls = table_create();
	if (!am || !am->calls) {
		free(am);
		return fail(ORIEL_ENOMEM, "no memory for messages");
	}
	pthread_mutex_init(&am->lock, NULL);
	am->tail = &am->head;
	ctx->am = am;
	return 0;
}

void
am_close(oriel_ctx *ctx)
{
	struct am *am = ctx->am;

	if (!am)
		return;
	while (am->head) {
		struct am_queued *q = am->head;

		am->head = q->next;
		free(q);
	}
	table_free(am->calls);
	pthread_mutex_destroy(&am->lock);
	free(am);
	ctx->am = NULL;
}

bool
am_congested(oriel_ctx *ctx)
{
	return ctx->am->n_queued >= CONGESTED;
}

struct push {
	struct peer *to;
	enum am_id id;
	const void *hdr, *data;
	size_t hdr_len, len;
};

static bool
push_now(void *arg)
{
	struct push *p = arg;
	bool ok;

	pthread_mutex_lock(&p->to->send_lock);
	ok = ring_push(p->to, p->id, p->hdr, p->hdr_len, p->data, p->len);
	pthread_mutex_unlock(&p->to->send_lock);
	return ok;
}

static int
push_doomed(void *arg)
{
	struct push *p = arg;

	return peer_failed(p->to) ? peer_error(p->to) : 0;
}

int
am_send(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
        size_t len)
{
	struct push p = { to, id, hdr, data, hdr_len, len };

	if (peer_failed(to))
		return peer_error(to);
	if (to->ring)
		return push_now(&p) ? 0
		                    : ctx_wait(to->ctx, push_now, push_doomed, &p, ORIEL_FOREVER);
	if (to->ctx->ucx)
		return ucx_am_send(to, id, hdr, hdr_len, data, len, false);
	return fail(ORIEL_ENOTSUP, "rank %d cannot be reached: no shared memory (%s), no ucx (%s)",
	            to->rank, to->why_not, to->ctx->tp[TP_UCX].why);
}

static void
queue_reply(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
            size_t len)
{
	struct am *am = to->ctx->am;
	struct am_queued *q = malloc(sizeof(*q) + hdr_len + len);

	if (!q) {
		peer_fail(to, false, "no memory for an answer of %zu bytes to it", len);
		return;
	}
	*q = (struct am_queued){ .to = to, .id = id, .hdr_len = hdr_len, .len = len };
	if (hdr_len)
		memcpy(q->bytes, hdr, hdr_len);
	if (len)
		memcpy(q->bytes + hdr_len, data, len);
	*am->tail = q;
	am->tail = &q->next;
	am->n_queued++;
}

static bool
reply_now(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
          size_t len)
{
	struct push p = { to, id, hdr, data, hdr_len, len };

	if (peer_failed(to))
		return true; /* nobody to answer */
	return to->ring ? push_now(&p) : !ucx_am_send(to, id, hdr, hdr_len, data, len, true);
}

void
am_reply(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
         size_t len)
{
	if (!to->ring && !to->ctx->ucx)
		return;
	/* Behind what is queued already, so that messages stay in order. */
	if (to->ctx->am->head || !reply_now(to, id, hdr, hdr_len, data, len))
		queue_reply(to, id, hdr, hdr_len, data, len);
}

bool
am_flush_queued(oriel_ctx *ctx)
{
	struct am *am = ctx->am;
	struct am_queued **at = &am->head, *q;
	bool moved = false;

	/* One full carrier must not hold up the others; order to one peer stays, since a
	 * peer that was full once in this round is not tried again. */
	am->round++;
	while ((q = *at)) {
		if (q->to->full_round == am->round ||
		    !reply_now(q->to, q->id, q->bytes, q->hdr_len, q->bytes + q->hdr_len, q->len)) {
			q->to->full_round = am->round;
			at = &q->next;
			continue;
		}
		*at = q->next;
		if (!*at)
			am->tail = at;
		free(q);
		am->n_queued--;
		moved = true;
	}
	am->tail = at;
	return moved;
}

static bool
call_done(void *arg)
{
	struct am_call *c = arg;

	return load_acquire(&c->done) != 0;
}

static int
call_doomed(void *arg)
{
	struct am_call *c = arg;

	peer_watch(c->to);
	return peer_failed(c->to) ? peer_error(c->to) : 0;
}

/* From now on no answer writes to the caller's memory. */
static void
call_forget(struct am_call *c)
{
	struct am *am = c->to->ctx->am;

	pthread_mutex_lock(&am->lock);
	table_del(am->calls, c->token);
	pthread_mutex_unlock(&am->lock);
}

int
am_call_start(struct am_call *c, enum am_id id, void *hdr, size_t hdr_len, const void *data,
              size_t len)
{
	struct am *am = c->to->ctx->am;
	int rc;

	c->token = add_relaxed(&am->next_token, 1) + 1;
	memcpy(hdr, &c->token, sizeof(c->token));
	rc = table_put(am->calls, c->token, c);
	if (rc)
		return rc;
	rc = am_send(c->to, id, hdr, hdr_len, data, len);
	if (rc)
		call_forget(c);
	return rc;
}

int
am_call_end(struct am_call *c, uint64_t deadline)
{
	int rc = ctx_wait(c->to->ctx, call_done, call_doomed, c, deadline);

	call_forget(c);
	if (rc == ORIEL_ETIMEDOUT)
		return fail(rc, "rank %d did not answer in time", c->to->rank);
	return rc ? rc : c->status;
}

int
am_call(struct peer *to, enum am_id id, void *hdr, size_t hdr_len, const void *data, size_t len,
        void *out, size_t *out_len, uint64_t deadline)
{
	struct am_call c = { .out = out, .cap = out_len ? *out_len : 0, .to = to };
	int rc = am_call_start(&c, id, hdr, hdr_len, data, len);

	if (!rc)
		rc = am_call_end(&c, deadline);
	if (!rc && out_len)
		*out_len = c.len;
	return rc;
}

void
am_answer(oriel_ctx *ctx, const struct am_msg *m, uint64_t token, int status, const void *data,
          size_t len)
{
	struct reply_hdr h = { .token = token, .status = status };

	(void)ctx;
	am_reply(m->from, AM_REPLY, &h, sizeof(h), data, len);
}

void
am_on_reply(oriel_ctx *ctx, const struct am_msg *m)
{
	struct am *am = ctx->am;
	struct reply_hdr h;
	struct am_call *c;

	if (m->hdr_len != sizeof(h))
		return;
	memcpy(&h, m->hdr, sizeof(h));
	pthread_mutex_lock(&am->lock);
	c = table_get(am->calls, h.token);
	if (c && c->to == m->from && !c->done) { /* else its caller has given up */
		c->len = m->len < c->cap ? m->len : c->cap;
		if (c->len)
			copy_bytes(c->out, m->data, c->len);
		c->status = h.status;
		store_release(&c->done, 1);
	}
	pthread_mutex_unlock(&am->lock);
}

int
am_sync(struct peer *to, uint64_t deadline)
{
	uint64_t hdr;

	return am_call(to, AM_SYNC, &hdr, sizeof(hdr), NULL, 0, NULL, NULL, deadline);
}

void
am_on_sync(oriel_ctx *ctx, const struct am_msg *m)
{
	uint64_t token;

	if (m->hdr_len != sizeof(token))
		return;
	memcpy(&token, m->hdr, sizeof(token));
	am_answer(ctx, m, token, 0, NULL, 0);
}

void
am_on_ping(oriel_ctx *ctx, const struct am_msg *m)
{
	(void)ctx;
	am_reply(m->from, AM_PONG, NULL, 0, NULL, 0);
}

void
am_on_pong(oriel_ctx *ctx, const struct am_msg *m)
{
	/* That it came at all is what counts: the carrier has noted the time. */
	(void)ctx;
	(void)m;
}

void
am_on_bye(oriel_ctx *ctx, const struct am_msg *m)
{
	(void)ctx;
	peer_leave(m->from);
}

void
am_deliver(oriel_ctx *ctx, struct peer *from, unsigned id, const void *hdr, size_t hdr_len,
           const void *data, size_t len)
{
	static am_handler *const handlers[AM_N] = {
#define AM_ROW(id, handler) [id] = handler,
		AM_HANDLERS(AM_ROW)
#undef AM_ROW
	};
	struct am_msg m = { from, hdr, hdr_len, data, len };

	if (id >= AM_N || hdr_len > AM_HDR_MAX || len > AM_DATA_MAX) {
		peer_fail(from, false, "it sent a message with id %u, header %zu, data %zu bytes",
		          id, hdr_len, len);
		return;
	}
	if (!peer_failed(from))
		handlers[id](ctx, &m);
}
