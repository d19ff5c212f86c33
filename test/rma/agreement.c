/*
 * The agreement over simulated members: they enter, crash (also in the middle of
 * a step's messages), suspect each other wrongly, messages wait as long as they
 * like. Every run is one seed (TEST_SEED=N starts there); its verdict is a text,
 * NULL if all was well.
 */
#include "rma/agreement.h"
#include "test/alloc/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MOST 130
#define WORDS 3
#define SMALL 9
#define STEPS 2000000
#ifndef SEEDS
#define SEEDS 2000 /* for each number of ranks and faults */
#endif

struct message {
	struct message *next;
	struct agreement_msg m;
	uint64_t set[WORDS];
};

struct queue {
	struct message *head, **tail;
};

struct world;
struct member {
	struct world *w;
	struct agreement a;
	bool alive, returned, ok; /* ok: returned an outcome */
	bool marked;              /* its node knows that it is given up; it has yet to look */
	bool touched;             /* may rightly be left out */
	bool crashed_first;       /* before it entered */
	int sends_left;           /* until it crashes; -1: it does not */
	uint64_t unreachable[WORDS], to_learn[WORDS];
	uint64_t result[WORDS];
};

/* Deliberate mistakes: each must be found. */
enum mistake { NONE, LOSE_HELD, FORGE_ACKS, DECIDED_SILENT, LOSE_NEWS, LOSE_ASK };

struct plan { /* of a run */
	int size, crashes, suspicions;
	bool marks; /* who is suspected is told by its node, else the suspicion is mutual */
	enum mistake mistake;
};

struct world {
	struct plan plan;
	uint64_t random;
	uint64_t n_messages;
	int reminders; /* left, for when nothing else can happen */
	struct member member[MOST];
	struct queue queue[MOST][MOST]; /* [from][to] */
};

static uint64_t
below(struct world *w, uint64_t n)
{
	return random_next(&w->random) % n;
}

/*
 * ---- The network ----
 */

static void
drop_from(struct queue *q, uint64_t keep)
{
	struct message **at = &q->head;

	while (*at && keep--)
		at = &(*at)->next;
	while (*at) {
		struct message *m = *at;

		*at = m->next;
		free(m);
	}
	q->tail = at;
}

static uint64_t
queued(const struct queue *q)
{
	uint64_t n = 0;

	for (const struct message *m = q->head; m; m = m->next)
		n++;
	return n;
}

static void
crash(struct world *w, int r)
{
	struct member *m = &w->member[r];

	if (!m->alive)
		return;
	m->alive = false;
	m->touched = true;
	m->crashed_first = !m->a.entered;
	for (int i = 0; i < w->plan.size; i++) {
		struct queue *q = &w->queue[r][i];

		drop_from(q, below(w, queued(q) + 1));
		drop_from(&w->queue[i][r], 0);
		rankset_add(w->member[i].to_learn, r);
	}
}

static void
put(struct world *w, int from, int to, const struct agreement_msg *m)
{
	struct queue *q = &w->queue[from][to];
	struct message *e = calloc(1, sizeof(*e));

	cr_assert(e);
	e->m = *m;
	if (m->set)
		memcpy(e->set, m->set, rankset_words(w->plan.size) * 8);
	if (!q->head)
		q->tail = &q->head;
	*q->tail = e;
	q->tail = &e->next;
	w->n_messages++;
}

static void
forge_ack(struct world *w, int from, int to, uint64_t ballot)
{
	const struct agreement_msg ack = { .kind = AGREEMENT_ACK, .ballot = ballot };

	put(w, from, to, &ack);
}

static void
on_send(void *arg, int to, const struct agreement_msg *m)
{
	struct member *from = arg;
	struct world *w = from->w;
	int me = from->a.rank;

	cr_assert_neq(to, me);
	if (!from->alive)
		return;
	if (from->sends_left == 0) {
		crash(w, me);
		return;
	}
	from->sends_left -= from->sends_left > 0;
	if (!w->member[to].alive || rankset_has(from->unreachable, to))
		return;
	switch (w->plan.mistake) {
	case LOSE_HELD:
		if (m->kind == AGREEMENT_HELD)
			return;
		break;
	case FORGE_ACKS:
		if (m->kind == AGREEMENT_PROPOSE)
			forge_ack(w, to, me, m->ballot);
		break;
	case DECIDED_SILENT:
		if (m->kind == AGREEMENT_COMMIT && from->returned)
			return;
		break;
	case LOSE_NEWS:
		if (m->kind == AGREEMENT_NEWS)
			return;
		break;
	case LOSE_ASK:
		if (m->kind == AGREEMENT_ASK)
			return;
		break;
	default:
		break;
	}
	put(w, me, to, m);
}

/*
 * ---- What can happen. Each returns false if it cannot, now. ----
 */

