#include "p2p/p2p.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOKS 64                       /* turns of the task between looks at who has failed */
#define GRACE_NS UINT64_C(10000000000) /* for peers after a failure, where no timeout is set */

static bool
advance(struct task *t)
{
	struct p2p *p = container_of(t, struct p2p, task);
	bool moved = false;

	/* The helper must not wait for a long copy; who has the lock wakes those who skipped. */
	if (!p2p_trylock(p)) {
		lock_skip(&p->lock);
		return false;
	}
	if (load_relaxed(&p->n_open)) {
		moved = p2p_turn(p);
		if (++p->looks % LOOKS == 0)
			p2p_watch_all(p);
	} else {
		task_remove(p->comm->ctx, t);
		store_relaxed(&p->attended, 0);
	}
	p2p_unlock(p);
	return moved;
}

/* The node's other members whose mailboxes are in comm->boxes. */
static int
list_strangers(struct p2p *p)
{
	oriel_ctx *ctx = p->comm->ctx;

	p->strangers = calloc((size_t)ctx->boot.n_local, sizeof(*p->strangers));
	if (!p->strangers)
		return fail(ORIEL_ENOMEM, "no memory for a list of %d ranks", ctx->boot.n_local);
	for (int i = 0; i < ctx->boot.n_local; i++) {
		bool mapped = p->comm->boxes && i != ctx->my_local && ctx->local[i]->ctl;

		p->strangers[i] = mapped ? comm_rank_of(p->comm, ctx->local[i]->rank) : -1;
	}
	return 0;
}

static void
p2p_destroy(struct p2p *p)
{
	free(p->strangers);
	dir_free(&p->links);
	free(p);
}

static int
p2p_create(oriel_comm *comm, struct p2p **out)
{
	const struct knobs *knobs = &comm->ctx->knobs;
	struct p2p *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return fail(ORIEL_ENOMEM, "no memory for send and receive");
	p->comm = comm;
	p->task.advance = advance;
	p->eager = (size_t)knobs->v.eager_max;
	if (p->eager > MBOX_SCRATCH)
		p->eager = MBOX_SCRATCH;
	if (p->eager < MBOX_LINE_DATA)
		p->eager = MBOX_LINE_DATA;
	p->bound = (size_t)knobs->v.p2p_unexpected;
	match_init(&p->match);
	SLIST_INIT(&p->all);
	TAILQ_INIT(&p->busy);
	rc = dir_init(&p->links, comm->size);
	if (!rc)
		rc = list_strangers(p);
	if (rc) {
		p2p_destroy(p);
		return rc;
	}
	*out = p;
	return 0;
}

int
p2p_make(oriel_comm *comm)
{
	struct p2p *p = NULL;
	int rc = 0;

	pthread_mutex_lock(&comm->ctx->lock);
	if (!comm->p2p) {
		rc = p2p_create(comm, &p);
		if (!rc)
			store_release(&comm->p2p, p);
	}
	pthread_mutex_unlock(&comm->ctx->lock);
	return rc;
}

void
p2p_free(oriel_comm *comm)
{
	struct p2p *p = comm->p2p;

	if (!p)
		return;
	pthread_mutex_lock(&comm->ctx->task_lock);
	if (p->attended)
		task_remove(comm->ctx, &p->task);
	pthread_mutex_unlock(&comm->ctx->task_lock);
	while (!TAILQ_EMPTY(&p->match.any)) {
		struct match_recv *m = TAILQ_FIRST(&p->match.any);
		struct oriel_req *req = &container_of(m, struct p2p_req, recv)->req;

		match_unpost(&p->match, NULL, m);
		req_bury(&req);
	}
	while (!SLIST_EMPTY(&p->all)) {
		struct link *k = SLIST_FIRST(&p->all);

		SLIST_REMOVE_HEAD(&p->all, next);
		link_free(k);
	}
	p2p_destroy(p);
	comm->p2p = NULL;
}

__attribute__((cold, noinline)) void
p2p_lock_slow(struct p2p *p)
{
	while (!lock_sleep(&p->lock))
		;
}

__attribute__((cold, noinline)) void
p2p_unlock_slow(struct p2p *p)
{
	if (lock_wake(&p->lock))
		wake_after_store(&p->comm->ctx->ctl->wake);
}

/* ---- The end of requests ---- */

static void
leave_queue(struct p2p_req *r)
{
	struct link *k = r->link;

	switch (r->state) {
	case SEND_WAITS:
		TAILQ_REMOVE(&k->waits, r, entry);
		break;
	case SEND_ASKED:
		TAILQ_REMOVE(&k->asked, r, entry);
		break;
	case SEND_CLEARED:
		TAILQ_REMOVE(&k->cleared, r, entry);
		break;
	case SEND_FLUSHES:
		TAILQ_REMOVE(&k->flushes, r, entry);
		break;
	case RECV_POSTED:
		if (r->recv.posted)
			match_unpost(&r->p->match, k ? &k->source : NULL, &r->recv);
		break;
	case RECV_MATCHED:
		TAILQ_REMOVE(&k->matched, r, entry);
		break;
	case RECV_CLEARED:
		TAILQ_REMOVE(&k->landing, r, entry);
		break;
	case RECV_PULLS:
		TAILQ_REMOVE(&k->pulls, r, entry);
		break;
	case REQ_DONE:
		break;
	}
}

void
p2p_end_at_once(struct p2p_req *r, int rc)
{
	oriel_ctx *ctx = r->p->comm->ctx;

	if (r->handle)
		store_relaxed(&r->p->n_open, r->p->n_open - 1);
	r->rc = rc;
	r->was = r->state;
	r->state = REQ_DONE;
	store_release(&r->done, 1);
	wake_after_store(&ctx->ctl->wake);
}

