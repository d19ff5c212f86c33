/*
 * The loops for x86-64 with AVX-512 F, BW, DQ and VL. Not its fp16 and bf16 arithmetic, which does
 * not round as the other sets do: bf16 conversion takes subnormals for zeros.
 */
#ifdef HAVE_AVX512
#define REDUCE_SET reduce_avx512
#define REDUCE_SET_NAME "avx512"
#include "coll/reduce_kernels.h"
#else
typedef int nothing; /* a file must not be empty */
#endif
