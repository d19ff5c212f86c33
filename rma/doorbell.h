/*
 * doorbell.h - how a message in a ring reaches its owner: one bit a ring, and a
 * byte into a pipe if the owner's helper thread sleeps.
 *
 * Sender: publish the ring's head, set the bit, look at asleep. Helper: say
 * asleep, make every CPU pass a fence, look at the bits, sleep. Any thread of
 * the owner that polls may take the bits; whoever takes one drains that ring.
 */
#ifndef RMA_DOORBELL_H
#define RMA_DOORBELL_H

#include "rma/wake.h"

/* Sender, after the ring's head. True: the helper sleeps and must be woken. */
static inline bool
doorbell_ring(uint64_t *word, unsigned bit, const uint32_t *asleep)
{
	or_release(word, UINT64_C(1) << bit);
	fence_compiler();
	return load_relaxed(asleep) != 0;
}

/* Owner: the rings that have something since the last take. */
static inline uint64_t
doorbell_take(uint64_t *word)
{
	return load_relaxed(word) ? swap_acquire(word, 0) : 0;
}

/* Helper, before it sleeps: then look at the bits once more. */
static inline void
doorbell_sleep_begin(uint32_t *asleep)
{
	store_relaxed(asleep, 1);
	fence_all_cpus();
}

static inline void
doorbell_sleep_end(uint32_t *asleep)
{
	store_relaxed(asleep, 0);
}

#endif
