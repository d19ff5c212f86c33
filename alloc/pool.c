#include "alloc/pool.h"

#include "alloc/memfd.h"
#include "alloc/tlsf.h"
#include "base/atomic.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool_slab {
	struct slab slab;
	size_t used_end; /* at and behind it nothing was handed out yet */
};

/* What pool_find reads: immutable, ascending by base. */
struct view {
	struct view *older; /* readers may still be in it; freed with the pool */
	size_t n;
	struct view_entry {
		uintptr_t base;
		const struct slab *slab;
	} e[];
};

struct pool {
	pthread_mutex_t lock;
	size_t slab_size, max_bytes;
	char name[64];
	const struct pool_source *source;
	void *source_arg;
	int (*on_slab)(void *arg, const struct slab *slab);
	void *arg;
	struct tlsf *tlsf; /* a slab is its range of the same number */
	struct view *view; /* NULL until there is a slab */
	struct pool_slab *slabs[POOL_MAX_SLABS];
	struct oriel_mem_stats stats;
};

static_assert(POOL_MIN_ALIGN == TLSF_GRAIN, "blocks are aligned by their grain");

int
pool_create(const struct pool_config *config, struct pool **out)
{
	struct pool *p;
	int rc;

	if (!config->slab_size || config->slab_size > config->max_bytes ||
	    config->max_bytes < POOL_SLAB_ALIGN)
		return fail(ORIEL_EINVAL,
		            "pool: slabs of %zu bytes in at most %zu (which is at least %zu)",
		            config->slab_size, config->max_bytes, POOL_SLAB_ALIGN);
	if (config->max_bytes > SIZE_MAX / 8)
		return fail(ORIEL_EINVAL, "pool: a limit of %zu bytes is no address space",
		            config->max_bytes);
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(ORIEL_ENOMEM, "no memory for a pool");
	rc = tlsf_create(&p->tlsf);
	if (rc)
		goto free_pool;
	pthread_mutex_init(&p->lock, NULL);
	p->slab_size = config->slab_size;
	p->max_bytes = config->max_bytes;
	snprintf(p->name, sizeof(p->name), "%s", config->name ? config->name : "oriel");
	p->source = config->source ? config->source : &memfd_source;
	p->source_arg = config->source ? config->source_arg : p->name;
	p->on_slab = config->on_slab;
	p->arg = config->arg;
	*out = p;
	return 0;
free_pool:
	free(p);
	return rc;
}

/*
 * Slabs.
 */

