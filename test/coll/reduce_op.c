/* Whose operations, for which types: lookup, the user's ops, ORIEL_SIMD. */
#include "coll/reduce_impl.h"
#include "test/rma/alone.h"

#include <criterion/criterion.h>
#include <string.h>

static oriel_ctx *ctx;
static struct oriel_bootstrap table;
static int local;

static void
open_ctx(void)
{
	ctx = alone_open(&table, &local, 0, 1);
}

static void
close_ctx(void)
{
	cr_assert_eq(oriel_fini(ctx), 0, "%s", oriel_detail());
}

TestSuite(reduce_op, .init = open_ctx, .fini = close_ctx);

Test(reduce_op, sizes)
{
	static const size_t want[ORIEL_TYPES] = { 4, 8, 4, 8, 4, 8, 1, 1, 2, 2, 2, 2, 1, 1 };

	for (int type = 0; type < ORIEL_TYPES; type++)
		cr_expect_eq(reduce_size(type), want[type], "type %d", type);
	cr_expect_eq(reduce_size(ORIEL_OPAQUE(1)), 1);
	cr_expect_eq(reduce_size(ORIEL_OPAQUE(12)), 12);
	cr_expect_eq(reduce_size(ORIEL_OPAQUE(1 << 20)), 1 << 20);
	cr_expect_eq(reduce_size(-1), 0);
	cr_expect_eq(reduce_size(ORIEL_TYPES), 0);
	cr_expect_eq(reduce_size(ORIEL_OPAQUE(0)), 0);
	cr_expect_eq(reduce_size(ORIEL_OPAQUE((1 << 20) + 1)), 0);
}

static void
expect_error(int type, const oriel_op *op, int code, const char *one, const char *other)
{
	struct reducer r;
	int rc = reduce_lookup(ctx, type, op, "allreduce", &r);

	cr_expect_eq(rc, code, "type %d, op %p: %d", type, (const void *)op, rc);
	cr_expect(strstr(oriel_detail(), "allreduce: ") && strstr(oriel_detail(), one) &&
	                  strstr(oriel_detail(), other),
	          "%s", oriel_detail());
}

Test(reduce_op, errors_name_type_and_op)
{
	static const struct {
		int type;
		const char *name;
	} floats[] = { { ORIEL_FLOAT, "float:" },
		       { ORIEL_DOUBLE, "double:" },
		       { ORIEL_FLOAT16, "float16:" },
		       { ORIEL_BFLOAT16, "bfloat16:" },
		       { ORIEL_FLOAT8_E4M3, "float8_e4m3:" },
		       { ORIEL_FLOAT8_E5M2, "float8_e5m2:" } };

	for (size_t i = 0; i < ARRAY_SIZE(floats); i++) {
		expect_error(floats[i].type, ORIEL_AND, ORIEL_EINVAL, "and of ", floats[i].name);
		expect_error(floats[i].type, ORIEL_OR, ORIEL_EINVAL, "or of ", floats[i].name);
		expect_error(floats[i].type, ORIEL_XOR, ORIEL_EINVAL, "xor of ", floats[i].name);
	}
	expect_error(ORIEL_OPAQUE(12), ORIEL_SUM, ORIEL_EINVAL, "sum of ", "12 bytes");
	expect_error(-1, ORIEL_MAX, ORIEL_EINVAL, "max of ", "type -1");
	expect_error(ORIEL_TYPES, ORIEL_AVG, ORIEL_EINVAL, "avg of ", "type 14");
	expect_error(ORIEL_OPAQUE(0), ORIEL_SUM, ORIEL_EINVAL, "sum of ", "no such type");
	expect_error(ORIEL_INT32, NULL, ORIEL_EINVAL, "op", "NULL");
	expect_error(ORIEL_INT32, (const oriel_op *)9, ORIEL_EINVAL, "op", "9");
	expect_error(ORIEL_INT32, (const oriel_op *)((char *)ctx + 1), ORIEL_EHANDLE, "live", "");
	expect_error(ORIEL_INT32, (const oriel_op *)ctx, ORIEL_EHANDLE, "live", "");
}

