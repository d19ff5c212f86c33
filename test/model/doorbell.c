/*
 * doorbell.c - rma/doorbell.h on weakly ordered CPUs: no message stays in a
 * ring while everybody who could read it sleeps; rings are drained by the
 * helper or by any polling thread of the owner.
 */
#include "checker.h"
#include "rma/doorbell.h"
#include "rma/ctl.h"
#include "rma/signal.h"

enum {
	NO_RECHECK = 1,
	DOZE_LATE,
	LOOK_FIRST,
	BIT_FIRST,
	LOAD_AND_CLEAR,
	NO_LOCK,
	TAKE_LATE,
	LEAVE_QUIETLY,
	LEAVE_SILENTLY
};
#define ENTRY 8 /* bytes of a message here */
#define WAKE_PIPE 0

static struct ctl ctl;
static struct ring ring[2];
static uint32_t drain_lock;
static uint64_t slot; /* the last message's handler raises it */
static unsigned n_messages[2];
static unsigned drain_max; /* messages of a ring read in one turn */

static void
words(void)
{
	atomic_var(&ctl.doorbell[0], "doorbell", 0);
	atomic_var(&ctl.helper_asleep, "helper_asleep", 0);
	atomic_var(&drain_lock, "drain_lock", 0);
	atomic_var(&ring[0].head, "head[0]", 0);
	atomic_var(&ring[0].tail, "tail[0]", 0);
	data_var(ring[0].data, "ring[0].data[0]", 0);
	data_var(ring[0].data + ENTRY, "ring[0].data[1]", 0);
	n_messages[0] = 2;
	n_messages[1] = 0;
	drain_max = 2;
}

static void
words_of_two(void)
{
	words();
	atomic_var(&ring[1].head, "head[1]", 0);
	atomic_var(&ring[1].tail, "tail[1]", 0);
	data_var(ring[1].data, "ring[1].data[0]", 0);
	n_messages[0] = n_messages[1] = 1;
}

static void
words_of_hasty(void)
{
	words();
	drain_max = 1;
}

static void
words_of_waiter(void)
{
	words();
	atomic_var(&slot, "slot", 0);
	n_messages[0] = 1;
	atomic_var(&ctl.wake.seq, "wake.seq", 0);
	atomic_var(&ctl.wake.asleep, "wake.asleep", 0);
}

/* Message k (from 0) of sender i. */
static void
push(unsigned i, uint64_t k)
{
	bool asleep = false;

	data_write(ring[i].data + k * ENTRY, 10 + k);
	if (mutant(LOOK_FIRST))
		asleep = load_relaxed(&ctl.helper_asleep) != 0;
	if (mutant(BIT_FIRST))
		asleep = doorbell_ring(&ctl.doorbell[0], i, &ctl.helper_asleep);
	store_release(&ring[i].head, k + 1);
	if (mutant(LOOK_FIRST))
		doorbell_ring(&ctl.doorbell[0], i, &ctl.helper_asleep);
	else if (!mutant(BIT_FIRST))
		asleep = doorbell_ring(&ctl.doorbell[0], i, &ctl.helper_asleep);
	if (asleep)
		model_pipe_write(WAKE_PIPE);
}

static void
sender(unsigned i)
{
	unsigned k = model_stage();

	if (k == n_messages[i])
		return;
	push(i, k);
	model_next_stage(k + 1);
}

static void
sender0(void)
{
	sender(0);
}

static void
sender1(void)
{
	sender(1);
}

/* Who leaves a ring before its end rings for it again, like a sender. */
static void
leave_ring(unsigned i)
{
	if (mutant(LEAVE_SILENTLY))
		return;
	if (mutant(LEAVE_QUIETLY))
		or_release(&ctl.doorbell[0], UINT64_C(1) << i);
	else if (doorbell_ring(&ctl.doorbell[0], i, &ctl.helper_asleep))
		model_pipe_write(WAKE_PIPE);
}

static void
drain_ring(unsigned i)
{
	uint64_t tail = load_relaxed(&ring[i].tail), head = load_acquire(&ring[i].head);
	unsigned n;

	for (n = 0; tail < head && n < drain_max; n++, tail++)
		expect(data_read(ring[i].data + tail * ENTRY) == 10 + tail, "the message");
	store_release(&ring[i].tail, tail);
	if (tail < head)
		leave_ring(i);
	if (tail == n_messages[i] && n_messages[1] == 0 && n_messages[0] == 1)
		signal_raise(&slot, 0, 1, &ctl.wake);
}

static uint64_t
take_bits(void)
{
	uint64_t bits;

	if (!mutant(LOAD_AND_CLEAR))
		return doorbell_take(&ctl.doorbell[0]);
	bits = load_acquire(&ctl.doorbell[0]);
	if (bits)
		store_relaxed(&ctl.doorbell[0], 0);
	return bits;
}

/* Any thread of the owner. */
static void
drain(void)
{
	uint64_t bits;

	if (!mutant(NO_LOCK) && swap_acquire(&drain_lock, 1))
		return;
	bits = mutant(TAKE_LATE) ? load_relaxed(&ctl.doorbell[0]) : take_bits();
	if (bits & 1)
		drain_ring(0);
	if (bits & 2)
		drain_ring(1);
	if (mutant(TAKE_LATE))
		take_bits();
	if (!mutant(NO_LOCK))
		store_release(&drain_lock, 0);
}

