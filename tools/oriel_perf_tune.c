/*
 * oriel_perf_tune.c - oriel_perf --tune: which algorithm is the fastest for each
 * collective and size on this job.
 *
 * A way to run a collective (algorithm, argument, chunk) is forced by
 * ORIEL_ALGORITHM in a context of its own, one after the other, so that each
 * begins alike. Calls are timed one by one between barriers: without them a
 * root would run ahead and its rate, not the call's duration, would be seen.
 */
#include "tools/perf/tune.h"

#include <errno.h>
#include <unistd.h>

#define CALLS_MIN 4
#define CALLS_MAX 2000

static int
run_barrier(struct tune *t, size_t bytes)
{
	(void)bytes;
	return oriel_barrier(t->world);
}

static int
run_allgather(struct tune *t, size_t bytes)
{
	return oriel_allgather(t->world, t->in, t->out, bytes);
}

static int
run_alltoall(struct tune *t, size_t bytes)
{
	return oriel_alltoall(t->world, t->in, t->out, bytes);
}

static int
run_bcast(struct tune *t, size_t bytes)
{
	return oriel_bcast(t->world, t->out, bytes, 0);
}

static int
run_gather(struct tune *t, size_t bytes)
{
	return oriel_gather(t->world, t->in, t->out, bytes, 0);
}

static int
run_scatter(struct tune *t, size_t bytes)
{
	return oriel_scatter(t->world, t->in, t->out, bytes, 0);
}

static int
run_reduce(struct tune *t, size_t bytes)
{
	return oriel_reduce(t->world, t->in, t->out, bytes / sizeof(float), ORIEL_FLOAT, ORIEL_SUM,
	                    0);
}

static int
run_allreduce(struct tune *t, size_t bytes)
{
	return oriel_allreduce(t->world, t->in, t->out, bytes / sizeof(float), ORIEL_FLOAT,
	                       ORIEL_SUM);
}

static int
run_reduce_scatter(struct tune *t, size_t bytes)
{
	return oriel_reduce_scatter(t->world, t->in, t->out, bytes / sizeof(float), ORIEL_FLOAT,
	                            ORIEL_SUM);
}

static int
run_scan(struct tune *t, size_t bytes)
{
	return oriel_scan(t->world, t->in, t->out, bytes / sizeof(float), ORIEL_FLOAT, ORIEL_SUM);
}

static int
run_exscan(struct tune *t, size_t bytes)
{
	return oriel_exscan(t->world, t->in, t->out, bytes / sizeof(float), ORIEL_FLOAT, ORIEL_SUM);
}

#define BLOCK "bytes of one rank's block"
#define VECTOR "bytes of the vector"

static const struct tune_op tune_ops[] = {
	{ "barrier", NULL, 0, false, false, run_barrier },
	{ "allgather", BLOCK, 1, true, false, run_allgather },
	{ "alltoall", BLOCK, 1, true, false, run_alltoall },
	{ "bcast", VECTOR, 1, false, true, run_bcast },
	{ "gather", BLOCK, 1, true, false, run_gather },
	{ "scatter", BLOCK, 1, true, false, run_scatter },
	{ "reduce", VECTOR, sizeof(float), false, true, run_reduce },
	{ "allreduce", VECTOR, sizeof(float), false, true, run_allreduce },
	{ "reduce_scatter", BLOCK, sizeof(float), true, true, run_reduce_scatter },
	{ "scan", VECTOR, sizeof(float), false, true, run_scan },
	{ "exscan", VECTOR, sizeof(float), false, true, run_exscan },
};
#define N_OPS (sizeof(tune_ops) / sizeof(tune_ops[0]))

static const size_t chunk_ladder[] = { 64 << 10, 256 << 10, 1 << 20 };
#define N_CHUNKS (sizeof(chunk_ladder) / sizeof(chunk_ladder[0]))

/* False after a line on stderr: the list names something else, too. */
static bool
names_collectives(const char *list)
{
	for (const char *at = list; at;) {
		size_t n = strcspn(at, ","), i = 0;

		while (i < N_OPS && (strncmp(at, tune_ops[i].name, n) || tune_ops[i].name[n]))
			i++;
		if (i == N_OPS) {
			fprintf(stderr,
			        "oriel_perf: --tune --test: no collective is named \"%.*s\"\n",
			        (int)n, at);
			return false;
		}
		at = at[n] ? at + n + 1 : NULL;
	}
	return true;
}

/* ---- What is measured ---- */

