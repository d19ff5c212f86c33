/*
 * Binomial tree gather, for short blocks of one size.
 *
 * in:  IN[0], but the root's is in OUT.   out: OUT[i] at the root holds rank i's block, all i.
 * Ranks are counted from the root: v. In the round of distance d each of the
 * ranks d, 3d, 5d, ... gives all that it has, the blocks v .. v+d-1, to the rank
 * d before it and is done. TMP[x] holds block v+x; only the root has OUT, and
 * ranks without children send from IN.
 *
 *   P = 8, d:   1: 0-1 2-3 4-5 6-7   2: 0-2 4-6   4: 0-4
 *
 * Cost: floor(log2 P) messages one after another, at most P/2 blocks out of a
 * rank and of scratch; a block of rank v moves as many times as v has ones.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
gather_binomial(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, v = (r - q->root + P) % P;
	int n = v ? min(v & -v, P - v) : P;

	(void)arg;
	if (v && n > 1)
		copy(q, TMP, 0, IN, 0, 1);
	for (int d = 1; d < n; d *= 2)
		wait(q, r + d, 0);
	if (v)
		put_signal(q, r - (v & -v), v == (v & -v) ? OUT : TMP, v == (v & -v) ? r : v & -v,
		           n > 1 ? TMP : IN, 0, n);
}
