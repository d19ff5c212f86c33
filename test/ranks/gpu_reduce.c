/*
 * gpu_reduce.c - collectives on streams that combine: against sums worked out on
 * the host, of values that every type holds exactly; and bitwise alike on all ranks
 * where rounding counts.
 *
 * --rounds N: random calls.
 */
#include "test/ranks/gpu_test.h"

#define MOST ((size_t)20000) /* elements */

enum what { REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN, EXSCAN, KINDS };
static const char *const names[KINDS] = { "reduce", "allreduce", "reduce_scatter", "scan",
	                                  "exscan" };

struct call {
	enum what kind;
	size_t count;
	int type, root;
	const oriel_op *op;
	bool in_place;
	uint64_t round;
};

struct work {
	struct test g;
	struct ranks *r;
	CUstream s;
	unsigned char *in, *out, *host;
	size_t room;
	uint64_t dice;
};

/* Small whole numbers; a product of a few of them is one, too. */
static int
value(const struct call *c, int rank, size_t k)
{
	uint64_t x = ((uint64_t)rank * 131 + k * 7 + c->round) * UINT64_C(0x9e3779b97f4a7c15);

	return (int)(x >> 60) % 3 + 1;
}

static void
store(unsigned char *p, int type, size_t k, double v)
{
	if (type == ORIEL_FLOAT)
		((float *)(void *)p)[k] = (float)v;
	else if (type == ORIEL_DOUBLE)
		((double *)(void *)p)[k] = v;
	else
		((int32_t *)(void *)p)[k] = (int32_t)v;
}

static double
load(const unsigned char *p, int type, size_t k)
{
	if (type == ORIEL_FLOAT)
		return (double)((const float *)(const void *)p)[k];
	if (type == ORIEL_DOUBLE)
		return ((const double *)(const void *)p)[k];
	return ((const int32_t *)(const void *)p)[k];
}

static double
combined(const oriel_op *op, double a, double b)
{
	if (op == ORIEL_MIN)
		return a < b ? a : b;
	if (op == ORIEL_MAX)
		return a > b ? a : b;
	return op == ORIEL_PROD ? a * b : a + b;
}

/* Of the ranks before `end`, of element k. */
static double
expected(const struct call *c, int end, size_t k)
{
	double sum = value(c, 0, k);

	for (int r = 1; r < end; r++)
		sum = combined(c->op, sum, value(c, r, k));
	return sum;
}

static bool
start(struct work *t, const struct call *c)
{
	const void *in = c->in_place ? NULL : t->in;
	oriel_comm *w = t->r->world;

	switch (c->kind) {
	case REDUCE:
		return OK(oriel_reduce_on_stream(w, t->r->rank == c->root ? in : t->in, t->out,
		                                 c->count, c->type, c->op, c->root, t->s));
	case ALLREDUCE:
		return OK(oriel_allreduce_on_stream(w, in, t->out, c->count, c->type, c->op, t->s));
	case REDUCE_SCATTER:
		return OK(oriel_reduce_scatter_on_stream(w, t->in, t->out, c->count, c->type, c->op,
		                                         t->s));
	case SCAN:
		return OK(oriel_scan_on_stream(w, in, t->out, c->count, c->type, c->op, t->s));
	default:
		return OK(oriel_exscan_on_stream(w, in, t->out, c->count, c->type, c->op, t->s));
	}
}

static void
fill(struct work *t, const struct call *c)
{
	int me = t->r->rank;
	size_t n = c->count * (c->kind == REDUCE_SCATTER ? (size_t)t->r->size : 1);

	memset(t->host, 0, t->room);
	for (size_t k = 0; k < n; k++)
		store(t->host, c->type, k, value(c, me, k));
	copy_and_wait(t->s, t->in, t->host, t->room);
	if (!c->in_place)
		memset(t->host, 0xee, t->room);
	copy_and_wait(t->s, t->out, t->host, t->room);
}

static void
check(struct work *t, const struct call *c)
{
	int me = t->r->rank, n = t->r->size, end = n;
	size_t from = c->kind == REDUCE_SCATTER ? (size_t)me * c->count : 0;

	copy_and_wait(t->s, t->host, t->out, t->room);
	if (c->kind == SCAN)
		end = me + 1;
	if (c->kind == EXSCAN)
		end = me;
	if (!end || (c->kind == REDUCE && me != c->root))
		return;
	for (size_t k = 0; k < c->count; k++) {
		double seen = load(t->host, c->type, k), want = expected(c, end, from + k);

		if (seen != want) {
			CHECK(false,
			      "%s of %zu elements of type %d%s, round %llu: element %zu is %g, not "
			      "%g",
			      names[c->kind], c->count, c->type, c->in_place ? ", in place" : "",
			      (unsigned long long)c->round, k, seen, want);
			return;
		}
	}
}

static void
random_calls(struct work *t, uint64_t rounds)
{
	static const int types[] = { ORIEL_INT32, ORIEL_FLOAT, ORIEL_DOUBLE };
	const oriel_op *const ops[] = { ORIEL_SUM, ORIEL_MIN, ORIEL_MAX, ORIEL_PROD };

	for (uint64_t i = 0; i < rounds; i++) {
		struct call c = { .kind = (enum what)(ranks_next(&t->dice) % KINDS), .round = i };

		c.count = (size_t)(ranks_next(&t->dice) % MOST) >> ranks_next(&t->dice) % 15;
		c.type = types[ranks_next(&t->dice) % 3];
		c.op = ops[ranks_next(&t->dice) % 4];
		c.root = (int)(ranks_next(&t->dice) % (unsigned)t->r->size);
		c.in_place = c.kind != REDUCE_SCATTER && ranks_next(&t->dice) % 3 == 0;
		fill(t, &c);
		if (!start(t, &c))
			return;
		check(t, &c);
	}
}

/* Sixteen bits: what one rank has all have, though sums are rounded. And averages. */
static void
alike(struct work *t)
{
	size_t count = 5001, bytes = count * 2;
	unsigned char *all = malloc(bytes * (size_t)t->r->size);

	NEED(all, "no memory");
	for (size_t k = 0; k < bytes; k++)
		t->host[k] = (unsigned char)((ranks_random(t->r, 256)) & (k % 2 ? 0xbf : 0xff));
	copy_and_wait(t->s, t->in, t->host, t->room);
	OK(oriel_allreduce_on_stream(t->r->world, t->in, t->out, count, ORIEL_BFLOAT16, ORIEL_AVG,
	                             t->s));
	copy_and_wait(t->s, t->host, t->out, t->room);
	OK(oriel_allgather(t->r->world, t->host, all, bytes));
	for (int i = 0; i < t->r->size; i++)
		CHECK(!memcmp(all + (size_t)i * bytes, t->host, bytes),
		      "ranks %d and %d have different averages", i, t->r->rank);
	free(all);
}

static int
run(struct ranks *r)
{
	struct work t = { .r = r, .room = MOST * 8 * (size_t)r->size, .dice = r->seed };

	if (!test_begin(&t.g, r))
		return 1;
	t.s = test_stream();
	t.in = test_take(t.room);
	t.out = test_take(t.room);
	t.host = malloc(t.room);
	NEED(t.host, "no memory");
	random_calls(&t, r->rounds ? r->rounds : 100);
	alike(&t);
	OK(oriel_barrier(r->world));
	GOOD(CU(cuStreamDestroy)(t.s));
	test_drop(t.in);
	test_drop(t.out);
	free(t.host);
	test_end(&t.g);
	return 0;
}

RANKS_MAIN(run)
