#include "sim/time_impl.h"

static struct runs *
buffer(struct time_sim *s, int rank, unsigned buf)
{
	static const char *const name[MBOX_BUFS] = { "IN", "OUT", "TMP" };

	if (!contract_runs_has(&s->contract, rank, (enum plan_buf)buf))
		time_wrong(s, "%s of rank %d is touched: it has none", name[buf], rank);
	return &s->rank[rank].buf[buf];
}

static bool
read_blocks(struct time_sim *s, int rank, unsigned buf, uint32_t j, uint32_t n, struct runs *list)
{
	return runs_read(buffer(s, rank, buf), s->rank[rank].plan->count[buf], j, n, list);
}

static bool
write_blocks(struct time_sim *s, int rank, unsigned buf, uint32_t i, const struct runs *list)
{
	return runs_copy(buffer(s, rank, buf), s->rank[rank].plan->count[buf], i, list);
}

void
time_load(struct time_sim *s, int rank, const struct op *op, struct runs *data)
{
	uint32_t P = (uint32_t)s->size;
	bool ok = true;

	if (s->call->row->op == COLL_BARRIER)
		ok = runs_read(&s->rank[rank].buf[OUT], P, 0, P, data);
	else if (op->kind == OP_PUT)
		ok = read_blocks(s, rank, op->src, op->j, op->n, data);
	if (!ok)
		time_no_memory(s, "the data");
}

/* A barrier's news adds to what is known. */
void
time_unload(struct time_sim *s, const struct time_message *m)
{
	bool ok = true;

	if (s->call->row->op == COLL_BARRIER) {
		for (uint32_t k = 0; k < m->data.n; k++)
			if (m->data.run[k].rank != RUN_GARBAGE)
				ok &= runs_write(&s->rank[m->to].buf[OUT], m->data.run[k]);
	} else if (m->data.n) {
		ok = write_blocks(s, m->to, m->dst, m->i, &m->data);
	}
	if (!ok)
		time_no_memory(s, "the data");
}

void
time_move(struct time_sim *s, int rank, const struct op *op)
{
	struct runs a = { 0 }, b = { 0 }, c = { 0 };
	bool ok = read_blocks(s, rank, op->src, op->j, op->n, &a);

	if (ok && op->kind == OP_REDUCE) {
		ok = read_blocks(s, rank, op->src2, op->k, op->n, &b) &&
		     runs_combine(s->contract.op, &a, &b, &c);
	} else if (ok && op->kind == OP_FOLD) {
		ok = runs_fold(s->contract.op, &a, &c);
	}
	if (!ok || !write_blocks(s, rank, op->dst, op->i, op->kind == OP_COPY ? &a : &c))
		time_no_memory(s, "the data");
	runs_fini(&a);
	runs_fini(&b);
	runs_fini(&c);
}
