#include "tools/oriel_sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double
us(int64_t ps)
{
	return (double)ps / 1e6;
}

static double
busy_share(const struct time_result *r)
{
	return r->end ? (double)r->busy / (double)r->end : 0;
}

/* A number of bytes that a person reads. */
static const char *
size_text(uint64_t bytes, char *text, size_t cap)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t u = 0;

	for (; value >= 1024 && u + 1 < ARRAY_SIZE(unit); u++)
		value /= 1024;
	snprintf(text, cap, u && value < 100 ? "%.1f %s" : "%.0f %s", value, unit[u]);
	return text;
}

static void
name_text(const struct sim_run *run, char *text, size_t cap)
{
	const struct coll_row *row = run->call.row;

	if (row->max_arg)
		snprintf(text, cap, "%s:%d", row->program.name, run->call.shape.arg);
	else
		snprintf(text, cap, "%s", row->program.name);
}

void
sim_list(const struct shape *shape)
{
	for (size_t i = 0; i < coll_rows; i++) {
		const struct coll_row *row = &coll_table[i];
		struct shape least = *shape;
		const char *why;

		least.arg = coll_clip(row, shape->size, 0);
		why = row->unfit ? row->unfit(&least) : NULL;
		printf("%-24s%s%s%s%s\n", row->program.name, row->arg ? row->arg : "no argument",
		       coll_kinds[row->op].rooted ? "; --root" : "",
		       why ? "; not on these ranks: " : "", why ? why : "");
	}
}

/* ---- one program ---- */

static void
head(const struct sim_run *run, const struct sim_options *o)
{
	const struct shape *shape = &run->call.shape;
	char name[64], size[32];

	name_text(run, name, sizeof(name));
	printf("%s, %d ranks", name, shape->size);
	if (coll_kinds[run->call.row->op].rooted)
		printf(", root %d", shape->root);
	printf(", %s of %s, on \"%s\"\n",
	       coll_kinds[run->call.row->op].vector ? "a vector" : "blocks",
	       size_text(run->call.bytes, size, sizeof(size)), o->fabric);
}

static void
levels(const struct time_result *r)
{
	struct time_sum all = { 0 };

	printf("\n%-9s %12s %10s | on the critical path, us\n"
	       "%-9s %12s %10s | %8s %10s %10s %10s %10s\n",
	       "level", "messages", "bytes", "", "", "", "messages", "overhead", "latency",
	       "bandwidth", "waiting");
	for (int l = 0; l < FABRIC_LEVELS; l++) {
		const struct time_sum *sum = &r->sum[l];
		char size[32];

		if (!r->messages[l])
			continue;
		printf("%-9s %12" PRIu64 " %10s | %8" PRIu64 " %10.3f %10.3f %10.3f %10.3f\n",
		       fabric_level_name[l], r->messages[l],
		       size_text(r->bytes[l], size, sizeof(size)), sum->messages, us(sum->overhead),
		       us(sum->latency), us(sum->bandwidth), us(sum->waiting));
		all.messages += sum->messages;
		all.overhead += sum->overhead;
		all.latency += sum->latency;
		all.bandwidth += sum->bandwidth;
		all.waiting += sum->waiting;
	}
	printf("%-9s %12s %10s | %8" PRIu64 " %10.3f %10.3f %10.3f %10.3f, local work %.3f\n",
	       "all", "", "", all.messages, us(all.overhead), us(all.latency), us(all.bandwidth),
	       us(all.waiting), us(r->local));
}

static void
step_line(const struct time_step *step, size_t times)
{
	char size[32];

	printf("%12.3f %12.3f  rank %d", us(step->start), us(step->end), step->rank);
	if (step->bandwidth || step->latency)
		printf(" -> %d (%s): %s, latency %.3f, bandwidth %.3f, waiting %.3f", step->peer,
		       fabric_level_name[step->level], size_text(step->bytes, size, sizeof(size)),
		       us(step->latency), us(step->bandwidth),
		       us(step->end - step->start - step->latency - step->bandwidth));
	else
		printf(" queue %u: %s", step->queue, step->what);
	if (step->peer >= 0 && !step->bandwidth && !step->latency)
		printf(" %d", step->peer);
	if (times > 1)
		printf(", %zu times", times);
	putchar('\n');
}

static bool
alike(const struct time_step *a, const struct time_step *b)
{
	return a->what == b->what && a->rank == b->rank && a->queue == b->queue &&
	       a->peer == b->peer && !a->bandwidth && !a->latency;
}

/* Steps that repeat one another, such as the puts of a batch, share a line. */
static void
path(const struct time_result *r, size_t most)
{
	size_t lines = 0, i = 0, n;

	if (!most)
		return;
	printf("\ncritical path\n%12s %12s\n", "from us", "to us");
	for (; i < r->n_path && lines < most; i += n, lines++) {
		struct time_step step = r->path[i];

		for (n = 1; i + n < r->n_path && alike(&step, &r->path[i + n]); n++)
			step.end = r->path[i + n].end;
		step_line(&step, n);
	}
	if (i < r->n_path)
		printf("%25s  ... and %zu more steps (--path)\n", "", r->n_path - i);
}

