/*
 * Two-shot AllReduce: the direct ReduceScatter, then the direct AllGather.
 *
 * in:  IN is rank r's vector in P blocks.   out: OUT is the reduction, the same bits at all ranks.
 * Rank i gets everyone's terms of block i, folds them in the ranks' order, rounded
 * once, and puts the result into everyone's OUT. A rank whose OUT is its IN has no
 * more use for the block that comes: its term of it is in the result.
 * Cost: 2 rounds, 2(P-1) blocks out of each rank, P blocks of scratch.
 * Source: the strategy TWOSHOT of NVIDIA TensorRT-LLM's AllReduce.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_twoshot(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, s;

	(void)arg;
	for (s = 1; s < P; s++)
		put_signal(q, r + s, TMP, r, IN, r + s, 1);
	copy(q, TMP, r, IN, r, 1);
	for (s = 1; s < P; s++)
		wait(q, r - s, 0);
	fold(q, OUT, r, TMP, 0, P);
	for (s = 1; s < P; s++)
		put_signal(q, r + s, OUT, r, OUT, r, 1);
	for (s = 1; s < P; s++)
		wait(q, r - s, 0);
}
