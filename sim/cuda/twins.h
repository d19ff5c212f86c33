/*
 * twins.h - what the twins of Oriel's kernels share.
 */
#ifndef SIM_CUDA_TWINS_H
#define SIM_CUDA_TWINS_H

#include "coll/reduce_impl.h"
#include "kernels/kernels.h"
#include "sim/cuda/kernel.h"

/* Bytes of an element. */
size_t twin_size(int type);
/* n elements of dst from those of the terms; an op that the type does not have does nothing. dst
 * may be a term. */
void twin_fold(int type, int op, void *dst, const void *const *term, int terms, size_t n,
               int divisor);
bool twin_illegal(CUresult *error);

extern const struct kernel twin_exchange;
extern const struct reduce_set twin_reduce; /* loops that combine elements */

#endif
