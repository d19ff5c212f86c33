/*
 * fft_transpose.c - the Fourier transform of an array of N x M complex numbers,
 * cut by rows.
 *
 * Every rank has a stretch of the rows. A transform is
 *
 *   rows       transforms of the own rows, of length M
 *   transpose  every rank sends every other one a block, and has a stretch of the
 *              columns then, as rows                          oriel_alltoallv
 *   rows       transforms of these, of length N
 *   transpose  back                                           oriel_alltoallv
 *
 * Neither N nor M need be a multiple of the number of ranks, nor as large: blocks
 * differ in size, and may be empty. A block is turned around while it is packed,
 * so that its receiver only copies stretches of rows.
 *
 * Checked: a plane wave has a single peak; random numbers have the same power
 * before and after (Parseval), the same transform as one process gets, bit for bit
 * (every row is transformed by the same instructions), and come back from the
 * inverse.
 *
 * Run: orielrun -n 4 build/examples/fft_transpose [--help]
 */
#include "examples/common/example.h"
#include "examples/common/fft.h"

#include <math.h>
#include <string.h>

#define TOLERANCE 1e-12 /* of differences, over the largest value that can be */

/* Who has what of an array's rows: rank r those from first[r] to first[r + 1] - 1. */
struct cut {
	size_t n, *first, mine;
};

struct transform {
	struct cut rows, cols; /* of the array */
	struct fft row, col;   /* transforms of a row, of a column */
	double complex *a;     /* my rows */
	double complex *t;     /* my columns, as rows */
	double complex *packed, *unpacked;
	size_t *table; /* lengths and displacements */
	double comm_s, took_s;
};

static void
cut_make(struct cut *c, size_t n)
{
	c->n = n;
	c->first = example_alloc((size_t)example.size + 1, sizeof(*c->first));
	for (int r = 0; r <= example.size; r++)
		c->first[r] = example_first(n, r);
	c->mine = c->first[example.rank + 1] - c->first[example.rank];
}

/* from: my rows of an array; to: my rows of the transposed one, its columns. */
static void
transpose(struct transform *f, const struct cut *rows, const struct cut *cols,
          const double complex *from, double complex *to)
{
	size_t p = (size_t)example.size, unit = sizeof(*from), at = 0;
	size_t *out_len = f->table, *out_at = out_len + p, *in_len = out_at + p,
	       *in_at = in_len + p;
	double start = now_s();

	for (size_t r = 0; r < p; r++) {
		out_at[r] = at * unit;
		for (size_t c = cols->first[r]; c < cols->first[r + 1]; c++)
			for (size_t i = 0; i < rows->mine; i++)
				f->packed[at++] = from[i * cols->n + c];
		out_len[r] = at * unit - out_at[r];
		in_at[r] = rows->first[r] * cols->mine * unit;
		in_len[r] = (rows->first[r + 1] - rows->first[r]) * cols->mine * unit;
	}
	CHECK(oriel_alltoallv(example.world, f->packed, out_len, out_at, f->unpacked, in_len,
	                      in_at));
	for (size_t r = 0; r < p; r++) {
		size_t first = rows->first[r], n = rows->first[r + 1] - first;

		for (size_t c = 0; c < cols->mine; c++)
			memcpy(to + c * rows->n + first, f->unpacked + first * cols->mine + c * n,
			       n * unit);
	}
	f->comm_s += now_s() - start;
}

static void
transform_run(struct transform *f, int inverse)
{
	double start = now_s();

	for (size_t r = 0; r < f->rows.mine; r++)
		fft_run(&f->row, f->a + r * f->cols.n, inverse);
	transpose(f, &f->rows, &f->cols, f->a, f->t);
	for (size_t c = 0; c < f->cols.mine; c++)
		fft_run(&f->col, f->t + c * f->rows.n, inverse);
	transpose(f, &f->cols, &f->rows, f->t, f->a);
	f->took_s += now_s() - start;
}

