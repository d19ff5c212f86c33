/*
 * vary.c - the collectives whose blocks differ in size or lie in pieces.
 *
 * A side of a call is described by a table (lengths and displacements) or by
 * lists of pieces; both become a layout, and the rest is the same.
 */
#include "coll/call.h"

struct side { /* as the user gives it */
	const void *base;
	const size_t *lens, *offs;
	const struct oriel_pieces *blocks; /* or lists */
};

static int
too_big(const struct coll_call *c, int block)
{
	return fail(ORIEL_ERANGE, "%s: block %d ends outside the address space",
	            coll_kinds[c->op].name, block);
}

/* Where the block ends, in *end if that is farther. */
static int
look_at_block(const struct coll_call *c, const struct layout *y, int i, size_t *end, size_t *len)
{
	struct oriel_piece one = { 0, 0 };
	const struct oriel_piece *p = &one;
	size_t n = 1, at;

	if (y->kind == LAYOUT_LIST) {
		p = y->blocks[i].piece;
		n = y->blocks[i].n;
		if (n && !p)
			return fail(ORIEL_EINVAL, "%s: block %d has %zu pieces at NULL",
			            coll_kinds[c->op].name, i, n);
	} else {
		one = (struct oriel_piece){ y->offs[i], y->lens[i] };
	}
	*len = 0;
	for (; n--; p++) {
		if (__builtin_add_overflow(p->off, p->len, &at) || at > PTRDIFF_MAX ||
		    __builtin_add_overflow(*len, p->len, len) || *len > PTRDIFF_MAX)
			return too_big(c, i);
		if (p->len && at > *end)
			*end = at;
	}
	return 0;
}

struct seen {           /* of a side */
	size_t end;     /* of the last byte */
	size_t largest; /* block */
	size_t total;
	uint64_t hash; /* of the lengths and displacements; of a list's, the lengths alone */
};

/* The layout of n blocks. */
static int
lay_out(const struct coll_call *c, const char *name, const struct side *s, int n, struct layout *y,
        struct seen *seen)
{
	size_t len = 0;
	int rc = 0;

	*seen = (struct seen){ 0 };
	*y = (struct layout){ .base = (char *)(uintptr_t)s->base,
		              .kind = s->blocks ? LAYOUT_LIST : LAYOUT_TABLE,
		              .lens = s->lens,
		              .offs = s->offs,
		              .blocks = s->blocks };
	if (!s->blocks && (!s->lens || !s->offs))
		return fail(ORIEL_EINVAL, "%s: the blocks of %s are described by NULL",
		            coll_kinds[c->op].name, name);
	for (int i = 0; i < n && !rc; i++) {
		rc = look_at_block(c, y, i, &seen->end, &len);
		seen->largest = len > seen->largest ? len : seen->largest;
		if (!rc && __builtin_add_overflow(seen->total, len, &seen->total))
			rc = too_big(c, i);
		seen->hash = hash_bytes(seen->hash, &len, sizeof(len));
		/* Others write by them: so they are the same everywhere. */
		if (len && y->kind == LAYOUT_TABLE)
			seen->hash = hash_bytes(seen->hash, &y->offs[i], sizeof(y->offs[i]));
	}
	return rc ? rc : coll_check_buffer(c, name, s->base, seen->end);
}

static void
one_block(struct layout *y, const void *base, size_t len)
{
	*y = (struct layout){ .base = (char *)(uintptr_t)base, .stride = len, .len = len };
}

static void
bind(struct coll_call *c, bool unknown)
{
	c->flags |= SELECT_V;
	c->b.ragged = &c->ragged;
	c->b.buf[IN] = c->ragged.in.base;
	c->b.buf[OUT] = c->ragged.out.base;
	c->ragged.out.own = unknown;
	if (unknown)
		c->measure = SELECT_UNKNOWN;
}

/* The block is where it belongs already. */
static bool
in_place(const struct layout *y, int block, const void *in)
{
	size_t len = layout_len(y, (uint32_t)block);
	char *run;

	return !in || !len ||
	       (y->kind == LAYOUT_TABLE && layout_run(y, (uint32_t)block, 0, len, &run) == len &&
	        run == in);
}

static int
gather_all(struct coll_call *c, oriel_comm *comm, const void *in, const struct side *out)
{
	struct seen seen;
	size_t own;
	int rc = lay_out(c, "out", out, comm->size, &c->ragged.out, &seen);

	if (rc)
		return rc;
	c->ragged.extent = seen.end;
	own = layout_len(&c->ragged.out, (uint32_t)comm->rank);
	one_block(&c->ragged.in, in, own);
	bind(c, false);
	c->b.block = seen.largest;
	c->measure = seen.total / (size_t)comm->size;
	c->b.salt = (uint32_t)seen.hash;
	if (in_place(&c->ragged.out, comm->rank, in))
		return 0;
	coll_set_own(c, comm->rank, 0);
	return coll_check_overlap(c, in, own, out->base, seen.end);
}

