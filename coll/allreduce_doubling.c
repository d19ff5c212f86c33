/*
 * Recursive doubling AllReduce, any rank count.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] is the reduction, the same bits at all ranks.
 * p is the largest power of two up to P. Of the first 2(P-p) ranks each odd one
 * gives its term to the even one before it and gets the result at the end, so
 * that p are left, numbered v in the ranks' order. Before the round of distance d
 * number v has the reduction of the d numbers around it (from v - v % d); it
 * exchanges that with number v^d. Lower ranks' terms stand on the left, at both.
 * Cost: floor(log2 P) rounds and blocks out of each rank; unless P is a power of two
 * another block and one more round, or two if P > 1.5 p; floor(log2 P) + 1 blocks of scratch.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_doubling(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, p = power_below(P + 1), extra = P - p;
	int v = r < 2 * extra ? r / 2 : r - extra, k = 0;
	enum plan_buf mine = IN;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	if (r < 2 * extra && r % 2) {
		put_signal(q, r - 1, TMP, k, IN, 0, 1);
		wait(q, r - 1, 0);
		return;
	}
	if (r < 2 * extra) {
		wait(q, r + 1, 0);
		reduce(q, OUT, 0, mine, 0, TMP, k, 1);
		mine = OUT;
	}
	for (int d = 1; d < p; d *= 2, mine = OUT) {
		int w = v ^ d, peer = w < extra ? 2 * w : w + extra;

		put_signal(q, peer, TMP, ++k, mine, 0, 1);
		wait(q, peer, 0);
		flush(q);
		if (v < w)
			reduce(q, OUT, 0, mine, 0, TMP, k, 1);
		else
			reduce(q, OUT, 0, TMP, k, mine, 0, 1);
	}
	if (r < 2 * extra)
		put_signal(q, r + 1, OUT, 0, OUT, 0, 1);
}
