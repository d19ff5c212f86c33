/*
 * elements.cuh - what an operation does to one element: the same as the loops of
 * coll/reduce_kernels.h, bit for bit. Compiled with -fmad=false: no product is
 * contracted with a sum. Subnormals are kept, divisions rounded correctly (nvcc's
 * defaults).
 *
 * A kind of element: `stored` is its bits in memory, `term` what it is computed in;
 * get and put convert. put after an operation yields the one NaN of
 * coll/reduce_float.h, so nothing in between has to.
 */
#ifndef KERNELS_ELEMENTS_CUH
#define KERNELS_ELEMENTS_CUH

#include "kernels/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DEVICE static __device__ __forceinline__

#define F32_ABS 0x7fffffff
#define F32_INF 0x7f800000
#define F32_NAN 0x7fc00000
#define F32_464 0x43e80000
#define F32_65536 0x47800000

DEVICE uint32_t
choose_one(int yes, uint32_t a, uint32_t b)
{
	return yes ? a : b;
}

/* fp8 by the CPU's own text. */
#define ALWAYS DEVICE
#define N(name) name##_one
#define F float
#define I int32_t
#define U uint32_t
#include "coll/reduce_convert.h"
#undef ALWAYS

/* ---- Operations ---- */

template <class U, class S, class W> struct integer {
	typedef U stored;
	typedef U term;

	static __device__ __forceinline__ U
	get(U x)
	{
		return x;
	}
	static __device__ __forceinline__ U
	put(U x)
	{
		return x;
	}

	/* Sums and products wrap. */
	template <int OP>
	static __device__ __forceinline__ U
	combine(U x, U y)
	{
		switch (OP) {
		case KERNEL_PROD:
			return (U)(1u * x * y);
		case KERNEL_MIN:
			return (S)x < (S)y ? x : y;
		case KERNEL_MAX:
			return (S)x < (S)y ? y : x;
		case KERNEL_AND:
			return x & y;
		case KERNEL_OR:
			return x | y;
		case KERNEL_XOR:
			return x ^ y;
		default:
			return (U)(1u * x + y);
		}
	}

	static __device__ __noinline__ U
	divide(U x, int by)
	{
		return (U)((W)(S)x / (W)by);
	}
};

/* Bits of floats, to join two zeros: the union is -0 if either is, the intersection +0. */
DEVICE float
join(float x, float y, bool both)
{
	uint32_t u = __float_as_uint(x), v = __float_as_uint(y);

	return __uint_as_float(both ? u & v : u | v);
}

DEVICE double
join(double x, double y, bool both)
{
	long long u = __double_as_longlong(x), v = __double_as_longlong(y);

	return __longlong_as_double(both ? u & v : u | v);
}

/* A NaN wins; -0 is less than +0. */
template <int OP, class F>
DEVICE F
combine_floats(F x, F y)
{
	switch (OP) {
	case KERNEL_PROD:
		return x * y;
	case KERNEL_MIN:
		return x != x || y != y ? x + y : join(x < y ? x : y, y < x ? y : x, false);
	case KERNEL_MAX:
		return x != x || y != y ? x + y : join(x > y ? x : y, y > x ? y : x, true);
	default:
		return x + y;
	}
}

template <class F> struct real {
	typedef F stored;
	typedef F term;

	static __device__ __forceinline__ F
	get(F x)
	{
		return x;
	}
	static __device__ __forceinline__ float
	put(float x)
	{
		return x == x ? x : __uint_as_float(F32_NAN);
	}
	static __device__ __forceinline__ double
	put(double x)
	{
		return x == x ? x : __longlong_as_double(0x7ff8000000000000);
	}
	template <int OP>
	static __device__ __forceinline__ F
	combine(F x, F y)
	{
		return combine_floats<OP>(x, y);
	}
	static __device__ __forceinline__ F
	divide(F x, int by)
	{
		return put(x / (F)by);
	}
};

/* Floats shorter than fp32 are computed as fp32, minima too: that is exact. */
#define SHORT_FLOAT(name, U, widen, narrow)                                                        \
	struct name {                                                                              \
		typedef U stored;                                                                  \
		typedef float term;                                                                \
		static __device__ __forceinline__ float                                            \
		get(U x)                                                                           \
		{                                                                                  \
			return widen;                                                              \
		}                                                                                  \
		static __device__ __forceinline__ U                                                \
		put(float f)                                                                       \
		{                                                                                  \
			return (U)(narrow);                                                        \
		}                                                                                  \
		template <int OP>                                                                  \
		static __device__ __forceinline__ float                                            \
		combine(float x, float y)                                                          \
		{                                                                                  \
			return combine_floats<OP>(x, y);                                           \
		}                                                                                  \
		static __device__ __forceinline__ U                                                \
		divide(U x, int by)                                                                \
		{                                                                                  \
			return put(get(x) / (float)by);                                            \
		}                                                                                  \
	};
