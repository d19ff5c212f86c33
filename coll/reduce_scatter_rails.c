/*
 * ReduceScatter in two levels: inside each node, then along the rails, that is,
 * between the ranks that have the same place in their nodes.
 *
 * in:  IN[i] is rank r's term of block i, all i.   out: OUT[0] is block r of the reduction.
 * N nodes of g ranks; rank r is number l of node m. It gets from its node the
 * terms of the N blocks of its rail (those of rank l of every node), folds each,
 * puts the results into the rank of its rail that they belong to, and folds what
 * comes from there. Ranks of a node are neighbours: all in the ranks' order.
 *
 *   TMP:  k * g + j   term of block k * g + l from rank j of this node; folded into k * g
 *         P + k       node k's part of block r
 * Cost: 2 rounds, P-1 blocks out of each rank, N-1 of them to other nodes; P+N blocks of scratch.
 * Source: Traff, Hunold, "Decomposing MPI collectives for exploiting multi-lane communication",
 * IEEE Cluster 2020.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
reduce_scatter_rails(struct queue *q, int arg)
{
	int P = q->size, r = q->rank, g = q->node, N = P / g, l = r % g, m = r / g, j, k;

	(void)arg;
	for (j = l + 1; j < l + g; j++) {
		for (k = 0; k < N; k++)
			put(q, m * g + j % g, TMP, k * g + l, IN, k * g + j % g, 1);
		signal(q, m * g + j % g);
	}
	for (k = 0; k < N; k++)
		copy(q, TMP, k * g + l, IN, k * g + l, 1);
	for (j = l + 1; j < l + g; j++)
		wait(q, m * g + j % g, 0);
	for (k = m + 1; k < m + N; k++) {
		fold(q, TMP, k % N * g, TMP, k % N * g, g);
		put_signal(q, k * g + l, TMP, P + m, TMP, k % N * g, 1);
	}
	fold(q, TMP, P + m, TMP, m * g, g);
	for (k = m + 1; k < m + N; k++)
		wait(q, k * g + l, 0);
	flush(q);
	fold(q, OUT, 0, TMP, P, N);
}