void
p2p_end(struct p2p_req *r, int rc)
{
	struct link *k = r->link;

	leave_queue(r);
	if (!k)
		r->p->n_any--;
	else if (!--k->n_reqs)
		TAILQ_REMOVE(&r->p->busy, k, busy);
	p2p_end_at_once(r, rc);
}

static void
end_all(struct p2p_reqs *q, int rc, bool exposed)
{
	struct p2p_req *r;

	while ((r = TAILQ_FIRST(q))) {
		r->exposed |= exposed;
		p2p_end(r, rc);
	}
}

static void
end_posted(struct match_recvs *q, int rc)
{
	struct match_recv *m;

	while ((m = TAILQ_FIRST(q)))
		p2p_end(container_of(m, struct p2p_req, recv), rc);
}

static void
end_link(struct link *k, int rc)
{
	bool unquiet = k->chan && k->chan->unquiet;

	end_all(&k->waits, rc, false);
	end_all(&k->asked, rc, false);
	end_all(&k->cleared, rc, unquiet);
	end_all(&k->flushes, rc, unquiet);
	end_all(&k->matched, rc, false);
	end_all(&k->landing, rc, true);
	end_all(&k->pulls, rc, false);
	end_posted(&k->source.posted, rc);
}

void
p2p_break(struct p2p *p, int rc, int culprit)
{
	uint64_t before = comm_failed(p->comm), word = before, stands;
	struct link *k = NULL;

	if (p->broken)
		return;
	snprintf(p->why, sizeof(p->why), "%.*s", (int)sizeof(p->why) - 1, oriel_detail());
	if (!before)
		word = comm_fail_word(culprit, p->comm->n_calls);
	/* Also if it is set: before a buffer is given back all members that can be reached know. */
	stands = comm_fail(p->comm, word);
	if (before || stands != word || rc == ORIEL_ETIMEDOUT) {
		rc = comm_fail_error(p->comm, stands);
		snprintf(p->why, sizeof(p->why), "%.*s", (int)sizeof(p->why) - 1, oriel_detail());
	}
	p->broken = rc;
	SLIST_FOREACH(k, &p->all, next)
	{
		end_link(k, rc);
	}
	end_posted(&p->match.any, rc);
}

void
p2p_blame(struct p2p *p, struct peer *peer)
{
	peer_error(peer);
	p2p_break(p, ORIEL_EPEER, peer->rank);
}

void
p2p_settle(struct p2p_req *r)
{
	oriel_ctx *ctx = r->p->comm->ctx;
	uint64_t grace = (uint64_t)ctx->knobs.v.peer_timeout;
	uint64_t deadline = deadline_after(grace ? grace : GRACE_NS);
	struct chan *c = r->exposed ? r->link->chan : NULL;

	if (!c)
		return;
	if (r->was == RECV_CLEARED || r->was == SEND_ASKED) {
		if (!chan_left_alone(c, LINK_PLACING, deadline))
			log_at(LOG_WARN,
			       "rank %d has not said that it leaves the buffer of a failed %s "
			       "alone: it may still %s it",
			       r->link->rank, r->is_send ? "send" : "receive",
			       r->is_send ? "read" : "write");
		return;
	}
	p2p_lock(r->p);
	chan_quiet(c, deadline);
	p2p_unlock(r->p);
}

/* ---- What the user is told ---- */

static void
name_rank(char *text, size_t cap, const char *none, int rank)
{
	if (rank < 0)
		snprintf(text, cap, "%s", none);
	else
		snprintf(text, cap, "%d", rank);
}

void
p2p_name(const oriel_req *req, char *text, size_t cap)
{
	const struct p2p_req *r = (const struct p2p_req *)req;
	char rank[24], tag[24];

	name_rank(rank, sizeof(rank), "(any)", r->link ? r->link->rank : -1);
	name_rank(tag, sizeof(tag), "(any)", r->tag);
	snprintf(text, cap, "%s of %s%zu bytes %s rank %s, tag %s", r->is_send ? "send" : "receive",
	         r->is_send ? "" : "up to ", r->len, r->is_send ? "to" : "from", rank, tag);
}

/* How far it had come. */
static void
describe(const struct p2p_req *r, char *text, size_t cap)
{
	const struct chan *c = r->link ? r->link->chan : NULL;

	switch (r->was) {
	case SEND_WAITS:
		snprintf(text, cap, "not begun (%llu lines sent to it, %llu taken in there)",
		         c ? (unsigned long long)c->sent : 0,
		         c ? (unsigned long long)load_relaxed(&c->in->credit.consumed) : 0);
		break;
	case SEND_ASKED:
		snprintf(text, cap, "expected %s, seen none",
		         r->exposed ? "word that it was read" : "its receive");
		break;
	case RECV_POSTED:
		snprintf(text, cap,
		         "expected its message, seen %llu lines of that rank, %zu bytes of others "
		         "are kept",
		         c ? (unsigned long long)c->seen : 0, r->link ? r->link->kept : 0);
		break;
	default:
		snprintf(text, cap, "%zu of %zu bytes moved", r->moved, r->size);
		break;
	}
}

int
p2p_result(struct p2p_req *r)
{
	const char *why = r->rc == ORIEL_ETIMEDOUT ? "timed out" : r->p->why;
	char name[128], state[160];

	if (r->status && (!r->rc || r->rc == ORIEL_ERANGE))
		*r->status = (struct oriel_status){ r->link->rank, r->tag, r->size };
	if (likely(!r->rc))
		return 0;
	p2p_name(&r->req, name, sizeof(name));
	if (r->rc == ORIEL_ERANGE)
		return fail(r->rc, "%s: the message has %zu bytes", name, r->size);
	describe(r, state, sizeof(state));
	return fail(r->rc, "%s: %s: %s", name, state, why);
}