static bool
deliver(struct world *w)
{
	int n = w->plan.size, first = (int)below(w, (uint64_t)(n * n));

	for (int i = 0; i < n * n; i++) {
		int at = (first + i) % (n * n);
		struct queue *q = &w->queue[at / n][at % n];
		struct member *to = &w->member[at % n];
		struct message *m = q->head;

		if (!m)
			continue;
		q->head = m->next;
		if (!q->head)
			q->tail = &q->head;
		m->m.set = m->set;
		/* What a crashed or expelled process would have handled is lost. */
		if (to->alive)
			agreement_take(&to->a, at / n, &m->m);
		free(m);
		return true;
	}
	return false;
}

static bool
enter(struct world *w)
{
	int n = w->plan.size, first = (int)below(w, (uint64_t)n);

	for (int i = 0; i < n; i++) {
		struct member *m = &w->member[(first + i) % n];

		if (!m->alive || m->a.entered)
			continue;
		agreement_enter(&m->a);
		return true;
	}
	return false;
}

/* Nothing comes from there any more, and nothing goes there. */
static void
cut_off(struct world *w, int r, int dead)
{
	struct member *m = &w->member[r];

	rankset_add(m->unreachable, dead);
	drop_from(&w->queue[dead][r], 0);
	drop_from(&w->queue[r][dead], below(w, queued(&w->queue[r][dead]) + 1));
	agreement_fail(&m->a, dead);
}

static bool
learn(struct world *w)
{
	int n = w->plan.size, first = (int)below(w, (uint64_t)(n * n));

	for (int i = 0; i < n * n; i++) {
		int at = (first + i) % (n * n), r = at / n, dead = at % n;
		struct member *m = &w->member[r];

		if (r == dead || !m->alive || !rankset_has(m->to_learn, dead) ||
		    rankset_has(m->unreachable, dead))
			continue;
		cut_off(w, r, dead);
		return true;
	}
	return false;
}

/* A marked process looks at its mark, or one whose agreement has ended returns. */
static bool
come_back(struct world *w)
{
	int n = w->plan.size, first = (int)below(w, (uint64_t)n);

	for (int i = 0; i < n; i++) {
		struct member *m = &w->member[(first + i) % n];

		if (!m->alive || m->returned || !m->a.entered)
			continue;
		if (m->marked)
			agreement_expel(&m->a);
		if (m->a.state == AGREEMENT_OPEN)
			continue;
		m->returned = true;
		m->ok = m->a.state == AGREEMENT_DECIDED && !m->marked;
		memcpy(m->result, m->a.outcome, rankset_words(n) * 8);
		return true;
	}
	return false;
}

/* Time passes. */
static void
remind(struct world *w)
{
	for (int r = 0; r < w->plan.size; r++)
		if (w->member[r].alive)
			agreement_remind(&w->member[r].a);
}

/* Rank 0 or another one stays untouched, so that not everybody gives everybody up. */
static int
somebody(struct world *w)
{
	int anchor = (int)(w->plan.size * 7 / 11), r = (int)below(w, (uint64_t)w->plan.size);

	return r == anchor ? -1 : r;
}

static void
crash_somebody(struct world *w)
{
	int r = somebody(w);

	if (r < 0 || !w->member[r].alive)
		return;
	w->plan.crashes--;
	w->member[r].touched = true;
	if (below(w, 2))
		crash(w, r);
	else
		w->member[r].sends_left = (int)below(w, 3 * (uint64_t)w->plan.size);
}

static void
suspect_somebody(struct world *w)
{
	int by = somebody(w), r = somebody(w);
	struct member *m;

	if (r < 0 || by < 0 || by == r || !w->member[r].alive || !w->member[by].alive)
		return;
	w->plan.suspicions--;
	m = &w->member[r];
	m->touched = true;
	if (w->plan.marks) {
		m->marked = true;
		for (int i = 0; i < w->plan.size; i++)
			if (i != r)
				rankset_add(w->member[i].to_learn, r);
	} else {
		w->member[by].touched = true;
		rankset_add(m->to_learn, by);
	}
	cut_off(w, by, r);
}

static bool
step(struct world *w)
{
	static bool (*const can[])(struct world *) = { deliver, deliver, deliver,
		                                       learn,   enter,   come_back };
	uint64_t first = below(w, 6);

	if (w->plan.crashes + w->plan.suspicions && !below(w, 30))
		remind(w);
	if (w->plan.crashes && !below(w, 12))
		crash_somebody(w);
	if (w->plan.suspicions && !below(w, 12))
		suspect_somebody(w);
	for (uint64_t i = 0; i < 6; i++)
		if (can[(first + i) % 6](w))
			return true;
	if (w->reminders-- <= 0)
		return false;
	remind(w);
	return true;
}

/*
 * ---- The verdict ----
 */

static const char *
check_outcome(const struct world *w, const struct member *one)
{
	for (int r = 0; r < w->plan.size; r++) {
		const struct member *m = &w->member[r];
		bool out = rankset_has(one->result, r);

		if (m->ok && memcmp(m->result, one->result, sizeof(m->result)))
			return "two outcomes were returned";
		if (out && m->ok)
			return "one that is left out returned an outcome";
		if (out && !m->touched)
			return "one that lives is left out";
		if (!out && m->crashed_first)
			return "one that never entered is in";
	}
	return NULL;
}

