/*
 * oriel_perf_tune_write.c - what oriel_perf --tune writes: for each collective
 * the times as comments, and a rule for each range of sizes with one winner.
 */
#include "tools/perf/report.h"
#include "tools/perf/tune.h"

/* A winner stays one while it is not slower than the best by more than this: times scatter. */
#define TUNE_SLACK 1.05

static void
write_conditions(const struct tune *t)
{
	fprintf(t->file, " ranks=%d", t->n_ranks);
	if (t->n_ranks == 1 || t->node == t->n_ranks)
		fprintf(t->file, " nodes=1");
	else if (t->node)
		fprintf(t->file, " nodes=%d", t->n_ranks / t->node);
	else
		fprintf(t->file, " nodes=2-");
}

void
tune_write_head(struct tune *t)
{
	fprintf(t->file, "oriel-tuning 1\n# measured by oriel_perf --tune with Oriel %s on",
	        oriel_version());
	write_conditions(t);
	fprintf(t->file, ";\n# times are medians in microseconds, of the slowest rank\n");
}

static int
width_of(const struct tune_way *w)
{
	int n = (int)strlen(w->name) + (w->chunk ? 6 : 0);

	return n < 10 ? 10 : n;
}

static void
write_times(const struct tune *t)
{
	char text[64], size[32];

	fprintf(t->file, "# %8s", t->sizes[0] ? "bytes" : "");
	for (size_t w = 0; w < t->n_ways; w++) {
		snprintf(text, sizeof(text), "%s%s%s", t->way[w].name, t->way[w].chunk ? "@" : "",
		         t->way[w].chunk ? report_size(t->way[w].chunk, size) : "");
		fprintf(t->file, " %*s", width_of(&t->way[w]), text);
	}
	for (size_t i = 0; i < t->n_sizes; i++) {
		fprintf(t->file, "\n# %8s", t->sizes[i] ? report_size(t->sizes[i], size) : "");
		for (size_t w = 0; w < t->n_ways; w++) {
			if (t->way[w].us[i] > 0)
				fprintf(t->file, " %*.4g", width_of(&t->way[w]), t->way[w].us[i]);
			else
				fprintf(t->file, " %*s", width_of(&t->way[w]), "-");
		}
	}
	fprintf(t->file, "\n");
}

/* n_ways: none is measured. */
static size_t
fastest(const struct tune *t, size_t size)
{
	size_t best = t->n_ways;

	for (size_t w = 0; w < t->n_ways; w++)
		if (t->way[w].us[size] > 0 &&
		    (best == t->n_ways || t->way[w].us[size] < t->way[best].us[size]))
			best = w;
	return best;
}

/* For the sizes first to last of the ladder; the ends are open. Where two rules meet, both hold and
 * the first one wins. */
static void
write_rule(struct tune *t, const struct tune_op *op, size_t way, size_t first, size_t last)
{
	const struct tune_way *w = &t->way[way];
	char text[32];

	fprintf(t->file, "%s", op->name);
	write_conditions(t);
	if (op->what && (first > 0 || last + 1 < t->n_sizes)) {
		fprintf(t->file, " bytes=%s-",
		        first ? report_size(t->sizes[first - 1], text) : "0");
		if (last + 1 < t->n_sizes)
			fprintf(t->file, "%s", report_size(t->sizes[last], text));
	}
	fprintf(t->file, " use=%s", w->name);
	if (w->chunk)
		fprintf(t->file, " chunk=%s", report_size(w->chunk, text));
	fprintf(t->file, "\n");
	t->n_rules++;
}

void
tune_write(struct tune *t, const struct tune_op *op)
{
	size_t way = fastest(t, 0), first = 0;

	fprintf(t->file, "\n# %s%s%s\n", op->name, op->what ? ": " : "", op->what ? op->what : "");
	write_times(t);
	for (size_t i = 1; i < t->n_sizes; i++) {
		size_t best = fastest(t, i);

		if (best == t->n_ways)
			continue;
		/* A way in chunks is not measured where it would not cut. */
		if (way < t->n_ways && t->way[way].us[i] > 0 &&
		    t->way[way].us[i] <= TUNE_SLACK * t->way[best].us[i])
			continue;
		if (way < t->n_ways)
			write_rule(t, op, way, first, i - 1);
		way = best;
		first = i;
	}
	if (way < t->n_ways)
		write_rule(t, op, way, first, t->n_sizes - 1);
}
