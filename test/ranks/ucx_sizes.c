/*
 * Puts, puts with a signal and gets of sizes around every threshold of the UCX
 * path, at odd offsets, to the right neighbour; every byte is checked, and that
 * nothing beside the target range was touched. --big: across 2 GiB and 4 GiB.
 */
#include "test/ranks/ranks.h"

#include <sys/mman.h>

#define MAX (16u << 20)
#define GUARD 64

static const size_t sizes[] = { 0,       1,       2,        7,      8,      9,       63,
	                        64,      65,      255,      511,    512,    513,     1000,
	                        4095,    4096,    4097,     8000,   8063,   8064,    8065,
	                        8191,    8192,    8193,     12288,  16384,  65535,   65536,
	                        65537,   262144,  524287,   524288, 524289, 1000003, 1048576,
	                        4194301, 8388608, 16777215, MAX };

static unsigned char
byte(int rank, unsigned step, size_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) * 7 + (size_t)rank * 17 + step * 29 + 1);
}

static void
fill(unsigned char *p, size_t len, int rank, unsigned step)
{
	for (size_t i = 0; i < len; i++)
		p[i] = byte(rank, step, i);
}

static size_t
wrong(const unsigned char *p, size_t len, int rank, unsigned step)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != byte(rank, step, i))
			return i + 1;
	return 0;
}

static size_t
touched(const unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != 0xee)
			return i + 1;
	return 0;
}

/* kind 0: put, flush, signal; 1: put, signal; 2: put_signal; 3: get. */
static int
one(struct ranks *r, oriel_win *win, unsigned char *base, unsigned char *src, size_t len,
    unsigned kind, unsigned step)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	size_t off = GUARD + (len * 7 + step) % 17;
	size_t bad;

	memset(base, 0xee, len + 2 * GUARD + 17);
	memset(src, 0xee, len + 2 * GUARD + 17);
	if (kind == 3)
		fill(base + off, len, r->rank, step);
	else
		fill(src + step % 3, len, r->rank, step);
	if (!OK(oriel_barrier(r->world)))
		return 1;
	if (kind == 3) {
		if (!OK(oriel_get(win, right, off, src + 5, len)) || !OK(oriel_flush(win, right)))
			return 1;
		bad = wrong(src + 5, len, right, step);
		CHECK(!bad, "get of %zu: byte %zu is wrong", len, bad - 1);
		CHECK(!touched(src, 5) && !touched(src + 5 + len, GUARD), "get of %zu: beside it",
		      len);
		return !OK(oriel_barrier(r->world));
	}
	if (kind == 2) {
		if (!OK(oriel_put_signal(win, right, off, src + step % 3, len, 0, ORIEL_SIGNAL_SET,
		                         step)))
			return 1;
	} else {
		if (!OK(oriel_put(win, right, off, src + step % 3, len)))
			return 1;
		if (kind == 0 && !OK(oriel_flush(win, right)))
			return 1;
		if (!OK(oriel_signal(win, right, 0, ORIEL_SIGNAL_SET, step)))
			return 1;
	}
	if (!OK(oriel_signal_wait_from(win, left, 0, ORIEL_EQ, step, RANKS_WAIT_NS, NULL)))
		return 1;
	bad = wrong(base + off, len, left, step);
	CHECK(!bad, "kind %u of %zu: byte %zu is wrong", kind, len, bad - 1);
	CHECK(!touched(base, off) && !touched(base + off + len, GUARD), "kind %u of %zu: beside it",
	      kind, len);
	return !OK(oriel_flush_local(win, right)) || !OK(oriel_barrier(r->world));
}

