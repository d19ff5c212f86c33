#include "coll/reduce.h"

#include "base/copy.h"
#include "coll/reduce_impl.h"
#include "rma/ctx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#define OP_MAGIC UINT64_C(0x706f6c656972006f)
#define FOLD_BYTES 4096 /* of dst at a time: it stays in the first cache beside one term */

struct oriel_op {
	uint64_t magic;
	oriel_ctx *ctx;
	oriel_op_fn *fn;
	void *arg;
	bool commutative;
	oriel_op *next, **link; /* the context's ops; link points to what points here */
};

static const struct {
	const char *name;
	size_t size;
} types[ORIEL_TYPES] = {
	[ORIEL_INT32] = { "int32", 4 },
	[ORIEL_INT64] = { "int64", 8 },
	[ORIEL_UINT32] = { "uint32", 4 },
	[ORIEL_UINT64] = { "uint64", 8 },
	[ORIEL_FLOAT] = { "float", 4 },
	[ORIEL_DOUBLE] = { "double", 8 },
	[ORIEL_INT8] = { "int8", 1 },
	[ORIEL_UINT8] = { "uint8", 1 },
	[ORIEL_INT16] = { "int16", 2 },
	[ORIEL_UINT16] = { "uint16", 2 },
	[ORIEL_FLOAT16] = { "float16", 2 },
	[ORIEL_BFLOAT16] = { "bfloat16", 2 },
	[ORIEL_FLOAT8_E4M3] = { "float8_e4m3", 1 },
	[ORIEL_FLOAT8_E5M2] = { "float8_e5m2", 1 },
};

static const char *const op_names[REDUCE_OPS] = { "none", "sum", "prod", "min", "max",
	                                          "avg",  "and", "or",   "xor" };

/*
 * ---- Instruction sets ----
 */

static bool
always(void)
{
	return true;
}

