#include "coll/cost_reduce.h"

static int64_t
floor_log2(int64_t n)
{
	int64_t log2 = 0;

	while (n >>= 1)
		log2++;
	return log2;
}

/* Ranks that are left over when a power of two has been taken out of them. */
static int64_t
surplus(const struct shape *shape)
{
	return shape->size - (int64_t)blocks_power(shape);
}

/* ---- Blocks of buffers ---- */

uint32_t
blocks_power(const struct shape *shape)
{
	return UINT32_C(1) << floor_log2(shape->size);
}

uint32_t
blocks_rabenseifner(const struct shape *shape)
{
	return surplus(shape) ? 2 * blocks_power(shape) : blocks_power(shape);
}

uint32_t
blocks_doubling(const struct shape *shape)
{
	return (uint32_t)floor_log2(shape->size) + 1;
}

uint32_t
blocks_binomial(const struct shape *shape)
{
	return blocks_log2(shape) + 1;
}

uint32_t
blocks_exscan(const struct shape *shape)
{
	return 2 * blocks_log2(shape);
}

uint32_t
blocks_rails(const struct shape *shape)
{
	uint32_t size = (uint32_t)shape->size;

	return shape->node ? size + size / (uint32_t)shape->node : size;
}

const char *
unfit_rails(const struct shape *shape)
{
	if (shape->node > 1 && shape->node < shape->size)
		return NULL;
	return "it takes several nodes with the same number of ranks, more than one, in a row";
}

/* ---- Costs ---- */

int64_t
cost_once(const struct shape *shape)
{
	return shape->size > 1;
}

int64_t
cost_twice(const struct shape *shape)
{
	return 2 * cost_once(shape);
}

int64_t
cost_four_times(const struct shape *shape)
{
	return 4 * cost_once(shape);
}

int64_t
cost_both_ways(const struct shape *shape)
{
	return 2 * ((int64_t)shape->size - 1);
}

int64_t
cost_both_ways_each(const struct shape *shape)
{
	return shape->size * cost_both_ways(shape);
}

int64_t
cost_both_log_two(const struct shape *shape)
{
	return 2 * (int64_t)blocks_log2(shape);
}

int64_t
cost_log_two_and_one(const struct shape *shape)
{
	return blocks_log2(shape) + cost_once(shape);
}

int64_t
cost_floor_log_two(const struct shape *shape)
{
	return floor_log2(shape->size);
}

int64_t
cost_to_root(const struct shape *shape)
{
	return shape->size > 1 ? shape->size : 0;
}

int64_t
cost_to_root_each(const struct shape *shape)
{
	return ((int64_t)shape->size + 1) * (shape->size - 1);
}

/* Who was folded in tells nobody new in time but where two of them are all the way apart. */
int64_t
cost_doubling_rounds(const struct shape *shape)
{
	int64_t extra = surplus(shape), rounds = cost_floor_log_two(shape);

	return rounds + (extra > 0) + (2 * extra > blocks_power(shape));
}

int64_t
cost_doubling_blocks(const struct shape *shape)
{
	return floor_log2(shape->size) + (surplus(shape) > 0);
}

int64_t
cost_doubling_total(const struct shape *shape)
{
	return blocks_power(shape) * floor_log2(shape->size) + 2 * surplus(shape);
}

int64_t
cost_rabenseifner_rounds(const struct shape *shape)
{
	return 2 * floor_log2(shape->size) + (surplus(shape) ? 2 : 0);
}

int64_t
cost_rabenseifner_blocks(const struct shape *shape)
{
	int64_t p = blocks_power(shape);

	return 2 * (p - 1) + (surplus(shape) ? p : 0);
}

int64_t
cost_rabenseifner_total(const struct shape *shape)
{
	int64_t p = blocks_power(shape);

	return p * 2 * (p - 1) + 2 * p * surplus(shape);
}

/* A tree over n ranks is as deep as the most bits that a number below n has. */
int64_t
cost_binomial_rounds(const struct shape *shape)
{
	int64_t above = floor_log2((int64_t)shape->size - shape->root);
	int64_t below = shape->root ? floor_log2(shape->root) + 1 : 0;

	return above > below ? above : below;
}

int64_t
cost_scan_total(const struct shape *shape)
{
	int64_t n = 0;

	for (int64_t d = 1; d < shape->size; d *= 2)
		n += shape->size - d;
	return n;
}
