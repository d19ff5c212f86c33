/*
 * Chain broadcast.
 *
 * in:  OUT[0] at the root.   out: OUT[0] is the root's, everywhere.
 * Each rank passes the block on to its right neighbour, from the root around to
 * the rank before it. Cut into chunks, one run of this program for each, it is
 * a pipeline: all links but one are busy, and each carries the data once.
 * Cost: P-1 rounds, 1 block out of each rank but the last, no scratch.
 * Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication:
 * theory, practice, and experience", Concurrency and Computation 19(13), 2007.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
bcast_chain(struct queue *q, int arg)
{
	int r = q->rank;

	(void)arg;
	if (r != q->root)
		wait(q, r - 1, 0);
	if ((r + 1) % q->size != q->root)
		put_signal(q, r + 1, OUT, 0, OUT, 0, 1);
}
