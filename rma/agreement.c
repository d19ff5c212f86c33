#include "rma/agreement.h"

#include <stdlib.h>
#include <string.h>

struct agreement_held { /* an outcome that somebody has accepted; one for each ballot */
	struct agreement_held *next;
	uint64_t ballot;
	uint64_t set[];
};

static size_t
set_bytes(const struct agreement *a)
{
	return rankset_words(a->size) * sizeof(uint64_t);
}

static bool
set_equal(const struct agreement *a, const uint64_t *x, const uint64_t *y)
{
	return !memcmp(x, y, set_bytes(a));
}

int
agreement_init(struct agreement *a)
{
	uint64_t *sets = calloc(4, set_bytes(a));

	if (!sets)
		return fail(ORIEL_ENOMEM, "no memory for an agreement of %d ranks", a->size);
	a->failed = sets;
	a->outcome = sets + rankset_words(a->size);
	a->joined = sets + 2 * rankset_words(a->size);
	a->acked = sets + 3 * rankset_words(a->size);
	a->told = -1;
	return 0;
}

static void
forget_held(struct agreement *a)
{
	while (a->news) {
		struct agreement_held *h = a->news;

		a->news = h->next;
		free(h);
	}
	free(a->held);
	a->held = NULL;
}

void
agreement_fini(struct agreement *a)
{
	forget_held(a);
	free(a->failed);
}

int
agreement_coordinator(const struct agreement *a)
{
	int r = 0;

	/* Never past itself: nobody believes that it has failed itself. */
	while (r < a->rank && rankset_has(a->failed, r))
		r++;
	return r;
}

bool
agreement_owes(const struct agreement *a, int r)
{
	if (r == a->rank || rankset_has(a->failed, r))
		return false;
	if (!a->proposing)
		return !rankset_has(a->joined, r);
	return !rankset_has(a->outcome, r) && !rankset_has(a->acked, r);
}

/*
 * ---- Out ----
 */

static void
tell(struct agreement *a, int to, enum agreement_kind kind, const uint64_t *set)
{
	const struct agreement_msg m = {
		.kind = kind, .bound = a->bound, .ballot = a->ballot, .set = set
	};

	a->send(a->arg, to, &m);
}

/* That of itself only: what else an expelled member believes may be its own fault. to < 0: to all.
 */
static void
tell_expelled(struct agreement *a, int to)
{
	uint64_t *me = calloc(1, set_bytes(a));

	if (!me)
		return; /* they will find it silent */
	rankset_add(me, a->rank);
	for (int r = 0; r < a->size; r++)
		if (r == to || (to < 0 && r != a->rank))
			tell(a, r, AGREEMENT_NEWS, me);
	free(me);
}

/*
 * ---- The end ----
 */

static void
settle(struct agreement *a, const uint64_t *outcome)
{
	if (outcome != a->outcome)
		memcpy(a->outcome, outcome, set_bytes(a));
	a->state = rankset_has(outcome, a->rank) ? AGREEMENT_EXPELLED : AGREEMENT_DECIDED;
	forget_held(a);
}

static void
be_expelled(struct agreement *a)
{
	a->state = AGREEMENT_EXPELLED;
	forget_held(a);
	/* Some may wait for this member to coordinate them. */
	tell_expelled(a, -1);
}

/* Somebody else's decision holds, whoever says so; who waits for this member to decide has it too.
 */
static void
on_commit(struct agreement *a, int from, const uint64_t *outcome)
{
	settle(a, outcome);
	for (int r = 0; r < a->size; r++)
		if (rankset_has(a->joined, r) && r != from)
			tell(a, r, AGREEMENT_COMMIT, a->outcome);
}

/*
 * ---- The coordinator ----
 */

/* The outcome that r holds, or NULL. */
static const uint64_t *
held_by(const struct agreement *a, int r)
{
	const struct agreement_held *h = a->news;

	if (r == a->rank)
		return a->ballot ? a->outcome : NULL;
	if (!a->held || !a->held[r])
		return NULL;
	while (h->ballot != a->held[r])
		h = h->next;
	return h->set;
}

