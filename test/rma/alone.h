/*
 * alone.h - a context for unit tests that no other rank takes part in: either a
 * job of one, or one rank of a larger job whose other ranks never come.
 */
#ifndef TEST_RMA_ALONE_H
#define TEST_RMA_ALONE_H

#include "rma/comm.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static inline int
alone_put(void *arg, const char *key, const void *value, size_t len)
{
	(void)arg;
	(void)key;
	(void)value;
	(void)len;
	return 0;
}

static inline int
alone_fence(void *arg, uint64_t timeout_ns)
{
	(void)arg;
	(void)timeout_ns;
	return 0;
}

static inline int
alone_get(void *arg, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	(void)arg;
	(void)rank;
	(void)key;
	(void)value;
	(void)len;
	(void)timeout_ns;
	return fail(ORIEL_EBOOT, "nobody else is there");
}

static inline oriel_ctx *
alone_open(struct oriel_bootstrap *table, int *local, int rank, int size)
{
	static const char *const knobs[] = { "ORIEL_TRANSPORTS=self,direct", NULL };
	struct oriel_options o = { .size = sizeof(o), .bootstrap = table, .knobs = knobs };
	oriel_ctx *ctx = NULL;

	*local = rank;
	*table = (struct oriel_bootstrap){ .rank = rank,
		                           .size = size,
		                           .n_local = 1,
		                           .local = local,
		                           .job = "alone",
		                           .put = alone_put,
		                           .fence = alone_fence,
		                           .get = alone_get };
	cr_assert_eq(oriel_init(&o, &ctx), 0, "%s", oriel_detail());
	return ctx;
}

/* The others will not come to the end either. */
static inline void
alone_close(oriel_ctx *ctx)
{
	comm_fail(ctx->world, comm_fail_word(ctx->boot.rank, 0) | COMM_FAIL_ABORT);
	cr_assert_eq(oriel_fini(ctx), 0, "%s", oriel_detail());
}

#endif
