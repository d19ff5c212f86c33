/*
 * halo.c - heat flow on a plate, cut into blocks, one a rank.
 *
 * The ranks form a grid. Each holds two copies of its block with a border of
 * ghost cells around it, both in one window: step s reads copy s % 2 and writes
 * copy (s + 1) % 2, then puts its new edge cells straight into the ghost cells
 * of its neighbours' copy (s + 1) % 2: rows with put_signal, columns with
 * put_strided and a signal. Signals only grow, so nothing is ever reset.
 *
 * Why there is no barrier in the loop: a neighbour puts into my copy (s + 1) % 2
 * after its step s, and it begins step s only when it has my edges of step s - 1,
 * which I send after I have stopped reading that copy.
 *
 * At the end rank 0 gets all blocks and compares them, bit for bit, with the
 * same steps done alone.
 *
 * Run: orielrun -n 4 build/examples/halo [--rows N] [--cols N] [--steps N]
 */
#include "examples/common/example.h"

#include <string.h>

enum side { UP, DOWN, LEFT, RIGHT, N_SIDES };

struct options {
	size_t rows, cols, steps;
};

/* The part of the plate that one rank holds; the same on every rank for the same number. */
struct block {
	int rank;
	size_t row0, col0, rows, cols;
	size_t stride; /* cells from one row to the next, ghosts included */
	size_t cells;  /* of one copy, ghosts included */
};

struct plate {
	struct options opt;
	int grid_rows, grid_cols;
	oriel_ctx *ctx;
	oriel_comm *world;
	oriel_win *win;
	int me, n_ranks;
	struct block mine;
	struct block near[N_SIDES]; /* rank -1: the plate ends here */
	double *copy[2];
	double waited_s; /* time in waits and puts */
};

/* The most square grid of n ranks. */
static void
choose_grid(struct plate *p)
{
	p->grid_rows = 1;
	for (int r = 1; r * r <= p->n_ranks; r++)
		if (p->n_ranks % r == 0)
			p->grid_rows = r;
	p->grid_cols = p->n_ranks / p->grid_rows;
}

static struct block
block_at(const struct plate *p, int grid_row, int grid_col)
{
	struct block b = { .rank = -1 };
	size_t gr = (size_t)p->grid_rows, gc = (size_t)p->grid_cols;

	if (grid_row < 0 || grid_col < 0 || grid_row >= p->grid_rows || grid_col >= p->grid_cols)
		return b;
	b.rank = grid_row * p->grid_cols + grid_col;
	b.row0 = p->opt.rows * (size_t)grid_row / gr;
	b.col0 = p->opt.cols * (size_t)grid_col / gc;
	b.rows = p->opt.rows * (size_t)(grid_row + 1) / gr - b.row0;
	b.cols = p->opt.cols * (size_t)(grid_col + 1) / gc - b.col0;
	b.stride = b.cols + 2;
	b.cells = (b.rows + 2) * b.stride;
	return b;
}

static struct block
block_of(const struct plate *p, int rank)
{
	return block_at(p, rank / p->grid_cols, rank % p->grid_cols);
}

/* Bytes from a rank's window's start to a cell of its copy; row and col count the ghosts. */
static size_t
cell_disp(const struct block *b, size_t copy, size_t row, size_t col)
{
	return (copy * b->cells + row * b->stride + col) * sizeof(double);
}

/* The temperature at the start, and for ever on the plate's border. */
static double
start_value(size_t row, size_t col)
{
	uint64_t h = (row * 0x9e3779b97f4a7c15u) ^ (col * 0xc2b2ae3d27d4eb4fu);

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return (double)(h >> 11) * 0x1p-53 * 100.0;
}

static void
fill(double *cells, const struct block *b)
{
	for (size_t r = 0; r < b->rows + 2; r++)
		for (size_t c = 0; c < b->cols + 2; c++)
			cells[r * b->stride + c] = start_value(b->row0 + r, b->col0 + c);
}

/* Not inlined, so that the check runs the very same instructions as the ranks. */
static __attribute__((noinline)) void
step_block(double *restrict to, const double *restrict from, size_t rows, size_t cols,
           size_t stride)
{
	for (size_t r = 1; r <= rows; r++) {
		const double *up = from + (r - 1) * stride, *at = up + stride, *down = at + stride;

		for (size_t c = 1; c <= cols; c++)
			to[r * stride + c] = at[c] + 0.1 * ((up[c] + down[c]) +
			                                    (at[c - 1] + at[c + 1]) - 4.0 * at[c]);
	}
}

