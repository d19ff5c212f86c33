/*
 * on_stream.c - a collective on a GPU's stream, between its public function and its
 * plan.
 */
#include "coll/call.h"
#include "plan/stream_short.h"

static enum short_mode
mode_of(enum coll_op op)
{
	switch (op) {
	case COLL_BARRIER:
	case COLL_ALLGATHER:
		return SHORT_GATHER;
	case COLL_ALLTOALL:
		return SHORT_ALLTOALL;
	case COLL_ALLREDUCE:
		return SHORT_REDUCE;
	default:
		return SHORT_NO;
	}
}

bool
coll_short_op(enum coll_op op)
{
	return mode_of(op) != SHORT_NO;
}

/* One kernel, if the call is short and of a kind that it knows. */
static bool
as_one_kernel(const struct coll_call *c, struct short_call *k)
{
	const struct binding *b = &c->b;
	size_t block = c->measure;

	*k = (struct short_call){ .mode = mode_of(c->op),
		                  .in = b->buf[IN],
		                  .out = b->buf[OUT],
		                  .bytes = block,
		                  .in_stride = block,
		                  .out_stride = block };
	if (c->op == COLL_ALLGATHER && !k->in)
		k->in = (char *)k->out + (size_t)c->comm->rank * block;
	k->type = reduce_salt_type(b->salt);
	k->op = (int)reduce_salt_op(b->salt);
	return k->mode != SHORT_NO && !stream_short_unfit(c->comm, block);
}

static int
run(struct coll_call *c, struct CUstream_st *stream)
{
	struct short_call k;
	struct recent *r;
	int rc;

	if (as_one_kernel(c, &k))
		return stream_short_run(c->comm, &k, stream);
	c->flags |= SELECT_STREAM;
	rc = coll_choose(c, &r);
	return rc ? rc : stream_run(c->comm, r->inst, &c->b, stream);
}

/* What all ranks see alike, and so before the call begins: no communicator fails for it. */
static int
check_able(const struct coll_call *c)
{
	const char *name = coll_kinds[c->op].name;

	if (c->b.ragged)
		return fail(ORIEL_ENOTSUP, "%s: blocks that differ in size", name);
	if (c->stage)
		return fail(ORIEL_ENOTSUP, "%s in place", name);
	if (c->b.reduce && reduce_salt_op(c->b.salt) == REDUCE_USERS)
		return fail(ORIEL_ENOTSUP, "%s: an operation of the user's", name);
	return 0;
}

int
coll_run_on_stream(struct coll_call *c, int rc, struct CUstream_st *stream)
{
	if (!rc)
		rc = check_able(c);
	if (rc)
		goto forget;
	rc = stream_prepare(c->comm);
	if (!rc)
		rc = comm_call_begin(c->comm);
	if (rc)
		goto forget;
	rc = run(c, stream);
	comm_call_end(c->comm);
forget:
	coll_forget(c);
	return rc ? fail_in(rc, "%s on a stream", coll_kinds[c->op].name) : 0;
}

/* ---- Blocking calls on device memory ---- */

bool
coll_in_gpu(const struct coll_call *c)
{
	const struct ragged *r = c->b.ragged;
	const oriel_ctx *ctx = c->comm->ctx;

	if (r)
		return stream_holds(ctx, r->in.base) || stream_holds(ctx, r->out.base);
	return stream_holds(ctx, c->b.buf[IN]) || stream_holds(ctx, c->b.buf[OUT]);
}

int
coll_run_in_gpu(struct coll_call *c)
{
	oriel_comm *comm = c->comm;
	struct CUstream_st *own = stream_own(comm->ctx);
	int rc = coll_run_on_stream(c, 0, own);

	return rc ? rc : stream_wait(comm, own);
}
