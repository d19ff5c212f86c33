#include "coll/coll.h"

#include "plan/launch.h"

#include <string.h>

/* What the knob says, looked up once a communicator. */
static int
look_up_forced(oriel_comm *comm, struct plan_state *s)
{
	const char *text = comm->ctx->knobs.s.allgather;
	const struct coll_row *row = NULL;
	int rc;

	if (strcmp(text, "auto")) {
		rc = coll_find(COLL_ALLGATHER, text, comm->size, &row, &s->forced_arg);
		if (rc)
			return fail_in(rc, "ORIEL_ALLGATHER (from the %s)",
			               comm->ctx->knobs.from.allgather);
	}
	s->forced = row;
	s->forced_known = true;
	return 0;
}

int
coll_choose_allgather(oriel_comm *comm, size_t len, const struct coll_row **row, int *arg)
{
	struct plan_state *s;
	int rc = plan_state_get(comm, &s);

	if (likely(!rc) && unlikely(!s->forced_known))
		rc = look_up_forced(comm, s);
	if (unlikely(rc))
		return rc;
	if (s->forced) {
		*row = s->forced;
		*arg = s->forced_arg;
		return 0;
	}
	*row = &coll_table[len <= COLL_ALLGATHER_SMALL / (unsigned)comm->size
	                           ? COLL_ROW_ALLGATHER_BRUCK
	                           : COLL_ROW_ALLGATHER_RING];
	*arg = coll_clip(*row, comm->size, 2);
	return 0;
}

int
oriel_barrier(oriel_comm *comm)
{
	static const struct binding nothing;
	int rc = comm_enter(comm);

	if (unlikely(rc))
		return rc;
	if (comm->size == 1)
		return unlikely(comm_failed(comm)) ? comm_fail_error(comm, comm_failed(comm)) : 0;
	rc = comm_call_begin(comm);
	if (unlikely(rc))
		return rc;
	rc = plan_run(comm, &coll_table[COLL_ROW_BARRIER].program, 0, &nothing);
	comm_call_end(comm);
	return rc;
}

/* The own block is put in its place first; the programs work in place. */
int
comm_allgather(oriel_comm *comm, const void *in, void *out, size_t len)
{
	struct binding b;
	const struct coll_row *row;
	char *own = (char *)out + (size_t)comm->rank * len;
	int rc = comm_call_begin(comm), arg;

	if (unlikely(rc))
		return rc;
	if (in && in != own && len)
		memcpy(own, in, len);
	if (comm->size == 1) {
		rc = unlikely(comm_failed(comm)) ? comm_fail_error(comm, comm_failed(comm)) : 0;
		goto end;
	}
	rc = coll_choose_allgather(comm, len, &row, &arg);
	if (unlikely(rc))
		goto end;
	b.buf[IN] = b.buf[TMP] = NULL;
	b.buf[OUT] = out;
	b.block = len;
	b.reduce = NULL;
	b.arg = NULL;
	rc = plan_run(comm, &row->program, arg, &b);
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
	int rc = comm_enter(comm);
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
