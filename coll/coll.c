#include "coll/coll.h"

#include "plan/launch.h"

#include <string.h>

/* comm_enter without a call where all is well. */
static inline int
enter(const oriel_comm *comm)
{
	if (likely(comm && comm->magic == COMM_MAGIC && load_relaxed(comm->ctx->alive) &&
	           !comm->ctx->expelled))
		return 0;
	return comm_enter(comm);
}

static inline int
run_allgather(oriel_comm *comm, const struct binding *b)
{
	struct coll_choice choice;
	struct shape shape;
	int rc;

	coll_shape(comm, 0, &shape);
	rc = select_choose(comm->ctx->selection, COLL_ALLGATHER, b->block, 0, &shape, &choice);
	if (unlikely(rc))
		return rc;
	shape.arg = choice.arg;
	return plan_run(comm, &choice.row->program, &shape, b);
}

int
oriel_barrier(oriel_comm *comm)
{
	static const struct binding nothing;
	struct shape shape = { 0 };
	int rc = enter(comm);

	if (unlikely(rc))
		return rc;
	if (comm->size == 1)
		return unlikely(comm_failed(comm)) ? comm_fail_error(comm, comm_failed(comm)) : 0;
	rc = comm_call_begin(comm);
	if (unlikely(rc))
		return rc;
	shape.size = comm->size;
	rc = plan_run(comm, &coll_table[0].program, &shape, &nothing);
	comm_call_end(comm);
	return rc;
}

/* The own block is put in its place first; the programs work in place. */
int
comm_allgather(oriel_comm *comm, const void *in, void *out, size_t len)
{
	struct binding b;
	char *own = (char *)out + (size_t)comm->rank * len;
	int rc = comm_call_begin(comm);

	if (unlikely(rc))
		return rc;
	if (in && in != own && len)
		memcpy(own, in, len);
	if (comm->size == 1) {
		rc = unlikely(comm_failed(comm)) ? comm_fail_error(comm, comm_failed(comm)) : 0;
		goto end;
	}
	b.buf[IN] = b.buf[TMP] = NULL;
	b.buf[OUT] = out;
	b.block = len;
	b.reduce = NULL;
	b.arg = NULL;
	rc = run_allgather(comm, &b);
end:
	comm_call_end(comm);
	return rc;
}

static __attribute__((cold, noinline)) int
bad_buffers(const oriel_comm *comm, const void *in, const void *out, size_t len)
{
	if (len > PTRDIFF_MAX / (size_t)comm->size)
		return fail(ORIEL_ERANGE, "allgather: len %zu times %d ranks", len, comm->size);
	if (!out)
		return fail(ORIEL_EINVAL, "allgather: out is NULL, len is %zu", len);
	return fail(ORIEL_EINVAL,
	            "allgather: in (%p, %zu bytes) overlaps out (%p, %d blocks) elsewhere than at "
	            "this rank's own block",
	            in, len, out, comm->size);
}

int
oriel_allgather(oriel_comm *comm, const void *in, void *out, size_t len)
{
	int rc = enter(comm);
	size_t total;

	if (unlikely(rc))
		return rc;
	if (unlikely(__builtin_mul_overflow(len, (size_t)comm->size, &total) ||
	             total > PTRDIFF_MAX || (!out && len)))
		return bad_buffers(comm, in, out, len);
	if (in && in != (char *)out + (size_t)comm->rank * len) {
		uintptr_t i = (uintptr_t)in, o = (uintptr_t)out;

		if (unlikely(len && i < o + total && o < i + len))
			return bad_buffers(comm, in, out, len);
	}
	return comm_allgather(comm, in, out, len);
}
