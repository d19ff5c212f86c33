/* The loops for x86-64 with AVX2 and F16C. */
#ifdef HAVE_AVX2
#define REDUCE_SET reduce_avx2
#define REDUCE_SET_NAME "avx2"
#include "coll/reduce_kernels.h"
#else
typedef int nothing; /* a file must not be empty */
#endif
