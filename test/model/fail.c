/*
 * fail.c - the failure word of rma/comm.h on weakly ordered CPUs: nobody takes
 * a failed call for a good one, and a word once set stays.
 *
 * Who fails a call sets the own word, then those of the members it reaches, by
 * compare-and-swap (comm_fail), and only then releases its own waits, so that
 * whatever it sends afterwards comes after the words. A call is good only if
 * the own word is clear after the call's last operation.
 *
 * The receiver of a failed call takes its buffers back: it sets the words, passes
 * a fence, and waits until the sender is not placing. The sender says that it
 * places, passes a fence, and looks at its word (plan/chan.c, plan/box.c).
 *
 * Two ranks that find different culprits at the same time may set different
 * words first, and then members name different ones: each names a rank that did
 * fail, and stays with it.
 */
#include "checker.h"
#include "plan/wire.h"
#include "rma/comm.h"

enum {
	RELEASE_FIRST = 1,
	CHECK_EARLY,
	PLAIN_STORE,
	NO_WAIT,
	LOOK_FIRST,
	WAIT_FIRST,
	LEFT_TO_OTHERS
};

static uint64_t word[3]; /* of each member, in its control slab */
static struct oriel_comm member[3] = {
	{ .fail = &word[0] },
	{ .fail = &word[1] },
	{ .fail = &word[2] },
};
static struct mbox box;                   /* from member 0, which fails the call, to member 1 */
static char buffer[8];                    /* member 1's, ready to be written by member 0 */
static uint32_t progress_lock, spreading; /* member 1's */

static void
words(void)
{
	atomic_var(&word[0], "word[0]", 0);
	atomic_var(&word[1], "word[1]", 0);
	atomic_var(&word[2], "word[2]", 0);
	atomic_var(&box.line[0].seq, "seq", 0);
	atomic_var(&box.line[0].meta, "meta", 0);
	data_var(box.line[0].data, "data", 0);
	atomic_var(&box.placing.call, "placing", 0);
	data_var(buffer, "buffer", 0);
	atomic_var(&progress_lock, "progress_lock", 0);
	atomic_var(&spreading, "spreading", 0);
}

/* The word that stands at a member from now on; fail_here() and fail_at() of rma/comm.c. */
static uint64_t
set_word(unsigned i, uint64_t value)
{
	uint64_t seen = 0;

	if (mutant(PLAIN_STORE)) {
		store_release(member[i].fail, value);
		return value;
	}
	return cas_acq_rel(member[i].fail, &seen, value) ? value : seen;
}

/* comm_fail() at member self, which reaches all others. */
static void
fail_call(unsigned self, int culprit)
{
	uint64_t value = set_word(self, comm_fail_word(culprit, 1));
	unsigned i;

	for (i = 0; i < 3; i++)
		if (i != self)
			set_word(i, value);
}

static void
first_finder(void)
{
	fail_call(0, 5);
}

static void
second_finder(void)
{
	fail_call(1, 6);
}

/* A survivor acts upon the word that it sees, and sees the same later. */
static void
survivor(void)
{
	uint64_t named;

	until((named = comm_failed(&member[2])) != 0);
	expect(named == comm_fail_word(5, 1) || named == comm_fail_word(6, 1), "one of the two");
	expect(comm_failed(&member[2]) == named, "the word stays");
}

static void
all_know(void)
{
	expect(final_value(&word[0]) && final_value(&word[1]) && final_value(&word[2]),
	       "every member knows a culprit");
}