static void
transform_open(struct transform *f, size_t rows, size_t cols)
{
	size_t most;

	cut_make(&f->rows, rows);
	cut_make(&f->cols, cols);
	fft_init(&f->row, cols);
	fft_init(&f->col, rows);
	most = f->rows.mine * cols > f->cols.mine * rows ? f->rows.mine * cols
	                                                 : f->cols.mine * rows;
	f->a = example_alloc(f->rows.mine * cols, sizeof(*f->a));
	f->t = example_alloc(f->cols.mine * rows, sizeof(*f->t));
	f->packed = example_alloc(most, sizeof(*f->packed));
	f->unpacked = example_alloc(most, sizeof(*f->unpacked));
	f->table = example_alloc(4 * (size_t)example.size, sizeof(*f->table));
}

static void
transform_close(struct transform *f)
{
	fft_fini(&f->row);
	fft_fini(&f->col);
	free(f->rows.first);
	free(f->cols.first);
	free(f->a);
	free(f->t);
	free(f->packed);
	free(f->unpacked);
	free(f->table);
}

/* ---- Checks: each on all ranks, its verdict is the same on all ---- */

/* Rank 0 says what it is worth. limit 0: must be exact. */
static bool
verdict(const char *what, double worst, double limit)
{
	/* A NaN is no good either, but ORIEL_MAX might lose it. */
	if (isnan(worst))
		worst = INFINITY;
	CHECK(oriel_allreduce(example.world, &worst, &worst, 1, ORIEL_DOUBLE, ORIEL_MAX));
	if (example.rank == 0)
		printf("  %-34s off by %.1e, at most %.0e allowed: %s\n", what, worst, limit,
		       worst <= limit ? "ok" : "FAILED");
	return worst <= limit;
}

/* exp(2 pi i (k r / N + l c / M)) is N M at row k, column l of its transform, and 0 elsewhere. */
static bool
check_wave(struct transform *f, size_t k, size_t l)
{
	size_t rows = f->rows.n, cols = f->cols.n, row0 = f->rows.first[example.rank];
	double turn = 4 * acos(0), worst = 0;

	for (size_t r = 0; r < f->rows.mine; r++)
		for (size_t c = 0; c < cols; c++)
			f->a[r * cols + c] = cexp(I * turn *
			                          ((double)(k * (row0 + r) % rows) / (double)rows +
			                           (double)(l * c % cols) / (double)cols));
	transform_run(f, 0);
	for (size_t r = 0; r < f->rows.mine; r++)
		for (size_t c = 0; c < cols; c++) {
			double peak = row0 + r == k && c == l ? (double)(rows * cols) : 0;

			worst = example_worse(worst, cabs(f->a[r * cols + c] - peak));
		}
	return verdict("plane wave, single peak", worst / (double)(rows * cols), TOLERANCE);
}

static void
fill(double complex *a, size_t row0, size_t rows, size_t cols)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < cols; c++)
			a[r * cols + c] = CMPLX(example_random(row0 + r, 2 * c) - 0.5,
			                        example_random(row0 + r, 2 * c + 1) - 0.5);
}

/* The sum of |a|^2 over all ranks. */
static double
power(const struct transform *f)
{
	double sum = 0;

	for (size_t i = 0; i < f->rows.mine * f->cols.n; i++)
		sum += creal(f->a[i] * conj(f->a[i]));
	CHECK(oriel_allreduce(example.world, &sum, &sum, 1, ORIEL_DOUBLE, ORIEL_SUM));
	return sum;
}

/* The whole transform, by rows; *took_s without what prepares it. */
static double complex *
transform_alone(struct transform *f, double *took_s)
{
	size_t rows = f->rows.n, cols = f->cols.n;
	double complex *a = example_alloc(rows * cols, sizeof(*a)),
	               *column = example_alloc(rows, sizeof(*column));

	fill(a, 0, rows, cols);
	*took_s = now_s();
	for (size_t r = 0; r < rows; r++)
		fft_run(&f->row, a + r * cols, 0);
	for (size_t c = 0; c < cols; c++) {
		for (size_t r = 0; r < rows; r++)
			column[r] = a[r * cols + c];
		fft_run(&f->col, column, 0);
		for (size_t r = 0; r < rows; r++)
			a[r * cols + c] = column[r];
	}
	*took_s = now_s() - *took_s;
	free(column);
	return a;
}

