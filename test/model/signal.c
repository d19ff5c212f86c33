/*
 * signal.c - rma/signal.h and rma/wake.h on weakly ordered CPUs: data before its
 * signal, counts of several senders, and no wake-up that gets lost.
 */
#include "checker.h"
#include "rma/signal.h"

enum {
	SIGNAL_FIRST = 1,
	SET_FOR_ADD,
	NO_RECHECK,
	SAY_LATE,
	LOOK_FIRST,
	SEQ_LATE,
	NO_SEQ,
	RESET_LATE
};
enum { EQ = 0, GE = 2 };

static uint64_t slot[2], data[4];
static struct wake wake;

static void
words(void)
{
	atomic_var(&slot[0], "slot[0]", 0);
	atomic_var(&slot[1], "slot[1]", 0);
	atomic_var(&wake.seq, "wake.seq", 0);
	atomic_var(&wake.asleep, "wake.asleep", 0);
	data_var(&data[0], "data[0]", 0);
	data_var(&data[1], "data[1]", 0);
	data_var(&data[2], "data[2]", 0);
	data_var(&data[3], "data[3]", 0);
}

static void
poll_slot(unsigned i, int cmp, uint64_t value)
{
	until(signal_holds(load_acquire(&slot[i]), cmp, value));
}

/* How a wait that has spun long enough sleeps; the first thing of a stage. The mutants leave
 * something out. */
static void
sleep_for_slot(unsigned i, int cmp, uint64_t value)
{
	uint32_t seen;
	bool there;

	if (signal_holds(load_acquire(&slot[i]), cmp, value))
		return;
	if (mutant(SAY_LATE)) {
		seen = (uint32_t)load_acquire(&wake.seq);
		there = signal_holds(load_acquire(&slot[i]), cmp, value);
		store_relaxed(&wake.asleep, 1);
		fence_all_cpus();
	} else {
		seen = wake_prepare(&wake);
		there = !mutant(NO_RECHECK) && signal_holds(load_acquire(&slot[i]), cmp, value);
		if (mutant(SEQ_LATE))
			seen = (uint32_t)load_acquire(&wake.seq);
	}
	if (!there)
		wake_sleep(&wake, seen, WAKE_MAX_SLEEP_NS);
	model_next_stage(model_stage());
}

static void
set_slot(unsigned i, int add, uint64_t value)
{
	if (add)
		add_release(&slot[i], value);
	else
		store_release(&slot[i], value);
}

static void
raise_slot(unsigned i, int add, uint64_t value)
{
	if (mutant(LOOK_FIRST)) {
		wake_after_store(&wake);
		set_slot(i, add, value);
	} else if (mutant(NO_SEQ)) {
		set_slot(i, add, value);
		if (load_relaxed(&wake.asleep) && swap_acquire(&wake.asleep, 0))
			futex_wake_all(&wake.seq);
	} else if (mutant(RESET_LATE)) {
		set_slot(i, add, value);
		if (load_relaxed(&wake.asleep)) {
			add_release(&wake.seq, 1);
			futex_wake_all(&wake.seq);
			store_relaxed(&wake.asleep, 0);
		}
	} else {
		signal_raise(&slot[i], add, value, &wake);
	}
}

/* Two puts, then a signal; what comes before is seen by who sees the signal. */
static void
set_sender(void)
{
	data_write(&data[0], 11);
	if (mutant(SIGNAL_FIRST))
		signal_raise(&slot[0], 0, 7, &wake);
	data_write(&data[1], 12);
	if (!mutant(SIGNAL_FIRST))
		signal_raise(&slot[0], 0, 7, &wake);
}

static void
set_receiver(void)
{
	poll_slot(0, EQ, 7);
	expect(data_read(&data[0]) == 11 && data_read(&data[1]) == 12, "data is there");
}

