#include "p2p/p2p.h"

#include "base/copy.h"

#include <stdlib.h>

/* ---- A message and its receive have met ---- */

/* r was posted, or is new. */
static void
meet(struct p2p_req *r, struct link *k, int tag, size_t size)
{
	if (r->state == RECV_POSTED && r->recv.any) {
		r->p->n_any--;
		link_enter(k, r);
	}
	r->tag = tag;
	r->size = size;
}

static void
land(struct p2p_req *r, const char *data)
{
	bool fits = r->size <= r->len;

	if (fits && r->size)
		copy_short(r->buf, data, r->size);
	r->moved = fits ? r->size : 0;
	p2p_end(r, fits ? 0 : ORIEL_ERANGE);
}

static void
answer_soon(struct p2p_req *r, struct link *k, const struct line_ask *ask)
{
	r->ask = *ask;
	r->state = RECV_MATCHED;
	TAILQ_INSERT_TAIL(&k->matched, r, entry);
	recv_tell(k);
}

/* Both ends are here. */
static void
hand_over(struct p2p_req *r, struct p2p_req *send)
{
	land(r, send->buf);
	send->moved = send->size;
}

static struct p2p_req *
arrival(struct link *k, int tag)
{
	struct match_recv *m = match_arrival(&k->p->match, &k->source, tag);

	return m ? container_of(m, struct p2p_req, recv) : NULL;
}

/* ---- A message has come ---- */

static bool
keep(struct link *k, int tag, struct kept what, const char *data, size_t bytes)
{
	struct kept *m = malloc(sizeof(*m) + bytes);

	if (!m) {
		fail(ORIEL_ENOMEM, "no memory to keep a message of %zu bytes from rank %d", bytes,
		     k->rank);
		p2p_break(k->p, ORIEL_ENOMEM, k->p->comm->ctx->boot.rank);
		return false;
	}
	*m = what;
	if (bytes)
		memcpy(m->data, data, bytes);
	match_keep(&k->p->match, &k->source, &m->msg, tag);
	k->kept += sizeof(*m) + bytes;
	return true;
}

bool
recv_on_message(struct link *k, int tag, const char *data, size_t len)
{
	struct p2p_req *r = arrival(k, tag);

	if (unlikely(!r)) {
		keep(k, tag, (struct kept){ .kind = KEPT_EAGER, .len = len }, data, len);
		return true;
	}
	meet(r, k, tag, len);
	land(r, data);
	return true;
}

bool
recv_on_ask(struct link *k, int tag, const char *data, size_t len)
{
	struct line_ask ask;
	struct p2p_req *r;

	(void)len;
	memcpy(&ask, data, sizeof(ask));
	if (!line_ask_sane(&ask))
		return false;
	r = arrival(k, tag);
	if (!r) {
		keep(k, tag, (struct kept){ .kind = KEPT_ASK, .len = ask.len, .ask = ask }, NULL,
		     0);
		return true;
	}
	meet(r, k, tag, ask.len);
	answer_soon(r, k, &ask);
	return true;
}

void
recv_on_self(struct p2p_req *send)
{
	struct link *k = send->link;
	struct p2p_req *r = arrival(k, send->tag);
	struct kept copy = { .kind = KEPT_EAGER, .len = send->len };
	struct kept whole = { .kind = KEPT_SELF, .len = send->len, .send = send };

	if (r) {
		meet(r, k, send->tag, send->len);
		hand_over(r, send);
		p2p_end_at_once(send, 0);
		return;
	}
	if (send->len <= send->p->eager && k->kept < send->p->bound) {
		keep(k, send->tag, copy, send->buf, send->len);
		p2p_end_at_once(send, send->p->broken);
		return;
	}
	link_enter(k, send);
	send->state = SEND_ASKED;
	TAILQ_INSERT_TAIL(&k->asked, send, entry);
	keep(k, send->tag, whole, NULL, 0);
}

/* ---- A receive is called ---- */

static void
take_kept(struct p2p_req *r, struct match_msg *msg)
{
	struct kept *m = container_of(msg, struct kept, msg);
	struct link *k = container_of(msg->source, struct link, source);

	link_enter(k, r);
	meet(r, k, msg->tag, m->len);
	match_drop(&r->p->match, msg);
	k->kept -= sizeof(*m) + (m->kind == KEPT_EAGER ? m->len : 0);
	switch (m->kind) {
	case KEPT_EAGER:
		land(r, m->data);
		break;
	case KEPT_SELF:
		hand_over(r, m->send);
		p2p_end(m->send, 0);
		break;
	case KEPT_ASK:
		answer_soon(r, k, &m->ask);
		break;
	}
	free(m);
}

void
recv_start(struct p2p_req *r, struct link *k)
{
	struct match *match = &r->p->match;
	struct match_msg *msg = match_look(match, k ? &k->source : NULL, r->tag);

	r->state = REQ_DONE; /* stands in no queue yet */
	if (unlikely(msg != NULL)) {
		take_kept(r, msg);
		return;
	}
	if (k)
		link_enter(k, r);
	else
		r->p->n_any++;
	match_post(match, k ? &k->source : NULL, &r->recv, r->tag);
	r->state = RECV_POSTED;
}