/* Rank 0 gets the whole transform and compares it with its own. */
static bool
check_alone(struct transform *f, double *alone_s)
{
	size_t p = (size_t)example.size, len = f->rows.mine * f->cols.n * sizeof(*f->a);
	size_t *lens = f->table, *displs = f->table + p, whole = f->rows.n * f->cols.n;
	double complex *got = NULL, *want;
	double worst = 0;

	if (example.rank == 0)
		got = example_alloc(whole, sizeof(*got));
	for (size_t r = 0; r < p; r++) {
		displs[r] = f->rows.first[r] * f->cols.n * sizeof(*f->a);
		lens[r] = f->rows.first[r + 1] * f->cols.n * sizeof(*f->a) - displs[r];
	}
	CHECK(oriel_gatherv(example.world, f->a, len, got, lens, displs, 0));
	if (got) {
		want = transform_alone(f, alone_s);
		for (size_t i = 0; i < whole; i++)
			worst = example_worse(worst, cabs(got[i] - want[i]));
		free(want);
	}
	free(got);
	return verdict("one process, bit for bit", worst, 0);
}

static bool
check_inverse(struct transform *f)
{
	size_t n = f->rows.mine * f->cols.n;
	double complex *before = example_alloc(n, sizeof(*before));
	double worst = 0;

	fill(before, f->rows.first[example.rank], f->rows.mine, f->cols.n);
	transform_run(f, 1);
	for (size_t i = 0; i < n; i++)
		worst = example_worse(worst, cabs(f->a[i] - before[i]));
	free(before);
	return verdict("inverse, back to the start", worst, TOLERANCE);
}

/* All checks, also after the first one that fails. */
static bool
check_random(struct transform *f, double *alone_s)
{
	double whole = (double)(f->rows.n * f->cols.n), before, after;
	bool good;

	fill(f->a, f->rows.first[example.rank], f->rows.mine, f->cols.n);
	before = power(f);
	transform_run(f, 0);
	after = power(f) / whole;
	good = verdict("Parseval, power stays the same", fabs(after - before) / before, TOLERANCE);
	good = check_alone(f, alone_s) && good;
	return check_inverse(f) && good;
}

static void
measure(struct transform *f, size_t steps, double alone_s)
{
	double whole = (double)(f->rows.n * f->cols.n), both[2];

	f->comm_s = f->took_s = 0;
	for (size_t s = 0; s < 2 * steps; s++) {
		/* The array stays what it is, and its size: numbers do not overflow. */
		transform_run(f, s % 2);
	}
	both[0] = f->took_s / (2 * (double)steps);
	both[1] = f->comm_s / f->took_s;
	CHECK(oriel_allreduce(example.world, both, both, 2, ORIEL_DOUBLE, ORIEL_AVG));
	if (example.rank)
		return;
	printf("  %.3f ms a transform, %.2f GFLOP/s, transposes %.0f %%; one process %.3f ms\n",
	       1e3 * both[0], 5e-9 * whole * log2(whole) / both[0], 100 * both[1], 1e3 * alone_s);
}

int
main(int argc, char **argv)
{
	size_t rows = 360, cols = 500, steps = 5, prime;
	const struct example_option options[] = {
		{ "--rows N", "rows of the array (360)", .count = &rows, .max = 1 << 20 },
		{ "--cols N", "its columns (500)", .count = &cols, .max = 1 << 20 },
		{ "--steps N", "pairs of a transform and its inverse to time (5)", .count = &steps,
		  .max = 1 << 20 },
	};
	struct transform f = { 0 };
	double alone_s = 0;
	bool good;

	example_options("fft_transpose", "A 2D Fourier transform, by rows and transposes.", argc,
	                argv, options, sizeof(options) / sizeof(options[0]));
	prime = fft_largest_prime(rows * cols);
	if (prime > FFT_MAX_PRIME)
		example_fail("%zu x %zu: the prime factor %zu is above %d", rows, cols, prime,
		             FFT_MAX_PRIME);
	example_begin();
	transform_open(&f, rows, cols);
	if (example.rank == 0)
		printf("fft_transpose: %zu x %zu on %d ranks\n", rows, cols, example.size);
	good = check_wave(&f, rows / 3, cols - 1);
	good = check_random(&f, &alone_s) && good;
	measure(&f, steps, alone_s);
	transform_close(&f);
	return example_end(example_all(good));
}
