/*
 * source.c - a pool over slabs that are not host memory: nobody but the source
 * touches them, and all else is as for any pool.
 */
#include "alloc/memfd.h"

#include "test/alloc/pool_test.h"

#include <stdlib.h>
#include <sys/mman.h>

struct far { /* memory that nobody may touch, as a GPU's */
	int made, dropped, zeroed, punched;
	int fail_make, fail_zero; /* code of the next one; 0: it works */
	size_t offset, len;       /* of the last zero or punch */
	unsigned id;
};

static int
far_make(void *arg, size_t size, struct slab *slab)
{
	struct far *f = arg;
	char *p = mmap(NULL, size + POOL_SLAB_ALIGN, PROT_NONE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert(size % POOL_SLAB_ALIGN == 0 && slab->size == size);
	if (f->fail_make) {
		munmap(p, size + POOL_SLAB_ALIGN);
		return fail(f->fail_make, "no slab today");
	}
	slab->own = p;
	slab->base = (char *)round_up((uintptr_t)p, POOL_SLAB_ALIGN);
	slab->fd = -1;
	cr_assert_eq(slab->id, (unsigned)f->made);
	f->made++;
	return 0;
}

static void
far_drop(void *arg, struct slab *slab)
{
	struct far *f = arg;

	f->dropped++;
	munmap(slab->own, slab->size + POOL_SLAB_ALIGN);
}

static void
far_punch(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	struct far *f = arg;

	f->punched++;
	f->id = slab->id;
	f->offset = offset;
	f->len = len;
}

static int
far_zero(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	struct far *f = arg;

	if (f->fail_zero)
		return fail(f->fail_zero, "not zeroed today");
	f->zeroed++;
	f->id = slab->id;
	f->offset = offset;
	f->len = len;
	return 0;
}

static const struct pool_source far_source = {
	.make = far_make,
	.drop = far_drop,
	.zero = far_zero,
};

static struct pool *
far_pool(struct far *f, const struct pool_source *source)
{
	struct pool_config config = {
		.slab_size = 4 * MIB, .max_bytes = 16 * MIB, .source = source, .source_arg = f
	};
	struct pool *p;

	cr_assert_eq(pool_create(&config, &p), 0, "%s", oriel_detail());
	return p;
}

Test(source, the_pool_touches_no_slab)
{
	struct far f = { 0 };
	struct pool *p = far_pool(&f, &far_source);
	char *block[200];
	unsigned id;
	size_t offset;

	cr_assert_eq(f.made, 0, "slabs come when something is allocated");
	for (int i = 0; i < 200; i++)
		block[i] = get(p, (size_t)i * 337, i % 7 ? 0 : 4096);
	cr_assert(f.made > 1 && f.made == (int)stats(p).slabs);
	cr_assert(pool_find(p, block[199], 199 * 337, &id, &offset));
	cr_assert_eq(pool_slab(p, id)->base + offset, block[199]);
	cr_assert_eq(pool_slab(p, id)->fd, -1);
	for (int i = 0; i < 200; i += 2)
		put(p, block[i]);
	cr_assert_eq(pool_retire(p, block[1]), 0);
	cr_assert_eq(pool_free(p, block[1]), ORIEL_EINVAL);
	for (int i = 3; i < 200; i += 2)
		put(p, block[i]);
	cr_assert_eq(f.zeroed, 0);
	end(p);
	cr_assert_eq(f.dropped, f.made);
}

Test(source, what_is_not_zero_when_it_is_fresh_is_zeroed)
{
	struct far f = { 0 };
	struct pool *p = far_pool(&f, &far_source);
	void *fresh, *again;

	cr_assert_eq(pool_alloc_zeroed(p, 1000, 0, &fresh), 0);
	cr_assert(f.zeroed == 1 && f.offset == 0 && f.len == 1000);
	put(p, fresh);
	cr_assert_eq(pool_alloc_zeroed(p, 2 * MIB, 0, &again), 0);
	cr_assert(f.zeroed == 2 && f.len == 2 * MIB);
	put(p, again);
	cr_assert_eq(pool_alloc_zeroed(p, 0, 0, &again), 0);
	cr_assert_eq(f.zeroed, 2, "nothing to zero");
	put(p, again);
	f.fail_zero = ORIEL_EGPU;
	cr_assert_eq(pool_alloc_zeroed(p, 1000, 0, &again), ORIEL_EGPU);
	cr_assert(strstr(oriel_detail(), "not zeroed today"));
	end(p);
}

Test(source, what_is_zero_when_it_is_fresh_is_not)
{
	struct pool_source zero = far_source;
	struct far f = { 0 };
	struct pool *p;
	void *a, *b;

	zero.fresh_is_zero = true;
	p = far_pool(&f, &zero);
	cr_assert_eq(pool_alloc_zeroed(p, 1000, 0, &a), 0);
	cr_assert_eq(f.zeroed, 0);
	put(p, a);
	/* The first 1024 bytes were used. */
	cr_assert_eq(pool_alloc_zeroed(p, 4096, 0, &b), 0);
	cr_assert(b == a && f.zeroed == 1 && f.offset == 0 && f.len == 1024, "%zu", f.len);
	put(p, b);
	cr_assert_eq(pool_alloc_zeroed(p, 100, 0, &b), 0);
	cr_assert(f.zeroed == 2 && f.len == 100);
	put(p, b);
	end(p);
}

Test(source, large_blocks_are_given_back_if_it_can)
{
	struct pool_source punching = far_source;
	struct far f = { 0 };
	struct pool *p;
	char *small, *large;

	punching.punch = far_punch;
	p = far_pool(&f, &punching);
	small = get(p, POOL_PUNCH_MIN - 64, 0);
	large = get(p, POOL_PUNCH_MIN, 0);
	put(p, small);
	cr_assert_eq(f.punched, 0);
	put(p, large);
	cr_assert(f.punched == 1 && f.len == POOL_PUNCH_MIN && f.offset == POOL_PUNCH_MIN - 64);
	end(p);
}

Test(source, its_errors_are_the_allocations)
{
	struct far f = { .fail_make = ORIEL_EGPU };
	struct pool *p = far_pool(&f, &far_source);
	void *ptr = NULL;

	cr_assert_eq(pool_alloc(p, 64, 0, &ptr), ORIEL_EGPU);
	cr_assert(strstr(oriel_detail(), "no slab today"), "%s", oriel_detail());
	cr_assert(!ptr && !stats(p).slabs && !f.made && !f.dropped);
	f.fail_make = 0;
	put(p, get(p, 64, 0));
	cr_assert_eq(pool_alloc(p, 17 * MIB, 0, &ptr), ORIEL_ENOMEM);
	end(p);
	cr_assert_eq(f.dropped, 1);
}

/* The hook fails after the slab was made: it is dropped. */
static int
refuse(void *arg, const struct slab *slab)
{
	(void)arg;
	(void)slab;
	return ORIEL_ELIMIT;
}

Test(source, a_slab_that_is_refused_is_dropped)
{
	struct far f = { 0 };
	struct pool_config config = { .slab_size = 4 * MIB,
		                      .max_bytes = 16 * MIB,
		                      .source = &far_source,
		                      .source_arg = &f,
		                      .on_slab = refuse };
	struct pool *p;
	void *ptr;

	cr_assert_eq(pool_create(&config, &p), 0);
	cr_assert_eq(pool_alloc(p, 64, 0, &ptr), ORIEL_ELIMIT);
	cr_assert(f.made == 1 && f.dropped == 1);
	end(p);
}

/* A source that only adds to the memfd's calls its functions. */
Test(source, the_default_can_be_called)
{
	char name[] = "oriel-test";
	struct slab slab = { .id = 3, .size = 2 * MIB };

	cr_assert_eq(memfd_make(name, slab.size, &slab), 0);
	memset(slab.base, 7, slab.size);
	memfd_punch(NULL, &slab, 4096, 8192);
	cr_assert(slab.base[4095] == 7 && is_zero(slab.base + 4096, 8192) &&
	          slab.base[3 * 4096] == 7);
	cr_assert_eq(memfd_zero(NULL, &slab, 100, MIB + 50), 0);
	cr_assert(slab.base[99] == 7 && is_zero(slab.base + 100, MIB + 50) &&
	          slab.base[MIB + 150] == 7);
	memfd_drop(NULL, &slab);
}
