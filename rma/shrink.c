#include "rma/shrink.h"

#include "rma/agreement.h"
#include "rma/am.h"
#include "rma/comm.h"
#include "rma/helper.h"

#include <stdlib.h>
#include <string.h>

#define EARLY_MAX 1024               /* records that messages have made, and no call yet */
#define LOOK_NS UINT64_C(1000000000) /* between reminders, if there is no peer timeout */

struct shrinks {
	struct table *records; /* hash of (communicator, number) -> struct shrink */
	unsigned n_early;
};

struct unsent { /* to a rank that is not met yet, which a handler must not do */
	struct unsent *next;
	int to;
	struct agreement_msg m;
	uint64_t set[];
};

struct shrink {
	oriel_ctx *ctx;
	uint64_t comm, number;
	struct agreement a;
	uint32_t ended; /* the agreement has, or error is set */
	int error;
	struct peer *from; /* of the message that is being handled, or NULL */
	int from_rank;
	struct unsent *unsent, **unsent_tail;
	/* The caller's own: */
	oriel_comm *on;
	struct peer *failed_seen;
	uint64_t looked_at;
};

struct shrink_msg { /* AM_SHRINK; the set follows as data */
	uint64_t comm, number, ballot;
	int32_t size, from, to;
	uint32_t n_listed; /* or RANKSET_BITS */
	uint8_t kind, bound;
	uint8_t pad[6];
};

static uint64_t
record_id(uint64_t comm, uint64_t number)
{
	const uint64_t key[2] = { comm, number };

	return hash_bytes(0, key, sizeof(key));
}

/*
 * ---- Out, under ctx->progress ----
 */

static void
post(struct shrink *s, struct peer *p, int to, const struct agreement_msg *m)
{
	struct shrink_msg h = { .comm = s->comm,
		                .number = s->number,
		                .ballot = m->ballot,
		                .size = s->a.size,
		                .from = s->a.rank,
		                .to = to,
		                .kind = (uint8_t)m->kind,
		                .bound = m->bound };
	char data[AM_DATA_MAX];
	size_t len = m->set ? sizeof(data) : 0;

	if (m->set && !rankset_encode(m->set, s->a.size, data, &len, &h.n_listed)) {
		s->error = ORIEL_ELIMIT;
		store_release(&s->ended, 1);
		return;
	}
	ctx_delay(s->ctx);
	am_reply(p, AM_SHRINK, &h, sizeof(h), data, len);
}

static struct peer *
find_member(const struct shrink *s, int r)
{
	const oriel_comm *c;

	if (s->from && r == s->from_rank)
		return s->from;
	c = table_get(s->ctx->comms, s->comm);
	return c ? peer_find(s->ctx, comm_world_rank(c, r)) : NULL;
}

static void
keep_unsent(struct shrink *s, int to, const struct agreement_msg *m)
{
	size_t len = m->set ? rankset_words(s->a.size) * sizeof(*m->set) : 0;
	struct unsent *u = malloc(sizeof(*u) + len);

	if (!u) {
		s->error = ORIEL_ENOMEM;
		store_release(&s->ended, 1);
		return;
	}
	u->next = NULL;
	u->to = to;
	u->m = *m;
	u->m.set = m->set ? u->set : NULL;
	if (len)
		memcpy(u->set, m->set, len);
	if (!s->unsent)
		s->unsent_tail = &s->unsent;
	*s->unsent_tail = u;
	s->unsent_tail = &u->next;
}

/* Those whose receiver has been met meanwhile; all, and unsent, with drop. */
static void
post_unsent(struct shrink *s, bool drop)
{
	struct unsent **at = &s->unsent, *u;

	while ((u = *at)) {
		struct peer *p = find_member(s, u->to);

		if (!p && !drop) {
			at = &u->next;
			continue;
		}
		if (p && !drop)
			post(s, p, u->to, &u->m);
		*at = u->next;
		free(u);
	}
	s->unsent_tail = at;
}

static void
on_send(void *arg, int to, const struct agreement_msg *m)
{
	struct shrink *s = arg;
	struct peer *p;

	if (s->unsent)
		post_unsent(s, false);
	p = find_member(s, to);
	if (p)
		post(s, p, to, m);
	/* Whoever waits for another kind of message has joined, and was met by that. */
	else if (m->kind == AGREEMENT_JOIN || m->kind == AGREEMENT_HELD || m->kind == AGREEMENT_ASK)
		keep_unsent(s, to, m);
}

