/*
 * stream_combine.c - reduce and fold on a stream: a kernel with few blocks.
 */
#ifdef HAVE_CUDA_HEADERS
#include "plan/stream_impl.h"

#include "coll/reduce.h"

/* The type and the operation, as the collective's binding names them. */
static int
kernel_of(const struct stream_call *sc, struct kernel_fold *k, CUfunction *f)
{
	uint32_t salt = sc->l->binding->salt;
	int type = reduce_salt_type(salt);

	if ((unsigned)type >= GPU_TYPES || !sc->st->g->fold[type])
		return fail(ORIEL_ENOTSUP, "%s: no kernel for type %d: %s",
		            sc->l->plan->program->name, type, sc->st->g->kernels_why);
	k->op = (int32_t)reduce_salt_op(salt);
	*f = sc->st->g->fold[type];
	return 0;
}

static int
fold(const struct stream_call *sc, struct kernel_fold k)
{
	CUfunction f = NULL;
	int rc = k.count ? kernel_of(sc, &k, &f) : 0;

	if (rc || !k.count)
		return rc;
	return gpu_launch(sc->st->g, f, (unsigned)sc->l->ctx->knobs.v.gpu_blocks, KERNEL_THREADS,
	                  &k, sc->s);
}

static uint64_t
address(const struct launch *l, unsigned buf, size_t off)
{
	return (uintptr_t)l->base[buf] + off;
}

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Piece by piece where one of the buffers wraps. */
static int
combine_two(const struct stream_call *sc, const struct op *op)
{
	const struct launch *l = sc->l;
	size_t a = block_off(l, op->src, op->j), b = block_off(l, op->src2, op->k);
	size_t to = block_off(l, op->dst, op->i), left = op_len(l, op), n;
	int rc = 0;

	for (; left && !rc; left -= n) {
		struct kernel_fold k = { .dst = address(l, op->dst, to),
			                 .src = address(l, op->src, a),
			                 .terms = 2 };

		k.stride = (int64_t)(address(l, op->src2, b) - k.src);
		n = least(least(l->size[op->src] - a, l->size[op->src2] - b),
		          least(l->size[op->dst] - to, left));
		k.count = n / l->binding->reduce->elem;
		rc = fold(sc, k);
		a = wrapped(a + n, l->size[op->src]);
		b = wrapped(b + n, l->size[op->src2]);
		to = wrapped(to + n, l->size[op->dst]);
	}
	return rc;
}

int
stream_combine(const struct stream_call *sc, const struct op *op)
{
	const struct launch *l = sc->l;
	struct kernel_fold k = { .terms = (int32_t)op->n };
	size_t to;

	if (op->kind == OP_REDUCE)
		return combine_two(sc, op);
	to = block_off(l, op->dst, op->i);
	k.dst = address(l, op->dst, to);
	k.src = address(l, op->src, op->j * l->block);
	k.stride = (int64_t)l->block;
	k.count = least(l->block, l->size[op->dst] - to) / l->binding->reduce->elem;
	return fold(sc, k);
}

int
stream_finish(const struct stream_call *sc)
{
	const struct launch *l = sc->l;
	struct kernel_fold k = { .terms = 1, .divisor = l->plan->shape.size };

	if (!l->base[OUT])
		return 0;
	k.dst = k.src = address(l, OUT, 0);
	k.count = l->size[OUT] / l->binding->reduce->elem;
	return fold(sc, k);
}
#endif
