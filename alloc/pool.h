/*
 * pool.h - the registered pool: big shared slabs, and tensors cut from them.
 *
 * Slabs come from a source. For host memory (memfd.h, the default) a slab is one
 * memfd, mapped shared, its size sealed; peers of the node open it through
 * /proc/<pid>/fd/<fd> and map it too; it is sparse: pages exist once they are
 * touched, and free returns those of large blocks to the system. A GPU's slabs are
 * rma/gpu_pool.c's. A slab lives until the pool dies; ids are dense from 0 and never
 * reused. The pool itself touches no slab.
 *
 * Inside a slab blocks are kept by two-level segregated fit (tlsf.h): alloc and
 * free are O(1). All bookkeeping is outside the slab, so that a stray put of a
 * peer cannot harm it.
 *
 * Threads: every function but create and destroy may be called from any thread.
 * pool_find and pool_slab take no lock.
 */
#ifndef ALLOC_POOL_H
#define ALLOC_POOL_H

#include "base/base.h"

#define POOL_MAX_SLABS 1024
#define POOL_MIN_ALIGN 64
#define POOL_SLAB_ALIGN ((size_t)2 << 20) /* of a slab's base and size: a huge page */
#define POOL_PUNCH_MIN ((size_t)1 << 20)  /* free drops the pages of blocks from this size on */
#define POOL_GROWTH 8 /* a new slab has at least 1/8 of what is there: few slabs even for a TiB */

struct slab {
	int fd; /* by which others open it; -1: there is none */
	unsigned id;
	char *base;
	size_t size;
	void *own; /* the source's */
};

/* Where slabs come from. offset and len: a part of the slab that is one block's. */
struct pool_source {
	/*
	 * Sets fd, base and own; id and size (a multiple of POOL_SLAB_ALIGN) are there. base is
	 * a multiple of POOL_SLAB_ALIGN. Under the pool's lock: it must not call the pool.
	 */
	int (*make)(void *arg, size_t size, struct slab *slab);
	void (*drop)(void *arg, struct slab *slab);
	/* Gives memory that nobody uses back to the system, as far as it can; what it then reads
	 * is undefined. NULL: it cannot. */
	void (*punch)(void *arg, const struct slab *slab, size_t offset, size_t len);
	/* The memory reads as zero when it returns. */
	int (*zero)(void *arg, const struct slab *slab, size_t offset, size_t len);
	bool fresh_is_zero; /* so does a new slab's */
};

struct pool_config {
	/* Of a new slab, at least, while max_bytes allows; a larger request gets a slab of its own
	 * size. Rounded up to POOL_SLAB_ALIGN. */
	size_t slab_size;
	size_t max_bytes;                 /* of all slabs together */
	const struct pool_source *source; /* NULL: memfd_source, by this name: */
	void *source_arg;
	const char *name; /* of the memfd, seen in /proc; copied; NULL for "oriel" */
	/*
	 * Called once for a new slab, with the pool's lock held, before memory of it is handed out
	 * (and before pool_find knows it). It must not call the pool. If it fails, the slab is
	 * undone and the allocation fails with its code. May be NULL.
	 */
	int (*on_slab)(void *arg, const struct slab *slab);
	void *arg;
};

struct pool;

/* Makes no slab yet. Errors: EINVAL (a size is 0 or too large), ENOMEM. */
int pool_create(const struct pool_config *config, struct pool **pool);
/* Drops all slabs; whatever was handed out is gone. NULL is allowed. */
void pool_destroy(struct pool *pool);

/*
 * align: power of two, 0 for POOL_MIN_ALIGN. len 0 gets a unique block. Contents are undefined.
 * Errors: EINVAL (align), ENOMEM (max_bytes, POOL_MAX_SLABS or the system's limit), the source's,
 * on_slab's.
 */
int pool_alloc(struct pool *pool, size_t len, size_t align, void **ptr);
/* The same, its len bytes reading as zero; host memory is not touched where it is fresh or its
 * pages can be dropped. Errors: also the source's. */
int pool_alloc_zeroed(struct pool *pool, size_t len, size_t align, void **ptr);
/* EINVAL if ptr is not the start of a live block. NULL is allowed. */
int pool_free(struct pool *pool, void *ptr);
/*
 * The block is never handed out again: a failed peer may still write to it. It counts in
 * retired_bytes and no more in used_bytes and allocations. EINVAL as for pool_free.
 */
int pool_retire(struct pool *pool, void *ptr);
/*
 * If all of [p, p + len) lies inside one slab (live block or not): its id and the offset. With
 * len 0 the end of a slab still counts as inside. No lock, O(log slabs).
 */
bool pool_find(const struct pool *pool, const void *p, size_t len, unsigned *slab_id,
               size_t *offset);
/* The slab of an id that was handed out, or NULL. */
const struct slab *pool_slab(const struct pool *pool, unsigned slab_id);
/* Fills all fields but registrations and registered_bytes. */
void pool_stats(struct pool *pool, struct oriel_mem_stats *stats);
/* Asserts the invariants of every slab; for tests and debug builds. */
void pool_check(struct pool *pool);

#endif
