#include "rma/slabs.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)
#define CHUNK ((size_t)CTL_PIN_CHUNK)

static oriel_ctx ctx;
static struct ctl ctl;

static char *
block(size_t len)
{
	void *p = NULL;

	cr_assert_eq(pool_alloc(ctx.pool, len, 4096, &p), 0);
	memset(p, 7, len);
	return p;
}

static size_t
present(void)
{
	struct stat st;

	cr_assert_eq(fstat(pool_slab(ctx.pool, 0)->fd, &st), 0);
	return (size_t)st.st_blocks * 512;
}

static void
open_slabs(void)
{
	ctx.ctl = &ctl;
	ctx.knobs.v.pool_slab = 64 * (int64_t)MIB;
	ctx.knobs.v.pool_max = 1024 * (int64_t)MIB;
	cr_assert_eq(slabs_open(&ctx), 0, "%s", oriel_detail());
}

Test(slabs, are_shown)
{
	const struct slab *s;

	open_slabs();
	cr_assert_eq(ctl.slabs[0].live, 0);
	block(100);
	s = pool_slab(ctx.pool, 0);
	cr_assert(ctl.slabs[0].live && ctl.slabs[0].size == s->size && ctl.slabs[0].fd == s->fd);
	cr_assert_eq(ctl.slabs[0].base, (uintptr_t)s->base);
	pool_destroy(ctx.pool);
}

Test(slabs, nothing_is_pinned_at_first)
{
	struct ctl_slab s = { .size = 64 * MIB };

	cr_assert(!ctl_slab_pinned(&s, 0, s.size));
	ctl_slab_pin(&s, 3 * MIB, 4 * MIB);
	cr_assert(ctl_slab_pinned(&s, 0, s.size));
	cr_assert(!ctl_slab_pinned(&s, 0, 3 * MIB) && !ctl_slab_pinned(&s, 4 * MIB, s.size));
	cr_assert(ctl_slab_pinned(&s, 0, 3 * MIB + 1) && ctl_slab_pinned(&s, 4 * MIB - 1, s.size));
	ctl_slab_pin(&s, 0, CHUNK);
	cr_assert(ctl_slab_pinned(&s, 0, 1) && ctl_slab_pinned(&s, 2 * MIB, 2 * MIB + 1),
	          "one range, and what lies between");
	ctl_slab_pin(&s, 63 * MIB, 64 * MIB);
	cr_assert(ctl_slab_pinned(&s, s.size - 1, s.size));
}

Test(slabs, pages_are_given_back_but_those_at_the_ends)
{
	size_t len = 4 * MIB + 8192;
	char *p;

	open_slabs();
	block(4096); /* the chunk of the block's start is not its own */
	p = block(len);
	cr_assert_geq(present(), len);
	cr_assert_eq(pool_free(ctx.pool, p), 0);
	cr_assert_leq(present(), 3 * CHUNK);
	cr_assert_eq(p[0], 7, "a neighbour may have this page's chunk pinned");
	pool_destroy(ctx.pool);
}

Test(slabs, pinned_pages_stay)
{
	size_t len = 4 * MIB, offset;
	unsigned id;
	void *again;
	char *p;

	open_slabs();
	p = block(len);
	cr_assert(pool_find(ctx.pool, p, len, &id, &offset));
	ctl_slab_pin(&ctl.slabs[id], offset + MIB, offset + MIB + CHUNK);
	cr_assert_eq(pool_free(ctx.pool, p), 0);
	cr_assert(p[0] == 7 && p[MIB] == 7 && p[len - 1] == 7 && present() >= len);
	cr_assert_eq(pool_alloc_zeroed(ctx.pool, len, 4096, &again), 0);
	cr_assert_eq(again, p);
	cr_assert(!p[0] && !memcmp(p, p + 1, len - 1));
	cr_assert_geq(present(), len, "zeroed, and not dropped");
	pool_destroy(ctx.pool);
}

Test(slabs, zeroed_memory_reads_as_zero_at_odd_ends, .timeout = 60)
{
	open_slabs();
	for (size_t shift = 64; shift < 3 * CHUNK; shift += 12345 / 64 * 64) {
		size_t len = 2 * MIB + shift / 3;
		char *before = block(shift), *p = block(len), *after = block(64);
		void *again;

		cr_assert_eq(pool_free(ctx.pool, p), 0);
		cr_assert_eq(pool_alloc_zeroed(ctx.pool, len, 4096, &again), 0);
		p = again;
		cr_assert(!p[0] && !memcmp(p, p + 1, len - 1));
		cr_assert(before[shift - 1] == 7 && after[0] == 7);
		cr_assert_eq(pool_free(ctx.pool, before), 0);
		cr_assert_eq(pool_free(ctx.pool, p), 0);
		cr_assert_eq(pool_free(ctx.pool, after), 0);
	}
	pool_destroy(ctx.pool);
}
