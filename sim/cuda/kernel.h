/*
 * kernel.h - to add a kernel to the stand-in: the C twin of a CUDA one.
 */
#ifndef SIM_CUDA_KERNEL_H
#define SIM_CUDA_KERNEL_H

#include "sim/cuda/standin.h"

/* k stays where it is. False: there are too many. */
bool standin_add_kernel(const struct kernel *k);

#endif