static uint64_t
ballot_of(const struct agreement *a, int r)
{
	if (r == a->rank)
		return a->ballot;
	return a->held ? a->held[r] : 0;
}

/* Everybody who can still say so holds it: it may have been committed. */
static bool
may_stand(const struct agreement *a, const uint64_t *outcome)
{
	for (int r = 0; r < a->size; r++) {
		const uint64_t *held;

		if (rankset_has(a->failed, r) || rankset_has(outcome, r))
			continue;
		held = held_by(a, r);
		if (!held || !set_equal(a, held, outcome))
			return false;
	}
	return true;
}

/* Once, when all have joined: their answers are promises, so it stays right. */
static void
choose(struct agreement *a)
{
	const uint64_t *best = NULL;
	uint64_t ballot = 0;

	for (int r = 0; r < a->size; r++) {
		if (rankset_has(a->failed, r) || ballot_of(a, r) <= ballot)
			continue;
		ballot = ballot_of(a, r);
		best = held_by(a, r);
	}
	a->chosen = true;
	a->bound = best && may_stand(a, best);
	if (a->bound && best != a->outcome)
		memcpy(a->outcome, best, set_bytes(a));
}

static void
commit_if_all_accept(struct agreement *a)
{
	for (int r = 0; r < a->size; r++)
		if (agreement_owes(a, r))
			return;
	settle(a, a->outcome);
	/* Also those that are left out, if they can be reached. */
	for (int r = 0; r < a->size; r++)
		if (r != a->rank)
			tell(a, r, AGREEMENT_COMMIT, a->outcome);
}

static void
propose(struct agreement *a)
{
	a->proposing = true;
	a->proposed_failed = rankset_count(a->failed, a->size);
	a->ballot = (uint64_t)(a->rank + 1) << 32 | ++a->attempt;
	if (!a->bound)
		memcpy(a->outcome, a->failed, set_bytes(a));
	memset(a->acked, 0, set_bytes(a));
	for (int r = 0; r < a->size; r++) {
		if (!agreement_owes(a, r))
			continue;
		/* Who accepts it has also given up all that this rank does not ask. */
		if (a->bound)
			tell(a, r, AGREEMENT_NEWS, a->failed);
		tell(a, r, AGREEMENT_PROPOSE, a->outcome);
	}
	commit_if_all_accept(a);
}

/* Those that have not joined may have the outcome, or not know that this rank coordinates. */
static void
ask(struct agreement *a)
{
	for (int r = 0; r < a->size; r++)
		if (agreement_owes(a, r))
			tell(a, r, AGREEMENT_ASK, a->failed);
}

static void
lead(struct agreement *a)
{
	if (!a->leading) {
		a->leading = true;
		/* Who has no predecessor is joined unasked. */
		if (a->rank)
			ask(a);
	}
	if (!a->proposing)
		for (int r = 0; r < a->size; r++)
			if (agreement_owes(a, r))
				return;
	if (!a->chosen)
		choose(a);
	if (!a->proposing || a->proposed_failed != rankset_count(a->failed, a->size))
		propose(a);
	else
		commit_if_all_accept(a);
}

/* After anything that may have changed whom to wait for. */
static void
act(struct agreement *a)
{
	int c = agreement_coordinator(a);

	if (!a->entered || a->state != AGREEMENT_OPEN)
		return;
	if (c == a->rank) {
		lead(a);
	} else if (c != a->told) {
		a->told = c;
		if (a->ballot)
			tell(a, c, AGREEMENT_HELD, a->outcome);
		tell(a, c, AGREEMENT_JOIN, a->failed);
	}
}

/*
 * ---- In ----
 */

void
agreement_enter(struct agreement *a)
{
	a->entered = true;
	act(a);
}

