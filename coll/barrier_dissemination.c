/*
 * Dissemination barrier: Bruck's AllGather of nothing.
 *
 * in:  nothing.   out: every rank has entered.
 * In the round of distance d rank r tells rank r+d and hears from rank r-d.
 * After it r knows of the 2d ranks up to itself, because r-d already knew of d.
 * Cost: ceil(log2 P) rounds, no blocks.
 * Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization",
 * International Journal of Parallel Programming 17(1), 1988.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
barrier_dissemination(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	for (int d = 1; d < P; d *= 2) {
		signal(q, r + d);
		wait(q, r - d, 0);
	}
}
