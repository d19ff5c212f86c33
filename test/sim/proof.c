/*
 * Every program is proven for every rank count; and small programs with one
 * known fault each, so that the proof's own rules are seen to refuse.
 *
 * PROOF_FULL=1: every argument, root and node size, too.
 */
#include "sim/proof.h"

#include "plan/verbs.h"
#include "sim/shapes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 64
#define THIN_ABOVE 16 /* ranks, arguments, roots */

struct count {
	const struct coll_row *row;
	unsigned shapes, unasked;
};

static void
prove_shape(void *arg, const struct shape *shape)
{
	struct count *c = arg;
	struct proof proof = { .row = c->row, .shape = *shape };

	cr_expect_eq(proof_run(&proof), 0, "%s", oriel_detail());
	c->shapes++;
	c->unasked += proof.tmp_unasked;
}

Test(proof, every_program_is_right)
{
	int thin_above = getenv("PROOF_FULL") ? MAX_RANKS : THIN_ABOVE;

	for (size_t i = 0; i < coll_rows; i++) {
		struct count c = { .row = &coll_table[i] };

		if (!shapes_wanted(c.row))
			continue;
		for (int size = 1; size <= MAX_RANKS; size++)
			shapes_each(c.row, size, thin_above, prove_shape, &c);
		printf("%-24s proven for %5u shapes; TMP needs no asking in %u\n",
		       c.row->program.name, c.shapes, c.unasked);
		fflush(stdout);
		cr_expect_gt(c.shapes, 0, "%s", c.row->program.name);
	}
}

static bool
same_ops(const struct plan *a, const struct plan *b)
{
	bool same = true;

	for (unsigned k = 0; k < MBOX_QUEUES; k++) {
		const struct plan_queue *q = &a->queue[k];

		same &= q->n == b->queue[k].n &&
		        (!q->n || !memcmp(q->ops, b->queue[k].ops, q->n * sizeof(*q->ops)));
	}
	return same;
}

/* So they need no proof for each node size. */
Test(proof, rows_that_fit_every_shape_know_of_no_nodes)
{
	for (size_t i = 0; i < coll_rows; i++)
		for (int node = 1; node <= 6 && !coll_table[i].unfit; node++) {
			struct shape flat = { .size = 12, .arg = coll_clip(&coll_table[i], 12, 3) };
			struct shape split = flat;
			struct plan *a, *b;

			split.node = node == 5 ? 12 : node;
			for (int r = 0; r < flat.size; r++) {
				cr_assert_eq(plan_build(&coll_table[i].program, &flat, r, &a), 0);
				cr_assert_eq(plan_build(&coll_table[i].program, &split, r, &b), 0);
				cr_expect(same_ops(a, b), "%s", coll_table[i].program.name);
				plan_free(a);
				plan_free(b);
			}
		}
}

/* ---- One fault each ---- */

static int64_t
any(const struct shape *shape)
{
	return shape->arg;
}

/* Proves build as an algorithm of op for size ranks; the closed forms all say cost. */
static int
prove(enum coll_op op, void (*build)(struct queue *q, int arg), unsigned n_queues, int size,
      int cost, bool *unasked)
{
	const struct coll_row row = { .program = { "test/program",
		                                   build,
		                                   n_queues,
		                                   { { blocks_ranks, false },
		                                     { blocks_ranks, true },
		                                     { blocks_ranks, false } } },
		                      .op = op,
		                      .rounds = any,
		                      .blocks = any,
		                      .total = any };
	struct proof proof = { .row = &row, .shape = { .size = size, .arg = cost } };
	int rc = proof_run(&proof);

	if (unasked)
		*unasked = proof.tmp_unasked;
	return rc;
}

static void
refuses(enum coll_op op, void (*build)(struct queue *q, int arg), unsigned n_queues, int size,
        const char *why)
{
	int rc = prove(op, build, n_queues, size, 0, NULL);

	cr_expect_eq(rc, ORIEL_EMISMATCH, "not refused: %s", why);
	cr_expect(strstr(oriel_detail(), why), "\"%s\" is not in \"%s\"", why, oriel_detail());
}

static void
batch_without_wait(struct queue *q, int arg)
{
	(void)arg;
	signal(q, q->rank + 1);
	signal(q, q->rank + 1);
	wait(q, q->rank - 1, 0);
}

static void
wait_without_batch(struct queue *q, int arg)
{
	(void)arg;
	signal(q, q->rank + 1);
	wait(q, q->rank - 1, 0);
	wait(q, q->rank - 1, 0);
}

