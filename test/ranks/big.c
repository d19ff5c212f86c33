/*
 * Windows, displacements and extents beyond 2 GiB and 4 GiB, in sparse memory:
 * small pieces at and across the boundaries, strided and listed moves whose
 * extent crosses them. --whole: one put of 2 GiB + 1 bytes, in memory that is
 * really there.
 */
#include "test/ranks/area.h"

#include <errno.h>
#include <sys/mman.h>

#define GIB ((size_t)1 << 30)
#define SIZE (4 * GIB + 8)
#define PIECE 100
#define SLOTS 1

static const size_t places[] = {
	0,
	2 * GIB - PIECE,
	2 * GIB - 50, /* across */
	2 * GIB,
	2 * GIB + 1,
	3 * GIB + 12345,
	4 * GIB - PIECE,
	4 * GIB - 7, /* across, to the end */
	SIZE - PIECE,
	SIZE - 1,
};
#define N_PLACES (sizeof(places) / sizeof(places[0]))

static size_t
length(size_t disp)
{
	return SIZE - disp < PIECE ? SIZE - disp : PIECE;
}

static unsigned char
value(int rank, size_t disp, size_t i)
{
	return (unsigned char)(disp * 7 + disp / GIB * 31 + i * 3 + (size_t)rank * 101 + 1);
}

