/*
 * on_stream.c - a collective on a GPU's stream, between its public function and its
 * plan.
 */
#include "coll/call.h"
#include "plan/stream.h"

int
coll_run_on_stream(struct coll_call *c, int rc, struct CUstream_st *stream)
{
	struct recent *r;

	if (rc)
		goto forget;
	if (c->stage) {
		rc = fail(ORIEL_ENOTSUP, "%s in place, on a stream", coll_kinds[c->op].name);
		goto forget;
	}
	rc = comm_call_begin(c->comm);
	if (rc)
		goto forget;
	c->flags |= SELECT_STREAM;
	rc = coll_choose(c, &r);
	if (!rc)
		rc = stream_run(c->comm, r->inst, &c->b, stream);
	comm_call_end(c->comm);
forget:
	coll_forget(c);
	return rc ? fail_in(rc, "%s on a stream", coll_kinds[c->op].name) : 0;
}
