/*
 * sparse.h - sparse matrices by rows, and one whose eigenvalues are known.
 */
#ifndef EXAMPLES_COMMON_SPARSE_H
#define EXAMPLES_COMMON_SPARSE_H

#include "examples/common/matrix_market.h"

/* Compressed sparse rows: row r's entries are start[r] to start[r + 1] - 1. */
struct csr {
	size_t rows;
	size_t *start, *col;
	double *value;
};

/*
 * Takes the entries of rows [row0, row0 + rows), all that m has, whose columns are
 * in [col0, col0 + cols); both then count from 0. Freed with csr_free.
 */
void csr_make(struct csr *a, const struct coordinates *m, size_t row0, size_t rows, size_t col0,
              size_t cols);
void csr_free(struct csr *a);
/* y = A x, or y += A x. */
void csr_multiply(const struct csr *a, const double *x, double *y, bool add);

/*
 * Rows [row0, row0 + rows) of the negative 5-point Laplacian of a grid with zeros
 * around it: 4 for a point, -1 for each neighbour. m->entry is freed by the caller.
 */
void laplacian_make(struct coordinates *m, size_t grid_rows, size_t grid_cols, size_t row0,
                    size_t rows);
/* The largest of its eigenvalues 4 sin^2(i pi / 2(R + 1)) + 4 sin^2(j pi / 2(C + 1)). */
double laplacian_largest(size_t grid_rows, size_t grid_cols);

#endif
