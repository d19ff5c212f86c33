/*
 * memfd.h - slabs of host memory: each one memfd, mapped shared, its size sealed.
 *
 * The functions are those of a pool_source whose arg is the memfd's name, seen in
 * /proc. A source that only does more than this one calls them.
 */
#ifndef ALLOC_MEMFD_H
#define ALLOC_MEMFD_H

#include "alloc/pool.h"

extern const struct pool_source memfd_source;

int memfd_make(void *name, size_t size, struct slab *slab);
void memfd_drop(void *name, struct slab *slab);
void memfd_punch(void *name, const struct slab *slab, size_t offset, size_t len);
int memfd_zero(void *name, const struct slab *slab, size_t offset, size_t len);

#endif
