/*
 * reduce_kernels.h - the loops that combine elements, and their table. Compiled once
 * for each instruction set, by reduce_base.c and its like, which name the table in
 * REDUCE_SET.
 *
 * What a loop does to one element is plain C, the same for all sets, and compilers
 * vectorize it; only fp16 and bf16 have vectors of their own on x86 (reduce_wide.h).
 * No operation is contracted with another (-ffp-contract=off), so that all sets
 * round alike. Elements lie at any address.
 */
#ifndef COLL_REDUCE_KERNELS_H
#define COLL_REDUCE_KERNELS_H

#include "coll/reduce_float.h"
#include "coll/reduce_impl.h"

#ifndef REDUCE_SET
#define REDUCE_SET reduce_base
#define REDUCE_SET_NAME "base"
#endif

/* Operands are the same or do not overlap: an element depends on no other. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define UNALIGNED(name, T) typedef T name __attribute__((aligned(1), may_alias))
UNALIGNED(i8, int8_t);
UNALIGNED(u8, uint8_t);
UNALIGNED(i16, int16_t);
UNALIGNED(u16, uint16_t);
UNALIGNED(i32, int32_t);
UNALIGNED(u32, uint32_t);
UNALIGNED(i64, int64_t);
UNALIGNED(u64, uint64_t);
UNALIGNED(f32, float);
UNALIGNED(f64, double);
typedef u16 f16, bf16;
typedef u8 e4m3, e5m2;

#define PAIR(T, op, value)                                                                         \
	static void T##_##op(const struct reducer *r, void *dst, const void *a, const void *b,     \
	                     size_t n)                                                             \
	{                                                                                          \
		const T *s = a, *t = b;                                                            \
		T *d = dst;                                                                        \
                                                                                                   \
		(void)r;                                                                           \
		INDEPENDENT                                                                        \
		for (size_t i = 0; i < n; i++) {                                                   \
			const __typeof__(+s[i]) x = s[i], y = t[i];                                \
                                                                                                   \
			d[i] = (T)(value);                                                         \
		}                                                                                  \
	}

#define DIVIDE(T, W, from, to)                                                                     \
	static void T##_divide(void *v, size_t n, int by)                                          \
	{                                                                                          \
		const W y = (W)by;                                                                 \
		T *d = v;                                                                          \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			d[i] = to(from(d[i]) / y);                                                 \
	}

/* Signed integers wrap, so they share all but min, max and divide with the unsigned ones. */
#define UNSIGNED(T, W)                                                                             \
	PAIR(T, sum, 1u * x + y)                                                                   \
	PAIR(T, prod, 1u * x * y)                                                                  \
	PAIR(T, and, x &y)                                                                         \
	PAIR(T, or, x | y)                                                                         \
	PAIR(T, xor, x ^ y)                                                                        \
	INTEGER(T, W)
#define INTEGER(T, W)                                                                              \
	PAIR(T, min, x < y ? x : y)                                                                \
	PAIR(T, max, x < y ? y : x)                                                                \
	DIVIDE(T, W, (W), (T))
UNSIGNED(u8, int32_t)
UNSIGNED(u16, int32_t)
UNSIGNED(u32, uint32_t)
UNSIGNED(u64, uint64_t)
INTEGER(i8, int32_t)
INTEGER(i16, int32_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)

