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

ALWAYS uint32_t
choose_one(int yes, uint32_t a, uint32_t b)
{
	return yes ? a : b;
}

ALWAYS int32_t
min_one(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

ALWAYS int32_t
max_one(int32_t a, int32_t b)
{
	return a < b ? b : a;
}

#define N(name) name##_one
#define F float
#define I int32_t
#define U uint32_t
#include "coll/reduce_convert.h"

#define N(name) name##_vector
#define F f32_vector
#define I i32_vector
#define U u32_vector
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
#define GET(T, u)                                                                                  \
	ALWAYS f32_vector get_##T(const void *from)                                                \
	{                                                                                          \
		return widen_##T##_vector(load_##u(from));                                         \
	}
#define PUT(T, u)                                                                                  \
	ALWAYS void put_##T(void *to, f32_vector f)                                                \
	{                                                                                          \
		store_##u(to, narrow_##T##_vector(f));                                             \
	}
/* One of them. */
#define ONE(T, U)                                                                                  \
	ALWAYS float widen_##T(U x)                                                                \
	{                                                                                          \
		return widen_##T##_one(x);                                                         \
	}                                                                                          \
	ALWAYS U narrow_##T(float f)                                                               \
	{                                                                                          \
		return (U)narrow_##T##_one(f);                                                     \
	}
ONE(bf16, uint16_t)
ONE(e4m3, uint8_t)
ONE(e5m2, uint8_t)
GET(bf16, u16)
PUT(bf16, u16)
PUT(e4m3, u8)
PUT(e5m2, u8)
#ifndef HALF_LANES
ONE(f16, uint16_t)
GET(f16, u16)
PUT(f16, u16)
GET(e4m3, u8)
GET(e5m2, u8)
#else
ALWAYS float
widen_f16(uint16_t x)
{
	return half_to_one(x);
}

ALWAYS uint16_t
narrow_f16(float f)
{
	return one_to_half(one_nan_f32(f));
}

ALWAYS f32_vector
get_f16(const void *from)
{
	u16_vector h;

	memcpy(&h, from, sizeof(h));
	return half_to_f32(h);
}

ALWAYS void
put_f16(void *to, f32_vector f)
{
	const u32_vector nan = (u32_vector){ 0 } + F32_NAN;
	u16_vector h = f32_to_half(number_vector(choose_vector(f != f, nan, bits_vector(f))));

	memcpy(to, &h, sizeof(h));
}

/* e5m2 is the upper half of an fp16. */
ALWAYS f32_vector
get_e5m2(const void *from)
{
	return half_to_f32(load_u8_to_u16(from) << 8);
}

/* An fp16 with the bits of an e4m3 at the same places is 2^8 times smaller, subnormals too. */
ALWAYS f32_vector
get_e4m3(const void *from)
{
	u16_vector h = load_u8_to_u16(from), mag = h & 0x7f;
	u16_vector nan = (u16_vector)(mag == 0x7f) & 0x7c00;

	return half_to_f32((h & 0x80) << 8 | mag << 7 | nan) * 256;
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
