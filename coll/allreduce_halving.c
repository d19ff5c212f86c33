/*
 * Halving AllReduce, any rank count: Bruck's AllGather backwards, then forwards.
 *
 * in:  IN is rank r's vector in P blocks.   out: OUT is the reduction, the same bits at all ranks.
 * First as reduce_scatter_halving.c, with what the rank has got kept in OUT: the
 * first `have` of its blocks are there, the others still its terms in IN. Then
 * block r is complete at rank r, and goes out as in allgather_bruck.c, into blocks
 * of OUT that nobody reads any more: what was there is in the result.
 * Cost: 2 ceil(log2 P) rounds, 2(P-1) blocks out of each rank, P blocks of scratch.
 * Source: Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms",
 * 2024, doi 10.34726/10760.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_halving(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, have = 0, d;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	for (d = power_below(P); d; d /= 2) {
		int n = min(d, P - d), k = min(n, have), up = have > d ? min(n, have - d) : 0;

		put(q, r + d, TMP, d, OUT, r + d, up);
		put(q, r + d, TMP, d + up, IN, r + d + up, n - up);
		signal(q, r + d);
		wait(q, r - d, 0);
		reduce(q, OUT, r, OUT, r, TMP, d, k);
		reduce(q, OUT, r + k, IN, r + k, TMP, d + k, n - k);
		have = n;
	}
	for (d = 1; d < P; d *= 2) {
		put_signal(q, r - d, OUT, r, OUT, r, min(d, P - d));
		wait(q, r + d, 0);
	}
}
