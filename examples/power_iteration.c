/*
 * power_iteration.c - the largest eigenvalue of a sparse matrix, cut by rows.
 *
 * Every rank has a stretch of the rows of A and of the vector v. A step is
 *
 *   halo      the entries of v that other ranks' rows need     oriel_put_signal
 *   multiply  y = A v: first the columns of the own entries, while the halo is
 *             under way, then those of the halo                oriel_signal_wait_all
 *   dots      v'y and y'y, summed over the ranks               oriel_start
 *   scale     the next v is y over the length of v
 *
 * and the sums of a step are waited for in the next one, after the own columns: v
 * is scaled by a length that is known already, so that nothing waits for a sum.
 *
 * Who needs what is found out once: every rank tells the owners which entries it
 * needs (oriel_alltoallv), and where in its window they belong (oriel_alltoall).
 *
 * A window has two halves, for even and odd steps, and there is no barrier. The
 * half that step k writes was read in step k - 2, before its reader's dots of that
 * step were started; and I am in step k only when the sums of step k - 2, which
 * those dots are part of, are here. With one half that would not be so.
 *
 * Checked: the estimate of every step, with those of one process that does the
 * same alone (with the halo of a wrong step it would still converge), and the
 * result with the known eigenvalue where the matrix is a grid's Laplacian.
 *
 * Run: orielrun -n 4 build/examples/power_iteration [--help]
 */
#include "examples/power_iteration_halo.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define SHIPPED "laplace_10x12.mtx" /* the Laplacian of a grid of so many rows and columns: */
#define SHIPPED_ROWS 10
#define SHIPPED_COLS 12
#define MAX_STEPS ((size_t)100000)
#define TOLERANCE 1e-7      /* of |A v - estimate v|, over |estimate v| */
#define CLOSE_TO_ALONE 1e-9 /* estimates may differ by that much of |A v|: sums are rounded */

struct options {
	const char *matrix, *write;
	size_t grid_rows, grid_cols; /* what the matrix is the Laplacian of; 0: not known */
	size_t steps;                /* 0: until it has converged */
};

struct solver {
	struct options opt;
	size_t n, rows;         /* of the matrix; of this rank */
	struct csr own, remote; /* columns of own entries; of the halo */
	struct halo halo;
	double *v, *y;
	double sums[2]; /* of the ranks' v'y and y'y */
	oriel_req *sum;
	double vv;        /* v'v */
	double *estimate; /* of each step */
	size_t steps;     /* that are done */
	double residual, comm_s;
};

/* Rows of this rank, or all: from the file, or made from the formula. */
static void
load(struct options *o, bool all, struct coordinates *m)
{
	size_t n = o->grid_rows * o->grid_cols, kept = 0, from, to;
	char error[512], path[PATH_MAX];

	if (!o->matrix && n) {
		from = all ? 0 : example_first(n, example.rank);
		to = all ? n : example_first(n, example.rank + 1);
		laplacian_make(m, o->grid_rows, o->grid_cols, from, to - from);
		return;
	}
	if (!o->matrix && text_find_data(SHIPPED, path, sizeof(path)))
		example_fail("no folder above this program has examples/data/" SHIPPED);
	if (matrix_market_read(o->matrix ? o->matrix : path, m, error, sizeof(error)))
		example_fail("%s", error);
	if (m->rows != m->cols)
		example_fail("%zu rows and %zu columns: no square matrix", m->rows, m->cols);
	from = example_first(m->rows, example.rank);
	to = example_first(m->rows, example.rank + 1);
	for (size_t i = 0; i < m->n; i++)
		if (all || (m->entry[i].row >= from && m->entry[i].row < to))
			m->entry[kept++] = m->entry[i];
	m->n = kept;
}

/* What the sums of a step say; they are waited for in the step after it. */
static void
take_sums(struct solver *s, size_t step)
{
	double vy, yy;

	CHECK(oriel_req_wait(&s->sum, ORIEL_FOREVER));
	vy = s->sums[0] / s->vv;
	yy = s->sums[1] / s->vv;
	if (!(yy > 0))
		example_fail("A v is zero in step %zu: the iteration ends nowhere", step);
	s->estimate[step] = vy;
	s->residual = sqrt(fmax(yy - vy * vy, 0) / yy);
	/* The next v is y over the length of this one. */
	s->vv = yy;
}

