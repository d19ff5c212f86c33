#include "plan/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((format(printf, 3, 4)))
plan_error(struct plan *plan, int code, const char *fmt, ...)
{
	va_list ap;

	if (plan->error)
		return;
	plan->error = code;
	va_start(ap, fmt);
	vsnprintf(plan->why, sizeof(plan->why), fmt, ap);
	va_end(ap);
}

/* NULL after the plan's first error: the caller drops the op. */
static struct op *
append(struct queue *q, enum op_kind kind)
{
	struct plan_queue *pq = &q->plan->queue[q->number];

	if (q->plan->error)
		return NULL;
	if (pq->n == PLAN_MAX_OPS) {
		plan_error(q->plan, ORIEL_ELIMIT, "more than %u ops in a queue", PLAN_MAX_OPS);
		return NULL;
	}
	if (pq->n == pq->cap) {
		uint32_t cap = pq->cap ? 2 * pq->cap : 16;
		struct op *ops = realloc(pq->ops, cap * sizeof(*ops));

		if (!ops) {
			plan_error(q->plan, ORIEL_ENOMEM, "no memory for %u ops", cap);
			return NULL;
		}
		pq->ops = ops;
		pq->cap = cap;
	}
	memset(&pq->ops[pq->n], 0, sizeof(*pq->ops));
	pq->ops[pq->n].kind = (uint8_t)kind;
	for (int k = 0; k < MBOX_QUEUES; k++)
		pq->ops[pq->n].appended += q->plan->queue[k].n;
	return &pq->ops[pq->n++];
}

static uint32_t
index_home(const struct plan *plan, int rank, unsigned queue)
{
	return (uint32_t)(((uint64_t)(uint32_t)rank * MBOX_QUEUES + queue) *
	                          UINT64_C(0x9e3779b97f4a7c15) >>
	                  32) &
	       (plan->n_index - 1);
}

static void
index_add(struct plan *plan, uint32_t edge)
{
	uint32_t at = index_home(plan, plan->edges[edge].rank, plan->edges[edge].queue);

	while (plan->index[at])
		at = (at + 1) & (plan->n_index - 1);
	plan->index[at] = edge + 1;
}

/* Room for one more edge; the index stays at most half full. */
static bool
grow_edges(struct plan *plan)
{
	uint32_t cap = plan->cap_edges ? 2 * plan->cap_edges : 8;
	struct edge *edges;
	uint32_t *index;

	if (plan->n_edges < plan->cap_edges)
		return true;
	edges = realloc(plan->edges, cap * sizeof(*edges));
	if (edges)
		plan->edges = edges;
	index = calloc(2 * cap, sizeof(*index));
	if (!edges || !index) {
		free(index);
		plan_error(plan, ORIEL_ENOMEM, "no memory for %u edges", cap);
		return false;
	}
	free(plan->index);
	plan->index = index;
	plan->n_index = 2 * cap;
	plan->cap_edges = cap;
	for (uint32_t e = 0; e < plan->n_edges; e++)
		index_add(plan, e);
	return true;
}

static int
mod(int a, int n)
{
	int m = a % n;

	return m < 0 ? m + n : m;
}

/* The edge to or from peer over the sender's queue ch, made if it is new. False after an error. */
static bool
find_edge(struct plan *plan, int peer, unsigned ch, uint32_t *edge)
{
	int rank = mod(peer, plan->shape.size);

	if (rank == plan->rank) {
		plan_error(plan, ORIEL_EINVAL, "rank %d talks to itself; use copy", rank);
		return false;
	}
	for (uint32_t at = plan->n_index ? index_home(plan, rank, ch) : 0;
	     plan->n_index && plan->index[at]; at = (at + 1) & (plan->n_index - 1)) {
		*edge = plan->index[at] - 1;
		if (plan->edges[*edge].rank == rank && plan->edges[*edge].queue == ch)
			return true;
	}
	if (!grow_edges(plan))
		return false;
	*edge = plan->n_edges++;
	plan->edges[*edge] = (struct edge){ .rank = rank, .queue = ch };
	index_add(plan, *edge);
	return true;
}