static void
put_without_signal(struct queue *q, int arg)
{
	(void)arg;
	put_signal(q, q->rank + 1, OUT, 0, OUT, 1, 1);
	put(q, q->rank + 1, OUT, 1, OUT, 1, 1);
	wait(q, q->rank - 1, 0);
}

Test(proof, batches_and_waits_match)
{
	refuses(COLL_BARRIER, batch_without_wait, 1, 3,
	        "rank 1 never waits for the batch of rank 0 queue 0 op 1 (signal to 1)");
	refuses(COLL_BARRIER, wait_without_batch, 1, 3,
	        "rank 0 queue 0 op 2 (wait for batch 2 of 2 queue 0): only 1 are sent");
	refuses(COLL_BARRIER, put_without_signal, 1, 3,
	        "no signal follows rank 0 queue 0 op 1 (put to 1: out[1] = out[1], 1 blocks)");
}

static void
all_wait_first(struct queue *q, int arg)
{
	(void)arg;
	wait(q, q->rank - 1, 0);
	signal(q, q->rank + 1);
}

/* Two queues in a crossing order: fine, unless they are one queue. */
static void
waits_in_one_queue(struct queue *q, int arg)
{
	(void)arg;
	wait(&q[0], q->rank - 1, 1);
	signal(&q[1], q->rank + 1);
}

static void
waits_behind(struct queue *q, int arg)
{
	(void)arg;
	signal(&q[1], q->rank + 1);
	wait(&q[0], q->rank - 1, 1);
}

Test(proof, deadlocks)
{
	int rc;

	refuses(COLL_BARRIER, all_wait_first, 1, 3, "deadlock: rank 0 queue 0 op 0 (wait");
	refuses(COLL_BARRIER, waits_in_one_queue, 2, 3,
	        "deadlock if a rank's queues are merged: rank 0 queue 0 op 0 (wait");
	/* Right, but for its cost: one round, no blocks. */
	rc = prove(COLL_BARRIER, waits_behind, 2, 2, 0, NULL);
	cr_expect_eq(rc, ORIEL_EMISMATCH);
	cr_expect(strstr(oriel_detail(), "1 rounds, 0 blocks out of a rank, 0 in all"), "%s",
	          oriel_detail());
}

static void
passes_on_too_early(struct queue *q, int arg)
{
	(void)arg;
	put_signal(q, q->rank + 1, TMP, 0, OUT, q->rank, 1);
	copy(q, OUT, q->rank - 1, TMP, 0, 1);
	wait(q, q->rank - 1, 0);
}

/* The second put may land while the first is still being copied out. */
static void
lands_on_the_unread(struct queue *q, int arg)
{
	(void)arg;
	for (int i = 0; i < 2; i++)
		put_signal(q, q->rank + 1, TMP, 0, OUT, q->rank, 1);
	for (int i = 0; i < 2; i++) {
		wait(q, q->rank - 1, 0);
		copy(q, OUT, q->rank - 1, TMP, 0, 1);
	}
}

/* The answer that lets the second put go is given before the copy. */
static void
answers_too_early(struct queue *q, int arg)
{
	(void)arg;
	put_signal(q, q->rank + 1, TMP, 0, OUT, q->rank, 1);
	wait(q, q->rank - 1, 0);
	signal(q, q->rank - 1);
	copy(q, OUT, q->rank - 1, TMP, 0, 1);
	wait(q, q->rank + 1, 0);
	put_signal(q, q->rank + 1, TMP, 0, OUT, q->rank, 1);
	wait(q, q->rank - 1, 0);
}

static void
changes_its_source(struct queue *q, int arg)
{
	(void)arg;
	put_signal(q, q->rank + 1, TMP, 0, OUT, q->rank, 1);
	wait(q, q->rank - 1, 0);
	copy(q, OUT, q->rank, TMP, 0, 1);
}

/* The source is free: by the answer of the one that got it, or by a flush. */
static void
changes_its_source_late(struct queue *q, int arg)
{
	(void)arg;
	put_signal(q, q->rank + 1, TMP, 0, OUT, q->rank, 1);
	wait(q, q->rank - 1, 0);
	signal(q, q->rank - 1);
	wait(q, q->rank + 1, 0);
	copy(q, OUT, q->rank, TMP, 0, 1);
	put_signal(q, q->rank + 1, TMP, 1, OUT, q->rank, 1);
	wait(q, q->rank - 1, 0);
	flush(q);
	copy(q, OUT, q->rank, TMP, 1, 1);
}

static void
two_queues_race(struct queue *q, int arg)
{
	(void)arg;
	copy(&q[0], TMP, 0, OUT, 0, 1);
	copy(&q[1], TMP, 0, OUT, 1, 1);
}

