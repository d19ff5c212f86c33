/*
 * oriel_perf.c - measures the library from its public header: latency,
 * bandwidth, message rate, collectives; and verifies the data with --check.
 *
 * The tests are the rows of tools/perf/tests.h. For each test and size: check,
 * warm up and find how many operations fill a repeat, then time the repeats.
 */
#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/tune.h"

#define WARM_UP_MAX 24 /* rounds of at most 4 x more operations */
#define ITERS_MAX 2000000

/* Everything that a run collects, and the sizes of its columns. */
struct session {
	struct perf p;
	struct perf_result results[PERF_N_TESTS * PERF_SIZES_MAX];
	size_t n_results;
	size_t sizes[PERF_SIZES_MAX];
	size_t n_sizes;
};

/* len bytes between guards; user memory is touched, so that no page fault is timed. */
static int
alloc_buffer(struct perf *p, size_t len, char **buffer)
{
	size_t all = (len + 2 * PERF_GUARD + 63) / 64 * 64;
	void *v;

	if (p->opt.user_memory) {
		v = aligned_alloc(64, all);
		if (!v) {
			fprintf(stderr, "oriel_perf: no memory for a buffer of %zu bytes\n", all);
			return PERF_SAID;
		}
	} else {
		int err = oriel_mem_alloc(p->ctx, all, 64, &v);

		if (err)
			return err;
	}
	memset(v, 0, all);
	*buffer = (char *)v + PERF_GUARD;
	return 0;
}

static void
free_buffer(struct perf *p, char *buffer)
{
	if (!buffer)
		return;
	if (p->opt.user_memory)
		free(buffer - PERF_GUARD);
	else
		oriel_mem_free(p->ctx, buffer - PERF_GUARD);
}

/* Ranks that only take part in collectives expose the counters alone. */
static int
open_buffers(struct perf *p)
{
	bool gathers = false;
	size_t len = p->origin || p->target ? p->opt.max + PERF_DATA : 64;
	int err = 0;

	for (size_t i = 0; i < PERF_N_TESTS; i++)
		gathers |= perf_tests[i].collective && perf_tests[i].max &&
		           options_selects(&p->opt, &perf_tests[i]);
	p->votes = calloc((size_t)p->n_ranks, sizeof(*p->votes));
	if (!p->votes) {
		fprintf(stderr, "oriel_perf: no memory for %d votes\n", p->n_ranks);
		return PERF_SAID;
	}
	err = alloc_buffer(p, len, &p->base);
	if (!err && (p->origin || p->target || gathers))
		err = alloc_buffer(p, p->opt.max, &p->src);
	if (!err && (p->origin || p->target || gathers))
		err = alloc_buffer(p, p->opt.max, &p->dst);
	return err ? err
	           : oriel_win_create(p->world, p->base, len + PERF_GUARD, PERF_SLOTS, &p->win);
}

static void
list_sizes(struct session *s)
{
	const struct perf_options *o = &s->p.opt;
	static const size_t brief[] = { 8, 4096, 65536, 1048576 };

	for (size_t i = 0; i < 4 && o->brief; i++)
		if (brief[i] >= o->min && brief[i] <= o->max)
			s->sizes[s->n_sizes++] = brief[i];
	if (s->n_sizes)
		return;
	for (size_t n = o->min; n < o->max; n *= 2)
		s->sizes[s->n_sizes++] = n;
	s->sizes[s->n_sizes++] = o->max;
}

/* Seconds of rank 0 for iters operations; all ranks start together. */
static int
time_once(struct perf *p, const struct perf_test *t, size_t bytes, size_t iters, double *seconds)
{
	double start;
	int err = oriel_barrier(p->world);

	if (err)
		return err;
	start = perf_now();
	err = t->run(p, bytes, iters);
	*seconds = perf_now() - start;
	/* The sources are the next run's; what is in flight must not disturb it. */
	return err ? err : oriel_flush_all(p->win);
}

