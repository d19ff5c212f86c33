#include "alloc/registry.h"

#include "alloc/itree.h"
#include "base/atomic.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

struct entry {
	struct reg reg;
	struct entry *prev, *next;
};

/* An (addr, len) that the user has registered. */
struct user {
	struct itree_node node;
	unsigned count;
	struct entry *entry; /* whose range contains the node's */
};

struct registry {
	pthread_mutex_t lock;
	struct registry_hook hook;
	struct itree_node *users;
	struct entry *entries;
	uint64_t generation;  /* of the last entry */
	size_t registrations; /* sum of the users' counts; written under the lock, read without */
	size_t bytes;         /* of the entries */
};

int
registry_create(const struct registry_hook *hook, struct registry **out)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return fail(ORIEL_ENOMEM, "no memory for a registry");
	pthread_mutex_init(&r->lock, NULL);
	if (hook)
		r->hook = *hook;
	*out = r;
	return 0;
}

static int
entry_create(struct registry *r, const void *addr, size_t len, struct entry **out)
{
	struct entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return fail(ORIEL_ENOMEM, "no memory to register %p, %zu bytes", addr, len);
	rc = r->hook.reg ? r->hook.reg(r->hook.arg, (void *)addr, len, &e->reg.handle) : 0;
	if (rc) {
		free(e);
		return rc;
	}
	e->reg.addr = (uintptr_t)addr;
	e->reg.len = len;
	e->reg.generation = ++r->generation;
	e->next = r->entries;
	if (e->next)
		e->next->prev = e;
	r->entries = e;
	r->bytes += len;
	*out = e;
	return 0;
}

static void
entry_free(struct registry *r, struct entry *e)
{
	if (e->next)
		e->next->prev = e->prev;
	if (e->prev)
		e->prev->next = e->next;
	else
		r->entries = e->next;
	r->bytes -= e->reg.len;
	if (r->hook.dereg)
		r->hook.dereg(r->hook.arg, e->reg.handle);
	free(e);
}

static void
entry_put(struct registry *r, struct entry *e)
{
	assert(e->reg.refs);
	if (!--e->reg.refs)
		entry_free(r, e);
}

static void
users_free(struct itree_node *n)
{
	if (!n)
		return;
	users_free(n->left);
	users_free(n->right);
	free(container_of(n, struct user, node));
}

