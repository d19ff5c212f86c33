/*
 * combine.c - the collectives that combine elements.
 */
#include "coll/call.h"
#include "oriel_cuda.h"

/* What all of them check; rc of coll_describe goes in. */
static inline int
set_op(struct coll_call *c, int type, const oriel_op *op)
{
	int rc = reduce_lookup(c->comm->ctx, type, op, coll_kinds[c->op].name, &c->reducer);

	if (unlikely(rc))
		return rc;
	if (!c->reducer.commutative)
		c->flags |= SELECT_ORDERED;
	c->align = c->reducer.elem;
	c->b.reduce = &c->reducer;
	c->b.finish = c->reducer.finish != NULL;
	c->b.salt = reduce_salt(type, op);
	return 0;
}

static inline int
check_bytes(const struct coll_call *c, size_t count, size_t times, size_t *bytes)
{
	size_t total;

	if (likely(!__builtin_mul_overflow(count, c->reducer.elem, bytes) &&
	           !__builtin_mul_overflow(*bytes, times, &total) && total <= PTRDIFF_MAX))
		return 0;
	return fail(ORIEL_ERANGE, "%s: %zu elements of %zu bytes, %zu times",
	            coll_kinds[c->op].name, count, c->reducer.elem, times);
}

/* in and out are vectors of count elements. */
static inline int
set_vectors(struct coll_call *c, const void *in, void *out, size_t count, bool has_out)
{
	size_t bytes;
	int rc = check_bytes(c, count, 1, &bytes);

	if (unlikely(rc))
		return rc;
	if (has_out)
		rc = coll_check_buffer(c, "out", out, bytes);
	else
		rc = coll_check_buffer(c, "in", in, bytes);
	if (unlikely(rc))
		return rc;
	if (!in)
		in = out;
	if (has_out && in != out)
		rc = coll_check_overlap(c, in, bytes, out, bytes);
	c->b.buf[IN] = (void *)(uintptr_t)in;
	c->b.buf[OUT] = has_out ? out : NULL;
	c->b.bytes = c->measure = bytes;
	return rc;
}

static inline int
describe_allreduce(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t count,
                   int type, const oriel_op *op)
{
	int rc = coll_describe(c, comm, COLL_ALLREDUCE);

	if (likely(!rc))
		rc = set_op(c, type, op);
	return likely(!rc) ? set_vectors(c, in, out, count, true) : rc;
}

static inline int
describe_reduce(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t count,
                int type, const oriel_op *op, int root)
{
	int rc = coll_describe(c, comm, COLL_REDUCE);
	bool at_root;

	if (likely(!rc))
		rc = coll_check_root(c, root);
	if (likely(!rc))
		rc = set_op(c, type, op);
	if (unlikely(rc))
		return rc;
	at_root = comm->rank == root;
	c->root = root;
	c->b.finish &= at_root;
	return set_vectors(c, in, out, count, at_root);
}

static inline int
describe_prefix(struct coll_call *c, oriel_comm *comm, enum coll_op kind, const void *in, void *out,
                size_t count, int type, const oriel_op *op)
{
	int rc = coll_describe(c, comm, kind);

	if (unlikely(rc))
		return rc;
	if (op == ORIEL_AVG)
		return fail(ORIEL_EINVAL, "%s: no average, ranks have different numbers of terms",
		            coll_kinds[kind].name);
	rc = set_op(c, type, op);
	return likely(!rc) ? set_vectors(c, in, out, count, true) : rc;
}

static int
describe_scan(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t count,
              int type, const oriel_op *op)
{
	return describe_prefix(c, comm, COLL_SCAN, in, out, count, type, op);
}

static int
describe_exscan(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t count,
                int type, const oriel_op *op)
{
	return describe_prefix(c, comm, COLL_EXSCAN, in, out, count, type, op);
}

static int
describe_reduce_scatter(struct coll_call *c, oriel_comm *comm, const void *in, void *out,
                        size_t count, int type, const oriel_op *op)
{
	int rc = coll_describe(c, comm, COLL_REDUCE_SCATTER);
	size_t bytes, total;

	if (!rc)
		rc = set_op(c, type, op);
	if (!rc)
		rc = check_bytes(c, count, (size_t)comm->size, &bytes);
	if (rc)
		return rc;
	total = bytes * (size_t)comm->size;
	rc = coll_check_buffer(c, "out", out, bytes);
	if (!rc && in)
		rc = coll_check_overlap(c, in, total, out, bytes);
	c->b.buf[IN] = in ? (void *)(uintptr_t)in : out;
	c->b.buf[OUT] = out;
	c->b.block = c->measure = bytes;
	return rc;
}