static int
describe_allgatherv(struct coll_call *c, oriel_comm *comm, const void *in, void *out,
                    const size_t *lens, const size_t *displs)
{
	const struct side s = { .base = out, .lens = lens, .offs = displs };
	int rc = coll_describe(c, comm, COLL_ALLGATHER);

	return rc ? rc : gather_all(c, comm, in, &s);
}

static int
need_lists(const struct coll_call *c, const void *blocks)
{
	return blocks ? 0
	              : fail(ORIEL_EINVAL, "%s: the lists of pieces are NULL",
	                     coll_kinds[c->op].name);
}

static int
describe_allgatherv_list(struct coll_call *c, oriel_comm *comm, const void *in, void *out,
                         const struct oriel_pieces *blocks)
{
	const struct side s = { .base = out, .blocks = blocks };
	int rc = coll_describe(c, comm, COLL_ALLGATHER);

	if (!rc)
		rc = need_lists(c, blocks);
	return rc ? rc : gather_all(c, comm, in, &s);
}

static int
exchange(struct coll_call *c, oriel_comm *comm, const struct side *in, const struct side *out)
{
	struct seen got, sent;
	int me = comm->rank, rc = lay_out(c, "out", out, comm->size, &c->ragged.out, &got);

	if (rc)
		return rc;
	bind(c, true);
	if (!in->base && !(in->lens || in->blocks)) {
		/* In place: a copy of out is sent. */
		rc = coll_stage(c, got.end);
		c->ragged.in = c->ragged.out;
		c->ragged.in.own = false;
		c->ragged.in.base = c->stage;
		c->b.buf[IN] = c->stage;
		return rc;
	}
	rc = lay_out(c, "in", in, comm->size, &c->ragged.in, &sent);
	if (!rc)
		rc = coll_check_overlap(c, in->base, sent.end, out->base, got.end);
	if (rc)
		return rc;
	c->b.buf[IN] = c->ragged.in.base;
	if (layout_len(&c->ragged.in, (uint32_t)me) != layout_len(&c->ragged.out, (uint32_t)me))
		return fail(ORIEL_EINVAL,
		            "alltoallv: this rank's own block has %zu bytes in in and %zu in out",
		            layout_len(&c->ragged.in, (uint32_t)me),
		            layout_len(&c->ragged.out, (uint32_t)me));
	coll_set_own(c, me, me);
	return 0;
}

static int
describe_alltoallv(struct coll_call *c, oriel_comm *comm, const void *in, const size_t *in_lens,
                   const size_t *in_displs, void *out, const size_t *out_lens,
                   const size_t *out_displs)
{
	struct side i = { .base = in, .lens = in_lens, .offs = in_displs };
	const struct side o = { .base = out, .lens = out_lens, .offs = out_displs };
	int rc = coll_describe(c, comm, COLL_ALLTOALL);

	if (rc)
		return rc;
	if (!in && out)
		i = (struct side){ 0 };
	return exchange(c, comm, &i, &o);
}

static int
describe_alltoallv_list(struct coll_call *c, oriel_comm *comm, const void *in,
                        const struct oriel_pieces *in_blocks, void *out,
                        const struct oriel_pieces *out_blocks)
{
	struct side i = { .base = in, .blocks = in_blocks };
	const struct side o = { .base = out, .blocks = out_blocks };
	int rc = coll_describe(c, comm, COLL_ALLTOALL);

	if (!rc)
		rc = need_lists(c, out_blocks);
	if (!rc && in)
		rc = need_lists(c, in_blocks);
	if (rc)
		return rc;
	if (!in && out)
		i = (struct side){ 0 };
	return exchange(c, comm, &i, &o);
}

/* To the root: out is described there only. */
static int
gather_to(struct coll_call *c, oriel_comm *comm, const void *in, size_t len, const struct side *out,
          int root)
{
	struct seen seen = { 0 };
	int rc = coll_check_root(c, root);

	if (rc)
		return rc;
	c->root = root;
	one_block(&c->ragged.in, in, len);
	one_block(&c->ragged.out, NULL, 0);
	if (comm->rank != root) {
		bind(c, true);
		return coll_check_buffer(c, "in", in, len);
	}
	rc = lay_out(c, "out", out, comm->size, &c->ragged.out, &seen);
	if (rc)
		return rc;
	bind(c, true);
	if (in && layout_len(&c->ragged.out, (uint32_t)root) != len)
		return fail(ORIEL_EINVAL,
		            "gatherv: the root sends %zu bytes and expects %zu of itself", len,
		            layout_len(&c->ragged.out, (uint32_t)root));
	if (in_place(&c->ragged.out, root, in))
		return 0;
	coll_set_own(c, root, 0);
	return coll_check_overlap(c, in, len, out->base, seen.end);
}

