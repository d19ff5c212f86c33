/*
 * oriel.cu - all kernels as one image.
 */
#include "kernels/exchange.cu"
#include "kernels/reduce.cu"
#include "kernels/signal.cu"