#ifdef HAVE_AVX2
static bool
has_avx2(void)
{
	unsigned a, b, c, d;

	/* Compilers do not all know F16C by name. That the system saves the registers is a part of
	 * what they ask for AVX2. */
	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

#ifdef HAVE_AVX512
static bool
has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

/* The better, the later. */
static const struct {
	const char *name;
	const struct reduce_set *set; /* NULL: not in this build */
	bool (*runs)(void);
} sets[] = {
	{ "base", &reduce_base, always },
#ifdef HAVE_AVX2
	{ "avx2", &reduce_avx2, has_avx2 },
#else
	{ "avx2", NULL, NULL },
#endif
#ifdef HAVE_AVX512
	{ "avx512", &reduce_avx512, has_avx512 },
#else
	{ "avx512", NULL, NULL },
#endif
};

const struct reduce_set *
reduce_set_at(size_t i)
{
	for (size_t j = 0; j < ARRAY_SIZE(sets); j++)
		if (sets[j].set && sets[j].runs() && !i--)
			return sets[j].set;
	return NULL;
}

int
reduce_choose(const struct knobs *k, const struct reduce_set **set)
{
	const char *want = k->s.simd, *from = k->from.simd;

	if (!strcmp(want, "auto")) {
		for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
			if (sets[i].set && sets[i].runs())
				*set = sets[i].set;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		if (strcmp(want, sets[i].name))
			continue;
		if (!sets[i].set)
			return fail(ORIEL_EINVAL, "ORIEL_SIMD=%s (from the %s): not in this build",
			            want, from);
		if (!sets[i].runs())
			return fail(ORIEL_EINVAL,
			            "ORIEL_SIMD=%s (from the %s): this CPU does not have it", want,
			            from);
		*set = sets[i].set;
		return 0;
	}
	return fail(ORIEL_EINVAL, "ORIEL_SIMD=%s (from the %s) is none of auto, base, avx2, avx512",
	            want, from);
}

/*
 * ---- Folds and averages ----
 */

static void
copy_term(const struct reducer *r, void *dst, const void *src, size_t n)
{
	if (dst != src && n)
		copy_bytes(dst, src, n * r->elem);
}

/* Strip by strip, so that dst is in the cache when the next term comes. */
static void
fold_pairs(const struct reducer *r, void *dst, const void *src, size_t stride, int terms, size_t n)
{
	size_t strip = n;

	if (n * r->elem > FOLD_BYTES) /* a division takes longer than short vectors do */
		strip = r->elem < FOLD_BYTES ? FOLD_BYTES / r->elem : 1;
	if (terms == 1)
		copy_term(r, dst, src, n);
	for (size_t i = 0; i < n && terms > 1; i += strip) {
		const char *term = (const char *)src + i * r->elem;
		char *d = (char *)dst + i * r->elem;
		size_t m = n - i < strip ? n - i : strip;

		r->pair(r, d, term, term + stride, m);
		for (int t = 2; t < terms; t++)
			r->pair(r, d, d, term + (size_t)t * stride, m);
	}
}

/* The same with the sums in fp32, for floats that are shorter. */
static void
fold_short(const struct reducer *r, void *dst, const void *src, size_t stride, int terms, size_t n)
{
	const struct reduce_kernels *k = r->kernels;
	float acc[REDUCE_STRIP];

	if (terms <= 2) {
		fold_pairs(r, dst, src, stride, terms, n);
		return;
	}
	for (size_t i = 0; i < n; i += REDUCE_STRIP) {
		const char *term = (const char *)src + i * r->elem;
		size_t m = n - i < REDUCE_STRIP ? n - i : REDUCE_STRIP;

		k->widen(acc, term, m);
		for (int t = 1; t < terms; t++)
			k->combine[r->op](acc, term + (size_t)t * stride, m);
		k->narrow((char *)dst + i * r->elem, acc, m);
	}
}

static void
finish_avg(const struct reducer *r, void *dst, size_t n, int ranks)
{
	r->kernels->divide(dst, n, ranks);
}

/*
 * ---- The user's operations ----
 */

static void
pair_user(const struct reducer *r, void *dst, const void *a, const void *b, size_t n)
{
	if (n)
		r->fn(dst, a, b, n, r->arg);
}

int
oriel_op_create(oriel_ctx *ctx, oriel_op_fn *fn, void *arg, int commutative, oriel_op **op)
{
	int rc = ctx_enter(ctx);
	oriel_op *o;

	if (rc)
		return rc;
	if (!fn || !op)
		return fail(ORIEL_EINVAL, "oriel_op_create: %s is NULL", fn ? "op" : "fn");
	o = calloc(1, sizeof(*o));
	if (!o)
		return fail(ORIEL_ENOMEM, "no memory for an operation");
	o->magic = OP_MAGIC;
	o->ctx = ctx;
	o->fn = fn;
	o->arg = arg;
	o->commutative = commutative;
	pthread_mutex_lock(&ctx->lock);
	o->next = ctx->ops;
	o->link = &ctx->ops;
	if (o->next)
		o->next->link = &o->next;
	ctx->ops = o;
	pthread_mutex_unlock(&ctx->lock);
	*op = o;
	return 0;
}

static void
unlink_op(oriel_op *op)
{
	*op->link = op->next;
	if (op->next)
		op->next->link = op->link;
	op->magic = 0;
}

/* 0: one of the library's, or a live one of the user's. */
static int
check_op(const oriel_op *op, const char *what)
{
	if (!op)
		return fail(ORIEL_EINVAL, "%s: op is NULL", what);
	if ((uintptr_t)op < REDUCE_OPS)
		return 0;
	if ((uintptr_t)op < 4096) /* no address */
		return fail(ORIEL_EINVAL, "%s: there is no op %d", what, (int)(uintptr_t)op);
	if ((uintptr_t)op % sizeof(uint64_t) || op->magic != OP_MAGIC)
		return fail(ORIEL_EHANDLE, "%s: %p is not a live operation", what,
		            (const void *)op);
	return 0;
}

int
oriel_op_free(oriel_op *op)
{
	oriel_ctx *ctx;
	int rc;

	if (!op)
		return 0;
	rc = check_op(op, "oriel_op_free");
	if (rc)
		return rc;
	if ((uintptr_t)op < REDUCE_OPS)
		return fail(ORIEL_EINVAL, "oriel_op_free: %s is the library's",
		            op_names[(uintptr_t)op]);
	ctx = op->ctx;
	rc = ctx_enter(ctx);
	if (rc && rc != ORIEL_EEXPELLED)
		return rc;
	pthread_mutex_lock(&ctx->lock);
	unlink_op(op);
	pthread_mutex_unlock(&ctx->lock);
	ctx_bury(ctx, op);
	return 0;
}

void
reduce_free_ops(oriel_ctx *ctx)
{
	oriel_op *op;

	while ((op = ctx->ops)) {
		unlink_op(op);
		free(op);
	}
}

/*
 * ---- Lookup ----
 */

size_t
reduce_size(int type)
{
	if (type >= 0 && type < ORIEL_TYPES)
		return types[type].size;
	if (type >= ORIEL_OPAQUE(1) && type <= ORIEL_OPAQUE(1 << 20))
		return (size_t)(type - ORIEL_OPAQUE(0));
	return 0;
}

/* What is wrong with this pair, by their names. */
static int
bad_pair(int type, int op, const char *what)
{
	const char *name = op ? op_names[op] : "a user's op";

	if (type >= 0 && type < ORIEL_TYPES)
		return fail(ORIEL_EINVAL, "%s: %s of %s: it is for integers", what, name,
		            types[type].name);
	if (reduce_size(type))
		return fail(ORIEL_EINVAL,
		            "%s: %s of opaque elements of %zu bytes: only a user's op knows them",
		            what, name, reduce_size(type));
	return fail(ORIEL_EINVAL, "%s: %s of type %d: there is no such type", what, name, type);
}

static int
lookup_user(const oriel_ctx *ctx, int type, const oriel_op *op, const char *what,
            struct reducer *out)
{
	if (op->ctx != ctx)
		return fail(ORIEL_EHANDLE, "%s: operation %p is of another context", what,
		            (const void *)op);
	if (!reduce_size(type))
		return bad_pair(type, 0, what);
	*out = (struct reducer){
		.elem = reduce_size(type),
		.commutative = op->commutative,
		.pair = pair_user,
		.fold = fold_pairs,
		.fn = op->fn,
		.arg = op->arg,
	};
	return 0;
}

int
reduce_lookup(const oriel_ctx *ctx, int type, const oriel_op *op, const char *what,
              struct reducer *out)
{
	const struct reduce_kernels *k;
	int number, rc = check_op(op, what);

	if (unlikely(rc))
		return rc;
	if ((uintptr_t)op >= REDUCE_OPS)
		return lookup_user(ctx, type, op, what, out);
	number = (int)(uintptr_t)op;
	if (unlikely(type < 0 || type >= ORIEL_TYPES))
		return bad_pair(type, number, what);
	k = &ctx->reduce->of[type];
	if (unlikely(!k->pair[number]))
		return bad_pair(type, number, what);
	out->elem = types[type].size;
	out->commutative = true;
	out->pair = k->pair[number];
	out->finish = number == REDUCE_AVG ? finish_avg : NULL;
	out->kernels = k;
	out->op = number == REDUCE_AVG ? REDUCE_SUM : number;
	out->fold = k->widen && out->op <= REDUCE_PROD ? fold_short : fold_pairs;
	out->fn = NULL;
	out->arg = NULL;
	return 0;
}
