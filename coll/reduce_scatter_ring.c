/*
 * Ring ReduceScatter.
 *
 * in:  IN[i] is rank r's term of block i, all i.   out: OUT[0] is block r of the reduction.
 * Block b starts at rank b+1 and goes once around to the right, and each rank
 * adds its term: in step s rank r passes on block r-1-s and gets block r-2-s,
 * which after the last step is its own. The terms come in the ring's order.
 * TMP's two blocks take turns; a rank gives its left neighbour credit for one
 * when what was in it has been passed on.
 * Cost: P-1 rounds, P-1 blocks out of each rank, 2 blocks of scratch.
 * Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication:
 * theory, practice, and experience", Concurrency and Computation 19(13), 2007.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_scatter_ring(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, last = P - 2;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	for (int s = 0; s <= last; s++) {
		if (s >= 2)
			wait(q, r + 1, 0); /* credit */
		put_signal(q, r + 1, TMP, s % 2, s ? TMP : IN, s ? (s - 1) % 2 : r - 1, 1);
		if (s >= 1 && s < last) {
			flush(q);
			signal(q, r - 1); /* credit */
		}
		wait(q, r - 1, 0);
		if (s == last)
			flush(q); /* OUT may be IN's first block */
		reduce(q, s < last ? TMP : OUT, s < last ? s % 2 : 0, TMP, s % 2, IN, r - 2 - s, 1);
	}
}
