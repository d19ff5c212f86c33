#include "p2p/p2p.h"

#include "plan/box.h"

#include <string.h>

/* ---- Begin ---- */

/*
 * Where ranks share CPUs a receiver of the same node may read the message itself:
 * else this rank has to hear from it first, which may not be running, then to run
 * again to copy, and all copies come one after the other.
 */
static void
offer(struct p2p_req *r, struct link *k, struct line_ask *ask)
{
	oriel_ctx *ctx = k->p->comm->ctx;
	unsigned slab;
	size_t off;

	ask->key = MBOX_NO_KEY;
	if (!k->chan->out || !ctx->crowded)
		return;
	ask->where = (uintptr_t)r->buf;
	ask->key = 0;
	if (pool_find(ctx->pool, r->buf, r->size, &slab, &off)) {
		ask->where = off;
		ask->key = slab + 1;
	}
	r->exposed = true;
	k->chan->ready_told = LINK_PLACING;
}

/* Eager, or the question whether it may come. */
static bool
send_first(struct p2p_req *r, struct link *k)
{
	struct line_ask ask = { .len = r->len };

	if (r->len <= r->p->eager)
		return link_line(k, LINE_EAGER, (uint32_t)r->tag, r->buf, r->len);
	ask.id = r->id = k->n_sends++;
	offer(r, k, &ask);
	return link_line(k, LINE_ASK, (uint32_t)r->tag, &ask, sizeof(ask));
}

static bool
send_waiting(struct link *k)
{
	bool moved = false;
	struct p2p_req *r;

	while ((r = TAILQ_FIRST(&k->waits)) && link_open(k)) {
		if (!send_first(r, k))
			return true;
		moved = true;
		if (r->len <= r->p->eager) {
			p2p_end(r, 0);
			continue;
		}
		TAILQ_REMOVE(&k->waits, r, entry);
		TAILQ_INSERT_TAIL(&k->asked, r, entry);
		r->state = SEND_ASKED;
	}
	return moved;
}

void
send_start(struct p2p_req *r, struct link *k)
{
	struct p2p *p = r->p;

	r->size = r->len;
	if (unlikely(!k->chan)) {
		r->link = k;
		recv_on_self(r);
		return;
	}
	if (likely(r->len <= p->eager && TAILQ_EMPTY(&k->waits) && link_open(k))) {
		r->link = k;
		link_line(k, LINE_EAGER, (uint32_t)r->tag, r->buf, r->len);
		p2p_end_at_once(r, p->broken);
		return;
	}
	link_enter(k, r);
	r->state = SEND_WAITS;
	TAILQ_INSERT_TAIL(&k->waits, r, entry);
	/* A channel that broke in link_open has ended all but this one. */
	if (p->broken)
		p2p_end(r, p->broken);
	else
		send_waiting(k);
}

/* ---- The bytes ---- */

/* By the low bits of its id, in which no two that are under way agree. */
static struct p2p_req *
asked(struct link *k, uint64_t id)
{
	struct p2p_req *r = NULL;

	TAILQ_FOREACH(r, &k->asked, entry)
	{
		if (!((r->id ^ id) & LINE_NUMBER_MASK))
			return r;
	}
	return NULL;
}

bool
send_on_pulled(struct link *k, uint32_t number)
{
	struct p2p_req *r = asked(k, number);

	if (!r || !r->exposed)
		return false;
	p2p_end(r, 0);
	return true;
}

bool
send_on_clear(struct link *k, const char *data, size_t len)
{
	struct line_clear clear;
	struct p2p_req *r;

	memcpy(&clear, data, sizeof(clear));
	r = asked(k, clear.id);
	if (!r || r->id != clear.id || (clear.len && clear.len != r->len) ||
	    clear.key_len != len - sizeof(clear))
		return false;
	if (!clear.len) { /* The receive's buffer is too short, and its rank knows it. */
		p2p_end(r, 0);
		return true;
	}
	r->exposed = false;
	r->clear = clear;
	memcpy(r->key, data + sizeof(clear), clear.key_len);
	TAILQ_REMOVE(&k->asked, r, entry);
	TAILQ_INSERT_TAIL(&k->cleared, r, entry);
	r->state = SEND_CLEARED;
	return true;
}

