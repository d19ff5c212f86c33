/*
 * proof.c - what the ops do to memory, in one order that stands for all.
 *
 * The ops of all ranks run in an order that the graph allows, a put at once. Each
 * access to a block must be ordered by the graph after the block's last write and,
 * if it writes, after all reads since. Order is transitive: so all conflicting
 * accesses are ordered, every other allowed order gives every read the same value,
 * and one order's values prove the contract for all.
 *
 * What is proven for one call holds for more. Let e and f be two calls on the same
 * buffers, one after the other, or instances e and f = e + W of W at a time, which
 * share TMP (the chunks of IN and OUT are disjoint, and each instance has channels
 * of its own; other instances share nothing). Either way rank r begins f when it
 * has ended e.
 * - Inside e nothing is new: only e leads to f, so no path from e comes back to e.
 * - Every access of e to r's memory is over when r ends e: its own ops and its puts'
 *   readings are, by the flush at the end, and so is what lands, since a wait of r
 *   follows every batch (1). So r's results are whole at its own end, too.
 * - Every access of f to r's memory begins after r has begun f: r's own do, and what
 *   lands does because the executor asks first (readiness, or the slot's scratch).
 * - Signals of e are all waited for in e (1) and name their call: none is left over.
 * So all of e is over before any of f, and (3) and (4) hold in f as in e. Deadlock
 * is looked for in both forms by sim/order.c. Where r's peers need not ask before
 * they write TMP, because r's messages say enough, tmp_unasked is the result.
 */
#include "sim/proof.h"

#include "sim/contract.h"
#include "sim/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX
#define GARBAGE INT64_C(-0x5a5a5a5a5a5a5a5b)

struct cell {                            /* the past of a block */
	uint32_t first, writer, readers; /* in touch: the last write; the list of reads since */
};

struct touch {
	struct access access;
	uint32_t next;
};

struct part { /* of one rank */
	const struct plan *plan;
	struct contract_rank view;
	uint32_t at[MBOX_BUFS]; /* the buffer's first block among all ranks' */
	int64_t blocks;         /* put */
};

struct memory {
	const struct proof *proof;
	const struct graph *g;
	bool alias;
	struct part *part;
	bool *begun;
	int64_t *value; /* of all ranks' blocks */
	struct cell *cell;
	struct touch *touch;
	uint32_t n_touches;
	int64_t *lane_rounds, *batch_rounds;
	int error;
};

static const char *const buf_name[] = { "in", "out", "tmp" };

/* ---- Conflicts ---- */

static const char *
rule(enum access_kind first, enum access_kind then)
{
	if (then == READS || then == SENDS)
		return "read before arrival";
	if (first == READS)
		return "overwritten before it is read";
	return first == SENDS ? "source changed before its flush" : "two writes in any order";
}

static void
conflict(struct memory *m, struct access first, struct access then, int rank, unsigned buf,
         uint32_t block)
{
	static const char *const verb[] = { "reads", "writes", "reads", "writes" };
	char a[120], b[120];

	if (m->error)
		return;
	graph_op_text(m->g, first.op, a, sizeof(a));
	graph_op_text(m->g, then.op, b, sizeof(b));
	m->error =
	        fail(ORIEL_EMISMATCH, "%s, %s[%u] of rank %d: %s %s it and %s %s it, in no order",
	             rule(first.kind, then.kind), buf_name[buf], block, rank, a, verb[first.kind],
	             b, verb[then.kind]);
}

static void
must_be_over(struct memory *m, uint32_t touch, struct access then, int rank, unsigned buf,
             uint32_t block)
{
	struct access first = m->touch[touch].access;

	if (first.op != then.op && !graph_over(m->g, first, then.op))
		conflict(m, first, then, rank, buf, block);
}

