#include "rma/req.h"

#include "rma/task.h"
#include "test/rma/alone.h"

#include <stdio.h>
#include <string.h>

/* A request that a task brings on, one step a turn. */
struct steps {
	struct oriel_req req;
	struct task task;
	int left, result, starts, frees;
	bool persistent;
};

static bool
steps_ready(const oriel_req *req)
{
	return load_relaxed(&((const struct steps *)req)->left) == 0;
}

static bool
steps_advance(struct task *t)
{
	struct steps *s = container_of(t, struct steps, task);

	if (s->left)
		store_relaxed(&s->left, s->left - 1);
	return s->left > 0;
}

static int
steps_done(oriel_req **req)
{
	struct steps *s = (struct steps *)*req;

	s->frees++;
	if (!s->persistent)
		*req = NULL;
	return s->result ? fail(s->result, "step %d", s->result) : 0;
}

static int
steps_start(oriel_req *req)
{
	struct steps *s = (struct steps *)req;

	if (load_relaxed(&s->left))
		return req_running(req);
	s->starts++;
	store_relaxed(&s->left, 3);
	return 0;
}

static int
steps_free(oriel_req **req)
{
	*req = NULL;
	return 0;
}

static void
steps_name(const oriel_req *req, char *text, size_t cap)
{
	(void)req;
	snprintf(text, cap, "walk");
}

static const struct req_ops once = { .ready = steps_ready, .done = steps_done, .name = steps_name };
static const struct req_ops again = { .ready = steps_ready,
	                              .done = steps_done,
	                              .start = steps_start,
	                              .free = steps_free,
	                              .name = steps_name };

static oriel_ctx *ctx;
static struct oriel_bootstrap table;
static int local;
static struct steps walk[3];
static oriel_req *reqs[3];

static void
open_walks(void)
{
	ctx = alone_open(&table, &local, 0, 1);
	pthread_mutex_lock(&ctx->task_lock);
	for (int i = 0; i < 3; i++) {
		walk[i] = (struct steps){ .task.advance = steps_advance, .left = 5 * i };
		req_init(&walk[i].req, ctx, &once);
		reqs[i] = &walk[i].req;
		task_add(ctx, &walk[i].task);
	}
	pthread_mutex_unlock(&ctx->task_lock);
}

static void
close_walks(void)
{
	pthread_mutex_lock(&ctx->task_lock);
	for (int i = 0; i < 3; i++)
		task_remove(ctx, &walk[i].task);
	pthread_mutex_unlock(&ctx->task_lock);
	alone_close(ctx);
}

TestSuite(req, .init = open_walks, .fini = close_walks);

Test(req, wait_brings_tasks_on)
{
	cr_assert_eq(oriel_req_wait(&reqs[2], ORIEL_FOREVER), 0);
	cr_assert_null(reqs[2]);
	cr_assert_eq(walk[2].left, 0);
	cr_assert_eq(walk[2].frees, 1);
}

Test(req, test_finishes_once)
{
	int done = 0, rc = 0;

	while (!done && !rc)
		rc = oriel_req_test(&reqs[1], &done);
	cr_assert_eq(rc, 0);
	cr_assert_null(reqs[1]);
	cr_assert_eq(oriel_req_test(&reqs[1], &done), 0);
	cr_assert_eq(done, 1);
	cr_assert_eq(walk[1].frees, 1);
}

Test(req, waitall_gives_the_first_error_of_all)
{
	walk[1].result = ORIEL_ERANGE;
	walk[2].result = ORIEL_EPEER;
	cr_assert_eq(oriel_req_waitall(3, reqs, ORIEL_FOREVER), ORIEL_ERANGE);
	cr_assert_not_null(strstr(oriel_detail(), "request 1: step -3"), "%s", oriel_detail());
	for (int i = 0; i < 3; i++) {
		cr_assert_null(reqs[i]);
		cr_assert_eq(walk[i].frees, 1);
	}
	cr_assert_eq(oriel_req_waitall(3, reqs, 0), 0);
}

Test(req, waitall_in_vain_leaves_all)
{
	pthread_mutex_lock(&ctx->task_lock);
	task_remove(ctx, &walk[2].task);
	pthread_mutex_unlock(&ctx->task_lock);
	walk[0].result = ORIEL_ERANGE;
	cr_assert_eq(oriel_req_waitall(3, reqs, 1000000), ORIEL_ETIMEDOUT);
	cr_assert_not_null(strstr(oriel_detail(), "request 2: the walk"), "%s", oriel_detail());
	for (int i = 0; i < 3; i++) {
		cr_assert_not_null(reqs[i]);
		cr_assert_eq(walk[i].frees, 0);
	}
}

Test(req, testall_is_all_or_nothing)
{
	int done = 1, rc = oriel_req_testall(3, reqs, &done);

	while (!rc && !done) {
		cr_assert_eq(walk[0].frees, 0);
		rc = oriel_req_testall(3, reqs, &done);
	}
	cr_assert_eq(rc, 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(walk[i].frees, 1);
	cr_assert_eq(oriel_req_testall(0, NULL, &done), 0);
	cr_assert_eq(done, 1);
}

Test(req, persistent_ones_stay)
{
	walk[0].persistent = true;
	walk[0].req.ops = &again;
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(oriel_start(reqs[0]), 0);
		cr_assert_eq(oriel_req_wait(&reqs[0], ORIEL_FOREVER), 0);
		cr_assert_not_null(reqs[0]);
	}
	cr_assert_eq(walk[0].starts, 3);
	cr_assert_eq(oriel_req_free(&reqs[0]), 0);
	cr_assert_null(reqs[0]);
}

Test(req, errors)
{
	oriel_req *none = NULL, *stale = &walk[0].req;
	int done;

	pthread_mutex_lock(&ctx->task_lock);
	task_remove(ctx, &walk[2].task);
	pthread_mutex_unlock(&ctx->task_lock);
	cr_assert_eq(oriel_start(NULL), ORIEL_EHANDLE);
	cr_assert_eq(oriel_start(reqs[0]), ORIEL_EINVAL);
	walk[2].req.ops = &again;
	cr_assert_eq(oriel_start(reqs[2]), ORIEL_EBUSY);
	cr_assert_eq(oriel_req_free(&reqs[2]), ORIEL_EBUSY);
	cr_assert_not_null(reqs[2]);
	cr_assert_eq(oriel_req_free(NULL), ORIEL_EINVAL);
	cr_assert_eq(oriel_req_free(&none), 0);
	cr_assert_eq(oriel_req_waitall(1, NULL, 0), ORIEL_EINVAL);
	cr_assert_eq(oriel_req_testall(1, &none, NULL), ORIEL_EINVAL);
	walk[0].req.magic = 0;
	cr_assert_eq(oriel_req_testall(1, &stale, &done), ORIEL_EHANDLE);
}
