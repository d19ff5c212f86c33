#include "alloc/pool.h"

#include "test/alloc/pool_test.h"
#include "test/alloc/random.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of shared memory that exist, of all slabs: pages, not address space. */
static size_t
present(struct pool *p)
{
	size_t sum = 0;
	const struct slab *slab;
	struct stat st;

	for (unsigned id = 0; (slab = pool_slab(p, id)); id++) {
		cr_assert_eq(fstat(slab->fd, &st), 0);
		cr_assert_eq((size_t)st.st_size, slab->size);
		sum += (size_t)st.st_blocks * 512;
	}
	return sum;
}

static size_t
resident_shared(void)
{
	size_t kib = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssShmem: %zu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * KIB;
}

Test(pool, every_size_and_alignment)
{
	struct pool *p = make(2 * MIB, 64 * MIB);

	for (size_t align = 0; align <= 4 * MIB; align = align ? 2 * align : 1) {
		for (size_t n = 0; n <= 2100; n += align > 64 && align < 65536 ? 7 : 1) {
			char *a = get(p, n, align), *b = get(p, n, align);

			cr_assert(a + n <= b || b + n <= a);
			cr_assert_neq(a, b);
			memset(a, 1, n);
			memset(b, 2, n);
			cr_assert(!n || (a[0] == 1 && a[n - 1] == 1));
			put(p, a);
			put(p, b);
		}
		pool_check(p);
	}
	cr_assert_eq(stats(p).peak_bytes, 2 * round_up(2100, 64));
	end(p);
}

Test(pool, bad_arguments)
{
	struct pool_config config = { .slab_size = 0, .max_bytes = 64 * MIB };
	struct pool *p = NULL;
	void *ptr = (void *)1;

	cr_assert_eq(pool_create(&config, &p), ORIEL_EINVAL);
	config.slab_size = 65 * MIB;
	cr_assert_eq(pool_create(&config, &p), ORIEL_EINVAL);
	config.max_bytes = SIZE_MAX;
	cr_assert_eq(pool_create(&config, &p), ORIEL_EINVAL);
	config.slab_size = config.max_bytes = 4096;
	cr_assert_eq(pool_create(&config, &p), ORIEL_EINVAL);
	cr_assert_null(p);
	p = make(2 * MIB, 4 * MIB);
	cr_assert_eq(pool_alloc(p, 1, 3, &ptr), ORIEL_EINVAL);
	cr_assert_eq(pool_alloc(p, 1, 96, &ptr), ORIEL_EINVAL);
	cr_assert_eq(ptr, (void *)1);
	cr_assert_eq(stats(p).slabs, 0);
	pool_destroy(p);
	pool_destroy(NULL);
}

Test(pool, wrong_frees)
{
	struct pool *p = make(2 * MIB, 64 * MIB), *other = make(2 * MIB, 64 * MIB);
	char *a = get(p, 1000, 0), *b = get(p, 1000, 0), *c = get(other, 1000, 0);
	char *big = get(p, 8 * MIB, 0);
	int on_stack = 0;

	cr_assert_eq(pool_free(p, NULL), 0);
	cr_assert_eq(pool_free(p, &on_stack), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, c), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "not memory of this pool"));
	cr_assert_eq(pool_free(p, a + 1), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, a + 64), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, a - 1), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, big + 4 * MIB), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, big + 8 * MIB), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, b + 1024), ORIEL_EINVAL);
	cr_assert_eq(stats(p).allocations, 3);
	put(p, a);
	cr_assert_eq(pool_free(p, a), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "free already"), "%s", oriel_detail());
	cr_assert_eq(pool_retire(p, a), ORIEL_EINVAL);
	cr_assert_eq(pool_retire(p, NULL), ORIEL_EINVAL);
	put(p, b);
	cr_assert_eq(pool_free(p, b), ORIEL_EINVAL);
	put(p, big);
	cr_assert_eq(pool_free(p, big), ORIEL_EINVAL);
	put(other, c);
	end(p);
	end(other);
}

