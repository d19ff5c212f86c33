/*
 * Every program, rank count and argument under random orders; and programs with
 * deliberate mistakes, each of which must be found.
 */
#include "sim/check.h"

#include "sim/contract.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 64
#define BITS_RANKS 17    /* for which the results' bits are compared */
#define FIND_SEEDS 60    /* orders that a mistake may take to show */
#define FLUSH_SEEDS 2000 /* and that a source may take to be read too late */

static uint64_t
base_seed(void)
{
	const char *text = getenv("TEST_SEED");

	return text ? strtoull(text, NULL, 0) : 1;
}

/* TEST_ROW names one row, or begins the names of several: "allreduce/". */
static bool
wanted(const struct coll_row *row)
{
	const char *text = getenv("TEST_ROW");

	return !text || !strncmp(row->program.name, text, strlen(text));
}

static int
least_arg(const struct coll_row *row, int size)
{
	return row->max_arg ? row->min_arg(size) : 0;
}

static int
most_arg(const struct coll_row *row, int size)
{
	return row->max_arg ? row->max_arg(size) : 0;
}

/* Results of ops that round: the same bits in every order of events, in place or not. */
static void
same_bits(struct check c)
{
	uint64_t digest, first = 0;

	c.digest = &digest;
	for (int n = 0; n < 4; n++) {
		c.alias = n & 1;
		c.seed = base_seed() + (uint64_t)n;
		cr_assert_eq(check_run(&c), 0, "%s", oriel_detail());
		first = n ? first : digest;
		cr_assert_eq(digest, first,
		             "%s(%d), %d ranks, root %d, node %d, seed %llu: other bits",
		             c.row->program.name, c.shape.arg, c.shape.size, c.shape.root,
		             c.shape.node, (unsigned long long)c.seed);
	}
}

static void
every_order(struct check c, uint64_t seeds)
{
	if (coll_kinds[c.row->op].reduces && c.row->op != COLL_AGREE && c.shape.size <= BITS_RANKS)
		same_bits(c);
	for (int alias = 0; alias <= contract_can_alias(c.row->op); alias++)
		for (uint64_t seed = 0; seed < seeds; seed++) {
			c.alias = alias;
			c.seed = base_seed() + seed;
			cr_assert_eq(check_run(&c), 0, "%s", oriel_detail());
		}
}

/* The next argument to try: all on few ranks, else up to 8, powers of two, and the most. */
static int
next_arg(int arg, int most, int size)
{
	int next = size > 16 && arg >= 8 ? 2 * arg : arg + 1;

	return arg < most && next > most ? most : next;
}

/* Every root and node shape that the row has for so many ranks, and arguments of all sizes. */
static void
every_shape(const struct coll_row *row, int size, uint64_t seeds)
{
	struct check c = { .row = row, .shape.size = size };
	int roots = coll_kinds[row->op].rooted ? size : 1, most = most_arg(row, size);

	for (int arg = least_arg(row, size); arg <= most; arg = next_arg(arg, most, size))
		for (int root = 0; root < roots; root += root && size > 9 ? size - 2 : 1)
			for (int node = 0; node < size; node++) {
				c.shape.arg = arg;
				c.shape.root = root;
				c.shape.node = node;
				if (node && (size % node || node == 1 || !row->unfit))
					continue;
				if (!row->unfit || !row->unfit(&c.shape))
					every_order(c, seeds);
			}
}

Test(check, every_program_rank_count_and_argument)
{
	for (size_t i = 0; i < coll_rows; i++)
		for (int size = 1; size <= MAX_RANKS && wanted(&coll_table[i]); size++)
			every_shape(&coll_table[i], size, size <= 9 ? 20 : 1);
}

/* ---- mistakes ---- */

struct mistake {
	const char *name;
	/* Makes it in ops[at]; false: it cannot be made there. */
	bool (*make)(struct plan *plan, uint32_t at);
};

struct change {
	const struct mistake *mistake;
	uint32_t at;
	bool made;
};

/* The queue whose op is number at of all; at becomes its number there. */
static struct plan_queue *
queue_of(struct plan *plan, uint32_t *at)
{
	struct plan_queue *q = plan->queue;

	if (*at < q->n)
		return q;
	*at -= q->n;
	return q + 1;
}

static struct op *
nth(struct plan *plan, uint32_t at)
{
	struct plan_queue *q = queue_of(plan, &at);

	return &q->ops[at];
}

