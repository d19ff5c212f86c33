/*
 * reduce_convert.h - floats shorter than fp32, to fp32 and back, without branches.
 * reduce_float.h includes it twice, so that one text serves one element and
 * vectors of them: F is a float or a vector of floats, I and U are integers of the
 * same shape, N(name) is the name for that shape.
 *
 * Every fp16, bf16 and fp8 is an fp32, so widening is exact. Narrowing rounds to
 * nearest even. What is too large becomes an infinity, in e4m3, which has none, a
 * NaN (above 464, half way from the largest number to what would follow): nothing
 * saturates. PyTorch converts in the same way, but for the sign of NaNs.
 *
 * Source: IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0. Rounding by
 * an addition whose last bit has the right weight: F. Giesen, "Float->half variants".
 */
#ifdef N /* not alone */

ALWAYS U
N(bits)(F f)
{
	U u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

ALWAYS F
N(number)(U u)
{
	F f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

#define ALL(c) ((U){ 0 } + (uint32_t)(c))

/*
 * x: a sign, an exponent with this bias and m bits of mantissa, the last of `bits` bits. What is
 * not below inf is an infinity or a NaN. A subnormal is the mantissa of a number in [1, 2), less
 * that 1, times the power of the least exponent.
 */
ALWAYS F
N(widen)(U x, int bits, int m, int bias, int32_t inf)
{
	U mag = x & ((1u << (bits - 1)) - 1), sign = x >> (bits - 1) << 31;
	U u = mag << (23 - m), power = ALL((128 - bias) << 23);
	U small = N(bits)(N(number)(u + power) - N(number)(power));
	U finite = N(choose)((I)mag < 1 << m, small, u + ALL((127 - bias) << 23));

	return N(number)(N(choose)((I)mag >= inf, u | F32_INF, finite) | sign);
}

/*
 * To the same. What is not below over, if that is less than F32_INF, becomes inf, and what is above
 * most becomes nan. Of the number `unit` the last bit is the least subnormal.
 */
ALWAYS U
N(narrow)(F f, int bits, int m, int bias, int32_t over, uint32_t inf, int32_t most, uint32_t nan)
{
	U u = N(bits)(f) & F32_ABS, sign = N(bits)(f) >> 31 << (bits - 1);
	U unit = ALL((151 - bias - m) << 23);
	U small = N(bits)(N(number)(u) + N(number)(unit)) - unit;
	U half = (u >> (23 - m) & 1) + ((1u << (22 - m)) - 1 - ((uint32_t)(127 - bias) << 23));
	U x = N(choose)((I)u < (128 - bias) << 23, small, (u + half) >> (23 - m));

	if (over < F32_INF)
		x = N(choose)((I)u >= over, ALL(inf), x);
	return N(choose)((I)u > most, ALL(nan), x | sign);
}

ALWAYS F
N(widen_e4m3)(U x)
{
	return N(widen)(x, 8, 3, 7, 0x7f);
}

/* It has no infinity; what is above 464 would be rounded to 480, or more. */
ALWAYS U
N(narrow_e4m3)(F f)
{
	return N(narrow)(f, 8, 3, 7, F32_INF, 0, F32_464, 0x7f);
}

ALWAYS F
N(widen_e5m2)(U x)
{
	return N(widen)(x, 8, 2, 15, 0x7c);
}

ALWAYS U
N(narrow_e5m2)(F f)
{
	return N(narrow)(f, 8, 2, 15, F32_65536, 0x7c, F32_INF, 0x7f);
}

ALWAYS F
N(widen_f16)(U x)
{
	return N(widen)(x, 16, 10, 15, 0x7c00);
}

ALWAYS U
N(narrow_f16)(F f)
{
	return N(narrow)(f, 16, 10, 15, F32_65536, 0x7c00, F32_INF, 0x7e00);
}

ALWAYS F
N(widen_bf16)(U x)
{
	return N(number)(x << 16);
}

ALWAYS U
N(narrow_bf16)(F f)
{
	U u = N(bits)(f), x = (u + (u >> 16 & 1) + 0x7fff) >> 16;

	return N(choose)(f != f, ALL(F32_NAN >> 16), x);
}

#undef ALL
#undef N
#undef F
#undef I
#undef U
#endif