/* Nothing that this rank does counts any more. */
static void
mark_expelled(oriel_ctx *ctx, int by)
{
	uint32_t nobody = 0;

	cas_acq_rel(&ctx->ctl->expelled_by, &nobody, (uint32_t)by + 1);
	store_relaxed(&ctx->expelled, true);
	store_relaxed(ctx->alive, 0);
	wake_after_store(&ctx->ctl->wake);
}

/* After every event. by: the world rank that it came from. */
static void
look_at_state(struct shrink *s, int by)
{
	if (s->a.state == AGREEMENT_OPEN || s->ended)
		return;
	if (s->a.state == AGREEMENT_EXPELLED)
		mark_expelled(s->ctx, by);
	store_release(&s->ended, 1);
	wake_after_store(&s->ctx->ctl->wake);
}

/*
 * ---- Records, under ctx->progress ----
 */

static void
record_free(struct shrink *s)
{
	post_unsent(s, true);
	agreement_fini(&s->a);
	free(s);
}

static struct shrink *
record_make(oriel_ctx *ctx, uint64_t comm, uint64_t number, int size, int rank)
{
	struct shrink *s = calloc(1, sizeof(*s));

	if (!s) {
		fail(ORIEL_ENOMEM, "no memory for a shrink");
		return NULL;
	}
	s->ctx = ctx;
	s->comm = comm;
	s->number = number;
	s->a = (struct agreement){ .size = size, .rank = rank, .send = on_send, .arg = s };
	if (agreement_init(&s->a))
		goto free_record;
	if (table_put(ctx->shrinks->records, record_id(comm, number), s))
		goto free_agreement;
	ctx->shrinks->n_early++;
	return s;

free_agreement:
	agreement_fini(&s->a);
free_record:
	free(s);
	return NULL;
}

static void
record_drop(oriel_ctx *ctx, uint64_t id)
{
	struct shrink *s = id ? table_del(ctx->shrinks->records, id) : NULL;

	if (s)
		record_free(s);
}

int
shrink_open(oriel_ctx *ctx)
{
	ctx->shrinks = calloc(1, sizeof(*ctx->shrinks));
	if (ctx->shrinks)
		ctx->shrinks->records = table_create();
	if (ctx->shrinks && ctx->shrinks->records)
		return 0;
	free(ctx->shrinks);
	ctx->shrinks = NULL;
	return fail(ORIEL_ENOMEM, "no memory for the table of shrinks");
}

static void
free_one(void *arg, uint64_t id, void *value)
{
	(void)arg;
	(void)id;
	record_free(value);
}

void
shrink_close(oriel_ctx *ctx)
{
	if (!ctx->shrinks)
		return;
	table_each(ctx->shrinks->records, free_one, NULL);
	table_free(ctx->shrinks->records);
	free(ctx->shrinks);
	ctx->shrinks = NULL;
}

/*
 * ---- In ----
 */

static void
bad_sender(const struct am_msg *m)
{
	peer_fail(m->from, false, "it sent a message of a shrink that makes no sense");
}

static bool
header_sane(oriel_ctx *ctx, const struct am_msg *m, struct shrink_msg *h)
{
	const oriel_comm *c;

	if (m->hdr_len != sizeof(*h))
		return false;
	memcpy(h, m->hdr, sizeof(*h));
	if (h->kind >= AGREEMENT_N || h->size < 2 || h->size > ctx->boot.size || h->from < 0 ||
	    h->from >= h->size || h->to < 0 || h->to >= h->size || h->from == h->to)
		return false;
	c = table_get(ctx->comms, h->comm);
	return !c || (c->size == h->size && c->rank == h->to &&
	              comm_world_rank(c, h->from) == m->from->rank);
}

/* The shrink has long ended without the sender. */
static void
answer_late(struct peer *p, const struct shrink_msg *q)
{
	struct shrink_msg h = *q;
	uint32_t out = (uint32_t)q->from;

	if (q->kind == AGREEMENT_NEWS || q->kind == AGREEMENT_COMMIT)
		return;
	h.kind = AGREEMENT_NEWS;
	h.from = q->to;
	h.to = q->from;
	h.n_listed = 1;
	am_reply(p, AM_SHRINK, &h, sizeof(h), &out, sizeof(out));
}