/* Block i of buf, wrapped if it is cyclic; n blocks from there must be inside. */
static uint32_t
block_of(struct plan *plan, enum plan_buf buf, int i, int n)
{
	static const char *const name[] = { "IN", "OUT", "TMP" };
	int64_t count = plan->count[buf];

	if (plan->program->buf[buf].cyclic && count) {
		i = mod(i, (int)count);
		if (n >= 0 && n <= count)
			return (uint32_t)i;
	}
	if (n < 0 || i < 0 || (int64_t)i + n > count)
		plan_error(plan, ORIEL_ERANGE, "blocks %d to %lld of %s, which has %lld", i,
		           (long long)i + n, name[buf], (long long)count);
	return (uint32_t)i;
}

/*
 * How many of n blocks from block i on lie in one piece. Where TMP is the other
 * side ops are cut there: the last block before the wrap may be shorter than
 * TMP's, so that bytes alone do not tell where the next block goes.
 */
static int
until_wrap(const struct plan *plan, enum plan_buf buf, int i, int n)
{
	int count = (int)plan->count[buf], at;

	if (!plan->program->buf[buf].cyclic || count <= 0 || n <= 1)
		return n;
	at = mod(i, count);
	return n < count - at ? n : count - at;
}

static void
put_piece(struct queue *q, uint32_t edge, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	struct plan *plan = q->plan;
	struct op *op = append(q, OP_PUT);

	if (!op)
		return;
	op->edge = edge;
	op->dst = (uint8_t)dst;
	op->src = (uint8_t)src;
	op->i = block_of(plan, dst, i, n);
	op->j = block_of(plan, src, j, n);
	op->n = (uint32_t)n;
	plan->edges[edge].sends++;
}

void
plan_put(struct queue *q, int peer, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	struct plan *plan = q->plan;
	uint32_t edge = 0;

	if (plan->error || !find_edge(plan, peer, q->number, &edge))
		return;
	/* n 0, nothing to move: the batch's signal says all there is to say. */
	while (n) {
		int m = n;

		if (dst == TMP || src == TMP)
			m = until_wrap(plan, dst, i, until_wrap(plan, src, j, n));
		put_piece(q, edge, dst, i, src, j, m);
		i += m;
		j += m;
		n -= m;
	}
}

/* A signal that directly follows a put to the same peer travels with it. */
void
plan_signal(struct queue *q, int peer)
{
	struct plan *plan = q->plan;
	struct plan_queue *pq = &plan->queue[q->number];
	uint32_t edge = 0;
	struct op *op;

	if (plan->error || !find_edge(plan, peer, q->number, &edge))
		return;
	if (pq->n) {
		op = &pq->ops[pq->n - 1];
		if (op->kind == OP_PUT && op->edge == edge && !op->last) {
			op->last = true;
			return;
		}
	}
	op = append(q, OP_SIGNAL);
	if (!op)
		return;
	op->edge = edge;
	op->last = true;
	plan->edges[edge].sends++;
}

void
plan_wait(struct queue *q, int peer, int ch)
{
	struct plan *plan = q->plan;
	struct edge *e;
	uint32_t edge = 0;
	struct op *op;

	if (plan->error)
		return;
	if (ch < 0 || (unsigned)ch >= plan->program->n_queues) {
		plan_error(plan, ORIEL_EINVAL, "wait for queue %d of %u", ch,
		           plan->program->n_queues);
		return;
	}
	if (!find_edge(plan, peer, (unsigned)ch, &edge))
		return;
	op = append(q, OP_WAIT);
	if (!op)
		return;
	e = &plan->edges[edge];
	op->edge = edge;
	op->n = ++e->waits[q->number];
	if (op->n > e->expect)
		e->expect = op->n;
}

static struct op *
append_local(struct queue *q, enum op_kind kind, enum plan_buf dst, int i, int n_dst,
             enum plan_buf src, int j, int n)
{
	struct op *op = n ? append(q, kind) : NULL;

	if (!op)
		return NULL;
	op->dst = (uint8_t)dst;
	op->src = (uint8_t)src;
	op->i = block_of(q->plan, dst, i, n_dst);
	op->j = block_of(q->plan, src, j, n);
	op->n = (uint32_t)n;
	return op;
}

