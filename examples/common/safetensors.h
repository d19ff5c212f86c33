/*
 * safetensors.h - .safetensors files: a 64-bit length, that many bytes of JSON,
 * the data of all tensors.
 *
 * The JSON is an object: "name": {"dtype": "F32", "shape": [3, 4],
 * "data_offsets": [begin, end]}, offsets from the data's start; "__metadata__"
 * is something else. json-c parses it.
 *
 * Source: the format section of github.com/huggingface/safetensors.
 */
#ifndef EXAMPLES_COMMON_SAFETENSORS_H
#define EXAMPLES_COMMON_SAFETENSORS_H

#include "examples/common/tensor.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

/* *len: bytes of JSON after the first 8. head has the file's first n bytes. */
static inline int
safetensors_header(const uint8_t *head, size_t n, uint64_t file_len, uint64_t *len,
                   struct tensor_error *e)
{
	if (n < 8 || file_len < 8)
		return tensor_fail(e, "ends inside the header's length");
	memcpy(len, head, 8);
	if (*len < 2 || *len > TENSOR_HEAD_MAX || *len > file_len - 8)
		return tensor_fail(e, "a header of %llu bytes cannot be in a file of %llu",
		                   (unsigned long long)*len, (unsigned long long)file_len);
	return 0;
}

/* A whole number, 0 or more. */
static inline int
safetensors_uint(struct json_object *o, uint64_t *value, const char *what, struct tensor_error *e)
{
	if (!json_object_is_type(o, json_type_int) || json_object_get_int64(o) < 0)
		return tensor_fail(e, "%s holds something that is not a number from 0 on", what);
	*value = json_object_get_uint64(o);
	return 0;
}

static inline int
safetensors_shape(struct json_object *shape, struct tensor_layout *l, struct tensor_error *e)
{
	if (!json_object_is_type(shape, json_type_array))
		return tensor_fail(e, "shape is not a list");
	l->n_dims = json_object_array_length(shape);
	if (l->n_dims > TENSOR_DIMS_MAX)
		return tensor_fail(e, "has more than %d dimensions", TENSOR_DIMS_MAX);
	for (size_t i = 0; i < l->n_dims; i++)
		if (safetensors_uint(json_object_array_get_idx(shape, i), &l->dims[i], "shape", e))
			return -1;
	return 0;
}

/* Reads data_offsets, and compares their distance with the shape's size. */
static inline int
safetensors_place(struct json_object *offsets, uint64_t data_start, struct tensor_layout *l,
                  struct tensor_error *e)
{
	uint64_t from, to;

	if (!json_object_is_type(offsets, json_type_array) ||
	    json_object_array_length(offsets) != 2)
		return tensor_fail(e, "data_offsets is not a list of two");
	if (safetensors_uint(json_object_array_get_idx(offsets, 0), &from, "data_offsets", e) ||
	    safetensors_uint(json_object_array_get_idx(offsets, 1), &to, "data_offsets", e))
		return -1;
	if (from > to || to - from != l->bytes)
		return tensor_fail(e,
		                   "data_offsets %llu to %llu do not hold the shape's %llu bytes",
		                   (unsigned long long)from, (unsigned long long)to,
		                   (unsigned long long)l->bytes);
	if (__builtin_add_overflow(data_start, from, &l->data))
		return tensor_fail(e, "data_offsets do not fit in 64 bits");
	return 0;
}

static inline int
safetensors_tensor(struct json_object *root, const char *name, uint64_t data_start,
                   struct tensor_layout *l, struct tensor_error *e)
{
	struct json_object *t, *dtype, *shape, *offsets;
	const char *type;

