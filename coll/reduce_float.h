/*
 * reduce_float.h - short floats one by one and as vectors, minima and maxima.
 *
 * NaNs: which of two NaNs an addition returns, and with which sign, differs from CPU
 * to CPU and with the order of operands, which compilers swap. So whatever operation
 * yields a NaN yields this one: sign 0, and as the rest 7fc00000 in fp32, 7ff8... in
 * fp64, 7fc0 in bf16, 7e00 in fp16, 7f in both fp8. -0 is less than +0.
 *
 * Source: IEEE 754-2019, 9.6 (minimum, maximum).
 */
#ifndef COLL_REDUCE_FLOAT_H
#define COLL_REDUCE_FLOAT_H

#include "coll/reduce_lanes.h"

/* Bits as integers; signed ones are what the oldest vector units compare. */
#define F32_ABS 0x7fffffff
#define F32_INF 0x7f800000
#define F32_NAN 0x7fc00000
#define F32_464 0x43e80000
#define F32_65536 0x47800000

#define N(name) name##_one
#define F float
#define I int32_t
#define U uint32_t
#define MASK(yes) (-(yes))
#include "coll/reduce_convert.h"

#define N(name) name##_vector
#define F f32_vector
#define I i32_vector
#define U u32_vector
#define MASK(yes) (yes)
#include "coll/reduce_convert.h"

ALWAYS float
one_nan_f32(float f)
{
	return f == f ? f : __builtin_nanf("");
}

ALWAYS double
one_nan_f64(double f)
{
	return f == f ? f : __builtin_nan("");
}

/* LANES short floats, at any address. */
#define SHORT_VECTOR(T, u)                                                                         \
	ALWAYS f32_vector get_##T(const void *from)                                                \
	{                                                                                          \
		return widen_##T##_vector(load_##u(from));                                         \
	}                                                                                          \
	ALWAYS void put_##T(void *to, f32_vector f)                                                \
	{                                                                                          \
		store_##u(to, narrow_##T##_vector(f));                                             \
	}
SHORT_VECTOR(bf16, u16)
SHORT_VECTOR(e4m3, u8)
SHORT_VECTOR(e5m2, u8)
#ifndef HALF_LANES
SHORT_VECTOR(f16, u16)
#else
ALWAYS f32_vector
get_f16(const void *from)
{
	return load_half(from);
}

ALWAYS void
put_f16(void *to, f32_vector f)
{
	u32_vector u = bits_vector(f);

	store_half(to, number_vector(u ^ ((u ^ F32_NAN) & (u32_vector)(f != f))));
}
#endif

/*
 * Two comparisons, which differ for zeros of different signs, NaNs apart: of these, min takes the
 * union of the bits, max the intersection.
 */
#define MINMAX(T, F, U, nan)                                                                       \
	ALWAYS F join_##T(F f, F g, int both)                                                      \
	{                                                                                          \
		U u, v;                                                                            \
                                                                                                   \
		memcpy(&u, &f, sizeof(u));                                                         \
		memcpy(&v, &g, sizeof(v));                                                         \
		u = both ? u & v : u | v;                                                          \
		memcpy(&f, &u, sizeof(f));                                                         \
		return f;                                                                          \
	}                                                                                          \
	ALWAYS F min_##T(F x, F y)                                                                 \
	{                                                                                          \
		F z = join_##T(x < y ? x : y, y < x ? y : x, 0);                                   \
                                                                                                   \
		return __builtin_isunordered(x, y) ? nan : z;                                      \
	}                                                                                          \
	ALWAYS F max_##T(F x, F y)                                                                 \
	{                                                                                          \
		F z = join_##T(x > y ? x : y, y > x ? y : x, 1);                                   \
                                                                                                   \
		return __builtin_isunordered(x, y) ? nan : z;                                      \
	}
MINMAX(f32, float, uint32_t, __builtin_nanf(""))
MINMAX(f64, double, uint64_t, __builtin_nan(""))

/*
 * Shorter floats compare as integers once the magnitudes of the negative ones are turned over.
 * abs: all bits but the sign. inf: the largest that is no NaN.
 */
#define SHORT_MINMAX(name, T, U, abs, inf, nan)                                                    \
	ALWAYS T order_##name(T x)                                                                 \
	{                                                                                          \
		return (T)(x ^ (x < 0 ? (T)(abs) : (T)0));                                         \
	}                                                                                          \
	ALWAYS U pick_##name(U x, U y, T z)                                                        \
	{                                                                                          \
		T ax = (T)((T)x & (T)(abs)), ay = (T)((T)y & (T)(abs)), most = ax > ay ? ax : ay;  \
                                                                                                   \
		return (U)(most > (T)(inf) ? (T)(nan) : order_##name(z));                          \
	}                                                                                          \
	ALWAYS U min_##name(U x, U y)                                                              \
	{                                                                                          \
		T a = order_##name((T)x), b = order_##name((T)y);                                  \
                                                                                                   \
		return pick_##name(x, y, a < b ? a : b);                                           \
	}                                                                                          \
	ALWAYS U max_##name(U x, U y)                                                              \
	{                                                                                          \
		T a = order_##name((T)x), b = order_##name((T)y);                                  \
                                                                                                   \
		return pick_##name(x, y, a < b ? b : a);                                           \
	}
SHORT_MINMAX(f16, int16_t, uint16_t, 0x7fff, 0x7c00, 0x7e00)
SHORT_MINMAX(bf16, int16_t, uint16_t, 0x7fff, 0x7f80, 0x7fc0)
SHORT_MINMAX(e4m3, int8_t, uint8_t, 0x7f, 0x7e, 0x7f)
SHORT_MINMAX(e5m2, int8_t, uint8_t, 0x7f, 0x7c, 0x7f)

#endif
