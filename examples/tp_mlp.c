/*
 * tp_mlp.c - a transformer's MLP block, Y = GELU(X W1) W2, cut over P ranks the
 * way tensor-parallel training does it.
 *
 * X lies by rows over the ranks, W1 by columns, W2 by rows. A step is:
 *
 *   gather   every rank gets all of X                    oriel_allgather
 *   multiply hidden = GELU(X W1), its own columns
 *   multiply partial = hidden W2: a part of every row's sum, one block of rows
 *            for each rank; a block is put to its rank as soon as it is there
 *                                                        oriel_put_signal
 *   sum      each rank adds the P parts of its rows      oriel_signal_wait_from
 *
 * The last two are a reduce-scatter, overlapped with the second product.
 *
 * A rank's window has one slot of a block for each sender. A sender writes its
 * slot again in the next step; it gets there through that step's allgather,
 * which the slot's owner entered after it had read the slot. So no credit is
 * needed. Steps take X and -X by turns: a slot that still holds the step before
 * would be seen.
 *
 * Run: orielrun -n 4 build/examples/tp_mlp [--help]
 */
#include "examples/common/mlp_files.h"

struct mlp {
	struct mlp_options opt;
	oriel_ctx *ctx;
	oriel_comm *world;
	int me, n_ranks;
	const struct mlp_ops *ops;
	struct matrix file[3];
	size_t tokens, width, hidden;
	size_t block_rows; /* of X and Y on each rank; the last ones may be padding */
	size_t my_rows;    /* without the padding */
	size_t my_hidden;  /* columns of W1, rows of W2 here */
	size_t block;      /* bytes of block_rows x width numbers */
	oriel_win *slots, *answer;
	char *slot;          /* n_ranks blocks, one a sender */
	char *expected[2];   /* rank 0: the whole Y for X and -X; the others: NULL */
	char *x, *x_all, *y; /* pool memory: one block, n_ranks blocks, one block */
	char *w1, *w2, *h, *partial;
	char *want[2]; /* my rows of expected */
	double comm_s, diff, top;
};

static int
no_memory(void)
{
	fprintf(stderr, "tp_mlp: out of memory\n");
	return EXAMPLE_SAID;
}

/* The hidden columns of the ranks before rank. */
static size_t
hidden_before(const struct mlp *m, int rank)
{
	return m->hidden * (size_t)rank / (size_t)m->n_ranks;
}

/* Pool memory, zeroed: padding rows must not hold garbage. */
static int
pool_alloc(struct mlp *m, size_t rows, size_t cols, char **p)
{
	size_t len = rows * cols * m->ops->size;
	void *v;
	int err = oriel_mem_alloc(m->ctx, len, 0, &v);

	if (err)
		return err;
	memset(v, 0, len);
	*p = v;
	return 0;
}

/* Copies my part of X, W1 and W2 out of the files' matrices. */
static void
take_shards(struct mlp *m)
{
	size_t size = m->ops->size, h0 = hidden_before(m, m->me);
	const char *w1 = m->file[1].data, *w2 = m->file[2].data;

	for (size_t r = 0; r < m->width; r++)
		memcpy(m->w1 + r * m->my_hidden * size, w1 + (r * m->hidden + h0) * size,
		       m->my_hidden * size);
	memcpy(m->w2, w2 + h0 * m->width * size, m->my_hidden * m->width * size);
}

/* One rank, no Oriel: what every other number is compared with. */
static int
expect(struct mlp *m, double *alone_s)
{
	size_t n = m->tokens * m->width;
	char *h = malloc(m->tokens * m->hidden * m->ops->size), *x = malloc(n * m->ops->size);
	int ok = h && x;

	*alone_s = 0;
	for (int odd = 0; odd < 2 && ok; odd++) {
		double start;

		m->ops->scale(x, m->file[0].data, odd ? -1 : 1, n);
		start = now_s();
		m->ops->multiply(m->tokens, m->hidden, m->width, x, m->file[1].data, h);
		m->ops->gelu(h, m->tokens * m->hidden);
		m->ops->multiply(m->tokens, m->width, m->hidden, h, m->file[2].data,
		                 m->expected[odd]);
		*alone_s = now_s() - start;
	}
	free(h);
	free(x);
	return ok ? 0 : no_memory();
}

/* Rank 0 computes the answer into a window; each rank gets its rows. */
static int
fetch_answer(struct mlp *m, double *alone_s)
{
	size_t whole = m->tokens * m->width * m->ops->size;
	void *base;
	int err = oriel_win_alloc(m->world, m->me ? 0 : 2 * whole, 0, &base, &m->answer);

	if (err)
		return err;
	if (m->me == 0) {
		m->expected[0] = base;
		m->expected[1] = m->expected[0] + whole;
		err = expect(m, alone_s);
	}
	if (!err)
		err = oriel_barrier(m->world);
	for (size_t odd = 0; odd < 2 && !err; odd++)
		err = oriel_get(m->answer, 0, odd * whole + (size_t)m->me * m->block * !!m->my_rows,
		                m->want[odd], m->my_rows * m->width * m->ops->size);
	return err ? err : oriel_flush(m->answer, 0);
}