	if (!json_object_is_type(root, json_type_object))
		return tensor_fail(e, "header: is not an object");
	if (!json_object_object_get_ex(root, name, &t))
		return tensor_fail(e, "holds no tensor named \"%s\"", name);
	if (!json_object_is_type(t, json_type_object) ||
	    !json_object_object_get_ex(t, "dtype", &dtype) ||
	    !json_object_object_get_ex(t, "shape", &shape) ||
	    !json_object_object_get_ex(t, "data_offsets", &offsets) ||
	    !json_object_is_type(dtype, json_type_string))
		return tensor_fail(e, "\"%s\" lacks dtype, shape or data_offsets", name);
	type = json_object_get_string(dtype);
	if (strcmp(type, "F32") && strcmp(type, "F64"))
		return tensor_fail(e, "\"%s\" holds %s, not F32 or F64", name, type);
	*l = (struct tensor_layout){ .type = strcmp(type, "F32") ? TENSOR_F64 : TENSOR_F32 };
	if (safetensors_shape(shape, l, e) || tensor_count_bytes(l, e))
		return -1;
	return safetensors_place(offsets, data_start, l, e);
}

/* head: the file's first head_len bytes, the whole header among them. */
static inline int
safetensors_parse(const uint8_t *head, size_t head_len, uint64_t file_len, const char *name,
                  struct tensor_layout *l, struct tensor_error *e)
{
	struct json_tokener *tok;
	struct json_object *root;
	uint64_t len;
	size_t end;
	int err;

	if (safetensors_header(head, head_len, file_len, &len, e))
		return -1;
	if (len > head_len - 8)
		return tensor_fail(e, "ends inside its header of %llu bytes",
		                   (unsigned long long)len);
	tok = json_tokener_new_ex(8);
	if (!tok)
		return tensor_fail(e, "no memory for the JSON parser");
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	root = json_tokener_parse_ex(tok, (const char *)head + 8, (int)len);
	end = json_tokener_get_parse_end(tok);
	while (root && end < len && head[8 + end] == ' ')
		end++;
	if (!root)
		err = tensor_fail(e, "header: %s at byte %zu",
		                  json_tokener_error_desc(json_tokener_get_error(tok)), end);
	else if (end != len)
		err = tensor_fail(e, "header: text after its '}'");
	else
		err = safetensors_tensor(root, name, 8 + len, l, e);
	json_object_put(root);
	json_tokener_free(tok);
	return err ? err : tensor_check_inside(l, file_len, e);
}

struct safetensors_item {
	const char *name;
	enum tensor_type type;
	const void *data;
	uint64_t rows, cols;
};

/* Writes matrices; 0, or -1 with errno set. Names need no escaping. */
static inline int
safetensors_write(FILE *f, const struct safetensors_item *items, size_t n_items)
{
	char text[1024] = "{";
	size_t len = 1;
	uint64_t at = 0, padded;

	for (size_t i = 0; i < n_items && len < sizeof(text); i++) {
		const struct safetensors_item *t = &items[i];
		uint64_t bytes = t->rows * t->cols * tensor_type_size(t->type);

		len += (size_t)snprintf(text + len, sizeof(text) - len,
		                        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu,%llu],"
		                        "\"data_offsets\":[%llu,%llu]}",
		                        i ? "," : "", t->name,
		                        t->type == TENSOR_F32 ? "F32" : "F64",
		                        (unsigned long long)t->rows, (unsigned long long)t->cols,
		                        (unsigned long long)at, (unsigned long long)(at + bytes));
		at += bytes;
	}
	if (len + 9 > sizeof(text)) {
		errno = EOVERFLOW;
		return -1;
	}
	text[len++] = '}';
	/* The data starts at a multiple of 8. */
	while (len % 8)
		text[len++] = ' ';
	padded = len;
	if (fwrite(&padded, 8, 1, f) != 1 || fwrite(text, len, 1, f) != 1)
		return -1;
	for (size_t i = 0; i < n_items; i++) {
		size_t n = (size_t)(items[i].rows * items[i].cols);

		if (fwrite(items[i].data, tensor_type_size(items[i].type), n, f) != n)
			return -1;
	}
	return 0;
}

#endif
