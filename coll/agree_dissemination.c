/*
 * Agreement: the reduction of one block over all ranks, by dissemination.
 *
 * in:  OUT[0] is rank r's term.   out: OUT[0] is the reduction of all terms.
 * The op is idempotent (min, max, and, or), so that it does no harm when a term
 * comes twice, as it does unless P is a power of two. In the round of distance
 * d rank r adds what rank r-d knew of the d ranks up to itself.
 * Cost: ceil(log2 P) rounds, ceil(log2 P) blocks out of each rank and of scratch.
 * Source: as barrier_dissemination.c.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
agree_dissemination(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	for (int d = 1, k = 0; d < P; d *= 2, k++) {
		put_signal(q, r + d, TMP, k, OUT, 0, 1);
		wait(q, r - d, 0);
		flush(q);
		reduce(q, OUT, 0, OUT, 0, TMP, k, 1);
	}
}