Test(pool, statistics_are_exact)
{
	struct pool *p = make(4 * MIB, 64 * MIB);
	struct oriel_mem_stats s = stats(p);
	void *a, *b, *c;

	cr_assert(!s.slabs && !s.reserved_bytes && !s.used_bytes && !s.total_allocs);
	a = get(p, 1, 0);
	b = get(p, 65, 4096);
	c = get(p, 5 * MIB, 0);
	s = stats(p);
	cr_assert(s.slabs == 2 && s.reserved_bytes == 10 * MIB, "%zu", s.reserved_bytes);
	cr_assert_eq(s.used_bytes, 64 + 128 + 5 * MIB);
	cr_assert(s.allocations == 3 && s.total_allocs == 3 && s.peak_bytes == s.used_bytes);
	put(p, c);
	cr_assert_eq(pool_retire(p, b), 0);
	cr_assert_eq(pool_retire(p, b), ORIEL_EINVAL);
	cr_assert_eq(pool_free(p, b), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "retired"), "%s", oriel_detail());
	s = stats(p);
	cr_assert(s.used_bytes == 64 && s.allocations == 1 && s.retired_bytes == 128);
	cr_assert(s.total_allocs == 3 && s.peak_bytes == 64 + 128 + 5 * MIB && s.slabs == 2);
	put(p, a);
	pool_check(p);
	/* A retired block is never handed out again. */
	for (int i = 0; i < 20000; i++) {
		a = get(p, 64, 0);
		cr_assert((char *)a + 64 <= (char *)b || (char *)a >= (char *)b + 128);
	}
	pool_check(p);
	pool_destroy(p);
}

Test(pool, growth_makes_few_slabs)
{
	struct pool *p = make(2 * MIB, 64 * GIB);

	/* 32,768 slabs of the first size would be wanted; the limit is 1024. */
	for (int i = 0; i < 63 * 1024; i++)
		get(p, MIB, 0);
	cr_assert(stats(p).slabs < 120, "%zu", stats(p).slabs);
	cr_assert(stats(p).reserved_bytes <= 64 * GIB);
	pool_check(p);
	pool_destroy(p);
}

Test(pool, exhaustion)
{
	struct pool *p = make(4 * MIB, 16 * MIB);
	void *block[256], *ptr = (void *)1;
	int n;

	for (n = 0; n < 256 && !pool_alloc(p, 128 * KIB, 0, &block[n]); n++)
		;
	cr_assert_eq(n, 128);
	cr_assert_eq(pool_alloc(p, 128 * KIB, 0, &ptr), ORIEL_ENOMEM);
	cr_assert(strstr(oriel_detail(), "131072") && strstr(oriel_detail(), "16777216"), "%s",
	          oriel_detail());
	cr_assert_eq(ptr, (void *)1);
	pool_check(p);
	for (int i = 0; i < n; i += 2)
		put(p, block[i]);
	cr_assert_eq(pool_alloc(p, 128 * KIB + 1, 0, &ptr), ORIEL_ENOMEM);
	for (int i = 0; i < n; i += 2)
		block[i] = get(p, 128 * KIB, 0);
	for (int i = 0; i < n; i++)
		put(p, block[i]);
	/* The room that is left may be less than a slab's usual size. */
	end(p);
	p = make(16 * MIB, 22 * MIB);
	block[0] = get(p, 16 * MIB, 0);
	block[1] = get(p, 6 * MIB, 0);
	cr_assert_eq(pool_alloc(p, 0, 0, &ptr), ORIEL_ENOMEM);
	put(p, block[0]);
	put(p, block[1]);
	end(p);
}

Test(pool, overflowing_requests)
{
	static const size_t sizes[] = { SIZE_MAX,           SIZE_MAX - 1,
		                        SIZE_MAX - 63,      SIZE_MAX - 64,
		                        SIZE_MAX - 2 * MIB, SIZE_MAX / 2 + 1,
		                        SIZE_MAX / 8,       GIB + 1 };
	struct pool *p = make(2 * MIB, GIB);
	void *ptr = (void *)1;
	size_t align;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (int bit = 0; bit < 64; bit++) {
			align = (size_t)1 << bit;
			cr_assert_eq(pool_alloc(p, sizes[i], align, &ptr), ORIEL_ENOMEM);
			cr_assert_eq(pool_alloc_zeroed(p, sizes[i], align, &ptr), ORIEL_ENOMEM);
			if (bit > 30)
				cr_assert_eq(pool_alloc(p, 1, align, &ptr), ORIEL_ENOMEM);
		}
	cr_assert(ptr == (void *)1 && stats(p).slabs == 0);
	put(p, get(p, GIB - 2 * MIB, 2 * MIB));
	end(p);
}