/* The op behind it in its queue; NULL: there is none. */
static struct op *
behind(struct plan *plan, uint32_t at)
{
	const struct plan_queue *q = queue_of(plan, &at);

	return at + 1 < q->n ? &q->ops[at + 1] : NULL;
}

/*
 * A wait that no mistake spoils: another one for the same sender follows before anything else
 * does; or, in this broadcast, all waits are for one sender, and some blocks are not needed soon.
 */
static bool
idle_wait(struct plan *plan, uint32_t at)
{
	const struct op *op = nth(plan, at);
	const struct plan_queue *q = queue_of(plan, &at);

	if (op->kind != OP_WAIT)
		return false;
	for (uint32_t i = at + 1; i < q->n && q->ops[i].kind == OP_WAIT; i++)
		if (q->ops[i].edge == op->edge)
			return true;
	return plan->program->build == bcast_scatter_allgather;
}

static bool
drop_op(struct plan *plan, uint32_t at)
{
	struct plan_queue *q;

	if (nth(plan, at)->kind == OP_FLUSH || idle_wait(plan, at))
		return false; /* every_flush_is_needed has flushes */
	q = queue_of(plan, &at);
	for (uint32_t i = at; i + 1 < q->n; i++)
		q->ops[i] = q->ops[i + 1];
	q->n--;
	return true;
}

static bool
drop_signal(struct plan *plan, uint32_t at)
{
	bool had = nth(plan, at)->kind == OP_PUT && nth(plan, at)->last;

	nth(plan, at)->last = false;
	return had;
}

static bool
drop_data(struct plan *plan, uint32_t at)
{
	if (nth(plan, at)->kind != OP_PUT)
		return false;
	nth(plan, at)->kind = OP_SIGNAL;
	return true;
}

static bool
one_block_less(struct plan *plan, uint32_t at)
{
	if (nth(plan, at)->kind != OP_PUT || nth(plan, at)->n < 2)
		return false;
	nth(plan, at)->n--;
	return true;
}

static bool
one_block_more(struct plan *plan, uint32_t at)
{
	struct op *op = nth(plan, at);

	if (op->kind != OP_PUT || op->n == plan->count[op->dst])
		return false;
	op->n++;
	return true;
}

static bool
next_destination(struct plan *plan, uint32_t at)
{
	struct op *op = nth(plan, at);

	if (op->kind != OP_PUT || op->n == plan->count[op->dst])
		return false;
	op->i = (op->i + 1) % plan->count[op->dst];
	return true;
}

static bool
next_source(struct plan *plan, uint32_t at)
{
	struct op *op = nth(plan, at);

	if (op->kind != OP_PUT || op->n == plan->count[op->src] || plan->count[op->src] == 1)
		return false;
	op->j = (op->j + 1) % plan->count[op->src];
	return true;
}

static bool
other_peer(struct plan *plan, uint32_t at)
{
	struct op *op = nth(plan, at);

	if (op->kind > OP_WAIT || plan->n_edges < 2 || idle_wait(plan, at))
		return false;
	op->edge = (op->edge + 1) % plan->n_edges;
	return true;
}

static bool
wait_for_one_less(struct plan *plan, uint32_t at)
{
	if (nth(plan, at)->kind != OP_WAIT || idle_wait(plan, at))
		return false;
	nth(plan, at)->n--;
	return true;
}

static bool
wait_for_one_more(struct plan *plan, uint32_t at)
{
	if (nth(plan, at)->kind != OP_WAIT || idle_wait(plan, at))
		return false;
	nth(plan, at)->n++;
	return true;
}

static bool
twice(struct plan *plan, uint32_t at)
{
	if (nth(plan, at)->kind != OP_PUT && nth(plan, at)->kind != OP_SIGNAL)
		return false;
	if (!behind(plan, at))
		return false;
	/* Over the op behind it: two mistakes at once, but never the right program. */
	*behind(plan, at) = *nth(plan, at);
	return true;
}

static bool
is_power(long n, long base)
{
	long p = 1;

	while (p < n)
		p *= base;
	return p == n;
}

/* A message goes out before what it is to tell has come: the last of a round's waits after it. */
static bool
send_too_early(struct plan *plan, uint32_t at)
{
	struct op *wait = nth(plan, at), *send = behind(plan, at), copy;

	if (!send || wait->kind != OP_WAIT || send->kind > OP_SIGNAL)
		return false;
	if (plan->program->build == allgather_doubling && !plan->shape.arg)
		return false; /* The first block of a round is the rank's own. */
	if (plan->program->build == alltoall_direct)
		return false; /* It waits for the sake of pace. */
	if (plan->program->build == allgather_bruck && !is_power(plan->shape.size, plan->shape.arg))
		return false; /* The last round is cut short: its puts may not hold the news. */
	copy = *wait;
	*wait = *send;
	*send = copy;
	return true;
}

