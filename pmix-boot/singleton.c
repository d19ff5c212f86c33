/* A job of one rank: its records stay here. */
#include "pmix-boot/boot_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct singleton {
	struct records records;
	size_t fenced; /* bytes of records that get sees */
};

static int
singleton_open(struct boot *b, const struct oriel_bootstrap *user, uint64_t timeout_ns)
{
	static unsigned ordinal;
	struct singleton *s = calloc(1, sizeof(*s));
	const int me = 0;

	(void)user;
	(void)timeout_ns;
	if (!s)
		return fail(ORIEL_ENOMEM, "the records of a single rank");
	if (boot_set_local(b, &me, 1)) {
		free(s);
		return ORIEL_ENOMEM;
	}
	b->priv = s;
	b->size = 1;
	boot_set_host(b);
	/* The time tells apart processes of one number in different PID namespaces. */
	snprintf(b->job, sizeof(b->job), "singleton-%d-%llx.%u", (int)getpid(),
	         (unsigned long long)now_ns(), __atomic_fetch_add(&ordinal, 1, __ATOMIC_RELAXED));
	snprintf(b->launcher, sizeof(b->launcher), "no launcher, a single rank");
	return 0;
}

static int
singleton_put(struct boot *b, const char *key, const void *value, size_t len)
{
	struct singleton *s = b->priv;

	return records_put(&s->records, key, value, len);
}

static int
singleton_fence(struct boot *b, bool collect, uint64_t timeout_ns)
{
	struct singleton *s = b->priv;

	(void)collect;
	(void)timeout_ns;
	s->fenced = s->records.len;
	return 0;
}

static int
singleton_get(struct boot *b, int rank, const char *key, void *value, size_t *len,
              uint64_t timeout_ns)
{
	struct singleton *s = b->priv;
	const struct records visible = { .bytes = s->records.bytes, .len = s->fenced };
	const void *found;
	size_t found_len;

	(void)timeout_ns;
	if (!records_find(&visible, key, &found, &found_len))
		return boot_no_key(rank, key);
	return boot_copy_out(rank, key, found, found_len, value, len);
}

static void
singleton_close(struct boot *b)
{
	struct singleton *s = b->priv;

	records_free(&s->records);
	free(s);
}

const struct boot_ops boot_singleton = {
	.name = "singleton",
	.open = singleton_open,
	.put = singleton_put,
	.fence = singleton_fence,
	.get = singleton_get,
	.close = singleton_close,
};