void
registry_destroy(struct registry *r)
{
	if (!r)
		return;
	users_free(r->users);
	while (r->entries)
		entry_free(r, r->entries);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static struct user *
find_exact(const struct registry *r, const void *addr, size_t len)
{
	struct itree_node *n = itree_find(r->users, (uintptr_t)addr, len);

	return n ? container_of(n, struct user, node) : NULL;
}

static struct user *
find_containing(const struct registry *r, const void *addr, size_t len)
{
	struct itree_node *n = itree_containing(r->users, (uintptr_t)addr, len);

	return n ? container_of(n, struct user, node) : NULL;
}

/* A registration of a range that no user has yet; its count is 0. */
static int
user_create(struct registry *r, const void *addr, size_t len, struct user **out)
{
	struct user *u = calloc(1, sizeof(*u)), *outer;
	int rc;

	if (!u)
		return fail(ORIEL_ENOMEM, "no memory to register %p, %zu bytes", addr, len);
	outer = find_containing(r, addr, len);
	if (outer) {
		u->entry = outer->entry;
	} else {
		rc = entry_create(r, addr, len, &u->entry);
		if (rc) {
			free(u);
			return rc;
		}
	}
	u->node.addr = (uintptr_t)addr;
	u->node.len = len;
	itree_insert(&r->users, &u->node);
	*out = u;
	return 0;
}

static int
reg_locked(struct registry *r, const void *addr, size_t len, const struct reg **out)
{
	struct user *u = find_exact(r, addr, len), *outer = u ? u : find_containing(r, addr, len);
	int rc;

	if (outer && outer->entry->reg.refs == UINT_MAX)
		return fail(ORIEL_ELIMIT, "%p, %zu bytes: registered %u times already", addr, len,
		            UINT_MAX);
	if (!u) {
		rc = user_create(r, addr, len, &u);
		if (rc)
			return rc;
	}
	u->count++;
	u->entry->reg.refs++;
	store_relaxed(&r->registrations, r->registrations + 1);
	if (out)
		*out = &u->entry->reg;
	return 0;
}

int
registry_reg(struct registry *r, const void *addr, size_t len, const struct reg **out)
{
	int rc;

	if (!addr || !len)
		return fail(ORIEL_EINVAL, "cannot register %p, %zu bytes: nothing is there", addr,
		            len);
	if (len > UINTPTR_MAX - (uintptr_t)addr)
		return fail(ORIEL_EINVAL,
		            "cannot register %p, %zu bytes: beyond the end of the address space",
		            addr, len);
	pthread_mutex_lock(&r->lock);
	rc = reg_locked(r, addr, len, out);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

static int
not_registered(const struct registry *r, const void *addr, size_t len)
{
	const struct user *outer = NULL;

	if (len <= UINTPTR_MAX - (uintptr_t)addr)
		outer = find_containing(r, addr, len);
	if (outer)
		return fail(ORIEL_EINVAL,
		            "%p, %zu bytes: not registered with these arguments (or no longer); it "
		            "only lies inside the registration of %p, %zu bytes",
		            addr, len, (void *)outer->node.addr, outer->node.len);
	return fail(ORIEL_EINVAL, "%p, %zu bytes: not registered, or no longer", addr, len);
}

int
registry_dereg(struct registry *r, const void *addr, size_t len)
{
	struct user *u;
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	u = find_exact(r, addr, len);
	if (!u) {
		rc = not_registered(r, addr, len);
		goto unlock;
	}
	store_relaxed(&r->registrations, r->registrations - 1);
	entry_put(r, u->entry);
	if (!--u->count) {
		itree_remove(&r->users, &u->node);
		free(u);
	}
unlock:
	pthread_mutex_unlock(&r->lock);
	return rc;
}

const struct reg *
registry_get(struct registry *r, const void *addr, size_t len)
{
	const struct user *u;
	const struct reg *reg = NULL;

	if (!load_relaxed(&r->registrations) || len > UINTPTR_MAX - (uintptr_t)addr)
		return NULL;
	pthread_mutex_lock(&r->lock);
	u = find_containing(r, addr, len);
	if (u && u->entry->reg.refs < UINT_MAX) {
		u->entry->reg.refs++;
		reg = &u->entry->reg;
	}
	pthread_mutex_unlock(&r->lock);
	return reg;
}

void
registry_put(struct registry *r, const struct reg *reg)
{
	pthread_mutex_lock(&r->lock);
	entry_put(r, container_of(reg, struct entry, reg));
	pthread_mutex_unlock(&r->lock);
}

void
registry_stats(struct registry *r, struct oriel_mem_stats *stats)
{
	pthread_mutex_lock(&r->lock);
	stats->registrations = r->registrations;
	stats->registered_bytes = r->bytes;
	pthread_mutex_unlock(&r->lock);
}

static size_t
check_users(const struct itree_node *n)
{
	const struct user *u;

	if (!n)
		return 0;
	u = container_of(n, struct user, node);
	assert(u->count && u->count <= u->entry->reg.refs);
	assert(range_inside(n->addr - u->entry->reg.addr, n->len, u->entry->reg.len));
	return check_users(n->left) + u->count + check_users(n->right);
}

void
registry_check(struct registry *r)
{
	size_t bytes = 0, refs = 0, users;

	pthread_mutex_lock(&r->lock);
	itree_check(r->users);
	users = check_users(r->users);
	for (const struct entry *e = r->entries; e; e = e->next) {
		assert(e->reg.refs && (!e->next || e->next->prev == e));
		bytes += e->reg.len;
		refs += e->reg.refs;
	}
	assert(bytes == r->bytes && users == r->registrations && refs >= users);
	pthread_mutex_unlock(&r->lock);
}
