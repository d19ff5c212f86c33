#include "coll/reduce.h"

#include "test/coll/reduce_reference.h"
#include "test/rma/alone.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>

static const char *const type_names[] = { "int32",       "int64",      "uint32",  "uint64",
	                                  "float",       "double",     "int8",    "uint8",
	                                  "int16",       "uint16",     "float16", "bfloat16",
	                                  "float8_e4m3", "float8_e5m2" };
static const char *const op_names[] = {
	"", "sum", "prod", "min", "max", "avg", "and", "or", "xor"
};

static uint64_t rng;

static uint64_t
rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng * UINT64_C(0x2545f4914f6cdd1d);
}

static const oriel_op *
op_of(int op)
{
	return (const oriel_op *)(uintptr_t)op; /* lint: allow: that is what ORIEL_SUM is */
}

static bool
is_bitwise(int op)
{
	return op == REDUCE_AND || op == REDUCE_OR || op == REDUCE_XOR;
}

/* As a context that chose the i-th set; NULL: this CPU has no more. */
static const oriel_ctx *
with_set(size_t i)
{
	static oriel_ctx ctx;

	ctx.reduce = reduce_set_at(i);
	return ctx.reduce ? &ctx : NULL;
}

static struct reducer
reducer(const oriel_ctx *ctx, int type, int op)
{
	struct reducer r;

	memset(&r, 0xa5, sizeof(r));
	cr_assert_eq(reduce_lookup(ctx, type, op_of(op), "test", &r), 0, "%s", oriel_detail());
	cr_assert_eq(r.elem, reduce_size(type));
	cr_assert(r.commutative);
	return r;
}

/* Bits that floats do not take lightly. */
static void
fill(int type, void *p, size_t n)
{
	static const uint64_t special64[] = { 0,
		                              1,
		                              0x7ff0000000000000,
		                              0x7fefffffffffffff,
		                              0x7ff8000000000000,
		                              0x7ff0000000000001,
		                              0x0010000000000000,
		                              0x000fffffffffffff };
	static const uint32_t special32[] = { 0,          1,          0x7f800000, 0x7f7fffff,
		                              0x7fc00000, 0x7f800001, 0x00800000, 0x007fffff };
	size_t size = reduce_size(type);

	for (size_t i = 0; i < n; i++) {
		uint64_t u = rand64(), sign = u >> 63, k = rand64() % 16;

		if (type == ORIEL_DOUBLE && k < 8) /* of a similar size, or special */
			u = k < 5 ? (u & 0x800fffffffffffff) | ((u >> 52 & 31) + 1000) << 52
			          : special64[u % 8] | sign << 63;
		else if (type == ORIEL_FLOAT && k < 8)
			u = k < 5 ? (u & 0x807fffff) | ((u >> 32 & 31) + 110) << 23
			          : special32[u % 8] | sign << 31;
		else if (type == ORIEL_BFLOAT16 && k < 8)
			u = k < 5 ? (u & 0x807f) | ((u >> 32 & 15) + 120) << 7
			          : special32[u % 8] >> 16 | sign << 15;
		else if (type == ORIEL_FLOAT16 && k < 4)
			u = (u & 0x83ff) | ((u >> 32 & 7) + 12) << 10;
		memcpy((char *)p + i * size, &u, size);
	}
}

static void
expect_same(const struct reducer *r, int type, int op, const char *what, const void *got,
            const void *want, const void *a, const void *b, size_t n)
{
	for (size_t i = 0; i < n && memcmp(got, want, n * r->elem); i++) {
		uint64_t v[4] = { 0 };
		const void *from[4] = { a, b, got, want };

		for (int j = 0; j < 4; j++)
			memcpy(&v[j], (const char *)from[j] + i * r->elem, r->elem);
		cr_assert_eq(v[2], v[3], "%s, %s of %s, element %zu: %lx and %lx give %lx, not %lx",
		             what, op_names[op], type_names[type], i, (long)v[0], (long)v[1],
		             (long)v[2], (long)v[3]);
	}
}

/* Everywhere the same as the reference: a op b, in all sets. */
static void
check_pairs(int type, int op, const void *a, const void *b, size_t n)
{
	size_t bytes = n * reduce_size(type);
	char *got = malloc(bytes), *want = malloc(bytes);
	const oriel_ctx *ctx;

	reference_pair(type, op, want, a, b, n);
	for (size_t s = 0; (ctx = with_set(s)); s++) {
		struct reducer r = reducer(ctx, type, op);

		memset(got, 0x5a, bytes);
		r.pair(&r, got, a, b, n);
		expect_same(&r, type, op, ctx->reduce->name, got, want, a, b, n);
	}
	free(got);
	free(want);
}