/* One access to a block of rank: its place in m->value. */
static uint32_t
touch(struct memory *m, uint32_t op, enum access_kind kind, int rank, unsigned buf, uint32_t block)
{
	const struct part *p = &m->part[rank];
	struct access now = { op, kind };
	uint32_t at, i;
	struct cell *c;

	block %= p->plan->count[buf];
	at = p->at[buf] + block;
	c = &m->cell[at];
	if (!contract_has(m->proof->row->op, &p->view, (enum plan_buf)buf) && !m->error) {
		char text[120];

		graph_op_text(m->g, op, text, sizeof(text));
		m->error =
		        fail(ORIEL_EMISMATCH, "rank %d has no %s: %s", rank, buf_name[buf], text);
	}
	if (c->writer != NONE)
		must_be_over(m, c->writer, now, rank, buf, block);
	i = m->n_touches++;
	m->touch[i] = (struct touch){ now, NONE };
	if (c->first == NONE)
		c->first = i;
	if (kind == READS || kind == SENDS) {
		m->touch[i].next = c->readers;
		c->readers = i;
		return at;
	}
	for (uint32_t r = c->readers; r != NONE; r = m->touch[r].next)
		must_be_over(m, r, now, rank, buf, block);
	c->readers = NONE;
	c->writer = i;
	return at;
}

/* ---- What ops do ---- */

static void
run_put(struct memory *m, uint32_t op, const struct op *o, int rank)
{
	int peer = m->part[rank].plan->edges[o->edge].rank;

	for (uint32_t b = 0; b < o->n; b++) {
		uint32_t from = touch(m, op, SENDS, rank, o->src, o->j + b);
		uint32_t to = touch(m, op, LANDS, peer, o->dst, o->i + b);

		m->value[to] = m->value[from];
	}
	m->part[rank].blocks += o->n;
}

static int64_t
combine(const struct memory *m, int64_t a, int64_t b)
{
	return contract_combine(m->proof->row->op, m->proof->row->unordered, a, b);
}

/* Ranges of n blocks that begin at blocks i and j of the same memory share some, but are not equal:
 * what the op does then depends on the order in which it goes through them. */
static bool
overlaps(const struct part *p, const struct op *o, unsigned src, uint32_t j)
{
	uint32_t count = p->plan->count[src], d;

	if (p->at[o->dst] != p->at[src] || p->plan->count[o->dst] != count || !count)
		return false;
	d = (o->i + count - j % count) % count;
	return d && (d < o->n || count - d < o->n);
}

static void
check_operands(struct memory *m, uint32_t op, const struct op *o, const struct part *p)
{
	const char *what = NULL;
	char text[120];

	if (o->kind == OP_FOLD) {
		uint32_t first = p->at[o->src] + o->j, dst = p->at[o->dst] + o->i;

		if (o->j + o->n > p->plan->count[o->src])
			what = "goes beyond the buffer's end";
		else if (dst > first && dst < first + o->n)
			what = "writes to one of its terms that is not the first";
	} else if (overlaps(p, o, o->src, o->j) ||
	           (o->kind == OP_REDUCE && overlaps(p, o, o->src2, o->k))) {
		what = "has operands that overlap and are not equal";
	}
	if (!what || m->error)
		return;
	graph_op_text(m->g, op, text, sizeof(text));
	m->error = fail(ORIEL_EMISMATCH, "%s %s", text, what);
}

static void
run_local(struct memory *m, uint32_t op, const struct op *o, int rank)
{
	const struct part *p = &m->part[rank];

	if (o->kind == OP_COPY && p->at[o->dst] == p->at[o->src] && o->i == o->j)
		return; /* onto itself, in place: nothing changes */
	check_operands(m, op, o, p);
	for (uint32_t b = 0; b < o->n; b++) {
		int64_t value = m->value[touch(m, op, READS, rank, o->src, o->j + b)];

		if (o->kind == OP_REDUCE)
			value = combine(m, value,
			                m->value[touch(m, op, READS, rank, o->src2, o->k + b)]);
		m->value[touch(m, op, WRITES, rank, o->dst, o->i + b)] = value;
	}
}

static void
run_fold(struct memory *m, uint32_t op, const struct op *o, int rank)
{
	int64_t value = 0;

	check_operands(m, op, o, &m->part[rank]);
	for (uint32_t b = 0; b < o->n; b++) {
		int64_t term = m->value[touch(m, op, READS, rank, o->src, o->j + b)];

		value = b ? combine(m, value, term) : term;
	}
	m->value[touch(m, op, WRITES, rank, o->dst, o->i)] = value;
}

/* Rounds: the messages on the longest path up to here. */
static void
count_rounds(struct memory *m, uint32_t op, const struct op *o)
{
	int64_t *mine = &m->lane_rounds[m->g->lane[op]];

	if (o->kind == OP_WAIT && o->n) {
		uint32_t last = graph_channel(m->g, op)->first + o->n - 1;

		if (m->batch_rounds[last] > *mine)
			*mine = m->batch_rounds[last];
	}
	if (o->kind <= OP_SIGNAL && o->last)
		m->batch_rounds[m->g->batch_of[op]] = *mine + 1;
}

