/*
 * lock.c - p2p/lock.h on weakly ordered CPUs: one thread at a time has the lock,
 * what one did under it the next one sees, and nobody sleeps while it is free.
 */
#include "checker.h"
#include "p2p/lock.h"

enum { NO_SECOND_TRY = 1, LOOK_FIRST, NO_LOOK };
#define TIMES 2 /* of each thread, of two */

static struct lock lock;
static uint64_t word; /* the lock's */
static unsigned times;

static void
words(void)
{
	atomic_var(&lock.held, "held", 0);
	atomic_var(&lock.wake.seq, "wake.seq", 0);
	atomic_var(&lock.wake.asleep, "wake.asleep", 0);
	atomic_var(&lock.skipped, "skipped", 0);
	data_var(&word, "word", 0);
	times = 1;
}

static void
words_of_two(void)
{
	words();
	times = TIMES;
}

static bool
try_later(void)
{
	uint32_t seen;

	if (!mutant(NO_SECOND_TRY))
		return lock_sleep(&lock);
	seen = wake_prepare(&lock.wake);
	wake_sleep(&lock.wake, seen, WAKE_MAX_SLEEP_NS);
	return lock_try(&lock);
}

static void
give(void)
{
	bool wanted = mutant(LOOK_FIRST) && lock_wanted(&lock);

	if (mutant(LOOK_FIRST))
		lock_give(&lock);
	else
		wanted = lock_give(&lock);
	if (wanted && !mutant(NO_LOOK))
		lock_wake(&lock);
}

/* Stages: even: has tried nothing yet; odd: has tried in vain. */
static void
user(void)
{
	unsigned stage = model_stage();

	if (stage == 2 * times)
		return;
	if (!(stage & 1 ? try_later() : lock_try(&lock)))
		model_next_stage(stage | 1);
	data_write(&word, data_read(&word) + 1);
	give();
	model_next_stage((stage | 1) + 1);
}

/* It goes away if it does not get the lock. */
static void
passer_by(void)
{
	if (!lock_try(&lock)) {
		lock_skip(&lock);
		return;
	}
	data_read(&word);
	give();
}

static const struct mutant mutants[] = {
	{ "no fence on all CPUs", DROP_FENCE_ALL, 0, NULL, 0, 0 },
	{ "the lock is taken relaxed", WEAKEN, OP_CAS, "held", MODEL_ACQUIRE, 0 },
	{ "the lock is given back relaxed", WEAKEN, OP_STORE, "held", MODEL_RELEASE, 0 },
	{ "no second try before the sleep", FLAG, 0, NULL, 0, NO_SECOND_TRY },
	{ "a look at asleep before the lock is given back", FLAG, 0, NULL, 0, LOOK_FIRST },
	{ "nobody is woken", FLAG, 0, NULL, 0, NO_LOOK },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct scenario scenarios[] = {
	{ "two threads, twice each", words_of_two, { user, user }, NULL, mutants, 0 },
	{ "three threads", words, { user, user, user }, NULL, mutants, 0 },
	{ "two threads, and one that does not wait",
	  words,
	  { user, user, passer_by },
	  NULL,
	  mutants,
	  0 },
};

CHECK_ALL(scenarios)
