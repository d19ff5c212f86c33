/*
 * Binomial tree scatter, for short blocks of one size.
 *
 * in:  IN, P blocks, at the root; its own is in OUT.   out: OUT[0] is block r of the root's IN.
 * Ranks are counted from the root: v. In the round of distance d, the largest
 * first, each of the ranks 0, 2d, 4d, ... gives the second half of what it has,
 * the blocks v+d .. v+2d-1, to rank v+d. TMP[x] holds block v+x; only the root
 * has IN, and a rank without children gets its block in OUT.
 * Cost: floor(log2 P) messages one after another, at most P-1 blocks out of a
 * rank, the root, and P/2 of scratch; rank v's block moves as many times as v has ones.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
scatter_binomial(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, v = (r - q->root + P) % P;

	(void)arg;
	for (int d = power_below(P); d; d /= 2) {
		int n = min(d, P - v - d);

		if (v % (2 * d) == 0 && n > 0)
			put_signal(q, r + d, n > 1 ? TMP : OUT, 0, v ? TMP : IN, v ? d : r + d, n);
		if (v % (2 * d) == d)
			wait(q, r - d, 0);
	}
	if (v && v % 2 == 0 && v + 1 < P)
		copy(q, OUT, 0, TMP, 0, 1);
}
