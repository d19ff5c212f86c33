#include "coll/table.h"

#include "coll/cost_reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
two(int size)
{
	(void)size;
	return 2;
}

/* radix P is the direct algorithm; more changes nothing. */
static int
two_or_size(int size)
{
	return size > 2 ? size : 2;
}

/* ---- Closed forms: P is shape->size ---- */

static int64_t
zero(const struct shape *shape)
{
	(void)shape;
	return 0;
}

static int64_t
others(const struct shape *shape)
{
	return shape->size - 1;
}

static int64_t
each_to_others(const struct shape *shape)
{
	return (int64_t)shape->size * (shape->size - 1);
}

static int64_t
log_radix(const struct shape *shape)
{
	int64_t n = 0;

	for (int64_t d = 1; d < shape->size; d *= shape->arg)
		n++;
	return n;
}

static int64_t
log_two(const struct shape *shape)
{
	return blocks_log2(shape);
}

static int64_t
each_log_two(const struct shape *shape)
{
	return shape->size * log_two(shape);
}

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

#define ALL_BLOCKS                                                                                 \
	{                                                                                          \
		blocks_ranks, true                                                                 \
	}
#define ONE_BLOCK                                                                                  \
	{                                                                                          \
		blocks_one, false                                                                  \
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
	        .rounds = log_two,
	        .blocks = zero,
	        .total = zero,
	},
	{
	        .program = { "agree/dissemination",
	                     agree_dissemination,
	                     1,
	                     { [OUT] = ONE_BLOCK, [TMP] = { blocks_log2, false } } },
	        .op = COLL_AGREE,
	        .unordered = true,
	        .rounds = log_two,
	        .blocks = log_two,
	        .total = each_log_two,
	},
	{
	        .program = { "allgather/bruck", allgather_bruck, 1, { [OUT] = ALL_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .arg = "radix, from 2 to the number of ranks",
	        .min_arg = two,
	        .max_arg = two_or_size,
	        .rounds = log_radix,
	        .blocks = others,
	        .total = each_to_others,
	},
	{
	        .program = { "allgather/ring", allgather_ring, 1, { [OUT] = ALL_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .rounds = others,
	        .blocks = others,
	        .total = each_to_others,
	},
	/* ---- Those that combine ---- */
	{
	        PROGRAM("reduce/direct", reduce_direct, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        COST(cost_once, cost_once, others),
	},
	{
	        PROGRAM("reduce/binomial", reduce_binomial, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_binomial)),
	        .op = COLL_REDUCE,
	        COST(cost_binomial_rounds, cost_once, others),
	},
	{
	        PROGRAM("reduce/twoshot", reduce_twoshot, ALL_BLOCKS, ALL_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        COST(cost_twice, cost_to_root, cost_to_root_each),
	},
	{
	        PROGRAM("reduce/halving", reduce_halving, ALL_BLOCKS, ALL_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE,
	        .unordered = true,
	        COST(cost_log_two_and_one, cost_to_root, cost_to_root_each),
	},
	{
	        PROGRAM("allreduce/oneshot", allreduce_oneshot, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_once, others, each_to_others),
	},
	{
	        PROGRAM("allreduce/doubling", allreduce_doubling, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_doubling)),
	        .op = COLL_ALLREDUCE,
	        COST(cost_doubling_rounds, cost_doubling_blocks, cost_doubling_total),
	},
	{
	        PROGRAM("allreduce/twoshot", allreduce_twoshot, ALL_BLOCKS, ALL_BLOCKS,
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
	        PROGRAM("allreduce/halving", allreduce_halving, ALL_BLOCKS, ALL_BLOCKS,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_ALLREDUCE,
	        .unordered = true,
	        COST(cost_both_log_two, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("allreduce/ring", allreduce_ring, ALL_BLOCKS, ALL_BLOCKS,
	                BLOCKS(blocks_two)),
	        .op = COLL_ALLREDUCE,
	        .unordered = true,
	        COST(cost_both_ways, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("allreduce/rails", allreduce_rails, ALL_BLOCKS, ALL_BLOCKS,
	                BLOCKS(blocks_rails)),
	        .op = COLL_ALLREDUCE,
	        .unfit = unfit_rails,
	        COST(cost_four_times, cost_both_ways, cost_both_ways_each),
	},
	{
	        PROGRAM("reduce_scatter/direct", reduce_scatter_direct, ALL_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE_SCATTER,
	        COST(cost_once, others, each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/halving", reduce_scatter_halving, ALL_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_ranks)),
	        .op = COLL_REDUCE_SCATTER,
	        .unordered = true,
	        COST(log_two, others, each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/ring", reduce_scatter_ring, ALL_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_two)),
	        .op = COLL_REDUCE_SCATTER,
	        .unordered = true,
	        COST(others, others, each_to_others),
	},
	{
	        PROGRAM("reduce_scatter/rails", reduce_scatter_rails, ALL_BLOCKS, ONE_BLOCK,
	                BLOCKS(blocks_rails)),
	        .op = COLL_REDUCE_SCATTER,
	        .unfit = unfit_rails,
	        COST(cost_twice, others, each_to_others),
	},
	{
	        PROGRAM("scan/doubling", scan_doubling, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_log2)),
	        .op = COLL_SCAN,
	        COST(cost_floor_log_two, log_two, cost_scan_total),
	},
	{
	        PROGRAM("scan/chain", scan_chain, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_one)),
	        .op = COLL_SCAN,
	        COST(others, cost_once, others),
	},
	{
	        PROGRAM("exscan/doubling", exscan_doubling, ONE_BLOCK, ONE_BLOCK,
	                BLOCKS(blocks_exscan)),
	        .op = COLL_EXSCAN,
	        COST(cost_floor_log_two, log_two, cost_scan_total),
	},
	{
	        PROGRAM("exscan/chain", exscan_chain, ONE_BLOCK, ONE_BLOCK, BLOCKS(blocks_two)),
	        .op = COLL_EXSCAN,
	        COST(others, cost_once, others),
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

static const struct coll_row *
find_row(enum coll_op op, const char *text, size_t len)
{
	size_t op_len = strlen(coll_kinds[op].name);

	for (size_t i = 0; i < coll_rows; i++) {
		const char *name = coll_table[i].program.name + op_len + 1;

		if (coll_table[i].op == op && strlen(name) == len && !strncmp(name, text, len))
			return &coll_table[i];
	}
	return NULL;
}

static int
find_arg(const struct coll_row *row, const char *text, const char *number, int size, int *arg)
{
	char *end;
	long n;

	if (!row->max_arg)
		return fail(ORIEL_EINVAL, "\"%s\": %s takes no argument", text, row->program.name);
	errno = 0;
	n = strtol(number, &end, 10);
	if (errno || end == number || *end || n < row->min_arg(size) || n > INT32_MAX)
		return fail(ORIEL_EINVAL, "\"%s\": the argument is not a %s", text, row->arg);
	*arg = coll_clip(row, size, (int)n);
	return 0;
}

int
coll_find(enum coll_op op, const char *text, const struct shape *shape, const struct coll_row **out,
          int *arg)
{
	const char *colon = strchr(text, ':'), *why;
	const struct coll_row *row =
	        find_row(op, text, colon ? (size_t)(colon - text) : strlen(text));
	struct shape asked = *shape;
	int rc = 0;

	if (!row)
		return fail(ORIEL_EINVAL, "%s has no algorithm \"%s\"", coll_kinds[op].name, text);
	asked.arg = row->max_arg ? row->min_arg(shape->size) : 0;
	if (colon)
		rc = find_arg(row, text, colon + 1, shape->size, &asked.arg);
	if (rc)
		return rc;
	why = row->unfit ? row->unfit(&asked) : NULL;
	if (why)
		return fail(ORIEL_EINVAL, "\"%s\": %s", text, why);
	*out = row;
	*arg = asked.arg;
	return 0;
}
