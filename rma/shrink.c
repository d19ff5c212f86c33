#include "rma/shrink.h"

#include "rma/helper.h"

#define LOOK_NS UINT64_C(1000000000) /* between reminders, if there is no peer timeout */

static void
given_up(struct shrink *s, int r)
{
	pthread_mutex_lock(&s->ctx->progress);
	agreement_fail(&s->a, r);
	shrink_look(s, s->ctx->boot.rank);
	pthread_mutex_unlock(&s->ctx->progress);
}

static int
expel_self(struct shrink *s, int by)
{
	pthread_mutex_lock(&s->ctx->progress);
	agreement_expel(&s->a);
	shrink_look(s, by);
	pthread_mutex_unlock(&s->ctx->progress);
	return ctx_enter(s->ctx);
}

/* Members that have been found failed since the last look. */
static int
note_failures(struct shrink *s)
{
	struct peer *newest = load_acquire(&s->ctx->failed_peers);

	for (struct peer *p = newest; p && p != s->failed_seen; p = p->next_failed) {
		int r = comm_rank_of(s->on, p->rank);

		if (r < 0)
			continue;
		/* To one that was stopped for long, its links break as if the others had died. */
		if (!p->ctl && !load_acquire(&p->dead) && helper_slept(s->ctx, p->failed_at))
			return expel_self(s, p->rank);
		given_up(s, r);
	}
	s->failed_seen = newest;
	return 0;
}

/* The peer, met now if it was not. One that cannot be met cannot be in. */
static struct peer *
meet(struct shrink *s, int r)
{
	struct peer *p;

	if (!peer_get(s->ctx, comm_world_rank(s->on, r), &p))
		return p;
	log_at(LOG_WARN, "rank %d: a shrink goes on without rank %d: %s", s->ctx->boot.rank, r,
	       oriel_detail());
	given_up(s, r);
	return NULL;
}

static void
meet_unsent(struct shrink *s)
{
	oriel_ctx *ctx = s->ctx;
	int to;

	for (;;) {
		pthread_mutex_lock(&ctx->progress);
		shrink_post_unsent(s);
		to = s->unsent ? s->unsent->to : -1;
		pthread_mutex_unlock(&ctx->progress);
		if (to < 0)
			return;
		if (meet(s, to))
			continue;
		pthread_mutex_lock(&ctx->progress);
		shrink_drop_unsent(s, to);
		pthread_mutex_unlock(&ctx->progress);
	}
}

/* Does this rank depend on r now? */
static bool
awaits(struct shrink *s, int r)
{
	bool yes;
	int c;

	pthread_mutex_lock(&s->ctx->progress);
	c = agreement_coordinator(&s->a);
	yes = s->a.state == AGREEMENT_OPEN && (c == s->a.rank ? agreement_owes(&s->a, r) : r == c);
	pthread_mutex_unlock(&s->ctx->progress);
	return yes;
}

/*
 * Has those watched that this rank waits for. Who has joined was met by that; in the first
 * round the others are given the time to.
 */
static void
watch(struct shrink *s)
{
	uint64_t now = now_ns(), period = (uint64_t)s->ctx->knobs.v.peer_timeout / 8;
	bool first = !s->looked_at;

	if (!first && now - s->looked_at < (period ? period : LOOK_NS))
		return;
	s->looked_at = now;
	if (!first) {
		pthread_mutex_lock(&s->ctx->progress);
		agreement_remind(&s->a);
		pthread_mutex_unlock(&s->ctx->progress);
	}
	for (int r = 0; r < s->a.size; r++) {
		struct peer *p;

		if (!awaits(s, r))
			continue;
		p = peer_find(s->ctx, comm_world_rank(s->on, r));
		if (!p && !first)
			p = meet(s, r);
		if (p)
			peer_watch(p);
	}
}

static bool
has_ended(void *arg)
{
	struct shrink *s = arg;

	return load_acquire(&s->ended);
}

/* Not only what may doom it: what this thread alone may do. */
static int
look(void *arg)
{
	struct shrink *s = arg;
	int rc = note_failures(s);

	if (rc)
		return rc;
	watch(s);
	meet_unsent(s);
	return 0;
}

