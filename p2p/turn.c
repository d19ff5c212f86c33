/*
 * turn.c - what keeps requests going: turns, waits, the task.
 */
#include "p2p/p2p.h"

#include "plan/box.h"

#include <stdio.h>
#include <stdlib.h>

#define ALL_TURNS 16  /* turns between looks at ranks that nobody waits for */
#define SPIN_TIMES 50 /* spins before ctx_wait takes over */
#define MEET_MAX 64   /* ranks met in one turn */

/* ---- Turns ---- */

static bool
link_turn(struct link *k)
{
	bool moved;

	if (!k->chan || k->p->broken)
		return false;
	moved = link_take(k, false) | link_tell(k);
	if (unlikely(k->n_reqs && peer_failed(k->chan->peer)) && !k->p->broken) {
		p2p_blame(k->p, k->chan->peer);
		return true;
	}
	return moved;
}

/* Ranks that send messages, because their memory or this rank's cannot be mapped. */
static void
discover_boxes(struct p2p *p)
{
	oriel_ctx *ctx = p->comm->ctx;
	uint64_t made = box_count(ctx);
	int ranks[MEET_MAX], rank;
	struct link *k;
	size_t n;

	if (made == p->boxes)
		return;
	n = box_ranks(ctx, p->comm->id, MBOX_P2P, ranks, MEET_MAX);
	for (size_t i = 0; i < n; i++) {
		rank = comm_rank_of(p->comm, ranks[i]);
		if (rank >= 0 && link_get(p, rank, &k))
			return; /* another time */
	}
	if (n < MEET_MAX)
		p->boxes = made;
}

void
p2p_discover(struct p2p *p)
{
	const struct mbox *boxes = p->comm->boxes;
	struct link *k;

	for (int i = 0; boxes && i < p->comm->ctx->boot.n_local; i++)
		if (p->strangers[i] >= 0 &&
		    mbox_peek(&boxes[(size_t)i * MBOX_CHANNELS + MBOX_P2P], 0) &&
		    link_get(p, p->strangers[i], &k))
			return;
	discover_boxes(p);
}

bool
p2p_turn(struct p2p *p)
{
	struct link *k, *next;
	bool moved = false;

	if (unlikely(p->broken))
		return false;
	if (unlikely(comm_failed(p->comm))) {
		p2p_break(p, 0, -1);
		return true;
	}
	if (unlikely(p->n_any || ++p->turns % ALL_TURNS == 0)) {
		p2p_discover(p);
		SLIST_FOREACH(k, &p->all, next)
		{
			if (unlikely(k->chan && !k->chan->heard))
				chan_adopt(k->chan);
			moved |= link_turn(k);
		}
		return moved;
	}
	for (k = TAILQ_FIRST(&p->busy); k && !p->broken; k = next) {
		next = TAILQ_NEXT(k, busy);
		moved |= link_turn(k);
	}
	return moved;
}

struct peer *
p2p_watch(struct p2p *p, struct link *k)
{
	if (!k)
		return comm_failed_member(p->comm);
	if (!k->chan)
		return NULL;
	peer_watch(k->chan->peer);
	return peer_failed(k->chan->peer) ? k->chan->peer : NULL;
}

void
p2p_watch_for(struct p2p_req *r)
{
	struct p2p *p = r->p;
	struct peer *failed;

	p2p_lock(p);
	failed = r->state == REQ_DONE ? NULL : p2p_watch(p, r->link);
	/* What it sent before counts. */
	if (failed)
		p2p_turn(p);
	if (failed && r->state != REQ_DONE)
		p2p_blame(p, failed);
	p2p_unlock(p);
}

void
p2p_watch_all(struct p2p *p)
{
	struct peer *failed = p->n_any ? comm_failed_member(p->comm) : NULL;
	struct link *k = NULL;

	TAILQ_FOREACH(k, &p->busy, busy)
	{
		if (k->chan)
			peer_watch(k->chan->peer);
	}
	if (failed)
		p2p_turn(p);
	if (failed && p->n_any)
		p2p_blame(p, failed);
}