#define ELEM 3
/* Of elements of three bytes, as numbers: a * 3 + b, so that the order shows. */
static void
triple(void *out, const void *a, const void *b, size_t n, void *arg)
{
	const uint8_t *s = a, *t = b;
	uint8_t *d = out;

	++*(int *)arg;
	cr_assert_gt(n, 0);
	for (size_t i = 0; i < n; i++) {
		unsigned x = s[i * ELEM] | (unsigned)s[i * ELEM + 1] << 8;
		unsigned y = t[i * ELEM] | (unsigned)t[i * ELEM + 1] << 8, z = x * 3 + y;

		d[i * ELEM] = (uint8_t)z;
		d[i * ELEM + 1] = (uint8_t)(z >> 8);
		d[i * ELEM + 2] = s[i * ELEM + 2];
	}
}

Test(reduce_op, a_user_s)
{
	enum { N = 3000 };
	static uint8_t src[4][N * ELEM], d[N * ELEM];
	struct reducer r;
	oriel_op *op;
	int calls = 0;

	cr_assert_eq(oriel_op_create(ctx, triple, &calls, 0, &op), 0, "%s", oriel_detail());
	cr_assert_eq(reduce_lookup(ctx, ORIEL_OPAQUE(ELEM), op, "reduce", &r), 0);
	cr_assert(r.elem == ELEM && !r.commutative && !r.finish);
	for (int t = 0; t < 4; t++)
		for (int i = 0; i < N * ELEM; i++)
			src[t][i] = i % ELEM == 1 ? 0 : (uint8_t)(i % ELEM ? t : i / ELEM + 50 * t);
	r.pair(&r, d, src[1], src[0], 0);
	cr_assert_eq(calls, 0);
	r.pair(&r, d, src[1], src[0], N);
	cr_assert_eq(calls, 1);
	for (unsigned i = 0; i < N; i++) {
		unsigned x = (uint8_t)(i + 50), y = (uint8_t)i, z = x * 3 + y;

		cr_assert_eq(d[i * ELEM] | (unsigned)d[i * ELEM + 1] << 8, z, "element %u", i);
		cr_assert_eq(d[i * ELEM + 2], 1);
	}
	r.fold(&r, d, src, sizeof(src[0]), 4, N);
	for (unsigned i = 0; i < N; i++) {
		unsigned z = (uint8_t)i;

		for (unsigned t = 1; t < 4; t++)
			z = (z * 3 + (uint8_t)(i + 50 * t)) & 0xffff;
		cr_assert_eq(d[i * ELEM] | (unsigned)d[i * ELEM + 1] << 8, z, "element %u", i);
	}
	r.fold(&r, d, src[2], sizeof(src[0]), 1, N);
	cr_assert(!memcmp(d, src[2], sizeof(d)));
	expect_error(ORIEL_TYPES, op, ORIEL_EINVAL, "user's op", "type 14");
	cr_assert_eq(reduce_lookup(ctx, ORIEL_DOUBLE, op, "reduce", &r), 0);
	cr_assert_eq(r.elem, 8);
	cr_assert_eq(oriel_op_free(op), 0);
}

Test(reduce_op, large_elements)
{
	static char src[2][1 << 20], d[1 << 20];
	struct reducer r;
	oriel_op *op;
	int calls = 0;

	cr_assert_eq(oriel_op_create(ctx, triple, &calls, 7, &op), 0);
	cr_assert_eq(reduce_lookup(ctx, ORIEL_OPAQUE(1 << 20), op, "reduce", &r), 0);
	cr_assert(r.commutative);
	src[1][0] = 5;
	r.fold(&r, d, src, sizeof(src[0]), 2, 1);
	cr_assert(calls == 1 && d[0] == 5);
	/* Left to oriel_fini. */
}

