#include "coll/call.h"

#include "base/copy.h"
#include "coll/table.h"
#include "rma/req.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct coll_req {
	oriel_req req;
	struct coll_call call;
	struct job job;
	bool persistent;
};

/* ---- Which plan ---- */

static __attribute__((noinline)) int
choose_anew(struct coll_call *c, struct recent *r)
{
	struct coll_choice choice;
	struct instance *inst;
	struct shape shape;
	int rc;

	coll_shape(c->comm, c->root, &shape);
	rc = select_choose(c->comm->ctx->selection, c->op, c->measure, c->flags, &shape, &choice);
	if (rc)
		return fail_in(rc, "%s", coll_kinds[c->op].name);
	shape.arg = choice.arg;
	rc = instance_get(c->comm, &choice.row->program, &shape, &inst);
	if (rc)
		return launch_fail_unmade(c->comm, ++c->comm->n_calls, -1, rc);
	instance_pin(inst);
	if (r->inst)
		instance_unpin(r->inst);
	*r = (struct recent){ .inst = inst,
		              .least = choice.least,
		              .most = choice.most,
		              .flags = c->flags,
		              .root = c->root,
		              .chunk = c->b.ragged ? 0 : choice.chunk };
	return 0;
}

static int
make_recent(struct plan_state *s)
{
	s->recent = calloc(COLL_OPS, sizeof(struct recent));
	return s->recent ? 0 : fail(ORIEL_ENOMEM, "no memory for choices of algorithms");
}

/* The plan's parts decide how a vector is cut. */
static inline int
choose(struct coll_call *c, struct recent **out)
{
	struct plan_state *s;
	struct recent *r;
	int rc = plan_state_get(c->comm, &s);

	if (likely(!rc) && unlikely(!s->recent))
		rc = make_recent(s);
	if (unlikely(rc))
		return rc;
	r = (struct recent *)s->recent + c->op;
	if (unlikely(!r->inst || c->measure < r->least || c->measure > r->most ||
	             r->flags != c->flags || r->root != c->root))
		rc = choose_anew(c, r);
	*out = r;
	if (coll_kinds[c->op].vector && likely(!rc))
		c->b.block = vector_block(c->b.bytes, plan_parts(r->inst->plan), c->align);
	return rc;
}

int
coll_choose(struct coll_call *c, struct recent **out)
{
	return choose(c, out);
}

static void
fill_job(struct job *j, struct coll_call *c, const struct recent *r)
{
	j->comm = c->comm;
	j->inst = r->inst;
	j->binding = c->b;
	j->vector = coll_kinds[c->op].vector;
	j->align = c->align;
	j->chunk = r->chunk / c->align * c->align;
	if (r->chunk && !j->chunk)
		j->chunk = c->align;
	job_prepare(j);
}

static void
stage(const struct coll_call *c)
{
	if (c->stage)
		copy_bytes(c->stage, c->b.buf[OUT], c->stage_len);
}

/* What the description holds. */
void
coll_forget(struct coll_call *c)
{
	free(c->lens);
	c->lens = NULL;
	if (c->stage)
		pool_free(c->comm->ctx->pool, c->stage);
	c->stage = NULL;
}

/* ---- The blocking form ---- */

static __attribute__((noinline)) int
run_job(struct coll_call *c, const struct recent *r)
{
	struct job j;

	memset(&j, 0, sizeof(j));
	fill_job(&j, c, r);
	return job_run(&j);
}

bool
coll_run_again(oriel_comm *comm, struct recent *r, const struct coll_key *key, int *rc)
{
	bool done = false;

	if (unlikely(comm_call_begin(comm)))
		return false;
	/* Only now nobody else's call can take its place. */
	if (likely(r->again && coll_is_key(&r->key, key))) {
		done = quick_call(comm, r->inst, &r->b, rc);
		if (unlikely(!done && jobs_idle(comm))) {
			*rc = call_run(comm, r->inst, &r->b);
			done = true;
		}
	}
	comm_call_end(comm);
	return done;
}

/* A short call that comes again and again is kept as it is, but for the user's operations: the same
 * address may be another one by then. */
