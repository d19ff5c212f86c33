/*
 * AllGather on two levels: along rails between the nodes, inside the nodes.
 *
 * in:  OUT[r] holds rank r's block.   out: OUT[i] holds rank i's block, all i.
 * n nodes of g ranks. The n ranks that have the same place in their nodes are a
 * rail; each has a network port of its own, and all ports work all the time. In
 * a round a rank passes the block that came from farthest back, s nodes, on to
 * the next width nodes of its rail: width 1 is a ring, width n-1 is direct. A
 * second queue gives every block, as soon as it is here, to the rest of the
 * node, while the rail goes on.
 *
 *             node 0        node 1        node 2
 *   rail 0    rank 0  --->  rank g  --->  rank 2g  ---> (rank 0)
 *               | inside the nodes: all to all
 *   rail 1    rank 1  --->  rank g+1 -->  rank 2g+1 --> (rank 1)
 *
 * Cost: ceil((n-1) / width) + 1 rounds, P-1 blocks out of each rank, n-1 of them
 * between nodes, no scratch.
 * Source: Traeff, Hunold, "Decomposing MPI collectives for exploiting multi-lane
 * communication", IEEE CLUSTER 2020.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allgather_rails(struct queue *q, int width)
{
	struct queue *rail = q, *node = q + 1;
	int r = q->rank, g = q->node, n = q->size / g, first = r - r % g, s, k;

	for (s = 0; s < n; s++) {
		int block = r - s * g;

		if (s && s % width == 0 && s < n - 1)
			wait(rail, r - width * g, 0);
		for (k = 1; s % width == 0 && k <= width && s + k < n; k++)
			put_signal(rail, r + k * g, OUT, block, OUT, block, 1);
		if (s)
			wait(node, r - ((s - 1) % width + 1) * g, 0);
		for (k = 1; k < g; k++)
			put_signal(node, first + (r + k) % g, OUT, block, OUT, block, 1);
	}
	for (s = 0; s < n; s++)
		for (k = 1; k < g; k++)
			wait(node, first + (r + k) % g, 1);
}
