#include "sim/time_impl.h"

#include <stdlib.h>

static const char *const op_name[OP_KINDS] = { "put",    "signal", "wait", "copy",
	                                       "reduce", "fold",   "call", "flush" };

static const char message[] = "message";

/* Where on the path we are, going back: the queue's ops before at have not been looked at. */
struct place {
	int rank;
	unsigned queue;
	uint32_t at;
	int64_t time;
};

static void
add(struct time_sim *s, size_t *cap, const struct time_step *step)
{
	struct time_result *out = s->out;

	if (out->n_path == *cap) {
		size_t more = *cap ? 2 * *cap : 64;
		struct time_step *path = realloc(out->path, more * sizeof(*path));

		if (!path) {
			time_no_memory(s, "the critical path");
			return;
		}
		out->path = path;
		*cap = more;
	}
	out->path[out->n_path++] = *step;
}

static int64_t
end_of(const struct time_sim *s, int rank, unsigned queue, uint32_t ops)
{
	return ops ? s->done[op_index(&s->rank[rank], queue, ops - 1)].end : 0;
}

/* The rank that ends last, and the queue of it that does; its sources may be busy for longer. */
static struct place
find_end(struct time_sim *s)
{
	struct place p = { 0 };
	int64_t end = 0;

	for (int r = 0; r < s->size; r++)
		if (s->rank[r].end > s->rank[p.rank].end)
			p.rank = r;
	for (unsigned k = 0; k < MBOX_QUEUES; k++) {
		uint32_t n = s->rank[p.rank].plan->queue[k].n;

		if (n && end_of(s, p.rank, k, n) >= end) {
			p.queue = k;
			p.at = n;
			end = end_of(s, p.rank, k, n);
		}
	}
	p.time = end;
	s->out->last = p.rank;
	s->out->end = s->rank[p.rank].end;
	return p;
}

/* The way of the message that ended the wait of p. p moves to its sender. */
static void
go_to_sender(struct time_sim *s, struct place *p, uint32_t cause, size_t *cap)
{
	const struct fabric *f = s->call->fabric;
	const struct time_rank *r = &s->rank[p->rank];
	const struct edge *e = &r->plan->edges[r->plan->queue[p->queue].ops[p->at].edge];
	const struct plan *sender = s->rank[e->rank].plan;
	const struct op *op = &sender->queue[e->queue].ops[cause];
	enum fabric_level level = fabric_level(f, e->rank, p->rank);
	uint64_t bytes = op->kind == OP_PUT ? time_bytes(s, sender, op) : 0;
	struct time_step step = { .what = message,
		                  .rank = e->rank,
		                  .peer = p->rank,
		                  .queue = e->queue,
		                  .level = (int)level,
		                  .start = end_of(s, e->rank, e->queue, cause + 1),
		                  .end = p->time,
		                  .bytes = bytes,
		                  .latency = f->latency[level],
		                  .bandwidth = fabric_train(f, level, bytes) };

	add(s, cap, &step);
	*p = (struct place){ e->rank, e->queue, cause + 1, step.start };
}

/* The op before p ends when p begins: it goes on the path, and p before it. */
static void
go_back(struct time_sim *s, struct place *p, size_t *cap)
{
	const struct time_rank *r = &s->rank[p->rank];
	const struct op *op = &r->plan->queue[p->queue].ops[--p->at];
	uint32_t cause = s->done[op_index(r, p->queue, p->at)].cause;
	struct time_step step = { .what = op_name[op->kind],
		                  .rank = p->rank,
		                  .peer = -1,
		                  .queue = p->queue,
		                  .level = -1,
		                  .end = p->time };

	if (op->kind <= OP_WAIT) {
		step.peer = r->plan->edges[op->edge].rank;
		step.level = (int)fabric_level(s->call->fabric, p->rank, step.peer);
	}
	step.start = cause == NONE ? end_of(s, p->rank, p->queue, p->at)
	                           : p->time - s->call->fabric->receive;
	add(s, cap, &step);
	p->time = step.start;
	if (cause != NONE)
		go_to_sender(s, p, cause, cap);
}

static void
turn_around(struct time_result *out)
{
	for (size_t i = 0, j = out->n_path; i + 1 < j; i++) {
		struct time_step step = out->path[i];

		out->path[i] = out->path[--j];
		out->path[j] = step;
	}
}

static void
sum_up(struct time_result *out)
{
	for (size_t i = 0; i < out->n_path; i++) {
		const struct time_step *step = &out->path[i];
		int64_t took = step->end - step->start;
		struct time_sum *sum = step->level < 0 ? NULL : &out->sum[step->level];

		if (!sum) {
			out->local += took;
		} else if (step->what != message) {
			sum->overhead += took;
		} else {
			sum->messages++;
			sum->latency += step->latency;
			sum->bandwidth += step->bandwidth;
			sum->waiting += took - step->latency - step->bandwidth;
		}
	}
}

static void
find_busiest(struct time_sim *s)
{
	struct time_result *out = s->out;

	for (uint32_t l = 0; l < s->call->fabric->n_links; l++)
		if (s->link[l].busy > out->busy) {
			out->busiest = l;
			out->busy = s->link[l].busy;
		}
	out->least_messages = UINT64_MAX;
	for (int r = 0; r < s->size; r++) {
		uint64_t n = s->rank[r].messages;

		out->least_messages = n < out->least_messages ? n : out->least_messages;
		out->most_messages = n > out->most_messages ? n : out->most_messages;
	}
}

void
time_look_back(struct time_sim *s)
{
	struct place p = find_end(s);
	size_t cap = 0;

	if (s->out->end > p.time)
		add(s, &cap,
		    &(struct time_step){ .what = "flush",
		                         .rank = p.rank,
		                         .peer = -1,
		                         .queue = p.queue,
		                         .level = -1,
		                         .start = p.time,
		                         .end = s->out->end });
	while (p.at && !s->error)
		go_back(s, &p, &cap);
	turn_around(s->out);
	sum_up(s->out);
	find_busiest(s);
}

void
time_result_free(struct time_result *result)
{
	free(result->path);
	*result = (struct time_result){ 0 };
}