static inline void
remember(struct recent *r, const struct coll_call *c, const struct coll_key *key)
{
	if (coll_is_key(&r->key, key) && !r->chunk && !c->b.ragged && !c->stage && !r->again &&
	    r->inst->plan->program->n_queues == 1 && !c->b.finish &&
	    (uintptr_t)key->op <= (uintptr_t)ORIEL_XOR) {
		r->b = c->b;
		r->b.id = ++c->comm->plan->bindings;
		r->reducer = c->reducer;
		r->b.reduce = c->b.reduce ? &r->reducer : NULL;
		r->again = true;
		return;
	}
	r->again = false;
	r->key = *key;
}

int
coll_run(struct coll_call *c, int rc, const struct coll_key *key)
{
	struct recent *r;

	if (likely(!rc) && unlikely(c->comm->ctx->gpu) && coll_in_gpu(c))
		return coll_run_in_gpu(c);
	if (likely(!rc))
		rc = comm_call_begin(c->comm);
	if (unlikely(rc))
		goto forget;
	rc = choose(c, &r);
	if (unlikely(rc))
		goto end;
	if (unlikely(c->stage))
		stage(c);
	if (likely(!r->chunk && jobs_idle(c->comm)))
		rc = call_run(c->comm, r->inst, &c->b);
	else
		rc = run_job(c, r);
	if (key && likely(!rc))
		remember(r, c, key);
end:
	comm_call_end(c->comm);
forget:
	if (unlikely(c->stage || c->lens))
		coll_forget(c);
	return rc;
}

/* ---- Requests ---- */

static struct coll_req *
of(const oriel_req *req)
{
	return container_of(req, struct coll_req, req);
}

static bool
req_ready(const oriel_req *req)
{
	const struct coll_req *r = of(req);

	return req->settled || job_done(&r->job);
}

static int
req_doomed(oriel_req *req)
{
	job_watch(&of(req)->job);
	return 0;
}

static bool
req_run(oriel_req *req)
{
	return job_run_solo(&of(req)->job);
}

static void
req_share(oriel_req *req)
{
	tasks_turn(req->ctx);
}

static void
free_req(oriel_req **req)
{
	struct coll_req *r = of(*req);

	instance_unpin(r->job.inst);
	coll_forget(&r->call);
	comm_put(r->call.comm);
	req_bury(req);
}

static int
req_done(oriel_req **req)
{
	struct coll_req *r = of(*req);
	int rc = r->req.settled ? 0 : job_result(&r->job);

	r->req.settled = true;
	if (!r->persistent)
		free_req(req);
	return rc;
}

static inline int
begin(struct coll_req *r)
{
	int rc = comm_call_begin(r->call.comm);
	enum job_state state;

	if (unlikely(rc))
		return rc;
	if (unlikely(r->call.stage))
		stage(&r->call);
	state = job_quick(&r->job);
	r->req.settled = state == JOB_COMPLETE;
	if (unlikely(state == JOB_NOT_BEGUN))
		job_start(&r->job);
	comm_call_end(r->call.comm);
	return 0;
}

static int
req_start(oriel_req *req)
{
	struct coll_req *r = of(req);
	int rc;

	if (unlikely(!req->settled && !job_done(&r->job)))
		return req_running(req);
	/* The context was looked at by the caller. */
	rc = likely(r->call.comm->magic == COMM_MAGIC) ? 0 : comm_enter(r->call.comm);
	return unlikely(rc) ? rc : begin(r);
}

static int
req_free(oriel_req **req)
{
	free_req(req);
	return 0;
}

static void
req_name(const oriel_req *req, char *text, size_t cap)
{
	const struct coll_req *r = of(req);

	snprintf(text, cap, "%s of %zu bytes, call %llu of communicator %016llx",
	         coll_kinds[r->call.op].name, r->call.measure, (unsigned long long)r->job.first,
	         (unsigned long long)r->call.comm->id);
}

static const struct req_ops once_ops = { .ready = req_ready,
	                                 .run = req_run,
	                                 .share = req_share,
	                                 .doomed = req_doomed,
	                                 .done = req_done,
	                                 .name = req_name };
