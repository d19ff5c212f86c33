/*
 * Rabenseifner's AllReduce, any rank count: recursive halving, then recursive doubling.
 *
 * in:  IN is rank r's vector in p blocks.   out: OUT is the reduction, the same bits at all ranks.
 * p is the largest power of two up to P. Of the first 2(P-p) ranks each odd one
 * gives its vector to the even one before it and gets the result at the end, so
 * that p are left, numbered v in the ranks' order. They begin with the whole
 * vector; in the round of distance d v and v^d share what they both have got, d
 * numbers' terms each: the one without bit d keeps the lower half, the other the
 * upper one. So neighbours exchange the large halves, and lower ranks' terms stand
 * on the left. Then the same way back, with the pieces growing together in OUT.
 * Half of size h comes into TMP[h] and on, the odd ranks' vectors into TMP[p] and on.
 * Cost: 2 log2(p) rounds and 2(p-1) blocks out of each rank, two more rounds and p
 * more blocks if P is no power of two; p or 2p blocks of scratch.
 * Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_rabenseifner(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, p = power_below(P + 1), extra = P - p;
	int v = r < 2 * extra ? r / 2 : r - extra, low = 0, d, h;
	enum plan_buf mine = IN;

	(void)arg;
	if (P == 1)
		copy(q, OUT, 0, IN, 0, 1);
	if (r < 2 * extra && r % 2) {
		put_signal(q, r - 1, TMP, p, IN, 0, p);
		wait(q, r - 1, 0);
		return;
	}
	if (r < 2 * extra) {
		wait(q, r + 1, 0);
		reduce(q, OUT, 0, IN, 0, TMP, p, p);
		mine = OUT;
	}
	for (d = 1, h = p / 2; d < p; d *= 2, h /= 2, mine = OUT) {
		int w = v ^ d, peer = w < extra ? 2 * w : w + extra;

		put_signal(q, peer, TMP, h, mine, v < w ? low + h : low, h);
		low = v < w ? low : low + h;
		wait(q, peer, 0);
		if (v < w)
			reduce(q, OUT, low, mine, low, TMP, h, h);
		else
			reduce(q, OUT, low, TMP, h, mine, low, h);
	}
	for (d = p / 2, h = 1; d; d /= 2, h *= 2) {
		int w = v ^ d, peer = w < extra ? 2 * w : w + extra;

		put_signal(q, peer, OUT, low, OUT, low, h);
		wait(q, peer, 0);
		low = v < w ? low : low - h;
	}
	if (r < 2 * extra)
		put_signal(q, r + 1, OUT, 0, OUT, 0, p);
}
