/*
 * matrix_market.h - sparse matrices in the Matrix Market exchange format.
 *
 * Read are coordinate files: real, integer or pattern (every entry is 1), general
 * or symmetric (the lower triangle is stored). The reader is strict: what is not
 * what the format says is an error that names file and line, and so is an entry
 * that is there twice.
 *
 * Source: R. F. Boisvert, R. Pozo, K. A. Remington, The Matrix Market Exchange
 * Formats: Initial Design, NISTIR 5935, 1996.
 */
#ifndef EXAMPLES_COMMON_MATRIX_MARKET_H
#define EXAMPLES_COMMON_MATRIX_MARKET_H

#include "examples/common/text.h"

#define MATRIX_MAX ((size_t)1 << 40) /* rows, columns, entries */

struct entry {
	size_t row, col; /* from 0 */
	double value;
};

/* All entries, those of a symmetric matrix on both sides, by rows and then by columns. */
struct coordinates {
	size_t rows, cols, n;
	struct entry *entry;
};

/* On failure -1, and the reason in error. m->entry is freed by the caller. */
int matrix_market_read(const char *path, struct coordinates *m, char *error, size_t cap);
/* Writes the lower triangle of a matrix that is symmetric; comment: one line. -1 sets errno. */
int matrix_market_write(const char *path, const struct coordinates *m, const char *comment);

#endif