void
plan_copy(struct queue *q, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	while (n) {
		int m = n;

		if (dst == TMP || src == TMP)
			m = until_wrap(q->plan, dst, i, until_wrap(q->plan, src, j, n));
		append_local(q, OP_COPY, dst, i, m, src, j, m);
		i += m;
		j += m;
		n -= m;
	}
}

void
plan_reduce(struct queue *q, enum plan_buf dst, int i, enum plan_buf a, int j, enum plan_buf b,
            int k, int n)
{
	const struct plan *plan = q->plan;

	while (n) {
		int m = until_wrap(plan, dst, i, until_wrap(plan, a, j, until_wrap(plan, b, k, n)));
		struct op *op = append_local(q, OP_REDUCE, dst, i, m, a, j, m);

		if (!op)
			return;
		op->src2 = (uint8_t)b;
		op->k = block_of(q->plan, b, k, m);
		i += m;
		j += m;
		k += m;
		n -= m;
	}
}

void
plan_fold(struct queue *q, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	append_local(q, OP_FOLD, dst, i, 1, src, j, n);
}

void
plan_call(struct queue *q, plan_call_fn *fn, int i, int n)
{
	struct op *op = append(q, OP_CALL);

	if (!op)
		return;
	op->fn = fn;
	op->i = (uint32_t)i;
	op->n = (uint32_t)n;
}

void
plan_flush(struct queue *q)
{
	append(q, OP_FLUSH);
}

uint32_t
blocks_one(const struct shape *shape)
{
	(void)shape;
	return 1;
}

uint32_t
blocks_two(const struct shape *shape)
{
	(void)shape;
	return 2;
}

uint32_t
blocks_ranks(const struct shape *shape)
{
	return (uint32_t)shape->size;
}

uint32_t
blocks_log2(const struct shape *shape)
{
	uint32_t log2 = 0;

	while (log2 < 31 && 1 << log2 < shape->size)
		log2++;
	return log2;
}

/* What every rank's part has in common, and nothing else. */
static uint64_t
hash_identity(const struct plan *plan)
{
	const uint64_t numbers[] = { (uint64_t)plan->shape.arg,  (uint64_t)plan->shape.size,
		                     (uint64_t)plan->shape.node, (uint64_t)plan->shape.root,
		                     plan->program->n_queues,    plan->count[IN],
		                     plan->count[OUT],           plan->count[TMP] };
	uint64_t h = hash_bytes(0, plan->program->name, strlen(plan->program->name));

	return hash_bytes(h, numbers, sizeof(numbers));
}

static int
start(struct plan *plan, const struct program *program, const struct shape *shape, int rank)
{
	plan->program = program;
	plan->shape = *shape;
	plan->rank = rank;
	if (program->n_queues < 1 || program->n_queues > MBOX_QUEUES)
		return fail(ORIEL_EINVAL, "%s wants %u queues, 1 to %d exist", program->name,
		            program->n_queues, MBOX_QUEUES);
	for (int b = 0; b < MBOX_BUFS; b++) {
		plan->count[b] = program->buf[b].blocks ? program->buf[b].blocks(shape) : 0;
		if (plan->count[b] >= WIRE_MAX_BLOCKS)
			return fail(ORIEL_ELIMIT, "%s: %u blocks, a message names at most %u",
			            program->name, plan->count[b], WIRE_MAX_BLOCKS);
	}
	plan->hash = hash_identity(plan);
	return 0;
}

/* What will not grow any more takes no more memory than it needs. */
static void
trim(struct plan *plan)
{
	free(plan->index);
	plan->index = NULL;
	plan->n_index = 0;
	for (int k = 0; k < MBOX_QUEUES; k++) {
		struct plan_queue *pq = &plan->queue[k];
		struct op *ops = pq->n < pq->cap && pq->n
		                         ? realloc(pq->ops, pq->n * sizeof(*pq->ops))
		                         : NULL;

		if (ops) {
			pq->ops = ops;
			pq->cap = pq->n;
		}
	}
	if (plan->n_edges && plan->n_edges < plan->cap_edges) {
		struct edge *edges = realloc(plan->edges, plan->n_edges * sizeof(*edges));

		if (edges) {
			plan->edges = edges;
			plan->cap_edges = plan->n_edges;
		}
	}
}

