/*
 * Bruck AllToAll, any radix, for short blocks of one size.
 *
 * in:  IN[i] is for rank i; OUT[r] is there.   out: OUT[i] is IN[r] of rank i, all i.
 * A block that has k ranks to go, to the right, goes by the digits of k: in the
 * round of d = radix^x all blocks whose digit x is j go j d ranks further, in one
 * message. All the way it is kept in OUT[r-k], r being the rank where it is: that
 * is its place at the end, where it has come k ranks. Those with digit j are runs
 * of d neighbours, one every radix d; they are packed into TMP[0 .. P-1] and
 * arrive behind it, each round's in a place of its own, because nobody says when
 * a place may be used again.
 *
 *   P = 8, radix 2:   d = 1: k = 1 3 5 7   d = 2: k = 23 67   d = 4: k = 4567
 *
 * Cost: ceil(log_radix P) rounds; out of each rank as many blocks as the numbers
 * below P have digits that are not 0, about P/2 log2 P for radix 2; scratch: those
 * and P. radix P: one round, direct, but packed.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for
 * all-to-all communications in multiport message-passing systems", IEEE TPDS
 * 8(11), 1997.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
alltoall_bruck(struct queue *q, int radix)
{
	int P = q->size, r = q->rank, at = P, n, j;

	for (j = 1; j < P; j++)
		copy(q, OUT, r - j, IN, r + j, 1);
	for (long d = 1, k; d < P; d *= radix) {
		flush(q); /* What the round before packed. */
		for (j = 1, n = 0; j < radix && j * d < P; j++) {
			int first = n;

			for (k = j * d; k < P; n += min(d, P - k), k += radix * d)
				copy(q, TMP, n, OUT, r + 1 - min(k + d, P), min(d, P - k));
			put_signal(q, r + j * d, TMP, at + first, TMP, first, n - first);
		}
		for (j = 1; j < radix && j * d < P; j++) {
			wait(q, r - j * d, 0);
			for (k = j * d; k < P; at += min(d, P - k), k += radix * d)
				copy(q, OUT, r + 1 - min(k + d, P), TMP, at, min(d, P - k));
		}
	}
}
