/*
 * Doubling Scan.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] is the reduction of ranks 0 .. r.
 * Before the round of distance d rank r has the reduction of the d ranks up to
 * itself, or of all if they are fewer. It puts that into rank r+d and combines it
 * with what comes from rank r-d, which stands on the left.
 * OUT may be IN, and is what goes out: a put must have read it before it changes.
 * Cost: floor(log2 P) rounds, at most ceil(log2 P) blocks out of each rank and of scratch.
 * Source: Hillis, Steele, "Data parallel algorithms", Communications of the ACM 29(12), 1986.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
scan_doubling(struct queue *q, int arg)
{
	int P = q->size, r = q->rank;
	enum plan_buf mine = IN;

	(void)arg;
	for (int d = 1, k = 0; d < P; d *= 2, k++) {
		if (r + d < P)
			put_signal(q, r + d, TMP, k, mine, 0, 1);
		if (r < d)
			continue;
		wait(q, r - d, 0);
		flush(q);
		reduce(q, OUT, 0, TMP, k, mine, 0, 1);
		mine = OUT;
	}
	if (r == 0)
		copy(q, OUT, 0, IN, 0, 1);
}
