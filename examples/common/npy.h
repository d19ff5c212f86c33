/*
 * npy.h - NumPy's .npy files: "\x93NUMPY", a version, a header's length, the
 * header (the text of a Python dict), the data.
 *
 * OFFSET SIZE MEANING
 *      0    6 "\x93NUMPY"
 *      6    2 version: 1.0, 2.0 or 3.0
 *      8    2 header's length (4 bytes from version 2.0 on)
 *     10      {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, spaces, newline
 *
 * Source: numpy.lib.format, "Format Version 1.0" to "3.0".
 */
#ifndef EXAMPLES_COMMON_NPY_H
#define EXAMPLES_COMMON_NPY_H

#include "examples/common/tensor.h"

#include <string.h>

#define NPY_MAGIC "\x93NUMPY"
#define NPY_PREFIX 12 /* bytes that tell the header's length, whatever the version */

/* What is left of the header's text; nothing at or after end is read. */
struct npy_text {
	const char *at, *end;
	struct tensor_error *e;
};

static inline bool
npy_is(const void *head, size_t len)
{
	return len >= 6 && !memcmp(head, NPY_MAGIC, 6);
}

/* *at, *len: where the header's text is in the file. head has the file's first n bytes. */
static inline int
npy_header_at(const uint8_t *head, size_t n, size_t *at, uint64_t *len, struct tensor_error *e)
{
	if (!npy_is(head, n))
		return tensor_fail(e, "does not begin with \\x93NUMPY");
	if (n < 10)
		return tensor_fail(e, "ends inside the header's length");
	if (head[6] < 1 || head[6] > 3 || head[7] != 0)
		return tensor_fail(e, "has format version %u.%u, not 1.0, 2.0 or 3.0", head[6],
		                   head[7]);
	*at = head[6] == 1 ? 10 : 12;
	if (n < *at)
		return tensor_fail(e, "ends inside the header's length");
	*len = (uint64_t)head[8] | (uint64_t)head[9] << 8;
	if (head[6] > 1)
		*len |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
	if (*len > TENSOR_HEAD_MAX)
		return tensor_fail(e, "has a header of %llu bytes", (unsigned long long)*len);
	return 0;
}

static inline void
npy_skip_spaces(struct npy_text *t)
{
	while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
		t->at++;
}

/* Takes c, and spaces before it, if that is what comes next. */
static inline bool
npy_take(struct npy_text *t, char c)
{
	npy_skip_spaces(t);
	if (t->at == t->end || *t->at != c)
		return false;
	t->at++;
	return true;
}

static inline int
npy_expect(struct npy_text *t, char c)
{
	if (!npy_take(t, c))
		return tensor_fail(t->e, "header: expected '%c'%s", c,
		                   t->at == t->end ? " but it ends" : "");
	return 0;
}

/* A quoted word without escapes, into text[cap]. */
static inline int
npy_string(struct npy_text *t, char *text, size_t cap)
{
	size_t n = 0;
	char quote;

	npy_skip_spaces(t);
	if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
		return tensor_fail(t->e, "header: expected a quoted word");
	quote = *t->at++;
	while (t->at < t->end && *t->at != quote) {
		if (n + 1 == cap || *t->at == '\\' || (unsigned char)*t->at < ' ')
			return tensor_fail(t->e, "header: a quoted word is too long or malformed");
		text[n++] = *t->at++;
	}
	text[n] = '\0';
	return npy_expect(t, quote);
}

static inline int
npy_number(struct npy_text *t, uint64_t *value)
{
	const char *start;

	npy_skip_spaces(t);
	start = t->at;
	*value = 0;
	for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
		if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*t->at - '0'), value))
			return tensor_fail(t->e, "header: a dimension does not fit in 64 bits");
	if (t->at == start)
		return tensor_fail(t->e, "header: expected a dimension");
	return 0;
}

/* (3, 4), (3,) or (). */
static inline int
npy_shape(struct npy_text *t, struct tensor_layout *l)
{
	bool comma = true;

	l->n_dims = 0;
	if (npy_expect(t, '('))
		return -1;
	while (!npy_take(t, ')')) {
		if (!comma)
			return tensor_fail(t->e, "header: the shape's numbers want commas between");
		if (l->n_dims == TENSOR_DIMS_MAX)
			return tensor_fail(t->e, "has more than %d dimensions", TENSOR_DIMS_MAX);
		if (npy_number(t, &l->dims[l->n_dims++]))
			return -1;
		comma = npy_take(t, ',');
	}
	/* Python reads (3) as a number, not as a shape. */
	if (l->n_dims == 1 && !comma)
		return tensor_fail(t->e, "header: the shape is a number, not a tuple");
	return 0;
}

