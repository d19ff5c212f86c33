#include "alloc/tlsf.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SUB_BITS 5 /* 32 classes for each power of two */
#define SUB (1u << SUB_BITS)
#define LEVELS (64 - 6 - SUB_BITS + 1) /* sizes of up to 2^64 in grains of 2^6 */
#define CHUNK_BLOCKS 255
#define MAX_SIZE (SIZE_MAX / 4) /* so that a size and an alignment can be added */

struct chunk {
	struct chunk *next;
	struct tlsf_block block[CHUNK_BLOCKS];
};

struct range {
	uintptr_t base;
	size_t size;
	struct tlsf_block *first;
	/* Of each unit, the block with the lowest address that starts in it. */
	struct tlsf_block **map;
	size_t map_bytes;
};

struct tlsf {
	uint64_t level_map;       /* level l has a block */
	uint32_t sub_map[LEVELS]; /* class l * SUB + s has a block */
	struct tlsf_block *head[LEVELS * SUB];
	struct range *ranges;
	unsigned n_ranges, cap_ranges;
	struct chunk *chunks;
	unsigned fresh;           /* blocks of the first chunk that were never used */
	struct tlsf_block *spare; /* used before; linked by next_free */
	size_t n_spare;
};

static_assert(sizeof(struct tlsf_block) == CACHE_LINE, "a block's descriptor is one cache line");
static_assert(TLSF_UNIT % TLSF_GRAIN == 0, "units are whole grains");
static_assert(LEVELS <= 64, "one word maps the levels");

/*
 * Classes. Below SUB grains a class is one size, above it is 1/32 of a power of two.
 */

static unsigned
log2_floor(size_t n)
{
	return 63 - (unsigned)__builtin_clzll(n);
}

/* The class that a free block of size hangs in. */
static unsigned
class_of(size_t size)
{
	size_t n = size / TLSF_GRAIN;
	unsigned shift;

	if (n < SUB)
		return (unsigned)n;
	shift = log2_floor(n) - SUB_BITS;
	return (shift + 1) * SUB + (unsigned)(n >> shift) % SUB;
}

/* The lowest class in which every block has at least size. */
static unsigned
class_above(size_t size)
{
	size_t n = size / TLSF_GRAIN;

	if (n < SUB)
		return (unsigned)n;
	n += ((size_t)1 << (log2_floor(n) - SUB_BITS)) - 1;
	return class_of(n * TLSF_GRAIN);
}

static struct tlsf_block *
first_from(const struct tlsf *t, unsigned class)
{
	unsigned level = class / SUB;
	uint32_t subs = t->sub_map[level] & (UINT32_MAX << class % SUB);
	uint64_t levels;

	if (!subs) {
		levels = t->level_map & (UINT64_MAX << level << 1);
		if (!levels)
			return NULL;
		level = (unsigned)__builtin_ctzll(levels);
		subs = t->sub_map[level];
	}
	return t->head[level * SUB + (unsigned)__builtin_ctz(subs)];
}

static void
list_add(struct tlsf *t, struct tlsf_block *b)
{
	unsigned class = class_of(b->size);

	b->state = TLSF_FREE;
	b->prev_free = NULL;
	b->next_free = t->head[class];
	if (b->next_free)
		b->next_free->prev_free = b;
	t->head[class] = b;
	t->sub_map[class / SUB] |= UINT32_C(1) << class % SUB;
	t->level_map |= UINT64_C(1) << class / SUB;
}

static void
list_del(struct tlsf *t, struct tlsf_block *b)
{
	unsigned class = class_of(b->size);

	if (b->next_free)
		b->next_free->prev_free = b->prev_free;
	if (b->prev_free) {
		b->prev_free->next_free = b->next_free;
		return;
	}
	t->head[class] = b->next_free;
	if (b->next_free)
		return;
	t->sub_map[class / SUB] &= ~(UINT32_C(1) << class % SUB);
	if (!t->sub_map[class / SUB])
		t->level_map &= ~(UINT64_C(1) << class / SUB);
}