/* The counts are the layout of in, in bytes; a table of them is made for the call. */
static int
describe_reduce_scatterv(struct coll_call *c, oriel_comm *comm, const void *in, void *out,
                         const size_t *counts, int type, const oriel_op *op)
{
	int rc = coll_describe(c, comm, COLL_REDUCE_SCATTER);
	size_t total = 0, largest = 0, bytes = 0;

	if (!rc)
		rc = set_op(c, type, op);
	if (!rc && !counts)
		rc = fail(ORIEL_EINVAL, "reduce_scatterv: counts is NULL");
	for (int i = 0; i < (rc ? 0 : comm->size) && !rc; i++) {
		rc = check_bytes(c, counts[i], 1, &bytes);
		if (!rc && __builtin_add_overflow(total, bytes, &total))
			rc = fail(ORIEL_ERANGE, "reduce_scatterv: the counts are too many");
		largest = bytes > largest ? bytes : largest;
	}
	if (rc)
		return rc;
	bytes = counts[comm->rank] * c->reducer.elem;
	rc = coll_check_buffer(c, "out", out, in ? bytes : total);
	if (!rc && in)
		rc = coll_check_overlap(c, in, total, out, bytes);
	if (!rc)
		rc = coll_make_table(c, comm->size);
	if (rc)
		return rc;
	for (int i = 0; i < comm->size; i++) {
		c->lens[i] = counts[i] * c->reducer.elem;
		c->offs[i] = i ? c->offs[i - 1] + c->lens[i - 1] : 0;
	}
	c->ragged.in = (struct layout){ .base = in ? (char *)(uintptr_t)in : out,
		                        .kind = LAYOUT_TABLE,
		                        .lens = c->lens,
		                        .offs = c->offs };
	c->ragged.out = (struct layout){ .base = out, .len = bytes, .stride = bytes };
	c->ragged.extent = bytes;
	c->b.ragged = &c->ragged;
	c->b.buf[IN] = c->ragged.in.base;
	c->b.buf[OUT] = out;
	c->b.block = largest;
	c->measure = total / (size_t)comm->size;
	c->flags |= SELECT_V;
	c->b.salt ^= (uint32_t)hash_bytes(0, c->lens, (size_t)comm->size * sizeof(size_t));
	if (in)
		return 0;
	/* In place OUT would cover more of IN than the one block that programs may overwrite. */
	rc = coll_stage(c, total);
	c->b.buf[IN] = c->ragged.in.base = c->stage;
	return rc;
}

COLL_FORMS_OF(COLL_REDUCE, reduce,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                        const oriel_op *op, int root),
              COLL_ARGS(comm, in, out, count, type, op, root), in, out, count, op, type, root)
COLL_FORMS_OF(COLL_ALLREDUCE, allreduce,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                        const oriel_op *op),
              COLL_ARGS(comm, in, out, count, type, op), in, out, count, op, type, 0)
COLL_FORMS_OF(COLL_REDUCE_SCATTER, reduce_scatter,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                        const oriel_op *op),
              COLL_ARGS(comm, in, out, count, type, op), in, out, count, op, type, 0)
COLL_FORMS(reduce_scatterv,
           COLL_ARGS(oriel_comm *comm, const void *in, void *out, const size_t *counts, int type,
                     const oriel_op *op),
           COLL_ARGS(comm, in, out, counts, type, op))
COLL_FORMS_OF(COLL_SCAN, scan,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                        const oriel_op *op),
              COLL_ARGS(comm, in, out, count, type, op), in, out, count, op, type, 0)
COLL_FORMS_OF(COLL_EXSCAN, exscan,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                        const oriel_op *op),
              COLL_ARGS(comm, in, out, count, type, op), in, out, count, op, type, 0)

COLL_ON_STREAM(reduce,
               COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                         const oriel_op *op, int root),
               COLL_ARGS(comm, in, out, count, type, op, root))
COLL_ON_STREAM(allreduce,
               COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                         const oriel_op *op),
               COLL_ARGS(comm, in, out, count, type, op))
COLL_ON_STREAM(reduce_scatter,
               COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                         const oriel_op *op),
               COLL_ARGS(comm, in, out, count, type, op))
COLL_ON_STREAM(scan,
               COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                         const oriel_op *op),
               COLL_ARGS(comm, in, out, count, type, op))
COLL_ON_STREAM(exscan,
               COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                         const oriel_op *op),
               COLL_ARGS(comm, in, out, count, type, op))