static void
helper(void)
{
	bool any;

	drain();
	if (mutant(DOZE_LATE)) {
		any = load_relaxed(&ctl.doorbell[0]) != 0;
		doorbell_sleep_begin(&ctl.helper_asleep);
	} else {
		doorbell_sleep_begin(&ctl.helper_asleep);
		any = !mutant(NO_RECHECK) && load_relaxed(&ctl.doorbell[0]) != 0;
	}
	if (!any)
		model_pipe_wait(WAKE_PIPE);
	doorbell_sleep_end(&ctl.helper_asleep);
	model_next_stage(0);
}

/* A thread that polls for its signal and drains meanwhile, then computes for ever. */
static void
poller(void)
{
	if (load_acquire(&slot) == 1)
		return;
	until(load_relaxed(&slot) == 1 ||
	      (load_relaxed(&ctl.doorbell[0]) && !load_relaxed(&drain_lock)));
	drain();
	model_next_stage(0);
}

/* The same of a thread that polls for one turn only. */
static void
passer_by(void)
{
	drain();
}

/* A thread that sleeps until the helper has handled the message. */
static void
sleeper(void)
{
	uint32_t seen;

	if (load_acquire(&slot) == 1)
		return;
	seen = wake_prepare(&ctl.wake);
	if (load_acquire(&slot) != 1)
		wake_sleep(&ctl.wake, seen, WAKE_MAX_SLEEP_NS);
	model_next_stage(0);
}

static void
all_read(void)
{
	expect(final_value(&ring[0].tail) == n_messages[0], "all of ring 0 is read");
	if (n_messages[1])
		expect(final_value(&ring[1].tail) == n_messages[1], "all of ring 1 is read");
}

/* What keeps the helper from sleeping over a message. */
#define SLEEP_MUTANTS                                                                              \
	{ "no fence on all CPUs", DROP_FENCE_ALL, 0, NULL, 0, 0 },                                 \
	        { "no second look", FLAG, 0, NULL, 0, NO_RECHECK },                                \
	        { "asleep is set after the second look", FLAG, 0, NULL, 0, DOZE_LATE },            \
	{                                                                                          \
		"the sender looks at asleep first", FLAG, 0, NULL, 0, LOOK_FIRST                   \
	}
/* What keeps a bit from being taken without its message. */
#define BIT_MUTANTS                                                                                \
	{ "the bit before the head", FLAG, 0, NULL, 0, BIT_FIRST },                                \
	        { "the bit is set relaxed", WEAKEN, OP_RMW, "doorbell", MODEL_RELEASE, 0 },        \
	        { "the bits are taken relaxed", WEAKEN, OP_RMW, "doorbell", MODEL_ACQUIRE, 0 },    \
	{                                                                                          \
		"the bits are taken after the rings", FLAG, 0, NULL, 0, TAKE_LATE                  \
	}
/* With several messages a ring may be read before its newest bit is seen. */
#define HEAD_MUTANTS                                                                               \
	{ "the head is stored relaxed", WEAKEN, OP_STORE, "head", MODEL_RELEASE, 0 },              \
	{                                                                                          \
		"the head is loaded relaxed", WEAKEN, OP_LOAD, "head", MODEL_ACQUIRE, 0            \
	}

static const struct mutant two_message_mutants[] = {
	SLEEP_MUTANTS,
	BIT_MUTANTS,
	HEAD_MUTANTS,
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant two_ring_mutants[] = {
	SLEEP_MUTANTS,
	BIT_MUTANTS,
	{ "the bits are loaded, then cleared", FLAG, 0, NULL, 0, LOAD_AND_CLEAR },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant drain_mutants[] = {
	SLEEP_MUTANTS,
	BIT_MUTANTS,
	HEAD_MUTANTS,
	{ "no drain lock", FLAG, 0, NULL, 0, NO_LOCK },
	{ "the drain lock is taken relaxed", WEAKEN, OP_RMW, "drain_lock", MODEL_ACQUIRE, 0 },
	{ "the drain lock is given back relaxed", WEAKEN, OP_STORE, "drain_lock", MODEL_RELEASE,
	  0 },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* The polling thread needs no wake-up. */
static const struct mutant poll_mutants[] = {
	BIT_MUTANTS,
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant sleeper_mutants[] = {
	SLEEP_MUTANTS,
	BIT_MUTANTS,
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant hasty_mutants[] = {
	SLEEP_MUTANTS,
	BIT_MUTANTS,
	{ "a ring is left without a look at the helper", FLAG, 0, NULL, 0, LEAVE_QUIETLY },
	{ "a ring is left without its bit", FLAG, 0, NULL, 0, LEAVE_SILENTLY },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct scenario scenarios[] = {
	{ "a sender of two messages, the helper",
	  words,
	  { sender0, helper },
	  all_read,
	  two_message_mutants,
	  2 },
	{ "two senders, the helper",
	  words_of_two,
	  { sender0, sender1, helper },
	  all_read,
	  two_ring_mutants,
	  4 },
	{ "a sender of two, the helper, a thread passing by",
	  words,
	  { sender0, passer_by, helper },
	  all_read,
	  drain_mutants,
	  4 },
	{ "a ring left early by a thread passing by",
	  words_of_hasty,
	  { sender0, passer_by, helper },
	  all_read,
	  hasty_mutants,
	  4 },
	{ "a sender, a polling thread, the helper",
	  words_of_waiter,
	  { sender0, poller, helper },
	  all_read,
	  poll_mutants,
	  4 },
	{ "a sender, a sleeper, the helper",
	  words_of_waiter,
	  { sender0, sleeper, helper },
	  all_read,
	  sleeper_mutants,
	  4 },
};

CHECK_ALL(scenarios)
