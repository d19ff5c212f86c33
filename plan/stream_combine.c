/*
 * stream_combine.c - reduce and fold on a stream.
 */
#ifdef HAVE_CUDA_HEADERS
#include "plan/stream_impl.h"

int
stream_combine(const struct stream_call *sc, const struct op *op)
{
	(void)op;
	return fail(ORIEL_ENOTSUP, "%s: reductions on a stream", sc->l->plan->program->name);
}

int
stream_finish(const struct stream_call *sc)
{
	return fail(ORIEL_ENOTSUP, "%s: avg on a stream", sc->l->plan->program->name);
}
#endif
