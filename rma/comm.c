#include "rma/comm.h"

#include "plan/job.h"
#include "rma/am.h"
#include "rma/awaited.h"
#include "rma/mbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_MAX                                                                                  \
	64 /* members of other nodes that a wait on anybody watches; more: only those met already  \
	    */
#define REC_DELETED 1

/*
 * ---- Who is in it ----
 */

int
comm_enter(const oriel_comm *c)
{
	if (!c)
		return fail(ORIEL_EHANDLE, "communicator is NULL");
	if (c->magic != COMM_MAGIC)
		return fail(ORIEL_EHANDLE, "%p is not a live communicator", (const void *)c);
	return ctx_enter(c->ctx);
}

static int
grid_world_rank(const oriel_comm *c, int r)
{
	const struct comm_grid *g = &c->grid;
	int base = g->origin;

	for (int d = g->n_dims - 1; d >= 0; d--) {
		base += r % g->extent[d] * g->stride[d];
		r /= g->extent[d];
	}
	return comm_world_rank(g->base, base);
}

int
comm_world_rank(const oriel_comm *c, int r)
{
	switch (c->kind) {
	case COMM_STRIDED:
		return c->start + r * c->stride;
	case COMM_LIST:
		return c->list->rank[r];
	default:
		return grid_world_rank(c, r);
	}
}

static int
grid_rank_of(const oriel_comm *c, int world_rank)
{
	const struct comm_grid *g = &c->grid;
	int base = comm_rank_of(g->base, world_rank), rank = 0, rest;

	if (base < 0)
		return -1;
	rest = base - g->origin;
	/* Strides fall from the first dimension to the last. */
	for (int d = 0; d < g->n_dims; d++) {
		int at = rest / g->stride[d];

		if (rest < 0 || at >= g->extent[d])
			return -1;
		rest -= at * g->stride[d];
		rank = rank * g->extent[d] + at;
	}
	return rest ? -1 : rank;
}

int
comm_rank_of(const oriel_comm *c, int world_rank)
{
	int d;

	switch (c->kind) {
	case COMM_STRIDED:
		d = world_rank - c->start;
		if (c->stride == 0 || c->size == 1)
			return d ? -1 : 0;
		if (d % c->stride || d / c->stride < 0 || d / c->stride >= c->size)
			return -1;
		return d / c->stride;
	case COMM_LIST:
		for (int r = 0; r < c->size; r++)
			if (c->list->rank[r] == world_rank)
				return r;
		return -1;
	default:
		return grid_rank_of(c, world_rank);
	}
}

int
comm_peer(const oriel_comm *c, int r, struct peer **peer)
{
	if (r < 0 || r >= c->size)
		return fail(ORIEL_ERANK, "rank %d: the communicator has ranks 0 to %d", r,
		            c->size - 1);
	return peer_get(c->ctx, comm_world_rank(c, r), peer);
}

int
oriel_comm_rank(const oriel_comm *comm)
{
	int rc = comm_enter(comm);

	return rc ? rc : comm->rank;
}

int
oriel_comm_size(const oriel_comm *comm)
{
	int rc = comm_enter(comm);

	return rc ? rc : comm->size;
}

int
oriel_comm_node(const oriel_comm *comm, int *node_rank, int *node_size)
{
	const struct boot *b;
	int rc = comm_enter(comm), mine = 0, n = 0;

	if (rc)
		return rc;
	b = &comm->ctx->boot;
	for (int i = 0; i < b->n_local; i++) {
		int r = comm_rank_of(comm, b->local[i]);

		n += r >= 0;
		mine += r >= 0 && r < comm->rank;
	}
	if (node_rank)
		*node_rank = mine;
	if (node_size)
		*node_size = n;
	return 0;
}

/*
 * ---- Life ----
 */

/* Is another member reached through shared memory? */
static bool
shares_memory(const oriel_comm *c)
{
	oriel_ctx *ctx = c->ctx;

	for (int i = 0; i < ctx->boot.n_local; i++)
		if (i != ctx->my_local && ctx->local[i]->ctl &&
		    comm_rank_of(c, ctx->local[i]->rank) >= 0)
			return true;
	return false;
}

