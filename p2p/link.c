/*
 * link.c - the channel between this rank and another for send and receive:
 * lines out, lines in, credits.
 */
#include "p2p/p2p.h"

#include <stdlib.h>

static struct link *
link_new(struct p2p *p, int rank)
{
	struct link *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	match_source_init(&k->source);
	TAILQ_INIT(&k->waits);
	TAILQ_INIT(&k->asked);
	TAILQ_INIT(&k->cleared);
	TAILQ_INIT(&k->flushes);
	TAILQ_INIT(&k->matched);
	TAILQ_INIT(&k->landing);
	TAILQ_INIT(&k->pulls);
	k->p = p;
	k->rank = rank;
	return k;
}

static int
link_make(struct p2p *p, int rank, struct link **out)
{
	struct link *k = link_new(p, rank);
	int rc = 0;

	if (!k)
		return fail(ORIEL_ENOMEM, "no memory for what rank %d sends", rank);
	if (rank != p->comm->rank)
		rc = chan_make(p->comm, rank, MBOX_P2P, &k->chan);
	if (!rc)
		rc = dir_set(&p->links, rank, k);
	if (rc) {
		if (k->chan)
			chan_free(k->chan);
		free(k);
		return rc;
	}
	if (k->chan && k->chan->peer->local >= 0)
		p->strangers[k->chan->peer->local] = -1;
	SLIST_INSERT_HEAD(&p->all, k, next);
	*out = k;
	return 0;
}

int
link_get(struct p2p *p, int rank, struct link **out)
{
	*out = dir_get(&p->links, rank);
	return likely(*out != NULL) ? 0 : link_make(p, rank, out);
}

static void
bury_all(struct p2p_reqs *q)
{
	struct p2p_req *r;

	while ((r = TAILQ_FIRST(q))) {
		oriel_req *req = &r->req;

		TAILQ_REMOVE(q, r, entry);
		req_bury(&req);
	}
}

/* At the communicator's end. Requests that the user has left are buried with it. */
void
link_free(struct link *k)
{
	struct match_recv *m;
	struct match_msg *msg;

	while ((msg = TAILQ_FIRST(&k->source.came))) {
		match_drop(&k->p->match, msg);
		free(msg);
	}
	bury_all(&k->waits);
	bury_all(&k->asked);
	bury_all(&k->cleared);
	bury_all(&k->flushes);
	bury_all(&k->matched);
	bury_all(&k->landing);
	bury_all(&k->pulls);
	while ((m = TAILQ_FIRST(&k->source.posted))) {
		oriel_req *req = &container_of(m, struct p2p_req, recv)->req;

		match_unpost(&k->p->match, &k->source, m);
		req_bury(&req);
	}
	if (k->chan)
		chan_free(k->chan);
	free(k);
}

void
link_enter(struct link *k, struct p2p_req *r)
{
	r->link = k;
	if (!k->n_reqs++)
		TAILQ_INSERT_TAIL(&k->p->busy, k, busy);
}

__attribute__((cold, noinline)) void
link_broke(struct link *k, int rc)
{
	int peer = k->chan->peer->rank, own = k->p->comm->ctx->boot.rank;

	p2p_break(k->p, rc, rc == ORIEL_EPEER || rc == ORIEL_EMISMATCH ? peer : own);
}

/* ---- Out ---- */

static bool
link_connect(struct link *k)
{
	int rc;

	if (!chan_reachable(k->chan))
		return false;
	rc = chan_connect(k->chan);
	if (rc)
		link_broke(k, rc);
	return !rc;
}

bool
link_open(struct link *k)
{
	struct chan *c = k->chan;

	if (unlikely(!c->connected || k->p->broken))
		return !k->p->broken && link_connect(k) && chan_has_credit(c);
	return chan_has_credit(c);
}

static bool
send_by_message(struct link *k, struct line l, const void *data, size_t len)
{
	struct chan *c = k->chan;
	int rc = chan_send(c, line_pack(l), wire_seq(0, c->sent), data, len);

	c->sent++;
	count_up(&c->rec->sent);
	if (rc)
		link_broke(k, rc);
	return !rc;
}

bool
link_line(struct link *k, unsigned what, uint32_t number, const void *data, size_t len)
{
	struct line l = { .len = (uint32_t)len, .number = number, .what = (uint8_t)what };

	l.kind = len <= MBOX_LINE_DATA ? WIRE_INLINE : WIRE_SCRATCH;
	if (what == LINE_PLACED || what == LINE_PULLED)
		l.kind = WIRE_PLACED;
	if (unlikely(!k->chan->out))
		return send_by_message(k, l, data, len);
	link_put(k, l, data);
	return true;
}

/* ---- In ---- */

static bool
take_line(struct link *k)
{
	struct chan *c = k->chan;
	uint64_t slot = c->seen % MBOX_SLOTS;
	const struct mbox_line *line = &c->in->line[slot];
	uint64_t meta = load_relaxed(&line->meta);
	struct line l = line_unpack(meta);
	const char *data = l.kind == WIRE_INLINE ? line->data : c->in->scratch[slot];

	if (unlikely(!line_sane(meta)))
		return false;
	switch (l.what) {
	case LINE_EAGER:
		return recv_on_message(k, (int)l.number, data, l.len);
	case LINE_ASK:
		return recv_on_ask(k, (int)l.number, data, l.len);
	case LINE_CLEAR:
		return send_on_clear(k, data, l.len);
	case LINE_PLACED:
		return recv_on_placed(k, l.number);
	case LINE_PULLED:
		return send_on_pulled(k, l.number);
	default:
		return recv_on_piece(k, l.number, data, l.len);
	}
}

static __attribute__((cold, noinline)) void
bad_line(struct link *k)
{
	struct peer *peer = k->chan->peer;

	peer_fail(peer, false, "its line %llu to this rank breaks the rules of send and receive",
	          (unsigned long long)k->chan->seen);
	peer_error(peer);
	p2p_break(k->p, ORIEL_EPEER, peer->rank);
}

void
link_pay(struct link *k)
{
	struct chan *c = k->chan;
	int rc = 0;

	k->owes = !c->connected && !link_connect(k);
	if (!k->owes)
		rc = chan_credit(c);
	if (rc)
		link_broke(k, rc);
}

/* The peer has used up its credit, and there is room: it may go on, though nobody wants it. */
static bool
is_stuffed(const struct link *k)
{
	const struct chan *c = k->chan;
	uint64_t last = c->credited + MBOX_SLOTS - 1;

	return k->kept < k->p->bound && wire_fresh(mbox_peek(c->in, last), last);
}

bool
link_take(struct link *k, bool greedy)
{
	struct chan *c = k->chan;
	bool wanted = greedy || link_hungry(k), moved = false;
	unsigned spare = 0;

	if (unlikely(k->p->broken))
		return false;
	if (!wanted && is_stuffed(k))
		spare = MBOX_SLOTS;
	while ((wanted || spare) && message_came(c)) {
		if (unlikely(!take_line(k)))
			bad_line(k);
		if (unlikely(k->p->broken))
			return true;
		link_taken(k);
		moved = true;
		wanted = greedy || link_hungry(k);
		spare -= spare > 0;
	}
	return moved;
}

bool
link_tell(struct link *k)
{
	if (unlikely(k->owes))
		link_pay(k);
	return recv_tell(k) | send_tell(k);
}