static inline int
npy_descr(struct npy_text *t, struct tensor_layout *l)
{
	char text[32];

	if (npy_string(t, text, sizeof(text)))
		return -1;
	if (!strcmp(text, "<f4"))
		l->type = TENSOR_F32;
	else if (!strcmp(text, "<f8"))
		l->type = TENSOR_F64;
	else
		return tensor_fail(t->e, "holds '%s', not '<f4' or '<f8'", text);
	return 0;
}

static inline int
npy_bool(struct npy_text *t, bool *value)
{
	static const char *const words[] = { "False", "True" };

	npy_skip_spaces(t);
	for (int i = 0; i < 2; i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(t->end - t->at) >= n && !memcmp(t->at, words[i], n)) {
			t->at += n;
			*value = i;
			return 0;
		}
	}
	return tensor_fail(t->e, "header: fortran_order is neither True nor False");
}

/* One key and its value; seen has a bit for each key that was there. */
static inline int
npy_item(struct npy_text *t, struct tensor_layout *l, unsigned int *seen)
{
	static const char *const keys[] = { "descr", "fortran_order", "shape" };
	char key[32];
	unsigned int k = 0;

	if (npy_string(t, key, sizeof(key)) || npy_expect(t, ':'))
		return -1;
	while (k < 3 && strcmp(key, keys[k]))
		k++;
	if (k == 3)
		return tensor_fail(t->e, "header: unknown key '%s'", key);
	if (*seen & 1u << k)
		return tensor_fail(t->e, "header: '%s' comes twice", key);
	*seen |= 1u << k;
	return k == 0 ? npy_descr(t, l) : k == 1 ? npy_bool(t, &l->fortran) : npy_shape(t, l);
}

/* head: the file's first head_len bytes, of which the header's end must be one. */
static inline int
npy_parse(const uint8_t *head, size_t head_len, uint64_t file_len, struct tensor_layout *l,
          struct tensor_error *e)
{
	struct npy_text t = { .e = e };
	unsigned int seen = 0;
	bool comma = true;
	uint64_t len;
	size_t at;

	if (npy_header_at(head, head_len, &at, &len, e))
		return -1;
	if (len > head_len - at)
		return tensor_fail(e, "ends inside its header of %llu bytes",
		                   (unsigned long long)len);
	t.at = (const char *)head + at;
	t.end = t.at + len;
	*l = (struct tensor_layout){ .data = at + len };
	if (npy_expect(&t, '{'))
		return -1;
	while (!npy_take(&t, '}')) {
		if (!comma)
			return tensor_fail(e, "header: its items want commas between");
		if (npy_item(&t, l, &seen))
			return -1;
		comma = npy_take(&t, ',');
	}
	npy_skip_spaces(&t);
	if (t.at != t.end)
		return tensor_fail(e, "header: text after its '}'");
	if (seen != 7)
		return tensor_fail(e, "header: descr, fortran_order or shape is missing");
	return tensor_count_bytes(l, e) ? -1 : tensor_check_inside(l, file_len, e);
}

/* Writes a matrix; 0, or -1 with errno set. */
static inline int
npy_write(FILE *f, enum tensor_type type, const void *data, uint64_t rows, uint64_t cols)
{
	char text[118];
	uint8_t prefix[10] = NPY_MAGIC "\1\0\x76"; /* 118 bytes follow: the data starts at 128 */
	size_t n = (size_t)(rows * cols);
	int len = snprintf(text, sizeof(text),
	                   "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%llu, %llu), }",
	                   tensor_type_size(type), (unsigned long long)rows,
	                   (unsigned long long)cols);

	memset(text + len, ' ', sizeof(text) - (size_t)len);
	text[sizeof(text) - 1] = '\n';
	if (fwrite(prefix, sizeof(prefix), 1, f) != 1 || fwrite(text, sizeof(text), 1, f) != 1)
		return -1;
	return fwrite(data, tensor_type_size(type), n, f) == n ? 0 : -1;
}

#endif
