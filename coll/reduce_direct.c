/*
 * Direct Reduce.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] at root is the reduction.
 * Everyone puts its vector into root's scratch, at the place of its rank, and root
 * folds: in the ranks' order, rounded once.
 * Cost: 1 round, 1 block out of each other rank, P blocks of scratch.
 * Source: the flat tree of Vadhiyar, Fagg, Dongarra, "Automatically tuned collective
 * communications", SC 2000.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_direct(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	if (r != q->root) {
		put_signal(q, q->root, TMP, r, IN, 0, 1);
		return;
	}
	copy(q, TMP, r, IN, 0, 1);
	for (int s = 1; s < P; s++)
		wait(q, r + s, 0);
	fold(q, OUT, 0, TMP, 0, P);
}