/* ---- Long messages ---- */

/* Where the peer may put it, as the peer sees it. */
static int
say_where(struct link *k, struct p2p_req *r, struct line_clear *clear, char *key)
{
	struct chan *c = k->chan;
	oriel_ctx *ctx = k->p->comm->ctx;
	size_t off, key_len = UCX_KEY_MAX;
	unsigned slab;
	int rc;

	clear->where = (uintptr_t)r->buf;
	c->ready_told = LINK_PLACING;
	if (c->out) {
		if (!pool_find(ctx->pool, r->buf, r->size, &slab, &off))
			return 0;
		clear->where = off;
		clear->key = slab + 1;
		return 0;
	}
	/* Puts and messages must go the same way, for the order of the two. */
	if (!ctx->ucx || c->peer->ring)
		return 0;
	rc = ucx_mem_key(ctx, r->buf, r->size, key, &key_len);
	clear->key_len = rc ? 0 : (uint32_t)key_len;
	return rc;
}

static bool
send_clear(struct link *k, struct p2p_req *r)
{
	struct {
		struct line_clear clear;
		char key[UCX_KEY_MAX];
	} m = { .clear = { .id = r->ask.id, .number = k->n_recvs++ & LINE_NUMBER_MASK } };
	bool fits = r->size <= r->len;
	int rc = 0;

	r->number = m.clear.number;
	if (fits) {
		m.clear.len = r->size;
		rc = say_where(k, r, &m.clear, m.key);
	}
	if (rc) {
		p2p_break(k->p, rc, k->p->comm->ctx->boot.rank);
		return false;
	}
	TAILQ_REMOVE(&k->matched, r, entry);
	TAILQ_INSERT_TAIL(&k->landing, r, entry);
	r->state = RECV_CLEARED;
	if (!link_line(k, LINE_CLEAR, r->number, &m, sizeof(m.clear) + m.clear.key_len))
		return false;
	if (!fits)
		p2p_end(r, ORIEL_ERANGE);
	return true;
}

static void
begin_pull(struct link *k, struct p2p_req *r)
{
	TAILQ_REMOVE(&k->matched, r, entry);
	TAILQ_INSERT_TAIL(&k->pulls, r, entry);
	r->state = RECV_PULLS;
}

/* The next bytes. False: they have to wait, or the communicator is broken. */
static bool
pull_bytes(struct link *k, struct p2p_req *r, size_t *copies)
{
	size_t n = r->size - r->moved;
	int rc;

	n = n < *copies ? n : *copies;
	if (!n)
		return false;
	*copies -= n;
	rc = chan_pull(k->chan, LINK_PLACING, r->ask.where + r->moved, r->ask.key,
	               r->buf + r->moved, n);
	if (rc) {
		link_broke(k, rc);
		return false;
	}
	r->moved += n;
	return true;
}

/* All bytes are here, or the buffer is too short for them; either ends the send. */
static bool
pulled(struct link *k, struct p2p_req *r, bool fits)
{
	if (!link_open(k) || !link_line(k, LINE_PULLED, r->ask.id & LINE_NUMBER_MASK, NULL, 0))
		return false;
	p2p_end(r, fits ? 0 : ORIEL_ERANGE);
	return true;
}

static bool
pull_all(struct link *k)
{
	size_t copies = LINK_STEP;
	bool moved = false;
	struct p2p_req *r;

	while ((r = TAILQ_FIRST(&k->pulls)) && !k->p->broken) {
		bool fits = r->size <= r->len, rest = fits && r->moved < r->size;

		if (rest ? !pull_bytes(k, r, &copies) : !pulled(k, r, fits))
			break;
		moved = true;
	}
	return moved;
}

bool
recv_tell(struct link *k)
{
	bool moved = false;
	struct p2p_req *r;

	while (unlikely((r = TAILQ_FIRST(&k->matched)) != NULL) && link_open(k)) {
		if (chan_can_pull(k->chan, r->ask.key))
			begin_pull(k, r);
		else if (!send_clear(k, r))
			return true;
		moved = true;
	}
	if (unlikely(!TAILQ_EMPTY(&k->pulls)))
		moved |= pull_all(k);
	return moved;
}

static struct p2p_req *
landing(struct link *k, uint32_t number)
{
	struct p2p_req *r = NULL;

	TAILQ_FOREACH(r, &k->landing, entry)
	{
		if (r->number == number)
			return r;
	}
	return NULL;
}

bool
recv_on_piece(struct link *k, uint32_t number, const char *data, size_t len)
{
	struct p2p_req *r = landing(k, number);

	if (!r || len > r->size - r->moved)
		return false;
	copy_bytes(r->buf + r->moved, data, len);
	r->moved += len;
	if (r->moved == r->size)
		p2p_end(r, 0);
	return true;
}

bool
recv_on_placed(struct link *k, uint32_t number)
{
	struct p2p_req *r = landing(k, number);

	if (!r)
		return false;
	r->moved = r->size;
	p2p_end(r, 0);
	return true;
}
