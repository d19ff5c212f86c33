/* The bootstrap of the user's own: struct oriel_bootstrap, checked on both sides. */
#include "pmix-boot/boot_impl.h"

#include <stdio.h>
#include <string.h>

static const struct oriel_bootstrap *
table(const struct boot *b)
{
	return b->priv;
}

/* The user's functions return what they like; what leaves here is one of our codes. */
static int
users_error(int rc)
{
	bool ours = false;

#define IS_OURS(name, value, text) ours = ours || rc == ORIEL_##name;
	ORIEL_ERRORS(IS_OURS)
#undef IS_OURS
	return ours ? rc : ORIEL_EBOOT;
}

static const char *
users_text(int rc)
{
	return users_error(rc) == rc ? oriel_strerror(rc) : "no code of Oriel's";
}

static int
user_open(struct boot *b, const struct oriel_bootstrap *user, uint64_t timeout_ns)
{
	(void)timeout_ns;
	if (!user->put || !user->fence || !user->get)
		return fail(ORIEL_EINVAL, "bootstrap: its %s is NULL",
		            !user->put     ? "put"
		            : !user->fence ? "fence"
		                           : "get");
	if (!user->job && user->size > 1)
		return fail(ORIEL_EINVAL, "bootstrap: job is NULL, with %d ranks", user->size);
	if (user->job && strlen(user->job) >= sizeof(b->job))
		return fail(ORIEL_EINVAL, "bootstrap: the job's name has %zu characters, %zu fit",
		            strlen(user->job), sizeof(b->job) - 1);
	if (!user->local || user->n_local < 1 || user->n_local > user->size)
		return fail(ORIEL_EINVAL, "bootstrap: %d local ranks at %p, of %d in the job",
		            user->n_local, (const void *)user->local, user->size);
	b->rank = user->rank;
	b->size = user->size;
	b->priv = (void *)(uintptr_t)user;
	boot_set_host(b);
	snprintf(b->launcher, sizeof(b->launcher), "the program's own bootstrap");
	if (user->job)
		snprintf(b->job, sizeof(b->job), "%s", user->job);
	else
		snprintf(b->job, sizeof(b->job), "alone-%llx", (unsigned long long)now_ns());
	return boot_set_local(b, user->local, user->n_local);
}

static int
user_put(struct boot *b, const char *key, const void *value, size_t len)
{
	int rc = table(b)->put(table(b)->arg, key, value, len);

	return rc ? fail(users_error(rc), "the program's bootstrap: put of \"%s\" returned %d (%s)",
	                 key, rc, users_text(rc))
	          : 0;
}

static int
user_fence(struct boot *b, bool collect, uint64_t timeout_ns)
{
	int rc = table(b)->fence(table(b)->arg, timeout_ns);

	(void)collect;
	return rc ? fail(users_error(rc), "the program's bootstrap: fence returned %d (%s)", rc,
	                 users_text(rc))
	          : 0;
}

static int
user_get(struct boot *b, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	size_t got = *len;
	int rc = table(b)->get(table(b)->arg, rank, key, value, &got, timeout_ns);

	if (rc)
		return fail(users_error(rc),
		            "the program's bootstrap: get of rank %d's \"%s\" returned %d (%s)",
		            rank, key, rc, users_text(rc));
	if (got > *len)
		return fail(ORIEL_EBOOT,
		            "the program's bootstrap: get of rank %d's \"%s\" wrote %zu bytes into "
		            "%zu",
		            rank, key, got, *len);
	*len = got;
	return 0;
}

static void
user_close(struct boot *b)
{
	b->priv = NULL;
}

const struct boot_ops boot_user = {
	.name = "user",
	.open = user_open,
	.put = user_put,
	.fence = user_fence,
	.get = user_get,
	.close = user_close,
};
