/*
 * Pairwise AllToAll: one partner a round.
 *
 * in:  IN[i] is for rank i; OUT[r] is there.   out: OUT[i] is IN[r] of rank i, all i.
 * L is the largest power of two that divides P: ranks fall into groups of L. In
 * round s = a L + b rank r gives to the rank (r xor b) of the a-th group to the
 * right and gets from that of the a-th group to the left. So the first L-1
 * rounds are exchanges of two ranks inside the groups, all rounds if P is a power
 * of two; if P is odd each round is a shift.
 * Cost: P-1 rounds, P-1 blocks out of each rank, no scratch.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
alltoall_pairwise(struct queue *q, int arg)
{
	int P = q->size, L = P & -P;

	(void)arg;
	for (int s = 1; s < P; s++) {
		int partner = q->rank ^ (s % L), shift = s - s % L;

		put_signal(q, partner + shift, OUT, q->rank, IN, partner + shift, 1);
		wait(q, partner - shift, 0);
	}
}
