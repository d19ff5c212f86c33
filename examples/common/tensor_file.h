/*
 * tensor_file.h - reads a matrix from an .npy or .safetensors file into memory.
 *
 * The format is told by the file's first bytes, not by its name.
 */
#ifndef EXAMPLES_COMMON_TENSOR_FILE_H
#define EXAMPLES_COMMON_TENSOR_FILE_H

#include "examples/common/npy.h"
#include "examples/common/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* rows x cols numbers, one row after the other; data is freed by the caller. */
struct matrix {
	enum tensor_type type;
	size_t rows, cols;
	void *data;
};

/* Reads exactly len bytes from offset at. */
static inline int
tensor_read_at(int fd, void *to, uint64_t len, uint64_t at, struct tensor_error *e)
{
	uint64_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)to + done, len - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tensor_fail(e, "reading: %s", strerror(errno));
		if (n == 0)
			return tensor_fail(e, "became shorter while it was read");
		done += (uint64_t)n;
	}
	return 0;
}

/* Finds the layout of the tensor called name (which .npy ignores). */
static inline int
tensor_layout_read(int fd, uint64_t file_len, const char *name, struct tensor_layout *l,
                   struct tensor_error *e)
{
	uint8_t prefix[NPY_PREFIX], *head;
	size_t n = file_len < sizeof(prefix) ? (size_t)file_len : sizeof(prefix), at = 8;
	uint64_t len;
	bool npy;
	int err;

	if (tensor_read_at(fd, prefix, n, 0, e))
		return -1;
	npy = npy_is(prefix, n);
	if (npy ? npy_header_at(prefix, n, &at, &len, e)
	        : safetensors_header(prefix, n, file_len, &len, e))
		return -1;
	if (len > file_len - at)
		return tensor_fail(e, "ends inside its header of %llu bytes",
		                   (unsigned long long)len);
	head = malloc(at + len);
	if (!head)
		return tensor_fail(e, "no memory for its header of %llu bytes",
		                   (unsigned long long)len);
	err = tensor_read_at(fd, head, at + len, 0, e);
	if (!err)
		err = npy ? npy_parse(head, at + len, file_len, l, e)
		          : safetensors_parse(head, at + len, file_len, name, l, e);
	free(head);
	return err;
}

/* Turns a matrix that was stored by columns around. */
static inline int
matrix_from_columns(struct matrix *m, struct tensor_error *e)
{
	size_t size = tensor_type_size(m->type);
	char *by_rows = malloc(m->rows * m->cols * size + 1);

	if (!by_rows)
		return tensor_fail(e, "no memory to transpose %zu x %zu numbers", m->rows, m->cols);
	for (size_t r = 0; r < m->rows; r++)
		for (size_t c = 0; c < m->cols; c++)
			memcpy(by_rows + (r * m->cols + c) * size,
			       (char *)m->data + (c * m->rows + r) * size, size);
	free(m->data);
	m->data = by_rows;
	return 0;
}

static inline int
matrix_read_fd(int fd, const char *name, struct matrix *m, struct tensor_error *e)
{
	struct tensor_layout l;
	struct stat st;

	if (fstat(fd, &st))
		return tensor_fail(e, "fstat: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return tensor_fail(e, "is not a regular file");
	if (tensor_layout_read(fd, (uint64_t)st.st_size, name, &l, e))
		return -1;
	if (l.n_dims != 2 || l.bytes == 0)
		return tensor_fail(e, "holds %zu dimensions and %llu bytes, not a matrix", l.n_dims,
		                   (unsigned long long)l.bytes);
	m->type = l.type;
	m->rows = (size_t)l.dims[0];
	m->cols = (size_t)l.dims[1];
	m->data = malloc(l.bytes);
	if (!m->data)
		return tensor_fail(e, "no memory for its %llu bytes", (unsigned long long)l.bytes);
	if (!tensor_read_at(fd, m->data, l.bytes, l.data, e) &&
	    !(l.fortran && matrix_from_columns(m, e)))
		return 0;
	free(m->data);
	m->data = NULL;
	return -1;
}

/* On failure -1 and the reason, without the file's name. */
static inline int
matrix_read(const char *file, const char *name, struct matrix *m, struct tensor_error *e)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return tensor_fail(e, "%s", strerror(errno));
	err = matrix_read_fd(fd, name, m, e);
	close(fd);
	return err;
}

#endif