static void
each_pair_of_type_and_op(void (*fn)(int type, int op))
{
	rng = 88172645463325252;
	for (int type = 0; type < ORIEL_TYPES; type++)
		for (int op = REDUCE_SUM; op < REDUCE_OPS; op++)
			if (!is_float(type) || !is_bitwise(op))
				fn(type, op);
}

static void
all_bytes(int type, int op)
{
	static uint8_t a[65536], b[65536];

	for (int i = 0; i < 65536; i++) {
		a[i] = (uint8_t)i;
		b[i] = (uint8_t)(i >> 8);
	}
	if (reduce_size(type) == 1)
		check_pairs(type, op, a, b, 65536);
}

Test(reduce, all_pairs_of_bytes)
{
	each_pair_of_type_and_op(all_bytes);
}

static void
random_pairs(int type, int op)
{
	const size_t n = 30001;
	size_t bytes = n * reduce_size(type);
	void *a = malloc(bytes), *b = malloc(bytes);

	fill(type, a, n);
	fill(type, b, n);
	check_pairs(type, op, a, b, n);
	free(a);
	free(b);
}

Test(reduce, random_pairs)
{
	each_pair_of_type_and_op(random_pairs);
}

/* Every number of a short format comes back, and is what it should be in fp32. */
Test(reduce, widening)
{
	static float wide[65536];
	static uint16_t codes[65536], back[65536];
	const oriel_ctx *ctx;

	for (size_t s = 0; (ctx = with_set(s)); s++) {
		for (size_t k = 0; k < ARRAY_SIZE(formats); k++) {
			const struct format *f = &formats[k];
			const struct reduce_kernels *to = &ctx->reduce->of[f->type];
			size_t n = (size_t)1 << f->bits;

			for (size_t i = 0; i < n; i++)
				store_code((char *)codes + i * (unsigned)f->bits / 8, f->bits,
				           (unsigned)i);
			to->widen(wide, codes, n);
			to->narrow(back, wide, n);
			for (unsigned i = 0; i < n; i++) {
				double v = decode(f, i);
				unsigned x = load_code((char *)back + i * (unsigned)f->bits / 8,
				                       f->bits);

				cr_assert(isnan(v) ? isnan(wide[i])
				                   : wide[i] == v &&
				                             !signbit(wide[i]) == !signbit(v),
				          "%s: %s %x is %a, not %a", ctx->reduce->name,
				          type_names[f->type], i, (double)wide[i], v);
				cr_assert_eq(x, isnan(v) ? f->nan : i, "%s: %s %x comes back as %x",
				             ctx->reduce->name, type_names[f->type], i, x);
			}
		}
	}
}

static void
check_narrowing(const struct format *f, const float *v, size_t n)
{
	uint16_t out[REDUCE_STRIP];
	const oriel_ctx *ctx;

	for (size_t s = 0; (ctx = with_set(s)); s++) {
		ctx->reduce->of[f->type].narrow(out, v, n);
		for (size_t i = 0; i < n; i++) {
			unsigned x = load_code((char *)out + i * (unsigned)f->bits / 8, f->bits);

			cr_assert_eq(x, encode(f, (double)v[i]), "%s: %a is %s %x, not %x",
			             ctx->reduce->name, (double)v[i], type_names[f->type],
			             encode(f, (double)v[i]), x);
		}
	}
}

/* Around every number and every half way to its neighbour. */
Test(reduce, narrowing_at_every_boundary)
{
	float v[REDUCE_STRIP];

	for (size_t k = 0; k < ARRAY_SIZE(formats); k++) {
		const struct format *f = &formats[k];
		size_t n = 0;

		for (unsigned i = 0; i <= f->most; i++) {
			float here = (float)magnitude(f, i), next = (float)magnitude(f, i + 1);
			/* Of bf16's largest there is no next. */
			float half = isinf(next) ? 0x1.ffp127f : here + (next - here) / 2;

			for (int sign = 1; sign >= -1; sign -= 2) {
				float at[] = { here, half };

				for (int j = 0; j < 2; j++) {
					v[n++] = (float)sign * at[j];
					v[n++] = (float)sign * nextafterf(at[j], INFINITY);
					v[n++] = (float)sign * nextafterf(at[j], -INFINITY);
				}
			}
			if (n + 12 > REDUCE_STRIP || i == f->most) {
				check_narrowing(f, v, n);
				n = 0;
			}
		}
	}
}

