/*
 * agree.c - the least status of all ranks. Status and rank share one word, so
 * that its minimum names the rank of the worst status, the lowest of several.
 */
#include "rma/comm.h"

#include "coll/table.h"

#include <stdio.h>
#include <string.h>

static void
least(void *dst, const void *src, size_t len)
{
	for (size_t at = 0; at < len; at += sizeof(int64_t)) {
		int64_t a, b;

		memcpy(&a, (char *)dst + at, sizeof(a));
		memcpy(&b, (const char *)src + at, sizeof(b));
		if (b < a)
			memcpy((char *)dst + at, &b, sizeof(b));
	}
}

int
comm_agree(oriel_comm *comm, int own, const char *what)
{
	int64_t word = (int64_t)own * (INT64_C(1) << 32) + comm->rank, tmp[32];
	const struct binding b = { .buf = { [OUT] = &word, [TMP] = tmp },
		                   .block = sizeof(word),
		                   .reduce = least };
	char detail[512] = "";
	int rc, status;

	if (comm->size == 1)
		return own;
	if (own < 0)
		snprintf(detail, sizeof(detail), "%s", oriel_detail());
	rc = comm_call_begin(comm);
	if (!rc) {
		rc = plan_run(comm, &coll_table[COLL_ROW_AGREE].program, 0, &b);
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
