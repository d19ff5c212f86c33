/*
 * Direct ReduceScatter.
 *
 * in:  IN[i] is rank r's term of block i, all i.   out: OUT[0] is block r of the reduction.
 * Everyone puts its terms of block i into rank i, at the place of its rank, and
 * rank i folds what it has got: in the ranks' order, rounded once.
 * OUT may be the first block of IN, which a put must have read by then.
 * Cost: 1 round, P-1 blocks out of each rank, P blocks of scratch.
 * Source: the pairwise exchange of Thakur, Rabenseifner, Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 19(1), 2005, with all its steps at once.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_scatter_direct(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, s;

	(void)arg;
	for (s = 1; s < P; s++)
		put_signal(q, r + s, TMP, r, IN, r + s, 1);
	copy(q, TMP, r, IN, r, 1);
	for (s = 1; s < P; s++)
		wait(q, r - s, 0);
	flush(q);
	fold(q, OUT, 0, TMP, 0, P);
}
