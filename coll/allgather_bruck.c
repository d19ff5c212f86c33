/*
 * Bruck AllGather, any radix.
 *
 * in:  OUT[r] holds rank r's block.   out: OUT[i] holds rank i's block, all i.
 * Before the round of distance d rank r holds the d blocks r .. r+d-1. It puts
 * them, at the same place, into ranks r-d, r-2d, ... and so gets the next
 * (radix-1) d blocks from ranks r+d, r+2d, ...; in the last round only what is
 * missing. One-sided, so no rotation and no scratch. radix P: one round, direct.
 * Cost: ceil(log_radix P) rounds, P-1 blocks out of each rank, no scratch.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for
 * all-to-all communications in multiport message-passing systems", IEEE TPDS
 * 8(11), 1997.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allgather_bruck(struct queue *q, int radix)
{
	int P = q->size, r = q->rank, j;

	for (long d = 1; d < P; d *= radix) {
		for (j = 1; j < radix && j * d < P; j++)
			put_signal(q, r - j * d, OUT, r, OUT, r, min(d, P - j * d));
		for (j = 1; j < radix && j * d < P; j++)
			wait(q, r + j * d, 0);
	}
}
