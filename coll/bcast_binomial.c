/*
 * Binomial tree broadcast.
 *
 * in:  OUT[0] at the root.   out: OUT[0] is the root's, everywhere.
 * Ranks are counted from the root: v. In the round of distance d, the largest
 * first, each of the ranks 0, 2d, 4d, ... gives what it has to the rank d
 * further on, so that afterwards every d-th rank has it.
 *
 *   P = 8, d:   4: 0-4   2: 0-2 4-6   1: 0-1 2-3 4-5 6-7
 *
 * Cost: floor(log2 P) messages one after another, at most ceil(log2 P) blocks out
 * of a rank, the root; P-1 in all; no scratch.
 * Source: Johnsson, Ho, "Optimum broadcasting and personalized communication in
 * hypercubes", IEEE Transactions on Computers 38(9), 1989.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
bcast_binomial(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, v = (r - q->root + P) % P;

	(void)arg;
	for (int d = power_below(P); d; d /= 2) {
		if (v % (2 * d) == 0 && v + d < P)
			put_signal(q, r + d, OUT, 0, OUT, 0, 1);
		if (v % (2 * d) == d)
			wait(q, r - d, 0);
	}
}
