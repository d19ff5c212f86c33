/*
 * One-shot AllReduce: for vectors so small that only the round counts.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] is the reduction, the same bits at all ranks.
 * Everyone puts its vector into everyone's scratch, at the place of its rank, and
 * folds what it has got: in the ranks' order, rounded once.
 * OUT may be IN, which the puts must have read by then.
 * Cost: 1 round, P-1 blocks out of each rank, P blocks of scratch.
 * Source: the strategy ONESHOT of NVIDIA TensorRT-LLM's AllReduce.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_oneshot(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, s;

	(void)arg;
	for (s = 1; s < P; s++)
		put_signal(q, r + s, TMP, r, IN, 0, 1);
	copy(q, TMP, r, IN, 0, 1);
	for (s = 1; s < P; s++)
		wait(q, r - s, 0);
	flush(q);
	fold(q, OUT, 0, TMP, 0, P);
}