/*
 * The words of a mailbox that say where a peer's buffers are belong to plans;
 * nobody writes those of this channel but its sender, from what it was told.
 */
static bool
should_place(struct link *k, const struct p2p_req *r)
{
	struct chan *c = k->chan;

	c->in->ready.buf[0].where = r->clear.where;
	c->in->ready.buf[0].key = r->clear.key;
	if (!c->out && c->box) {
		c->box->key_len[0] = (uint32_t)r->clear.key_len;
		memcpy(c->box->rkey[0], r->key, r->clear.key_len);
	}
	return chan_should_place(c, 0, r->size, true);
}

static bool
send_piece(struct link *k, struct p2p_req *r)
{
	size_t n = r->size - r->moved;

	if (n > MBOX_SCRATCH)
		n = MBOX_SCRATCH;
	if (!link_open(k) || !link_line(k, LINE_PIECE, r->clear.number, r->buf + r->moved, n))
		return false;
	r->moved += n;
	if (r->moved == r->size)
		p2p_end(r, 0);
	return true;
}

/*
 * The next bytes. False: they have to wait, or the communicator is broken.
 * *copies: bytes that may be copied by this thread before others have a turn;
 * puts through ucx go by themselves.
 */
static bool
send_bytes(struct link *k, struct p2p_req *r, size_t *copies)
{
	size_t n = r->size - r->moved;
	int rc;

	if (!should_place(k, r))
		return send_piece(k, r);
	if (k->chan->out) {
		n = n < *copies ? n : *copies;
		*copies -= n;
	}
	if (!n)
		return false;
	rc = chan_place(k->chan, LINK_PLACING, 0, r->moved, r->buf + r->moved, n);
	if (rc) {
		link_broke(k, rc);
		return false;
	}
	r->moved += n;
	return true;
}

/* All bytes are there, or will be before the next line. */
static bool
send_placed(struct link *k, struct p2p_req *r)
{
	if (!link_open(k))
		return false;
	ctx_delay(k->p->comm->ctx);
	if (!link_line(k, LINE_PLACED, r->clear.number, NULL, 0))
		return false;
	if (k->chan->out) {
		p2p_end(r, 0);
		return true;
	}
	r->mark = ucx_quiet_start(k->chan->peer);
	TAILQ_REMOVE(&k->cleared, r, entry);
	TAILQ_INSERT_TAIL(&k->flushes, r, entry);
	r->state = SEND_FLUSHES;
	return true;
}

static bool
end_flushed(struct link *k)
{
	bool moved = false;
	struct p2p_req *r;

	while ((r = TAILQ_FIRST(&k->flushes)) && ucx_quiet_done(k->chan->peer, r->mark)) {
		/* Only then "placing" may be taken back: the last one's puts are complete. */
		if (!TAILQ_NEXT(r, entry) && TAILQ_EMPTY(&k->cleared))
			chan_quiet(k->chan, ORIEL_FOREVER);
		p2p_end(r, 0);
		moved = true;
	}
	return moved;
}

bool
send_tell(struct link *k)
{
	size_t copies = LINK_STEP;
	bool moved = false;
	struct p2p_req *r;

	while (unlikely((r = TAILQ_FIRST(&k->cleared)) != NULL) && !k->p->broken) {
		bool rest = r->moved < r->size;

		if (rest ? !send_bytes(k, r, &copies) : !send_placed(k, r))
			break;
		moved = true;
	}
	if (unlikely(!TAILQ_EMPTY(&k->flushes)) && !k->p->broken)
		moved |= end_flushed(k);
	if (unlikely(!TAILQ_EMPTY(&k->waits)) && !k->p->broken)
		moved |= send_waiting(k);
	return moved;
}