Test(pool, huge_sparse_blocks)
{
	size_t n = 4 * GIB + 8;
	struct pool *p = make(64 * MIB, 64 * GIB);
	char *a = get(p, n, 0), *b = get(p, n, 4 * MIB), *z;
	size_t offset;
	unsigned id;

	a[0] = a[2 * GIB + 1] = a[n - 1] = 'a';
	b[0] = b[4 * GIB] = b[n - 1] = 'b';
	cr_assert(a[n - 1] == 'a' && b[n - 1] == 'b' && a[n - 2] == 0);
	cr_assert(pool_find(p, a, n, &id, &offset));
	cr_assert_eq(pool_slab(p, id)->base + offset, a);
	cr_assert(present(p) < MIB);
	put(p, a);
	cr_assert_eq(pool_alloc_zeroed(p, n, 0, (void **)&z), 0);
	cr_assert(z[0] == 0 && z[2 * GIB + 1] == 0 && z[n - 1] == 0);
	cr_assert(present(p) < MIB);
	put(p, z);
	put(p, b);
	end(p);
}

Test(pool, large_blocks_give_their_pages_back)
{
	size_t n = 64 * MIB, before = resident_shared(), kept;
	struct pool *p = make(64 * MIB, GIB);
	char *keep = get(p, 4096, 0), *a = get(p, n, 0);

	memset(keep, 7, 4096);
	memset(a, 1, n);
	kept = present(p);
	cr_assert(kept >= n && kept < n + MIB);
	cr_assert(resident_shared() >= before + n);
	put(p, a);
	cr_assert(present(p) <= 8192, "%zu", present(p));
	cr_assert(resident_shared() < before + 4 * MIB);
	cr_assert(keep[0] == 7 && keep[4095] == 7);
	/* Small ones keep theirs: they are soon wanted again. */
	a = get(p, POOL_PUNCH_MIN - 64, 0);
	memset(a, 1, POOL_PUNCH_MIN - 64);
	kept = present(p);
	put(p, a);
	cr_assert_eq(present(p), kept);
	put(p, keep);
	end(p);
}

Test(pool, zeroed)
{
	struct pool *p = make(32 * MIB, 32 * MIB);
	uint64_t random = first_seed("pool.zeroed", 1);
	char *a, *b, *c;

	/* Fresh memory is not touched. */
	cr_assert_eq(pool_alloc_zeroed(p, 24 * MIB, 0, (void **)&a), 0);
	cr_assert_eq(present(p), 0);
	memset(a, 1, 24 * MIB);
	put(p, a);
	for (int i = 0; i < 300; i++) {
		size_t n = random_size(&random, 23);

		/* Dirty neighbours on both sides keep what they hold. */
		a = get(p, 777, 0);
		b = get(p, n, 0);
		c = get(p, 777, 0);
		memset(a, 3, 777);
		memset(b, 4, n);
		memset(c, 5, 777);
		put(p, b);
		cr_assert_eq(pool_alloc_zeroed(p, n, 0, (void **)&b), 0);
		cr_assert(is_zero(b, n), "%zu", n);
		for (int k = 0; k < 777; k++)
			cr_assert(a[k] == 3 && c[k] == 5);
		memset(b, 6, n);
		put(p, a);
		put(p, b);
		put(p, c);
	}
	end(p);
}

Test(pool, find_on_boundaries)
{
	struct pool *p = make(2 * MIB, GIB);
	size_t offset = 77;
	unsigned id = 77;
	char *a;

	cr_assert(!pool_find(p, p, 1, &id, &offset) && !pool_find(p, NULL, 0, &id, &offset));
	cr_assert_null(pool_slab(p, 0));
	for (int i = 0; i < 40; i++)
		get(p, 2 * MIB, 0);
	cr_assert_null(pool_slab(p, (unsigned)stats(p).slabs));
	cr_assert_null(pool_slab(p, UINT32_MAX));
	cr_assert(!pool_find(p, NULL, 0, &id, &offset) && !pool_find(p, &id, 1, &id, &offset));
	cr_assert(!pool_find(p, (void *)UINTPTR_MAX, 1, &id, &offset));
	cr_assert(id == 77 && offset == 77);
	for (unsigned i = 0; i < stats(p).slabs; i++) {
		const struct slab *s = pool_slab(p, i);

		cr_assert(s && s->id == i && (uintptr_t)s->base % POOL_SLAB_ALIGN == 0);
		cr_assert(pool_find(p, s->base, s->size, &id, &offset) && id == i && offset == 0);
		a = s->base + s->size - 1;
		cr_assert(pool_find(p, a, 1, &id, &offset) && id == i && offset == s->size - 1);
		cr_assert(!pool_find(p, a, 2, &id, &offset));
		cr_assert(!pool_find(p, s->base, s->size + 1, &id, &offset));
		cr_assert(!pool_find(p, s->base + 1, SIZE_MAX, &id, &offset));
		cr_assert(!pool_find(p, s->base + 1, s->size, &id, &offset));
		/* What is before and behind is another slab or none. */
		cr_assert(!pool_find(p, s->base - 1, 1, &id, &offset) || id != i);
		cr_assert(!pool_find(p, a + 1, 1, &id, &offset) || id != i);
		cr_assert(pool_find(p, a + 1, 0, &id, &offset));
	}
	pool_destroy(p);
}