/* Mailboxes for the node's ranks: address space for all, pages for those that talk. */
static int
publish(oriel_comm *c)
{
	oriel_ctx *ctx = c->ctx;
	size_t len = (size_t)ctx->boot.n_local * MBOX_CHANNELS * sizeof(struct mbox), off;
	struct comm_rec *r = NULL;
	unsigned slab;
	void *p;
	int rc;

	if (!shares_memory(c))
		return 0;
	rc = pool_alloc_zeroed(ctx->pool, len, 4096, &p);
	if (rc)
		return fail_in(rc, "mailboxes of a communicator");
	pool_find(ctx->pool, p, len, &slab, &off);
	pthread_mutex_lock(&ctx->lock);
	for (size_t n = 0, at = c->id % CTL_COMMS; n < CTL_COMMS && !r;
	     n++, at = (at + 1) % CTL_COMMS)
		if (load_relaxed(&ctx->ctl->comms[at].id) <= REC_DELETED)
			r = &ctx->ctl->comms[at];
	if (r) {
		r->check = c->check;
		r->boxes_off = off;
		r->boxes_slab = slab + 1;
		store_relaxed(&r->fail, 0);
		store_release(&r->id, c->id);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (!r) {
		pool_free(ctx->pool, p);
		return fail(ORIEL_ELIMIT,
		            "this rank is in %d communicators already, the most at once",
		            CTL_COMMS);
	}
	c->rec = r;
	c->boxes = p;
	c->fail = &r->fail;
	wake_after_store(&ctx->ctl->wake);
	return 0;
}

static void
unpublish(oriel_comm *c)
{
	if (!c->rec)
		return;
	c->fail_private = load_relaxed(&c->rec->fail);
	c->fail = &c->fail_private;
	store_release(&c->rec->id, REC_DELETED);
	/* Members of a failed communicator have not agreed to its end: one may write yet. */
	if (c->fail_private)
		pool_retire(c->ctx->pool, c->boxes);
	else
		pool_free(c->ctx->pool, c->boxes);
	c->rec = NULL;
	c->boxes = NULL;
}

/* Also used by the world. id and check are set from the description; c->rank and size too. */
int
comm_make(oriel_comm *c)
{
	uint64_t early;
	int rc;

	c->magic = COMM_MAGIC;
	c->refs = 1;
	c->fail = &c->fail_private;
	rc = publish(c);
	if (rc)
		return rc;
	rc = table_put(c->ctx->comms, c->id, c);
	if (rc) {
		unpublish(c);
		return rc;
	}
	/* A member that failed before we were here has left its word. */
	early = (uint64_t)(uintptr_t)table_get(c->ctx->fails, c->id);
	if (early)
		comm_fail(c, early);
	return 0;
}

static void
list_put(struct rank_list *l)
{
	if (l && add_acq_rel(&l->refs, (uint32_t)-1) == 1)
		free(l);
}

/* Drops a reference; with the last one the communicator is gone. */
void
comm_put(oriel_comm *c)
{
	oriel_ctx *ctx = c->ctx;

	if (add_acq_rel(&c->refs, (uint32_t)-1) != 1)
		return;
	pthread_mutex_lock(&ctx->progress);
	table_del(ctx->comms, c->id);
	pthread_mutex_unlock(&ctx->progress);
	p2p_free(c);
	plan_state_free(c);
	unpublish(c);
	list_put(c->list);
	if (c->kind == COMM_GRID)
		comm_put(c->grid.base);
	store_release(&c->magic, 0);
	ctx_bury(ctx, c);
}

/* Those that the user has freed live on only for others, and go with them. */
static bool
not_freed(const void *value)
{
	const oriel_comm *c = value;

	return c != c->ctx->world && !c->closing;
}

void
comm_free_left(oriel_ctx *ctx)
{
	oriel_comm *c;

	while ((c = table_find(ctx->comms, not_freed))) {
		c->closing = true;
		comm_put(c);
	}
}

/* When this returns no task is in the middle of writing to a member, and none will. */
static void
set_closing(oriel_comm *c, bool closing)
{
	pthread_mutex_lock(&c->ctx->task_lock);
	c->closing = closing;
	pthread_mutex_unlock(&c->ctx->task_lock);
}

int
oriel_comm_free(oriel_comm *comm)
{
	unsigned n_reqs;
	int rc, n;

	if (!comm)
		return 0;
	rc = comm_enter(comm);
	if (rc && rc != ORIEL_EEXPELLED)
		return rc;
	if (comm == comm->ctx->world)
		return fail(ORIEL_EINVAL, "the world communicator cannot be freed");
	n = load_relaxed(&comm->n_windows);
	n_reqs = load_relaxed(&comm->n_reqs);
	if (n)
		rc = fail(ORIEL_EBUSY, "%d windows of the communicator are not freed", n);
	else if (n_reqs)
		rc = fail(ORIEL_EBUSY, "%u requests of the communicator are pending", n_reqs);
	else if (!rc)
		rc = jobs_check_ended(comm);
	/* What runs yet needs its credits, or the others would not come to their end of it. */
	set_closing(comm, !rc);
	rc = comm_agree(comm, rc, "oriel_comm_free");
	/* A rank that still has windows or requests keeps it on all; a failure of a peer does
	 * not. */
	if (n || n_reqs || rc == ORIEL_EBUSY) {
		set_closing(comm, false);
		return rc;
	}
	comm_put(comm);
	return rc;
}

int
comm_call_refused(oriel_comm *c)
{
	uint64_t word = comm_failed(c);

	return word ? comm_fail_error(c, word)
	            : fail(ORIEL_EBUSY,
	                   "another thread is in a collective call on the communicator");
}

/*
 * ---- Failure words ----
 */

struct fail_hdr {
	uint64_t comm;
	uint64_t word;
};

/* The word of a same-node member's communicator, if it has been made there. */
static void
fail_at(const oriel_comm *c, struct peer *p, uint64_t word)
{
	size_t at = c->id % CTL_COMMS;
	uint64_t none = 0;

	for (size_t n = 0; n < CTL_COMMS; n++, at = (at + 1) % CTL_COMMS) {
		struct comm_rec *r = &p->ctl->comms[at];
		uint64_t id = load_acquire(&r->id);

		if (!id)
			return;
		if (id != c->id)
			continue;
		cas_acq_rel(&r->fail, &none, word);
		wake_after_store(&p->ctl->wake);
		return;
	}
}

struct spread {
	oriel_comm *comm;
	uint64_t word;
};

static void
spread_to(void *entry, void *arg)
{
	struct spread *s = arg;
	struct peer *p = entry;
	struct fail_hdr h = { s->comm->id, s->word };

	if (p->rank == s->comm->ctx->boot.rank || peer_failed(p) ||
	    comm_rank_of(s->comm, p->rank) < 0)
		return;
	if (p->ctl)
		fail_at(s->comm, p, s->word);
	/* By message as well: the member may not have made the communicator yet, and whoever
	 * gets one passes it on to those that only it has met. */
	am_reply(p, AM_FAIL, &h, sizeof(h), NULL, 0);
}

static uint64_t
fail_here(oriel_comm *c, uint64_t word, bool *first)
{
	uint64_t seen = 0;

	*first = cas_acq_rel(c->fail, &seen, word);
	return *first ? word : seen;
}

/* Under ctx->progress: messages are queued where they cannot be sent. */
static void
fail_spread(oriel_comm *c, uint64_t word)
{
	struct spread s = { c, word };

	dir_each(&c->ctx->peers, spread_to, &s);
	wake_after_store(&c->ctx->ctl->wake);
}

uint64_t
comm_fail_locked(oriel_comm *c, uint64_t word)
{
	bool first;

	word = fail_here(c, word, &first);
	/* A word that a same-node member stored here was not passed on by anyone yet. */
	if (!__atomic_exchange_n(&c->fail_spread, true, __ATOMIC_ACQ_REL))
		fail_spread(c, word);
	return word;
}

uint64_t
comm_fail(oriel_comm *c, uint64_t word)
{
	bool first;

	word = fail_here(c, word, &first);
	/* Taken in any case: another thread may be passing the word on, and a caller that
	 * returned before the members have it would give its buffers to their puts. */
	pthread_mutex_lock(&c->ctx->progress);
	comm_fail_locked(c, word);
	/* Only now: what was let go may write to members, who must know by then. */
	awaited_failed(c->ctx);
	pthread_mutex_unlock(&c->ctx->progress);
	return word;
}

void
comm_on_fail(oriel_ctx *ctx, const struct am_msg *m)
{
	struct fail_hdr h;
	oriel_comm *c;
	bool first;

	if (m->hdr_len != sizeof(h))
		return;
	memcpy(&h, m->hdr, sizeof(h));
	c = table_get(ctx->comms, h.comm);
	if (!c) {
		table_put(ctx->fails, h.comm, (void *)(uintptr_t)h.word);
		return;
	}
	if (!h.word || comm_rank_of(c, m->from->rank) < 0)
		return;
	h.word = fail_here(c, h.word, &first);
	if (!__atomic_exchange_n(&c->fail_spread, true, __ATOMIC_ACQ_REL))
		fail_spread(c, h.word);
	awaited_failed(ctx);
}

int
comm_fail_error(const oriel_comm *c, uint64_t word)
{
	int world = (int)(uint32_t)word - 1;
	unsigned call = (unsigned)(word >> 32 & 0x3fffffff);
	struct peer *p = peer_find(c->ctx, world);
	int rank = comm_rank_of(c, world);

	if (word & COMM_FAIL_ABORT)
		return fail(ORIEL_EABORTED, "rank %d aborted the communicator", rank);
	if (world == c->ctx->boot.rank && ctx_enter(c->ctx))
		return ORIEL_EEXPELLED;
	return fail(ORIEL_EPEER, "rank %d (world rank %d) has failed%s%s, found in call %u", rank,
	            world, p && peer_failed(p) ? ": " : "", p && peer_failed(p) ? p->why : "",
	            call);
}

int
oriel_comm_abort(oriel_comm *comm)
{
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	comm_fail(comm, comm_fail_word(comm->ctx->boot.rank, comm->n_calls) | COMM_FAIL_ABORT);
	return 0;
}

int
oriel_comm_status(oriel_comm *comm)
{
	int rc = comm_enter(comm);
	uint64_t word = rc ? 0 : comm_failed(comm);

	return word ? comm_fail_error(comm, word) : rc;
}

static void
watch(oriel_comm *c)
{
	uint64_t now = now_ns();

	/* Often enough that a watch does not lapse, seldom enough to cost nothing. */
	if (now - load_relaxed(&c->watched_at) < (uint64_t)c->ctx->knobs.v.peer_timeout / 8)
		return;
	store_relaxed(&c->watched_at, now);
	for (int r = 0; r < c->size; r++) {
		int world = comm_world_rank(c, r);
		struct peer *p = peer_find(c->ctx, world);

		if (!p && c->size <= WATCH_MAX)
			peer_get(c->ctx, world, &p);
		if (p && world != c->ctx->boot.rank)
			peer_watch(p);
	}
}

struct peer *
comm_known_failed(const oriel_comm *c)
{
	for (struct peer *p = load_acquire(&c->ctx->failed_peers); p; p = p->next_failed)
		if (peer_failed(p) && comm_rank_of(c, p->rank) >= 0)
			return p;
	return NULL;
}

struct peer *
comm_failed_member(oriel_comm *c)
{
	if (c->ctx->ucx && c->size > 1)
		watch(c);
	return comm_known_failed(c);
}
