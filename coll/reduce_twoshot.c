/*
 * Two-shot Reduce: the direct ReduceScatter, then the direct Gather. For long vectors.
 *
 * in:  IN is rank r's vector in P blocks.   out: OUT at root is the reduction.
 * Rank i gets everyone's terms of block i, folds them in the ranks' order, rounded
 * once, and puts the result into root's OUT. If that is root's IN, root has no more
 * use for the block that comes: its term of it is in the result.
 * Cost: 2 rounds, P blocks out of each rank (of root P-1), P blocks of scratch.
 * Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004,
 * with one step in place of each of its two phases.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_twoshot(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, s;

	(void)arg;
	for (s = 1; s < P; s++)
		put_signal(q, r + s, TMP, r, IN, r + s, 1);
	copy(q, TMP, r, IN, r, 1);
	for (s = 1; s < P; s++)
		wait(q, r - s, 0);
	if (r != q->root) {
		fold(q, TMP, 0, TMP, 0, P);
		put_signal(q, q->root, OUT, r, TMP, 0, 1);
		return;
	}
	fold(q, OUT, r, TMP, 0, P);
	for (s = 1; s < P; s++)
		wait(q, r - s, 0);
}
