/* The loops for what every CPU of this kind has: SSE2, NEON. */
#define REDUCE_SET reduce_base
#define REDUCE_SET_NAME "base"
#include "coll/reduce_kernels.h"