/*
 * Descriptors.
 */

/* Makes sure that the next n calls of block_new succeed. n is at most CHUNK_BLOCKS. */
static int
reserve_blocks(struct tlsf *t, unsigned n)
{
	struct chunk *c;

	if (t->n_spare + t->fresh >= n)
		return 0;
	c = aligned_alloc(CACHE_LINE, sizeof(*c));
	if (!c)
		return fail(ORIEL_ENOMEM, "no memory for %u block descriptors", CHUNK_BLOCKS);
	/* The few that are left of the old chunk become spares: none is lost. */
	while (t->fresh) {
		struct tlsf_block *b = &t->chunks->block[CHUNK_BLOCKS - t->fresh--];

		b->next_free = t->spare;
		t->spare = b;
		t->n_spare++;
	}
	c->next = t->chunks;
	t->chunks = c;
	t->fresh = CHUNK_BLOCKS;
	return 0;
}

static struct tlsf_block *
block_new(struct tlsf *t)
{
	struct tlsf_block *b = t->spare;

	if (b) {
		t->spare = b->next_free;
		t->n_spare--;
		return b;
	}
	assert(t->fresh);
	return &t->chunks->block[CHUNK_BLOCKS - t->fresh--];
}

static void
block_delete(struct tlsf *t, struct tlsf_block *b)
{
	b->next_free = t->spare;
	t->spare = b;
	t->n_spare++;
}

/*
 * The map of a range.
 */

static struct tlsf_block **
map_slot(const struct tlsf *t, const struct tlsf_block *b)
{
	const struct range *r = &t->ranges[b->range];

	return &r->map[(b->addr - r->base) / TLSF_UNIT];
}

static void
map_add(struct tlsf *t, struct tlsf_block *b)
{
	struct tlsf_block **slot = map_slot(t, b);

	if (!*slot || (*slot)->addr > b->addr)
		*slot = b;
}

/* b still has its neighbours. */
static void
map_del(struct tlsf *t, const struct tlsf_block *b)
{
	struct tlsf_block **slot = map_slot(t, b);

	if (*slot == b)
		*slot = b->next && map_slot(t, b->next) == slot ? b->next : NULL;
}

/*
 * Cutting and joining.
 */

/* Cuts b at size; returns the new block behind it, in no list. Neither is in a list. */
static struct tlsf_block *
split(struct tlsf *t, struct tlsf_block *b, size_t size)
{
	struct tlsf_block *rest = block_new(t);

	*rest = (struct tlsf_block){ .addr = b->addr + size,
		                     .size = b->size - size,
		                     .prev = b,
		                     .next = b->next,
		                     .range = b->range };
	if (b->next)
		b->next->prev = rest;
	b->next = rest;
	b->size = size;
	map_add(t, rest);
	return rest;
}

/* Adds b's next neighbour to b. Neither is in a list. */
static void
join_next(struct tlsf *t, struct tlsf_block *b)
{
	struct tlsf_block *gone = b->next;

	map_del(t, gone);
	b->size += gone->size;
	b->next = gone->next;
	if (b->next)
		b->next->prev = b;
	block_delete(t, gone);
}

/* Also right where rounding up wraps around: the offset is then beyond any size. */
static bool
fits(const struct tlsf_block *b, size_t size, size_t align)
{
	return range_inside(round_up(b->addr, align) - b->addr, size, b->size);
}

static struct tlsf_block *
probe(const struct tlsf *t, unsigned class, size_t size, size_t align)
{
	struct tlsf_block *b = t->head[class];

	for (int i = 0; b && i < TLSF_PROBE; i++, b = b->next_free)
		if (fits(b, size, align))
			return b;
	return NULL;
}