Test(reduce, narrowing_of_anything)
{
	static const uint32_t special[] = { 0x7f800000, 0xff800000, 0x7f800001, 0xff800001,
		                            0x7fc00000, 0xffc12345, 0x7fffffff, 0x7f7fffff,
		                            0xff7fffff, 0x00000001, 0x80000001, 0x007fffff,
		                            0x00800000, 0x80000000, 0x477fffff, 0x47800000,
		                            0x43efffff, 0x43f00000, 0x43e80000, 0x43e80001 };
	float v[REDUCE_STRIP];

	rng = 7;
	memcpy(v, special, sizeof(special));
	for (size_t k = 0; k < ARRAY_SIZE(formats); k++)
		check_narrowing(&formats[k], v, ARRAY_SIZE(special));
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < REDUCE_STRIP; i++) {
			uint32_t u = (uint32_t)rand64();

			if (i % 2) /* where the eight-bit formats have their numbers */
				u = (u & 0x807fffff) | (100 + rand64() % 48) << 23;
			memcpy(&v[i], &u, sizeof(u));
		}
		for (size_t k = 0; k < ARRAY_SIZE(formats); k++)
			check_narrowing(&formats[k], v, REDUCE_STRIP);
	}
}

/* What the standards say, in figures: the reference could have misread them. */
static const struct known {
	int type, op;
	uint64_t a, b, want;
} known[] = {
	{ ORIEL_FLOAT, REDUCE_SUM, 0x7f800000, 0xff800000, 0x7fc00000 },  /* inf - inf */
	{ ORIEL_FLOAT, REDUCE_SUM, 0xff800001, 0x3f800000, 0x7fc00000 },  /* signalling */
	{ ORIEL_FLOAT, REDUCE_PROD, 0x7f800000, 0x80000000, 0x7fc00000 }, /* inf * -0 */
	{ ORIEL_FLOAT, REDUCE_MIN, 0x3f800000, 0xffc00055, 0x7fc00000 },  /* a NaN wins */
	{ ORIEL_FLOAT, REDUCE_MAX, 0xffc00055, 0x3f800000, 0x7fc00000 },
	{ ORIEL_FLOAT, REDUCE_MIN, 0x00000000, 0x80000000, 0x80000000 }, /* +0, -0 */
	{ ORIEL_FLOAT, REDUCE_MIN, 0x80000000, 0x00000000, 0x80000000 },
	{ ORIEL_FLOAT, REDUCE_MAX, 0x00000000, 0x80000000, 0x00000000 },
	{ ORIEL_FLOAT, REDUCE_MAX, 0x80000000, 0x00000000, 0x00000000 },
	{ ORIEL_FLOAT, REDUCE_SUM, 0x00000001, 0x00000001, 0x00000002 }, /* subnormal */
	{ ORIEL_FLOAT, REDUCE_SUM, 0x4b800000, 0x3f800000, 0x4b800000 }, /* 2^24 + 1 */
	{ ORIEL_FLOAT, REDUCE_SUM, 0x7f7fffff, 0x7f7fffff, 0x7f800000 },
	{ ORIEL_DOUBLE, REDUCE_MIN, 0x8000000000000000, 0, 0x8000000000000000 },
	{ ORIEL_DOUBLE, REDUCE_MAX, 0x8000000000000000, 0, 0 },
	{ ORIEL_DOUBLE, REDUCE_SUM, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000 },
	{ ORIEL_FLOAT16, REDUCE_SUM, 0x7bff, 0x4c00, 0x7c00 }, /* 65504 + 16: half way, to inf */
	{ ORIEL_FLOAT16, REDUCE_SUM, 0x7bff, 0x4b80, 0x7bff }, /* 65504 + 15 */
	{ ORIEL_FLOAT16, REDUCE_SUM, 0x0001, 0x0001, 0x0002 },
	{ ORIEL_FLOAT16, REDUCE_SUM, 0x3c00, 0x1000, 0x3c00 }, /* 1 + 2^-11: to even */
	{ ORIEL_FLOAT16, REDUCE_SUM, 0x3c01, 0x1000, 0x3c02 },
	{ ORIEL_FLOAT16, REDUCE_PROD, 0x0001, 0x3800, 0x0000 }, /* half the least: to even */
	{ ORIEL_FLOAT16, REDUCE_PROD, 0x0003, 0x3800, 0x0002 },
	{ ORIEL_FLOAT16, REDUCE_SUM, 0xfe01, 0x3c00, 0x7e00 },
	{ ORIEL_FLOAT16, REDUCE_MAX, 0x8000, 0x0000, 0x0000 },
	{ ORIEL_BFLOAT16, REDUCE_SUM, 0x3f80, 0x3b80, 0x3f80 }, /* 1 + 2^-8: to even */
	{ ORIEL_BFLOAT16, REDUCE_SUM, 0x3f81, 0x3b80, 0x3f82 },
	{ ORIEL_BFLOAT16, REDUCE_SUM, 0x7f7f, 0x7f7f, 0x7f80 },
	{ ORIEL_BFLOAT16, REDUCE_SUM, 0x0001, 0x0001, 0x0002 },
	{ ORIEL_BFLOAT16, REDUCE_MIN, 0xff81, 0xff80, 0x7fc0 },
	{ ORIEL_FLOAT8_E4M3, REDUCE_SUM, 0x7e, 0x58, 0x7e }, /* 448 + 16: half way, to even */
	{ ORIEL_FLOAT8_E4M3, REDUCE_SUM, 0x7e, 0x59, 0x7f }, /* 448 + 18 */
	{ ORIEL_FLOAT8_E4M3, REDUCE_SUM, 0xfe, 0xfe, 0x7f }, /* -896 */
	{ ORIEL_FLOAT8_E4M3, REDUCE_SUM, 0x01, 0x01, 0x02 },
	{ ORIEL_FLOAT8_E4M3, REDUCE_MAX, 0xff, 0x7e, 0x7f },
	{ ORIEL_FLOAT8_E5M2, REDUCE_SUM, 0x7b, 0x68, 0x7b }, /* 57344 + 2048 */
	{ ORIEL_FLOAT8_E5M2, REDUCE_SUM, 0x7b, 0x6c, 0x7c }, /* 57344 + 4096: half way */
	{ ORIEL_FLOAT8_E5M2, REDUCE_SUM, 0xfb, 0xfb, 0xfc },
	{ ORIEL_FLOAT8_E5M2, REDUCE_SUM, 0x7c, 0xfc, 0x7f },
	{ ORIEL_INT8, REDUCE_SUM, 127, 1, 0x80 },
	{ ORIEL_INT32, REDUCE_SUM, 0x7fffffff, 1, 0x80000000 },
	{ ORIEL_INT64, REDUCE_PROD, 0x8000000000000001, 3, 0x8000000000000003 },
	{ ORIEL_UINT16, REDUCE_PROD, 0xffff, 0xffff, 1 },
	{ ORIEL_INT16, REDUCE_MIN, 0x8000, 1, 0x8000 },
	{ ORIEL_UINT16, REDUCE_MIN, 0x8000, 1, 1 },
};

