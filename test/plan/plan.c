#include "plan/verbs.h"

#include <criterion/criterion.h>
#include <string.h>

static struct plan *
build(const struct program *p, int arg, int rank, int size)
{
	const struct shape shape = { .size = size, .arg = arg };
	struct plan *plan = NULL;

	cr_assert_eq(plan_build(p, &shape, rank, &plan), 0, "%s", oriel_detail());
	return plan;
}

static int
build_fails(void (*fn)(struct queue *q, int arg), int size)
{
	const struct program p = {
		"test",
		fn,
		1,
		{ { blocks_one, false }, { blocks_ranks, true }, { blocks_log2, false } }
	};
	struct plan *plan = NULL;
	const struct shape shape = { .size = size };
	int rc = plan_build(&p, &shape, 0, &plan);

	cr_assert_null(plan);
	return rc;
}

static const struct op *
op(const struct plan *plan, uint32_t n)
{
	cr_assert_lt(n, plan->queue[0].n);
	return &plan->queue[0].ops[n];
}

static void
merging(struct queue *q, int arg)
{
	(void)arg;
	put(q, 1, OUT, 0, OUT, 0, 1);
	signal(q, 1); /* travels with the put */
	put(q, 1, OUT, 0, OUT, 0, 1);
	put(q, 2, OUT, 0, OUT, 0, 1);
	signal(q, 1);                        /* cannot: another put is between */
	signal(q, 2);                        /* cannot: a signal is between */
	put_signal(q, 1, OUT, 0, OUT, 0, 0); /* nothing to put */
	signal(q, 1);                        /* its own batch */
}

Test(plan, signal_travels_with_the_put_before_it)
{
	static const struct {
		int kind, rank;
		bool last;
	} expected[] = { { OP_PUT, 1, true },    { OP_PUT, 1, false },   { OP_PUT, 2, false },
		         { OP_SIGNAL, 1, true }, { OP_SIGNAL, 2, true }, { OP_SIGNAL, 1, true },
		         { OP_SIGNAL, 1, true } };
	const struct program p = { "merging", merging, 1, { [OUT] = { blocks_ranks, true } } };
	struct plan *plan = build(&p, 0, 0, 4);

	cr_assert_eq(plan->queue[0].n, ARRAY_SIZE(expected));
	for (uint32_t i = 0; i < ARRAY_SIZE(expected); i++) {
		cr_expect_eq(op(plan, i)->kind, expected[i].kind, "op %u", i);
		cr_expect_eq(op(plan, i)->last, expected[i].last, "op %u", i);
		cr_expect_eq(plan->edges[op(plan, i)->edge].rank, expected[i].rank, "op %u", i);
	}
	plan_free(plan);
}

static void
modulo(struct queue *q, int arg)
{
	(void)arg;
	put(q, -1, OUT, -1, OUT, 5 * q->size + 1, 2);
	put(q, 3 * q->size + 1, OUT, 0, OUT, 0, q->size);
	wait(q, -q->size - 1, 0);
}

Test(plan, ranks_and_cyclic_blocks_are_modulo)
{
	const struct program p = { "modulo", modulo, 1, { [OUT] = { blocks_ranks, true } } };
	struct plan *plan = build(&p, 0, 0, 5);

	cr_expect_eq(plan->edges[op(plan, 0)->edge].rank, 4);
	cr_expect_eq(op(plan, 0)->i, 4);
	cr_expect_eq(op(plan, 0)->j, 1);
	cr_expect_eq(plan->edges[op(plan, 1)->edge].rank, 1);
	cr_expect_eq(op(plan, 1)->n, 5);
	cr_expect_eq(op(plan, 2)->edge, op(plan, 0)->edge);
	plan_free(plan);
}

static void
outside(struct queue *q, int arg)
{
	(void)arg;
	put(q, 1, IN, 1, OUT, 0, 1);  /* IN has one block and does not wrap */
	put(q, 0, OUT, 0, OUT, 0, 1); /* not the first error */
}

static void
too_many(struct queue *q, int arg)
{
	(void)arg;
	put(q, 1, OUT, 0, OUT, 0, q->size + 1);
}

static void
negative(struct queue *q, int arg)
{
	(void)arg;
	copy(q, OUT, 0, OUT, 1, -1);
}

static void
to_itself(struct queue *q, int arg)
{
	(void)arg;
	signal(q, q->rank + q->size);
}

static void
no_such_queue(struct queue *q, int arg)
{
	(void)arg;
	wait(q, 1, 1);
}

