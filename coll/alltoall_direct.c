/*
 * Direct AllToAll with a bounded number of blocks under way.
 *
 * in:  IN[i] is for rank i; OUT[r] is there.   out: OUT[i] is IN[r] of rank i, all i.
 * Rank r puts into r+1, r+2, ..., and is never more than window puts ahead of
 * what it got from r-1, r-2, ...: as all do so, about window blocks are on the
 * way into a rank at a time. window P-1: all at once.
 * Cost: ceil((P-1) / window) rounds, P-1 blocks out of each rank, no scratch.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
alltoall_direct(struct queue *q, int window)
{
	int P = q->size, r = q->rank;

	for (int k = 1; k < P + window; k++) {
		if (k > window)
			wait(q, r - (k - window), 0);
		if (k < P)
			put_signal(q, r + k, OUT, r, IN, r + k, 1);
	}
}