static int
describe_gatherv(struct coll_call *c, oriel_comm *comm, const void *in, size_t len, void *out,
                 const size_t *lens, const size_t *displs, int root)
{
	const struct side s = { .base = out, .lens = lens, .offs = displs };
	int rc = coll_describe(c, comm, COLL_GATHER);

	return rc ? rc : gather_to(c, comm, in, len, &s, root);
}

static int
describe_gatherv_list(struct coll_call *c, oriel_comm *comm, const void *in, size_t len, void *out,
                      const struct oriel_pieces *blocks, int root)
{
	const struct side s = { .base = out, .blocks = blocks };
	int rc = coll_describe(c, comm, COLL_GATHER);

	if (!rc && comm->rank == root)
		rc = need_lists(c, blocks);
	return rc ? rc : gather_to(c, comm, in, len, &s, root);
}

/* From the root: in is described there only. */
static int
scatter_from(struct coll_call *c, oriel_comm *comm, const struct side *in, void *out, size_t len,
             int root)
{
	struct seen seen = { 0 };
	int rc = coll_check_root(c, root);

	if (rc)
		return rc;
	c->root = root;
	one_block(&c->ragged.in, NULL, 0);
	one_block(&c->ragged.out, out, len);
	if (comm->rank != root) {
		bind(c, true);
		return coll_check_buffer(c, "out", out, len);
	}
	rc = lay_out(c, "in", in, comm->size, &c->ragged.in, &seen);
	if (rc)
		return rc;
	bind(c, true);
	if (out && layout_len(&c->ragged.in, (uint32_t)root) != len)
		return fail(ORIEL_EINVAL,
		            "scatterv: the root sends itself %zu bytes and expects %zu",
		            layout_len(&c->ragged.in, (uint32_t)root), len);
	if (in_place(&c->ragged.in, root, out))
		return 0;
	coll_set_own(c, 0, root);
	return coll_check_overlap(c, in->base, seen.end, out, len);
}

static int
describe_scatterv(struct coll_call *c, oriel_comm *comm, const void *in, const size_t *lens,
                  const size_t *displs, void *out, size_t len, int root)
{
	const struct side s = { .base = in, .lens = lens, .offs = displs };
	int rc = coll_describe(c, comm, COLL_SCATTER);

	return rc ? rc : scatter_from(c, comm, &s, out, len, root);
}

static int
describe_scatterv_list(struct coll_call *c, oriel_comm *comm, const void *in,
                       const struct oriel_pieces *blocks, void *out, size_t len, int root)
{
	const struct side s = { .base = in, .blocks = blocks };
	int rc = coll_describe(c, comm, COLL_SCATTER);

	if (!rc && comm->rank == root)
		rc = need_lists(c, blocks);
	return rc ? rc : scatter_from(c, comm, &s, out, len, root);
}

COLL_FORMS(allgatherv,
           COLL_ARGS(oriel_comm *comm, const void *in, void *out, const size_t *lens,
                     const size_t *displs),
           COLL_ARGS(comm, in, out, lens, displs))
COLL_FORMS(allgatherv_list,
           COLL_ARGS(oriel_comm *comm, const void *in, void *out,
                     const struct oriel_pieces *blocks),
           COLL_ARGS(comm, in, out, blocks))
COLL_FORMS(alltoallv,
           COLL_ARGS(oriel_comm *comm, const void *in, const size_t *in_lens,
                     const size_t *in_displs, void *out, const size_t *out_lens,
                     const size_t *out_displs),
           COLL_ARGS(comm, in, in_lens, in_displs, out, out_lens, out_displs))
COLL_FORMS(alltoallv_list,
           COLL_ARGS(oriel_comm *comm, const void *in, const struct oriel_pieces *in_blocks,
                     void *out, const struct oriel_pieces *out_blocks),
           COLL_ARGS(comm, in, in_blocks, out, out_blocks))
COLL_FORMS(gatherv,
           COLL_ARGS(oriel_comm *comm, const void *in, size_t len, void *out, const size_t *lens,
                     const size_t *displs, int root),
           COLL_ARGS(comm, in, len, out, lens, displs, root))
COLL_FORMS(gatherv_list,
           COLL_ARGS(oriel_comm *comm, const void *in, size_t len, void *out,
                     const struct oriel_pieces *blocks, int root),
           COLL_ARGS(comm, in, len, out, blocks, root))
COLL_FORMS(scatterv,
           COLL_ARGS(oriel_comm *comm, const void *in, const size_t *lens, const size_t *displs,
                     void *out, size_t len, int root),
           COLL_ARGS(comm, in, lens, displs, out, len, root))
COLL_FORMS(scatterv_list,
           COLL_ARGS(oriel_comm *comm, const void *in, const struct oriel_pieces *blocks, void *out,
                     size_t len, int root),
           COLL_ARGS(comm, in, blocks, out, len, root))
