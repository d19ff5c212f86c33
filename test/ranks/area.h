/*
 * area.h - a window over each kind of memory that one may be made over, between
 * guard bytes, for the rank tests.
 *
 * Collective: area_open, area_close. The guards lie outside the window; they and
 * the window's own bytes start as AREA_FILL.
 */
#ifndef TEST_RANKS_AREA_H
#define TEST_RANKS_AREA_H

#include "test/ranks/ranks.h"

#define AREA_GUARD 4096
#define AREA_FILL 0xa5

enum area_kind {
	AREA_ALLOC = 0, /* oriel_win_alloc */
	AREA_POOL,      /* oriel_mem_alloc, the window inside it */
	AREA_POOL_ODD,  /* the same at an odd address */
	AREA_USER,      /* malloc */
	AREA_USER_ODD,
	AREA_KINDS
};

static const char *const area_name[AREA_KINDS] = { "win_alloc", "pool", "pool at an odd address",
	                                           "malloc", "malloc at an odd address" };

struct area {
	struct ranks *r;
	enum area_kind kind;
	unsigned char *all; /* guards and window; NULL for AREA_ALLOC */
	unsigned char *base;
	size_t size;
	oriel_win *win;
};

static inline bool
area_is_pool(enum area_kind kind)
{
	return kind <= AREA_POOL_ODD;
}

static inline size_t
area_shift(enum area_kind kind)
{
	return AREA_GUARD + (kind == AREA_POOL_ODD ? 13 : kind == AREA_USER_ODD ? 7 : 0);
}

static inline bool
area_memory(struct area *a)
{
	size_t len = area_shift(a->kind) + a->size + AREA_GUARD;
	void *p = NULL;

	if (area_is_pool(a->kind)) {
		if (!OK(oriel_mem_alloc(a->r->ctx, len, 4096, &p)))
			return false;
	} else if (!NEED(!posix_memalign(&p, 4096, len), "no memory")) {
		return false;
	}
	a->all = p;
	memset(a->all, AREA_FILL, len);
	a->base = a->all + area_shift(a->kind);
	return true;
}

/* size and n_signals may differ by rank. */
static inline bool
area_open(struct area *a, struct ranks *r, oriel_comm *comm, enum area_kind kind, size_t size,
          size_t n_signals)
{
	void *base;

	memset(a, 0, sizeof(*a));
	a->r = r;
	a->kind = kind;
	a->size = size;
	if (kind != AREA_ALLOC)
		return area_memory(a) &&
		       OK(oriel_win_create(comm, size ? a->base : NULL, size, n_signals, &a->win));
	if (!OK(oriel_win_alloc(comm, size, n_signals, &base, &a->win)))
		return false;
	a->base = base;
	for (size_t i = 0; i < size; i++)
		if (!CHECK(!a->base[i], "byte %zu of new window memory is not zero", i))
			break;
	if (size)
		memset(base, AREA_FILL, size);
	/* Nobody may write before that is over. */
	return OK(oriel_barrier(comm));
}

static inline bool
area_all_fill(const unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != AREA_FILL)
			return false;
	return true;
}

static inline bool
area_guards(const struct area *a)
{
	return !a->all || (CHECK(area_all_fill(a->all, (size_t)(a->base - a->all)),
	                         "bytes before the window (%s) were written", area_name[a->kind]) &&
	                   CHECK(area_all_fill(a->base + a->size, AREA_GUARD),
	                         "bytes after the window (%s) were written", area_name[a->kind]));
}

static inline bool
area_close(struct area *a)
{
	bool ok = OK(oriel_win_free(a->win));

	ok = area_guards(a) && ok;
	if (a->all && area_is_pool(a->kind))
		ok = OK(oriel_mem_free(a->r->ctx, a->all)) && ok;
	else
		free(a->all);
	return ok;
}

#endif
