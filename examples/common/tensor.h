/*
 * tensor.h - what a file says about one array of numbers, and the reasons why it
 * cannot be used.
 *
 * A parser (npy.h, safetensors.h) reads the head of a file and fills a struct
 * tensor_layout. It trusts nothing: when it returns 0, [data, data + bytes)
 * lies inside the file, and bytes is the product of the dimensions and the
 * element size, computed without overflow. Numbers are little-endian, as on
 * the machines that these examples run on.
 */
#ifndef EXAMPLES_COMMON_TENSOR_H
#define EXAMPLES_COMMON_TENSOR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the parsers read little-endian numbers");

#define TENSOR_DIMS_MAX 8
#define TENSOR_HEAD_MAX ((uint64_t)100 << 20) /* no sane header is longer */

enum tensor_type { TENSOR_F32, TENSOR_F64 };

struct tensor_layout {
	enum tensor_type type;
	size_t n_dims;
	uint64_t dims[TENSOR_DIMS_MAX];
	bool fortran;         /* the first index varies fastest */
	uint64_t data, bytes; /* in the file */
};

struct tensor_error {
	char text[256];
};

static inline void __attribute__((format(printf, 2, 3), cold))
tensor_say(struct tensor_error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
}

/* Fills in the reason and is -1. (A macro, so that the compiler sees the -1.) */
#define tensor_fail(e, ...) (tensor_say((e), __VA_ARGS__), -1)

static inline size_t
tensor_type_size(enum tensor_type type)
{
	return type == TENSOR_F32 ? sizeof(float) : sizeof(double);
}

/* Sets l->bytes from type and dims. */
static inline int
tensor_count_bytes(struct tensor_layout *l, struct tensor_error *e)
{
	l->bytes = tensor_type_size(l->type);
	/* A zero anywhere makes the product zero, but must not hide an overflow before it. */
	for (size_t i = 0; i < l->n_dims; i++)
		if (__builtin_mul_overflow(l->bytes, l->dims[i], &l->bytes))
			return tensor_fail(e, "the shape's size in bytes does not fit in 64 bits");
	return 0;
}

/* [l->data, l->data + l->bytes) must lie inside a file of file_len bytes. */
static inline int
tensor_check_inside(const struct tensor_layout *l, uint64_t file_len, struct tensor_error *e)
{
	if (l->data > file_len || l->bytes > file_len - l->data)
		return tensor_fail(e,
		                   "the data takes %llu bytes from %llu on, but the file has %llu",
		                   (unsigned long long)l->bytes, (unsigned long long)l->data,
		                   (unsigned long long)file_len);
	return 0;
}

#endif
