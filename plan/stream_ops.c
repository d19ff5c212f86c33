/*
 * stream_ops.c - the ops of a plan as work of a stream.
 */
#ifdef HAVE_CUDA_HEADERS
#include "plan/stream_impl.h"

/* ---- Cells ---- */

static int
write_word(const struct stream_call *sc, CUdeviceptr at, uint64_t value)
{
	return gpu_check(CU(cuStreamWriteValue64)(sc->s, at, value, 0), "cuStreamWriteValue64");
}

static int
wait_word(const struct stream_call *sc, CUdeviceptr at, uint64_t value)
{
	return gpu_check(CU(cuStreamWaitValue64)(sc->s, at, value, CU_STREAM_WAIT_VALUE_GEQ),
	                 "cuStreamWaitValue64");
}

#define CELL(sc, dev, name)                                                                        \
	((dev) + ((sc)->captured ? offsetof(struct stream_cells, captured_##name)                  \
	                         : offsetof(struct stream_cells, name)))

static uint64_t
cell_value(const struct stream_call *sc, uint64_t step)
{
	return sc->captured ? step : sc->number << STREAM_STEP_BITS | step;
}

/* To those that write to this rank. Behind all that the stream did before: it no longer uses the
 * buffers otherwise. */
static int
say_ready(const struct stream_call *sc)
{
	const struct plan *plan = sc->l->plan;
	int rc = 0;

	for (uint32_t e = 0; e < plan->n_edges && !rc; e++)
		if (plan->edges[e].expect)
			rc = write_word(sc, CELL(sc, sc->l->chan[e]->dev_out, ready),
			                cell_value(sc, sc->captured ? 1 : 0));
	return rc;
}

static int
await_ready(const struct stream_call *sc, uint32_t edge)
{
	struct stream_edge *e = &sc->edge[edge];
	CUdeviceptr cell = CELL(sc, sc->l->chan[edge]->dev_in, ready);
	int rc;

	if (e->may_put)
		return 0;
	e->may_put = true;
	rc = wait_word(sc, cell, cell_value(sc, sc->captured ? 1 : 0));
	return rc || !sc->captured ? rc : write_word(sc, cell, 0);
}

static int
end_batch(const struct stream_call *sc, uint32_t edge)
{
	uint32_t n = ++sc->edge[edge].batches;

	return write_word(sc, CELL(sc, sc->l->chan[edge]->dev_out, signal), cell_value(sc, n));
}

/* So that the next replay finds what it expects. */
static int
take_back(const struct stream_call *sc)
{
	const struct plan *plan = sc->l->plan;
	int rc = 0;

	for (uint32_t e = 0; sc->captured && e < plan->n_edges && !rc; e++)
		if (plan->edges[e].expect)
			rc = write_word(sc, CELL(sc, sc->l->chan[e]->dev_in, signal), 0);
	return rc;
}

/* ---- Bytes ---- */

static int
copy(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n)
{
	if (to == from || !n)
		return 0;
	return gpu_check(CU(cuMemcpyAsync)(to, from, n, s), "copying %zu bytes", n);
}

static CUdeviceptr
own(const struct launch *l, unsigned buf)
{
	return (CUdeviceptr)(uintptr_t)l->base[buf];
}

/* From this rank's op->src to op->dst at base, piece by piece where one of them wraps. */
static int
move(const struct stream_call *sc, const struct op *op, CUdeviceptr base)
{
	const struct launch *l = sc->l;
	size_t src_size = l->size[op->src], dst_size = l->size[op->dst];
	size_t from = wrapped(block_off(l, op->src, op->j), src_size);
	size_t to = wrapped(block_off(l, op->dst, op->i), dst_size);
	size_t left = op_len(l, op), n;
	int rc = 0;

	for (; left && !rc; left -= n) {
		n = left < src_size - from ? left : src_size - from;
		n = n < dst_size - to ? n : dst_size - to;
		rc = copy(sc->s, base + to, own(l, op->src) + from, n);
		from = wrapped(from + n, src_size);
		to = wrapped(to + n, dst_size);
	}
	return rc;
}

static int
put(const struct stream_call *sc, const struct op *op)
{
	int rc = await_ready(sc, op->edge);

	if (!rc && op->kind == OP_PUT && op_len(sc->l, op)) {
		CUdeviceptr base = sc->edge[op->edge].base[op->dst];

		rc = base ? move(sc, op, base)
		          : fail(ORIEL_EMISMATCH, "%s: rank %d has told of no buffer to put into",
		                 sc->l->plan->program->name, sc->l->chan[op->edge]->rank);
	}
	if (!rc && (op->kind == OP_SIGNAL || op->last))
		rc = end_batch(sc, op->edge);
	return rc;
}

static int
run_op(const struct stream_call *sc, const struct op *op)
{
	switch (op->kind) {
	case OP_PUT:
	case OP_SIGNAL:
		return put(sc, op);
	case OP_WAIT:
		return wait_word(sc, CELL(sc, sc->l->chan[op->edge]->dev_in, signal),
		                 cell_value(sc, op->n));
	case OP_COPY:
		return move(sc, op, own(sc->l, op->dst));
	case OP_REDUCE:
	case OP_FOLD:
		return stream_combine(sc, op);
	case OP_CALL:
		return op->fn(sc->l->binding->arg, (int)op->i, (int)op->n);
	default:
		return 0; /* a stream's sources are free when it has come to the end */
	}
}

/* ---- All of them ---- */

/* The op that the program appended first, of those that are left. */
static const struct op *
next_op(const struct plan *plan, uint32_t at[MBOX_QUEUES])
{
	const struct op *first = NULL;
	unsigned of = 0;

	for (unsigned k = 0; k < MBOX_QUEUES; k++) {
		const struct op *op = plan->queue[k].ops + at[k];

		if (at[k] < plan->queue[k].n && (!first || op->appended < first->appended)) {
			first = op;
			of = k;
		}
	}
	at[of]++;
	return first;
}

static int
copy_own(const struct stream_call *sc, CUstream s)
{
	const struct launch *l = sc->l;
	const struct binding *b = l->binding;

	return copy(s, own(l, OUT) + block_off(l, OUT, b->own_out),
	            own(l, IN) + block_off(l, IN, b->own_in), l->block);
}

/* Local copies take multiprocessors and the memory's time: beside the puts, on a stream of ours. */
static int
fork_own_block(const struct stream_call *sc)
{
	struct stream_state *st = sc->st;
	CUstream side = st->g->stream[1];
	int rc;

	rc = gpu_check(CU(cuEventRecord)(st->fork, sc->s), "cuEventRecord");
	if (!rc)
		rc = gpu_check(CU(cuStreamWaitEvent)(side, st->fork, 0), "cuStreamWaitEvent");
	if (!rc)
		rc = copy_own(sc, side);
	if (!rc)
		rc = gpu_check(CU(cuEventRecord)(st->join, side), "cuEventRecord");
	return rc;
}

/* Whether ops may read or write the own block where it is copied to. */
static bool
is_alone(const struct plan *plan, uint32_t own)
{
	for (unsigned k = 0; k < MBOX_QUEUES; k++)
		for (uint32_t i = 0; i < plan->queue[k].n; i++) {
			const struct op *op = &plan->queue[k].ops[i];

			if (op->kind == OP_PUT && op->src == OUT && own - op->j < op->n)
				return false;
			if (op->kind > OP_WAIT && op->kind != OP_FLUSH)
				return false;
		}
	return true;
}

static int
own_block(const struct stream_call *sc, bool *forked)
{
	const struct launch *l = sc->l;
	const struct binding *b = l->binding;

	if (!b->own)
		return 0;
	if (is_alone(l->plan, b->own_out)) {
		*forked = true;
		return fork_own_block(sc);
	}
	return copy_own(sc, sc->s);
}

int
stream_enqueue(struct stream_call *sc)
{
	uint32_t at[MBOX_QUEUES] = { 0 };
	const struct op *op;
	bool forked = false;
	int rc = say_ready(sc);

	if (!rc)
		rc = own_block(sc, &forked);
	while (!rc && (op = next_op(sc->l->plan, at)))
		rc = run_op(sc, op);
	if (!rc && forked)
		rc = gpu_check(CU(cuStreamWaitEvent)(sc->s, sc->st->join, 0), "cuStreamWaitEvent");
	if (!rc && sc->l->binding->finish)
		rc = stream_finish(sc);
	return rc ? rc : take_back(sc);
}
#endif
