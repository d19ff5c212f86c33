/*
 * reduce.cu - folds, a kernel for each type of element, and copies. Threads of the
 * whole grid take 16 bytes in turn, several at a time so that enough loads are under
 * way; what lies before and behind them, and what is aligned otherwise, goes element
 * by element.
 */
#include "kernels/elements.cuh"

/* ---- Folds ---- */

struct span {                   /* what of a buffer goes 16 bytes at a time */
	uint64_t head, vectors; /* elements before it; 16 bytes each */
};

DEVICE struct span
span_of(const struct kernel_fold &a, unsigned size)
{
	uint64_t differ = (a.dst ^ a.src) | (a.terms > 1 ? (uint64_t)a.stride : 0);
	struct span s = { a.count, 0 };
	uint64_t head = -a.dst % 16 / size;

	if (differ % 16 || a.dst % size || head > a.count)
		return s;
	s.head = head;
	s.vectors = (a.count - head) * size / 16;
	return s;
}

template <class K> union vector {
	uint4 v;
	typename K::stored e[16 / sizeof(typename K::stored)];
};

template <class K, int OP>
DEVICE typename K::stored
finish(typename K::stored x, int divisor)
{
	return OP == KERNEL_AVG && divisor ? K::divide(x, divisor) : x;
}

template <class K, int OP>
DEVICE void
fold_element(const struct kernel_fold &a, uint64_t i)
{
	typedef typename K::stored stored;
	uint64_t at = a.src + i * sizeof(stored);
	stored x = load_any<stored>(at);

	if (a.terms > 1) {
		typename K::term acc = K::get(x);

#pragma unroll 1
		for (int t = 1; t < a.terms; t++) {
			at += a.stride;
			acc = K::template combine<OP>(acc, K::get(load_any<stored>(at)));
		}
		x = K::put(acc);
	}
	store_any(a.dst + i * sizeof(stored), finish<K, OP>(x, a.divisor));
}

template <int MANY>
DEVICE void
load_vectors(uint4 (&v)[MANY], uint64_t at, uint64_t step)
{
#pragma unroll
	for (int m = 0; m < MANY; m++)
		v[m] = load<uint4>(at + m * step);
}

/* MANY vectors that lie `step` bytes apart. The loads of a term are issued before the term before
 * it is needed. */
template <class K, int OP, int MANY>
DEVICE void
fold_vectors(const struct kernel_fold &a, uint64_t offset, uint64_t step)
{
	enum { LANES = 16 / sizeof(typename K::stored) };
	uint64_t at = a.src + offset;
	typename K::term acc[MANY][LANES];
	uint4 x[MANY], y[MANY], next[MANY];
	union vector<K> u;

	load_vectors(x, at, step);
	if (a.terms > 1) {
		at += a.stride;
		load_vectors(y, at, step);
#pragma unroll
		for (int m = 0; m < MANY; m++) {
			u.v = x[m];
#pragma unroll
			for (int l = 0; l < LANES; l++)
				acc[m][l] = K::get(u.e[l]);
		}
#pragma unroll 1
		for (int t = 2; t <= a.terms; t++) {
			at += a.stride;
			if (t < a.terms)
				load_vectors(next, at, step);
#pragma unroll
			for (int m = 0; m < MANY; m++) {
				u.v = y[m];
#pragma unroll
				for (int l = 0; l < LANES; l++)
					acc[m][l] =
					        K::template combine<OP>(acc[m][l], K::get(u.e[l]));
				y[m] = next[m];
			}
		}
#pragma unroll
		for (int m = 0; m < MANY; m++) {
#pragma unroll
			for (int l = 0; l < LANES; l++)
				u.e[l] = K::put(acc[m][l]);
			x[m] = u.v;
		}
	}
#pragma unroll
	for (int m = 0; m < MANY; m++) {
		u.v = x[m];
#pragma unroll
		for (int l = 0; l < LANES; l++)
			u.e[l] = finish<K, OP>(u.e[l], a.divisor);
		store(a.dst + offset + m * step, u.v);
	}
}

