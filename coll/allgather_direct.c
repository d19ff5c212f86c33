/*
 * Direct AllGather.
 *
 * in:  OUT[r] holds rank r's block.   out: OUT[i] holds rank i's block, all i.
 * Every rank puts its block into all others at once, each beginning with its
 * right neighbour, so that at any time every rank is about one rank's target.
 * Cost: 1 round, P-1 blocks out of each rank, no scratch.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005 (the "spread out" order of targets).
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allgather_direct(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	for (int k = 1; k < P; k++)
		put_signal(q, r + k, OUT, r, OUT, r, 1);
	for (int k = 1; k < P; k++)
		wait(q, r - k, 0);
}