static void
add_way(struct tune *t, const struct oriel_algorithm *a, int arg, size_t chunk)
{
	struct tune_way *w = &t->way[t->n_ways];

	if (t->n_ways == TUNE_WAYS_MAX) {
		fprintf(stderr, "oriel_perf: more than %d ways: %s:%d is left out\n", TUNE_WAYS_MAX,
		        a->name, arg);
		return;
	}
	*w = (struct tune_way){ .chunk = chunk };
	if (arg)
		snprintf(w->name, sizeof(w->name), "%.20s:%d", a->name, arg);
	else
		snprintf(w->name, sizeof(w->name), "%.31s", a->name);
	t->n_ways++;
}

struct listing {
	struct tune *t;
	const struct tune_op *op;
};

/* Arguments: the least, 4, the most. */
static void
add_ways(void *arg, const struct oriel_algorithm *a)
{
	struct listing *l = arg;
	const int args[] = { a->min_arg, 4, a->max_arg };

	if (a->unfit)
		return;
	for (int i = 0; i < 3; i++) {
		if (args[i] < a->min_arg || args[i] > a->max_arg)
			continue;
		if (i && (!a->max_arg || args[i] == args[i - 1]))
			continue;
		if (i == 2 && args[2] == args[0])
			continue;
		add_way(l->t, a, args[i], 0);
		for (size_t c = 0; l->op->chunks && c < N_CHUNKS; c++)
			add_way(l->t, a, args[i], chunk_ladder[c]);
	}
}

static void
list_sizes(struct tune *t, const struct tune_op *op)
{
	size_t limit = t->opt->max / (op->blocks ? (size_t)t->n_ranks : 1);
	size_t step = t->opt->brief ? 8 : 2;

	t->n_sizes = 0;
	if (!op->what)
		t->sizes[t->n_sizes++] = 0;
	for (size_t n = t->opt->min; op->what && n <= limit && t->n_sizes < PERF_SIZES_MAX;
	     n *= step)
		if (n >= op->least)
			t->sizes[t->n_sizes++] = n;
}

/* ---- One context ---- */

static int
open_context(struct tune *t, const struct tune_op *op, const struct tune_way *w)
{
	char forced[100];
	const char *const knobs[] = { "ORIEL_TUNING=", forced, NULL };
	const struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };
	size_t n = snprintf(forced, sizeof(forced), "ORIEL_ALGORITHM=");
	void *v = NULL;
	int err;

	if (w)
		n += snprintf(forced + n, sizeof(forced) - n, "%s=%s", op->name, w->name);
	if (w && w->chunk)
		snprintf(forced + n, sizeof(forced) - n, "@%zu", w->chunk);
	t->world = NULL;
	err = oriel_init(&opts, &t->ctx);
	if (err)
		return err;
	t->world = oriel_world(t->ctx);
	t->me = oriel_comm_rank(t->world);
	t->n_ranks = oriel_comm_size(t->world);
	err = oriel_mem_alloc(t->ctx, t->opt->max, 0, &v);
	t->in = v;
	if (!err)
		err = oriel_mem_alloc(t->ctx, t->opt->max, 0, &v);
	t->out = v;
	if (err)
		return err;
	memset(t->in, 0, t->opt->max);
	memset(t->out, 0, t->opt->max);
	return 0;
}

/* The buffers go with it. */
static int
close_context(struct tune *t)
{
	t->world = NULL;
	return oriel_fini(t->ctx);
}

/* *value becomes the largest of all ranks. */
static int
largest(struct tune *t, double *value)
{
	int err = oriel_allgather(t->world, value, t->votes, sizeof(*value));

	for (int r = 0; r < t->n_ranks && !err; r++)
		if (t->votes[r] > *value)
			*value = t->votes[r];
	return err;
}

/* ---- One number ---- */

/* Seconds of one of n calls, of the slowest rank. */
static int
time_calls(struct tune *t, const struct tune_op *op, size_t bytes, size_t n, double *seconds)
{
	double sum = 0;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		double start;

		err = oriel_barrier(t->world);
		start = perf_now();
		if (!err)
			err = op->run(t, bytes);
		sum += perf_now() - start;
	}
	*seconds = sum / (double)n;
	return err ? err : largest(t, seconds);
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The first calls make plans and meet peers; the next ones tell how many fill a repeat. */
static int
measure(struct tune *t, const struct tune_op *op, size_t bytes, double *us)
{
	double seconds[PERF_REPEATS_MAX], one, calls;
	size_t repeats = t->opt->repeats;
	int err = time_calls(t, op, bytes, CALLS_MIN, &one);

	if (!err)
		err = time_calls(t, op, bytes, CALLS_MIN, &one);
	/* All ranks have the same value of one, and so of calls. */
	calls = t->opt->iters ? (double)t->opt->iters : t->opt->repeat_s / (one + 1e-9);
	calls = calls < CALLS_MIN ? CALLS_MIN : calls > CALLS_MAX ? CALLS_MAX : calls;
	for (size_t i = 0; i < repeats && !err; i++)
		err = time_calls(t, op, bytes, (size_t)calls, &seconds[i]);
	if (err)
		return err;
	qsort(seconds, repeats, sizeof(seconds[0]), compare_doubles);
	*us = 1e6 * seconds[repeats / 2];
	return 0;
}

