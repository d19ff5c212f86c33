/*
 * Halving ReduceScatter, any rank count: Bruck's AllGather backwards.
 *
 * in:  IN[i] is rank r's term of block i, all i.   out: OUT[0] is block r of the reduction.
 * Before the round of distance d rank r has to do with blocks r .. r+2d-1 (at
 * first r .. r+P-1). It puts what it has of the upper half into rank r+d, whose
 * lower half that is, and gets so much of its own lower half from rank r-d:
 *
 *   P = 6, rank r:   d = 4   r  r+1 r+2 r+3 [r+4 r+5]     puts two blocks
 *                    d = 2   r  r+1[r+2 r+3]
 *                    d = 1   r [r+1]
 *
 * Every term moves into exactly one other rank's part, so all are in once. What
 * comes in the round of distance d is TMP[d] and on, each block used once; the
 * first `have` of the rank's blocks are there, the others still its terms in IN.
 * Cost: ceil(log2 P) rounds, P-1 blocks out of each rank, P blocks of scratch.
 * Source: Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms",
 * 2024, doi 10.34726/10760; for powers of two recursive halving: Thakur, Rabenseifner, Gropp,
 * "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_scatter_halving(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, have = 0;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	for (int d = power_below(P); d; d /= 2) {
		int n = min(d, P - d), k = min(n, have), up = have > d ? min(n, have - d) : 0;
		enum plan_buf to = d > 1 ? TMP : OUT;
		int at = d > 1 ? d : 0;

		put(q, r + d, TMP, d, TMP, 3 * d, up);
		put(q, r + d, TMP, d + up, IN, r + d + up, n - up);
		signal(q, r + d);
		wait(q, r - d, 0);
		if (d == 1)
			flush(q);
		reduce(q, to, at, TMP, 2 * d, TMP, d, k);
		reduce(q, to, at + k, IN, r + k, TMP, d + k, n - k);
		have = n;
	}
}
