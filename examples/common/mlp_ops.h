/*
 * mlp_ops.h - the arithmetic of the MLP example, once for float and once for
 * double, behind one table.
 *
 * Matrices are stored by rows; a block of rows of a matrix is a matrix.
 */
#ifndef EXAMPLES_COMMON_MLP_OPS_H
#define EXAMPLES_COMMON_MLP_OPS_H

#include "examples/common/tensor.h"

#include <cblas.h>
#include <math.h>

struct mlp_ops {
	const char *name;
	size_t size;      /* bytes of a number */
	double tolerance; /* of the largest error over the largest value */
	/* c[m x n] = a[m x k] * b[k x n] */
	void (*multiply)(size_t m, size_t n, size_t k, const void *a, const void *b, void *c);
	/* x = x * Phi(x), the exact GELU */
	void (*gelu)(void *x, size_t n);
	void (*add)(void *to, const void *from, size_t n);
	void (*scale)(void *to, const void *from, double by, size_t n);
	/* Raises *diff to the largest |a - b| (infinite for NaN), *top to the largest |b|. */
	void (*compare)(const void *a, const void *b, size_t n, double *diff, double *top);
	/* Numbers spread evenly over (-limit, limit), the same for the same seed. */
	void (*random)(void *x, size_t n, double limit, uint64_t seed);
};

static inline double
mlp_random_unit(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

#define MLP_OPS(T, gemm, erf_)                                                                     \
	static void mlp_multiply_##T(size_t m, size_t n, size_t k, const void *a, const void *b,   \
	                             void *c)                                                      \
	{                                                                                          \
		gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a,      \
		     (int)k, b, (int)n, 0, c, (int)n);                                             \
	}                                                                                          \
	static void mlp_gelu_##T(void *x, size_t n)                                                \
	{                                                                                          \
		T *v = x;                                                                          \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			v[i] *= (T)0.5 * (1 + erf_(v[i] * (T)M_SQRT1_2));                          \
	}                                                                                          \
	static void mlp_add_##T(void *to, const void *from, size_t n)                              \
	{                                                                                          \
		T *restrict t = to;                                                                \
		const T *restrict f = from;                                                        \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			t[i] += f[i];                                                              \
	}                                                                                          \
	static void mlp_scale_##T(void *to, const void *from, double by, size_t n)                 \
	{                                                                                          \
		T *restrict t = to;                                                                \
		const T *restrict f = from;                                                        \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			t[i] = (T)by * f[i];                                                       \
	}                                                                                          \
	static void mlp_compare_##T(const void *a, const void *b, size_t n, double *diff,          \
	                            double *top)                                                   \
	{                                                                                          \
		const T *x = a, *y = b;                                                            \
                                                                                                   \
		for (size_t i = 0; i < n; i++) {                                                   \
			double d = fabs((double)x[i] - (double)y[i]), v = fabs((double)y[i]);      \
                                                                                                   \
			if (!(d <= *diff))                                                         \
				*diff = isnan(d) ? INFINITY : d;                                   \
			if (v > *top)                                                              \
				*top = v;                                                          \
		}                                                                                  \
	}                                                                                          \
	static void mlp_random_##T(void *x, size_t n, double limit, uint64_t seed)                 \
	{                                                                                          \
		T *v = x;                                                                          \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			v[i] = (T)(limit * (2 * mlp_random_unit(&seed) - 1));                      \
	}

MLP_OPS(float, cblas_sgemm, erff)
MLP_OPS(double, cblas_dgemm, erf)

/* clang-format off */
#define MLP_ROW(T, tol)                                                                            \
	{ .name = #T, .size = sizeof(T), .tolerance = tol, .multiply = mlp_multiply_##T,           \
	  .gelu = mlp_gelu_##T, .add = mlp_add_##T, .scale = mlp_scale_##T,                        \
	  .compare = mlp_compare_##T, .random = mlp_random_##T }
/* clang-format on */

static const struct mlp_ops mlp_ops[] = {
	[TENSOR_F32] = MLP_ROW(float, 1e-5), [TENSOR_F64] = MLP_ROW(double, 1e-13)
};

#endif
