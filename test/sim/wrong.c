/*
 * Programs that are wrong in ways that no op of a right one shows: the checker
 * must say so, and name it.
 */
#include "sim/check.h"

#include "plan/verbs.h"

#include <criterion/criterion.h>
#include <string.h>

/* Of a program in which each rank puts a block into each other one. */
static int64_t
once(const struct shape *shape)
{
	return shape->size > 1;
}

static int64_t
others(const struct shape *shape)
{
	return shape->size - 1;
}

static int64_t
each_to_others(const struct shape *shape)
{
	return (int64_t)shape->size * (shape->size - 1);
}

/* What the checker says to the program for three ranks, in one of some orders; NULL: nothing. */
static const char *
complaint(struct coll_row row, bool alias)
{
	uint64_t digest;

	row.rounds = once;
	row.blocks = others;
	row.total = each_to_others;
	for (int seed = 1; seed < 10; seed++) {
		struct check c = { .row = &row,
			           .shape.size = 3,
			           .alias = alias,
			           .seed = (uint64_t)seed,
			           .digest = row.op == COLL_ALLREDUCE ? &digest : NULL };

		if (check_run(&c))
			return oriel_detail();
	}
	return NULL;
}

static void
expect(struct coll_row row, bool alias, const char *what)
{
	const char *text = complaint(row, alias);

	cr_expect(text && strstr(text, what), "expected \"%s\", got \"%s\"", what,
	          text ? text : "nothing");
}

#define BLOCKS(fn)                                                                                 \
	{                                                                                          \
		fn, true                                                                           \
	}

/* Each rank adds the others' terms to its own, in an order of its own. */
static void
own_order(struct queue *q, int arg)
{
	(void)arg;
	for (int s = 1; s < q->size; s++)
		put_signal(q, q->rank + s, TMP, s, IN, 0, 1);
	copy(q, TMP, 0, IN, 0, 1);
	for (int s = 1; s < q->size; s++)
		wait(q, q->rank - s, 0);
	flush(q);
	fold(q, OUT, 0, TMP, 0, q->size);
}

Test(wrong, ranks_round_differently)
{
	expect((struct coll_row){ .program = { "allreduce/own_order",
	                                       own_order,
	                                       1,
	                                       { [IN] = BLOCKS(blocks_one),
	                                         [OUT] = BLOCKS(blocks_one),
	                                         [TMP] = BLOCKS(blocks_ranks) } },
	                          .op = COLL_ALLREDUCE,
	                          .unordered = true },
	       false, "rounds otherwise");
}

/* A chain that keeps its sums where only root has a buffer. */
static void
in_others_out(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank + 1 < q->size) {
		wait(q, q->rank + 1, 0);
		reduce(q, OUT, 0, IN, 0, TMP, 0, 1);
	}
	if (q->rank > 0)
		put_signal(q, q->rank - 1, TMP, 0, q->rank + 1 < q->size ? OUT : IN, 0, 1);
}

static const struct coll_row chain = { .program = { "reduce/in_others_out",
	                                            in_others_out,
	                                            1,
	                                            { [IN] = BLOCKS(blocks_one),
	                                              [OUT] = BLOCKS(blocks_one),
	                                              [TMP] = BLOCKS(blocks_one) } },
	                               .op = COLL_REDUCE };

Test(wrong, out_of_another_rank_than_root)
{
	expect(chain, false, "has no buffer 1");
	expect(chain, true, "has no buffer 1");
}

/* Rank 0 has nothing to combine, and writes OUT all the same. */
static void
touches_rank_0(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank > 0) {
		wait(q, q->rank - 1, 0);
		reduce(q, TMP, 1, TMP, 0, IN, 0, 1);
	}
	if (q->rank + 1 < q->size)
		put_signal(q, q->rank + 1, TMP, 0, q->rank ? TMP : IN, q->rank ? 1 : 0, 1);
	copy(q, OUT, 0, q->rank ? TMP : IN, 0, 1);
}

Test(wrong, out_of_rank_0_in_exscan)
{
	expect((struct coll_row){ .program = { "exscan/touches_rank_0",
	                                       touches_rank_0,
	                                       1,
	                                       { [IN] = BLOCKS(blocks_one),
	                                         [OUT] = BLOCKS(blocks_one),
	                                         [TMP] = BLOCKS(blocks_two) } },
	                          .op = COLL_EXSCAN },
	       false, "OUT[0]");
}

/* Sends its block out of the next one's place. */
static void
wrong_place(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	copy(q, OUT, r + 1, OUT, r, 1);
	for (int s = 1; s < P; s++)
		put_signal(q, r + s, TMP, r, OUT, r + 1, 1);
	for (int s = 1; s < P; s++)
		wait(q, r - s, 0);
	flush(q);
	for (int s = 1; s < P; s++)
		copy(q, OUT, r - s, TMP, r - s, 1);
}

/* It is right where all blocks are equally long. */
Test(wrong, block_of_another_length)
{
	struct coll_row row = {
		.program = { "allgather/wrong_place",
		             wrong_place,
		             1,
		             { [OUT] = BLOCKS(blocks_ranks), [TMP] = BLOCKS(blocks_ranks) } },
		.op = COLL_ALLGATHER
	};

	expect(row, false, "not as long");
	row.whole = true;
	cr_expect_null(complaint(row, false), "%s", oriel_detail());
}

/* These pass others' blocks on, and say that all are equally long. */
Test(wrong, block_of_unknown_length)
{
	static const char *const whole[] = { "alltoall/bruck", "gather/binomial",
		                             "scatter/binomial" };

	for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
		struct coll_row row = *coll_row_named(whole[i]);
		struct check c = { .row = &row, .shape = { .size = 8, .arg = 2 }, .seed = 1 };

		cr_expect(row.whole, "%s", whole[i]);
		cr_expect_eq(check_run(&c), 0, "%s", oriel_detail());
		row.whole = false;
		cr_expect_eq(check_run(&c), ORIEL_EMISMATCH, "%s", whole[i]);
		cr_expect(strstr(oriel_detail(), "long"), "%s", oriel_detail());
	}
}

/* The root of a gather may be in place: its block is in OUT, and there is no IN. */
static void
takes_roots_in(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank == q->root)
		copy(q, OUT, q->rank, IN, 0, 1);
}

Test(wrong, in_of_the_root_of_a_gather)
{
	expect(
	        (struct coll_row){
	                .program = { "gather/takes_roots_in",
	                             takes_roots_in,
	                             1,
	                             { [IN] = BLOCKS(blocks_one), [OUT] = BLOCKS(blocks_ranks) } },
	                .op = COLL_GATHER },
	        false, "has no buffer 0");
}

/* Adds one part to another. */
static void
mixes_parts(struct queue *q, int arg)
{
	(void)arg;
	copy(q, TMP, 0, IN, q->rank, 1);
	reduce(q, OUT, 0, TMP, 0, IN, q->rank + 1, 1);
}

Test(wrong, parts_of_different_length)
{
	expect((struct coll_row){ .program = { "reduce_scatter/mixes_parts",
	                                       mixes_parts,
	                                       1,
	                                       { [IN] = BLOCKS(blocks_ranks),
	                                         [OUT] = BLOCKS(blocks_one),
	                                         [TMP] = BLOCKS(blocks_one) } },
	                          .op = COLL_REDUCE_SCATTER,
	                          .unordered = true },
	       false, "are combined");
}
