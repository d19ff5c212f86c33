/*
 * wake.h - how a store into a shared slab reaches a thread that sleeps.
 *
 * One struct wake a rank, in its control slab. Who is about to sleep says so in
 * asleep, makes every CPU pass a fence, looks once more, and sleeps on seq. Who
 * has stored something looks at asleep, which costs one load of a line that
 * hardly ever changes; if it is set it takes it back, so that one of many
 * senders makes the system call, and wakes. Either the sleeper's second look
 * sees the store or the sender sees the sleeper. The fence is the sleeper's
 * (membarrier), so that the sender's side stays free of one.
 *
 * Where the kernel has no membarrier a wake-up can be lost; sleeps are
 * therefore never longer than WAKE_MAX_SLEEP_NS.
 *
 * A stream of a GPU that writes a word wakes nobody. Before streams write words of
 * a rank for the first time, naps is set there for good (wake_by_streams), and its
 * sleeps end after WAKE_NAP_NS.
 */
#ifndef RMA_WAKE_H
#define RMA_WAKE_H

#include "base/atomic.h"

#include <stdbool.h>

#define WAKE_MAX_SLEEP_NS 10000000u
#define WAKE_NAP_NS 200000u

struct wake {
	uint32_t seq;    /* the futex; whoever wakes adds one */
	uint32_t asleep; /* 1: threads of the owner sleep or are about to; whoever wakes them resets
	                    it */
	uint32_t naps;   /* 1: streams write words that the owner's threads sleep on */
	char pad[52];
};

#ifndef ORIEL_MODEL
/* Asks the kernel to let fence_all_cpus() of any rank reach this process. False: not supported. */
bool wake_register(void);
/* Every running thread of every registered process has passed a full fence. */
void fence_all_cpus(void);
/* Sleeps while *word == seen, at most ns. */
void futex_sleep(uint32_t *word, uint32_t seen, uint64_t ns);
void futex_wake_all(uint32_t *word);
#endif

/* Sender: after the store. */
static inline void
wake_after_store(struct wake *w)
{
	fence_compiler();
	if (__builtin_expect(load_relaxed(&w->asleep) != 0, 0) && swap_acquire(&w->asleep, 0)) {
		add_release(&w->seq, 1);
		futex_wake_all(&w->seq);
	}
}

/* Sleeper, step 1 of 2; then look again, and go on to step 2 only if it is still not there. */
static inline uint32_t
wake_prepare(struct wake *w)
{
	uint32_t seen = load_acquire(&w->seq);

	store_relaxed(&w->asleep, 1);
	fence_all_cpus();
	return seen;
}

/* Step 2. Returns for no reason, too: look again. */
static inline void
wake_sleep(struct wake *w, uint32_t seen, uint64_t ns)
{
	futex_sleep(&w->seq, seen, ns < WAKE_MAX_SLEEP_NS ? ns : WAKE_MAX_SLEEP_NS);
}

/* Between the two steps: the longest sleep. */
static inline uint64_t
wake_longest(const struct wake *w)
{
	return load_relaxed(&w->naps) ? WAKE_NAP_NS : WAKE_MAX_SLEEP_NS;
}

/* Who sleeps already is woken, and naps from now on. */
static inline void
wake_by_streams(struct wake *w)
{
	if (load_relaxed(&w->naps))
		return;
	store_relaxed(&w->naps, 1);
	wake_after_store(w);
}

#endif
