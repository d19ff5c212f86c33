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
 *   follows every batch (1); check_ends looks. So r's results are whole at its end, too.
 * - Every access of f to r's memory begins after r has begun f: r's own do, and what
 *   lands does because the executor asks first (readiness, or the slot's scratch).
 * - Signals of e are all waited for in e (1) and name their call: none is left over.
 * So all of e is over before any of f, and (3) and (4) hold in f as in e. Deadlock
 * is looked for in both forms by sim/order.c. Where r's peers need not ask before
 * they write TMP, because r's messages say enough, tmp_unasked is the result.
 */
#include "sim/proof.h"

#include "sim/blocks.h"
#include "sim/graph.h"

#include <inttypes.h>
#include <stdlib.h>

static int
must_end(const struct blocks *m, uint32_t touch, int rank)
{
	char text[120];

	if (graph_over_at_end(m->g, m->touch[touch].access, rank))
		return 0;
	graph_op_text(m->g, m->touch[touch].access.op, text, sizeof(text));
	return fail(ORIEL_EMISMATCH, "rank %d ends before %s is through with its memory", rank,
	            text);
}

/* Nothing touches a rank's memory after its own end: the last accesses to each block are over. */
static int
check_ends(const struct blocks *m)
{
	int rc = 0;

	for (int r = 0; r < m->g->size; r++) {
		uint32_t end = r + 1 < m->g->size ? m->part[r + 1].at[IN] : m->n_blocks;

		for (uint32_t at = m->part[r].at[IN]; at < end; at++) {
			const struct cell *c = &m->cell[at];

			if (!rc && c->writer != NEVER)
				rc = must_end(m, c->writer, r);
			for (uint32_t i = c->readers; !rc && i != NEVER; i = m->touch[i].next)
				rc = must_end(m, i, r);
		}
	}
	return rc;
}

/* Nobody touches a rank's memory after its own end, so what is there in the end was there then. */
static int
check_contract(const struct blocks *m, bool alias)
{
	char text[200];

	for (int r = 0; r < m->g->size; r++) {
		for (int i = 0; i < m->g->size; i++)
			m->begun[i] = graph_begun_at_end(m->g, i, r);
		if (!contract_holds(m->row->op, &m->part[r].view, text, sizeof(text)))
			return fail(ORIEL_EMISMATCH, "rank %d at its end%s: %s", r,
			            alias ? ", in place" : "", text);
	}
	return 0;
}

/* AllReduce's results are the same bits at all ranks. */
static int
check_rounding(const struct blocks *m)
{
	const struct part *first = &m->part[0];

	for (int r = 1; r < m->g->size && m->row->op == COLL_ALLREDUCE; r++)
		for (uint32_t b = 0; b < first->plan->count[OUT]; b++)
			if (m->rounded[m->part[r].at[OUT] + b] != m->rounded[first->at[OUT] + b])
				return fail(ORIEL_EMISMATCH,
				            "out[%u] of rank %d rounds otherwise than rank 0's", b,
				            r);
	return 0;
}

/* Of all results, for comparison: in place they round as otherwise. */
static uint64_t
hash_results(const struct blocks *m)
{
	uint64_t h = 0;

	for (int r = 0; r < m->g->size; r++)
		for (uint32_t b = 0; b < m->part[r].plan->count[OUT]; b++)
			if (contract_promises(m->row->op, &m->part[r].view, (int)b))
				h = hash_bytes(h, &m->rounded[m->part[r].at[OUT] + b],
				               sizeof(*m->rounded));
	return h;
}

/* ---- Cost ---- */

/* The messages on the longest path; -1: no memory. */
static int64_t
count_rounds(const struct graph *g)
{
	int64_t *lane = calloc(g->n_lanes + (size_t)g->n_batches, sizeof(*lane)), most = -1;
	int64_t *batch = lane + g->n_lanes;

	for (uint32_t i = 0; lane && i < g->n_ops; i++) {
		uint32_t op = g->order[i];
		const struct op *o = g->op[op];
		int64_t *mine = &lane[g->lane[op]];

		if (o->kind == OP_WAIT && o->n) {
			uint32_t last = graph_channel(g, op)->first + o->n - 1;

			*mine = batch[last] > *mine ? batch[last] : *mine;
		}
		if (o->kind <= OP_SIGNAL && o->last)
			batch[g->batch_of[op]] = *mine + 1;
	}
	for (uint32_t l = 0; lane && l < g->n_lanes; l++)
		most = lane[l] > most ? lane[l] : most;
	free(lane);
	return most;
}

static int
check_cost(const struct blocks *m, const struct shape *shape)
{
	const struct coll_row *row = m->row;
	int64_t rounds = count_rounds(m->g), most = 0, total = 0;

	for (int r = 0; r < m->g->size; r++) {
		total += m->part[r].sent;
		most = m->part[r].sent > most ? m->part[r].sent : most;
	}
	if (rounds == row->rounds(shape) && most == row->blocks(shape) &&
	    total == row->total(shape))
		return 0;
	return fail(ORIEL_EMISMATCH,
	            "%" PRId64 " rounds, %" PRId64 " blocks out of a rank, %" PRId64
	            " in all; the row says %" PRId64 ", %" PRId64 ", %" PRId64,
	            rounds, most, total, row->rounds(shape), row->blocks(shape), row->total(shape));
}

/* ---- The next instance in the same TMP ---- */

/* a is over before b of the next instance begins: some rank has ended with a behind it, and b knows
 * that this rank has begun again. */
static bool
ordered_by_messages(const struct blocks *m, uint32_t a, uint32_t b)
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
tmp_unasked(const struct blocks *m)
{
	for (int r = 0; r < m->g->size; r++)
		for (uint32_t b = 0; b < m->part[r].plan->count[TMP]; b++) {
			const struct cell *c = &m->cell[m->part[r].at[TMP] + b];

			if (c->first == NEVER || m->touch[c->first].access.kind != LANDS)
				continue;
			if (!ordered_by_messages(m, c->writer, c->first))
				return false;
			for (uint32_t i = c->readers; i != NEVER; i = m->touch[i].next)
				if (!ordered_by_messages(m, i, c->first))
					return false;
		}
	return true;
}

/* ---- All of it ---- */

/* With one placement of the buffers. */
static int
prove_placed(struct proof *proof, const struct graph *g, bool alias, uint64_t *hash)
{
	struct blocks m;
	int rc = blocks_make(&m, proof->row, &proof->shape, g, alias);

	if (rc)
		return rc;
	rc = blocks_run(&m);
	if (!rc)
		rc = check_ends(&m);
	if (!rc)
		rc = check_contract(&m, alias);
	if (!rc)
		rc = check_rounding(&m);
	if (!rc)
		rc = check_cost(&m, &proof->shape);
	if (!rc)
		proof->tmp_unasked &= tmp_unasked(&m);
	*hash = rc ? 0 : hash_results(&m);
	blocks_free(&m);
	return rc;
}

static int
prove(struct proof *proof, struct plan *const *plan)
{
	uint64_t hash, in_place;
	struct graph g;
	int rc = graph_make(&g, plan, proof->shape.size);

	proof->tmp_unasked = true;
	if (!rc) {
		rc = prove_placed(proof, &g, false, &hash);
		if (!rc && contract_can_alias(proof->row->op)) {
			rc = prove_placed(proof, &g, true, &in_place);
			if (!rc && in_place != hash)
				rc = fail(ORIEL_EMISMATCH, "in place, results round otherwise");
		}
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
