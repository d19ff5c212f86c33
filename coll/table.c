#include "coll/table.h"

#include "coll/cost.h"
#include "coll/cost_reduce.h"

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

#define BLOCKS(fn)                                                                                 \
	{                                                                                          \
		fn, false                                                                          \
	}

#define PROGRAM(name, build, in, out, tmp)                                                         \
	.program = { name, build, 1, { [IN] = in, [OUT] = out, [TMP] = tmp } }
#define COST(of_rounds, of_blocks, of_total)                                                       \
	.rounds = of_rounds, .blocks = of_blocks, .total = of_total

const struct coll_row coll_table[] = {
	{
	        .program = { "barrier/dissemination", barrier_dissemination, 1, { { 0 } } },
	        .op = COLL_BARRIER,
	        .rounds = cost_log2,
	        .blocks = cost_zero,
	        .total = cost_zero,
	},
	{
	        .program = { "agree/dissemination",
	                     agree_dissemination,
	                     1,
	                     { [OUT] = ONE_BLOCK, [TMP] = { blocks_log2, false } } },
	        .op = COLL_AGREE,
	        .unordered = true,
	        .rounds = cost_log2,
	        .blocks = cost_log2,
	        .total = cost_each_log2,
	},
	{
	        .program = { "allgather/bruck", allgather_bruck, 1, { [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .arg = "radix, from 2 to the number of ranks",
	        .min_arg = arg_two,
	        .max_arg = arg_two_or_size,
	        .rounds = cost_log_radix,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "allgather/direct", allgather_direct, 1, { [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .rounds = cost_one,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "allgather/doubling", allgather_doubling, 1, { [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .rounds = cost_log2,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "allgather/doubling_near",
	                     allgather_doubling,
	                     1,
	                     { [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .arg = "1: nearest peers first",
	        .min_arg = arg_one,
	        .max_arg = arg_one,
	        .rounds = cost_log2,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "allgather/rails", allgather_rails, 2, { [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .unfit = unfit_one_level,
	        .arg = "number of nodes that a rank puts to at a time, 1 (a ring) or more",
	        .min_arg = arg_one,
	        .max_arg = arg_half,
	        .rounds = cost_rails,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "allgather/ring", allgather_ring, 1, { [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .rounds = cost_others,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "alltoall/bruck",
	                     alltoall_bruck,
	                     1,
	                     { [IN] = RANK_BLOCKS,
	                       [OUT] = RANK_BLOCKS,
	                       [TMP] = { blocks_digits, false } } },
	        .op = COLL_ALLTOALL,
	        .whole = true,
	        .arg = "radix, from 2 to the number of ranks",
	        .min_arg = arg_two,
	        .max_arg = arg_two_or_size,
	        .rounds = cost_log_radix,
	        .blocks = cost_digits,
	        .total = cost_each_digits,
	},
	{
	        .program = { "alltoall/direct",
	                     alltoall_direct,
	                     1,
	                     { [IN] = RANK_BLOCKS, [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLTOALL,
	        .arg = "number of blocks under way, from 1 to that of the other ranks",
	        .min_arg = arg_one,
	        .max_arg = arg_others,
	        .rounds = cost_windows,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "alltoall/pairwise",
	                     alltoall_pairwise,
	                     1,
	                     { [IN] = RANK_BLOCKS, [OUT] = RANK_BLOCKS } },
	        .op = COLL_ALLTOALL,
	        .rounds = cost_others,
	        .blocks = cost_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "bcast/binomial", bcast_binomial, 1, { [OUT] = ONE_BLOCK } },
	        .op = COLL_BCAST,
	        .rounds = cost_tree_depth,
	        .blocks = cost_log2,
	        .total = cost_others,
	},
	{
	        .program = { "bcast/chain", bcast_chain, 1, { [OUT] = ONE_BLOCK } },
	        .op = COLL_BCAST,
	        .rounds = cost_others,
	        .blocks = cost_one,
	        .total = cost_others,
	},
	{
	        .program = { "bcast/scatter_allgather",
	                     bcast_scatter_allgather,
	                     1,
	                     { [OUT] = RANK_BLOCKS } },
	        .op = COLL_BCAST,
	        .rounds = cost_others,
	        .blocks = cost_twice_others,
	        .total = cost_each_to_others,
	},
	{
	        .program = { "gather/binomial",
	                     gather_binomial,
	                     1,
	                     { [IN] = ONE_BLOCK,
	                       [OUT] = RANK_BLOCKS,
	                       [TMP] = { blocks_half, false } } },
	        .op = COLL_GATHER,
	        .whole = true,
	        .rounds = cost_tree_depth,
	        .blocks = cost_tree_branch,
	        .total = cost_tree_hops,
	},
	{
	        .program = { "gather/direct",
	                     gather_direct,
	                     1,
	                     { [IN] = ONE_BLOCK, [OUT] = RANK_BLOCKS } },
	        .op = COLL_GATHER,
	        .rounds = cost_one,
	        .blocks = cost_one,
	        .total = cost_others,
	},
	{
	        .program = { "scatter/binomial",
	                     scatter_binomial,
	                     1,
	                     { [IN] = RANK_BLOCKS,
	                       [OUT] = ONE_BLOCK,
	                       [TMP] = { blocks_half, false } } },
	        .op = COLL_SCATTER,
	        .whole = true,
	        .rounds = cost_tree_depth,
	        .blocks = cost_others,
	        .total = cost_tree_hops,
	},
	{
	        .program = { "scatter/direct",
	                     scatter_direct,
	                     1,
	                     { [IN] = RANK_BLOCKS, [OUT] = ONE_BLOCK } },
	        .op = COLL_SCATTER,
	        .rounds = cost_one,
	        .blocks = cost_others,
	        .total = cost_others,
	},
	/* ---- Those that combine ---- */
	{
	        PROGRAM("reduce/direct", reduce_direct, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        COST(cost_once, cost_once, cost_others),
	},
	{
	        PROGRAM("reduce/binomial", reduce_binomial, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_binomial)),
	        .op = COLL_REDUCE,
	        COST(cost_binomial_rounds, cost_once, cost_others),
	},
	{
	        PROGRAM("reduce/twoshot", reduce_twoshot, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        COST(cost_twice, cost_to_root, cost_to_root_each),
	},
	{
	        PROGRAM("reduce/halving", reduce_halving, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        .unordered = true,
	        COST(cost_log_two_and_one, cost_to_root, cost_to_root_each),
	},
	{
	        PROGRAM("allreduce/oneshot", allreduce_oneshot, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_once, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("allreduce/doubling", allreduce_doubling, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_doubling)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_doubling_rounds, cost_doubling_blocks, cost_doubling_total),
	},
	{
	        PROGRAM("allreduce/twoshot", allreduce_twoshot, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_twice, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("allreduce/rabenseifner", allreduce_rabenseifner, BLOCKS(blocks_power),
	                BLOCKS(blocks_power), BLOCKS(blocks_rabenseifner)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_rabenseifner_rounds, cost_rabenseifner_blocks, cost_rabenseifner_total),
	},
	{
	        PROGRAM("allreduce/halving", allreduce_halving, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        .unordered = true,
	        COST(cost_both_log_two, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("allreduce/ring", allreduce_ring, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_two)),
	        .op = COLL_ALLREDUCE,
	        .unordered = true,
	        COST(cost_both_ways, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("allreduce/rails", allreduce_rails, RANK_BLOCKS, RANK_BLOCKS,
	                BLOCKS(blocks_rails)),
	        .op = COLL_ALLREDUCE,
	        .unfit = unfit_rails,
	        COST(cost_four_times, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("reduce_scatter/direct", reduce_scatter_direct, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE_SCATTER,
	        COST(cost_once, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/halving", reduce_scatter_halving, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE_SCATTER,
	        .unordered = true,
	        COST(cost_log2, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/ring", reduce_scatter_ring, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_two)),
	        .op = COLL_REDUCE_SCATTER,
	        .unordered = true,
	        COST(cost_others, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/rails", reduce_scatter_rails, RANK_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_rails)),
	        .op = COLL_REDUCE_SCATTER,
	        .unfit = unfit_rails,
	        COST(cost_twice, cost_others, cost_each_to_others),
	},
	{
	        PROGRAM("scan/doubling", scan_doubling, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_log2)),
	        .op = COLL_SCAN,
	        COST(cost_floor_log_two, cost_log2, cost_scan_total),
	},
	{
	        PROGRAM("scan/chain", scan_chain, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_one)),
	        .op = COLL_SCAN,
	        COST(cost_others, cost_once, cost_others),
	},
	{
	        PROGRAM("exscan/doubling", exscan_doubling, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_exscan)),
	        .op = COLL_EXSCAN,
	        COST(cost_floor_log_two, cost_log2, cost_scan_total),
	},
	{
	        PROGRAM("exscan/chain", exscan_chain, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_two)),
	        .op = COLL_EXSCAN,
	        COST(cost_others, cost_once, cost_others),
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