static const struct req_ops again_ops = { .ready = req_ready,
	                                  .run = req_run,
	                                  .share = req_share,
	                                  .doomed = req_doomed,
	                                  .done = req_done,
	                                  .start = req_start,
	                                  .free = req_free,
	                                  .name = req_name };

int
coll_req_make(struct coll_req **out, struct coll_call **c)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return fail(ORIEL_ENOMEM, "no memory for a request");
	*c = &(*out)->call;
	return 0;
}

int
coll_req_go(struct coll_req *r, int rc, bool persistent, oriel_req **req)
{
	struct recent *recent;
	oriel_comm *comm = r->call.comm;

	if (!rc && !req)
		rc = fail(ORIEL_EINVAL, "%s: req is NULL", coll_kinds[r->call.op].name);
	if (!rc && unlikely(comm->ctx->gpu) && coll_in_gpu(&r->call))
		rc = fail(ORIEL_ENOTSUP,
		          "%s: a request on device memory; there are the blocking call and the one "
		          "on a stream",
		          coll_kinds[r->call.op].name);
	if (rc)
		goto forget;
	rc = comm_call_begin(comm);
	if (rc)
		goto forget;
	rc = choose(&r->call, &recent);
	if (!rc) {
		fill_job(&r->job, &r->call, recent);
		instance_pin(r->job.inst);
		add_relaxed(&comm->refs, 1);
		if (persistent)
			r->job.binding.id = ++comm->plan->bindings;
	}
	comm_call_end(comm);
	if (rc)
		goto forget;
	req_init(&r->req, comm->ctx, persistent ? &again_ops : &once_ops);
	r->persistent = r->req.settled = persistent;
	*req = &r->req;
	if (persistent)
		return 0;
	rc = begin(r);
	if (rc)
		free_req(req);
	return rc;

forget:
	coll_forget(&r->call);
	free(r);
	return rc;
}

/* ---- Checks ---- */

int
coll_check_root(const struct coll_call *c, int root)
{
	if (root >= 0 && root < c->comm->size)
		return 0;
	return fail(ORIEL_ERANK, "%s: root %d of %d ranks", coll_kinds[c->op].name, root,
	            c->comm->size);
}

int
coll_check_total(const struct coll_call *c, size_t len, size_t *total)
{
	if (likely(!__builtin_mul_overflow(len, (size_t)c->comm->size, total) &&
	           *total <= PTRDIFF_MAX))
		return 0;
	return fail(ORIEL_ERANGE, "%s: %zu bytes times %d ranks", coll_kinds[c->op].name, len,
	            c->comm->size);
}

int
coll_check_overlap(const struct coll_call *c, const void *in, size_t in_len, const void *out,
                   size_t out_len)
{
	uintptr_t i = (uintptr_t)in, o = (uintptr_t)out;

	if (likely(!in_len || !out_len || i >= o + out_len || o >= i + in_len))
		return 0;
	return fail(ORIEL_EINVAL, "%s: in (%p, %zu bytes) overlaps out (%p, %zu bytes)",
	            coll_kinds[c->op].name, in, in_len, out, out_len);
}

int
coll_check_buffer(const struct coll_call *c, const char *name, const void *ptr, size_t len)
{
	if (likely((ptr || !len) && len <= PTRDIFF_MAX))
		return 0;
	if (ptr)
		return fail(ORIEL_ERANGE, "%s: %s has %zu bytes", coll_kinds[c->op].name, name,
		            len);
	return fail(ORIEL_EINVAL, "%s: %s is NULL, and has %zu bytes", coll_kinds[c->op].name, name,
	            len);
}

int
coll_stage(struct coll_call *c, size_t len)
{
	int rc;

	if (!len)
		return 0;
	rc = pool_alloc(c->comm->ctx->pool, len, CACHE_LINE, &c->stage);
	if (rc)
		return fail_in(rc, "%s in place", coll_kinds[c->op].name);
	c->stage_len = len;
	return 0;
}

int
coll_make_table(struct coll_call *c, int n)
{
	c->lens = calloc((size_t)n, 2 * sizeof(size_t));
	if (!c->lens)
		return fail(ORIEL_ENOMEM, "no memory for a table of %d blocks", n);
	c->offs = c->lens + n;
	return 0;
}
