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

/*
 * load: LANES integers from any address. store: lanes that fit, to any address. load_half and
 * store_half: fp16, where the CPU converts it (HALF_LANES); NaNs keep their payload.
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
load_half(const void *from)
{
	return (f32_vector)_mm512_cvtph_ps(_mm256_loadu_si256(from));
}

ALWAYS void
store_half(void *to, f32_vector f)
{
	_mm256_storeu_si256(to, _mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT));
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
load_half(const void *from)
{
	return (f32_vector)_mm256_cvtph_ps(_mm_loadu_si128(from));
}

ALWAYS void
store_half(void *to, f32_vector f)
{
	_mm_storeu_si128(to, _mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__x86_64__) /* SSE2 packs signed words only */
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
#else
#define CONVERTED(name, T)                                                                         \
	ALWAYS u32_vector load_##name(const void *from)                                            \
	{                                                                                          \
		T v __attribute__((vector_size(LANES * sizeof(T))));                               \
                                                                                                   \
		memcpy(&v, from, sizeof(v));                                                       \
		return __builtin_convertvector(v, u32_vector);                                     \
	}                                                                                          \
	ALWAYS void store_##name(void *to, u32_vector u)                                           \
	{                                                                                          \
		typedef T V __attribute__((vector_size(LANES * sizeof(T))));                       \
		V v = __builtin_convertvector(u, V);                                               \
                                                                                                   \
		memcpy(to, &v, sizeof(v));                                                         \
	}
CONVERTED(u16, uint16_t)
CONVERTED(u8, uint8_t)
#ifdef __aarch64__
#define HALF_LANES
typedef __fp16 half_vector __attribute__((vector_size(LANES * 2)));
ALWAYS f32_vector
load_half(const void *from)
{
	half_vector v;

	memcpy(&v, from, sizeof(v));
	return __builtin_convertvector(v, f32_vector);
}

ALWAYS void
store_half(void *to, f32_vector f)
{
	half_vector v = __builtin_convertvector(f, half_vector);

	memcpy(to, &v, sizeof(v));
}
#endif
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
