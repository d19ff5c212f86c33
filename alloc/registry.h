/*
 * registry.h - registrations of user memory: which ranges are known, how often,
 * and what each transport made of them.
 *
 * An entry covers a range. Registering a range inside an entry's takes another
 * reference of that entry; overlapping ranges that none contains are entries of
 * their own. An entry has a generation, from a counter that never repeats: a
 * handle (entry, generation) that outlives the entry is recognised.
 *
 * Finding an entry is O(log n). Threads: every function may be called from any thread.
 */
#ifndef ALLOC_REGISTRY_H
#define ALLOC_REGISTRY_H

#include "base/base.h"

struct reg {
	uintptr_t addr;
	size_t len;
	uint64_t generation;
	unsigned refs;
	void *handle; /* of the transport's hook; NULL if it has none */
};

struct registry_hook { /* both may be NULL; called with the registry's lock held */
	int (*reg)(void *arg, void *addr, size_t len, void **handle);
	void (*dereg)(void *arg, void *handle);
	void *arg;
};

struct registry;

int registry_create(const struct registry_hook *hook, struct registry **registry);
void registry_destroy(struct registry *registry);
/* len > 0. *out is valid until its last dereg. */
int registry_reg(struct registry *r, const void *addr, size_t len, const struct reg **out);
/* EINVAL if [addr, addr + len) was not registered with just these arguments (or no longer is). */
int registry_dereg(struct registry *r, const void *addr, size_t len);
/* An entry that contains [addr, addr + len), with one more reference, or NULL; give it back with
 * registry_put. */
const struct reg *registry_get(struct registry *r, const void *addr, size_t len);
void registry_put(struct registry *r, const struct reg *reg);
/* registrations and registered_bytes only. */
void registry_stats(struct registry *r, struct oriel_mem_stats *stats);

#endif