static const struct mutant word_mutants[] = {
	{ "a store in place of the compare-and-swap", FLAG, 0, NULL, 0, PLAIN_STORE },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* Gives the call up before its message's data is there, but its wait is released: it goes on. */
static void
failing_sender(void)
{
	if (!mutant(RELEASE_FIRST))
		fail_call(0, 5);
	mbox_publish(&box, 0, 0, wire_seq(1, 0));
	if (mutant(RELEASE_FIRST))
		fail_call(0, 5);
}

static void
receiver(void)
{
	bool good = true;

	if (mutant(CHECK_EARLY))
		good = !comm_failed(&member[1]);
	until(mbox_peek(&box, 0) == wire_seq(1, 0));
	if (!mutant(CHECK_EARLY))
		good = !comm_failed(&member[1]);
	expect(!good, "a failed call is not taken for a good one");
}

/* A member that learns of the failure by its word passes it on, and goes on as well. */
static void
first_to_know(void)
{
	if (!mutant(RELEASE_FIRST))
		fail_call(2, 5);
	store_release(&box.line[0].meta, 1);
	if (mutant(RELEASE_FIRST))
		fail_call(2, 5);
}

static void
relay(void)
{
	until(load_acquire(&box.line[0].meta) == 1 || comm_failed(&member[0]));
	if (!comm_failed(&member[0]))
		return;
	fail_call(0, 5);
	store_release(&box.line[0].seq, wire_seq(1, 0));
}

static const struct mutant call_mutants[] = {
	{ "the waits are released before the word is written", FLAG, 0, NULL, 0, RELEASE_FIRST },
	{ "the word is checked before the last wait", FLAG, 0, NULL, 0, CHECK_EARLY },
	{ "the message is published relaxed", WEAKEN, OP_STORE, "seq", MODEL_RELEASE, 0 },
	{ "the message is read relaxed", WEAKEN, OP_LOAD, "seq", MODEL_ACQUIRE, 0 },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant relay_mutants[] = {
	{ "the waits are released before the word is written", FLAG, 0, NULL, 0, RELEASE_FIRST },
	{ "the word is checked before the last wait", FLAG, 0, NULL, 0, CHECK_EARLY },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* Member 0 places into member 1's buffer, unless its word is set. */
static void
placer(void)
{
	bool failed = false;

	if (mutant(LOOK_FIRST))
		failed = comm_failed(&member[0]) != 0;
	store_relaxed(&box.placing.call, 1);
	fence_full();
	if (!mutant(LOOK_FIRST))
		failed = comm_failed(&member[0]) != 0;
	if (!failed)
		data_write(buffer, 1);
	store_release(&box.placing.call, 0);
}

/* Member 1's buffer is the caller's again, who uses it for something else. */
static void
take_back(void)
{
	fence_full();
	if (!mutant(NO_WAIT) && !mutant(WAIT_FIRST))
		until(load_acquire(&box.placing.call) != 1);
	data_write(buffer, 2);
}

static void
giver_up(void)
{
	if (mutant(WAIT_FIRST))
		until(load_acquire(&box.placing.call) != 1);
	fail_call(1, 5);
	take_back();
}

static const struct mutant place_mutants[] = {
	{ "no full fences", DROP_FENCE, 0, NULL, 0, 0 },
	{ "the receiver does not wait", FLAG, 0, NULL, 0, NO_WAIT },
	{ "the receiver waits before it sets the words", FLAG, 0, NULL, 0, WAIT_FIRST },
	{ "the sender looks before it says that it places", FLAG, 0, NULL, 0, LOOK_FIRST },
	{ "the end of placing is stored relaxed", WEAKEN, OP_STORE, "placing", MODEL_RELEASE, 0 },
	{ "the end of placing is loaded relaxed", WEAKEN, OP_LOAD, "placing", MODEL_ACQUIRE, 0 },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* Only one thread of a member passes the word on; the progress lock is held meanwhile. */
static void
spread_once(uint64_t value)
{
	if (!swap_acquire(&spreading, 1)) {
		set_word(0, value);
		set_word(2, value);
	}
}

/* Member 1's helper has got the word by a message; its handlers run under the lock. */
static void
handler(void)
{
	until(load_relaxed(&progress_lock) == 0);
	if (swap_acquire(&progress_lock, 1))
		model_next_stage(0);
	spread_once(set_word(1, comm_fail_word(5, 1)));
	store_release(&progress_lock, 0);
}

/* Member 1's thread in the call sees the word, and takes the buffers back. */
static void
caller(void)
{
	uint64_t value;

	if (model_stage() == 0) {
		until(comm_failed(&member[1]) != 0);
		model_next_stage(1);
	}
	value = comm_failed(&member[1]);
	if (!mutant(LEFT_TO_OTHERS)) {
		until(load_relaxed(&progress_lock) == 0);
		if (swap_acquire(&progress_lock, 1))
			model_next_stage(1);
	}
	spread_once(value);
	if (!mutant(LEFT_TO_OTHERS))
		store_release(&progress_lock, 0);
	take_back();
}

static const struct mutant spread_mutants[] = {
	{ "another thread's passing on is not waited for", FLAG, 0, NULL, 0, LEFT_TO_OTHERS },
	{ "no full fences", DROP_FENCE, 0, NULL, 0, 0 },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct scenario scenarios[] = {
	{ "two culprits at once", words, { first_finder, second_finder }, all_know, NULL, 0 },
	{ "two culprits at once, a survivor",
	  words,
	  { first_finder, second_finder, survivor },
	  all_know,
	  word_mutants,
	  0 },
	{ "a call that fails and goes on",
	  words,
	  { failing_sender, receiver },
	  all_know,
	  call_mutants,
	  0 },
	{ "a failure that is passed on",
	  words,
	  { first_to_know, relay, receiver },
	  all_know,
	  relay_mutants,
	  0 },
	{ "buffers of a call that fails", words, { placer, giver_up }, NULL, place_mutants, 0 },
	{ "buffers of a call that another thread fails",
	  words,
	  { placer, handler, caller },
	  NULL,
	  spread_mutants,
	  0 },
};

CHECK_ALL(scenarios)