void
p2p_attend(struct p2p *p)
{
	oriel_ctx *ctx = p->comm->ctx;

	if (likely(load_relaxed(&p->attended) || !load_relaxed(&p->n_open)))
		return;
	pthread_mutex_lock(&ctx->task_lock);
	p2p_lock(p);
	if (p->n_open && !p->attended) {
		task_add(ctx, &p->task);
		store_relaxed(&p->attended, 1);
	}
	p2p_unlock(p);
	pthread_mutex_unlock(&ctx->task_lock);
}

/* ---- Waits ---- */

/* The one word that changes when r can go on; NULL: there are others, or none to be seen here. */
static const uint64_t *
awaited(const struct p2p_req *r)
{
	const struct link *k = r->link;
	const struct chan *c = k ? k->chan : NULL;

	if (!c || c->box || !c->connected || r->p->n_any || TAILQ_FIRST(&r->p->busy) != k ||
	    TAILQ_NEXT(k, busy))
		return NULL;
	if ((r->state == SEND_WAITS || r->state == SEND_CLEARED || r->state == RECV_PULLS) &&
	    !chan_has_credit(c))
		return &c->in->credit.consumed;
	return &c->in->line[c->seen % MBOX_SLOTS].seq;
}

/* Without giving the lock away: most waits are short. True: r is done. */
static bool
spin(struct p2p_req *r)
{
	struct p2p *p = r->p;
	oriel_ctx *ctx = p->comm->ctx;

	for (unsigned i = 0; i < SPIN_TIMES; i++) {
		const uint64_t *word = awaited(r);
		uint64_t seen = word ? load_relaxed(word) : 0;
		bool moved = p2p_turn(p);

		if (r->state == REQ_DONE)
			return true;
		if (moved)
			continue;
		if (!word || ctx->crowded || p2p_wanted(p) || load_relaxed(&ctx->n_tasks))
			return false;
		oriel_spin(ctx, word, seen, ctx->crowded ? P2P_SPIN_BRIEFLY : P2P_SPIN_ROUNDS);
		if (load_relaxed(word) != seen)
			continue;
		if (ctx->crowded)
			return false;
		ctx_progress(ctx);
	}
	return false;
}

static bool
wait_ready(void *arg)
{
	struct p2p_req *r = arg;
	struct p2p *p = r->p;

	if (load_acquire(&r->done))
		return true;
	tasks_turn(p->comm->ctx);
	p2p_lock(p);
	p2p_turn(p);
	p2p_unlock(p);
	return load_acquire(&r->done);
}

/* Breaking the communicator ends the request, and with it the wait. */
static int
wait_doomed(void *arg)
{
	p2p_watch_for(arg);
	return 0;
}

/* A message to this rank itself that no receive will find any more. */
static void
drop_kept(struct link *k, const struct p2p_req *send)
{
	struct match_msg *msg = NULL;

	TAILQ_FOREACH(msg, &k->source.came, entry)
	{
		struct kept *m = container_of(msg, struct kept, msg);

		if (m->kind == KEPT_SELF && m->send == send) {
			match_drop(&k->p->match, msg);
			k->kept -= sizeof(*m);
			free(m);
			return;
		}
	}
}

/* The wait is over, for rc, but the request is not. */
static void
withdraw(struct p2p_req *r, int rc)
{
	struct link *k = r->link;
	bool unseen = r->state == RECV_POSTED || r->state == SEND_WAITS;

	if (k && !k->chan && r->state == SEND_ASKED) {
		drop_kept(k, r);
		unseen = true;
	}
	/* Where the peer does not know of it nothing is lost but time. */
	if (rc == ORIEL_ETIMEDOUT && unseen) {
		p2p_end(r, rc);
		return;
	}
	if (rc == ORIEL_ETIMEDOUT && k && k->chan)
		p2p_break(r->p, rc, k->chan->peer->rank);
	else
		p2p_break(r->p, rc, r->p->comm->ctx->boot.rank);
	if (rc == ORIEL_ETIMEDOUT)
		r->rc = rc;
}

void
p2p_wait(struct p2p_req *r, uint64_t *deadline)
{
	struct p2p *p = r->p;
	int rc;

	if (likely(r->state == REQ_DONE || spin(r)))
		return;
	p2p_unlock(p);
	if (!*deadline)
		*deadline = ctx_call_deadline(p->comm->ctx);
	rc = ctx_wait(p->comm->ctx, wait_ready, wait_doomed, r, *deadline);
	p2p_lock(p);
	if (r->state != REQ_DONE)
		withdraw(r, rc);
}