/* Sends one edge of the copy into the ghost cells of the neighbour on that side. */
static int
send_edge(struct plate *p, enum side side, size_t copy, uint64_t step)
{
	const struct block *m = &p->mine, *to = &p->near[side];
	const double *cells = p->copy[copy];
	/* It comes from the opposite side there, and so does its signal. */
	static const size_t slot[] = { [UP] = DOWN, [DOWN] = UP, [LEFT] = RIGHT, [RIGHT] = LEFT };
	size_t from = 0, disp = 0;
	int err;

	if (to->rank < 0)
		return 0;
	switch (side) {
	case UP:
		from = m->stride + 1;
		disp = cell_disp(to, copy, to->rows + 1, 1);
		break;
	case DOWN:
		from = m->rows * m->stride + 1;
		disp = cell_disp(to, copy, 0, 1);
		break;
	case LEFT:
		from = m->stride + 1;
		disp = cell_disp(to, copy, 1, to->cols + 1);
		break;
	default:
		from = m->stride + m->cols;
		disp = cell_disp(to, copy, 1, 0);
		break;
	}
	if (side == UP || side == DOWN)
		return oriel_put_signal(p->win, to->rank, disp, cells + from,
		                        m->cols * sizeof(double), slot[side], ORIEL_SIGNAL_SET,
		                        step);
	err = oriel_put_strided(p->win, to->rank, disp, to->stride * sizeof(double), cells + from,
	                        m->stride * sizeof(double), sizeof(double), m->rows);
	return err ? err : oriel_signal(p->win, to->rank, slot[side], ORIEL_SIGNAL_SET, step);
}

static int
exchange(struct plate *p, size_t copy, uint64_t step)
{
	struct oriel_cond here[N_SIDES];
	size_t n = 0;
	int err = 0;

	for (int side = 0; side < N_SIDES && !err; side++)
		err = send_edge(p, (enum side)side, copy, step);
	for (int side = 0; side < N_SIDES; side++)
		if (p->near[side].rank >= 0)
			here[n++] = (struct oriel_cond){ (size_t)side, ORIEL_GE, step };
	if (!err && n)
		err = oriel_signal_wait_all(p->win, n, here, ORIEL_FOREVER);
	/* The next step but one overwrites the edges that were just sent. */
	return err ? err : oriel_flush_local_all(p->win);
}

static int
run_steps(struct plate *p)
{
	for (uint64_t s = 0; s < p->opt.steps; s++) {
		size_t from = s % 2, to = (s + 1) % 2;
		double t;
		int err;

		step_block(p->copy[to], p->copy[from], p->mine.rows, p->mine.cols, p->mine.stride);
		t = now_s();
		err = exchange(p, to, s + 1);
		p->waited_s += now_s() - t;
		if (err)
			return err;
	}
	return 0;
}

/* Brings every rank's block into rank 0's picture of the whole plate. */
static int
collect(struct plate *p, const struct block *whole, double *cells)
{
	int err = 0;

	for (int r = 0; r < p->n_ranks && !err; r++) {
		struct block b = block_of(p, r);
		double *at = cells + (b.row0 + 1) * whole->stride + b.col0 + 1;

		err = oriel_get_strided(
		        p->win, r, cell_disp(&b, p->opt.steps % 2, 1, 1), b.stride * sizeof(double),
		        at, whole->stride * sizeof(double), b.cols * sizeof(double), b.rows);
	}
	return err ? err : oriel_flush_all(p->win);
}

/* *wrong: cells of the plate that differ from the steps done alone; alone_s: the time they took. */
static int
compare_alone(struct plate *p, size_t *wrong, double *alone_s)
{
	struct block whole = { .rows = p->opt.rows,
		               .cols = p->opt.cols,
		               .stride = p->opt.cols + 2,
		               .cells = (p->opt.rows + 2) * (p->opt.cols + 2) };
	double *cells = calloc(3 * whole.cells, sizeof(double));
	double *alone[2];
	int err;

	if (!cells) {
		fprintf(stderr, "halo: no memory for the comparison's %zu cells\n",
		        3 * whole.cells);
		return EXAMPLE_SAID;
	}
	alone[0] = cells + whole.cells;
	alone[1] = alone[0] + whole.cells;
	err = collect(p, &whole, cells);
	fill(alone[0], &whole);
	fill(alone[1], &whole);
	*alone_s = now_s();
	for (size_t s = 0; s < p->opt.steps; s++)
		step_block(alone[(s + 1) % 2], alone[s % 2], whole.rows, whole.cols, whole.stride);
	*alone_s = now_s() - *alone_s;
	*wrong = 0;
	for (size_t r = 1; r <= whole.rows; r++) {
		for (size_t c = 1; c <= whole.cols; c++) {
			size_t i = r * whole.stride + c;

			*wrong +=
			        memcmp(&cells[i], &alone[p->opt.steps % 2][i], sizeof(double)) != 0;
		}
	}
	free(cells);
	return err;
}

