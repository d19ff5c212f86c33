#include "pmix-boot/threads.h"
#include "pmix-boot/boot_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct thread_rank {
	struct threads_boot *tb;
	struct records records;
	size_t fenced; /* bytes of records that the others see */
};

struct threads_boot {
	int n;
	int *local;
	char job[64];
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t fence_ended;
	int arrived;
	uint64_t fences; /* that have ended */
	struct thread_rank *ranks;
};

static int
threads_put(void *arg, const char *key, const void *value, size_t len)
{
	struct thread_rank *r = arg;
	int rc;

	pthread_mutex_lock(&r->tb->lock);
	rc = records_put(&r->records, key, value, len);
	pthread_mutex_unlock(&r->tb->lock);
	return rc;
}

static void
end_fence(struct threads_boot *tb)
{
	for (int i = 0; i < tb->n; i++)
		tb->ranks[i].fenced = tb->ranks[i].records.len;
	tb->arrived = 0;
	tb->fences++;
	pthread_cond_broadcast(&tb->fence_ended);
}

static int
threads_fence(void *arg, uint64_t timeout_ns)
{
	struct thread_rank *r = arg;
	struct threads_boot *tb = r->tb;
	uint64_t deadline = deadline_after(timeout_ns), fence;
	struct timespec ts = { .tv_sec = (time_t)(deadline / 1000000000),
		               .tv_nsec = (long)(deadline % 1000000000) };
	int rc = 0;

	pthread_mutex_lock(&tb->lock);
	fence = tb->fences;
	if (++tb->arrived == tb->n)
		end_fence(tb);
	while (tb->fences == fence && !rc)
		rc = deadline == ORIEL_FOREVER
		             ? pthread_cond_wait(&tb->fence_ended, &tb->lock)
		             : pthread_cond_timedwait(&tb->fence_ended, &tb->lock, &ts);
	if (tb->fences != fence)
		rc = 0;
	else
		rc = fail(ORIEL_ETIMEDOUT, "%d of %d threads came to the fence in %.3f s",
		          tb->arrived--, tb->n, (double)timeout_ns / 1e9);
	pthread_mutex_unlock(&tb->lock);
	return rc;
}

static int
threads_get(void *arg, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	struct threads_boot *tb = ((struct thread_rank *)arg)->tb;
	struct records visible = { 0 };
	const void *found;
	size_t found_len;
	int rc;

	(void)timeout_ns;
	if (rank < 0 || rank >= tb->n)
		return fail(ORIEL_ERANK, "key \"%s\" of rank %d of %d", key, rank, tb->n);
	pthread_mutex_lock(&tb->lock);
	visible.bytes = tb->ranks[rank].records.bytes;
	visible.len = tb->ranks[rank].fenced;
	if (records_find(&visible, key, &found, &found_len))
		rc = boot_copy_out(rank, key, found, found_len, value, len);
	else
		rc = boot_no_key(rank, key);
	pthread_mutex_unlock(&tb->lock);
	return rc;
}

int
threads_boot_create(int n, struct threads_boot **out)
{
	static unsigned ordinal;
	struct threads_boot *tb;
	pthread_condattr_t attr;

	if (n < 1)
		return fail(ORIEL_EINVAL, "%d ranks as threads", n);
	tb = calloc(1, sizeof(*tb));
	if (!tb)
		return fail(ORIEL_ENOMEM, "the bootstrap of %d threads", n);
	tb->local = calloc((size_t)n, sizeof(*tb->local));
	tb->ranks = calloc((size_t)n, sizeof(*tb->ranks));
	if (!tb->local || !tb->ranks) {
		free(tb->local);
		free(tb->ranks);
		free(tb);
		return fail(ORIEL_ENOMEM, "the bootstrap of %d threads", n);
	}
	tb->n = n;
	for (int i = 0; i < n; i++) {
		tb->local[i] = i;
		tb->ranks[i] = (struct thread_rank){ .tb = tb };
	}
	snprintf(tb->job, sizeof(tb->job), "threads-%d-%llx.%u", (int)getpid(),
	         (unsigned long long)now_ns(), __atomic_fetch_add(&ordinal, 1, __ATOMIC_RELAXED));
	pthread_mutex_init(&tb->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&tb->fence_ended, &attr);
	pthread_condattr_destroy(&attr);
	*out = tb;
	return 0;
}

int
threads_boot_table(struct threads_boot *tb, int rank, struct oriel_bootstrap *table)
{
	if (rank < 0 || rank >= tb->n)
		return fail(ORIEL_ERANK, "the table of rank %d of %d threads", rank, tb->n);
	*table = (struct oriel_bootstrap){
		.arg = &tb->ranks[rank],
		.rank = rank,
		.size = tb->n,
		.n_local = tb->n,
		.local = tb->local,
		.job = tb->job,
		.put = threads_put,
		.fence = threads_fence,
		.get = threads_get,
	};
	return 0;
}

void
threads_boot_destroy(struct threads_boot *tb)
{
	if (!tb)
		return;
	for (int i = 0; i < tb->n; i++)
		records_free(&tb->ranks[i].records);
	pthread_cond_destroy(&tb->fence_ended);
	pthread_mutex_destroy(&tb->lock);
	free(tb->local);
	free(tb->ranks);
	free(tb);
}