/* First where blocks of just this size are: they are the holes that it left. */
static struct tlsf_block *
find_fit(const struct tlsf *t, size_t size, size_t align)
{
	size_t padded = size + (align - TLSF_GRAIN);
	struct tlsf_block *b = probe(t, class_of(size), size, align);

	if (!b)
		b = first_from(t, class_above(padded));
	return b ? b : probe(t, class_of(padded), size, align);
}

/* Makes a free block that fits live, and the rest of it free blocks. */
static int
take(struct tlsf *t, struct tlsf_block *b, size_t size, size_t align, struct tlsf_block **block)
{
	size_t gap = round_up(b->addr, align) - b->addr;
	int rc = reserve_blocks(t, 2);

	if (rc)
		return rc;
	list_del(t, b);
	if (gap) {
		struct tlsf_block *front = b;

		b = split(t, front, gap);
		list_add(t, front);
	}
	if (b->size > size)
		list_add(t, split(t, b, size));
	b->state = TLSF_LIVE;
	*block = b;
	return 0;
}

/* False if no block can be that large. */
static bool
normalize(size_t *size, size_t *align)
{
	if (*size > MAX_SIZE || *align > MAX_SIZE)
		return false;
	*size = *size ? round_up(*size, TLSF_GRAIN) : TLSF_GRAIN;
	if (*align < TLSF_GRAIN)
		*align = TLSF_GRAIN;
	assert(is_pow2(*align));
	return true;
}

int
tlsf_alloc(struct tlsf *t, size_t size, size_t align, struct tlsf_block **block)
{
	struct tlsf_block *b = normalize(&size, &align) ? find_fit(t, size, align) : NULL;

	if (b)
		return take(t, b, size, align, block);
	*block = NULL;
	return 0;
}

int
tlsf_alloc_first(struct tlsf *t, unsigned range, size_t size, size_t align,
                 struct tlsf_block **block)
{
	struct tlsf_block *b = t->ranges[range].first;

	if (normalize(&size, &align) && b->state == TLSF_FREE && fits(b, size, align))
		return take(t, b, size, align, block);
	*block = NULL;
	return 0;
}

void
tlsf_free(struct tlsf *t, struct tlsf_block *b)
{
	assert(b->state != TLSF_FREE);
	if (b->next && b->next->state == TLSF_FREE) {
		list_del(t, b->next);
		join_next(t, b);
	}
	if (b->prev && b->prev->state == TLSF_FREE) {
		b = b->prev;
		list_del(t, b);
		join_next(t, b);
	}
	list_add(t, b);
}

struct tlsf_block *
tlsf_find(const struct tlsf *t, unsigned range, uintptr_t addr)
{
	const struct range *r = &t->ranges[range];
	struct tlsf_block *b;

	assert(range < t->n_ranges);
	if (addr < r->base || addr - r->base >= r->size)
		return NULL;
	b = r->map[(addr - r->base) / TLSF_UNIT];
	while (b && b->addr < addr)
		b = b->next;
	return b && b->addr == addr ? b : NULL;
}

/*
 * Life.
 */

int
tlsf_create(struct tlsf **out)
{
	struct tlsf *t = calloc(1, sizeof(*t));

	if (!t)
		return fail(ORIEL_ENOMEM, "no memory for the free lists");
	*out = t;
	return 0;
}

void
tlsf_destroy(struct tlsf *t)
{
	struct chunk *c;

	if (!t)
		return;
	while ((c = t->chunks)) {
		t->chunks = c->next;
		free(c);
	}
	for (unsigned i = 0; i < t->n_ranges; i++)
		munmap(t->ranges[i].map, t->ranges[i].map_bytes);
	free(t->ranges);
	free(t);
}

static int
reserve_range(struct tlsf *t)
{
	unsigned cap = t->cap_ranges ? 2 * t->cap_ranges : 8;
	struct range *p;

	if (t->n_ranges < t->cap_ranges)
		return 0;
	p = realloc(t->ranges, cap * sizeof(*p));
	if (!p)
		return fail(ORIEL_ENOMEM, "no memory for %u address ranges", cap);
	t->ranges = p;
	t->cap_ranges = cap;
	return 0;
}