/* Everything whose size follows from the files. */
static int
open_mlp(struct mlp *m)
{
	size_t n = (size_t)m->n_ranks, before;
	void *base;
	int err;

	m->ops = &mlp_ops[m->file[0].type];
	m->tokens = m->file[0].rows;
	m->width = m->file[0].cols;
	m->hidden = m->file[1].cols;
	m->block_rows = (m->tokens + n - 1) / n;
	before = m->block_rows * (size_t)m->me;
	if (before < m->tokens)
		m->my_rows =
		        m->tokens - before < m->block_rows ? m->tokens - before : m->block_rows;
	m->my_hidden = hidden_before(m, m->me + 1) - hidden_before(m, m->me);
	m->block = m->block_rows * m->width * m->ops->size;
	err = oriel_win_alloc(m->world, n * m->block, n, &base, &m->slots);
	m->slot = base;
	const struct {
		char **p;
		size_t rows, cols;
	} parts[] = { { &m->x, m->block_rows, m->width },
		      { &m->x_all, n * m->block_rows, m->width },
		      { &m->y, m->block_rows, m->width },
		      { &m->partial, n * m->block_rows, m->width },
		      { &m->h, n * m->block_rows, m->my_hidden },
		      { &m->w1, m->width, m->my_hidden },
		      { &m->w2, m->my_hidden, m->width },
		      { &m->want[0], m->block_rows, m->width },
		      { &m->want[1], m->block_rows, m->width } };
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !err; i++)
		err = pool_alloc(m, parts[i].rows, parts[i].cols, parts[i].p);
	if (!err)
		take_shards(m);
	return err;
}

/* The second product, block by block; each goes to its rank while the next is computed. */
static int
multiply_and_scatter(struct mlp *m, uint64_t step)
{
	size_t rows = m->block_rows;
	int err = 0;

	for (int i = 1; i <= m->n_ranks && !err; i++) {
		int to = (m->me + i) % m->n_ranks;
		char *part = m->partial + (size_t)to * m->block;
		double start;

		m->ops->multiply(rows, m->width, m->my_hidden,
		                 m->h + (size_t)to * rows * m->my_hidden * m->ops->size, m->w2,
		                 part);
		if (to == m->me)
			break;
		start = now_s();
		err = oriel_put_signal(m->slots, to, (size_t)m->me * m->block, part, m->block,
		                       (size_t)m->me, ORIEL_SIGNAL_SET, step);
		m->comm_s += now_s() - start;
	}
	return err;
}

/* y = the sum of all parts of my rows, always in the same order. */
static int
sum_parts(struct mlp *m, uint64_t step)
{
	size_t n = m->block_rows * m->width;

	m->ops->scale(m->y, m->partial + (size_t)m->me * m->block, 1, n);
	for (int i = 1; i < m->n_ranks; i++) {
		int from = (m->me + m->n_ranks - i) % m->n_ranks;
		double start = now_s();
		int err = oriel_signal_wait_from(m->slots, from, (size_t)from, ORIEL_GE, step,
		                                 ORIEL_FOREVER, NULL);

		m->comm_s += now_s() - start;
		if (err)
			return err;
		m->ops->add(m->y, m->slot + (size_t)from * m->block, n);
	}
	/* The next step overwrites the blocks that were put. */
	return oriel_flush_local_all(m->slots);
}

static int
run_step(struct mlp *m, uint64_t step)
{
	double start = now_s();
	int err = oriel_allgather(m->world, m->x, m->x_all, m->block);

	m->comm_s += now_s() - start;
	if (err)
		return err;
	m->ops->multiply((size_t)m->n_ranks * m->block_rows, m->my_hidden, m->width, m->x_all,
	                 m->w1, m->h);
	m->ops->gelu(m->h, (size_t)m->n_ranks * m->block_rows * m->my_hidden);
	err = multiply_and_scatter(m, step);
	return err ? err : sum_parts(m, step);
}

/* Step 1 warms up. *took_s: time of the others, without their preparation and check. */
static int
run_steps(struct mlp *m, double *took_s)
{
	const char *mine = (char *)m->file[0].data + (m->my_rows ? (size_t)m->me * m->block : 0);
	size_t n = m->my_rows * m->width;

	*took_s = 0;
	for (uint64_t step = 1; step <= m->opt.steps + 1; step++) {
		double start;
		int err;

		m->ops->scale(m->x, mine, step % 2 ? 1 : -1, n);
		err = oriel_barrier(m->world);
		if (step == 2)
			m->comm_s = *took_s = 0;
		start = now_s();
		if (!err)
			err = run_step(m, step);
		*took_s += now_s() - start;
		if (err)
			return err;
		m->ops->compare(m->y, m->want[(step + 1) % 2], n, &m->diff, &m->top);
	}
	return 0;
}