static void
endless(struct queue *q, int arg)
{
	(void)arg;
	for (int64_t i = 0; i < (int64_t)PLAN_MAX_OPS + 10; i++)
		flush(q);
}

Test(plan, first_error_stays)
{
	cr_expect_eq(build_fails(outside, 4), ORIEL_ERANGE);
	cr_expect(strstr(oriel_detail(), "IN"), "%s", oriel_detail());
	cr_expect_eq(build_fails(too_many, 4), ORIEL_ERANGE);
	cr_expect_eq(build_fails(negative, 4), ORIEL_ERANGE);
	cr_expect_eq(build_fails(to_itself, 4), ORIEL_EINVAL);
	cr_expect_eq(build_fails(no_such_queue, 4), ORIEL_EINVAL);
	cr_expect_eq(build_fails(endless, 4), ORIEL_ELIMIT);
}

static void
counting(struct queue *q, int arg)
{
	(void)arg;
	for (int i = 0; i < 3; i++)
		wait(&q[0], 1, 0);
	for (int i = 0; i < 5; i++)
		wait(&q[1], 1, 0);
	wait(&q[1], 1, 1);
}

Test(plan, each_queue_counts_its_waits)
{
	const struct program p = { "counting", counting, 2, { { 0 } } };
	struct plan *plan = build(&p, 0, 0, 3);

	cr_assert_eq(plan->n_edges, 2);
	cr_expect_eq(plan->edges[0].expect, 5, "two queues wait for the same arrivals");
	cr_expect_eq(plan->edges[1].expect, 1);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(plan->queue[0].ops[i].n, i + 1);
	for (uint32_t i = 0; i < 5; i++)
		cr_expect_eq(plan->queue[1].ops[i].n, i + 1);
	plan_free(plan);
}

static void
star(struct queue *q, int arg)
{
	(void)arg;
	for (int i = 1; i < q->size; i++) {
		signal(q, q->rank + i);
		wait(q, q->rank + i, 0);
	}
}

Test(plan, many_edges_are_found_again)
{
	const struct program p = { "star", star, 1, { { 0 } } };
	struct plan *plan = build(&p, 0, 17, 3000);

	cr_assert_eq(plan->n_edges, 2999);
	for (uint32_t i = 0; i < plan->queue[0].n; i += 2)
		cr_assert_eq(op(plan, i)->edge, op(plan, i + 1)->edge);
	plan_free(plan);
}

Test(plan, hash_names_what_ranks_have_in_common)
{
	const struct program a = { "a", star, 1, { { 0 } } }, b = { "b", star, 1, { { 0 } } };
	const struct program c = { "a", star, 1, { [OUT] = { blocks_one, false } } };
	struct plan *p[] = { build(&a, 2, 0, 8), build(&a, 2, 5, 8), build(&a, 3, 0, 8),
		             build(&a, 2, 0, 9), build(&b, 2, 0, 8), build(&c, 2, 0, 8) };

	cr_expect_eq(p[0]->hash, p[1]->hash, "another rank");
	for (size_t i = 2; i < ARRAY_SIZE(p); i++)
		cr_expect_neq(p[0]->hash, p[i]->hash, "plan %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		plan_free(p[i]);
}

Test(plan, counts)
{
	static const int log2[][2] = { { 1, 0 }, { 2, 1 }, { 7, 3 },
		                       { 8, 3 }, { 9, 4 }, { INT32_MAX, 31 } };
	const struct shape seven = { .size = 7 };

	cr_expect_eq(blocks_one(&seven), 1);
	cr_expect_eq(blocks_two(&seven), 2);
	cr_expect_eq(blocks_ranks(&seven), 7);
	for (size_t i = 0; i < ARRAY_SIZE(log2); i++) {
		const struct shape shape = { .size = log2[i][0] };

		cr_expect_eq(blocks_log2(&shape), (uint32_t)log2[i][1], "%d", shape.size);
	}
}

static void
count_lines(void *arg, const char *text)
{
	cr_assert(text[0]);
	++*(int *)arg;
}

Test(plan, dump_has_a_line_for_each_op)
{
	const struct program p = { "merging", merging, 1, { [OUT] = { blocks_ranks, true } } };
	struct plan *plan = build(&p, 0, 0, 4);
	int lines = 0;

	plan_dump(plan, count_lines, &lines);
	cr_expect_eq(lines, 8);
	cr_expect_gt(plan_bytes(plan), sizeof(*plan));
	plan_free(plan);
}