static void
run_op(struct memory *m, uint32_t op)
{
	const struct op *o = m->g->op[op];
	int rank = graph_rank(m->g, op);

	count_rounds(m, op, o);
	switch ((enum op_kind)o->kind) {
	case OP_PUT:
		run_put(m, op, o, rank);
		return;
	case OP_COPY:
	case OP_REDUCE:
		run_local(m, op, o, rank);
		return;
	case OP_FOLD:
		run_fold(m, op, o, rank);
		return;
	case OP_SIGNAL: /* Order only: the graph has it. */
	case OP_WAIT:
	case OP_FLUSH:
	case OP_CALL: /* Its memory is its own. */
	case OP_KINDS:
		return;
	}
}

/* ---- At the end ---- */

/* Nobody touches a rank's memory after its own end, so what is there in the end was there then. */
static void
check_contract(struct memory *m)
{
	char text[200];

	for (int r = 0; r < m->g->size && !m->error; r++) {
		for (int i = 0; i < m->g->size; i++)
			m->begun[i] = graph_begun_at_end(m->g, i, r);
		if (!contract_holds(m->proof->row->op, &m->part[r].view, text, sizeof(text)))
			m->error = fail(ORIEL_EMISMATCH, "rank %d at its end%s: %s", r,
			                m->alias ? ", in place" : "", text);
	}
}

static void
check_cost(struct memory *m)
{
	const struct coll_row *row = m->proof->row;
	const struct shape *shape = &m->proof->shape;
	int64_t rounds = 0, most = 0, total = 0;

	for (uint32_t lane = 0; lane < m->g->n_lanes; lane++)
		if (m->lane_rounds[lane] > rounds)
			rounds = m->lane_rounds[lane];
	for (int r = 0; r < m->g->size; r++) {
		total += m->part[r].blocks;
		if (m->part[r].blocks > most)
			most = m->part[r].blocks;
	}
	if (m->error || (rounds == row->rounds(shape) && most == row->blocks(shape) &&
	                 total == row->total(shape)))
		return;
	m->error = fail(ORIEL_EMISMATCH,
	                "%" PRId64 " rounds, %" PRId64 " blocks out of a rank, %" PRId64
	                " in all; the row says %" PRId64 ", %" PRId64 ", %" PRId64,
	                rounds, most, total, row->rounds(shape), row->blocks(shape),
	                row->total(shape));
}

/* a is over for rank r's next instance but W before b of that instance begins: some rank has ended
 * with a behind it, and b knows that this rank has begun again. */
static bool
ordered_by_messages(const struct memory *m, uint32_t a, uint32_t b)
{
	bool over = false;

	for (int r = 0; r < m->g->size && !over; r++)
		over = graph_begun(m->g, r, m->touch[b].access.op) &&
		       graph_over_at_end(m->g, m->touch[a].access, r);
	return over;
}

/* For each block the first access of an instance against the last ones of the one before: the
 * others are ordered behind and before those. */
static bool
tmp_unasked(const struct memory *m)
{
	for (int r = 0; r < m->g->size; r++)
		for (uint32_t b = 0; b < m->part[r].plan->count[TMP]; b++) {
			const struct cell *c = &m->cell[m->part[r].at[TMP] + b];

			if (c->first == NONE || m->touch[c->first].access.kind != LANDS)
				continue;
			if (!ordered_by_messages(m, c->writer, c->first))
				return false;
			for (uint32_t i = c->readers; i != NONE; i = m->touch[i].next)
				if (!ordered_by_messages(m, i, c->first))
					return false;
		}
	return true;
}

/* ---- Life ---- */

/* Where each rank's buffers begin; in place, IN and OUT begin together. */
static uint32_t
lay_out(struct memory *m, struct plan *const *plan)
{
	uint32_t n = 0;

	for (int r = 0; r < m->g->size; r++) {
		struct part *p = &m->part[r];
		const uint32_t *count = plan[r]->count;

		p->plan = plan[r];
		p->at[IN] = p->at[OUT] = n;
		n += count[IN];
		if (!m->alias)
			p->at[OUT] = n;
		n = p->at[OUT] + count[OUT] > n ? p->at[OUT] + count[OUT] : n;
		p->at[TMP] = n;
		n += count[TMP];
		p->view = (struct contract_rank){ .rank = r,
			                          .shape = &m->proof->shape,
			                          .alias = m->alias,
			                          .unordered = m->proof->row->unordered,
			                          .count = count,
			                          .entered = m->begun };
		if (m->alias && m->proof->row->op != COLL_REDUCE_SCATTER && count[IN] != count[OUT])
			m->error = fail(ORIEL_EMISMATCH, "IN has %u blocks, OUT %u: no vectors",
			                count[IN], count[OUT]);
	}
	return n;
}

