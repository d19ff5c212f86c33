/*
 * Direct scatter.
 *
 * in:  IN, P blocks, at the root; its own is in OUT.   out: OUT[0] is block r of the root's IN.
 * The root puts every block where it belongs, its right neighbour's first.
 * Cost: 1 round, P-1 blocks out of the root, no scratch.
 * Source: folklore; MPI calls it the linear algorithm.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
scatter_direct(struct queue *q, int arg)
{
	int r = q->rank;

	(void)arg;
	for (int k = 1; r == q->root && k < q->size; k++)
		put_signal(q, r + k, OUT, 0, IN, r + k, 1);
	if (r != q->root)
		wait(q, q->root, 0);
}
