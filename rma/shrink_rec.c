/*
 * shrink_rec.c - the records of shrinks, and their messages. All of it runs under
 * ctx->progress, in handlers or in the call.
 */
#include "rma/am.h"
#include "rma/shrink.h"

#include <stdlib.h>
#include <string.h>

#define EARLY_MAX 1024 /* records that messages have made, and no call yet */

struct shrinks {
	struct table *records; /* shrink_id -> struct shrink */
	unsigned n_early;
};

struct shrink_msg { /* AM_SHRINK; the set follows as data */
	uint64_t comm, number, ballot;
	int32_t size, from, to;
	uint32_t n_listed; /* or RANKSET_BITS */
	uint8_t kind, bound;
	uint8_t pad[6];
};

uint64_t
shrink_id(uint64_t comm, uint64_t number)
{
	const uint64_t key[2] = { comm, number };

	return hash_bytes(0, key, sizeof(key));
}

/*
 * ---- Out ----
 */

void
shrink_post(struct shrink *s, struct peer *p, int to, const struct agreement_msg *m)
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

/* to: the receiver, or -1 for all; whoever has been met gets his, if post. */
static void
empty_unsent(struct shrink *s, int to, bool post)
{
	struct unsent **at = &s->unsent, *u;

	while ((u = *at)) {
		struct peer *p = post ? find_member(s, u->to) : NULL;

		if (post ? !p : to >= 0 && u->to != to) {
			at = &u->next;
			continue;
		}
		if (p)
			shrink_post(s, p, u->to, &u->m);
		*at = u->next;
		free(u);
	}
	s->unsent_tail = at;
}

void
shrink_post_unsent(struct shrink *s)
{
	empty_unsent(s, -1, true);
}

void
shrink_drop_unsent(struct shrink *s, int to)
{
	empty_unsent(s, to, false);
}

static void
on_send(void *arg, int to, const struct agreement_msg *m)
{
	struct shrink *s = arg;
	struct peer *p;

	if (s->unsent)
		shrink_post_unsent(s);
	p = find_member(s, to);
	if (p)
		shrink_post(s, p, to, m);
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

void
shrink_look(struct shrink *s, int by)
{
	if (s->a.state == AGREEMENT_OPEN || s->ended)
		return;
	if (s->a.state == AGREEMENT_EXPELLED)
		mark_expelled(s->ctx, by);
	store_release(&s->ended, 1);
	wake_after_store(&s->ctx->ctl->wake);
}

/*
 * ---- Life ----
 */

static void
record_free(struct shrink *s)
{
	empty_unsent(s, -1, false);
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
	if (table_put(ctx->shrinks->records, shrink_id(comm, number), s))
		goto free_agreement;
	ctx->shrinks->n_early++;
	return s;

free_agreement:
	agreement_fini(&s->a);
free_record:
	free(s);
	return NULL;
}

void
shrink_drop(oriel_ctx *ctx, uint64_t id)
{
	struct shrink *s = id ? table_del(ctx->shrinks->records, id) : NULL;

	if (s)
		record_free(s);
}

struct shrink *
shrink_enter(oriel_comm *comm, uint64_t number)
{
	oriel_ctx *ctx = comm->ctx;
	struct shrink *s;

	pthread_mutex_lock(&ctx->progress);
	s = table_get(ctx->shrinks->records, shrink_id(comm->id, number));
	if (!s)
		s = record_make(ctx, comm->id, number, comm->size, comm->rank);
	if (s && !s->a.entered)
		ctx->shrinks->n_early--;
	pthread_mutex_unlock(&ctx->progress);
	return s;
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
	struct shrink *s = table_get(ctx->shrinks->records, shrink_id(h->comm, h->number));
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
	shrink_look(s, m->from->rank);
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
