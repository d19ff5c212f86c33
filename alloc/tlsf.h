/*
 * tlsf.h - two-level segregated fit over ranges of addresses that are never
 * touched: all bookkeeping is outside, so that the ranges may be shared, remote
 * or device memory.
 *
 * A range is cut into blocks without gaps; each has a descriptor, linked to its
 * neighbours in address order. Two free blocks never touch. Free blocks hang in
 * lists by class: exact below 2 KiB, then 32 classes for each power of two. Two
 * levels of bitmaps find a class that is not empty.
 *
 * Cost, whatever the number of blocks: alloc looks at no more than TLSF_PROBE
 * blocks of a class that may hold an exact fit, then takes the head of a class
 * where every block fits; free merges with at most two neighbours; find walks at
 * most TLSF_UNIT / TLSF_GRAIN blocks. Memory: 64 bytes a block, kept for reuse,
 * and a map of 1/64 of each range's size, of which only touched pages exist.
 *
 * Fit: a request of n bytes fails only if no free block has more than n * 33/32
 * (plus the alignment). A block is cut to the grain, so less than 64 bytes of it
 * are wasted.
 *
 * Threads: the caller locks.
 */
#ifndef ALLOC_TLSF_H
#define ALLOC_TLSF_H

#include "base/base.h"

#define TLSF_GRAIN 64 /* sizes and addresses of blocks are multiples of it */
#define TLSF_UNIT 512 /* of range for one word of its map */
#define TLSF_PROBE 4

enum tlsf_state {
	TLSF_FREE,
	TLSF_LIVE,
	TLSF_BUSY,   /* on its way to be freed: nobody else may free it */
	TLSF_RETIRED /* never handed out again */
};

struct tlsf_block {
	uintptr_t addr;
	size_t size;
	struct tlsf_block *prev, *next;           /* neighbours in the range */
	struct tlsf_block *prev_free, *next_free; /* of its class, while free */
	unsigned range;
	enum tlsf_state state; /* the caller may move it among the states that are not TLSF_FREE */
} cache_aligned;

struct tlsf_totals {
	size_t ranges;
	size_t blocks[TLSF_RETIRED + 1], bytes[TLSF_RETIRED + 1]; /* by state */
	size_t largest_free;
};

struct tlsf;

int tlsf_create(struct tlsf **t);
void tlsf_destroy(struct tlsf *t);

/* base and size are multiples of TLSF_GRAIN, size > 0. *range: 0, 1, ... in the order of adding. */
int tlsf_add(struct tlsf *t, uintptr_t base, size_t size, unsigned *range);
/* Undoes the last tlsf_add, before anything of its range was handed out. */
void tlsf_drop_last(struct tlsf *t);

/*
 * *block: a live block of size bytes (0 counts as 1, rounded up to the grain),
 * its address a multiple of align (a power of two, or 0), or NULL if none fits:
 * that is no error, the caller may add a range. ENOMEM: no descriptors.
 */
int tlsf_alloc(struct tlsf *t, size_t size, size_t align, struct tlsf_block **block);
/* The same from the first block of a range that was just added: it fits if it can. */
int tlsf_alloc_first(struct tlsf *t, unsigned range, size_t size, size_t align,
                     struct tlsf_block **block);
/* The block that starts at addr, free or not, or NULL. addr may be any number. */
struct tlsf_block *tlsf_find(const struct tlsf *t, unsigned range, uintptr_t addr);
/* Any block that is not free; its descriptor is gone. */
void tlsf_free(struct tlsf *t, struct tlsf_block *block);

/* Walks everything: asserts the invariants and sums up. */
void tlsf_check(const struct tlsf *t, struct tlsf_totals *totals);

#endif