#define FLOAT(T)                                                                                   \
	PAIR(T, sum, one_nan_##T(x + y))                                                           \
	PAIR(T, prod, one_nan_##T(x *y))                                                           \
	PAIR(T, min, min_##T(x, y))                                                                \
	PAIR(T, max, max_##T(x, y))                                                                \
	DIVIDE(T, T, , one_nan_##T)
FLOAT(f32)
FLOAT(f64)

/* Vectors while there are enough elements, then one by one: the asm keeps compilers from making
 * vectors of the few that are left. */
#define SHORT_LOOP(vector, one)                                                                    \
	{                                                                                          \
		size_t i = 0;                                                                      \
                                                                                                   \
		for (; n - i >= LANES; i += LANES)                                                 \
			vector;                                                                    \
		for (; i < n; i++) {                                                               \
			one;                                                                       \
			__asm__("" : "+r"(i));                                                     \
		}                                                                                  \
	}
#define SHORT_OP(T, op, sign)                                                                      \
	static void T##_##op(const struct reducer *r, void *dst, const void *a, const void *b,     \
	                     size_t n)                                                             \
	{                                                                                          \
		const T *s = a, *t = b;                                                            \
		T *d = dst;                                                                        \
                                                                                                   \
		(void)r;                                                                           \
		SHORT_LOOP(put_##T(d + i, get_##T(s + i) sign get_##T(t + i)),                     \
		           d[i] = narrow_##T(widen_##T(s[i]) sign widen_##T(t[i])))                \
	}                                                                                          \
	static void T##_combine_##op(float *acc, const void *from, size_t n)                       \
	{                                                                                          \
		const T *s = from;                                                                 \
                                                                                                   \
		SHORT_LOOP(store_f32(acc + i, load_f32(acc + i) sign get_##T(s + i)),              \
		           acc[i] = acc[i] sign widen_##T(s[i]))                                   \
	}
#define SHORT(T)                                                                                   \
	SHORT_OP(T, sum, +)                                                                        \
	SHORT_OP(T, prod, *)                                                                       \
	PAIR(T, min, min_##T((T)x, (T)y))                                                          \
	PAIR(T, max, max_##T((T)x, (T)y))                                                          \
	static void T##_divide(void *v, size_t n, int by)                                          \
	{                                                                                          \
		const float y = (float)by;                                                         \
		T *d = v;                                                                          \
                                                                                                   \
		SHORT_LOOP(put_##T(d + i, get_##T(d + i) / y),                                     \
		           d[i] = narrow_##T(widen_##T(d[i]) / y))                                 \
	}                                                                                          \
	static void T##_widen(float *acc, const void *from, size_t n)                              \
	{                                                                                          \
		const T *s = from;                                                                 \
                                                                                                   \
		SHORT_LOOP(store_f32(acc + i, get_##T(s + i)), acc[i] = widen_##T(s[i]))           \
	}                                                                                          \
	static void T##_narrow(void *to, const float *acc, size_t n)                               \
	{                                                                                          \
		T *d = to;                                                                         \
                                                                                                   \
		SHORT_LOOP(put_##T(d + i, load_f32(acc + i)), d[i] = narrow_##T(acc[i]))           \
	}
SHORT(f16)
SHORT(bf16)
SHORT(e4m3)
SHORT(e5m2)

#define ARITHMETIC_ROW(T, U)                                                                       \
	.pair[REDUCE_SUM] = U##_sum, .pair[REDUCE_PROD] = U##_prod, .pair[REDUCE_MIN] = T##_min,   \
	.pair[REDUCE_MAX] = T##_max, .pair[REDUCE_AVG] = U##_sum, .divide = T##_divide
#define INTEGER_ROW(T, U)                                                                          \
	ARITHMETIC_ROW(T, U), .pair[REDUCE_AND] = U##_and, .pair[REDUCE_OR] = U##_or,              \
	                      .pair[REDUCE_XOR] = U##_xor
#define SHORT_ROW(T)                                                                               \
	ARITHMETIC_ROW(T, T), .widen = T##_widen, .narrow = T##_narrow,                            \
	                      .combine[REDUCE_SUM] = T##_combine_sum,                              \
	                      .combine[REDUCE_PROD] = T##_combine_prod

const struct reduce_set REDUCE_SET = {
	.name = REDUCE_SET_NAME,
	.of = {
		[ORIEL_INT8] = { INTEGER_ROW(i8, u8) },
		[ORIEL_UINT8] = { INTEGER_ROW(u8, u8) },
		[ORIEL_INT16] = { INTEGER_ROW(i16, u16) },
		[ORIEL_UINT16] = { INTEGER_ROW(u16, u16) },
		[ORIEL_INT32] = { INTEGER_ROW(i32, u32) },
		[ORIEL_UINT32] = { INTEGER_ROW(u32, u32) },
		[ORIEL_INT64] = { INTEGER_ROW(i64, u64) },
		[ORIEL_UINT64] = { INTEGER_ROW(u64, u64) },
		[ORIEL_FLOAT] = { ARITHMETIC_ROW(f32, f32) },
		[ORIEL_DOUBLE] = { ARITHMETIC_ROW(f64, f64) },
		[ORIEL_FLOAT16] = { SHORT_ROW(f16) },
		[ORIEL_BFLOAT16] = { SHORT_ROW(bf16) },
		[ORIEL_FLOAT8_E4M3] = { SHORT_ROW(e4m3) },
		[ORIEL_FLOAT8_E5M2] = { SHORT_ROW(e5m2) },
	},
};

#endif
