/*
 * What a rank does with messages of shrinks that it has not called, and with
 * such as no rank of this release sends. The others are made up: their records
 * name another node, and answers to them go nowhere.
 */
#include "rma/am.h"
#include "rma/rankset.h"
#include "test/rma/alone.h"

#include <string.h>

#define SIZE 4
#define ME 1
#define EARLY_MAX 1024

enum { JOIN = 0, HELD, ASK, PROPOSE, ACK, COMMIT, NEWS }; /* as on the wire */

struct msg { /* AM_SHRINK's header */
	uint64_t comm, number, ballot;
	int32_t size, from, to;
	uint32_t n_listed;
	uint8_t kind, bound;
	uint8_t pad[6];
};

struct scene {
	struct oriel_bootstrap table;
	int local;
	oriel_ctx *ctx;
	struct peer *peer[SIZE];
};

static void
open_scene(struct scene *s)
{
	s->ctx = alone_open(&s->table, &s->local, ME, SIZE);
	for (int r = 0; r < SIZE; r++) {
		struct boot_rec rec = { .pid = 1 };

		if (r != ME)
			cr_assert_eq(peer_meet(s->ctx, r, &rec, &s->peer[r]), 0);
	}
}

static struct msg
message(const struct scene *s, int from, int kind)
{
	return (struct msg){ .comm = s->ctx->world->id,
		             .number = 1,
		             .size = SIZE,
		             .from = from,
		             .to = ME,
		             .kind = (uint8_t)kind };
}

static void
deliver(struct scene *s, int from, const struct msg *m, const uint32_t *ranks)
{
	pthread_mutex_lock(&s->ctx->progress);
	am_deliver(s->ctx, s->peer[from], AM_SHRINK, m, sizeof(*m), ranks, m->n_listed * 4);
	pthread_mutex_unlock(&s->ctx->progress);
}

/* Fails the sender, and nobody else. */
static void
is_refused(int from, void (*spoil)(struct msg *m))
{
	const uint32_t ranks[] = { 0, SIZE };
	struct scene s;
	struct msg m;

	open_scene(&s);
	m = message(&s, from, JOIN);
	spoil(&m);
	deliver(&s, from, &m, ranks);
	for (int r = 0; r < SIZE; r++)
		if (r != ME)
			cr_assert_eq(peer_failed(s.peer[r]), r == from, "rank %d", r);
	alone_close(s.ctx);
}

static void
unknown_kind(struct msg *m)
{
	m->kind = NEWS + 1;
}
static void
other_size(struct msg *m)
{
	m->size = SIZE - 1;
}
static void
too_large(struct msg *m)
{
	m->comm = 12344;
	m->size = SIZE + 1;
}
static void
other_sender(struct msg *m)
{
	m->from = 3;
}
static void
negative_sender(struct msg *m)
{
	m->comm = 12344;
	m->from = -1;
}
static void
other_receiver(struct msg *m)
{
	m->to = 3;
}
static void
from_itself(struct msg *m)
{
	m->comm = 12344;
	m->from = m->to;
}
static void
bad_set(struct msg *m)
{
	m->n_listed = 2;
}

Test(shrink, refuses_what_makes_no_sense)
{
	void (*const spoils[])(struct msg *) = { unknown_kind, other_size,      too_large,
		                                 other_sender, negative_sender, other_receiver,
		                                 from_itself,  bad_set };

	for (size_t i = 0; i < ARRAY_SIZE(spoils); i++)
		is_refused(2, spoils[i]);
}

/* The group of a later message is another one than that of the first. */
Test(shrink, refuses_two_sizes_of_an_unknown_communicator)
{
	struct scene s;
	struct msg m;

	open_scene(&s);
	m = message(&s, 0, JOIN);
	m.comm = 12344;
	deliver(&s, 0, &m, NULL);
	cr_assert_not(peer_failed(s.peer[0]));
	m.size = SIZE - 1;
	m.from = 2;
	deliver(&s, 2, &m, NULL);
	cr_assert(peer_failed(s.peer[2]));
	alone_close(s.ctx);
}

/* Kept until the call, but not without end. */
Test(shrink, early_messages_are_bounded)
{
	struct scene s;
	struct msg m;

	open_scene(&s);
	m = message(&s, 3, JOIN);
	for (uint64_t i = 0; i < EARLY_MAX; i++) {
		m.comm = 1000 + i;
		deliver(&s, 3, &m, NULL);
	}
	cr_assert_not(peer_failed(s.peer[3]));
	m.comm = 1000;
	deliver(&s, 3, &m, NULL); /* that one is there already */
	cr_assert_not(peer_failed(s.peer[3]));
	m.comm = 999;
	deliver(&s, 3, &m, NULL);
	cr_assert(peer_failed(s.peer[3]));
	alone_close(s.ctx);
}

/* The others' messages came first: the call ends at once, with all that they said. */
Test(shrink, joins_are_kept_until_the_call)
{
	const uint32_t dead[] = { 0, 3 };
	oriel_comm *rest;
	struct scene s;
	struct msg m, ack;

	open_scene(&s);
	m = message(&s, 2, JOIN);
	m.n_listed = 2;
	deliver(&s, 2, &m, dead);
	ack = message(&s, 2, ACK);
	ack.ballot = (uint64_t)(ME + 1) << 32 | 1;
	/* An acknowledgement of what was not proposed counts for nothing. */
	deliver(&s, 2, &ack, NULL);
	peer_fail(s.peer[2], true, "the test says so");
	cr_assert_eq(oriel_comm_shrink(s.ctx->world, &rest), 0, "%s", oriel_detail());
	cr_assert_eq(rest->size, 1);
	cr_assert_eq(comm_world_rank(rest, 0), ME);
	/* Whom the others had given up is given up here too. */
	cr_assert(peer_failed(s.peer[0]) && peer_failed(s.peer[3]));
	cr_assert_eq(oriel_barrier(rest), 0);
	cr_assert_eq(oriel_comm_free(rest), 0);
	alone_close(s.ctx);
}

/* Decided without this rank, before it has called. */
Test(shrink, expelled_before_the_call)
{
	const uint32_t me[] = { ME };
	oriel_comm *rest;
	struct scene s;
	struct msg m;

	open_scene(&s);
	m = message(&s, 2, COMMIT);
	m.n_listed = 1;
	deliver(&s, 2, &m, me);
	cr_assert_eq(oriel_comm_shrink(s.ctx->world, &rest), ORIEL_EEXPELLED);
	cr_assert(strstr(oriel_detail(), "rank 2 "), "%s", oriel_detail());
	cr_assert_eq(oriel_barrier(s.ctx->world), ORIEL_EEXPELLED);
	alone_close(s.ctx);
}