static const char *
verdict(const struct world *w)
{
	const char *why = NULL;

	for (int r = 0; r < w->plan.size && !why; r++) {
		const struct member *m = &w->member[r];

		if (m->ok)
			why = check_outcome(w, m);
		else if (m->alive && !m->returned)
			why = "one that lives waits for ever";
		else if (m->alive && !m->touched)
			why = "one that nobody suspected is expelled";
	}
	return why;
}

static const char *
run(const struct plan *plan, uint64_t seed, uint64_t *messages)
{
	struct world *w = calloc(1, sizeof(*w));
	const char *why;
	int steps = 0;

	cr_assert(w);
	w->plan = *plan;
	w->random = seed;
	w->reminders = 2 * plan->size;
	for (int r = 0; r < plan->size; r++) {
		struct member *m = &w->member[r];

		m->w = w;
		m->alive = true;
		m->sends_left = -1;
		m->a = (struct agreement){
			.size = plan->size, .rank = r, .send = on_send, .arg = m
		};
		cr_assert_eq(agreement_init(&m->a), 0);
	}
	while (step(w) && steps < STEPS)
		steps++;
	why = steps == STEPS ? "it goes on for ever" : verdict(w);
	if (messages)
		*messages = w->n_messages;
	for (int r = 0; r < plan->size; r++) {
		agreement_fini(&w->member[r].a);
		for (int i = 0; i < plan->size; i++)
			drop_from(&w->queue[r][i], 0);
	}
	free(w);
	return why;
}

static void
all_well(struct plan plan, uint64_t first, uint64_t seeds)
{
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		const char *why = run(&plan, seed * 1000003, NULL);

		cr_assert(!why, "%d ranks, %d crashes, %d suspicions%s, seed %llu: %s", plan.size,
		          plan.crashes, plan.suspicions, plan.marks ? " with marks" : "",
		          (unsigned long long)seed, why);
	}
}

Test(agreement, crashes)
{
	uint64_t first = first_seed("agreement, crashes", SEEDS);

	for (int size = 1; size <= SMALL; size++)
		for (int crashes = 0; crashes < size; crashes++)
			all_well((struct plan){ .size = size, .crashes = crashes }, first, SEEDS);
}

/* On a node: a process that was stopped is marked, and finds the mark when it wakes. */
Test(agreement, wrong_suspicions_with_marks)
{
	uint64_t first = first_seed("agreement, suspicions with marks", SEEDS);

	for (int size = 2; size <= SMALL; size++)
		for (int n = 1; n <= 3; n++)
			all_well((struct plan){ .size = size,
			                        .crashes = n % 3,
			                        .suspicions = n,
			                        .marks = true },
			         first, SEEDS);
}

/* Between nodes: links break, and each end gives the other up. */
Test(agreement, wrong_suspicions_without)
{
	uint64_t first = first_seed("agreement, suspicions without marks", SEEDS);

	for (int size = 3; size <= SMALL; size++)
		for (int n = 1; n <= 3; n++)
			all_well((struct plan){ .size = size, .crashes = n % 3, .suspicions = n },
			         first, SEEDS);
}

Test(agreement, many_ranks)
{
	uint64_t first = first_seed("agreement, many ranks", 40);

	all_well((struct plan){ .size = MOST, .crashes = 9 }, first, 10);
	all_well((struct plan){ .size = 65, .crashes = 30, .suspicions = 2 }, first, 30);
	all_well((struct plan){ .size = 64, .crashes = 10, .suspicions = 3, .marks = true }, first,
	         30);
}

/* The cost that the header states. */
Test(agreement, cost)
{
	for (int size = 1; size <= MOST; size += 1 + size / 5) {
		struct plan plan = { .size = size };
		uint64_t messages;

		cr_assert(!run(&plan, 1, &messages));
		cr_assert_eq(messages, 4 * (uint64_t)(size - 1), "%d ranks: %llu messages", size,
		             (unsigned long long)messages);
	}
}

/* The simulation would find these. */
Test(agreement, mistakes_are_found)
{
	static const char *const names[] = { [LOSE_HELD] = "lost HELD",
		                             [FORGE_ACKS] = "no wait for ACKs",
		                             [DECIDED_SILENT] = "decided ones do not answer",
		                             [LOSE_NEWS] = "lost NEWS",
		                             [LOSE_ASK] = "lost ASK" };

	for (enum mistake m = LOSE_HELD; m <= LOSE_ASK; m++) {
		const char *why = NULL;

		for (uint64_t seed = 1; seed <= 40000 && !why; seed++) {
			struct plan plan = { .size = 3 + (int)(seed % 6),
				             .crashes = 1 + (int)(seed % 3),
				             .suspicions = (int)(seed / 3 % 3),
				             .mistake = m };

			why = run(&plan, seed * 77, NULL);
		}
		cr_assert(why, "%s: nothing was found", names[m]);
		fprintf(stderr, "%s: %s\n", names[m], why);
	}
}
