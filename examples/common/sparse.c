#include "examples/common/sparse.h"

#include "examples/common/example.h"

#include <math.h>

void
csr_make(struct csr *a, const struct coordinates *m, size_t row0, size_t rows, size_t col0,
         size_t cols)
{
	size_t n = 0, row = 0;

	a->rows = rows;
	a->start = example_alloc(rows + 1, sizeof(*a->start));
	a->col = example_alloc(m->n, sizeof(*a->col));
	a->value = example_alloc(m->n, sizeof(*a->value));
	for (size_t i = 0; i < m->n; i++) {
		const struct entry *e = &m->entry[i];

		if (e->col < col0 || e->col - col0 >= cols)
			continue;
		while (row < e->row - row0)
			a->start[++row] = n;
		a->col[n] = e->col - col0;
		a->value[n++] = e->value;
	}
	while (row < rows)
		a->start[++row] = n;
}

void
csr_free(struct csr *a)
{
	free(a->start);
	free(a->col);
	free(a->value);
}

void
csr_multiply(const struct csr *a, const double *x, double *y, bool add)
{
	for (size_t r = 0; r < a->rows; r++) {
		double sum = add ? y[r] : 0;

		for (size_t i = a->start[r]; i < a->start[r + 1]; i++)
			sum += a->value[i] * x[a->col[i]];
		y[r] = sum;
	}
}

void
laplacian_make(struct coordinates *m, size_t grid_rows, size_t grid_cols, size_t row0, size_t rows)
{
	struct entry *e = example_alloc(5 * rows, sizeof(*e));

	*m = (struct coordinates){ grid_rows * grid_cols, grid_rows * grid_cols, 0, e };
	for (size_t i = row0; i < row0 + rows; i++) {
		size_t r = i / grid_cols, c = i % grid_cols;

		if (r > 0)
			*e++ = (struct entry){ i, i - grid_cols, -1 };
		if (c > 0)
			*e++ = (struct entry){ i, i - 1, -1 };
		*e++ = (struct entry){ i, i, 4 };
		if (c + 1 < grid_cols)
			*e++ = (struct entry){ i, i + 1, -1 };
		if (r + 1 < grid_rows)
			*e++ = (struct entry){ i, i + grid_cols, -1 };
	}
	m->n = (size_t)(e - m->entry);
}

static double
largest_of_line(size_t n)
{
	double s = sin(acos(0) * (double)n / (double)(n + 1));

	return 4 * s * s;
}

double
laplacian_largest(size_t grid_rows, size_t grid_cols)
{
	return largest_of_line(grid_rows) + largest_of_line(grid_cols);
}
