/*
 * Doubling ExScan.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] is the reduction of ranks 0 .. r-1; rank 0's
 * is left as it is.
 * As scan_doubling.c, but OUT gets only what comes from below. What the rank puts
 * into others has its own term in it, and is kept beside: the incoming block of
 * round k is TMP[k], what goes out after it TMP[log2 P + k], at the ranks that
 * still have somebody to put it into.
 * OUT may be IN, which the first put must have read before OUT changes.
 * Cost: floor(log2 P) rounds, at most ceil(log2 P) blocks out of each rank, twice so many of
 * scratch. Source: Hillis, Steele, "Data parallel algorithms", Communications of the ACM 29(12),
 * 1986.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
exscan_doubling(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, at = 0, kept = 0, k = 0, d;
	enum plan_buf mine = IN;

	(void)arg;
	for (d = 1; d < P; d *= 2)
		kept++;
	for (d = 1; d < P; d *= 2, k++) {
		if (r + d < P)
			put_signal(q, r + d, TMP, k, mine, at, 1);
		if (r < d)
			continue;
		wait(q, r - d, 0);
		if (r + 2 * d < P)
			reduce(q, TMP, kept + k, TMP, k, mine, at, 1);
		mine = TMP;
		at = kept + k;
		if (d == 1) {
			flush(q);
			copy(q, OUT, 0, TMP, k, 1);
		} else {
			reduce(q, OUT, 0, TMP, k, OUT, 0, 1);
		}
	}
}