Test(reduce, known_results)
{
	const oriel_ctx *ctx;

	for (size_t s = 0; (ctx = with_set(s)); s++) {
		for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
			const struct known *k = &known[i];
			struct reducer r = reducer(ctx, k->type, k->op);
			uint64_t a[32], b[32], d[32], x = 0;

			for (size_t n = 1; n <= 32; n += 31) { /* one, and a vector of them */
				for (size_t j = 0; j < n; j++) {
					memcpy((char *)a + j * r.elem, &k->a, r.elem);
					memcpy((char *)b + j * r.elem, &k->b, r.elem);
				}
				r.pair(&r, d, a, b, n);
				memcpy(&x, (char *)d + (n - 1) * r.elem, r.elem);
				cr_assert_eq(x, k->want, "%s: case %zu, %zu elements: %lx, not %lx",
				             ctx->reduce->name, i, n, (long)x, (long)k->want);
			}
		}
	}
}

#define MANY 200
#define FENCE "0123456789abcdef"

/* x op y, n of them, at addresses that turn has the offsets for; dst is elsewhere, or an operand,
 * or both operands are one. Nothing else is written. */
static bool
is_right(const struct reducer *r, size_t turn, size_t n, const char *x, const char *y,
         const char *want)
{
	static char a[MANY * 8 + 64], b[MANY * 8 + 64], d[MANY * 8 + 64];
	size_t len = n * r->elem, how = turn % 4, off = turn / 4;
	char *pa = a + 16 + off, *pb = how == 3 ? pa : b + 16 + off * 7 % 16;
	char *pd = how == 0 ? d + 16 + off * 5 % 16 : how == 2 ? pb : pa;

	memcpy(pb, y, len);
	memcpy(pa, x, len);
	memcpy(pd - 16, FENCE, 16);
	memcpy(pd + len, FENCE, 16);
	r->pair(r, pd, pa, pb, n);
	return !memcmp(pd, want, len) && !memcmp(pd - 16, FENCE, 16) &&
	       !memcmp(pd + len, FENCE, 16);
}

