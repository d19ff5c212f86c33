/*
 * quick.c - a call that is short from end to end, again: with the same plan and
 * the same buffers as before. Whatever its first time has worked out stays, and
 * all of it is one function. What is out of the ordinary is left to the long way.
 */
#include "plan/job.h"
#include "plan/record.h"
#include "plan/short.h"

#define SPIN_TIMES 8 /* spins before the long way takes over */

/* It was begun here before with the same buffers, and nothing else is under way. */
static inline bool
is_plain(const oriel_comm *comm, const struct launch *l, const struct binding *b)
{
	/* In this order: while there is a crowd other threads may begin calls in any launch. */
	return !load_acquire(&comm->plan->crowd) && b->id && l->quick == b->id &&
	       !load_relaxed(&comm->ctx->solo);
}

static inline void
begin(struct launch *l, uint64_t call)
{
	const struct binding *b = l->binding;

	l->comm->n_calls = call;
	l->call = call;
	l->flags = 0; /* error and deadline are 0: the last call ended well */
	l->base[TMP] = l->scratch->ptr;
	for (const struct opening *o = l->openings; o->c; o++)
		o->c->begin = o->begin;
	if (b->own)
		copy_short(l->own_to, l->own_from, l->block);
}

static inline bool
is_over(const struct launch *l, const struct step *st)
{
	return likely(st == l->steps_end && !l->owed && !comm_failed(l->comm));
}

/* The op that the long way goes on with. */
static inline void
leave_at(struct launch *l, const struct step *st)
{
	l->cur[0].op = l->cur[0].first + (st - l->steps[0]);
}

enum job_state
job_quick(struct job *j)
{
	uint64_t call = j->comm->n_calls + 1;
	struct launch *l = &j->inst->launch[call % MBOX_CALLS];
	const struct step *st;

	if (unlikely(!is_plain(j->comm, l, &j->binding)))
		return JOB_NOT_BEGUN;
	j->first = call;
	begin(l, call);
	st = short_steps(l, l->steps[0], l->steps_end);
	record_begin(l, false);
	if (unlikely(!is_over(l, st))) {
		leave_at(l, st);
		job_go_on(j, l);
		return JOB_UNDER_WAY;
	}
	record_good_end(l);
	return JOB_COMPLETE;
}

/* A word away, and nobody else of this rank has anything to do meanwhile. */
static const struct step *
wait_shortly(struct launch *l, const struct step *st)
{
	for (unsigned i = 0; i < SPIN_TIMES && st < l->steps_end && st->kind == OP_WAIT; i++) {
		if (!st->c->out || message_came(st->c))
			break;
		message_spin(l, st->c);
		st = short_steps(l, st, l->steps_end);
	}
	return st;
}

bool
quick_call(oriel_comm *comm, struct instance *inst, const struct binding *b, int *rc)
{
	uint64_t call = comm->n_calls + 1;
	struct launch *l = &inst->launch[call % MBOX_CALLS];
	const struct step *st;

	if (unlikely(!is_plain(comm, l, b)))
		return false;
	begin(l, call);
	st = short_steps(l, l->steps[0], l->steps_end);
	/* Only now: the peers wait for what was sent. */
	record_begin(l, false);
	if (!is_over(l, st) && !l->ctx->crowded)
		st = wait_shortly(l, st);
	*rc = 0;
	if (is_over(l, st)) {
		record_good_end(l);
		return true;
	}
	leave_at(l, st);
	*rc = launch_end(l, exec_run(l));
	return true;
}
