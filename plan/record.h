/*
 * record.h - how a call begins and ends in the flight recorder, and its own block.
 */
#ifndef PLAN_RECORD_H
#define PLAN_RECORD_H

#include "plan/message.h"

#include <time.h>

/*
 * Small calls are stamped with the coarse clock, once: its steps of some
 * milliseconds are good enough to see a hang, and the fine one would be a tenth
 * of such a call. A call that has slept is no longer small.
 */
static inline uint64_t
stamp(bool fine)
{
	struct timespec ts;

	if (fine)
		return now_ns();
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

_Static_assert(sizeof(((struct launch_record *)0)->name) ==
                               sizeof(((struct recorder_call *)0)->name) &&
                       offsetof(struct recorder_call, name) % sizeof(uint64_t) == 0 &&
                       offsetof(struct recorder_call, status) % sizeof(uint64_t) == 0 &&
                       offsetof(struct recorder_call, wait_peer) ==
                               offsetof(struct recorder_call, n_steps) + 4,
               "an entry can be stored word by word");

static inline uint64_t *
words(void *at)
{
	return at;
}

/* Relaxed, not plain, stores: a peer that finds a mismatch reads the entry meanwhile. */
static inline void
record_begin(struct launch *l, bool fine)
{
	struct recorder *r = l->ctx->rec_out;
	const struct launch_record *of = &l->record;
	uint64_t n = add_relaxed(&r->n_calls, 1) + 1;
	struct recorder_call *e = &r->call[n % RECORDER_CALLS];

	store_relaxed(&e->number, 0);
	fence_compiler();
	store_relaxed(&e->comm, of->comm);
	store_relaxed(&e->call, l->call);
	store_relaxed(&e->plan, of->plan);
	store_relaxed(&e->bytes, of->bytes);
	store_relaxed(&e->start_ns, stamp(fine));
	store_relaxed(&e->end_ns, 0);
	store_relaxed(words(e->name), of->name[0]);
	store_relaxed(words(e->name) + 1, of->name[1]);
	store_relaxed(words(e->name) + 2, of->name[2]);
	store_relaxed(words(&e->status), 0); /* and step */
	store_relaxed(words(&e->n_steps), of->steps);
	store_release(&e->number, n);
	l->rec = e;
}

/* Of a call that has not waited: it ended when it began, as far as the coarse clock goes. */
static inline void
record_good_end(struct launch *l)
{
	store_relaxed(words(&l->rec->status), l->record.steps << 32);
	store_relaxed(&l->rec->end_ns, load_relaxed(&l->rec->start_ns));
}

static inline void
record_end(struct launch *l, int status)
{
	store_relaxed(&l->rec->status, status);
	store_relaxed(&l->rec->step, (uint32_t)(l->cur[0].op - l->cur[0].first));
	store_relaxed(&l->rec->end_ns, l->timed ? now_ns() : load_relaxed(&l->rec->start_ns));
}

/* Mostly a word or two. */
static inline void
launch_own_block(struct launch *l)
{
	const struct binding *b = l->binding;

	if (likely(l->steps[0]))
		copy_short(l->base[OUT] + b->own_out * l->block, l->base[IN] + b->own_in * l->block,
		           l->block);
	else
		local_own_block(l);
}

#endif
