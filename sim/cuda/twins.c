/*
 * twins.c - the twins of Oriel's kernels (kernels/), with the CPU's own loops; that of
 * the exchange is in exchange.c.
 */
#include "sim/cuda/twins.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)KERNEL_SUM == REDUCE_SUM && (int)KERNEL_AVG == REDUCE_AVG &&
                       (int)KERNEL_XOR == REDUCE_XOR,
               "the numbers of ops are the CPU's");

bool
twin_illegal(CUresult *error)
{
	*error = CUDA_ERROR_ILLEGAL_ADDRESS;
	return true;
}

/* ---- Folds ---- */

size_t
twin_size(int type)
{
	static const unsigned char size[ORIEL_TYPES] = {
		[ORIEL_INT8] = 1,        [ORIEL_UINT8] = 1,    [ORIEL_FLOAT8_E4M3] = 1,
		[ORIEL_FLOAT8_E5M2] = 1, [ORIEL_INT16] = 2,    [ORIEL_UINT16] = 2,
		[ORIEL_FLOAT16] = 2,     [ORIEL_BFLOAT16] = 2, [ORIEL_INT32] = 4,
		[ORIEL_UINT32] = 4,      [ORIEL_FLOAT] = 4,    [ORIEL_INT64] = 8,
		[ORIEL_UINT64] = 8,      [ORIEL_DOUBLE] = 8,
	};

	return size[type];
}

/* At most REDUCE_STRIP elements from element i on, in fp32. */
static void
strip_short(const struct reduce_kernels *k, int op, void *to, const void *const *term, int terms,
            size_t offset, size_t m)
{
	float acc[REDUCE_STRIP];

	k->widen(acc, (const char *)term[0] + offset, m);
	for (int t = 1; t < terms; t++)
		k->combine[op == REDUCE_PROD ? op : REDUCE_SUM](acc, (const char *)term[t] + offset,
		                                                m);
	k->narrow(to, acc, m);
}

static void
strip_pairs(const struct reduce_kernels *k, int op, void *to, const void *const *term, int terms,
            size_t offset, size_t m)
{
	k->pair[op](NULL, to, (const char *)term[0] + offset, (const char *)term[1] + offset, m);
	for (int t = 2; t < terms; t++)
		k->pair[op](NULL, to, to, (const char *)term[t] + offset, m);
}

void
twin_fold(int type, int op, void *dst, const void *const *term, int terms, size_t n, int divisor)
{
	const struct reduce_kernels *k = &twin_reduce.of[type];
	size_t size = twin_size(type);
	char to[REDUCE_STRIP * sizeof(uint64_t)];

	if (op < 0 || op >= REDUCE_OPS || !k->pair[op])
		return;
	for (size_t i = 0; i < n; i += REDUCE_STRIP) {
		size_t m = n - i < REDUCE_STRIP ? n - i : REDUCE_STRIP;

		if (terms == 1)
			memcpy(to, (const char *)term[0] + i * size, m * size);
		else if (k->widen && op != REDUCE_MIN && op != REDUCE_MAX)
			strip_short(k, op, to, term, terms, i * size, m);
		else
			strip_pairs(k, op, to, term, terms, i * size, m);
		if (op == REDUCE_AVG && divisor)
			k->divide(to, m, divisor);
		memcpy((char *)dst + i * size, to, m * size);
	}
}

static bool fold(struct op *op, CUresult *error);

static const struct kernel folds[ORIEL_TYPES] = {
#define FOLD(number, name) [number] = { "fold_" #name, 1, { sizeof(struct kernel_fold) }, fold },
	KERNEL_TYPES(FOLD)
};

static bool
fold(struct op *op, CUresult *error)
{
	const struct kernel_fold *a = (const void *)op->argument;
	int type = (int)(op->kernel - folds);
	size_t len = a->count * twin_size(type);
	const void **term = calloc((size_t)a->terms, sizeof(*term));
	void *dst = len ? standin_host_of(op->dev, a->dst, len, true) : NULL;
	bool good = dst && term;

	for (int t = 0; t < a->terms && good; t++) {
		term[t] = standin_host_of(op->dev, a->src + (uint64_t)(t * a->stride), len, true);
		good = term[t] != NULL;
	}
	if (good)
		twin_fold(type, a->op, dst, term, a->terms, a->count, a->divisor);
	else if (len)
		twin_illegal(error);
	free(term);
	return true;
}

/* ---- Copies and signals ---- */

static bool
copy(struct op *op, CUresult *error)
{
	const struct kernel_copy *a = (const void *)op->argument;
	void *dst = standin_host_of(op->dev, a->dst, a->bytes, true);
	const void *src = standin_host_of(op->dev, a->src, a->bytes, true);

	if (!a->bytes)
		return true;
	if (!dst || !src)
		return twin_illegal(error);
	memcpy(dst, src, a->bytes);
	return true;
}

static bool
signal_add(struct op *op, CUresult *error)
{
	const struct kernel_signal *a = (const void *)op->argument;
	uint64_t *word = standin_host_of(op->dev, a->word, sizeof(*word), true);

	if (!word || a->word % sizeof(*word))
		return twin_illegal(error);
	__atomic_add_fetch(word, a->value, __ATOMIC_ACQ_REL);
	return true;
}

static const struct kernel others[] = {
	{ "copy", 1, { sizeof(struct kernel_copy) }, copy },
	{ "signal_add", 1, { sizeof(struct kernel_signal) }, signal_add },
};

__attribute__((constructor)) static void
add_twins(void)
{
	for (int type = 0; type < ORIEL_TYPES; type++)
		standin_add_kernel(&folds[type]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		standin_add_kernel(&others[i]);
	standin_add_kernel(&twin_exchange);
}
