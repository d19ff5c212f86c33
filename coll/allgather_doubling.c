/*
 * Recursive doubling AllGather, any number of ranks, the farthest peers first.
 *
 * in:  OUT[r] holds rank r's block.   out: OUT[i] holds rank i's block, all i.
 * Before the round of distance d rank r holds every 2d-th block, those of r,
 * r-2d, r-4d, ... It gives them to the rank at distance d and gets the blocks in
 * between from there. So the first round, with one block, crosses the network,
 * and the last one, with half of all blocks, goes to the neighbour: good where
 * links between racks are scarce. As long as the ranks fall into groups of 2d
 * two ranks exchange (r xor d), and so a round stays inside nodes of 2d ranks;
 * else each gives to the right and gets from the left.
 *
 *   P = 8, what rank 0 holds:   0.......   0...4...   0.2.4.6.   01234567
 *
 * near: the same with the nearest peers first, distances 1, 2, 4, ...: rank r
 * holds the d blocks of its group, then a few groups as in Bruck's algorithm.
 * Cost: ceil(log2 P) rounds, P-1 blocks out of each rank, no scratch; far: P-1
 * puts, because the blocks do not lie together.
 * Source: Loch, Koslovski, "Sparbit: a new logarithmic-cost and data locality-aware MPI Allgather
 * algorithm", 2021 (arXiv 2109.08751), and, for the exchange of pairs, Thakur, Rabenseifner,
 * Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005.
 */
#include "plan/verbs.h"
#include "coll/table.h"

void
allgather_doubling(struct queue *q, int near)
{
	int P = q->size, r = q->rank;

	for (int d = near ? 1 : power_below(P); d && d < P; d = near ? 2 * d : d / 2) {
		int first = r & -min(d, P & -P), pairs = P % (2 * d) == 0;
		int to = pairs ? r ^ d : near ? r - d : r + d;

		if (near)
			put(q, to, OUT, first, OUT, first, min(d, P - d));
		for (int x = 0; !near && x < P - d; x += 2 * d)
			put(q, to, OUT, r - x, OUT, r - x, 1);
		signal(q, to);
		wait(q, pairs ? to : 2 * r - to, 0);
	}
}