/* Windows that are mostly holes; what is written lies around the edges of 2 and 4 GiB. */
static int
big(struct ranks *r)
{
	static const size_t at[] = { 0, ((size_t)2 << 30) - 3, ((size_t)2 << 30) + 1,
		                     ((size_t)4 << 30) - 1, ((size_t)4 << 30) + 8 };
	size_t size = ((size_t)4 << 30) + (1 << 20);
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	unsigned char *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static unsigned char src[20000];
	oriel_win *win;
	size_t bad;

	if (!CHECK(base != MAP_FAILED, "cannot map %zu bytes", size))
		return 1;
	if (!OK(oriel_win_create(r->world, base, size, 1, &win)))
		return 1;
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		for (unsigned j = 0; j < 2; j++) {
			unsigned step = i * 2 + j + 1;
			size_t len = j ? sizeof(src) : 16;

			fill(src, len, r->rank, step);
			if (!OK(oriel_put_signal(win, right, at[i], src, len, 0, ORIEL_SIGNAL_SET,
			                         step)) ||
			    !OK(oriel_signal_wait_from(win, left, 0, ORIEL_EQ, step, RANKS_WAIT_NS,
			                               NULL)))
				return 1;
			bad = wrong(base + at[i], len, left, step);
			CHECK(!bad, "%zu bytes at %zu: byte %zu is wrong", len, at[i], bad - 1);
			memset(src, 0, sizeof(src));
			if (!OK(oriel_flush_local(win, right)) ||
			    !OK(oriel_get(win, right, at[i], src, len)) ||
			    !OK(oriel_flush(win, right)))
				return 1;
			bad = wrong(src, len, r->rank, step);
			CHECK(!bad, "get of %zu at %zu: byte %zu is wrong", len, at[i], bad - 1);
			if (!OK(oriel_barrier(r->world)))
				return 1;
		}
	OK(oriel_win_free(win));
	munmap(base, size);
	return 0;
}

/* One put of 2 GiB + 1 bytes out of a source without pages. */
static int
huge(struct ranks *r)
{
	size_t size = ((size_t)2 << 30) + 1;
	unsigned char *base = NULL;
	oriel_win *win;

	if (r->rank < 2)
		base = mmap(NULL, size, PROT_READ | PROT_WRITE,
		            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!CHECK(base != MAP_FAILED, "cannot map %zu bytes", size))
		return 1;
	if (r->rank == 1) {
		base[0] = base[size - 1] = base[size / 2] = 1;
	}
	if (!OK(oriel_win_create(r->world, r->rank == 1 ? base : NULL, r->rank == 1 ? size : 0, 1,
	                         &win)))
		return 1;
	if (r->rank == 0) {
		base[size - 1] = 77;
		if (!OK(oriel_put_signal(win, 1, 0, base, size, 0, ORIEL_SIGNAL_SET, 1)) ||
		    !OK(oriel_flush(win, 1)))
			return 1;
	}
	if (r->rank == 1) {
		if (!OK(oriel_signal_wait_from(win, 0, 0, ORIEL_EQ, 1, RANKS_WAIT_NS, NULL)))
			return 1;
		CHECK(base[0] == 0 && base[size / 2] == 0 && base[size - 1] == 77,
		      "%d %d %d at the ends and in the middle", base[0], base[size / 2],
		      base[size - 1]);
	}
	OK(oriel_win_free(win));
	if (base)
		munmap(base, size);
	return 0;
}

static int
run(struct ranks *r)
{
	unsigned char *base, *src;
	unsigned step = 0;
	oriel_win *win;
	int failed = 0;

	if (r->size < 2)
		return ranks_skip("needs two ranks");
	if (ranks_flag("--big"))
		return big(r) || huge(r);
	base = malloc(MAX + 2 * GUARD + 32);
	src = malloc(MAX + 2 * GUARD + 32);
	if (!OK(oriel_win_create(r->world, base, MAX + 2 * GUARD + 32, 1, &win)))
		return 1;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !failed; i++)
		for (unsigned kind = 0; kind < 4 && !failed; kind++)
			failed = one(r, win, base, src, sizes[i], kind, ++step);
	if (!failed)
		OK(oriel_win_free(win));
	free(base);
	free(src);
	return failed;
}

RANKS_MAIN(run)
