#include "coll/table.h"

#include "coll/cost.h"

#include <string.h>

const struct coll_kind coll_kinds[COLL_OPS] = {
	[COLL_BARRIER] = { "barrier", false, false, false },
	[COLL_AGREE] = { "agree", false, true, false },
	[COLL_ALLGATHER] = { "allgather", false, false, false },
	[COLL_ALLTOALL] = { "alltoall", false, false, false },
	[COLL_BCAST] = { "bcast", true, false, true },
	[COLL_GATHER] = { "gather", true, false, false },
	[COLL_SCATTER] = { "scatter", true, false, false },
	[COLL_REDUCE] = { "reduce", true, true, true },
	[COLL_ALLREDUCE] = { "allreduce", false, true, true },
	[COLL_REDUCE_SCATTER] = { "reduce_scatter", false, true, false },
	[COLL_SCAN] = { "scan", false, true, true },
	[COLL_EXSCAN] = { "exscan", false, true, true },
};

#define ONE_BLOCK                                                                                  \
	{                                                                                          \
		blocks_one, false                                                                  \
	}
#define RANK_BLOCKS                                                                                \
	{                                                                                          \
		blocks_ranks, true                                                                 \
	}

#define NO_BLOCKS                                                                                  \
	{                                                                                          \
		NULL, false                                                                        \
	}
#define BLOCKS(fn)                                                                                 \
	{                                                                                          \
		fn, false                                                                          \
	}

#define PROGRAM(name, build, queues, in, out, tmp)                                                 \
	.program = { name, build, queues, { [IN] = in, [OUT] = out, [TMP] = tmp } }
#define COST(of_rounds, of_blocks, of_total)                                                       \
	.rounds = of_rounds, .blocks = of_blocks, .total = of_total