static double
dot(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* v = y / |v|, without v. */
static void
next_v(double *v, const double *y, double vv, size_t n)
{
	double scale = 1 / sqrt(vv);

	for (size_t i = 0; i < n; i++)
		v[i] = y[i] * scale;
}

static void
iterate(struct solver *s)
{
	size_t most = s->opt.steps ? s->opt.steps : MAX_STEPS;

	for (s->steps = 0; s->steps < most; s->steps++) {
		const double *halo;
		double start = now_s(), own_s;

		halo_put(&s->halo, s->v, s->steps);
		own_s = now_s();
		csr_multiply(&s->own, s->v, s->y, false);
		own_s = now_s() - own_s;
		if (s->steps)
			take_sums(s, s->steps - 1);
		if (s->steps && !s->opt.steps && s->residual <= TOLERANCE)
			return;
		halo = halo_wait(&s->halo, s->steps);
		s->comm_s += now_s() - start - own_s;
		csr_multiply(&s->remote, halo, s->y, true);
		s->sums[0] = dot(s->v, s->y, s->rows);
		s->sums[1] = dot(s->y, s->y, s->rows);
		CHECK(oriel_start(s->sum));
		next_v(s->v, s->y, s->vv, s->rows);
	}
	take_sums(s, most - 1);
}

/* One process, the same iteration: the largest difference of an estimate, over that step's |A v|.
 */
static double
compare_alone(struct solver *s, double *alone_s)
{
	double *v = example_alloc(s->n, sizeof(*v)), *y = example_alloc(s->n, sizeof(*y)), vv;
	double worst = 0;
	struct coordinates m;
	struct csr a;

	load(&s->opt, true, &m);
	csr_make(&a, &m, 0, s->n, 0, s->n);
	for (size_t i = 0; i < s->n; i++)
		v[i] = 0.5 + example_random(i, 0);
	*alone_s = now_s();
	vv = dot(v, v, s->n);
	for (size_t step = 0; step < s->steps; step++) {
		double vy, yy;

		csr_multiply(&a, v, y, false);
		vy = dot(v, y, s->n) / vv;
		yy = dot(y, y, s->n) / vv;
		next_v(v, y, vv, s->n);
		vv = yy;
		worst = example_worse(worst, fabs(vy - s->estimate[step]) / sqrt(yy));
	}
	*alone_s = now_s() - *alone_s;
	csr_free(&a);
	free(m.entry);
	free(v);
	free(y);
	return worst;
}

/* What the formula says, or NAN. */
static double
known_eigenvalue(const struct options *o)
{
	if (o->matrix)
		return NAN;
	return o->grid_rows ? laplacian_largest(o->grid_rows, o->grid_cols)
	                    : laplacian_largest(SHIPPED_ROWS, SHIPPED_COLS);
}

/* Rank 0 prints and says whether all is well. */
static bool
report(struct solver *s, double took_s, double share)
{
	double known = known_eigenvalue(&s->opt), found = s->estimate[s->steps - 1], alone_s,
	       per_step = 1e6 / (double)s->steps, differ = compare_alone(s, &alone_s);
	bool converged = s->residual <= TOLERANCE, equal = differ <= CLOSE_TO_ALONE, near = true;

	printf("power_iteration: %zu rows on %d ranks: eigenvalue %.12g after %zu steps, residual "
	       "%.1e\n",
	       s->n, example.size, found, s->steps, s->residual);
	printf("  a step    %.1f us, of that communication %.0f %%; alone %.1f us\n",
	       per_step * took_s, 100 * share, per_step * alone_s);
	printf("  alone     estimates differ by %.1e, at most %.0e allowed: %s\n", differ,
	       CLOSE_TO_ALONE, equal ? "ok" : "FAILED");
	if (converged && !isnan(known)) {
		/* A symmetric matrix has an eigenvalue within the residual. */
		near = fabs(found - known) <= 2 * TOLERANCE * known;
		printf("  known     %.12g, difference %.1e: %s\n", known, fabs(found - known),
		       near ? "ok" : "FAILED");
	} else if (!converged && !s->opt.steps) {
		printf("  FAILED: not converged\n");
	}
	return equal && near && (converged || s->opt.steps);
}

static void
open_solver(struct solver *s)
{
	struct coordinates m;

	load(&s->opt, false, &m);
	s->n = m.rows;
	halo_open(&s->halo, &m);
	s->rows = s->halo.rows;
	csr_make(&s->own, &m, s->halo.row0, s->rows, 0, s->rows);
	csr_make(&s->remote, &m, s->halo.row0, s->rows, s->rows, s->halo.n_in);
	free(m.entry);
	s->estimate = example_alloc(s->opt.steps ? s->opt.steps : MAX_STEPS, sizeof(double));
	s->v = example_alloc(s->rows, sizeof(*s->v));
	s->y = example_alloc(s->rows, sizeof(*s->y));
	for (size_t i = 0; i < s->rows; i++)
		s->v[i] = 0.5 + example_random(s->halo.row0 + i, 0);
	s->vv = dot(s->v, s->v, s->rows);
	CHECK(oriel_allreduce(example.world, &s->vv, &s->vv, 1, ORIEL_DOUBLE, ORIEL_SUM));
	CHECK(oriel_allreduce_init(example.world, s->sums, s->sums, 2, ORIEL_DOUBLE, ORIEL_SUM,
	                           &s->sum));
}

static void
close_solver(struct solver *s)
{
	CHECK(oriel_req_free(&s->sum));
	halo_close(&s->halo);
	csr_free(&s->own);
	csr_free(&s->remote);
	free(s->estimate);
	free(s->v);
	free(s->y);
}

static int
write_matrix(const struct options *o)
{
	char comment[128];
	struct coordinates m;

	snprintf(comment, sizeof(comment),
	         "5-point Laplacian of a %zu x %zu grid, largest "
	         "eigenvalue %.15g",
	         o->grid_rows, o->grid_cols, laplacian_largest(o->grid_rows, o->grid_cols));
	laplacian_make(&m, o->grid_rows, o->grid_cols, 0, o->grid_rows * o->grid_cols);
	if (matrix_market_write(o->write, &m, comment))
		example_fail("%s: %s", o->write, strerror(errno));
	free(m.entry);
	return 0;
}

int
main(int argc, char **argv)
{
	struct solver s = { 0 };
	struct options *o = &s.opt;
	const struct example_option options[] = {
		{ "--matrix FILE", "Matrix Market; without it: " SHIPPED, .text = &o->matrix },
		{ "--rows N", "instead of a file: the Laplacian of a grid of so many rows",
		  .count = &o->grid_rows, .max = 1 << 20 },
		{ "--cols N", "and so many columns", .count = &o->grid_cols, .max = 1 << 20 },
		{ "--steps N", "exactly so many steps, converged or not", .count = &o->steps,
		  .max = MAX_STEPS },
		{ "--write FILE", "write the grid's Laplacian there, and end", .text = &o->write },
	};
	double took_s, share;
	bool good = true;

	example_options("power_iteration", "The largest eigenvalue of a sparse matrix.", argc, argv,
	                options, sizeof(options) / sizeof(options[0]));
	if (!o->grid_rows != !o->grid_cols || (o->write && !o->grid_rows) ||
	    (o->matrix && o->grid_rows))
		example_fail("--rows goes with --cols, --write with both, --matrix with neither");
	if (o->write)
		return write_matrix(o);
	example_begin();
	open_solver(&s);
	took_s = now_s();
	iterate(&s);
	took_s = now_s() - took_s;
	share = s.comm_s / took_s;
	CHECK(oriel_allreduce(example.world, &share, &share, 1, ORIEL_DOUBLE, ORIEL_AVG));
	if (example.rank == 0)
		good = report(&s, took_s, share);
	good = example_all(good);
	close_solver(&s);
	return example_end(good);
}
