/*
 * threads.c - ranks as threads of one process, for tests: the same code as
 * between processes, but a thread sanitizer sees both sides.
 */
#include "pmix-boot/threads.h"
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

struct rank_thread {
	pthread_t thread;
	int rank;
	struct threads_boot *boot;
	int (*fn)(oriel_ctx *ctx, void *arg);
	void *arg;
	const struct oriel_options *opts;
	int result;
	bool started;
};

static void *
rank_main(void *arg)
{
	struct rank_thread *t = arg;
	struct oriel_options opts = { .size = sizeof(opts) };
	struct oriel_bootstrap table;
	oriel_ctx *ctx;
	int rc;

	if (t->opts)
		opts = *t->opts;
	t->result = threads_boot_table(t->boot, t->rank, &table);
	if (t->result)
		return NULL;
	opts.bootstrap = &table;
	t->result = oriel_init(&opts, &ctx);
	if (t->result) {
		log_at(LOG_ERROR, "rank %d as a thread: %s", t->rank, oriel_detail());
		return NULL;
	}
	t->result = t->fn(ctx, t->arg);
	rc = oriel_fini(ctx);
	if (!t->result)
		t->result = rc;
	return NULL;
}

int
oriel_run_threads(int n, int (*fn)(oriel_ctx *ctx, void *arg), void *arg,
                  const struct oriel_options *opts)
{
	struct threads_boot *boot;
	struct rank_thread *t;
	int rc;

	if (n < 1 || !fn)
		return fail(ORIEL_EINVAL, n < 1 ? "n is not positive" : "fn is NULL");
	t = calloc((size_t)n, sizeof(*t));
	if (!t)
		return fail(ORIEL_ENOMEM, "no memory for %d ranks", n);
	rc = threads_boot_create(n, &boot);
	if (rc)
		goto free_threads;
	for (int i = 0; i < n; i++) {
		t[i] = (struct rank_thread){
			.rank = i, .boot = boot, .fn = fn, .arg = arg, .opts = opts
		};
		rc = pthread_create(&t[i].thread, NULL, rank_main, &t[i]);
		if (rc) {
			rc = fail_errno(ORIEL_ENOMEM, rc, "starting rank %d as a thread", i);
			break;
		}
		t[i].started = true;
	}
	for (int i = 0; i < n; i++) {
		if (t[i].started)
			pthread_join(t[i].thread, NULL);
		if (!rc)
			rc = t[i].result;
	}
	threads_boot_destroy(boot);
free_threads:
	free(t);
	return rc;
}
