#include "sim/blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PART (-1)

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
must_be_over(struct blocks *m, uint32_t touch, struct access then, int rank, unsigned buf,
             uint32_t block)
{
	static const char *const verb[] = { "reads", "writes", "reads", "writes" };
	struct access first = m->touch[touch].access;
	char a[120], b[120];

	if (first.op == then.op || graph_over(m->g, first, then.op) || m->error)
		return;
	graph_op_text(m->g, first.op, a, sizeof(a));
	graph_op_text(m->g, then.op, b, sizeof(b));
	m->error =
	        fail(ORIEL_EMISMATCH, "%s, %s[%u] of rank %d: %s %s it and %s %s it, in no order",
	             rule(first.kind, then.kind), buf_name[buf], block, rank, a, verb[first.kind],
	             b, verb[then.kind]);
}

/* One access to a block of rank: its place among all blocks. */
static uint32_t
touch(struct blocks *m, uint32_t op, enum access_kind kind, int rank, unsigned buf, uint32_t block)
{
	const struct part *p = &m->part[rank];
	uint32_t at = p->at[buf] + block, i = m->n_touches++;
	struct access now = { op, kind };
	struct cell *c = &m->cell[at];
	char text[120];

	if (!contract_has(m->row->op, &p->view, (enum plan_buf)buf) && !m->error) {
		graph_op_text(m->g, op, text, sizeof(text));
		m->error =
		        fail(ORIEL_EMISMATCH, "rank %d has no %s: %s", rank, buf_name[buf], text);
	}
	if (c->writer != NEVER)
		must_be_over(m, c->writer, now, rank, buf, block);
	m->touch[i] = (struct touch){ now, NEVER };
	if (c->first == NEVER)
		c->first = i;
	if (kind == READS || kind == SENDS) {
		m->touch[i].next = c->readers;
		c->readers = i;
		return at;
	}
	for (uint32_t r = c->readers; r != NEVER; r = m->touch[r].next)
		must_be_over(m, r, now, rank, buf, block);
	c->readers = NEVER;
	c->writer = i;
	return at;
}

/* ---- Values ---- */

static void
wrong_length(struct blocks *m, uint32_t op, const char *what, int a, int b)
{
	char text[120];

	if (m->odd[0])
		return;
	graph_op_text(m->g, op, text, sizeof(text));
	snprintf(m->odd, sizeof(m->odd), "%s: %s: part %d, part %d", text, what, a, b);
}

static int
part_of(const struct blocks *m, const struct part *p, unsigned buf, uint32_t block)
{
	if (buf == TMP)
		return m->held[p->at[TMP] + block];
	return contract_part(m->row->op, &p->view, (enum plan_buf)buf, (int)block);
}

static struct value
read_block(struct blocks *m, uint32_t op, enum access_kind kind, int rank, unsigned buf,
           uint32_t block)
{
	const struct part *p = &m->part[rank];
	uint32_t at;
	int part;

	block %= p->plan->count[buf];
	at = touch(m, op, kind, rank, buf, block);
	part = part_of(m, p, buf, block);
	if (buf == TMP && !m->row->whole && !contract_knows(m->row->op, &p->view, part))
		wrong_length(m, op, "the rank does not know how long this is", part, part);
	return (struct value){ m->bits[at], m->rounded[at], part };
}

static void
write_block(struct blocks *m, uint32_t op, enum access_kind kind, int rank, unsigned buf,
            uint32_t block, struct value value)
{
	const struct part *p = &m->part[rank];
	uint32_t at;

	block %= p->plan->count[buf];
	at = touch(m, op, kind, rank, buf, block);
	if (buf == TMP)
		m->held[at] = value.part;
	else if (!m->row->whole && part_of(m, p, buf, block) != value.part)
		wrong_length(m, op, "a block goes where one of another length belongs", value.part,
		             part_of(m, p, buf, block));
	m->bits[at] = value.bits;
	m->rounded[at] = value.rounded;
}

static struct value
combine(struct blocks *m, uint32_t op, struct value a, struct value b)
{
	if (a.part != b.part && !m->row->whole)
		wrong_length(m, op, "blocks of different lengths are combined", a.part, b.part);
	a.bits = contract_combine(m->row->op, m->row->unordered, a.bits, b.bits);
	a.rounded = contract_round(m->row->unordered, a.rounded, b.rounded);
	return a;
}

/* ---- What ops do ---- */