template <class K, int OP>
DEVICE void
fold_as(const struct kernel_fold &a)
{
	enum { SIZE = sizeof(typename K::stored) };
	enum { MANY = SIZE == 1 || (SIZE == 2 && is_integer<K>) ? 2 : 4 };
	struct span s = span_of(a, SIZE);
	uint64_t all = grid_threads(), i = grid_thread(), j = i;

#pragma unroll 1
	for (; i + (MANY - 1) * all < s.vectors; i += MANY * all)
		fold_vectors<K, OP, MANY>(a, s.head * SIZE + i * 16, all * 16);
#pragma unroll 1
	for (; i < s.vectors; i += all)
		fold_vectors<K, OP, 1>(a, s.head * SIZE + i * 16, 0);
#pragma unroll 1
	for (; j < a.count - s.vectors * (16 / SIZE); j += all)
		fold_element<K, OP>(a, j < s.head ? j : j + s.vectors * (16 / SIZE));
}

template <class K>
DEVICE void
fold(const struct kernel_fold &a)
{
	if (a.op == KERNEL_SUM)
		fold_as<K, KERNEL_SUM>(a);
	else if (a.op == KERNEL_AVG)
		fold_as<K, KERNEL_AVG>(a);
	else if (a.op == KERNEL_PROD)
		fold_as<K, KERNEL_PROD>(a);
	else if (a.op == KERNEL_MIN)
		fold_as<K, KERNEL_MIN>(a);
	else if (a.op == KERNEL_MAX)
		fold_as<K, KERNEL_MAX>(a);
	if constexpr (is_integer<K>) {
		if (a.op == KERNEL_AND)
			fold_as<K, KERNEL_AND>(a);
		else if (a.op == KERNEL_OR)
			fold_as<K, KERNEL_OR>(a);
		else if (a.op == KERNEL_XOR)
			fold_as<K, KERNEL_XOR>(a);
	}
}

#define FOLD(number, name)                                                                         \
	extern "C" __global__ void __launch_bounds__(KERNEL_THREADS)                               \
	        fold_##name(const __grid_constant__ struct kernel_fold a)                          \
	{                                                                                          \
		fold<kind_##name>(a);                                                              \
	}
KERNEL_TYPES(FOLD)

/* ---- Copies ---- */

/* 16 bytes from an address that is not aligned: of 5 words that are. */
DEVICE uint4
load_across(uint64_t at)
{
	unsigned bits = at % 4 * 8;
	uint64_t word = at - at % 4;
	uint32_t w[5];

#pragma unroll
	for (int i = 0; i < 5; i++)
		w[i] = load<uint32_t>(word + 4 * i);
	return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
	                  __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

/* `vectors` of 16 bytes, dst aligned. */
template <bool ALIGNED>
DEVICE void
copy_vectors(uint64_t dst, uint64_t src, uint64_t vectors)
{
	uint64_t all = grid_threads(), i = grid_thread();

	for (; i + 3 * all < vectors; i += 4 * all) {
		uint4 v[4];

#pragma unroll
		for (int m = 0; m < 4; m++)
			v[m] = ALIGNED ? load<uint4>(src + (i + m * all) * 16)
			               : load_across(src + (i + m * all) * 16);
#pragma unroll
		for (int m = 0; m < 4; m++)
			store(dst + (i + m * all) * 16, v[m]);
	}
	for (; i < vectors; i += all)
		store(dst + i * 16,
		      ALIGNED ? load<uint4>(src + i * 16) : load_across(src + i * 16));
}

extern "C" __global__ void
__launch_bounds__(KERNEL_THREADS) copy(const __grid_constant__ struct kernel_copy a)
{
	uint64_t head = -a.dst % 16, vectors = 0;
	bool aligned = (a.dst ^ a.src) % 16 == 0;

	if (head > a.bytes)
		head = a.bytes;
	/* load_across touches up to 3 bytes before and 4 behind its 16: they have to be a.src's. */
	if (!aligned && head < 4)
		head += 16;
	if (a.bytes >= head + (aligned ? 0 : 4))
		vectors = (a.bytes - head - (aligned ? 0 : 4)) / 16;
	else
		head = a.bytes;
	if (aligned)
		copy_vectors<true>(a.dst + head, a.src + head, vectors);
	else
		copy_vectors<false>(a.dst + head, a.src + head, vectors);
	for (uint64_t j = grid_thread(); j < a.bytes - vectors * 16; j += grid_threads()) {
		uint64_t i = j < head ? j : j + vectors * 16;

		store(a.dst + i, load<uint8_t>(a.src + i));
	}
}
