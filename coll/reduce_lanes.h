/*
 * reduce_lanes.h - vectors of fp32 as wide as the instruction set has them, and what
 * moves short elements into them and out: the only part that knows CPUs, since
 * compilers do these moves poorly or not at all.
 */
#ifndef COLL_REDUCE_LANES_H
#define COLL_REDUCE_LANES_H

#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define ALWAYS static inline __attribute__((always_inline, unused))

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define VECTOR 64 /* bytes */
#elif defined(__AVX2__) && defined(__F16C__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
#define LANES (VECTOR / 4)
typedef float f32_vector __attribute__((vector_size(VECTOR)));
typedef int32_t i32_vector __attribute__((vector_size(VECTOR)));
typedef uint32_t u32_vector __attribute__((vector_size(VECTOR)));
typedef uint16_t u16_vector __attribute__((vector_size(VECTOR / 2)));

/*
 * load: LANES integers from any address. store: lanes that fit, to any address. choose: a where
 * the comparison `yes` holds, else b. half_to_f32, f32_to_half and those with one: fp16, where
 * the CPU converts it (HALF_LANES); NaNs keep their payload.
 */
#if VECTOR == 64
#define HALF_LANES
ALWAYS u32_vector
load_u16(const void *from)
{
	return (u32_vector)_mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
}

ALWAYS u32_vector
load_u8(const void *from)
{
	return (u32_vector)_mm512_cvtepu8_epi32(_mm_loadu_si128(from));
}

ALWAYS u16_vector
load_u8_to_u16(const void *from)
{
	return (u16_vector)_mm256_cvtepu8_epi16(_mm_loadu_si128(from));
}

ALWAYS void
store_u16(void *to, u32_vector u)
{
	_mm256_storeu_si256(to, _mm512_cvtepi32_epi16((__m512i)u));
}

ALWAYS void
store_u8(void *to, u32_vector u)
{
	_mm_storeu_si128(to, _mm512_cvtepi32_epi8((__m512i)u));
}

ALWAYS f32_vector
half_to_f32(u16_vector h)
{
	return (f32_vector)_mm512_cvtph_ps((__m256i)h);
}

ALWAYS u16_vector
f32_to_half(f32_vector f)
{
	return (u16_vector)_mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT);
}

ALWAYS u32_vector
choose_vector(i32_vector yes, u32_vector a, u32_vector b)
{
	return (u32_vector)_mm512_ternarylogic_epi32((__m512i)yes, (__m512i)a, (__m512i)b, 0xca);
}

ALWAYS i32_vector
min_vector(i32_vector a, i32_vector b)
{
	return (i32_vector)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

ALWAYS i32_vector
max_vector(i32_vector a, i32_vector b)
{
	return (i32_vector)_mm512_max_epi32((__m512i)a, (__m512i)b);
}
#elif VECTOR == 32
#define HALF_LANES
ALWAYS u32_vector
load_u16(const void *from)
{
	return (u32_vector)_mm256_cvtepu16_epi32(_mm_loadu_si128(from));
}

ALWAYS u32_vector
load_u8(const void *from)
{
	return (u32_vector)_mm256_cvtepu8_epi32(_mm_loadl_epi64(from));
}

ALWAYS u16_vector
load_u8_to_u16(const void *from)
{
	return (u16_vector)_mm_cvtepu8_epi16(_mm_loadl_epi64(from));
}

ALWAYS __m128i
pack_u16(u32_vector u)
{
	return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)u),
	                        _mm256_extracti128_si256((__m256i)u, 1));
}

ALWAYS void
store_u16(void *to, u32_vector u)
{
	_mm_storeu_si128(to, pack_u16(u));
}

ALWAYS void
store_u8(void *to, u32_vector u)
{
	__m128i v = pack_u16(u);

	_mm_storel_epi64(to, _mm_packus_epi16(v, v));
}

ALWAYS f32_vector
half_to_f32(u16_vector h)
{
	return (f32_vector)_mm256_cvtph_ps((__m128i)h);
}

ALWAYS u16_vector
f32_to_half(f32_vector f)
{
	return (u16_vector)_mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT);
}

ALWAYS u32_vector
choose_vector(i32_vector yes, u32_vector a, u32_vector b)
{
	return (u32_vector)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)yes);
}

