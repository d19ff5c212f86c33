/*
 * AllReduce in two levels: inside each node, along the rails (the ranks that have
 * the same place in their nodes), and back.
 *
 * in:  IN is rank r's vector in P blocks.   out: OUT is the reduction, the same bits at all ranks.
 * N nodes of g ranks; rank r is number l of node m. The vector is cut into g parts,
 * one a rail, of N blocks. Rank r gets from its node the terms of its rail's part
 * and folds them; block m of it is complete when the rail's other ranks have put
 * theirs. It goes to them, and the whole part then to the ranks of the node. Ranks
 * of a node are neighbours, so all is combined in the ranks' order.
 *
 *   TMP:  k * g + j   term of block k of the rail's part from rank j of this node
 *         P + k       node k's part of block m of the rail's part
 * Cost: 4 rounds, 2(P-1) blocks out of each rank, 2(N-1) of them to other nodes; P+N
 * blocks of scratch.
 * Source: Traff, Hunold, "Decomposing MPI collectives for exploiting multi-lane communication",
 * IEEE Cluster 2020.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allreduce_rails(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, g = q->node, N = P / g, l = r % g, m = r / g, j, k;

	(void)arg;
	for (j = l + 1; j < l + g; j++) {
		for (k = 0; k < N; k++)
			put(q, m * g + j % g, TMP, k * g + l, IN, j % g * N + k, 1);
		signal(q, m * g + j % g);
	}
	for (k = 0; k < N; k++)
		copy(q, TMP, k * g + l, IN, l * N + k, 1);
	for (j = l + 1; j < l + g; j++)
		wait(q, m * g + j % g, 0);
	for (k = m + 1; k < m + N; k++) {
		fold(q, OUT, l * N + k % N, TMP, k % N * g, g);
		put_signal(q, k * g + l, TMP, P + m, OUT, l * N + k % N, 1);
	}
	fold(q, TMP, P + m, TMP, m * g, g);
	for (k = m + 1; k < m + N; k++)
		wait(q, k * g + l, 0);
	fold(q, OUT, l * N + m, TMP, P, N);
	for (k = m + 1; k < m + N; k++)
		put_signal(q, k * g + l, OUT, l * N + m, OUT, l * N + m, 1);
	for (k = m + 1; k < m + N; k++)
		wait(q, k * g + l, 0);
	for (j = l + 1; j < l + g; j++)
		put_signal(q, m * g + j % g, OUT, l * N, OUT, l * N, N);
	for (j = l + 1; j < l + g; j++)
		wait(q, m * g + j % g, 0);
}