SHORT_FLOAT(float16, uint16_t, __half2float(__ushort_as_half(x)),
            f == f ? __half_as_ushort(__float2half_rn(f)) : 0x7e00)
SHORT_FLOAT(bfloat16, uint16_t, __uint_as_float((uint32_t)x << 16),
            f == f ? __bfloat16_as_ushort(__float2bfloat16_rn(f)) : F32_NAN >> 16)
SHORT_FLOAT(float8_e4m3, uint8_t, widen_e4m3_one(x), narrow_e4m3_one(f))
SHORT_FLOAT(float8_e5m2, uint8_t, widen_e5m2_one(x), narrow_e5m2_one(f))

typedef integer<uint8_t, int8_t, int32_t> kind_int8;
typedef integer<uint8_t, uint8_t, int32_t> kind_uint8;
typedef integer<uint16_t, int16_t, int32_t> kind_int16;
typedef integer<uint16_t, uint16_t, int32_t> kind_uint16;
typedef integer<uint32_t, int32_t, int32_t> kind_int32;
typedef integer<uint32_t, uint32_t, uint32_t> kind_uint32;
typedef integer<uint64_t, int64_t, int64_t> kind_int64;
typedef integer<uint64_t, uint64_t, uint64_t> kind_uint64;
typedef real<float> kind_float;
typedef real<double> kind_double;
typedef float16 kind_float16;
typedef bfloat16 kind_bfloat16;
typedef float8_e4m3 kind_float8_e4m3;
typedef float8_e5m2 kind_float8_e5m2;

template <class K> constexpr bool is_integer = false;
template <class U, class S, class W> constexpr bool is_integer<integer<U, S, W>> = true;

/* The same with an operation that is known at run time only. */
template <class K>
DEVICE typename K::term
combine(int op, typename K::term x, typename K::term y)
{
	if (op == KERNEL_PROD)
		return K::template combine<KERNEL_PROD>(x, y);
	if (op == KERNEL_MIN)
		return K::template combine<KERNEL_MIN>(x, y);
	if (op == KERNEL_MAX)
		return K::template combine<KERNEL_MAX>(x, y);
	if constexpr (is_integer<K>) {
		if (op == KERNEL_AND)
			return K::template combine<KERNEL_AND>(x, y);
		if (op == KERNEL_OR)
			return K::template combine<KERNEL_OR>(x, y);
		if (op == KERNEL_XOR)
			return K::template combine<KERNEL_XOR>(x, y);
	}
	return K::template combine<KERNEL_SUM>(x, y);
}

/* ---- Memory at any address ---- */

/* An address is one of global memory, which compilers do not guess: the instructions for it take
 * fewer registers and less time than those that find out. */

template <class T>
DEVICE T
load(uint64_t at)
{
	return *(const T *)__cvta_global_to_generic(at);
}

template <class T>
DEVICE void
store(uint64_t at, T x)
{
	*(T *)__cvta_global_to_generic(at) = x;
}

/* `n` bytes as a number, the first one lowest. */
static __device__ __noinline__ uint64_t
load_bytes(uint64_t at, unsigned n)
{
	uint64_t x = 0;

#pragma unroll 1
	for (unsigned i = 0; i < n; i++)
		x |= (uint64_t)load<uint8_t>(at + i) << 8 * i;
	return x;
}

static __device__ __noinline__ void
store_bytes(uint64_t at, unsigned n, uint64_t x)
{
#pragma unroll 1
	for (unsigned i = 0; i < n; i++)
		store(at + i, (uint8_t)(x >> 8 * i));
}

template <class T> union bytes_of {
	T x;
	uint64_t number;
};

template <class T>
DEVICE T
load_any(uint64_t at)
{
	union bytes_of<T> v;

	if (at % sizeof(T) == 0)
		return load<T>(at);
	v.number = load_bytes(at, sizeof(T));
	return v.x;
}

template <class T>
DEVICE void
store_any(uint64_t at, T x)
{
	union bytes_of<T> v;

	if (at % sizeof(T) == 0) {
		store(at, x);
		return;
	}
	v.number = 0;
	v.x = x;
	store_bytes(at, sizeof(T), v.number);
}

DEVICE uint64_t
grid_thread(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE uint64_t
grid_threads(void)
{
	return (uint64_t)gridDim.x * blockDim.x;
}

#endif
