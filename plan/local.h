/*
 * local.h - where the bytes of blocks are, and what is done with them inside a
 * rank.
 */
#ifndef PLAN_LOCAL_H
#define PLAN_LOCAL_H

#include "plan/launch.h"

/* copy, reduce and fold; the own block before the program starts; avg's division at the end. */
void local_run(struct launch *l, const struct op *op);
void local_own_block(struct launch *l);
void local_finish(struct launch *l);
/* Of a call whose OUT or IN ends early. */
size_t local_clipped_len(const struct launch *l, const struct op *op);

static inline size_t
wrapped(size_t off, size_t size)
{
	return off >= size ? off - size : off;
}

/* ---- Blocks one behind the other ---- */

/* Where block i starts; the end if it is cut off. */
static inline size_t
block_off(const struct launch *l, unsigned buf, uint32_t i)
{
	size_t off = i * l->block;

	return likely(off < l->size[buf]) ? off : l->size[buf];
}

/* Bytes that a put, copy or reduce moves. */
static inline size_t
op_len(const struct launch *l, const struct op *op)
{
	return likely(!l->clipped) ? op->n * l->block : local_clipped_len(l, op);
}

/* ---- Blocks anywhere ---- */

static inline const struct layout *
layout_of(const struct launch *l, unsigned buf)
{
	return buf == IN ? &l->ragged->in : &l->ragged->out;
}

/* The bytes of one block of dst that come from one of src: TMP's are as long as the other's. */
static inline size_t
ragged_len(const struct launch *l, unsigned dst, uint32_t i, unsigned src, uint32_t j)
{
	if (src != TMP)
		return layout_len(layout_of(l, src), j);
	return dst != TMP ? layout_len(layout_of(l, dst), i) : l->block;
}

/* As layout_run, of any buffer. */
static inline size_t
ragged_run(const struct launch *l, unsigned buf, uint32_t i, size_t at, size_t left, char **run)
{
	if (buf != TMP)
		return layout_run(layout_of(l, buf), i, at, left, run);
	*run = l->base[TMP] + i * l->block + at;
	return left;
}

#endif