const struct coll_row coll_table[] = {
	{
	        PROGRAM("barrier/dissemination", barrier_dissemination, 1, NO_BLOCKS, NO_BLOCKS,
	                NO_BLOCKS),
	        .op = COLL_BARRIER,
	        COST(cost_log2, cost_zero, cost_zero),
	},
	{
	        PROGRAM("agree/dissemination", agree_dissemination, 1, NO_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_log2)),
	        .op = COLL_AGREE,
	        .unordered = true,
	        COST(cost_log2, cost_log2, cost_each_log2),
	},
	{
	        PROGRAM("allgather/bruck", allgather_bruck, 1, NO_BLOCKS, RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_ALLGATHER,
	        .arg = "radix, from 2 to the number of ranks",
	        .min_arg = arg_two,
	        .max_arg = arg_two_or_size,
	        COST(cost_log_radix, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allgather/direct", allgather_direct, 1, NO_BLOCKS, RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_ALLGATHER,
	        COST(cost_one, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allgather/doubling", allgather_doubling, 1, NO_BLOCKS, RANK_BLOCKS,
	                NO_BLOCKS),
	        .op = COLL_ALLGATHER,
	        COST(cost_log2, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allgather/doubling_near", allgather_doubling, 1, NO_BLOCKS, RANK_BLOCKS,
	                NO_BLOCKS),
	        .op = COLL_ALLGATHER,
	        .arg = "1: nearest peers first",
	        .min_arg = arg_one,
	        .max_arg = arg_one,
	        COST(cost_log2, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allgather/rails", allgather_rails, 2, NO_BLOCKS, RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_ALLGATHER,
	        .unfit = unfit_one_level,
	        .arg = "number of nodes that a rank puts to at a time, 1 (a ring) or more",
	        .min_arg = arg_one,
	        .max_arg = arg_half,
	        COST(cost_rails, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allgather/ring", allgather_ring, 1, NO_BLOCKS, RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_ALLGATHER,
	        COST(cost_others, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("alltoall/bruck", alltoall_bruck, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_digits)),
	        .op = COLL_ALLTOALL,
	        .whole = true,
	        .arg = "radix, from 2 to the number of ranks",
	        .min_arg = arg_two,
	        .max_arg = arg_two_or_size,
	        COST(cost_log_radix, cost_digits, cost_each_digits),
	},
	{
	        PROGRAM("alltoall/direct", alltoall_direct, 1, RANK_BLOCKS, RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_ALLTOALL,
	        .arg = "number of blocks under way, from 1 to that of the other ranks",
	        .min_arg = arg_one,
	        .max_arg = arg_others,
	        COST(cost_windows, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("alltoall/pairwise", alltoall_pairwise, 1, RANK_BLOCKS, RANK_BLOCKS,
	                NO_BLOCKS),
	        .op = COLL_ALLTOALL,
	        COST(cost_others, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("bcast/binomial", bcast_binomial, 1, NO_BLOCKS, ONE_BLOCK, NO_BLOCKS),
	        .op = COLL_BCAST,
	        COST(cost_floor_log2, cost_log2, cost_others),
	},
	{
	        PROGRAM("bcast/chain", bcast_chain, 1, NO_BLOCKS, ONE_BLOCK, NO_BLOCKS),
	        .op = COLL_BCAST,
	        COST(cost_others, cost_one, cost_others),
	},
	{
	        PROGRAM("bcast/scatter_allgather", bcast_scatter_allgather, 1, NO_BLOCKS,
	                RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_BCAST,
	        COST(cost_others, cost_twice_others, cost_each_to_others),
	},
	{
	        PROGRAM("gather/binomial", gather_binomial, 1, ONE_BLOCK, RANK_BLOCKS,
	                BLOCKS(blocks_half)),
	        .op = COLL_GATHER,
	        .whole = true,
	        COST(cost_floor_log2, cost_tree_branch, cost_tree_hops),
	},
	{
	        PROGRAM("gather/direct", gather_direct, 1, ONE_BLOCK, RANK_BLOCKS, NO_BLOCKS),
	        .op = COLL_GATHER,
	        COST(cost_one, cost_one, cost_others),
	},
	{
	        PROGRAM("scatter/binomial", scatter_binomial, 1, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_half)),
	        .op = COLL_SCATTER,
	        .whole = true,
	        COST(cost_floor_log2, cost_others, cost_tree_hops),
	},
	{
	        PROGRAM("scatter/direct", scatter_direct, 1, RANK_BLOCKS, ONE_BLOCK, NO_BLOCKS),
	        .op = COLL_SCATTER,
	        COST(cost_one, cost_others, cost_others),
	},
	/* ---- Those that combine ---- */
	{
	        PROGRAM("reduce/direct", reduce_direct, 1, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        COST(cost_one, cost_one, cost_others),
	},
	{
	        PROGRAM("reduce/binomial", reduce_binomial, 1, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_binomial)),
	        .op = COLL_REDUCE,
	        COST(cost_binomial_rounds, cost_one, cost_others),
	},
	{
	        PROGRAM("reduce/twoshot", reduce_twoshot, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        COST(cost_twice, cost_to_root, cost_to_root_each),
	},
	{
	        PROGRAM("reduce/halving", reduce_halving, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        .unordered = true,
	        COST(cost_log2_and_one, cost_to_root, cost_to_root_each),
	},
	{
	        PROGRAM("allreduce/oneshot", allreduce_oneshot, 1, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_one, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allreduce/doubling", allreduce_doubling, 1, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_doubling)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_doubling_rounds, cost_doubling_blocks, cost_doubling_total),
	},
	{
	        PROGRAM("allreduce/twoshot", allreduce_twoshot, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_twice, cost_twice_others, cost_each_twice_others),
	},
	{
	        PROGRAM("allreduce/rabenseifner", allreduce_rabenseifner, 1, BLOCKS(blocks_power),
	                BLOCKS(blocks_power), BLOCKS(blocks_rabenseifner)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_rabenseifner_rounds, cost_rabenseifner_blocks, cost_rabenseifner_total),
	},
	{
	        PROGRAM("allreduce/halving", allreduce_halving, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        .unordered = true,
	        COST(cost_twice_log2, cost_twice_others, cost_each_twice_others),
	},
	{
	        PROGRAM("allreduce/ring", allreduce_ring, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_two)),
	        .op = COLL_ALLREDUCE,
	        .unordered = true,
	        COST(cost_twice_others, cost_twice_others, cost_each_twice_others),
	},
	{
	        PROGRAM("allreduce/rails", allreduce_rails, 1, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_rails)),
	        .op = COLL_ALLREDUCE,
	        .unfit = unfit_one_level,
	        COST(cost_four_times, cost_twice_others, cost_each_twice_others),
	},
	{
	        PROGRAM("reduce_scatter/direct", reduce_scatter_direct, 1, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE_SCATTER,
	        COST(cost_one, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/halving", reduce_scatter_halving, 1, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE_SCATTER,
	        .unordered = true,
	        COST(cost_log2, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/ring", reduce_scatter_ring, 1, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_two)),
	        .op = COLL_REDUCE_SCATTER,
	        .unordered = true,
	        COST(cost_others, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/rails", reduce_scatter_rails, 1, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_rails)),
	        .op = COLL_REDUCE_SCATTER,
	        .unfit = unfit_one_level,
	        COST(cost_twice, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("scan/doubling", scan_doubling, 1, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_log2)),
	        .op = COLL_SCAN,
	        COST(cost_floor_log2, cost_log2, cost_scan_total),
	},
	{
	        PROGRAM("scan/chain", scan_chain, 1, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_one)),
	        .op = COLL_SCAN,
	        COST(cost_others, cost_one, cost_others),
	},
	{
	        PROGRAM("exscan/doubling", exscan_doubling, 1, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_exscan)),
	        .op = COLL_EXSCAN,
	        COST(cost_floor_log2, cost_log2, cost_scan_total),
	},
	{
	        PROGRAM("exscan/chain", exscan_chain, 1, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_two)),
	        .op = COLL_EXSCAN,
	        COST(cost_others, cost_one, cost_others),
	},
};

const size_t coll_rows = ARRAY_SIZE(coll_table);

int
coll_clip(const struct coll_row *row, int size, int arg)
{
	if (!row->max_arg)
		return 0;
	if (arg < row->min_arg(size))
		return row->min_arg(size);
	return arg > row->max_arg(size) ? row->max_arg(size) : arg;
}

const struct coll_row *
coll_row_named(const char *name)
{
	for (size_t i = 0; i < coll_rows; i++)
		if (!strcmp(coll_table[i].program.name, name))
			return &coll_table[i];
	return NULL;
}
