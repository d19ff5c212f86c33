/*
 * Mutants of every program: each is refuted by the proof, or shown harmless by
 * the whole of it, cost included. Those that never are harmless must be refuted.
 * What the random checker refutes, the proof must: so harmless mutants are run in
 * random orders, too.
 */
#include "sim/mutate.h"

#include "sim/check.h"
#include "sim/contract.h"
#include "sim/proof.h"
#include "sim/shapes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 8
#define MOST_KINDS 32
#define ALL_RANKS (-1)

static int
most_ranks(void)
{
	return getenv("PROOF_FULL") ? MOST_RANKS + 4 : MOST_RANKS;
}

struct tally {
	unsigned made, refuted, harmless, tried, met;
	unsigned harmless_of[MOST_KINDS];
};

struct mutant {
	const struct coll_row *row;
	struct shape shape;
	struct mutation mutation;
	int rank; /* or ALL_RANKS */
	bool made, fatal;
};

static void
make_in(struct plan *plan, void *arg)
{
	struct mutant *m = arg;

	if (m->rank == ALL_RANKS || m->rank == plan->rank)
		m->made |= mutate(m->row, plan, &m->mutation, &m->fatal);
}

/* The detail of the random checker's first refutation in so many orders; NULL: none. */
static const char *
refuted_by_chance(struct mutant *m, int seeds)
{
	struct check c = { .row = m->row, .shape = m->shape, .change = make_in, .change_arg = m };

	for (int alias = 0; alias <= contract_can_alias(m->row->op); alias++)
		for (int seed = 1; seed <= seeds; seed++) {
			c.alias = alias;
			c.seed = (uint64_t)seed;
			if (check_run(&c))
				return oriel_detail();
		}
	return NULL;
}

static void
judge(struct mutant *m, struct plan *const *plan, struct tally *t)
{
	struct proof proof = { .row = m->row, .shape = m->shape, .plan = plan };
	bool refuted = proof_run(&proof) != 0;

	t->made++;
	t->refuted += refuted;
	t->harmless += !refuted;
	t->harmless_of[m->mutation.kind] += !refuted;
	cr_expect(refuted || !m->fatal,
	          "%s(%d), %d ranks, root %d, node %d: \"%s\" in queue %u op %u of rank %d passes",
	          m->row->program.name, m->shape.arg, m->shape.size, m->shape.root, m->shape.node,
	          mutation_name(m->mutation.kind), m->mutation.queue, m->mutation.op, m->rank);
	if (!refuted && t->harmless % 8 == 1) {
		const char *chance = refuted_by_chance(m, 4);

		cr_expect_null(chance, "the proof passes \"%s\", but: %s",
		               mutation_name(m->mutation.kind), chance);
	} else if (refuted && t->refuted % 256 == 1) {
		t->tried++;
		t->met += refuted_by_chance(m, 4) != NULL;
	}
}

/* One mistake, in one rank or in all: those plans are built anew. */
static void
try_mutant(struct mutant *m, struct plan *const *right, struct tally *t)
{
	struct plan *plan[MOST_RANKS + 4];

	for (int r = 0; r < m->shape.size; r++) {
		plan[r] = right[r];
		if (m->rank != ALL_RANKS && m->rank != r)
			continue;
		cr_assert_eq(plan_build(&m->row->program, &m->shape, r, &plan[r]), 0);
		make_in(plan[r], m);
	}
	if (m->made)
		judge(m, plan, t);
	for (int r = 0; r < m->shape.size; r++)
		if (plan[r] != right[r])
			plan_free(plan[r]);
}

static uint32_t
most_ops(struct plan *const *plan, int size, unsigned queue)
{
	uint32_t most = 0;

	for (int r = 0; r < size; r++)
		if (plan[r]->queue[queue].n > most)
			most = plan[r]->queue[queue].n;
	return most;
}

struct walk {
	const struct coll_row *row;
	struct tally tally;
};