Test(proof, races)
{
	refuses(COLL_ALLGATHER, passes_on_too_early, 1, 3,
	        "root 0, node 0: read before arrival, tmp[0] of rank ");
	refuses(COLL_ALLGATHER, lands_on_the_unread, 1, 3, "two writes in any order, tmp[0] of");
	refuses(COLL_ALLGATHER, answers_too_early, 1, 3,
	        "overwritten before it is read, tmp[0] of rank 1: rank 1 queue 0 op 3 (copy "
	        "out[0] = tmp[0], 1 blocks) reads it and rank 0 queue 0 op 5 (put_signal to 1: "
	        "tmp[0] = out[0], 1 blocks) writes it, in no order");
	refuses(COLL_ALLGATHER, changes_its_source, 1, 3, "source changed before its flush");
	refuses(COLL_ALLGATHER, changes_its_source_late, 1, 3,
	        "a block goes where one of another length belongs");
	refuses(COLL_ALLGATHER, two_queues_race, 2, 3, "two writes in any order, tmp[0] of rank 0");
}

/* Both queues see the same batch, so both may read; the batch counts once. */
static void
both_queues_wait(struct queue *q, int arg)
{
	(void)arg;
	put_signal(&q[0], q->rank + 1, TMP, 0, OUT, q->rank, 1);
	wait(&q[0], q->rank - 1, 0);
	wait(&q[1], q->rank - 1, 0);
	copy(&q[0], TMP, 1, TMP, 0, 1);
	copy(&q[1], OUT, q->rank - 1, TMP, 0, 1);
}

static void
one_queue_waits(struct queue *q, int arg)
{
	(void)arg;
	put_signal(&q[0], q->rank + 1, TMP, 0, OUT, q->rank, 1);
	wait(&q[0], q->rank - 1, 0);
	copy(&q[1], OUT, q->rank - 1, TMP, 0, 1);
}

Test(proof, each_queue_waits_for_itself)
{
	refuses(COLL_ALLGATHER, both_queues_wait, 2, 2, "1 rounds, 1 blocks out of a rank, 2 in");
	refuses(COLL_ALLGATHER, one_queue_waits, 2, 2, "read before arrival, tmp[0] of rank");
}

static void
overlapping_reduce(struct queue *q, int arg)
{
	(void)arg;
	reduce(q, TMP, 1, IN, 0, TMP, 0, 2);
}

static void
overlapping_fold(struct queue *q, int arg)
{
	(void)arg;
	fold(q, TMP, 1, TMP, 0, 3);
}

static void
wrapping_fold(struct queue *q, int arg)
{
	(void)arg;
	fold(q, TMP, 0, OUT, 1, 3);
}

static void
out_at_all_ranks(struct queue *q, int arg)
{
	(void)arg;
	copy(q, OUT, 0, IN, 0, 1);
}

Test(proof, operands_and_buffers)
{
	refuses(COLL_ALLREDUCE, overlapping_reduce, 1, 3,
	        "rank 0 queue 0 op 0 (reduce tmp[1] = in[0] op tmp[0], 2 blocks) has operands that "
	        "overlap");
	refuses(COLL_ALLREDUCE, overlapping_fold, 1, 3, "one of its terms that is not the first");
	refuses(COLL_ALLREDUCE, wrapping_fold, 1, 3, "goes beyond the buffer's end");
	refuses(COLL_REDUCE, out_at_all_ranks, 1, 3, "rank 1 has no out: rank 1 queue 0 op 0");
}

/* From rank 0 into TMP; the others say nothing, so rank 0 may be a call ahead. */
static void
tells_nothing(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank == 0)
		put_signal(q, 1, TMP, 0, OUT, 0, 1);
	else
		wait(q, 0, 0);
}

/* The same, when rank 1 has said that it is in the call. */
static void
asks(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank == 0)
		wait(q, 1, 0);
	else
		signal(q, 0);
	tells_nothing(q, arg);
}

Test(proof, when_tmp_may_be_written_again)
{
	bool unasked = false;

	/* Bcast of two ranks that leaves OUT to nobody: only IN of the root counts here. */
	cr_expect_eq(prove(COLL_OPS, tells_nothing, 1, 2, 1, &unasked), 0, "%s", oriel_detail());
	cr_expect_not(unasked);
	refuses(COLL_OPS, asks, 1, 2, "2 rounds, 1 blocks out of a rank, 1 in all");
	cr_expect_eq(prove(COLL_OPS, tells_nothing, 1, 2, 2, &unasked), ORIEL_EMISMATCH);
}
