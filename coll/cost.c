#include "coll/cost.h"

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

/* ---- Ranges of arguments ---- */

int
arg_one(int size)
{
	(void)size;
	return 1;
}

int
arg_two(int size)
{
	(void)size;
	return 2;
}

int
arg_half(int size)
{
	return size > 3 ? size / 2 : 1;
}

int
arg_others(int size)
{
	return size > 2 ? size - 1 : 1;
}

int
arg_two_or_size(int size)
{
	return size > 2 ? size : 2;
}

/* ---- Shapes ---- */

const char *
unfit_one_level(const struct shape *shape)
{
	if (shape->node < 2)
		return "needs nodes of as many ranks each, more than one";
	return shape->node >= shape->size ? "needs more than one node" : NULL;
}

/* ---- Blocks of TMP ---- */

uint32_t
blocks_half(const struct shape *shape)
{
	return (uint32_t)shape->size / 2;
}

uint32_t
blocks_digits(const struct shape *shape)
{
	return (uint32_t)(shape->size + cost_digits(shape));
}

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

/* ---- Rounds and blocks ---- */

int64_t
cost_zero(const struct shape *shape)
{
	(void)shape;
	return 0;
}

int64_t
cost_one(const struct shape *shape)
{
	return shape->size > 1;
}

int64_t
cost_others(const struct shape *shape)
{
	return shape->size - 1;
}

int64_t
cost_twice_others(const struct shape *shape)
{
	return 2 * cost_others(shape);
}

int64_t
cost_each_to_others(const struct shape *shape)
{
	return shape->size * cost_others(shape);
}

int64_t
cost_log2(const struct shape *shape)
{
	return blocks_log2(shape);
}

int64_t
cost_each_log2(const struct shape *shape)
{
	return shape->size * cost_log2(shape);
}

/* Also the depth of a binomial tree: a rank's depth is the number of ones in it, and 2^depth - 1
 * the first so deep. */
int64_t
cost_floor_log2(const struct shape *shape)
{
	return floor_log2(shape->size);
}

int64_t
cost_log_radix(const struct shape *shape)
{
	int64_t n = 0;

	for (int64_t d = 1; d < shape->size; d *= shape->arg)
		n++;
	return n;
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

int64_t
cost_windows(const struct shape *shape)
{
	return ceil_div(cost_others(shape), shape->arg);
}

int64_t
cost_rails(const struct shape *shape)
{
	return ceil_div(shape->size / shape->node - 1, shape->arg) + 1;
}

/* Rank d, the largest power of two below P, has all behind it; d/2 has d/2. */
int64_t
cost_tree_branch(const struct shape *shape)
{
	int64_t d = (INT64_C(1) << cost_log2(shape)) / 2, last = shape->size - d;

	if (!d)
		return 0;
	return d / 2 > last ? d / 2 : last;
}

/* Of 0 to P-1 those whose digit of weight d is 0: d in each whole cycle of radix d. */
static int64_t
nonzero_digits(int64_t size, int64_t radix)
{
	int64_t n = 0;

	for (int64_t d = 1; d < size; d *= radix) {
		int64_t cycle = d * radix, rest = size % cycle;

		n += size - (size / cycle * d + (rest < d ? rest : d));
	}
	return n;
}

int64_t
cost_tree_hops(const struct shape *shape)
{
	return nonzero_digits(shape->size, 2);
}

int64_t
cost_digits(const struct shape *shape)
{
	return nonzero_digits(shape->size, shape->arg);
}

int64_t
cost_each_digits(const struct shape *shape)
{
	return shape->size * cost_digits(shape);
}

/* ---- Of programs that combine ---- */

int64_t
cost_twice(const struct shape *shape)
{
	return 2 * cost_one(shape);
}

int64_t
cost_four_times(const struct shape *shape)
{
	return 4 * cost_one(shape);
}

int64_t
cost_each_twice_others(const struct shape *shape)
{
	return shape->size * cost_twice_others(shape);
}

int64_t
cost_twice_log2(const struct shape *shape)
{
	return 2 * (int64_t)blocks_log2(shape);
}

int64_t
cost_log2_and_one(const struct shape *shape)
{
	return blocks_log2(shape) + cost_one(shape);
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
	int64_t extra = surplus(shape), rounds = cost_floor_log2(shape);

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