Test(reduce_op, handles)
{
	struct oriel_bootstrap other_table;
	oriel_op *op, *second, *third;
	oriel_ctx *other;
	int other_local, calls;

	cr_expect_eq(oriel_op_create(NULL, triple, NULL, 0, &op), ORIEL_EHANDLE);
	cr_expect_eq(oriel_op_create(ctx, NULL, NULL, 0, &op), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "fn is NULL"), "%s", oriel_detail());
	cr_expect_eq(oriel_op_create(ctx, triple, NULL, 0, NULL), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "op is NULL"), "%s", oriel_detail());
	cr_expect_eq(oriel_op_free(NULL), 0);
	cr_expect_eq(oriel_op_free((oriel_op *)(uintptr_t)ORIEL_MAX), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "max"), "%s", oriel_detail());
	cr_assert_eq(oriel_op_create(ctx, triple, &calls, 0, &op), 0);
	cr_assert_eq(oriel_op_create(ctx, triple, &calls, 0, &second), 0);
	cr_assert_eq(oriel_op_create(ctx, triple, &calls, 0, &third), 0);
	cr_expect_eq(oriel_op_free(second), 0);
	cr_expect_eq(oriel_op_free(second), ORIEL_EHANDLE);
	expect_error(ORIEL_INT32, second, ORIEL_EHANDLE, "live", "");
	cr_expect_eq(oriel_op_free(third), 0);
	other = alone_open(&other_table, &other_local, 0, 1);
	cr_assert_eq(oriel_op_create(other, triple, &calls, 0, &second), 0);
	expect_error(ORIEL_INT32, second, ORIEL_EHANDLE, "another context", "");
	cr_assert_eq(oriel_op_free(second), 0);
	cr_assert_eq(oriel_fini(other), 0);
	cr_expect_eq(oriel_op_free(op), 0);
}

static int
choose(const char *option, const struct reduce_set **set)
{
	const char *const options[] = { option, NULL };
	struct knobs k;

	cr_assert_eq(knobs_load(&k, options), 0, "%s", oriel_detail());
	return reduce_choose(&k, set);
}

/* Every set by its name, or an error that says why not; auto: the last one. */
Test(reduce_op, instruction_sets)
{
	static const char *const names[] = { "ORIEL_SIMD=base", "ORIEL_SIMD=avx2",
		                             "ORIEL_SIMD=avx512" };
	const struct reduce_set *set = NULL, *best = NULL;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (reduce_set_at(n) && !strcmp(reduce_set_at(n)->name, names[i] + 11)) {
			cr_expect_eq(choose(names[i], &set), 0, "%s", oriel_detail());
			cr_expect_eq(set, reduce_set_at(n));
			best = set;
			n++;
		} else {
			cr_expect_eq(choose(names[i], &set), ORIEL_EINVAL, "%s", names[i]);
			cr_expect(strstr(oriel_detail(), names[i]) &&
			                  (strstr(oriel_detail(), "this CPU") ||
			                   strstr(oriel_detail(), "this build")),
			          "%s", oriel_detail());
		}
	}
	cr_expect_gt(n, 0);
	cr_expect_null(reduce_set_at(n));
	cr_expect_eq(choose("ORIEL_SIMD=auto", &set), 0);
	cr_expect_eq(set, best);
	cr_expect_eq(ctx->reduce, best, "that is the default");
	cr_expect_eq(choose("ORIEL_SIMD=sse9", &set), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "ORIEL_SIMD=sse9 (from the options) is none of"), "%s",
	          oriel_detail());
}

Test(reduce_op, a_context_with_an_impossible_set)
{
	static const char *const knobs[] = { "ORIEL_SIMD=mmx", NULL };
	struct oriel_options o = { .size = sizeof(o), .knobs = knobs };
	oriel_ctx *none = NULL;

	cr_expect_eq(oriel_init(&o, &none), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "ORIEL_SIMD=mmx"), "%s", oriel_detail());
	cr_expect_null(none);
}
