/*
 * agree.c - the least status of all ranks. Status and rank share one word, so
 * that its minimum names the rank of the worst status, the lowest of several.
 */
#include "rma/comm.h"

#include "coll/reduce.h"
#include "coll/table.h"

#include <stdio.h>
#include <string.h>

static void
least(const struct reducer *r, void *dst, const void *a, const void *b, size_t n)
{
	(void)r;
	for (size_t i = 0; i < n; i++) {
		int64_t x, y;

		memcpy(&x, (const char *)a + 8 * i, sizeof(x));
		memcpy(&y, (const char *)b + 8 * i, sizeof(y));
		memcpy((char *)dst + 8 * i, x < y ? &x : &y, sizeof(x));
	}
}

int
comm_agree(oriel_comm *comm, int own, const char *what)
{
	int64_t word = (int64_t)own * (INT64_C(1) << 32) + comm->rank;
	const struct reducer min = { .elem = sizeof(word), .commutative = true, .pair = least };
	const struct binding b = {
		.buf = { [OUT] = &word }, .block = sizeof(word), .bytes = SIZE_MAX, .reduce = &min
	};
	const struct shape shape = { .size = comm->size };
	char detail[512] = "";
	int rc, status;

	if (comm->size == 1)
		return own;
	if (own < 0)
		snprintf(detail, sizeof(detail), "%s", oriel_detail());
	rc = comm_call_begin(comm);
	if (!rc) {
		rc = plan_run(comm, &coll_row_named("agree/dissemination")->program, &shape, &b);
		comm_call_end(comm);
	}
	if (own < 0)
		return fail(own, "%s", detail);
	if (rc)
		return fail_in(rc, "%s", what);
	status = (int)(word >> 32);
	if (status < 0)
		return fail(status, "%s: rank %d: %s", what, (int)(word & 0xffffffff),
		            oriel_strerror(status));
	return 0;
}
