#include "pmix-boot/threads.h"

#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct value {
	struct value *next;
	int rank;
	size_t len;
	char key[64];
	char bytes[];
};

struct rank_arg { /* what a rank's functions are called with */
	struct threads_boot *boot;
	int rank;
};

struct threads_boot {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int n;
	struct value *values;
	int arrived;     /* at the running fence */
	uint64_t fences; /* complete ones */
	char job[64];
	int *local;
	struct rank_arg *args;
};

static struct timespec
until(uint64_t timeout_ns)
{
	uint64_t t = deadline_after(timeout_ns);
	uint64_t s = t / 1000000000u;

	/* time_t need not hold "for ever". */
	if (s > 1u << 30)
		s = 1u << 30;
	return (struct timespec){ .tv_sec = (time_t)s, .tv_nsec = (long)(t % 1000000000u) };
}

static struct value *
find(struct threads_boot *b, int rank, const char *key)
{
	for (struct value *v = b->values; v; v = v->next)
		if (v->rank == rank && !strcmp(v->key, key))
			return v;
	return NULL;
}

static int
threads_put(void *arg, const char *key, const void *value, size_t len)
{
	struct rank_arg *a = arg;
	struct value *v;

	if (strlen(key) >= sizeof(v->key))
		return fail(ORIEL_EINVAL, "key \"%s\" is too long", key);
	v = malloc(sizeof(*v) + len);
	if (!v)
		return fail(ORIEL_ENOMEM, "no memory for a value of %zu bytes", len);
	v->rank = a->rank;
	v->len = len;
	strcpy(v->key, key);
	memcpy(v->bytes, value, len);
	pthread_mutex_lock(&a->boot->lock);
	v->next = a->boot->values; /* a later put of the same key is found first */
	a->boot->values = v;
	pthread_cond_broadcast(&a->boot->changed);
	pthread_mutex_unlock(&a->boot->lock);
	return 0;
}

static int
threads_fence(void *arg, uint64_t timeout_ns)
{
	struct threads_boot *b = ((struct rank_arg *)arg)->boot;
	struct timespec end = until(timeout_ns);
	uint64_t mine;
	int err = 0;

	pthread_mutex_lock(&b->lock);
	mine = b->fences;
	if (++b->arrived == b->n) {
		b->arrived = 0;
		b->fences++;
		pthread_cond_broadcast(&b->changed);
	}
	while (b->fences == mine && !err)
		err = pthread_cond_timedwait(&b->changed, &b->lock, &end);
	if (b->fences == mine) {
		b->arrived--;
		pthread_mutex_unlock(&b->lock);
		return fail(ORIEL_ETIMEDOUT, "fence: not all %d ranks came", b->n);
	}
	pthread_mutex_unlock(&b->lock);
	return 0;
}

static int
threads_get(void *arg, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	struct threads_boot *b = ((struct rank_arg *)arg)->boot;
	struct timespec end = until(timeout_ns);
	struct value *v;
	int err = 0;

	if (rank < 0 || rank >= b->n)
		return fail(ORIEL_ERANK, "rank %d: the job has ranks 0 to %d", rank, b->n - 1);
	pthread_mutex_lock(&b->lock);
	while (!(v = find(b, rank, key)) && !err)
		err = pthread_cond_timedwait(&b->changed, &b->lock, &end);
	if (v && v->len <= *len) {
		memcpy(value, v->bytes, v->len);
		*len = v->len;
	}
	pthread_mutex_unlock(&b->lock);
	if (!v)
		return fail(ORIEL_ETIMEDOUT, "rank %d has not put \"%s\"", rank, key);
	if (v->len > *len)
		return fail(ORIEL_EBOOT, "\"%s\" of rank %d has %zu bytes, there is room for %zu",
		            key, rank, v->len, *len);
	return 0;
}

int
threads_boot_create(int n, struct threads_boot **out)
{
	static uint64_t jobs; /* a name for each, also in one process */
	struct threads_boot *b = calloc(1, sizeof(*b));
	pthread_condattr_t attr;

	if (b) {
		b->local = calloc((size_t)n, sizeof(*b->local));
		b->args = calloc((size_t)n, sizeof(*b->args));
	}
	if (!b || !b->local || !b->args) {
		if (b)
			free(b->local);
		free(b);
		return fail(ORIEL_ENOMEM, "no memory for %d ranks", n);
	}
	b->n = n;
	for (int i = 0; i < n; i++) {
		b->local[i] = i;
		b->args[i] = (struct rank_arg){ b, i };
	}
	snprintf(b->job, sizeof(b->job), "threads.%d.%llu", (int)getpid(),
	         (unsigned long long)__atomic_add_fetch(&jobs, 1, __ATOMIC_RELAXED));
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->changed, &attr);
	pthread_condattr_destroy(&attr);
	*out = b;
	return 0;
}

int
threads_boot_table(struct threads_boot *b, int rank, struct oriel_bootstrap *table)
{
	if (rank < 0 || rank >= b->n)
		return fail(ORIEL_ERANK, "rank %d of %d", rank, b->n);
	*table = (struct oriel_bootstrap){
		.arg = &b->args[rank],
		.rank = rank,
		.size = b->n,
		.n_local = b->n,
		.local = b->local,
		.job = b->job,
		.put = threads_put,
		.fence = threads_fence,
		.get = threads_get,
	};
	return 0;
}

void
threads_boot_destroy(struct threads_boot *b)
{
	if (!b)
		return;
	while (b->values) {
		struct value *v = b->values;

		b->values = v->next;
		free(v);
	}
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->changed);
	free(b->local);
	free(b->args);
	free(b);
}
