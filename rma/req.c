#include "rma/req.h"

#include "rma/task.h"

#include <stdio.h>

static __attribute__((noinline, cold)) int
req_refused(const oriel_req *req)
{
	if (req->magic != REQ_MAGIC)
		return fail(ORIEL_EHANDLE, "%p is not a live request", (const void *)req);
	return ctx_enter(req->ctx);
}

/* One that is not NULL. */
static inline int
req_look(const oriel_req *req)
{
	if (likely(req->magic == REQ_MAGIC && load_relaxed(req->ctx->alive) && !req->ctx->expelled))
		return 0;
	return req_refused(req);
}

static inline int
req_enter(oriel_req **req)
{
	if (!req)
		return fail(ORIEL_EINVAL, "req is NULL");
	return *req ? req_look(*req) : 0;
}

static inline bool
is_ready(const oriel_req *req)
{
	return !req || req->ops->ready(req);
}

/* The same after some progress, if that is needed. */
static bool
is_ready_now(oriel_req *req)
{
	if (is_ready(req))
		return true;
	if (req->ops->share)
		req->ops->share(req);
	ctx_progress(req->ctx);
	tasks_turn(req->ctx);
	return is_ready(req);
}

static bool
wait_ready(void *arg)
{
	oriel_req *req = arg;

	if (is_ready(req))
		return true;
	tasks_turn(req->ctx);
	return is_ready(req);
}

static int
wait_doomed(void *arg)
{
	oriel_req *req = arg;

	return req->ops->doomed ? req->ops->doomed(req) : 0;
}

/* Until it is ready; it is then finished by the caller. */
static int
wait_for(oriel_req *req, uint64_t deadline)
{
	char name[160];
	int rc;

	if (is_ready(req) || (deadline == ORIEL_FOREVER && req->ops->run && req->ops->run(req)))
		return 0;
	if (req->ops->share)
		req->ops->share(req);
	rc = wait_doomed(req);
	if (!rc)
		rc = ctx_wait(req->ctx, wait_ready, wait_doomed, req, deadline);
	if (rc != ORIEL_ETIMEDOUT)
		return rc;
	req->ops->name(req, name, sizeof(name));
	return fail(rc, "the %s is not complete", name);
}

int
oriel_req_test(oriel_req **req, int *done)
{
	int rc = req_enter(req);

	if (rc)
		return rc;
	if (!done)
		return fail(ORIEL_EINVAL, "done is NULL");
	*done = is_ready_now(*req);
	return *req && *done ? (*req)->ops->done(req) : 0;
}

int
oriel_req_wait(oriel_req **req, uint64_t timeout_ns)
{
	int rc;

	if (unlikely(!req || !*req))
		return req_enter(req);
	rc = req_look(*req);
	if (unlikely(rc))
		return rc;
	if ((*req)->settled)
		return 0;
	rc = wait_for(*req, timeout_ns == ORIEL_FOREVER ? timeout_ns : deadline_after(timeout_ns));
	return rc ? rc : (*req)->ops->done(req);
}

static int
all_enter(size_t n, oriel_req **reqs)
{
	int rc = 0;

	if (n && !reqs)
		return fail(ORIEL_EINVAL, "reqs is NULL and n is %zu", n);
	for (size_t i = 0; i < n && !rc; i++) {
		rc = req_enter(&reqs[i]);
		if (rc)
			fail_in(rc, "request %zu", i);
	}
	return rc;
}

/* All are ready. The first error, with its own detail, which those behind it would overwrite. */
static int
all_done(size_t n, oriel_req **reqs)
{
	char detail[512];
	size_t which = 0;
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int rc = reqs[i] ? reqs[i]->ops->done(&reqs[i]) : 0;

		if (!rc || first)
			continue;
		first = rc;
		which = i;
		snprintf(detail, sizeof(detail), "%s", oriel_detail());
	}
	return first ? fail(first, "request %zu: %s", which, detail) : 0;
}

int
oriel_req_waitall(size_t n, oriel_req **reqs, uint64_t timeout_ns)
{
	uint64_t deadline = deadline_after(timeout_ns);
	int rc = all_enter(n, reqs);

	/* One by one, but whoever waits for one has all go on. */
	for (size_t i = 0; i < n && !rc; i++) {
		rc = reqs[i] ? wait_for(reqs[i], deadline) : 0;
		if (rc)
			fail_in(rc, "request %zu", i);
	}
	return rc ? rc : all_done(n, reqs);
}

int
oriel_req_testall(size_t n, oriel_req **reqs, int *done)
{
	int rc = all_enter(n, reqs);

	if (rc)
		return rc;
	if (!done)
		return fail(ORIEL_EINVAL, "done is NULL");
	for (size_t i = 0; i < n; i++) {
		if (!is_ready_now(reqs[i])) {
			*done = 0;
			return 0;
		}
	}
	*done = 1;
	return all_done(n, reqs);
}

static __attribute__((noinline, cold)) int
not_persistent(const oriel_req *req)
{
	char name[160];

	req->ops->name(req, name, sizeof(name));
	return fail(ORIEL_EINVAL, "the %s is not persistent", name);
}

int
oriel_start(oriel_req *req)
{
	int rc;

	if (unlikely(!req))
		return fail(ORIEL_EHANDLE, "req is NULL");
	rc = req_look(req);
	if (unlikely(rc))
		return rc;
	return likely(req->ops->start != NULL) ? req->ops->start(req) : not_persistent(req);
}

int
req_running(const oriel_req *req)
{
	char name[160];

	req->ops->name(req, name, sizeof(name));
	return fail(ORIEL_EBUSY, "the %s is running", name);
}

int
oriel_req_free(oriel_req **req)
{
	int rc = req_enter(req);

	if (rc || !*req)
		return rc;
	if (!is_ready(*req))
		return req_running(*req);
	if ((*req)->ops->free)
		return (*req)->ops->free(req);
	(*req)->ops->done(req);
	return 0;
}