void
agreement_fail(struct agreement *a, int r)
{
	if (a->state != AGREEMENT_OPEN || r == a->rank)
		return;
	rankset_add(a->failed, r);
	act(a);
}

void
agreement_remind(struct agreement *a)
{
	if (a->leading && a->state == AGREEMENT_OPEN)
		ask(a);
}

void
agreement_expel(struct agreement *a)
{
	if (a->state == AGREEMENT_OPEN)
		be_expelled(a);
}

/* False: this member is among them. */
static bool
merge(struct agreement *a, const uint64_t *failed)
{
	if (rankset_has(failed, a->rank)) {
		be_expelled(a);
		return false;
	}
	for (size_t i = 0; i < rankset_words(a->size); i++)
		a->failed[i] |= failed[i];
	return true;
}

static void
on_held(struct agreement *a, int from, const struct agreement_msg *m)
{
	struct agreement_held *h = a->news;

	while (h && h->ballot != m->ballot)
		h = h->next;
	if (!a->held)
		a->held = calloc((size_t)a->size, sizeof(*a->held));
	if (!h && a->held) {
		h = malloc(sizeof(*h) + set_bytes(a));
		if (h) {
			h->ballot = m->ballot;
			memcpy(h->set, m->set, set_bytes(a));
			h->next = a->news;
			a->news = h;
		}
	}
	/* What it holds must not be forgotten: without memory for it, it cannot stay. */
	if (h && a->held)
		a->held[from] = m->ballot;
	else
		agreement_fail(a, from);
}

static void
on_propose(struct agreement *a, int from, const struct agreement_msg *m)
{
	/* A proposal comes after this member has joined its sender, so from nobody else. */
	if (!a->entered || from != agreement_coordinator(a) || m->ballot < a->ballot)
		return;
	if (!m->bound && !merge(a, m->set))
		return;
	if (!m->bound && !set_equal(a, a->failed, m->set)) {
		tell(a, from, AGREEMENT_NEWS, a->failed);
		return;
	}
	a->ballot = m->ballot;
	memcpy(a->outcome, m->set, set_bytes(a));
	tell(a, from, AGREEMENT_ACK, NULL);
}

static void
on_ack(struct agreement *a, int from, const struct agreement_msg *m)
{
	if (!a->proposing || m->ballot != a->ballot)
		return;
	rankset_add(a->acked, from);
	commit_if_all_accept(a);
}

static bool
wants_answer(enum agreement_kind kind)
{
	return kind == AGREEMENT_JOIN || kind == AGREEMENT_ASK || kind == AGREEMENT_PROPOSE;
}

static void
on_message(struct agreement *a, int from, const struct agreement_msg *m)
{
	switch (m->kind) {
	case AGREEMENT_JOIN:
		if (!merge(a, m->set))
			return;
		rankset_add(a->joined, from);
		break;
	case AGREEMENT_ASK:
	case AGREEMENT_NEWS:
		if (!merge(a, m->set))
			return;
		break;
	case AGREEMENT_HELD:
		on_held(a, from, m);
		break;
	case AGREEMENT_PROPOSE:
		on_propose(a, from, m);
		break;
	case AGREEMENT_ACK:
		on_ack(a, from, m);
		break;
	default:
		break;
	}
	act(a);
}

void
agreement_take(struct agreement *a, int from, const struct agreement_msg *m)
{
	if (a->state == AGREEMENT_DECIDED) {
		if (wants_answer(m->kind))
			tell(a, from, AGREEMENT_COMMIT, a->outcome);
	} else if (a->state == AGREEMENT_EXPELLED) {
		if (wants_answer(m->kind))
			tell_expelled(a, from);
	} else if (m->kind == AGREEMENT_COMMIT) {
		on_commit(a, from, m->set);
	} else if (rankset_has(a->failed, from)) {
		/* One that was given up speaks. */
		if (wants_answer(m->kind))
			tell(a, from, AGREEMENT_NEWS, a->failed);
	} else {
		on_message(a, from, m);
	}
}
