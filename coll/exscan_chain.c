/*
 * Chain ExScan: for vectors so long that their chunks keep all ranks busy.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] is the reduction of ranks 0 .. r-1; rank 0's
 * is left as it is.
 * What comes from rank r-1 is the result; with rank r's term on its right it goes
 * on to rank r+1. It comes into TMP, for OUT may be IN, which is needed until then.
 * Cost: P-1 rounds, 1 block out of each rank but the last, 2 blocks of scratch.
 * Source: the linear pipeline of Sanders, Traff, "Parallel prefix (scan) algorithms for MPI",
 * EuroPVM/MPI 2006.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
exscan_chain(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	if (r > 0)
		wait(q, r - 1, 0);
	if (r > 0 && r + 1 < P)
		reduce(q, TMP, 1, TMP, 0, IN, 0, 1);
	if (r + 1 < P)
		put_signal(q, r + 1, TMP, 0, r ? TMP : IN, r ? 1 : 0, 1);
	if (r > 0)
		copy(q, OUT, 0, TMP, 0, 1);
}
