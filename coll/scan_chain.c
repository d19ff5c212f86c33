/*
 * Chain Scan: for vectors so long that their chunks keep all ranks busy.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] is the reduction of ranks 0 .. r.
 * What comes from rank r-1 stands on the left of rank r's term; the result goes on
 * to rank r+1.
 * Cost: P-1 rounds, 1 block out of each rank but the last, 1 block of scratch.
 * Source: the linear pipeline of Sanders, Traff, "Parallel prefix (scan) algorithms for MPI",
 * EuroPVM/MPI 2006.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
scan_chain(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;

	(void)arg;
	if (r > 0) {
		wait(q, r - 1, 0);
		reduce(q, OUT, 0, TMP, 0, IN, 0, 1);
	}
	if (r + 1 < P)
		put_signal(q, r + 1, TMP, 0, r ? OUT : IN, 0, 1);
	if (r == 0)
		copy(q, OUT, 0, IN, 0, 1);
}
