/*
 * registry.h - registrations of user memory: which ranges are known, how often,
 * and what each transport made of them.
 *
 * A registration is a pair (addr, len) that the user gave, with a count. An
 * entry is what the transport prepared: the hook's handle for a range. A
 * registration that lies inside a live one takes another reference of that one's
 * entry; any other (also one that overlaps live ones, or contains them) makes an
 * entry of its own. An entry lives until its registrations are undone and its
 * registry_get()s given back.
 *
 * Only memory inside a live registration is found: what the user has
 * deregistered may be unmapped since, even where its entry still lives for the
 * sake of a smaller registration.
 *
 * An entry has a generation, from a counter that never repeats: a handle (entry,
 * generation) that outlives the entry is recognised.
 *
 * Every call is O(log n) of the distinct registrations. Threads: every function
 * but create and destroy may be called from any thread.
 */
#ifndef ALLOC_REGISTRY_H
#define ALLOC_REGISTRY_H

#include "base/base.h"

struct reg {
	uintptr_t addr;
	size_t len;
	uint64_t generation; /* from 1 */
	unsigned refs;       /* registrations and gets; only for who has the registry's lock */
	void *handle;        /* of the transport's hook; NULL if it has none */
};

struct registry_hook { /* both may be NULL; called with the registry's lock held */
	/* If it fails, registry_reg does with the same code, and nothing has changed. */
	int (*reg)(void *arg, void *addr, size_t len, void **handle);
	void (*dereg)(void *arg, void *handle);
	void *arg;
};

struct registry;

/* hook is copied; NULL: no hooks. */
int registry_create(const struct registry_hook *hook, struct registry **registry);
/* Calls the hook's dereg for every entry that is left. NULL is allowed. */
void registry_destroy(struct registry *registry);
/*
 * *out (which may be NULL) is valid until the dereg. Errors: EINVAL (NULL, len 0, or beyond the end
 * of the address space), ENOMEM, ELIMIT (2^32 - 1 references), the hook's.
 */
int registry_reg(struct registry *r, const void *addr, size_t len, const struct reg **out);
/* EINVAL if [addr, addr + len) was not registered with just these arguments (or no longer is). */
int registry_dereg(struct registry *r, const void *addr, size_t len);
/*
 * The entry of a live registration that contains [addr, addr + len), with one more reference, or
 * NULL; give it back with registry_put. No lock is taken while nothing is registered.
 */
const struct reg *registry_get(struct registry *r, const void *addr, size_t len);
void registry_put(struct registry *r, const struct reg *reg);
/*
 * registrations (registry_reg calls not yet undone) and registered_bytes (of all entries, each
 * counted once, overlaps twice) only.
 */
void registry_stats(struct registry *r, struct oriel_mem_stats *stats);
/* Asserts the invariants; for tests and debug builds. */
void registry_check(struct registry *r);

#endif
