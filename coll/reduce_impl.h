/*
 * reduce_impl.h - the loops behind a reducer: a table of them for each instruction
 * set, all made from coll/reduce_kernels.h and bitwise equal in what they do.
 */
#ifndef COLL_REDUCE_IMPL_H
#define COLL_REDUCE_IMPL_H

#include "coll/reduce.h"

enum reduce_op { /* the values of ORIEL_SUM and the others */
	         REDUCE_SUM = 1,
	         REDUCE_PROD,
	         REDUCE_MIN,
	         REDUCE_MAX,
	         REDUCE_AVG,
	         REDUCE_AND,
	         REDUCE_OR,
	         REDUCE_XOR,
	         REDUCE_OPS
};

struct reduce_kernels { /* of one type */
	/* As in struct reducer; NULL: the op is not for this type. */
	void (*pair[REDUCE_OPS])(const struct reducer *r, void *dst, const void *a, const void *b,
	                         size_t n);
	/* v[i] /= by. */
	void (*divide)(void *v, size_t n, int by);
	/* Of the floats that are shorter than fp32, NULL for other types. n is at most
	 * REDUCE_STRIP. combine: acc[i] = acc[i] op from[i]; sum and prod only. */
	void (*widen)(float *acc, const void *from, size_t n);
	void (*combine[REDUCE_PROD + 1])(float *acc, const void *from, size_t n);
	void (*narrow)(void *to, const float *acc, size_t n);
};
#define REDUCE_STRIP 1024

struct reduce_set {
	const char *name; /* as ORIEL_SIMD has it */
	struct reduce_kernels of[ORIEL_TYPES];
};
extern const struct reduce_set reduce_base, reduce_avx2, reduce_avx512;
/* The i-th of those that this build has and this CPU runs, NULL behind the last. */
const struct reduce_set *reduce_set_at(size_t i);

#endif
