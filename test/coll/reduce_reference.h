/*
 * reduce_reference.h - what reductions must yield, element by element, found in
 * another way than the library's: a short float is the nearest entry of the list of
 * its format's numbers, integers are computed in 128 bits.
 */
#ifndef TEST_COLL_REDUCE_REFERENCE_H
#define TEST_COLL_REDUCE_REFERENCE_H

#include "coll/reduce_impl.h"

#include <math.h>
#include <string.h>

struct format {
	int type, bits, mantissa, bias;
	unsigned most; /* the largest finite number */
	unsigned over; /* what becomes of larger ones */
	unsigned nan;
};

static const struct format formats[] = {
	{ ORIEL_FLOAT16, 16, 10, 15, 0x7bff, 0x7c00, 0x7e00 },
	{ ORIEL_BFLOAT16, 16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0 },
	{ ORIEL_FLOAT8_E4M3, 8, 3, 7, 0x7e, 0x7f, 0x7f },
	{ ORIEL_FLOAT8_E5M2, 8, 2, 15, 0x7b, 0x7c, 0x7f },
};

static inline const struct format *
format_of(int type)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i].type == type)
			return &formats[i];
	return NULL;
}

static inline bool
is_float(int type)
{
	return type == ORIEL_FLOAT || type == ORIEL_DOUBLE || format_of(type);
}

static inline bool
is_signed(int type)
{
	return type == ORIEL_INT8 || type == ORIEL_INT16 || type == ORIEL_INT32 ||
	       type == ORIEL_INT64;
}

/* The number of a code without sign; behind `most` as if the format went on. */
static inline double
magnitude(const struct format *f, unsigned code)
{
	int e = (int)(code >> f->mantissa);
	unsigned m = code & ((1u << f->mantissa) - 1);

	return e ? ldexp(1 + ldexp(m, -f->mantissa), e - f->bias)
	         : ldexp(m, 1 - f->bias - f->mantissa);
}

static inline double
decode(const struct format *f, unsigned code)
{
	unsigned sign = code >> (f->bits - 1), abs = code & ((1u << (f->bits - 1)) - 1);
	double v = abs <= f->most                        ? magnitude(f, abs)
	           : abs == f->over && f->over != f->nan ? INFINITY
	                                                 : NAN;

	return sign ? -v : v;
}

static inline unsigned
encode(const struct format *f, double v)
{
	unsigned sign = signbit(v) ? 1u << (f->bits - 1) : 0, lo = 0, hi = f->most + 1, x;

	if (isnan(v))
		return f->nan;
	v = fabs(v);
	while (hi - lo > 1) {
		unsigned mid = (lo + hi) / 2;

		if (magnitude(f, mid) <= v)
			lo = mid;
		else
			hi = mid;
	}
	if (v >= magnitude(f, hi)) /* beyond what would follow */
		x = hi;
	else if (v - magnitude(f, lo) == magnitude(f, hi) - v)
		x = lo & 1 ? hi : lo;
	else
		x = v - magnitude(f, lo) < magnitude(f, hi) - v ? lo : hi;
	if (x <= f->most)
		return x | sign;
	return f->over == f->nan ? f->nan : f->over | sign;
}

static inline unsigned
load_code(const void *p, int bits)
{
	uint8_t b;
	uint16_t h;

	memcpy(&b, p, sizeof(b));
	if (bits == 8)
		return b;
	memcpy(&h, p, sizeof(h));
	return h;
}

static inline void
store_code(void *p, int bits, unsigned code)
{
	uint8_t b = (uint8_t)code;
	uint16_t h = (uint16_t)code;

	memcpy(p, bits == 8 ? (void *)&b : (void *)&h, (size_t)bits / 8);
}

static inline double
least(double a, double b, bool max)
{
	if (isnan(a) || isnan(b))
		return NAN;
	if (a == b)
		return !signbit(a) == max ? a : b;
	return (a < b) == max ? b : a;
}