/* Warms up. *iters: how many operations fill a repeat; rank 0 decides for all. */
static int
choose_iters(struct perf *p, const struct perf_test *t, size_t bytes, size_t *iters)
{
	uint64_t n = p->opt.iters ? p->opt.iters : 1;

	for (int round = 0; round < WARM_UP_MAX; round++) {
		double seconds;
		uint64_t next;
		int err = time_once(p, t, bytes, n, &seconds);

		if (err)
			return err;
		next = n;
		if (!p->opt.iters && seconds < p->opt.repeat_s / 2)
			next = seconds < p->opt.repeat_s / 8
			               ? n * 4
			               : (uint64_t)((double)n * p->opt.repeat_s / seconds);
		if (next > ITERS_MAX && !p->opt.iters)
			next = ITERS_MAX;
		err = perf_share(p, &next);
		if (err)
			return err;
		if (next == n)
			break;
		n = next;
	}
	*iters = n;
	return 0;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int
measure(struct session *s, const struct perf_test *t, size_t bytes)
{
	struct perf *p = &s->p;
	struct perf_result *r = &s->results[s->n_results];
	double times[PERF_REPEATS_MAX];
	size_t n = p->opt.repeats;
	int err;

	*r = (struct perf_result){ .test = t, .bytes = bytes };
	err = choose_iters(p, t, bytes, &r->iters);
	for (size_t i = 0; i < n && !err; i++) {
		err = time_once(p, t, bytes, r->iters, &times[i]);
		times[i] /= (double)r->iters * (t->round_trip && p->n_ranks > 1 ? 2 : 1);
	}
	if (err)
		return err;
	qsort(times, n, sizeof(times[0]), compare_doubles);
	r->median_s = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
	r->best_s = times[0];
	s->n_results++;
	if (p->me == 0 && !p->opt.brief)
		report_line(r);
	return 0;
}

/* 0, 1 if the data was wrong, or an Oriel error. */
static int
run_size(struct session *s, const struct perf_test *t, size_t bytes)
{
	struct perf *p = &s->p;
	bool bad = false;

	report_progress(p, t->name, bytes);
	if (p->opt.check && t->check) {
		/* The destination is covered only when the last timed puts have ended. */
		int err = oriel_barrier(p->world);

		if (!err)
			err = t->check(p, t, bytes, &bad);
		if (!err)
			err = perf_any(p, bad, &bad);
		if (err || bad)
			return err ? err : 1;
	}
	report_progress(p, NULL, 0);
	return measure(s, t, bytes);
}

static int
run_test(struct session *s, const struct perf_test *t)
{
	size_t ranks = t->collective ? (size_t)s->p.n_ranks : 1;
	size_t limit = t->max < s->p.opt.max / ranks ? t->max : s->p.opt.max / ranks;
	int err = 0;

	if (s->p.me == 0 && !s->p.opt.brief)
		report_test(&s->p, t);
	if (!t->max)
		return run_size(s, t, 0);
	for (size_t i = 0; i < s->n_sizes && !err; i++)
		if (s->sizes[i] <= limit)
			err = run_size(s, t, s->sizes[i]);
	return err;
}

/* 0, 1 if something was wrong and has been said, or an Oriel error. */
static int
run(struct session *s)
{
	struct perf *p = &s->p;
	int err;

	p->world = oriel_world(p->ctx);
	p->me = oriel_comm_rank(p->world);
	p->n_ranks = oriel_comm_size(p->world);
	p->origin = p->me == 0;
	p->target = p->me == (p->n_ranks > 1);
	p->peer = p->origin && p->n_ranks > 1;
	list_sizes(s);
	err = open_buffers(p);
	for (size_t i = 0; i < PERF_N_TESTS && !err; i++)
		if (options_selects(&p->opt, &perf_tests[i]))
			err = run_test(s, &perf_tests[i]);
	report_progress(p, NULL, 0);
	if (err)
		return err;
	if (p->me == 0 && p->opt.brief)
		report_matrix(s->results, s->n_results, s->sizes, s->n_sizes);
	if (p->me == 0 && p->opt.json && report_json(p, s->results, s->n_results))
		return 1;
	return 0;
}

static int
close_all(struct perf *p)
{
	int err = oriel_win_free(p->win);

	if (err)
		return err;
	free_buffer(p, p->base);
	free_buffer(p, p->src);
	free_buffer(p, p->dst);
	free(p->votes);
	return oriel_fini(p->ctx);
}

int
main(int argc, char **argv)
{
	static struct session s;
	struct perf *p = &s.p;
	int err, bad;

	if (options_parse(&p->opt, argc, argv))
		return 2;
	if (p->opt.help) {
		options_usage();
		return fflush(stdout) ? 1 : 0;
	}
	if (p->opt.tune) {
		bad = tune_run(p);
		err = 0;
	} else {
		err = oriel_init(NULL, &p->ctx);
		bad = err ? 0 : run(&s);
		if (!err && bad >= 0)
			err = close_all(p);
	}
	if (bad < 0)
		err = bad;
	if (!err)
		return bad;
	/* EABORTED only repeats what the rank that aborted has said. */
	if (err != ORIEL_EABORTED && err != PERF_SAID)
		fprintf(stderr, "oriel_perf: rank %d: %s: %s\n", p->me, oriel_strerror(err),
		        oriel_detail());
	if (p->world)
		oriel_comm_abort(p->world);
	return 1;
}
