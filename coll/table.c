#include "coll/table.h"

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
