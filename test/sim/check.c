/*
 * Every program and rank count under random orders. That this finds mistakes is
 * tested in mutate.c.
 */
#include "sim/check.h"

#include "sim/contract.h"
#include "sim/shapes.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define MAX_RANKS 64
#define BITS_RANKS 17 /* for which the results' bits are compared */
#define THIN_ABOVE 9  /* ranks; the proof leaves none out */

static uint64_t
base_seed(void)
{
	const char *text = getenv("TEST_SEED");

	return text ? strtoull(text, NULL, 0) : 1;
}

/* Results of ops that round: the same bits in every order of events, in place or not. */
static void
same_bits(struct check c)
{
	uint64_t digest, first = 0;

	c.digest = &digest;
	for (int n = 0; n < 4; n++) {
		c.alias = n & 1;
		c.seed = base_seed() + (uint64_t)n;
		cr_assert_eq(check_run(&c), 0, "%s", oriel_detail());
		first = n ? first : digest;
		cr_assert_eq(digest, first,
		             "%s(%d), %d ranks, root %d, node %d, seed %llu: other bits",
		             c.row->program.name, c.shape.arg, c.shape.size, c.shape.root,
		             c.shape.node, (unsigned long long)c.seed);
	}
}

struct orders {
	const struct coll_row *row;
	uint64_t seeds;
};

static void
random_orders(void *arg, const struct shape *shape)
{
	const struct orders *o = arg;
	struct check c = { .row = o->row, .shape = *shape };

	if (coll_kinds[c.row->op].reduces && c.row->op != COLL_AGREE && shape->size <= BITS_RANKS)
		same_bits(c);
	for (int alias = 0; alias <= contract_can_alias(c.row->op); alias++)
		for (uint64_t seed = 0; seed < o->seeds; seed++) {
			c.alias = alias;
			c.seed = base_seed() + seed;
			cr_assert_eq(check_run(&c), 0, "%s", oriel_detail());
		}
}

Test(check, every_program_and_rank_count)
{
	for (size_t i = 0; i < coll_rows; i++)
		for (int size = 1; size <= MAX_RANKS && shapes_wanted(&coll_table[i]); size++) {
			struct orders o = { &coll_table[i], size <= THIN_ABOVE ? 20 : 1 };

			shapes_each(o.row, size, THIN_ABOVE, random_orders, &o);
		}
}