void
sim_report(const struct sim_run *run, const struct sim_options *o)
{
	const struct time_result *r = &run->result;
	char text[64], size[32];

	head(run, o);
	fabric_link_name(run->call.fabric, r->busiest, text, sizeof(text));
	printf("time          %.3f us, rank %d is the last\n", us(r->end), r->last);
	printf("cost          %" PRId64 " rounds, %" PRId64 " blocks out of a rank, %" PRId64
	       " in all: as the table says\n",
	       r->rounds, r->blocks, r->total);
	if (o->check)
		printf("contract      holds at each rank's end; every batch has its wait\n");
	printf("messages      %" PRIu64 " to %" PRIu64 " of a rank\n", r->least_messages,
	       r->most_messages);
	printf("busiest link  %s, %.1f %% of the time\n", text, 100 * busy_share(r));
	printf("simulated     %" PRIu64 " ops of %d plans (%s), %" PRIu64 " events\n", r->ops,
	       run->call.shape.size, size_text(r->plan_bytes, size, sizeof(size)), r->events);
	levels(r);
	path(r, o->path);
}

/* ---- several ---- */

void
sim_table(const struct sim_run *runs, const struct sim_options *o)
{
	char name[64], size[32];
	const struct sim_run *best = runs;

	printf("%d ranks, %s, on \"%s\"\n", runs->call.shape.size,
	       size_text(runs->call.bytes, size, sizeof(size)), o->fabric);
	printf("%-26s %12s %6s %7s %10s %10s %10s %10s  %s\n", "program", "us", "ratio", "rounds",
	       "overhead", "latency", "bandwidth", "waiting", "busiest link");
	for (const struct sim_run *run = runs; run; run = run->next)
		if (run->result.end < best->result.end)
			best = run;
	for (const struct sim_run *run = runs; run; run = run->next) {
		const struct time_result *r = &run->result;
		struct time_sum all = { 0 };

		for (int l = 0; l < FABRIC_LEVELS; l++) {
			all.overhead += r->sum[l].overhead;
			all.latency += r->sum[l].latency;
			all.bandwidth += r->sum[l].bandwidth;
			all.waiting += r->sum[l].waiting;
		}
		name_text(run, name, sizeof(name));
		printf("%-26s %12.3f %6.2f %7" PRId64 " %10.3f %10.3f %10.3f %10.3f", name,
		       us(r->end),
		       best->result.end ? (double)r->end / (double)best->result.end : 1.0,
		       r->rounds, us(all.overhead), us(all.latency), us(all.bandwidth),
		       us(all.waiting));
		fabric_link_name(run->call.fabric, r->busiest, name, sizeof(name));
		printf("  %s %.0f %%\n", name, 100 * busy_share(r));
	}
}

/* ---- JSON ---- */

/* A text of the user in quotes; control characters become blanks. */
static void
json_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < ' ' ? ' ' : *text);
	}
	putchar('"');
}

static void
json_levels(const struct time_result *r)
{
	printf("\"levels\": [");
	for (int l = 0; l < FABRIC_LEVELS; l++)
		printf("%s\n  {\"level\": \"%s\", \"messages\": %" PRIu64 ", \"bytes\": %" PRIu64
		       ", \"path\": {\"messages\": %" PRIu64 ", \"overhead_us\": %.6f, "
		       "\"latency_us\": %.6f, \"bandwidth_us\": %.6f, \"waiting_us\": %.6f}}",
		       l ? "," : "", fabric_level_name[l], r->messages[l], r->bytes[l],
		       r->sum[l].messages, us(r->sum[l].overhead), us(r->sum[l].latency),
		       us(r->sum[l].bandwidth), us(r->sum[l].waiting));
	printf("],\n \"local_us\": %.6f,\n", us(r->local));
}

static void
json_path(const struct time_result *r)
{
	printf(" \"critical_path\": [");
	for (size_t i = 0; i < r->n_path; i++) {
		const struct time_step *step = &r->path[i];

		printf("%s\n  {\"op\": \"%s\", \"rank\": %d, \"queue\": %u, \"start_us\": %.6f, "
		       "\"end_us\": %.6f",
		       i ? "," : "", step->what, step->rank, step->queue, us(step->start),
		       us(step->end));
		if (step->peer >= 0)
			printf(", \"peer\": %d, \"level\": \"%s\"", step->peer,
			       fabric_level_name[step->level]);
		if (step->bandwidth || step->latency)
			printf(", \"bytes\": %" PRIu64 ", \"latency_us\": %.6f, "
			       "\"bandwidth_us\": %.6f",
			       step->bytes, us(step->latency), us(step->bandwidth));
		putchar('}');
	}
	printf("]");
}

void
sim_json(const struct sim_run *runs, const struct sim_options *o)
{
	printf("[");
	for (const struct sim_run *run = runs; run; run = run->next) {
		const struct time_result *r = &run->result;
		const struct shape *shape = &run->call.shape;
		char link[64];

		fabric_link_name(run->call.fabric, r->busiest, link, sizeof(link));
		printf("{\"program\": \"%s\", \"arg\": %d, \"ranks\": %d, \"root\": %d, "
		       "\"node\": %d, \"bytes\": %" PRIu64 ", \"checked\": %s,\n \"fabric\": ",
		       run->call.row->program.name, shape->arg, shape->size, shape->root,
		       shape->node, run->call.bytes, o->check ? "true" : "false");
		json_text(o->fabric);
		printf(",\n \"time_us\": %.6f, \"last_rank\": %d, \"rounds\": %" PRId64
		       ", \"blocks\": %" PRId64 ", \"total_blocks\": %" PRId64 ",\n",
		       us(r->end), r->last, r->rounds, r->blocks, r->total);
		printf(" \"messages_of_a_rank\": {\"least\": %" PRIu64 ", \"most\": %" PRIu64
		       "}, \"busiest_link\": {\"name\": \"%s\", \"share\": %.6f},\n ",
		       r->least_messages, r->most_messages, link, busy_share(r));
		json_levels(r);
		json_path(r);
		printf("}%s", run->next ? ",\n" : "");
	}
	printf("]\n");
}