static int
open_plate(struct plate *p)
{
	void *base;
	int err, row, col;

	p->mine = block_of(p, p->me);
	row = p->me / p->grid_cols;
	col = p->me % p->grid_cols;
	p->near[UP] = block_at(p, row - 1, col);
	p->near[DOWN] = block_at(p, row + 1, col);
	p->near[LEFT] = block_at(p, row, col - 1);
	p->near[RIGHT] = block_at(p, row, col + 1);
	err = oriel_win_alloc(p->world, 2 * p->mine.cells * sizeof(double), N_SIDES, &base,
	                      &p->win);
	if (err)
		return err;
	p->copy[0] = base;
	p->copy[1] = p->copy[0] + p->mine.cells;
	fill(p->copy[0], &p->mine);
	fill(p->copy[1], &p->mine);
	/* Nobody may put an edge into a block that its owner has yet to fill. */
	return oriel_barrier(p->world);
}

static int
report(struct plate *p, double took_s)
{
	double cells = (double)p->opt.rows * (double)p->opt.cols * (double)p->opt.steps;
	double alone_s;
	size_t wrong;
	int err = compare_alone(p, &wrong, &alone_s);

	if (err)
		return err;
	printf("halo: %zu x %zu cells, %zu steps on %d ranks (%d x %d): %.1f us a step, "
	       "%.0f Mcell/s, exchange %.0f %%; alone %.1f us a step\n",
	       p->opt.rows, p->opt.cols, p->opt.steps, p->n_ranks, p->grid_rows, p->grid_cols,
	       1e6 * took_s / (double)p->opt.steps, 1e-6 * cells / took_s,
	       100.0 * p->waited_s / took_s, 1e6 * alone_s / (double)p->opt.steps);
	if (wrong)
		printf("halo: FAILED: %zu cells differ from the one-process result\n", wrong);
	else
		printf("halo: equal to the one-process result, bit for bit\n");
	return wrong ? 1 : 0;
}

/* 0, a negative Oriel error, or 1: ran, but the result is wrong. */
static int
run(struct plate *p)
{
	double start;
	int bad = 0;
	int err = open_plate(p);

	if (err)
		return err;
	start = now_s();
	err = run_steps(p);
	/* Rank 0 may read a block only when its owner is done. */
	if (!err)
		err = oriel_barrier(p->world);
	if (!err && p->me == 0) {
		bad = report(p, now_s() - start);
		err = bad < 0 ? bad : 0;
	}
	if (!err)
		err = oriel_win_free(p->win);
	return err ? err : bad;
}

static int
parse(struct options *opt, int argc, char **argv)
{
	const struct {
		const char *name;
		size_t *value;
	} table[] = { { "--rows", &opt->rows },
		      { "--cols", &opt->cols },
		      { "--steps", &opt->steps } };

	for (int i = 1; i < argc; i += 2) {
		size_t k = 0;

		while (k < 3 && strcmp(argv[i], table[k].name))
			k++;
		if (k == 3) {
			fprintf(stderr,
			        "halo: unknown option %s\nusage: halo [--rows N] [--cols N] "
			        "[--steps N]\n",
			        argv[i]);
			return -1;
		}
		if (i + 1 == argc || parse_count(argv[i + 1], 1, 1000000, table[k].value)) {
			fprintf(stderr, "halo: %s wants a number from 1 to 1000000\n", argv[i]);
			return -1;
		}
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct plate p = { .opt = { .rows = 512, .cols = 512, .steps = 500 } };
	int err;

	if (parse(&p.opt, argc, argv))
		return 2;
	err = oriel_init(NULL, &p.ctx);
	if (err)
		return give_up(p.ctx, "halo", err);
	p.world = oriel_world(p.ctx);
	p.me = oriel_comm_rank(p.world);
	p.n_ranks = oriel_comm_size(p.world);
	choose_grid(&p);
	if ((size_t)p.grid_rows > p.opt.rows || (size_t)p.grid_cols > p.opt.cols) {
		if (p.me == 0)
			fprintf(stderr, "halo: %zu x %zu cells are too few for %d x %d ranks\n",
			        p.opt.rows, p.opt.cols, p.grid_rows, p.grid_cols);
		oriel_fini(p.ctx);
		return 2;
	}
	err = run(&p);
	if (err < 0)
		return give_up(p.ctx, "halo", err);
	return oriel_fini(p.ctx) ? 1 : err;
}
