/*
 * layout.h - where the blocks of a buffer lie, for calls whose blocks are not
 * simply one behind the other: chunks of blocks, the v forms, lists of pieces.
 *
 * A layout is the caller's description, not a copy of it: arrays must stay until
 * the call is over.
 */
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "base/base.h"

enum layout_kind {
	LAYOUT_STRIDED = 0, /* block i: len bytes at i * stride */
	LAYOUT_TABLE,       /* block i: lens[i] bytes at offs[i] */
	LAYOUT_LIST         /* block i: its pieces in order */
};

struct layout {
	char *base;
	enum layout_kind kind;
	/* Only its owner knows it (else all ranks' are alike). OUT only: block s is written by rank
	 * s alone and by whole blocks. */
	bool own;
	size_t stride, len; /* strided: of every block */
	const size_t *lens, *offs;
	const struct oriel_pieces *blocks;
};

static inline size_t
layout_len(const struct layout *y, uint32_t block)
{
	size_t sum = 0;

	if (y->kind == LAYOUT_STRIDED)
		return y->len;
	if (y->kind == LAYOUT_TABLE)
		return y->lens[block];
	for (size_t k = 0; k < y->blocks[block].n; k++)
		sum += y->blocks[block].piece[k].len;
	return sum;
}

/* The bytes of block from its byte at on that lie together, where they start: *run; at most left.
 * at is inside the block. */
static inline size_t
layout_run(const struct layout *y, uint32_t block, size_t at, size_t left, char **run)
{
	const struct oriel_piece *p;

	if (y->kind != LAYOUT_LIST) {
		size_t off = y->kind == LAYOUT_STRIDED ? block * y->stride : y->offs[block];

		*run = y->base + off + at;
		return left;
	}
	for (p = y->blocks[block].piece; at >= p->len; p++)
		at -= p->len;
	*run = y->base + p->off + at;
	return p->len - at < left ? p->len - at : left;
}

/* One peer can write a block of it without knowing more than where it starts. */
static inline bool
layout_placeable(const struct layout *y)
{
	return y->kind != LAYOUT_LIST;
}

#endif
