/*
 * quick.c - a persistent call that is short from end to end, again: whatever its
 * first start has worked out stays, and all of it is one function. What is out of
 * the ordinary is left to job.c.
 */
#include "plan/job.h"
#include "plan/record.h"
#include "plan/short.h"

/* It was begun here before with the same buffers, and nothing else is under way. */
static inline bool
is_plain(const struct job *j, const struct launch *l)
{
	return l->quick == &j->binding && !load_acquire(&l->comm->plan->crowd) &&
	       !load_relaxed(&l->ctx->solo);
}

static inline void
begin(struct launch *l, uint64_t call)
{
	const struct binding *b = l->binding;

	l->call = call;
	l->flags = 0;
	l->error = 0;
	l->deadline = 0;
	l->base[TMP] = l->scratch->ptr;
	for (const struct opening *o = l->openings; o->c; o++)
		o->c->begin = o->begin;
	if (b->own)
		copy_short(l->own_to, l->own_from, l->block);
	record_begin(l, false);
}

enum job_state
job_quick(struct job *j)
{
	uint64_t call = j->comm->n_calls + 1;
	struct launch *l = &j->inst->launch[call % MBOX_CALLS];
	const struct step *st;

	if (unlikely(!is_plain(j, l)))
		return JOB_NOT_BEGUN;
	j->comm->n_calls = j->first = call;
	begin(l, call);
	st = short_steps(l, l->steps[0], l->steps_end);
	if (unlikely(st < l->steps_end || comm_failed(l->comm))) {
		l->cur[0].op = l->cur[0].first + (st - l->steps[0]);
		job_go_on(j, l);
		return JOB_UNDER_WAY;
	}
	record_good_end(l);
	return JOB_COMPLETE;
}
