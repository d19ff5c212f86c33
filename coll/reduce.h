/*
 * reduce.h - types and operations: the functions that combine elements.
 *
 * A reducer is looked up once a call and does not change; everything in it may
 * be used by several threads. Elements need not be aligned to their size.
 *
 * int8 to uint64, fp16, bf16, fp32, fp64, fp8 e4m3 and e5m2; sum, prod, min, max,
 * avg, and, or, xor (the last three: integers), or a user's function. Sums,
 * products and averages of fp16, bf16 and fp8 are computed in fp32 and rounded to
 * nearest even when they are stored: once for a fold, whatever its number of
 * terms, and once for each pair. What is then too large is an infinity, in e4m3 a
 * NaN. Integers wrap. avg is a sum that finish divides; integers are divided
 * towards zero.
 *
 * min and max of floats: a NaN wins, -0 is less than +0. Every NaN that an
 * operation yields is the same quiet one (coll/reduce_float.h); a fold of one term
 * is a copy. So results do not depend on the CPU, the compiler, the instruction
 * set (ORIEL_SIMD), or the order of the two operands. They do on the thread's
 * rounding mode and on whether it flushes subnormals: nothing here sets them.
 */
#ifndef COLL_REDUCE_H
#define COLL_REDUCE_H

#include "base/base.h"
#include "base/knobs.h"

struct reduce_set;     /* loops for one instruction set */
struct reduce_kernels; /* its loops for one type */
struct reducer;
struct reducer {
	size_t elem; /* bytes */
	bool commutative;
	/* dst[i] = a[i] op b[i], i < n elements; dst may be a or b, else nothing overlaps. */
	void (*pair)(const struct reducer *r, void *dst, const void *a, const void *b, size_t n);
	/* dst[i] = src[0][i] op src[1][i] op ... op src[terms-1][i], from the left; src[t] starts
	 * t * stride bytes behind src. dst may be src[0] or, for one term, overlap nothing. */
	void (*fold)(const struct reducer *r, void *dst, const void *src, size_t stride, int terms,
	             size_t n);
	/* Once, on the complete result of so many ranks; NULL: nothing to do. */
	void (*finish)(const struct reducer *r, void *dst, size_t n, int ranks);
	const struct reduce_kernels *kernels; /* NULL with a user's op */
	int op;                               /* enum reduce_op */
	oriel_op_fn *fn;                      /* the user's */
	void *arg;
};

/* For type and op as the collectives take them. EINVAL: no such type or op, or they do not go
 * together; EHANDLE: a user's op that is not live, or not of this context. what names the call. */
int reduce_lookup(const oriel_ctx *ctx, int type, const oriel_op *op, const char *what,
                  struct reducer *out);
/*
 * Type and op as ranks compare them (struct binding, salt). Users' operations are known by this
 * rank's address of them only.
 */
#define REDUCE_USERS 255u
static inline uint32_t
reduce_salt(int type, const oriel_op *op)
{
	uintptr_t number = (uintptr_t)op;

	return (uint32_t)type << 8 | (uint32_t)(number < REDUCE_USERS ? number : REDUCE_USERS);
}
static inline int
reduce_salt_type(uint32_t salt)
{
	return (int)(salt >> 8);
}
/* REDUCE_USERS: a user's. */
static inline unsigned
reduce_salt_op(uint32_t salt)
{
	return salt & 255;
}
/* Bytes of an element; 0: no such type. */
size_t reduce_size(int type);

/* The loops that ORIEL_SIMD asks for, or the best that this CPU runs. EINVAL names the knob. */
int reduce_choose(const struct knobs *k, const struct reduce_set **set);
/* Frees the user's ops that are left. */
void reduce_free_ops(oriel_ctx *ctx);

#endif
