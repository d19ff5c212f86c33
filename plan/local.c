#include "plan/local.h"

#include "base/copy.h"
#include "coll/reduce.h"

#include <string.h>

/* Of n blocks from block i on, in a buffer that may end early and may wrap. */
static size_t
span_len(const struct launch *l, unsigned buf, uint32_t i, uint32_t n)
{
	uint32_t count = l->plan->count[buf];

	if (i + n <= count)
		return block_off(l, buf, i + n) - block_off(l, buf, i);
	return l->size[buf] - block_off(l, buf, i) + block_off(l, buf, i + n - count);
}

size_t
local_clipped_len(const struct launch *l, const struct op *op)
{
	if (op->kind == OP_SIGNAL)
		return 0;
	if (op->src != TMP)
		return span_len(l, op->src, op->j, op->n);
	if (op->dst != TMP)
		return span_len(l, op->dst, op->i, op->n);
	if (op->kind == OP_REDUCE && op->src2 != TMP)
		return span_len(l, op->src2, op->k, op->n);
	return op->n * l->block;
}

static void
combine(const struct launch *l, char *dst, const char *a, const char *b, size_t len)
{
	const struct reducer *r = l->binding->reduce;

	r->pair(r, dst, a, b, len / r->elem);
}

static void
move(char *dst, const char *src, size_t len)
{
	if (dst != src)
		move_bytes(dst, src, len);
}

/* At most left bytes from off on, which lie together. */
static inline size_t
together(const struct launch *l, unsigned buf, size_t off, size_t left)
{
	return left < l->size[buf] - off ? left : l->size[buf] - off;
}

/* One block of each. */
static void
run_ragged_block(struct launch *l, const struct op *op, uint32_t t)
{
	const uint32_t *count = l->plan->count;
	bool reduces = op->kind == OP_REDUCE;
	uint32_t i = (op->i + t) % count[op->dst], j = (op->j + t) % count[op->src];
	uint32_t k = reduces ? (op->k + t) % count[op->src2] : 0;
	size_t len = ragged_len(l, op->dst, i, op->src, j), n;
	char *to, *from, *with;

	if (reduces && op->src == TMP && op->dst == TMP)
		len = ragged_len(l, TMP, 0, op->src2, k);
	for (size_t at = 0; at < len; at += n) {
		n = ragged_run(l, op->src, j, at, len - at, &from);
		n = ragged_run(l, op->dst, i, at, n, &to);
		if (!reduces) {
			move(to, from, n);
			continue;
		}
		n = ragged_run(l, op->src2, k, at, n, &with);
		combine(l, to, from, with, n);
	}
}

/* Between buffers of this rank, piece by piece where one of them wraps. */
static void
run_usual(struct launch *l, const struct op *op)
{
	size_t from = block_off(l, op->src, op->j), to = block_off(l, op->dst, op->i);
	size_t with = op->kind == OP_REDUCE ? block_off(l, op->src2, op->k) : 0;
	size_t left = op_len(l, op), n;

	for (; left; left -= n) {
		n = together(l, op->src, from, together(l, op->dst, to, left));
		if (op->kind == OP_COPY) {
			move(l->base[op->dst] + to, l->base[op->src] + from, n);
		} else {
			n = together(l, op->src2, with, n);
			combine(l, l->base[op->dst] + to, l->base[op->src] + from,
			        l->base[op->src2] + with, n);
			with = wrapped(with + n, l->size[op->src2]);
		}
		from = wrapped(from + n, l->size[op->src]);
		to = wrapped(to + n, l->size[op->dst]);
	}
}

/* Terms that are not at equal distances: two by two. */
static void
fold_pairs(struct launch *l, const struct op *op, size_t len)
{
	uint32_t count = l->plan->count[op->src];
	char *to, *a, *b;

	ragged_run(l, op->dst, op->i, 0, len, &to);
	ragged_run(l, op->src, op->j, 0, len, &a);
	if (op->n == 1)
		move(to, a, len);
	for (uint32_t t = 1; t < op->n; t++) {
		ragged_run(l, op->src, (op->j + t) % count, 0, len, &b);
		combine(l, to, t == 1 ? a : to, b, len);
	}
}

static void
run_fold(struct launch *l, const struct op *op)
{
	const struct reducer *r = l->binding->reduce;
	size_t len;
	char *to;

	if (unlikely(l->ragged)) {
		len = ragged_len(l, op->dst, op->i, TMP, 0);
		if (!len)
			return;
		if (op->src != TMP) {
			fold_pairs(l, op, len);
			return;
		}
		ragged_run(l, op->dst, op->i, 0, len, &to);
	} else {
		to = l->base[op->dst] + block_off(l, op->dst, op->i);
		len = span_len(l, op->dst, op->i, 1);
	}
	r->fold(r, to, l->base[op->src] + op->j * l->block, l->block, (int)op->n, len / r->elem);
}

void
local_run(struct launch *l, const struct op *op)
{
	if (op->kind == OP_FOLD)
		run_fold(l, op);
	else if (likely(!l->ragged))
		run_usual(l, op);
	else
		for (uint32_t t = 0; t < op->n; t++)
			run_ragged_block(l, op, t);
}

void
local_own_block(struct launch *l)
{
	const struct binding *b = l->binding;
	size_t len, n;
	char *to, *from;

	if (likely(!l->ragged)) {
		len = l->block;
		move(l->base[OUT] + b->own_out * len, l->base[IN] + b->own_in * len, len);
		return;
	}
	len = layout_len(&l->ragged->out, b->own_out);
	for (size_t at = 0; at < len; at += n) {
		n = layout_run(&l->ragged->in, b->own_in, at, len - at, &from);
		n = layout_run(&l->ragged->out, b->own_out, at, n, &to);
		move(to, from, n);
	}
}

void
local_finish(struct launch *l)
{
	const struct reducer *r = l->binding->reduce;
	int size = l->plan->shape.size;
	char *out;

	if (!l->ragged) {
		r->finish(r, l->base[OUT], l->size[OUT] / r->elem, size);
		return;
	}
	for (uint32_t i = 0; i < l->plan->count[OUT]; i++) {
		size_t len = layout_len(&l->ragged->out, i);

		layout_run(&l->ragged->out, i, 0, len, &out);
		r->finish(r, out, len / r->elem, size);
	}
}