static void
progress(const struct tune *t, const struct tune_op *op, size_t way, size_t size)
{
	if (t->me != 0 || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K");
	if (op)
		fprintf(stderr, "%s: %s%s, %zu bytes (%zu of %zu) ...", op->name, t->way[way].name,
		        t->way[way].chunk ? " in chunks" : "", t->sizes[size],
		        way * t->n_sizes + size + 1, t->n_ways * t->n_sizes);
	fflush(stderr);
}

/* What cannot run so after all, on any rank, is left out. */
static int
measure_way(struct tune *t, const struct tune_op *op, size_t way)
{
	struct tune_way *w = &t->way[way];
	int err = open_context(t, op, w);

	for (size_t i = 0; i < t->n_sizes && !err; i++) {
		if (w->chunk && t->sizes[i] <= w->chunk)
			continue; /* it would not be cut */
		progress(t, op, way, i);
		err = measure(t, op, t->sizes[i], &w->us[i]);
		if (err != ORIEL_EINVAL)
			continue;
		err = 0;
		if (t->me == 0)
			fprintf(stderr, "oriel_perf: %s %s of %zu bytes is left out: %s\n",
			        op->name, w->name, t->sizes[i], oriel_detail());
	}
	return err ? err : close_context(t);
}

/* A context that forces nothing tells what there is. */
static int
list_ways(struct tune *t, const struct tune_op *op)
{
	struct listing l = { t, op };
	int err = open_context(t, NULL, NULL);

	t->n_ways = 0;
	if (!err)
		err = oriel_algorithms(t->world, op->name, &t->node, add_ways, &l);
	list_sizes(t, op);
	return err ? err : close_context(t);
}

static int
tune_one(struct tune *t, const struct tune_op *op)
{
	int err = list_ways(t, op);

	for (size_t i = 0; i < t->n_ways && !err; i++)
		err = measure_way(t, op, i);
	progress(t, NULL, 0, 0);
	if (!err && t->me == 0 && t->n_sizes && t->n_ways)
		tune_write(t, op);
	return err;
}

/* ---- The file ---- */

static void
ignore(void *arg, const struct oriel_algorithm *a)
{
	(void)arg, (void)a;
}

/* A first context says who writes. It must be possible before minutes are spent. */
static int
begin(struct tune *t)
{
	int err = open_context(t, NULL, NULL);
	double cannot = 0;

	t->votes = calloc((size_t)t->n_ranks + 1, sizeof(*t->votes));
	if (!err && !t->votes)
		err = ORIEL_ENOMEM;
	if (!err)
		err = oriel_algorithms(t->world, tune_ops[0].name, &t->node, ignore, NULL);
	if (err)
		return err;
	if (t->me == 0) {
		t->file = fopen(t->opt->tune, "w");
		cannot = !t->file;
	}
	if (t->me == 0 && !t->file)
		fprintf(stderr, "oriel_perf: cannot write %s: %s\n", t->opt->tune, strerror(errno));
	err = largest(t, &cannot);
	if (err)
		return err;
	if (t->me == 0 && t->file)
		tune_write_head(t);
	err = close_context(t);
	return !err && cannot > 0 ? 1 : err;
}

static int
end(struct tune *t)
{
	int bad = 0;

	if (t->file) {
		bad = ferror(t->file);
		bad = fclose(t->file) || bad;
	}
	if (bad)
		fprintf(stderr, "oriel_perf: cannot write %s: %s\n", t->opt->tune, strerror(errno));
	else if (t->file)
		printf("%s: %zu rules; ORIEL_TUNING=%s uses them\n", t->opt->tune, t->n_rules,
		       t->opt->tune);
	free(t->votes);
	return bad != 0;
}

int
tune_run(struct perf *p)
{
	static struct tune t;
	int err;

	t.opt = &p->opt;
	if (!names_collectives(t.opt->tests))
		return 2;
	err = begin(&t);
	for (size_t i = 0; i < N_OPS && !err; i++)
		if (!t.opt->tests || perf_listed(t.opt->tests, tune_ops[i].name))
			err = tune_one(&t, &tune_ops[i]);
	p->me = t.me;
	p->world = t.world;
	return err ? err : end(&t);
}