int
tlsf_add(struct tlsf *t, uintptr_t base, size_t size, unsigned *range)
{
	size_t map_bytes = (size / TLSF_UNIT + 1) * sizeof(struct tlsf_block *);
	struct range *r;
	int rc;

	assert(size && base % TLSF_GRAIN == 0 && size % TLSF_GRAIN == 0);
	assert(base <= UINTPTR_MAX - size && size <= MAX_SIZE);
	rc = reserve_range(t);
	if (!rc)
		rc = reserve_blocks(t, 1);
	if (rc)
		return rc;
	r = &t->ranges[t->n_ranges];
	r->map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r->map == MAP_FAILED)
		return fail_errno(ORIEL_ENOMEM, errno, "no %zu bytes of address space for a map",
		                  map_bytes);
	r->base = base;
	r->size = size;
	r->map_bytes = map_bytes;
	r->first = block_new(t);
	*r->first = (struct tlsf_block){ .addr = base, .size = size, .range = t->n_ranges };
	*range = t->n_ranges++;
	map_add(t, r->first);
	list_add(t, r->first);
	return 0;
}

void
tlsf_drop_last(struct tlsf *t)
{
	struct range *r = &t->ranges[--t->n_ranges];

	assert(r->first->state == TLSF_FREE && r->first->size == r->size);
	list_del(t, r->first);
	block_delete(t, r->first);
	munmap(r->map, r->map_bytes);
}

/*
 * Checks.
 */

static void
check_block(const struct tlsf *t, const struct tlsf_block *b, const struct tlsf_block *prev)
{
	assert(b->prev == prev);
	assert(b->size && b->size % TLSF_GRAIN == 0 && b->addr % TLSF_GRAIN == 0);
	assert(!prev || (prev->addr + prev->size == b->addr && prev->range == b->range));
	assert(!prev || prev->state != TLSF_FREE || b->state != TLSF_FREE);
	/* The slot is b's if no earlier block starts in the same unit. */
	assert((*map_slot(t, b) == b) == (!prev || map_slot(t, prev) != map_slot(t, b)));
	assert(tlsf_find(t, b->range, b->addr) == b);
}

/* Returns the number of free blocks that hang in lists. */
static size_t
check_lists(const struct tlsf *t)
{
	size_t n = 0;

	for (unsigned c = 0; c < LEVELS * SUB; c++) {
		const struct tlsf_block *prev = NULL;

		assert(!t->head[c] == !(t->sub_map[c / SUB] >> c % SUB & 1));
		for (const struct tlsf_block *b = t->head[c]; b; prev = b, b = b->next_free) {
			assert(b->state == TLSF_FREE && b->prev_free == prev);
			assert(class_of(b->size) == c && class_above(b->size) >= c);
			n++;
		}
	}
	for (unsigned l = 0; l < LEVELS; l++)
		assert(!t->sub_map[l] == !(t->level_map >> l & 1));
	return n;
}

void
tlsf_check(const struct tlsf *t, struct tlsf_totals *totals)
{
	*totals = (struct tlsf_totals){ .ranges = t->n_ranges };
	for (unsigned i = 0; i < t->n_ranges; i++) {
		const struct range *r = &t->ranges[i];
		const struct tlsf_block *prev = NULL, *b = r->first;

		assert(b->addr == r->base);
		for (; b; prev = b, b = b->next) {
			assert(b->range == i);
			check_block(t, b, prev);
			totals->blocks[b->state]++;
			totals->bytes[b->state] += b->size;
			if (b->state == TLSF_FREE && b->size > totals->largest_free)
				totals->largest_free = b->size;
		}
		assert(prev->addr + prev->size == r->base + r->size);
	}
	assert(check_lists(t) == totals->blocks[TLSF_FREE]);
}
