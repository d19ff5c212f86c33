/*
 * reduce.c - the CPU's loops under a name of their own: a library and a program that
 * both had the same name would be one too many.
 */
#define REDUCE_SET twin_reduce
#define REDUCE_SET_NAME "twin"

#include "sim/cuda/twins.h"

#include "coll/reduce_kernels.h"