static void
lengths(int type, int op)
{
	static char x[MANY * 8], y[MANY * 8], xy[MANY * 8], xx[MANY * 8];
	const oriel_ctx *ctx;

	fill(type, x, MANY);
	fill(type, y, MANY);
	reference_pair(type, op, xy, x, y, MANY);
	reference_pair(type, op, xx, x, x, MANY);
	for (size_t s = 0; (ctx = with_set(s)); s++) {
		struct reducer r = reducer(ctx, type, op);

		for (size_t n = 0; n <= MANY; n++)
			for (size_t turn = 0; turn < 64; turn++)
				if (!is_right(&r, turn, n, x, y, turn % 4 == 3 ? xx : xy))
					cr_assert_fail("%s: %s of %zu %s, turn %zu",
					               ctx->reduce->name, op_names[op], n,
					               type_names[type], turn);
	}
}

Test(reduce, lengths_and_addresses)
{
	each_pair_of_type_and_op(lengths);
}

/* Of one to nine terms, in place or not, over several strips. */
static void
folds(int type, int op)
{
	static const size_t sizes[] = { 0, 1, 7, 63, 1023, 1024, 1025, 2500 };
	size_t size = reduce_size(type), stride = 2500 * size + 3;
	char *src = malloc(9 * stride), *in = malloc(9 * stride), *d = malloc(stride);
	char *want = malloc(stride);
	const oriel_ctx *ctx;

	for (int t = 0; t < 9; t++)
		fill(type, src + (size_t)t * stride, 2500);
	for (int terms = 1; terms <= 9; terms++) {
		reference_fold(type, op, want, src, stride, terms, 2500);
		for (size_t i = 0; i < ARRAY_SIZE(sizes) * 2; i++) {
			size_t n = sizes[i / 2];

			for (size_t s = 0; (ctx = with_set(s)); s++) {
				struct reducer r = reducer(ctx, type, op);
				char *dst = i % 2 ? in : d;

				memcpy(in, src, 9 * stride);
				memset(d, 0x33, stride);
				r.fold(&r, dst, in, stride, terms, n);
				expect_same(&r, type, op, "fold", dst, want, src, src + stride, n);
				cr_assert(!memcmp(dst + n * size, i % 2 ? src + n * size : "333333",
				                  3));
				cr_assert(!memcmp(in + stride, src + stride, 8 * stride));
			}
		}
	}
	free(src);
	free(in);
	free(d);
	free(want);
}

Test(reduce, folds)
{
	each_pair_of_type_and_op(folds);
}

/* The terms of a short float meet in fp32: 1 + 2^-8 + 2^-8 in bf16 is more than 1. */
Test(reduce, folds_round_once)
{
	static const uint16_t bf16[3] = { 0x3f80, 0x3b80, 0x3b80 };
	uint16_t d;
	const oriel_ctx *ctx;

	for (size_t s = 0; (ctx = with_set(s)); s++) {
		struct reducer r = reducer(ctx, ORIEL_BFLOAT16, REDUCE_SUM);

		r.fold(&r, &d, bf16, 2, 3, 1);
		cr_expect_eq(d, 0x3f81, "%x", d);
	}
}

static void
averages(int type, int op)
{
	static const int ranks[] = { 1, 2, 3, 7, 64, 128, 200, 1000, 98304, 16777217, INT32_MAX };
	const size_t n = 5003;
	size_t bytes = n * reduce_size(type);
	char *v = malloc(bytes), *want = malloc(bytes), *got = malloc(bytes);
	const oriel_ctx *ctx;

	fill(type, v, n);
	for (size_t i = 0; i < ARRAY_SIZE(ranks) && op == REDUCE_AVG; i++) {
		memcpy(want, v, bytes);
		reference_divide(type, want, n, ranks[i]);
		for (size_t s = 0; (ctx = with_set(s)); s++) {
			struct reducer r = reducer(ctx, type, op);

			memcpy(got, v, bytes);
			r.finish(&r, got, n, ranks[i]);
			expect_same(&r, type, op, ctx->reduce->name, got, want, v, v, n);
		}
	}
	if (op != REDUCE_AVG)
		cr_assert_null(reducer(with_set(0), type, op).finish);
	free(v);
	free(want);
	free(got);
}

Test(reduce, averages)
{
	int32_t v[4] = { -7, 7, -1, INT32_MIN };
	struct reducer r = reducer(with_set(0), ORIEL_INT32, REDUCE_AVG);

	each_pair_of_type_and_op(averages);
	r.finish(&r, v, 4, 2);
	cr_assert(v[0] == -3 && v[1] == 3 && v[2] == 0 && v[3] == INT32_MIN / 2);
}
