/*
 * Ring AllGather.
 *
 * in:  OUT[r] holds rank r's block.   out: OUT[i] holds rank i's block, all i.
 * Every block goes once around, to the right: in step s rank r passes on block
 * r-s, which came in the step before (its own in step 0), and gets block r-1-s.
 * Cost: P-1 rounds, P-1 blocks out of each rank, no scratch.
 * Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication:
 * theory, practice, and experience", Concurrency and Computation 19(13), 2007.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allgather_ring(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	for (int s = 0; s < P - 1; s++) {
		put_signal(q, r + 1, OUT, r - s, OUT, r - s, 1);
		wait(q, r - 1, 0);
	}
}