static const struct mutant set_mutants[] = {
	{ "the slot is stored relaxed", WEAKEN, OP_STORE, "slot", MODEL_RELEASE, 0 },
	{ "the slot is loaded relaxed", WEAKEN, OP_LOAD, "slot", MODEL_ACQUIRE, 0 },
	{ "the signal goes before the last put", FLAG, 0, NULL, 0, SIGNAL_FIRST },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* A peer's get after it saw the signal: also the owner's own stores, here of another thread. */
static void
pass_on(void)
{
	poll_slot(0, EQ, 7);
	data_write(&data[2], data_read(&data[0]) + 1);
	signal_raise(&slot[1], 0, 1, &wake);
}

static void
third_reader(void)
{
	poll_slot(1, GE, 1);
	expect(data_read(&data[2]) == 12 && data_read(&data[1]) == 12, "data of both is there");
}

/* Two senders count up one slot. */
static void
add_sender(unsigned i)
{
	data_write(&data[i], 20 + i);
	if (mutant(SET_FOR_ADD))
		signal_raise(&slot[0], 0, load_relaxed(&slot[0]) + 1, &wake);
	else
		signal_raise(&slot[0], 1, 1, &wake);
}

static void
add_sender0(void)
{
	add_sender(0);
}

static void
add_sender1(void)
{
	add_sender(1);
}

static void
add_receiver(void)
{
	poll_slot(0, GE, 2);
	expect(data_read(&data[0]) == 20 && data_read(&data[1]) == 21,
	       "both senders' data is there");
}

static void
add_final(void)
{
	expect(final_value(&slot[0]) == 2, "no add is lost");
}

static const struct mutant add_mutants[] = {
	{ "the add is relaxed", WEAKEN, OP_RMW, "slot", MODEL_RELEASE, 0 },
	{ "the slot is loaded relaxed", WEAKEN, OP_LOAD, "slot", MODEL_ACQUIRE, 0 },
	{ "load and SET in place of ADD", FLAG, 0, NULL, 0, SET_FOR_ADD },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* An ADD upon another thread's SET passes the SET's data on; a SET wipes an ADD. */
static void
mix_set(void)
{
	data_write(&data[0], 20);
	signal_raise(&slot[0], 0, 4, &wake);
}

static void
mix_receiver(void)
{
	uint64_t seen;

	until((seen = load_acquire(&slot[0])) >= 4);
	expect(data_read(&data[0]) == 20, "the SET's data is there");
	if (seen == 5)
		expect(data_read(&data[1]) == 21, "the ADD's data is there");
}

static const struct mutant mix_mutants[] = {
	{ "the SET is relaxed", WEAKEN, OP_STORE, "slot", MODEL_RELEASE, 0 },
	{ "the ADD is relaxed", WEAKEN, OP_RMW, "slot", MODEL_RELEASE, 0 },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* Sleepers. */
static void
wake_sender0(void)
{
	data_write(&data[0], 30);
	raise_slot(0, 0, 1);
}

static void
wake_sender1(void)
{
	data_write(&data[1], 31);
	raise_slot(1, 0, 1);
}

static void
sleeper0(void)
{
	sleep_for_slot(0, GE, 1);
	expect(data_read(&data[0]) == 30, "data is there");
}

static void
sleeper1(void)
{
	sleep_for_slot(1, GE, 1);
	expect(data_read(&data[1]) == 31, "data is there");
}

static void
sleeper_both(void)
{
	if (model_stage() == 0) {
		sleeper0();
		model_next_stage(1);
	}
	sleeper1();
}

static void
sender_both(void)
{
	if (model_stage() == 0) {
		wake_sender0();
		model_next_stage(1);
	}
	wake_sender1();
}

#define WAKE_MUTANTS                                                                                \
	{ "no fence on all CPUs", DROP_FENCE_ALL, 0, NULL, 0, 0 },                                  \
	        { "no second look", FLAG, 0, NULL, 0, NO_RECHECK },                                 \
	        { "the sleeper says so after its second look", FLAG, 0, NULL, 0, SAY_LATE },        \
	        { "the sleeper reads seq after its second look", FLAG, 0, NULL, 0, SEQ_LATE },      \
	        { "the sender looks for sleepers before its store", FLAG, 0, NULL, 0, LOOK_FIRST }, \
	{                                                                                           \
		"the sender wakes without changing seq", FLAG, 0, NULL, 0, NO_SEQ                   \
	}

static const struct mutant one_wake_mutants[] = {
	WAKE_MUTANTS,
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* With several signals one may come while another's sender wakes. */
static const struct mutant wake_mutants[] = {
	WAKE_MUTANTS,
	{ "the sender resets asleep after it has woken", FLAG, 0, NULL, 0, RESET_LATE },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* Two counters at one slot, and the sleeper needs both. */
static void
wake_add0(void)
{
	data_write(&data[0], 20);
	raise_slot(0, 1, 1);
}

static void
wake_add1(void)
{
	data_write(&data[1], 21);
	raise_slot(0, 1, 1);
}

static void
sleeper_add(void)
{
	sleep_for_slot(0, GE, 2);
	expect(data_read(&data[0]) == 20 && data_read(&data[1]) == 21,
	       "both senders' data is there");
}

static const struct scenario scenarios[] = {
	{ "SET after data", words, { set_sender, set_receiver }, NULL, set_mutants, 0 },
	{ "SET after data, passed on by its reader",
	  words,
	  { set_sender, pass_on, third_reader },
	  NULL,
	  set_mutants,
	  0 },
	{ "ADD of two senders",
	  words,
	  { add_sender0, add_sender1, add_receiver },
	  add_final,
	  add_mutants,
	  0 },
	{ "ADD and SET at one slot",
	  words,
	  { mix_set, add_sender1, mix_receiver },
	  NULL,
	  mix_mutants,
	  0 },
	{ "a sleeper, a sender", words, { wake_sender0, sleeper0 }, NULL, one_wake_mutants, 0 },
	{ "a sleeper, a sender of two signals",
	  words,
	  { sender_both, sleeper_both },
	  NULL,
	  wake_mutants,
	  0 },
	{ "a sleeper, two senders",
	  words,
	  { wake_sender0, wake_sender1, sleeper_both },
	  NULL,
	  wake_mutants,
	  0 },
	{ "a sleeper, two senders that add",
	  words,
	  { wake_add0, wake_add1, sleeper_add },
	  NULL,
	  wake_mutants,
	  0 },
	{ "two sleepers at one slot, a sender",
	  words,
	  { wake_sender0, sleeper0, sleeper0 },
	  NULL,
	  one_wake_mutants,
	  0 },
	{ "two sleepers at two slots, a sender",
	  words,
	  { sender_both, sleeper0, sleeper1 },
	  NULL,
	  wake_mutants,
	  0 },
};

CHECK_ALL(scenarios)