ALWAYS i32_vector
min_vector(i32_vector a, i32_vector b)
{
	return (i32_vector)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

ALWAYS i32_vector
max_vector(i32_vector a, i32_vector b)
{
	return (i32_vector)_mm256_max_epi32((__m256i)a, (__m256i)b);
}
#else
ALWAYS u32_vector
choose_vector(i32_vector yes, u32_vector a, u32_vector b)
{
	return b ^ ((a ^ b) & (u32_vector)yes);
}

ALWAYS i32_vector
min_vector(i32_vector a, i32_vector b)
{
	return (i32_vector)choose_vector(a < b, (u32_vector)a, (u32_vector)b);
}

ALWAYS i32_vector
max_vector(i32_vector a, i32_vector b)
{
	return (i32_vector)choose_vector(a < b, (u32_vector)b, (u32_vector)a);
}
#endif

#if VECTOR > 16
ALWAYS float
half_to_one(uint16_t h)
{
	return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

ALWAYS uint16_t
one_to_half(float f)
{
	__m128i h = _mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT);

	return (uint16_t)_mm_cvtsi128_si32(h);
}
#endif

#if VECTOR == 16 && defined(__x86_64__) /* SSE2 packs signed words only */
ALWAYS u32_vector
load_u16(const void *from)
{
	return (u32_vector)_mm_unpacklo_epi16(_mm_loadl_epi64(from), _mm_setzero_si128());
}

ALWAYS u32_vector
load_u8(const void *from)
{
	const __m128i zero = _mm_setzero_si128();
	int32_t i;

	memcpy(&i, from, sizeof(i));
	return (u32_vector)_mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(i), zero), zero);
}

ALWAYS void
store_u16(void *to, u32_vector u)
{
	__m128i v = _mm_srai_epi32(_mm_slli_epi32((__m128i)u, 16), 16);

	_mm_storel_epi64(to, _mm_packs_epi32(v, v));
}

ALWAYS void
store_u8(void *to, u32_vector u)
{
	__m128i v = _mm_packs_epi32((__m128i)u, (__m128i)u);
	int32_t i = _mm_cvtsi128_si32(_mm_packus_epi16(v, v));

	memcpy(to, &i, sizeof(i));
}
#elif VECTOR == 16
typedef uint8_t u8_vector __attribute__((vector_size(LANES)));
ALWAYS u32_vector
load_u16(const void *from)
{
	u16_vector v;

	memcpy(&v, from, sizeof(v));
	return __builtin_convertvector(v, u32_vector);
}

ALWAYS u32_vector
load_u8(const void *from)
{
	u8_vector v;

	memcpy(&v, from, sizeof(v));
	return __builtin_convertvector(v, u32_vector);
}

ALWAYS void
store_u16(void *to, u32_vector u)
{
	u16_vector v = __builtin_convertvector(u, u16_vector);

	memcpy(to, &v, sizeof(v));
}

ALWAYS void
store_u8(void *to, u32_vector u)
{
	u8_vector v = __builtin_convertvector(u, u8_vector);

	memcpy(to, &v, sizeof(v));
}
#endif

#ifdef __aarch64__
#define HALF_LANES
ALWAYS float
half_to_one(uint16_t h)
{
	__fp16 f;

	memcpy(&f, &h, sizeof(f));
	return (float)f;
}

ALWAYS uint16_t
one_to_half(float f)
{
	__fp16 h = (__fp16)f;
	uint16_t u;

	memcpy(&u, &h, sizeof(u));
	return u;
}

ALWAYS u16_vector
load_u8_to_u16(const void *from)
{
	u8_vector v;

	memcpy(&v, from, sizeof(v));
	return __builtin_convertvector(v, u16_vector);
}

ALWAYS f32_vector
half_to_f32(u16_vector h)
{
	return (f32_vector)vcvt_f32_f16((float16x4_t)h);
}

ALWAYS u16_vector
f32_to_half(f32_vector f)
{
	return (u16_vector)vcvt_f16_f32((float32x4_t)f);
}
#endif

ALWAYS f32_vector
load_f32(const void *from)
{
	f32_vector f;

	memcpy(&f, from, sizeof(f));
	return f;
}

ALWAYS void
store_f32(void *to, f32_vector f)
{
	memcpy(to, &f, sizeof(f));
}

#endif
