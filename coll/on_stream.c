/*
 * on_stream.c - a collective on a GPU's stream, between its public function and its
 * plan.
 */
#include "coll/call.h"
#include "plan/stream_short.h"

#define USERS_OP 255u /* in the salt: see coll/combine.c */

bool
coll_short_op(enum coll_op op)
{
	return op == COLL_BARRIER || op == COLL_ALLGATHER || op == COLL_ALLTOALL ||
	       op == COLL_ALLREDUCE;
}

/* One kernel, if the call is short and of a kind that it knows. */
static bool
as_one_kernel(const struct coll_call *c, struct short_call *k)
{
	const struct binding *b = &c->b;
	size_t block = c->measure;

	*k = (struct short_call){ .mode = SHORT_NO,
		                  .in = b->buf[IN],
		                  .out = b->buf[OUT],
		                  .bytes = block,
		                  .in_stride = block,
		                  .out_stride = block };
	if (c->op == COLL_BARRIER || c->op == COLL_ALLGATHER)
		k->mode = SHORT_GATHER;
	else if (c->op == COLL_ALLTOALL)
		k->mode = SHORT_ALLTOALL;
	/* Users' operations are the host's. */
	else if (c->op == COLL_ALLREDUCE && (b->salt & USERS_OP) != USERS_OP)
		k->mode = SHORT_REDUCE;
	if (c->op == COLL_ALLGATHER && !k->in)
		k->in = (char *)k->out + (size_t)c->comm->rank * block;
	k->type = (int)(b->salt >> 8);
	k->op = (int)(b->salt & USERS_OP);
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
	if (coll_kinds[c->op].reduces && c->b.reduce && (c->b.salt & USERS_OP) == USERS_OP)
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
