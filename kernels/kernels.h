/*
 * kernels.h - Oriel's CUDA kernels: names, arguments and constants, for the library,
 * for the kernels and for their twins in the stand-in for the driver (sim/cuda).
 *
 * A kernel has one parameter, by value: the structure named after it. Addresses are
 * those of the device that runs it. Any grid of blocks of up to KERNEL_THREADS
 * threads will do, in one dimension, without shared memory.
 *
 *   fold_TYPE     struct kernel_fold      elements of several buffers combined
 *   copy          struct kernel_copy      bytes, at any addresses
 *   signal_add    struct kernel_signal    one thread: adds to a word
 *   ll_exchange   struct kernel_exchange  a collective call on one node, in one launch
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "oriel.h"

#include <stddef.h>
#include <stdint.h>

#define KERNEL_THREADS 512 /* of a block, at most */

/* X(enum oriel_type, the type's name in fold_TYPE) */
#define KERNEL_TYPES(X)                                                                            \
	X(ORIEL_INT32, int32)                                                                      \
	X(ORIEL_INT64, int64)                                                                      \
	X(ORIEL_UINT32, uint32)                                                                    \
	X(ORIEL_UINT64, uint64)                                                                    \
	X(ORIEL_FLOAT, float)                                                                      \
	X(ORIEL_DOUBLE, double)                                                                    \
	X(ORIEL_INT8, int8)                                                                        \
	X(ORIEL_UINT8, uint8)                                                                      \
	X(ORIEL_INT16, int16)                                                                      \
	X(ORIEL_UINT16, uint16)                                                                    \
	X(ORIEL_FLOAT16, float16)                                                                  \
	X(ORIEL_BFLOAT16, bfloat16)                                                                \
	X(ORIEL_FLOAT8_E4M3, float8_e4m3)                                                          \
	X(ORIEL_FLOAT8_E5M2, float8_e5m2)

enum kernel_op { /* the values of ORIEL_SUM and the others */
	         KERNEL_SUM = 1,
	         KERNEL_PROD,
	         KERNEL_MIN,
	         KERNEL_MAX,
	         KERNEL_AVG, /* a sum; then divided */
	         KERNEL_AND,
	         KERNEL_OR,
	         KERNEL_XOR
};

/*
 * dst[k] = src0[k] op src1[k] op ..., from the left, term t at src + t * stride; bitwise what the
 * CPU's fold does (coll/reduce.h), and its finish if divisor is not 0. dst may be a term; else
 * nothing overlaps. Addresses of any alignment; fast if all are alike modulo 16, strides 0.
 * An op that the type does not have leaves dst as it is.
 */
struct kernel_fold {
	uint64_t dst, src;
	int64_t stride;  /* bytes; with two terms they may be anywhere */
	uint64_t count;  /* elements */
	int32_t terms;   /* at least 1: a copy */
	int32_t op;      /* enum kernel_op */
	int32_t divisor; /* of an average; 0: none */
	int32_t reserved;
};

struct kernel_copy { /* dst and src do not overlap */
	uint64_t dst, src, bytes;
};

/* Everything that the stream did before is visible to who sees the word, 8 bytes aligned. */
struct kernel_signal {
	uint64_t word, value;
};

/* ---- ll_exchange ---- */

#define EXCHANGE_RANKS 16 /* at most */

enum exchange_mode {
	EXCHANGE_GATHER,   /* out block q: rank q's in; n = 0: a barrier */
	EXCHANGE_ALLTOALL, /* out block q: rank q's in block `rank` */
	EXCHANGE_REDUCE    /* out: all ranks' in folded in rank order */
};

/* In device memory of its rank; zeroed before the first call. The kernel's own afterwards. */
struct exchange_state {
	uint32_t call;    /* so many are complete; goes round without 0 */
	uint32_t stopped; /* what stood in the abort word: no call does anything any more */
	uint64_t looked;  /* when somebody last looked at the abort word, ns */
	uint32_t ticket;  /* blocks of this call that are done */
	uint32_t reserved;
};

/*
 * All ranks make the same calls in the same order, each on one stream or in graphs that come one
 * after the other. Blocks wait for one another: those of a call must all become resident in time,
 * also those of several ranks that share a device. in may be out (gather: its own block of out).
 */
struct kernel_exchange {
	uint64_t scratch[EXCHANGE_RANKS]; /* of each rank, mapped here; zeroed before the first call
	                                   */
	uint64_t state;                   /* struct exchange_state */
	uint64_t slot;                    /* exchange_slot of the longest call; the same in all */
	uint64_t in, out;
	uint64_t bytes;                /* n, of a block; reduce: whole elements, of the vector */
	int64_t in_stride, out_stride; /* from block to block, bytes */
	uint64_t abort;                /* uint32_t: not 0 ends calls that wait. 0: there is none */
	uint64_t status; /* uint32_t: gets what stands there when a call has been ended by it */
	int32_t rank, ranks;
	int32_t mode;     /* enum exchange_mode */
	int32_t type, op; /* reduce: enum oriel_type, enum kernel_op; AVG divides by ranks */
	int32_t reserved;
};

#define EXCHANGE_LINE 16 /* bytes of scratch for 8 of data: two words of data below flag */
#define EXCHANGE_DATA 8

/* In a call whose number has these low bits 2 or 3 old flags are wiped out. */
#define EXCHANGE_SCRUB_MASK UINT32_C(0x3fffffff)

/* Bytes for what one rank sends to one other, of up to max_bytes. */
static inline uint64_t
exchange_slot(uint64_t max_bytes)
{
	uint64_t lines = (max_bytes + EXCHANGE_DATA - 1) / EXCHANGE_DATA;

	return (lines ? lines : 1) * EXCHANGE_LINE;
}

/* Bytes of each rank's scratch, which is aligned to 16. */
static inline uint64_t
exchange_scratch(int ranks, uint64_t max_bytes)
{
	return 2 * (uint64_t)ranks * exchange_slot(max_bytes);
}

/* ---- The image ---- */

#ifndef __cplusplus
/* All kernels, for cuModuleLoadData. NULL: this build was made without a CUDA compiler. */
const void *kernels_image(size_t *len);
/* NULL: no such type. */
const char *kernels_fold_name(int type);
#endif

#endif
