/*
 * move.c - the collectives that move equal blocks, or one vector.
 */
#include "coll/call.h"
#include "oriel_cuda.h"

static inline int
describe_barrier(struct coll_call *c, oriel_comm *comm)
{
	int rc = coll_describe(c, comm, COLL_BARRIER);

	if (likely(!rc))
		c->b.bytes = 0;
	return rc;
}

/* The blocks of ranks, len bytes each. */
static inline void
set_blocks(struct coll_call *c, const void *in, void *out, size_t len)
{
	c->b.buf[IN] = (void *)(uintptr_t)in;
	c->b.buf[OUT] = out;
	c->b.block = len;
	c->measure = len;
}

static inline int
describe_allgather(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t len)
{
	int rc = coll_describe(c, comm, COLL_ALLGATHER);
	size_t total;

	if (unlikely(rc))
		return rc;
	rc = coll_check_total(c, len, &total);
	if (likely(!rc))
		rc = coll_check_buffer(c, "out", out, total);
	if (unlikely(rc))
		return rc;
	set_blocks(c, in, out, len);
	if (!in || !len || in == (char *)out + (size_t)comm->rank * len)
		return 0;
	coll_set_own(c, comm->rank, 0);
	return coll_check_overlap(c, in, len, out, total);
}

static int
describe_alltoall(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t len)
{
	int rc = coll_describe(c, comm, COLL_ALLTOALL);
	size_t total;

	if (unlikely(rc))
		return rc;
	rc = coll_check_total(c, len, &total);
	if (!rc)
		rc = coll_check_buffer(c, "out", out, total);
	if (!rc && in)
		rc = coll_check_overlap(c, in, total, out, total);
	if (rc)
		return rc;
	set_blocks(c, in, out, len);
	if (in) {
		if (len)
			coll_set_own(c, comm->rank, comm->rank);
		return 0;
	}
	rc = coll_stage(c, total);
	c->b.buf[IN] = c->stage;
	return rc;
}

static inline int
describe_bcast(struct coll_call *c, oriel_comm *comm, void *buf, size_t len, int root)
{
	int rc = coll_describe(c, comm, COLL_BCAST);

	if (unlikely(rc))
		return rc;
	rc = coll_check_root(c, root);
	if (likely(!rc))
		rc = coll_check_buffer(c, "buf", buf, len);
	c->root = root;
	c->b.buf[OUT] = buf;
	c->b.bytes = c->measure = len;
	return rc;
}

/* What gather and scatter have in common; *total is what the root has on one side. */
static inline int
describe_rooted(struct coll_call *c, oriel_comm *comm, enum coll_op op, size_t len, int root,
                size_t *total)
{
	int rc = coll_describe(c, comm, op);

	if (unlikely(rc))
		return rc;
	c->root = root;
	rc = coll_check_root(c, root);
	return likely(!rc) ? coll_check_total(c, len, total) : rc;
}

static inline int
describe_gather(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t len,
                int root)
{
	bool at_root;
	size_t total;
	int rc = describe_rooted(c, comm, COLL_GATHER, len, root, &total);

	if (unlikely(rc))
		return rc;
	at_root = comm->rank == root;
	rc = at_root ? coll_check_buffer(c, "out", out, total)
	             : coll_check_buffer(c, "in", in, len);
	if (unlikely(rc))
		return rc;
	set_blocks(c, in, at_root ? out : NULL, len);
	if (!at_root || !in || !len || in == (char *)out + (size_t)root * len)
		return 0;
	coll_set_own(c, root, 0);
	return coll_check_overlap(c, in, len, out, total);
}

static inline int
describe_scatter(struct coll_call *c, oriel_comm *comm, const void *in, void *out, size_t len,
                 int root)
{
	bool at_root;
	size_t total;
	int rc = describe_rooted(c, comm, COLL_SCATTER, len, root, &total);

	if (unlikely(rc))
		return rc;
	at_root = comm->rank == root;
	rc = at_root ? coll_check_buffer(c, "in", in, total)
	             : coll_check_buffer(c, "out", out, len);
	if (unlikely(rc))
		return rc;
	set_blocks(c, at_root ? in : NULL, out, len);
	if (!at_root || !out || !len || out == (const char *)in + (size_t)root * len)
		return 0;
	coll_set_own(c, 0, root);
	return coll_check_overlap(c, in, total, out, len);
}

COLL_FORMS_OF(COLL_BARRIER, barrier, COLL_ARGS(oriel_comm *comm), COLL_ARGS(comm), NULL, NULL, 0,
              NULL, 0, 0)
COLL_FORMS_OF(COLL_ALLGATHER, allgather,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len),
              COLL_ARGS(comm, in, out, len), in, out, len, NULL, 0, 0)
COLL_FORMS_OF(COLL_ALLTOALL, alltoall,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len),
              COLL_ARGS(comm, in, out, len), in, out, len, NULL, 0, 0)
COLL_FORMS_OF(COLL_BCAST, bcast, COLL_ARGS(oriel_comm *comm, void *buf, size_t len, int root),
              COLL_ARGS(comm, buf, len, root), NULL, buf, len, NULL, 0, root)
COLL_FORMS_OF(COLL_GATHER, gather,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len, int root),
              COLL_ARGS(comm, in, out, len, root), in, out, len, NULL, 0, root)
COLL_FORMS_OF(COLL_SCATTER, scatter,
              COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len, int root),
              COLL_ARGS(comm, in, out, len, root), in, out, len, NULL, 0, root)

COLL_ON_STREAM(barrier, COLL_ARGS(oriel_comm *comm), COLL_ARGS(comm))
COLL_ON_STREAM(allgather, COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len),
               COLL_ARGS(comm, in, out, len))
COLL_ON_STREAM(alltoall, COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len),
               COLL_ARGS(comm, in, out, len))
COLL_ON_STREAM(bcast, COLL_ARGS(oriel_comm *comm, void *buf, size_t len, int root),
               COLL_ARGS(comm, buf, len, root))
COLL_ON_STREAM(gather, COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len, int root),
               COLL_ARGS(comm, in, out, len, root))
COLL_ON_STREAM(scatter,
               COLL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len, int root),
               COLL_ARGS(comm, in, out, len, root))

int
comm_allgather(oriel_comm *comm, const void *in, void *out, size_t len)
{
	return oriel_allgather(comm, in, out, len);
}