static uint32_t
count_touches(const struct graph *g)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct op *o = g->op[op];

		if (o->kind != OP_WAIT && o->kind != OP_CALL)
			n += 3 * o->n + 1;
	}
	return n;
}

static void
start(struct memory *m, uint32_t n_blocks)
{
	for (uint32_t i = 0; i < n_blocks; i++) {
		m->value[i] = GARBAGE;
		m->cell[i] = (struct cell){ NONE, NONE, NONE };
	}
	for (int r = 0; r < m->g->size; r++) {
		struct part *p = &m->part[r];

		for (int b = 0; b < MBOX_BUFS; b++)
			if (contract_has(m->proof->row->op, &p->view, (enum plan_buf)b))
				p->view.buf[b] = m->value + p->at[b];
		contract_start(m->proof->row->op, &p->view);
	}
}

/* One placement of the buffers. */
static int
prove_memory(struct proof *proof, const struct graph *g, bool alias)
{
	struct memory m = { .proof = proof, .g = g, .alias = alias };
	uint32_t n_blocks;

	m.part = calloc((size_t)g->size, sizeof(*m.part));
	m.begun = calloc((size_t)g->size, sizeof(*m.begun));
	if (!m.part || !m.begun)
		goto no_memory;
	n_blocks = lay_out(&m, g->plan);
	m.value = malloc(((size_t)n_blocks + 1) * sizeof(*m.value));
	m.cell = malloc(((size_t)n_blocks + 1) * sizeof(*m.cell));
	m.touch = malloc(((size_t)count_touches(g) + 1) * sizeof(*m.touch));
	m.lane_rounds = calloc(g->n_lanes, sizeof(*m.lane_rounds));
	m.batch_rounds = calloc((size_t)g->n_batches + 1, sizeof(*m.batch_rounds));
	if (!m.value || !m.cell || !m.touch || !m.lane_rounds || !m.batch_rounds)
		goto no_memory;
	start(&m, n_blocks);
	for (uint32_t i = 0; i < g->n_ops && !m.error; i++)
		run_op(&m, g->order[i]);
	check_contract(&m);
	check_cost(&m);
	if (!m.error)
		proof->tmp_unasked &= tmp_unasked(&m);
	goto free_memory;

no_memory:
	m.error = fail(ORIEL_ENOMEM, "no memory for the buffers of %d ranks", g->size);
free_memory:
	free(m.part);
	free(m.begun);
	free(m.value);
	free(m.cell);
	free(m.touch);
	free(m.lane_rounds);
	free(m.batch_rounds);
	return m.error;
}

static int
prove(struct proof *proof, struct plan *const *plan)
{
	struct graph g;
	int rc = graph_make(&g, plan, proof->shape.size);

	proof->tmp_unasked = true;
	if (!rc) {
		rc = prove_memory(proof, &g, false);
		if (!rc && contract_can_alias(proof->row->op))
			rc = prove_memory(proof, &g, true);
		graph_free(&g);
	}
	if (rc)
		fail_in(rc, "%s(%d), %d ranks, root %d, node %d", proof->row->program.name,
		        proof->shape.arg, proof->shape.size, proof->shape.root, proof->shape.node);
	return rc;
}

int
proof_run(struct proof *proof)
{
	int size = proof->shape.size, rc = 0;
	struct plan **plan;

	if (proof->plan)
		return prove(proof, proof->plan);
	plan = calloc((size_t)size, sizeof(*plan));
	if (!plan)
		return fail(ORIEL_ENOMEM, "no memory for %d plans", size);
	for (int r = 0; r < size && !rc; r++)
		rc = plan_build(&proof->row->program, &proof->shape, r, &plan[r]);
	if (!rc)
		rc = prove(proof, plan);
	for (int r = 0; r < size; r++)
		plan_free(plan[r]);
	free(plan);
	return rc;
}