/* In double; exact, or innocent to a second rounding, for all but double itself. */
static inline double
combine(int op, double a, double b)
{
	switch (op) {
	case REDUCE_PROD:
		return a * b;
	case REDUCE_MIN:
		return least(a, b, false);
	case REDUCE_MAX:
		return least(a, b, true);
	default:
		return a + b;
	}
}

static inline double
load_float(int type, const void *p)
{
	const struct format *f = format_of(type);
	double d;
	float s;

	if (f)
		return decode(f, load_code(p, f->bits));
	memcpy(&s, p, sizeof(s));
	if (type == ORIEL_FLOAT)
		return (double)s;
	memcpy(&d, p, sizeof(d));
	return d;
}

static inline void
store_float(int type, void *p, double v)
{
	const struct format *f = format_of(type);
	const uint32_t nan32 = 0x7fc00000;
	const uint64_t nan64 = UINT64_C(0x7ff8000000000000);
	float s = (float)v;

	if (f)
		store_code(p, f->bits, encode(f, v));
	else if (type == ORIEL_FLOAT)
		memcpy(p, isnan(v) ? (const void *)&nan32 : (const void *)&s, sizeof(s));
	else
		memcpy(p, isnan(v) ? (const void *)&nan64 : (const void *)&v, sizeof(v));
}

static inline __int128
load_int(int type, const void *p)
{
	size_t size = reduce_size(type);
	uint64_t u = 0;

	memcpy(&u, p, size); /* little endian */
	if (is_signed(type) && u >> (size * 8 - 1))
		return (__int128)u - ((__int128)1 << (size * 8));
	return u;
}

static inline void
store_int(int type, void *p, __int128 v)
{
	uint64_t u = (uint64_t)v;

	memcpy(p, &u, reduce_size(type));
}

static inline __int128
combine_int(int op, __int128 a, __int128 b)
{
	switch (op) {
	case REDUCE_PROD:
		return (__int128)((unsigned __int128)a * (unsigned __int128)b);
	case REDUCE_MIN:
		return a < b ? a : b;
	case REDUCE_MAX:
		return a > b ? a : b;
	case REDUCE_AND:
		return a & b;
	case REDUCE_OR:
		return a | b;
	case REDUCE_XOR:
		return a ^ b;
	default:
		return a + b;
	}
}

/* n elements of each term, from the left. */
static inline void
reference_fold(int type, int op, void *dst, const void *src, size_t stride, int terms, size_t n)
{
	size_t size = reduce_size(type);

	for (size_t i = 0; i < n; i++) {
		const char *s = (const char *)src + i * size;
		char *d = (char *)dst + i * size;

		memmove(d, s, size);
		if (terms > 1 && is_float(type)) {
			double v = load_float(type, s);

			for (int t = 1; t < terms; t++) {
				double w = load_float(type, s + (size_t)t * stride);

				v = combine(op, v, w);
				v = type == ORIEL_DOUBLE ? v : (double)(float)v;
			}
			store_float(type, d, v);
		} else {
			for (int t = 1; t < terms; t++)
				store_int(type, d,
				          combine_int(op, load_int(type, d),
				                      load_int(type, s + (size_t)t * stride)));
		}
	}
}

static inline void
reference_pair(int type, int op, void *dst, const void *a, const void *b, size_t n)
{
	size_t size = reduce_size(type);
	char both[16];

	for (size_t i = 0; i < n; i++) {
		memcpy(both, (const char *)a + i * size, size);
		memcpy(both + 8, (const char *)b + i * size, size);
		reference_fold(type, op, (char *)dst + i * size, both, 8, 2, 1);
	}
}

static inline void
reference_divide(int type, void *v, size_t n, int by)
{
	size_t size = reduce_size(type);

	for (size_t i = 0; i < n; i++) {
		char *p = (char *)v + i * size;

		if (type == ORIEL_DOUBLE)
			store_float(type, p, load_float(type, p) / by);
		else if (is_float(type))
			store_float(type, p, (double)(float)(load_float(type, p) / (float)by));
		else
			store_int(type, p, load_int(type, p) / by);
	}
}

#endif
