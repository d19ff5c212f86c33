/*
 * Ring AllReduce: ring ReduceScatter, then ring AllGather.
 *
 * in:  IN is rank r's vector in P blocks.   out: OUT is the reduction, the same bits at all ranks.
 * Block b starts at rank b and goes nearly twice around to the right: in step s
 * rank r passes on block r-s and gets block r-1-s. In the first P-1 steps each rank
 * adds its term; then the block is complete and is passed on into OUT, where it
 * has been before, so that nobody reads that block any more.
 * TMP's two blocks take turns; a rank gives its left neighbour credit for one
 * when what was in it has been added.
 * Cost: 2(P-1) rounds, 2(P-1) blocks out of each rank, 2 blocks of scratch.
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", Journal of Parallel and Distributed Computing 69(2), 2009.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_ring(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, s;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	for (s = 0; s < P - 1; s++) {
		if (s >= 2)
			wait(q, r + 1, 0); /* credit */
		put_signal(q, r + 1, TMP, s % 2, s ? OUT : IN, r - s, 1);
		wait(q, r - 1, 0);
		reduce(q, OUT, r - 1 - s, TMP, s % 2, IN, r - 1 - s, 1);
		if (s + 2 < P - 1)
			signal(q, r - 1); /* credit */
	}
	for (; s < 2 * (P - 1); s++) {
		put_signal(q, r + 1, OUT, r - s, OUT, r - s, 1);
		wait(q, r - 1, 0);
	}
}
