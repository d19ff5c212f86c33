/* pool_test.h - what the tests of the pool share. */
#ifndef TEST_ALLOC_POOL_TEST_H
#define TEST_ALLOC_POOL_TEST_H

#include "alloc/pool.h"

#include <criterion/criterion.h>
#include <string.h>

#ifdef NDEBUG
#error "pool_check() needs assert()"
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static inline struct pool *
make(size_t slab_size, size_t max_bytes)
{
	struct pool_config config = { .slab_size = slab_size,
		                      .max_bytes = max_bytes,
		                      .name = "oriel-test" };
	struct pool *p;

	cr_assert_eq(pool_create(&config, &p), 0, "%s", oriel_detail());
	return p;
}

static inline void *
get(struct pool *p, size_t len, size_t align)
{
	void *ptr = NULL;

	cr_assert_eq(pool_alloc(p, len, align, &ptr), 0, "%s", oriel_detail());
	cr_assert(ptr && (uintptr_t)ptr % POOL_MIN_ALIGN == 0);
	cr_assert((uintptr_t)ptr % (align ? align : 1) == 0);
	return ptr;
}

static inline void
put(struct pool *p, void *ptr)
{
	cr_assert_eq(pool_free(p, ptr), 0, "%s", oriel_detail());
}

static inline struct oriel_mem_stats
stats(struct pool *p)
{
	struct oriel_mem_stats s = { .registrations = 12345, .registered_bytes = 6789 };

	pool_stats(p, &s);
	cr_assert(s.registrations == 12345 && s.registered_bytes == 6789);
	return s;
}

static inline void
end(struct pool *p)
{
	struct oriel_mem_stats s = stats(p);

	cr_assert(s.allocations == 0 && s.used_bytes == 0);
	pool_check(p);
	pool_destroy(p);
}

static inline bool
is_zero(const char *s, size_t n)
{
	return !n || (!s[0] && !memcmp(s, s + 1, n - 1));
}

#endif