static int
slab_create(const struct pool *p, size_t size, struct pool_slab **out)
{
	struct pool_slab *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return fail(ORIEL_ENOMEM, "no memory for a slab's record");
	s->slab.id = (unsigned)p->stats.slabs;
	s->slab.size = size;
	rc = p->source->make(p->source_arg, size, &s->slab);
	if (rc) {
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

static void
slab_free(const struct pool *p, struct pool_slab *s)
{
	p->source->drop(p->source_arg, &s->slab);
	free(s);
}

/* The view with one slab more, not yet published. */
static int
view_with(struct view *old, const struct slab *slab, struct view **out)
{
	size_t n = old ? old->n : 0, at = 0;
	struct view *v = malloc(sizeof(*v) + (n + 1) * sizeof(v->e[0]));

	if (!v)
		return fail(ORIEL_ENOMEM, "no memory for an index of %zu slabs", n + 1);
	while (at < n && old->e[at].base < (uintptr_t)slab->base)
		at++;
	if (n) {
		memcpy(v->e, old->e, at * sizeof(v->e[0]));
		memcpy(v->e + at + 1, old->e + at, (n - at) * sizeof(v->e[0]));
	}
	v->e[at].base = (uintptr_t)slab->base;
	v->e[at].slab = slab;
	v->n = n + 1;
	v->older = old;
	*out = v;
	return 0;
}

/* The size of a slab in which len bytes at align surely fit, or 0 if the limits do not allow it. */
static size_t
slab_size_for(const struct pool *p, size_t len, size_t align)
{
	size_t room = (p->max_bytes - p->stats.reserved_bytes) & ~(POOL_SLAB_ALIGN - 1), need, want;

	if (p->stats.slabs == POOL_MAX_SLABS || len > p->max_bytes || align > p->max_bytes)
		return 0;
	need = round_up(len + (align > POOL_SLAB_ALIGN ? align : 0), POOL_SLAB_ALIGN);
	if (!need)
		need = POOL_SLAB_ALIGN;
	want = round_up(p->slab_size, POOL_SLAB_ALIGN);
	if (want < p->stats.reserved_bytes / POOL_GROWTH)
		want = round_up(p->stats.reserved_bytes / POOL_GROWTH, POOL_SLAB_ALIGN);
	if (want > room)
		want = room;
	if (want < need)
		want = need;
	return want <= room ? want : 0;
}

/* Adds a slab in which len bytes at align fit. */
static int
grow(struct pool *p, size_t len, size_t align, unsigned *id)
{
	size_t size = slab_size_for(p, len, align);
	struct pool_slab *s = NULL;
	struct view *v = NULL;
	int rc;

	if (!size)
		return fail(
		        ORIEL_ENOMEM,
		        "pool: no room for %zu bytes aligned to %zu: %zu slabs of at most %d have "
		        "%zu bytes of at most %zu, %zu of them in use",
		        len, align, p->stats.slabs, POOL_MAX_SLABS, p->stats.reserved_bytes,
		        p->max_bytes, p->stats.used_bytes);
	rc = slab_create(p, size, &s);
	if (rc)
		return fail_more(rc, " (pool: %zu of at most %zu bytes are there)",
		                 p->stats.reserved_bytes, p->max_bytes);
	rc = view_with(p->view, &s->slab, &v);
	if (rc)
		goto free_slab;
	rc = tlsf_add(p->tlsf, (uintptr_t)s->slab.base, size, id);
	if (rc)
		goto free_view;
	/* Last, so that what it did for the slab never has to be undone. */
	rc = p->on_slab ? p->on_slab(p->arg, &s->slab) : 0;
	if (rc)
		goto drop_range;
	store_release(&p->slabs[s->slab.id], s);
	store_release(&p->view, v);
	p->stats.slabs++;
	p->stats.reserved_bytes += size;
	return 0;
drop_range:
	tlsf_drop_last(p->tlsf);
free_view:
	free(v);
free_slab:
	slab_free(p, s);
	return rc;
}

void
pool_destroy(struct pool *p)
{
	struct view *v;

	if (!p)
		return;
	while ((v = p->view)) {
		p->view = v->older;
		free(v);
	}
	for (size_t i = 0; i < p->stats.slabs; i++)
		slab_free(p, p->slabs[i]);
	tlsf_destroy(p->tlsf);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/*
 * Blocks.
 */

static int
alloc_locked(struct pool *p, size_t len, size_t align, struct tlsf_block **block)
{
	struct tlsf_block *b;
	unsigned id;
	int rc = tlsf_alloc(p->tlsf, len, align, &b);

	if (!rc && !b) {
		rc = grow(p, len, align, &id);
		if (!rc)
			rc = tlsf_alloc_first(p->tlsf, id, len, align, &b);
		assert(rc || b);
	}
	if (rc)
		return rc;
	p->stats.allocations++;
	p->stats.total_allocs++;
	p->stats.used_bytes += b->size;
	if (p->stats.peak_bytes < p->stats.used_bytes)
		p->stats.peak_bytes = p->stats.used_bytes;
	*block = b;
	return 0;
}

/* *dirty: how many bytes at the block's start need not read as zero. */
static int
alloc_block(struct pool *p, size_t len, size_t align, struct tlsf_block **block, size_t *dirty)
{
	struct pool_slab *s;
	size_t offset;
	int rc;

	if (align && !is_pow2(align))
		return fail(ORIEL_EINVAL, "pool: an alignment of %zu is no power of two", align);
	pthread_mutex_lock(&p->lock);
	rc = alloc_locked(p, len, align, block);
	if (rc)
		goto unlock;
	s = p->slabs[(*block)->range];
	offset = (*block)->addr - (uintptr_t)s->slab.base;
	*dirty = 0;
	if (!p->source->fresh_is_zero)
		*dirty = (*block)->size;
	else if (offset < s->used_end)
		*dirty = s->used_end - offset;
	if (*dirty > (*block)->size)
		*dirty = (*block)->size;
	if (s->used_end < offset + (*block)->size)
		s->used_end = offset + (*block)->size;
unlock:
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int
pool_alloc(struct pool *p, size_t len, size_t align, void **ptr)
{
	struct tlsf_block *b;
	size_t dirty;
	int rc = alloc_block(p, len, align, &b, &dirty);

	if (!rc)
		*ptr = (void *)b->addr;
	return rc;
}

int
pool_alloc_zeroed(struct pool *p, size_t len, size_t align, void **ptr)
{
	struct tlsf_block *b;
	const struct slab *slab;
	size_t dirty;
	int rc = alloc_block(p, len, align, &b, &dirty);

	if (rc)
		return rc;
	/* Without the lock: the block is ours alone. */
	slab = pool_slab(p, b->range);
	if (dirty > len)
		dirty = len;
	if (dirty)
		rc = p->source->zero(p->source_arg, slab, b->addr - (uintptr_t)slab->base, dirty);
	if (rc) {
		pool_free(p, (void *)b->addr);
		return rc;
	}
	*ptr = (void *)b->addr;
	return 0;
}

/* The live block that starts at ptr. */
static int
find_live(const struct pool *p, const void *ptr, struct tlsf_block **block)
{
	static const char *const why[] = {
		[TLSF_FREE] = "is free already",
		[TLSF_BUSY] = "is being freed by another thread",
		[TLSF_RETIRED] = "is retired",
	};
	struct tlsf_block *b;
	unsigned id;
	size_t offset;

	if (!pool_find(p, ptr, 1, &id, &offset))
		return fail(ORIEL_EINVAL, "pool: %p is not memory of this pool", ptr);
	b = tlsf_find(p->tlsf, id, (uintptr_t)ptr);
	if (!b)
		return fail(
		        ORIEL_EINVAL,
		        "pool: no block starts at %p (slab %u, offset %zu): it points into one, "
		        "or was freed before",
		        ptr, id, offset);
	if (b->state != TLSF_LIVE)
		return fail(ORIEL_EINVAL, "pool: the block at %p (slab %u, offset %zu) %s", ptr, id,
		            offset, why[b->state]);
	*block = b;
	return 0;
}

int
pool_free(struct pool *p, void *ptr)
{
	const struct slab *slab;
	struct tlsf_block *b;
	int rc;

	if (!ptr)
		return 0;
	pthread_mutex_lock(&p->lock);
	rc = find_live(p, ptr, &b);
	if (rc)
		goto unlock;
	if (b->size >= POOL_PUNCH_MIN && p->source->punch) {
		/* Slow, so others go on meanwhile; the state keeps them off this block. */
		b->state = TLSF_BUSY;
		pthread_mutex_unlock(&p->lock);
		slab = pool_slab(p, b->range);
		p->source->punch(p->source_arg, slab, b->addr - (uintptr_t)slab->base, b->size);
		pthread_mutex_lock(&p->lock);
	}
	p->stats.allocations--;
	p->stats.used_bytes -= b->size;
	tlsf_free(p->tlsf, b);
unlock:
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int
pool_retire(struct pool *p, void *ptr)
{
	struct tlsf_block *b;
	int rc;

	pthread_mutex_lock(&p->lock);
	rc = find_live(p, ptr, &b);
	if (!rc) {
		b->state = TLSF_RETIRED;
		p->stats.allocations--;
		p->stats.used_bytes -= b->size;
		p->stats.retired_bytes += b->size;
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

bool
pool_find(const struct pool *p, const void *ptr, size_t len, unsigned *slab_id, size_t *offset)
{
	const struct view *v = load_acquire(&p->view);
	const struct view_entry *e;
	uintptr_t addr = (uintptr_t)ptr;

	if (!v)
		return false;
	/* The last slab that starts at or before addr is in [e, e + n). */
	e = v->e;
	for (size_t n = v->n; n > 1; n -= n / 2)
		e += e[n / 2].base <= addr ? n / 2 : 0;
	/* Below the first slab the offset wraps: beyond any size. */
	if (!range_inside(addr - e->base, len, e->slab->size))
		return false;
	*slab_id = e->slab->id;
	*offset = addr - e->base;
	return true;
}

const struct slab *
pool_slab(const struct pool *p, unsigned slab_id)
{
	const struct pool_slab *s;

	if (slab_id >= POOL_MAX_SLABS)
		return NULL;
	s = load_acquire(&p->slabs[slab_id]);
	return s ? &s->slab : NULL;
}

void
pool_stats(struct pool *p, struct oriel_mem_stats *stats)
{
	size_t registrations = stats->registrations, registered_bytes = stats->registered_bytes;

	pthread_mutex_lock(&p->lock);
	*stats = p->stats;
	pthread_mutex_unlock(&p->lock);
	stats->registrations = registrations;
	stats->registered_bytes = registered_bytes;
}

void
pool_check(struct pool *p)
{
	struct tlsf_totals sum;
	const struct view *v;

	pthread_mutex_lock(&p->lock);
	v = p->view;
	tlsf_check(p->tlsf, &sum);
	assert(sum.ranges == p->stats.slabs && (v ? v->n : 0) == p->stats.slabs);
	assert(sum.blocks[TLSF_LIVE] + sum.blocks[TLSF_BUSY] == p->stats.allocations);
	assert(sum.bytes[TLSF_LIVE] + sum.bytes[TLSF_BUSY] == p->stats.used_bytes);
	assert(sum.bytes[TLSF_RETIRED] == p->stats.retired_bytes);
	assert(sum.bytes[TLSF_FREE] + p->stats.used_bytes + p->stats.retired_bytes ==
	       p->stats.reserved_bytes);
	assert(p->stats.reserved_bytes <= p->max_bytes);
	/* With nothing out, each slab is one free block. */
	assert(p->stats.allocations || p->stats.retired_bytes ||
	       sum.blocks[TLSF_FREE] == p->stats.slabs);
	for (size_t i = 1; v && i < v->n; i++)
		assert(v->e[i - 1].base + v->e[i - 1].slab->size <= v->e[i].base);
	pthread_mutex_unlock(&p->lock);
}