/* A peer's view: another mapping of the slab's descriptor, whose size it cannot change. */
Test(pool, slabs_are_shared_and_sealed)
{
	struct pool *p = make(2 * MIB, GIB);
	char path[64], *a = get(p, 4096, 0), *peer, target[128] = "";
	const struct slab *s = pool_slab(p, 0);
	size_t offset;
	unsigned id;
	int fd;

	cr_assert(pool_find(p, a, 4096, &id, &offset) && id == 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), s->fd);
	cr_assert(readlink(path, target, sizeof(target) - 1) > 0);
	cr_assert(strstr(target, "oriel-test"), "%s", target);
	fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert(fd >= 0);
	peer = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(peer, MAP_FAILED);
	strcpy(peer + offset, "from the peer");
	cr_assert_str_eq(a, "from the peer");
	cr_assert(ftruncate(fd, 0) < 0 && ftruncate(fd, (off_t)(2 * s->size)) < 0);
	cr_assert(fcntl(s->fd, F_GETFD) & FD_CLOEXEC);
	munmap(peer, s->size);
	close(fd);
	put(p, a);
	end(p);
}

struct hook {
	struct pool *pool;
	unsigned calls;
	int fail;
};

static int
on_slab(void *arg, const struct slab *slab)
{
	struct hook *h = arg;
	size_t offset;
	unsigned id;

	if (h->fail)
		return fail(h->fail, "the transport refuses slab %u", slab->id);
	cr_assert(slab->id == h->calls && slab->fd >= 0 && slab->size >= 2 * MIB);
	cr_assert(!pool_find(h->pool, slab->base, 1, &id, &offset));
	slab->base[slab->size - 1] = 0;
	h->calls++;
	return 0;
}

Test(pool, on_slab)
{
	struct hook h = { 0 };
	struct pool_config config = {
		.slab_size = 2 * MIB, .max_bytes = GIB, .on_slab = on_slab, .arg = &h
	};
	void *a, *b, *c = (void *)1;
	int fd;

	cr_assert_eq(pool_create(&config, &h.pool), 0);
	a = get(h.pool, 1, 0);
	b = get(h.pool, 2 * MIB, 0);
	cr_assert_eq(h.calls, 2);
	h.fail = ORIEL_ETRANSPORT;
	fd = dup(0);
	close(fd);
	cr_assert_eq(pool_alloc(h.pool, 3 * MIB, 0, &c), ORIEL_ETRANSPORT);
	cr_assert_str_eq(oriel_detail(), "the transport refuses slab 2");
	cr_assert_eq(c, (void *)1);
	/* Its descriptor is closed, the slab is gone. */
	cr_assert(fcntl(fd, F_GETFD) < 0);
	cr_assert(stats(h.pool).slabs == 2 && !pool_slab(h.pool, 2));
	pool_check(h.pool);
	h.fail = 0;
	c = get(h.pool, 3 * MIB, 0);
	cr_assert_eq(h.calls, 3);
	put(h.pool, a);
	put(h.pool, b);
	put(h.pool, c);
	end(h.pool);
}

Test(pool, find_is_fast)
{
	struct pool *p = make(2 * MIB, 64 * GIB);
	size_t offset, found;
	unsigned id;
	uint64_t t0;
	char *a = NULL;

	for (int n = 1; n <= 64; n *= 8) {
		while (stats(p).slabs < (size_t)n)
			a = get(p, 2 * MIB, 0);
		found = 0;
		t0 = now_ns();
		for (int i = 0; i < 1000000; i++) {
			found += pool_find(p, a + (i & 1023), 8, &id, &offset);
		}
		cr_assert_eq(found, 1000000);
		fprintf(stderr, "pool: find among %d slabs: %.1f ns\n", n,
		        (double)(now_ns() - t0) / 1e6);
	}
	pool_destroy(p);
}
