/*
 * Broadcast of a long vector: binomial scatter, then ring AllGather.
 *
 * in:  OUT at the root, P parts.   out: OUT is the root's, everywhere.
 * Ranks are counted from the root: v. In the scatter's round of distance d rank
 * v = 0, 2d, 4d, ... gives parts v+d .. v+2d-1 to rank v+d, which leaves each
 * rank with the parts of the tree below it: held(v) of them, from v on. Then
 * parts go around to the right as in the ring AllGather, except that nobody gets
 * what it still has from the scatter: every part comes to every rank once.
 *
 *   P = 4, after the scatter:  0123  .1..  ..23  ...3
 *
 * Cost: P-1 messages one after another (the root waits for nobody), at most
 * 2(P-1) parts out of a rank, the root; P(P-1) in all; no scratch.
 * Source: van de Geijn's algorithm in Barnett, Gupta, Payne, Shuler, van de Geijn, Watts,
 * "Interprocessor collective communication library (InterCom)", SHPCC 1994; without the parts
 * that are there already: Zhou, Marjanovic, Niethammer, Gracia, "A bandwidth-saving optimization
 * for MPI broadcast collective operation", 2015 (arXiv 1603.06809).
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
bcast_scatter_allgather(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, v = (r - q->root + P) % P;
	int held = v ? min(v & -v, P - v) : P, next = min((v + 1) & -(v + 1), P - 1 - v);

	(void)arg;
	for (int d = power_below(P); d; d /= 2) {
		if (v % (2 * d) == 0 && v + d < P)
			put_signal(q, r + d, OUT, v + d, OUT, v + d, min(d, P - v - d));
		if (v % (2 * d) == d)
			wait(q, r - d, 0);
	}
	for (int s = 0; s < P - 1; s++) {
		if (next && s < P - next)
			put_signal(q, r + 1, OUT, v - s, OUT, v - s, 1);
		if (s < P - held)
			wait(q, r - 1, 0);
	}
}
