/*
 * Halving Reduce, any rank count: halving ReduceScatter, then the direct Gather.
 *
 * in:  IN is rank r's vector in P blocks.   out: OUT at root is the reduction.
 * First as reduce_scatter_halving.c. Then block r is complete at rank r, in TMP[1],
 * and goes into root's OUT. If that is root's IN, root has no more use for the
 * block that comes: its term of it is in the result.
 * Cost: ceil(log2 P) + 1 rounds, P blocks out of each rank (of root P-1), P blocks
 * of scratch.
 * Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Traff,
 * "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024, doi 10.34726/10760.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_halving(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, root = q->root, have = 0;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	for (int d = power_below(P); d; d /= 2) {
		int n = min(d, P - d), k = min(n, have), up = have > d ? min(n, have - d) : 0;
		enum plan_buf to = d == 1 && r == root ? OUT : TMP;
		int at = to == OUT ? r : d;

		put(q, r + d, TMP, d, TMP, 3 * d, up);
		put(q, r + d, TMP, d + up, IN, r + d + up, n - up);
		signal(q, r + d);
		wait(q, r - d, 0);
		reduce(q, to, at, TMP, 2 * d, TMP, d, k);
		reduce(q, to, at + k, IN, r + k, TMP, d + k, n - k);
		have = n;
	}
	if (r != root)
		put_signal(q, root, OUT, r, TMP, 1, 1);
	for (int s = 1; s < P && r == root; s++)
		wait(q, r - s, 0);
}
