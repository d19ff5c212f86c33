/*
 * Direct gather.
 *
 * in:  IN[0], but the root's is in OUT.   out: OUT[i] at the root holds rank i's block, all i.
 * Everyone puts its block where it belongs.
 * Cost: 1 round, 1 block out of each rank but the root, no scratch.
 * Source: folklore; MPI calls it the linear algorithm.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
gather_direct(struct queue *q, int arg)
{
	int r = q->rank;

	(void)arg;
	if (r != q->root)
		put_signal(q, q->root, OUT, r, IN, 0, 1);
	for (int k = 1; r == q->root && k < q->size; k++)
		wait(q, r + k, 0);
}