static const struct mistake mistakes[] = {
	{ "drop the op", drop_op },
	{ "drop the signal", drop_signal },
	{ "drop the data", drop_data },
	{ "one block less", one_block_less },
	{ "one block more", one_block_more },
	{ "into the next block", next_destination },
	{ "out of the next block", next_source },
	{ "the other peer", other_peer },
	{ "wait for one batch less", wait_for_one_less },
	{ "wait for one batch more", wait_for_one_more },
	{ "send twice", twice },
	{ "send before the wait", send_too_early },
};

static void
make_mistake(struct plan *plan, void *arg)
{
	struct change *c = arg;

	if (c->at < plan->queue[0].n + plan->queue[1].n)
		c->made |= c->mistake->make(plan, c->at);
}

/* The orders until the mistake is found; 0: it cannot be made there. */
static int
find(const struct coll_row *row, const struct shape *shape, const struct mistake *m, uint32_t at)
{
	for (int seed = 0; seed < FIND_SEEDS; seed++) {
		struct change change = { .mistake = m, .at = at };
		struct check c = { .row = row,
			           .shape = *shape,
			           .alias = seed & 1,
			           .seed = base_seed() + (uint64_t)seed,
			           .change = make_mistake,
			           .change_arg = &change };
		int rc = check_run(&c);

		if (!change.made)
			return 0;
		if (rc)
			return seed + 1;
	}
	cr_expect(false, "%s(%d) of %d ranks, root %d: nobody finds \"%s\" in op %u",
	          row->program.name, shape->arg, shape->size, shape->root, m->name, at);
	return FIND_SEEDS;
}

static int
find_all(const struct coll_row *row, const struct shape *shape)
{
	int made = 0;

	for (size_t m = 0; m < ARRAY_SIZE(mistakes); m++)
		for (uint32_t at = 0; at < 64; at++)
			made += find(row, shape, &mistakes[m], at) > 0;
	return made;
}

/* 4, 7 and 8 ranks: in barrier and agreement every round's news is then needed by the next. */
Test(check, every_mistake_is_found)
{
	static const int sizes[] = { 2, 4, 7, 8 };
	int made = 0;

	for (size_t i = 0; i < coll_rows; i++)
		for (size_t s = 0; s < ARRAY_SIZE(sizes) && wanted(&coll_table[i]); s++) {
			const struct coll_row *row = &coll_table[i];
			struct shape shape = { .size = sizes[s],
				               .root = coll_kinds[row->op].rooted ? sizes[s] / 2
				                                                  : 0 };

			shape.node = sizes[s] % 2 ? 0 : sizes[s] / 2;
			if (row->unfit && row->unfit(&shape))
				continue;
			for (int arg = least_arg(row, sizes[s]); arg <= most_arg(row, sizes[s]);
			     arg++) {
				shape.arg = arg;
				made += find_all(row, &shape);
			}
		}
	if (!getenv("TEST_ROW"))
		cr_expect_gt(made, 1000, "only %d mistakes were made", made);
}

static void
drop_flushes(struct plan *plan, void *arg)
{
	struct plan_queue *q = &plan->queue[0];
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->n; i++)
		if (q->ops[i].kind != OP_FLUSH)
			q->ops[n++] = q->ops[i];
	*(bool *)arg |= n < q->n;
	q->n = n;
}

/* Not one by one: in some places and for some rank counts the one before is enough. */
Test(check, every_flush_is_needed)
{
	for (size_t i = 0; i < coll_rows; i++) {
		struct check c = { .row = &coll_table[i], .shape = { .size = 6, .node = 3 } };
		bool made = false, found = false;

		c.shape.arg = least_arg(c.row, c.shape.size);
		c.change = drop_flushes;
		c.change_arg = &made;
		for (int seed = 0; seed < FLUSH_SEEDS && wanted(c.row) && !found; seed++) {
			c.alias = seed & 1;
			c.seed = base_seed() + (uint64_t)seed;
			found = check_run(&c) != 0;
			if (!made)
				break;
		}
		cr_expect_eq(found, made, "%s: nobody misses its flushes", c.row->program.name);
	}
}