static int
timed_out(struct shrink *s)
{
	int r = 0;

	while (r < s->a.size && !awaits(s, r))
		r++;
	if (r == s->a.size)
		return fail(ORIEL_ETIMEDOUT, "shrink timed out; call it again to go on");
	return fail(ORIEL_ETIMEDOUT,
	            "shrink waits for rank %d (world rank %d), which lives and has not answered in "
	            "time; call it again to go on",
	            r, comm_world_rank(s->on, r));
}

/* Returns when this rank knows the outcome. */
static int
agree(struct shrink *s)
{
	oriel_ctx *ctx = s->ctx;
	int rc = note_failures(s);

	if (rc)
		return rc;
	pthread_mutex_lock(&ctx->progress);
	agreement_enter(&s->a);
	shrink_look(s, ctx->boot.rank);
	pthread_mutex_unlock(&ctx->progress);
	rc = ctx_wait(ctx, has_ended, look, s, ctx_call_deadline(ctx));
	if (rc == ORIEL_ETIMEDOUT)
		return timed_out(s);
	if (rc == ORIEL_EEXPELLED)
		return expel_self(s, (int)load_relaxed(&ctx->ctl->expelled_by) - 1);
	if (rc)
		return rc;
	if (s->error)
		return fail(s->error, "shrink: %s",
		            s->error == ORIEL_ELIMIT ? "more ranks have failed than a message holds"
		                                     : "no memory for a message");
	return ctx_enter(ctx);
}

/* Later calls find them failed at once. One that lives after all is told so before. */
static void
bury(struct shrink *s)
{
	const struct agreement_msg last = { .kind = AGREEMENT_COMMIT, .set = s->a.outcome };

	for (int r = 0; r < s->a.size; r++) {
		struct peer *p;
		uint32_t nobody = 0;

		if (!rankset_has(s->a.outcome, r))
			continue;
		p = peer_find(s->ctx, comm_world_rank(s->on, r));
		if (!p || peer_failed(p))
			continue;
		pthread_mutex_lock(&s->ctx->progress);
		shrink_post(s, p, r, &last);
		pthread_mutex_unlock(&s->ctx->progress);
		ctx_progress(s->ctx);
		if (p->ctl)
			cas_acq_rel(&p->ctl->expelled_by, &nobody, (uint32_t)s->ctx->boot.rank + 1);
		peer_fail(p, false, "the others have agreed to go on without it");
	}
}

static int
shrink(oriel_comm *comm, oriel_comm **out)
{
	oriel_ctx *ctx = comm->ctx;
	struct shrink *s = shrink_enter(comm, comm->n_shrinks + 1);
	uint64_t id;
	int rc;

	if (!s)
		return ORIEL_ENOMEM;
	s->on = comm;
	rc = agree(s);
	if (rc) {
		s->on = NULL;
		return rc;
	}
	bury(s);
	id = shrink_id(comm->id, s->number);
	rc = comm_make_rest(comm, s->number, s->a.outcome, out);
	if (!rc)
		(*out)->shrunk_by = id;
	pthread_mutex_lock(&ctx->progress);
	s->on = NULL;
	comm->n_shrinks = s->number;
	/* All that are in this one have returned from those before. */
	shrink_drop(ctx, comm->last_shrink);
	shrink_drop(ctx, comm->shrunk_by);
	comm->last_shrink = id;
	comm->shrunk_by = 0;
	pthread_mutex_unlock(&ctx->progress);
	return rc;
}

int
oriel_comm_shrink(oriel_comm *comm, oriel_comm **out)
{
	uint32_t idle = 0;
	oriel_comm *made;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!out)
		return fail(ORIEL_EINVAL, "out is NULL");
	/* Not comm_call_begin: a failed communicator is what this is for. */
	if (!cas_acq_rel(&comm->in_call, &idle, 1))
		return fail(ORIEL_EBUSY,
		            "another thread is in a collective call on the communicator");
	rc = shrink(comm, &made);
	comm_call_end(comm);
	if (!rc)
		*out = made;
	return rc;
}