/* The record that the message is for; NULL if it is answered, or its sender given up. */
static struct shrink *
record_for(oriel_ctx *ctx, const struct am_msg *m, const struct shrink_msg *h)
{
	struct shrink *s = table_get(ctx->shrinks->records, record_id(h->comm, h->number));
	const oriel_comm *c;

	if (s && (s->a.size != h->size || s->a.rank != h->to)) {
		bad_sender(m);
		return NULL;
	}
	if (s)
		return s;
	c = table_get(ctx->comms, h->comm);
	if (c && h->number <= c->n_shrinks) {
		answer_late(m->from, h);
		return NULL;
	}
	if (ctx->shrinks->n_early < EARLY_MAX)
		s = record_make(ctx, h->comm, h->number, h->size, h->to);
	if (!s)
		peer_fail(m->from, false, "there is no room for its message: %u shrinks wait",
		          ctx->shrinks->n_early);
	return s;
}

static void
take(struct shrink *s, const struct am_msg *m, const struct shrink_msg *h, const uint64_t *set)
{
	const struct agreement_msg am = { .kind = (enum agreement_kind)h->kind,
		                          .bound = h->bound,
		                          .ballot = h->ballot,
		                          .set = set };

	s->from = m->from;
	s->from_rank = h->from;
	agreement_take(&s->a, h->from, &am);
	s->from = NULL;
	look_at_state(s, m->from->rank);
}

void
shrink_on_message(oriel_ctx *ctx, const struct am_msg *m)
{
	struct shrink_msg h;
	struct shrink *s;
	uint64_t *set;

	if (!header_sane(ctx, m, &h)) {
		bad_sender(m);
		return;
	}
	set = calloc(rankset_words(h.size), sizeof(*set));
	if (!set)
		peer_fail(m->from, false, "there is no memory for its message");
	else if (!rankset_decode(set, h.size, m->data, m->len, h.n_listed))
		bad_sender(m);
	else if ((s = record_for(ctx, m, &h)))
		take(s, m, &h, set);
	free(set);
}

/*
 * ---- The call ----
 */

static void
given_up(struct shrink *s, int r)
{
	pthread_mutex_lock(&s->ctx->progress);
	agreement_fail(&s->a, r);
	look_at_state(s, s->ctx->boot.rank);
	pthread_mutex_unlock(&s->ctx->progress);
}

static int
expel_self(struct shrink *s, int by)
{
	pthread_mutex_lock(&s->ctx->progress);
	agreement_expel(&s->a);
	look_at_state(s, by);
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
		post_unsent(s, false);
		to = s->unsent ? s->unsent->to : -1;
		pthread_mutex_unlock(&ctx->progress);
		if (to < 0)
			return;
		if (meet(s, to))
			continue;
		pthread_mutex_lock(&ctx->progress);
		for (struct unsent **at = &s->unsent, *u; (u = *at);) {
			if (u->to != to) {
				at = &u->next;
				continue;
			}
			*at = u->next;
			free(u);
		}
		for (s->unsent_tail = &s->unsent; *s->unsent_tail;)
			s->unsent_tail = &(*s->unsent_tail)->next;
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

static struct shrink *
record_enter(oriel_comm *comm)
{
	oriel_ctx *ctx = comm->ctx;
	uint64_t number = comm->n_shrinks + 1;
	struct shrink *s;

	pthread_mutex_lock(&ctx->progress);
	s = table_get(ctx->shrinks->records, record_id(comm->id, number));
	if (!s)
		s = record_make(ctx, comm->id, number, comm->size, comm->rank);
	if (s && !s->a.entered)
		ctx->shrinks->n_early--;
	pthread_mutex_unlock(&ctx->progress);
	if (s)
		s->on = comm;
	return s;
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
	look_at_state(s, ctx->boot.rank);
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
		post(s, p, r, &last);
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
	struct shrink *s = record_enter(comm);
	uint64_t id;
	int rc;

	if (!s)
		return ORIEL_ENOMEM;
	rc = agree(s);
	if (rc) {
		s->on = NULL;
		return rc;
	}
	bury(s);
	id = record_id(comm->id, s->number);
	rc = comm_make_rest(comm, s->number, s->a.outcome, out);
	if (!rc)
		(*out)->shrunk_by = id;
	pthread_mutex_lock(&ctx->progress);
	s->on = NULL;
	comm->n_shrinks = s->number;
	/* All that are in this one have returned from those before. */
	record_drop(ctx, comm->last_shrink);
	record_drop(ctx, comm->shrunk_by);
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
