/*
 * Binomial tree Reduce, in the ranks' order at any root.
 *
 * in:  IN[0] is rank r's vector.   out: OUT[0] at root is the reduction.
 * Two binomial trees, each over ranks in order: of the ranks below root, to rank 0,
 * and of root and those above, to root. Rank 0 then puts what it has into root,
 * which combines it, on the left, with its own. In a tree that begins at base,
 * number v = r - base gets from v+1, v+2, v+4, ... what they have of the ranks from
 * there on, until its lowest bit that is set says: give it to v - bit.
 * What comes over the k'th bit, from 1, is TMP[k] and stays there; rank 0's is TMP[0].
 * Cost: at most ceil(log2 P) + 1 rounds, floor(log2 P) if root is 0, 1 block out of each
 * other rank, ceil(log2 P) + 1 blocks of scratch.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005, for one tree.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_binomial(struct queue *q, int arg)
{
	int r = q->rank, root = q->root, at = 0;
	int base = r < root ? 0 : root, n = (r < root ? root : q->size) - base;
	enum plan_buf mine = IN, to = r == root ? OUT : TMP;

	(void)arg;
	if (q->size == 1)
		copy(q, OUT, 0, IN, 0, 1);
	for (int d = 1, k = 1; d < n; d *= 2, k++) {
		if ((r - base) & d) {
			put_signal(q, r - d, TMP, k, mine, at, 1);
			return;
		}
		if (r - base + d >= n)
			continue;
		wait(q, r + d, 0);
		reduce(q, to, to == OUT ? 0 : k, mine, at, TMP, k, 1);
		mine = to;
		at = to == OUT ? 0 : k;
	}
	if (r < root) {
		put_signal(q, root, TMP, 0, mine, at, 1);
	} else if (root > 0) {
		wait(q, 0, 0);
		reduce(q, OUT, 0, TMP, 0, mine, at, 1);
	}
}
