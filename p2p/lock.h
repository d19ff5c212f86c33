/*
 * lock.h - the lock of send and receive: a word, and the sleeper's fence of
 * rma/wake.h, so that a thread that finds it free pays for one atomic operation.
 *
 * Who has to wait says so in wake.asleep, has all CPUs pass a fence, and tries
 * once more before it sleeps; who gives the lock back looks at asleep. So either
 * the sleeper finds it free or it is woken. A thread may hold the lock while it
 * spins, and look at asleep to see that another would like to have it.
 */
#ifndef P2P_LOCK_H
#define P2P_LOCK_H

#include "rma/wake.h"

struct lock {
	uint32_t held;
	uint32_t skipped; /* somebody has found it held and gone away */
	struct wake wake; /* of those who wait for it */
};

static inline bool
lock_try(struct lock *k)
{
	uint32_t nobody = 0;

	return cas_acq_rel(&k->held, &nobody, 1);
}

/* After a try in vain, until it is true: this thread has it. */
static inline bool
lock_sleep(struct lock *k)
{
	uint32_t seen = wake_prepare(&k->wake);

	if (lock_try(k))
		return true;
	wake_sleep(&k->wake, seen, WAKE_MAX_SLEEP_NS);
	return lock_try(k);
}

static inline bool
lock_wanted(const struct lock *k)
{
	return load_relaxed(&k->wake.asleep);
}

/* True: lock_wake is due. */
static inline bool
lock_give(struct lock *k)
{
	store_release(&k->held, 0);
	fence_compiler();
	return lock_wanted(k);
}

/*
 * A thread that will not wait: who has the lock tells those who skipped. That
 * is a hint, for which no CPU passes a fence, and may come to nothing; who skips
 * has to look again by itself.
 */
static inline void
lock_skip(struct lock *k)
{
	store_relaxed(&k->skipped, 1);
	store_relaxed(&k->wake.asleep, 1);
}

/* True: those who skipped are to be told. */
static inline bool
lock_wake(struct lock *k)
{
	wake_after_store(&k->wake);
	if (!load_relaxed(&k->skipped))
		return false;
	store_relaxed(&k->skipped, 0);
	return true;
}

#endif
