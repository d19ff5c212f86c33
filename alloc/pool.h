/*
 * pool.h - the registered pool for host memory: big shared slabs, and tensors
 * cut from them.
 *
 * A slab is one memfd, mapped shared; peers of the node open it through
 * /proc/<pid>/fd/<fd> and map it too. Slabs are sparse: pages exist once they
 * are touched. A slab lives until the pool dies; ids are dense from 0 and never
 * reused. Free returns the pages of large blocks to the system.
 *
 * Inside a slab blocks are kept by two-level segregated fit: alloc and free are
 * O(1). All bookkeeping is outside the slab, so that a stray put of a peer
 * cannot harm it, and device memory can be kept the same way.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef ALLOC_POOL_H
#define ALLOC_POOL_H

#include "base/base.h"

#define POOL_MAX_SLABS 1024
#define POOL_MIN_ALIGN 64

struct slab {
	int fd;
	unsigned id;
	char *base;
	size_t size;
};

struct pool_config {
	size_t slab_size; /* at least; a larger request gets a slab of its own size, rounded to 2
	                     MiB */
	size_t max_bytes; /* of all slabs together */
	const char *name; /* of the memfd, seen in /proc */
	/* Called once for a new slab, with the pool's lock held, before memory of it is handed out.
	 */
	int (*on_slab)(void *arg, const struct slab *slab);
	void *arg;
};

struct pool;

int pool_create(const struct pool_config *config, struct pool **pool);
/* Unmaps and closes all slabs; whatever was handed out is gone. */
void pool_destroy(struct pool *pool);

/* align: power of two, 0 for POOL_MIN_ALIGN. len 0 gets a unique block. Contents are undefined. */
int pool_alloc(struct pool *pool, size_t len, size_t align, void **ptr);
/* The same, reading as zero, without touching the pages where they are fresh or can be dropped. */
int pool_alloc_zeroed(struct pool *pool, size_t len, size_t align, void **ptr);
/* EINVAL if ptr is not the start of a live block. NULL is allowed. */
int pool_free(struct pool *pool, void *ptr);
/* The block is never handed out again: a failed peer may still write to it. Counted in
 * retired_bytes. */
int pool_retire(struct pool *pool, void *ptr);
/* If all of [p, p + len) lies inside one slab (live block or not): its id and the offset. */
bool pool_find(struct pool *pool, const void *p, size_t len, unsigned *slab_id, size_t *offset);
/* The slab of an id that was handed out, or NULL. */
const struct slab *pool_slab(struct pool *pool, unsigned slab_id);
/* Fills all fields but registrations and registered_bytes. */
void pool_stats(struct pool *pool, struct oriel_mem_stats *stats);
/* Asserts the invariants of every slab; for tests and debug builds. */
void pool_check(struct pool *pool);

#endif