/* Rank 0 prints. 1: the result is outside the tolerance; the same on all ranks. */
static int
report(struct mlp *m, double took_s, double alone_s)
{
	double mine[4] = { m->diff, m->top, took_s, m->comm_s };
	double *all = malloc((size_t)m->n_ranks * sizeof(mine)), step_s, error, share = 0;
	double most[4] = { 0 };
	int err = all ? oriel_allgather(m->world, mine, all, sizeof(mine)) : no_memory();
	bool good;

	for (int r = 0; r < m->n_ranks && !err; r++) {
		for (int k = 0; k < 4; k++)
			most[k] = fmax(most[k], all[r * 4 + k]);
		share += all[r * 4 + 3] / all[r * 4 + 2] / m->n_ranks;
	}
	free(all);
	if (err)
		return err;
	step_s = most[2] / (double)m->opt.steps;
	error = most[0] > 0 ? most[0] / most[1] : 0;
	good = error <= m->ops->tolerance;
	if (m->me)
		return !good;
	printf("  %-15s %.3f ms on %d ranks, %.1f GFLOP/s; one process: %.3f ms\n", "step",
	       1e3 * step_s, m->n_ranks,
	       4e-9 * (double)m->tokens * (double)m->width * (double)m->hidden / step_s,
	       1e3 * alone_s);
	printf("  %-15s %.0f %% of a step, waiting for slower ranks included\n", "communication",
	       100 * share);
	printf("  %-15s %.2g, at most %.0g allowed: %s\n", "relative error", error,
	       m->ops->tolerance, good ? "ok" : "FAILED");
	return !good;
}

/* All ranks must have read the same shapes: allgather needs equal sizes. */
static int
check_agreement(struct mlp *m)
{
	uint64_t mine[4] = { m->file[0].type, m->file[0].rows, m->file[0].cols, m->file[1].cols };
	uint64_t *all = malloc((size_t)m->n_ranks * sizeof(mine));
	int err = all ? oriel_allgather(m->world, mine, all, sizeof(mine)) : no_memory();

	for (int r = 0; r < m->n_ranks && !err; r++)
		if (memcmp(all + (size_t)r * 4, mine, sizeof(mine))) {
			fprintf(stderr, "tp_mlp: ranks %d and %d have read different matrices\n",
			        m->me, r);
			err = EXAMPLE_SAID;
			break;
		}
	free(all);
	if (!err && m->file[1].cols < (size_t)m->n_ranks) {
		fprintf(stderr, "tp_mlp: %zu hidden columns are too few for %d ranks\n",
		        m->file[1].cols, m->n_ranks);
		err = EXAMPLE_SAID;
	}
	return err;
}

static int
read_files(struct mlp *m)
{
	int err = 0;

	if (!m->opt.file[0] && m->me == 0 && mlp_write_samples(&m->opt, MLP_DEMO_DIR))
		return EXAMPLE_SAID;
	if (!m->opt.file[0])
		err = oriel_barrier(m->world);
	if (!err && mlp_read(&m->opt, m->file))
		err = EXAMPLE_SAID;
	return err ? err : check_agreement(m);
}

/* 0, 1 if the result is wrong, or an Oriel error. */
static int
run(struct mlp *m)
{
	double took_s, alone_s = 0;
	int bad, err = read_files(m);

	if (err)
		return err;
	if (m->me == 0)
		printf("MLP block, %s: X %zu x %zu, W1 %zu x %zu, W2 %zu x %zu; %zu steps on %d "
		       "ranks\n",
		       mlp_ops[m->file[0].type].name, m->file[0].rows, m->file[0].cols,
		       m->file[1].rows, m->file[1].cols, m->file[2].rows, m->file[2].cols,
		       m->opt.steps, m->n_ranks);
	err = open_mlp(m);
	if (!err)
		err = fetch_answer(m, &alone_s);
	if (!err)
		err = run_steps(m, &took_s);
	if (err)
		return err;
	bad = report(m, took_s, alone_s);
	if (bad < 0)
		return bad;
	err = oriel_win_free(m->answer);
	if (!err)
		err = oriel_win_free(m->slots);
	return err ? err : bad;
}

int
main(int argc, char **argv)
{
	struct mlp m = { .opt = { .tokens = 256, .width = 512, .hidden = 2048, .steps = 20 } };
	int err;

	if (mlp_parse(&m.opt, argc, argv))
		return 2;
	if (m.opt.help)
		return fputs(mlp_usage, stdout) < 0;
	if (m.opt.samples)
		return mlp_write_samples(&m.opt, m.opt.samples) ? 1 : 0;
	/* One thread a rank: the ranks are the parallelism. */
	openblas_set_num_threads(1);
	err = oriel_init(NULL, &m.ctx);
	if (err)
		return give_up(m.ctx, "tp_mlp", err);
	m.world = oriel_world(m.ctx);
	m.me = oriel_comm_rank(m.world);
	m.n_ranks = oriel_comm_size(m.world);
	err = run(&m);
	for (int i = 0; i < 3; i++)
		free(m.file[i].data);
	if (err < 0)
		return give_up(m.ctx, "tp_mlp", err);
	return oriel_fini(m.ctx) ? 1 : err;
}