/* Every kind at every op, in each rank alone and in all together. */
static void
mutate_shape(void *arg, const struct shape *shape)
{
	struct walk *w = arg;
	struct plan *plan[MOST_RANKS + 4];

	for (int r = 0; r < shape->size; r++)
		cr_assert_eq(plan_build(&w->row->program, shape, r, &plan[r]), 0, "%s",
		             oriel_detail());
	for (unsigned queue = 0; queue < w->row->program.n_queues; queue++)
		for (uint32_t op = 0; op < most_ops(plan, shape->size, queue); op++)
			for (unsigned kind = 0; kind < mutation_kinds; kind++)
				for (int r = ALL_RANKS; r < shape->size; r++) {
					struct mutant m = { w->row, *shape, { kind, queue, op },
						            r,      false,  false };

					try_mutant(&m, plan, &w->tally);
				}
	for (int r = 0; r < shape->size; r++)
		plan_free(plan[r]);
}

static void
print(const struct walk *w)
{
	const struct tally *t = &w->tally;

	printf("%-24s %7u mutants, %7u refuted (random orders: %u of %u tried), %u harmless",
	       w->row->program.name, t->made, t->refuted, t->met, t->tried, t->harmless);
	for (unsigned k = 0; k < mutation_kinds; k++)
		if (t->harmless_of[k])
			printf("; %s %u", mutation_name(k), t->harmless_of[k]);
	printf("\n");
	fflush(stdout);
}

struct flushes {
	const struct coll_row *row;
	bool made, missed;
};

/* All of them, in all ranks: for one alone, the answer of the receiver may be enough. */
static void
drop_flushes(void *arg, const struct shape *shape)
{
	struct flushes *f = arg;
	struct plan *plan[MOST_RANKS + 4];
	struct proof proof = { .row = f->row, .shape = *shape, .plan = plan };
	bool made = false;

	for (int r = 0; r < shape->size; r++) {
		cr_assert_eq(plan_build(&f->row->program, shape, r, &plan[r]), 0);
		for (unsigned k = 0; k < MBOX_QUEUES; k++) {
			struct plan_queue *q = &plan[r]->queue[k];
			uint32_t n = 0;

			for (uint32_t i = 0; i < q->n; i++)
				if (q->ops[i].kind != OP_FLUSH)
					q->ops[n++] = q->ops[i];
			made |= n < q->n;
			q->n = n;
		}
	}
	f->made |= made;
	f->missed |= made && proof_run(&proof) != 0;
	for (int r = 0; r < shape->size; r++)
		plan_free(plan[r]);
}

Test(mutate, every_program_needs_its_flushes)
{
	for (size_t i = 0; i < coll_rows; i++) {
		struct flushes f = { .row = &coll_table[i] };

		for (int size = 2; size <= MOST_RANKS && shapes_wanted(f.row); size++)
			shapes_each(f.row, size, MOST_RANKS, drop_flushes, &f);
		cr_expect_eq(f.missed, f.made, "%s: nobody misses its flushes",
		             f.row->program.name);
	}
}

Test(mutate, every_mutant_is_refuted_or_harmless)
{
	unsigned tried = 0, met = 0;

	cr_assert_leq(mutation_kinds, MOST_KINDS);
	for (size_t i = 0; i < coll_rows; i++) {
		struct walk w = { .row = &coll_table[i] };

		if (!shapes_wanted(w.row))
			continue;
		for (int size = 2; size <= most_ranks(); size++)
			shapes_each(w.row, size, MOST_RANKS, mutate_shape, &w);
		print(&w);
		cr_expect_gt(w.tally.refuted, 100, "%s", w.row->program.name);
		tried += w.tally.tried;
		met += w.tally.met;
	}
	/* The random checker is not blind: a few orders show most of what the proof refutes. */
	cr_expect_gt(4 * met, 3 * tried, "%u of %u", met, tried);
}
