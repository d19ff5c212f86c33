/*
 * Runs against buffers that hold every block, under random writes, reads and
 * combinations.
 */
#include "sim/runs.h"

#include "sim/contract.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 40

struct value { /* of one block, as a run of one */
	int32_t rank, block;
	int64_t sum;
};

static uint64_t state;

static uint32_t
below(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static struct value
value_of(const struct run *run, uint32_t t)
{
	struct value v = { run->rank, run->block, run->sum };

	if (run->rank == RUN_GARBAGE)
		return (struct value){ RUN_GARBAGE, 0, 0 };
	v.block += (int32_t)t * run->step;
	v.rank += (int32_t)t * run->stride;
	return v;
}

static bool
same(struct value a, struct value b)
{
	return a.rank == b.rank && a.block == b.block && a.sum == b.sum;
}

/* Fills dense from runs that lie in order, without overlap, and are as long as they can be. */
static void
unroll(const struct runs *runs, struct value *dense)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < BLOCKS; i++)
		dense[i] = (struct value){ RUN_GARBAGE, 0, 0 };
	for (uint32_t k = 0; k < runs->n; k++) {
		const struct run *run = &runs->run[k];

		cr_assert_geq(run->at, end);
		cr_assert_gt(run->n, 0);
		end = run->at + run->n;
		cr_assert_leq(end, BLOCKS);
		for (uint32_t t = 0; t < run->n; t++)
			dense[run->at + t] = value_of(run, t);
	}
}

static struct run
random_run(uint32_t n)
{
	struct run run = { .n = n, .block = (int32_t)below(6), .rank = (int32_t)below(6) };

	run.at = below(BLOCKS - n + 1);
	switch (below(5)) {
	case 0:
		run.step = 1;
		break;
	case 1:
		run.stride = 1;
		break;
	case 2:
		run.rank = RUN_COMBINED;
		run.sum = 7 + below(2);
		run.step = (int32_t)below(2);
		break;
	case 3:
		return (struct run){ .at = run.at, .n = n, .rank = RUN_GARBAGE };
	default:
		break;
	}
	return run;
}

Test(runs, random_writes_and_copies)
{
	for (uint64_t seed = 1; seed < 2000; seed++) {
		struct runs runs = { 0 };
		struct value dense[BLOCKS], got[BLOCKS];

		state = seed;
		unroll(&runs, dense);
		for (int k = 0; k < 40; k++) {
			if (below(3)) {
				struct run run = random_run(1 + below(8));

				cr_assert(runs_write(&runs, run));
				for (uint32_t t = 0; t < run.n; t++)
					dense[run.at + t] = value_of(&run, t);
			} else {
				uint32_t n = 1 + below(12), i = below(BLOCKS), j = below(BLOCKS);
				struct value moved[12];
				struct runs list = { 0 };

				cr_assert(runs_read(&runs, BLOCKS, j, n, &list));
				cr_assert(runs_copy(&runs, BLOCKS, i, &list));
				runs_fini(&list);
				for (uint32_t t = 0; t < n; t++)
					moved[t] = dense[(j + t) % BLOCKS];
				for (uint32_t t = 0; t < n; t++)
					dense[(i + t) % BLOCKS] = moved[t];
			}
			unroll(&runs, got);
			for (uint32_t t = 0; t < BLOCKS; t++)
				cr_assert(same(got[t], dense[t]), "seed %llu, step %d, block %u",
				          (unsigned long long)seed, k, t);
		}
		runs_fini(&runs);
	}
}

static struct value
combine(struct run_op op, struct value a, struct value b)
{
	if (a.rank == RUN_GARBAGE || b.rank == RUN_GARBAGE || a.block != b.block)
		return (struct value){ RUN_GARBAGE, 0, 0 };
	if (a.rank != RUN_COMBINED)
		a.sum = contract_term(a.rank, 0);
	if (b.rank != RUN_COMBINED)
		b.sum = contract_term(b.rank, 0);
	return (struct value){ RUN_COMBINED, a.block,
		               contract_combine(op.op, op.unordered, a.sum, b.sum) };
}

static void
check_combine(struct run_op op, const struct runs *a, const struct runs *b)
{
	struct value x[BLOCKS], y[BLOCKS], got[BLOCKS], all;
	struct runs list = { 0 }, fold = { 0 };
	uint64_t seed = state;

	unroll(a, x);
	unroll(b, y);
	cr_assert(runs_combine(op, a, b, &list));
	unroll(&list, got);
	for (uint32_t t = 0; t < BLOCKS; t++)
		cr_assert(same(got[t], combine(op, x[t], y[t])), "seed %llu, block %u",
		          (unsigned long long)seed, t);
	cr_assert(runs_fold(op, a, &fold));
	all = x[0];
	for (uint32_t t = 1; t < BLOCKS; t++)
		all = combine(op, all, x[t]);
	unroll(&fold, got);
	cr_assert(same(got[0], all), "seed %llu", (unsigned long long)seed);
	runs_fini(&list);
	runs_fini(&fold);
}

Test(runs, combinations_and_folds)
{
	for (uint64_t seed = 1; seed < 1000; seed++) {
		struct run_op op = { COLL_ALLREDUCE, seed % 2 };
		struct runs buf[2] = { { 0 } }, list[2] = { { 0 } };

		state = seed;
		for (int k = 0; k < 12; k++)
			cr_assert(runs_write(&buf[k % 2], random_run(1 + below(12))));
		for (int k = 0; k < 2; k++)
			cr_assert(runs_read(&buf[k], BLOCKS, 0, BLOCKS, &list[k]));
		state = seed;
		check_combine(op, &list[0], &list[1]);
		for (int k = 0; k < 2; k++) {
			runs_fini(&buf[k]);
			runs_fini(&list[k]);
		}
	}
}

/* What an AllGather leaves behind is one run whatever the order in which it comes. */
Test(runs, ascending_ranks_make_one_run)
{
	for (uint32_t first = 0; first < BLOCKS; first++) {
		struct runs runs = { 0 };

		for (uint32_t t = 0; t < BLOCKS; t++) {
			uint32_t i = (first + t * 7) % BLOCKS;

			cr_assert(runs_write(&runs,
			                     (struct run){ .at = i, .n = 1, .rank = (int32_t)i }));
		}
		cr_expect_eq(runs.n, 1, "%u runs", runs.n);
		cr_expect_eq(runs.run[0].stride, 1);
		runs_fini(&runs);
	}
}

Test(runs, hold_names_the_first_block_that_does_not)
{
	struct runs runs = { 0 };
	struct run want = { .n = 10, .stride = 1 }, is;
	uint32_t at = 0;
	char text[80];

	cr_assert(runs_write(&runs, want));
	cr_expect(runs_hold(&runs, want, &at, &is));
	cr_assert(runs_write(&runs, (struct run){ .at = 4, .n = 2, .rank = 5, .stride = -1 }));
	cr_expect_not(runs_hold(&runs, want, &at, &is));
	cr_expect_eq(at, 4);
	run_name(&is, text, sizeof(text));
	cr_expect_str_eq(text, "block 0 of rank 5");
	cr_assert(runs_write(&runs, (struct run){ .at = 2, .n = 1, .rank = RUN_GARBAGE }));
	cr_expect_not(runs_hold(&runs, want, &at, &is));
	cr_expect_eq(at, 2);
	run_name(&is, text, sizeof(text));
	cr_expect_str_eq(text, "garbage");
	want.n = 2;
	cr_expect(runs_hold(&runs, want, &at, &is));
	runs_fini(&runs);
}