/* Address space without pages, for those that are not in the pool. */
static void *
sparse(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct big {
	struct ranks *r;
	oriel_win *win;
	unsigned char *base;
	bool pool;
	int right, left;
};

/* Each place by itself: put by all, looked at by the owner, got back by all. */
static bool
pieces(struct big *b)
{
	struct ranks *r = b->r;
	unsigned char buf[PIECE];

	for (size_t p = 0; p < N_PLACES; p++) {
		size_t disp = places[p], len = length(disp);

		for (size_t i = 0; i < len; i++)
			buf[i] = value(r->rank, disp, i);
		if (!OK(oriel_put_signal(b->win, b->right, disp, buf, len, 0, ORIEL_SIGNAL_ADD,
		                         1)) ||
		    !OK(oriel_signal_wait(b->win, 0, ORIEL_GE, p + 1, RANKS_WAIT_NS, NULL)))
			return false;
		for (size_t i = 0; i < len; i++)
			if (!CHECK(b->base[disp + i] == value(b->left, disp, i),
			           "byte %zu at %zu is %02x", i, disp, b->base[disp + i]))
				break;
		memset(buf, 0, len);
		if (!OK(oriel_get(b->win, b->right, disp, buf, len)) ||
		    !OK(oriel_flush_local(b->win, b->right)))
			return false;
		for (size_t i = 0; i < len; i++)
			if (!CHECK(buf[i] == value(r->rank, disp, i),
			           "byte %zu got from %zu is %02x", i, disp, buf[i]))
				break;
		FAILS(ORIEL_ERANGE, oriel_put(b->win, b->right, SIZE - len + 1, buf, len));
		/* Overlapping places are rewritten by the next round. */
		if (!OK(oriel_barrier(r->world)))
			return false;
	}
	return true;
}

/* Blocks at 0, 1 GiB, 2 GiB, ...: the strides and the extent take more than 32 bits. */
static bool
strided(struct big *b)
{
	struct ranks *r = b->r;
	unsigned char local[5 * 8], back[5 * 8] = "";
	const size_t first = 1;

	for (size_t i = 0; i < sizeof(local); i++)
		local[i] = (unsigned char)(i + (size_t)r->rank * 50 + 1);
	FAILS(ORIEL_ERANGE, oriel_put_strided(b->win, b->right, first, GIB + 1, local, 8, 8, 5));
	if (!OK(oriel_put_strided(b->win, b->right, first, GIB - 1, local, 8, 8, 5)) ||
	    !OK(oriel_flush(b->win, b->right)) ||
	    !OK(oriel_get_strided(b->win, b->right, first, GIB - 1, back, 8, 8, 5)) ||
	    !OK(oriel_flush_local(b->win, b->right)) || !OK(oriel_barrier(r->world)))
		return false;
	CHECK(!memcmp(local, back, sizeof(local)), "what was got differs from what was put");
	for (size_t i = 0; i < sizeof(local); i++)
		if (!CHECK(b->base[first + i / 8 * (GIB - 1) + i % 8] ==
		                   (unsigned char)(i + (size_t)b->left * 50 + 1),
		           "byte %zu of the strided put is wrong", i))
			break;
	return OK(oriel_barrier(r->world));
}

static bool
listed(struct big *b)
{
	struct ranks *r = b->r;
	unsigned char local[3] = { (unsigned char)(r->rank + 1), (unsigned char)(r->rank + 2),
		                   (unsigned char)(r->rank + 3) };
	struct oriel_seg segs[] = { { 4 * GIB, &local[0], 1 },
		                    { 2 * GIB + 1, &local[1], 1 },
		                    { SIZE - 1, &local[2], 1 } };

	if (!OK(oriel_put_list(b->win, b->right, segs, 3)) || !OK(oriel_flush(b->win, b->right)) ||
	    !OK(oriel_barrier(r->world)))
		return false;
	for (size_t i = 0; i < 3; i++)
		CHECK(b->base[segs[i].disp] == b->left + 1 + (int)i, "segment %zu", i);
	if (!OK(oriel_barrier(r->world)))
		return false;
	segs[2].disp = SIZE;
	FAILS(ORIEL_ERANGE, oriel_put_list(b->win, b->right, segs, 3));
	return true;
}

static bool
atomics(struct big *b)
{
	uint64_t word;
	size_t disp = 4 * GIB;

	memset(b->base + disp, 0, 8);
	if (!OK(oriel_barrier(b->r->world)) ||
	    !OK(oriel_fetch_add(b->win, b->right, disp, 5, &word)) ||
	    !OK(oriel_barrier(b->r->world)))
		return false;
	memcpy(&word, b->base + disp, 8);
	CHECK(word == 5, "the word at 4 GiB is %llu", (unsigned long long)word);
	return OK(oriel_barrier(b->r->world));
}

static bool
open_big(struct big *b, size_t size)
{
	size_t got = 0;
	void *base = NULL;

	if (b->pool) {
		if (!OK(oriel_win_alloc(b->r->world, size, SLOTS, &base, &b->win)))
			return false;
	} else {
		base = sparse(size);
		if (!NEED(base, "no address space: %s", strerror(errno)) ||
		    !OK(oriel_win_create(b->r->world, base, size, SLOTS, &b->win)))
			return false;
	}
	b->base = base;
	b->right = (b->r->rank + 1) % b->r->size;
	b->left = (b->r->rank + b->r->size - 1) % b->r->size;
	OK(oriel_win_query(b->win, b->right, &got, NULL));
	return NEED(got == size, "the window has %zu bytes", got);
}

static bool
close_big(struct big *b, size_t size)
{
	if (!OK(oriel_win_free(b->win)))
		return false;
	if (!b->pool)
		munmap(b->base, size);
	return true;
}

/* Rank 0 puts all of it at once into rank 1's. */
static bool
whole(struct ranks *r, bool pool)
{
	struct big b = { .r = r, .pool = pool };
	size_t len = 2 * GIB + 1;
	unsigned char *src = r->rank == 0 ? sparse(len) : NULL;
	bool ok = r->rank || NEED(src, "no address space");

	for (size_t i = 0; src && i < len; i += 4093)
		src[i] = (unsigned char)(i >> 12 | 1);
	if (src)
		src[len - 1] = 77;
	ok = ok && open_big(&b, len + 8);
	if (ok && r->rank == 0)
		ok = OK(oriel_put_signal(b.win, 1, 8, src, len, 0, ORIEL_SIGNAL_SET, 1)) &&
		     OK(oriel_flush(b.win, 1));
	if (ok && r->rank == 1) {
		ok = OK(oriel_signal_wait(b.win, 0, ORIEL_EQ, 1, 10 * RANKS_WAIT_NS, NULL));
		for (size_t i = 0; ok && i < len - 1; i += 4093)
			ok = CHECK(b.base[8 + i] == (unsigned char)(i >> 12 | 1),
			           "byte %zu of the put is %02x", i, b.base[8 + i]) &&
			     (i + 2 >= len || CHECK(!b.base[9 + i], "byte %zu is not 0", i + 1));
		CHECK(b.base[8 + len - 1] == 77, "the last byte is %d", b.base[8 + len - 1]);
	}
	ok = ok && OK(oriel_barrier(r->world)) && close_big(&b, len + 8);
	if (src)
		munmap(src, len);
	return ok;
}

static int
run(struct ranks *r)
{
	if (ranks_flag("--whole"))
		return r->size < 2 ? ranks_skip("needs two ranks")
		                   : !whole(r, true) || !whole(r, false);
	for (int pool = 1; pool >= 0; pool--) {
		struct big b = { .r = r, .pool = pool };

		if (!open_big(&b, SIZE) || !pieces(&b) || !strided(&b) || !listed(&b) ||
		    !atomics(&b) || !close_big(&b, SIZE))
			return 1;
	}
	return 0;
}

RANKS_MAIN(run)