static void
run_put(struct blocks *m, uint32_t op, const struct op *o, int rank)
{
	int peer = m->part[rank].plan->edges[o->edge].rank;

	for (uint32_t b = 0; b < o->n; b++)
		write_block(m, op, LANDS, peer, o->dst, o->i + b,
		            read_block(m, op, SENDS, rank, o->src, o->j + b));
	m->part[rank].sent += o->n;
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
check_operands(struct blocks *m, uint32_t op, const struct op *o, const struct part *p)
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
run_local(struct blocks *m, uint32_t op, const struct op *o, int rank)
{
	const struct part *p = &m->part[rank];

	if (o->kind == OP_COPY && p->at[o->dst] == p->at[o->src] && o->i == o->j)
		return; /* onto itself, in place: nothing changes */
	check_operands(m, op, o, p);
	for (uint32_t b = 0; b < o->n; b++) {
		struct value value = read_block(m, op, READS, rank, o->src, o->j + b);

		if (o->kind == OP_REDUCE)
			value = combine(m, op, value,
			                read_block(m, op, READS, rank, o->src2, o->k + b));
		write_block(m, op, WRITES, rank, o->dst, o->i + b, value);
	}
}

static void
run_fold(struct blocks *m, uint32_t op, const struct op *o, int rank)
{
	struct value value = read_block(m, op, READS, rank, o->src, o->j);

	check_operands(m, op, o, &m->part[rank]);
	for (uint32_t b = 1; b < o->n; b++)
		value = combine(m, op, value, read_block(m, op, READS, rank, o->src, o->j + b));
	write_block(m, op, WRITES, rank, o->dst, o->i, value);
}

int
blocks_run(struct blocks *m)
{
	for (uint32_t i = 0; i < m->g->n_ops && !m->error; i++) {
		uint32_t op = m->g->order[i];
		const struct op *o = m->g->op[op];
		int rank = graph_rank(m->g, op);

		switch ((enum op_kind)o->kind) {
		case OP_PUT:
			run_put(m, op, o, rank);
			break;
		case OP_COPY:
		case OP_REDUCE:
			run_local(m, op, o, rank);
			break;
		case OP_FOLD:
			run_fold(m, op, o, rank);
			break;
		case OP_SIGNAL: /* Order only: the graph has it. */
		case OP_WAIT:
		case OP_FLUSH:
		case OP_CALL: /* Its memory is its own. */
		case OP_KINDS:
			break;
		}
	}
	if (!m->error && m->odd[0])
		m->error = fail(ORIEL_EMISMATCH, "%s", m->odd);
	return m->error;
}

/* ---- Life ---- */

/* Where each rank's buffers begin; in place, IN and OUT begin together. */
static uint32_t
lay_out(struct blocks *m, const struct shape *shape, bool alias)
{
	uint32_t n = 0;

	for (int r = 0; r < shape->size; r++) {
		struct part *p = &m->part[r];
		const uint32_t *count = m->g->plan[r]->count;

		p->plan = m->g->plan[r];
		p->view = (struct contract_rank){ .rank = r,
			                          .shape = shape,
			                          .alias = alias,
			                          .unordered = m->row->unordered,
			                          .count = count,
			                          .entered = m->begun };
		p->at[IN] = p->at[OUT] = n;
		n += count[IN];
		if (!contract_aliases(m->row->op, &p->view))
			p->at[OUT] = n;
		else if (m->row->op != COLL_REDUCE_SCATTER && count[IN] != count[OUT])
			m->error = fail(ORIEL_EMISMATCH, "IN has %u blocks, OUT %u: no vectors",
			                count[IN], count[OUT]);
		n = p->at[OUT] + count[OUT] > n ? p->at[OUT] + count[OUT] : n;
		p->at[TMP] = n;
		n += count[TMP];
	}
	return n;
}

static uint32_t
count_touches(const struct graph *g)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < g->n_ops; op++)
		if (g->op[op]->kind != OP_WAIT && g->op[op]->kind != OP_CALL)
			n += 3 * g->op[op]->n + 1;
	return n;
}

static void
fill(struct blocks *m)
{
	for (uint32_t i = 0; i < m->n_blocks; i++) {
		m->bits[i] = CONTRACT_GARBAGE;
		m->held[i] = NO_PART;
		m->cell[i] = (struct cell){ NEVER, NEVER, NEVER };
	}
	for (int r = 0; r < m->g->size; r++) {
		struct part *p = &m->part[r];

		for (int b = 0; b < MBOX_BUFS; b++)
			p->view.buf[b] = m->bits + p->at[b];
		contract_start(m->row->op, &p->view);
	}
	memcpy(m->rounded, m->bits, m->n_blocks * sizeof(*m->rounded));
}

int
blocks_make(struct blocks *m, const struct coll_row *row, const struct shape *shape,
            const struct graph *g, bool alias)
{
	size_t n_blocks;

	*m = (struct blocks){ .row = row, .g = g };
	m->part = calloc((size_t)g->size, sizeof(*m->part));
	m->begun = calloc((size_t)g->size, sizeof(*m->begun));
	if (!m->part || !m->begun)
		goto no_memory;
	n_blocks = lay_out(m, shape, alias);
	m->bits = malloc((n_blocks + 1) * sizeof(*m->bits));
	m->rounded = malloc((n_blocks + 1) * sizeof(*m->rounded));
	m->held = malloc((n_blocks + 1) * sizeof(*m->held));
	m->cell = malloc((n_blocks + 1) * sizeof(*m->cell));
	m->touch = malloc(((size_t)count_touches(g) + 1) * sizeof(*m->touch));
	if (!m->bits || !m->rounded || !m->held || !m->cell || !m->touch)
		goto no_memory;
	m->n_blocks = (uint32_t)n_blocks;
	fill(m);
	if (m->error)
		blocks_free(m);
	return m->error;

no_memory:
	blocks_free(m);
	return fail(ORIEL_ENOMEM, "no memory for the buffers of %d ranks", g->size);
}

void
blocks_free(struct blocks *m)
{
	free(m->part);
	free(m->begun);
	free(m->bits);
	free(m->rounded);
	free(m->held);
	free(m->cell);
	free(m->touch);
	m->part = NULL;
	m->begun = NULL;
	m->bits = m->rounded = NULL;
	m->held = NULL;
	m->cell = NULL;
	m->touch = NULL;
}