int
plan_build(const struct program *program, const struct shape *shape, int rank, struct plan **out)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct queue q[MBOX_QUEUES];
	int rc;

	if (!plan)
		return fail(ORIEL_ENOMEM, "no memory for a plan of %s", program->name);
	rc = start(plan, program, shape, rank);
	if (rc)
		goto free_plan;
	for (unsigned k = 0; k < MBOX_QUEUES; k++)
		q[k] = (struct queue){ .rank = rank,
			               .size = shape->size,
			               .node = shape->node,
			               .root = shape->root,
			               .number = k,
			               .plan = plan };
	program->build(q, shape->arg);
	trim(plan);
	rc = plan->error;
	if (rc) {
		fail(rc, "%s for rank %d of %d: %s", program->name, rank, shape->size, plan->why);
		goto free_plan;
	}
	*out = plan;
	return 0;

free_plan:
	plan_free(plan);
	return rc;
}

void
plan_free(struct plan *plan)
{
	if (!plan)
		return;
	for (int k = 0; k < MBOX_QUEUES; k++)
		free(plan->queue[k].ops);
	free(plan->edges);
	free(plan->index);
	free(plan);
}

size_t
plan_bytes(const struct plan *plan)
{
	size_t bytes = sizeof(*plan) + plan->cap_edges * sizeof(struct edge);

	for (int k = 0; k < MBOX_QUEUES; k++)
		bytes += plan->queue[k].cap * sizeof(struct op);
	return bytes;
}

void
plan_op_text(const struct plan *plan, const struct op *op, char *text, size_t cap)
{
	static const char *const buf[] = { "in", "out", "tmp" };
	const struct edge *e = op->kind <= OP_WAIT ? &plan->edges[op->edge] : NULL;

	switch ((enum op_kind)op->kind) {
	case OP_PUT:
		snprintf(text, cap, "put%s to %d: %s[%u] = %s[%u], %u blocks",
		         op->last ? "_signal" : "", e->rank, buf[op->dst], op->i, buf[op->src],
		         op->j, op->n);
		return;
	case OP_SIGNAL:
		snprintf(text, cap, "signal to %d", e->rank);
		return;
	case OP_WAIT:
		snprintf(text, cap, "wait for batch %u of %d queue %u", op->n, e->rank, e->queue);
		return;
	case OP_COPY:
		snprintf(text, cap, "copy %s[%u] = %s[%u], %u blocks", buf[op->dst], op->i,
		         buf[op->src], op->j, op->n);
		return;
	case OP_REDUCE:
		snprintf(text, cap, "reduce %s[%u] = %s[%u] op %s[%u], %u blocks", buf[op->dst],
		         op->i, buf[op->src], op->j, buf[op->src2], op->k, op->n);
		return;
	case OP_FOLD:
		snprintf(text, cap, "fold %s[%u] = all of %s[%u], %u blocks", buf[op->dst], op->i,
		         buf[op->src], op->j, op->n);
		return;
	case OP_CALL:
		snprintf(text, cap, "call %d, %d", (int)op->i, (int)op->n);
		return;
	case OP_FLUSH:
	case OP_KINDS:
		snprintf(text, cap, "flush");
		return;
	}
}

void
plan_dump(const struct plan *plan, void (*line)(void *arg, const char *text), void *arg)
{
	char text[160], op[120];

	snprintf(text, sizeof(text), "%s(%d) rank %d of %d, hash %016llx", plan->program->name,
	         plan->shape.arg, plan->rank, plan->shape.size, (unsigned long long)plan->hash);
	line(arg, text);
	for (unsigned k = 0; k < plan->program->n_queues; k++)
		for (uint32_t o = 0; o < plan->queue[k].n; o++) {
			plan_op_text(plan, &plan->queue[k].ops[o], op, sizeof(op));
			snprintf(text, sizeof(text), "queue %u, %u: %s", k, o, op);
			line(arg, text);
		}
}
