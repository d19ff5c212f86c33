/*
 * fail.c - the failure word of rma/comm.h on weakly ordered CPUs: nobody takes
 * a failed call for a good one, and a word once set stays.
 *
 * Who fails a call sets the own word, then those of the members it reaches, by
 * compare-and-swap (comm_fail), and only then releases its own waits, so that
 * whatever it sends afterwards comes after the words. A call is good only if
 * the own word is clear after the call's last operation.
 *
 * Two ranks that find different culprits at the same time may set different
 * words first, and then members name different ones: each names a rank that did
 * fail, and stays with it.
 */
#include "checker.h"
#include "plan/wire.h"
#include "rma/comm.h"

enum { RELEASE_FIRST = 1, CHECK_EARLY, PLAIN_STORE };

static uint64_t word[3]; /* of each member, in its control slab */
static struct oriel_comm member[3] = {
	{ .fail = &word[0] },
	{ .fail = &word[1] },
	{ .fail = &word[2] },
};
static struct mbox box; /* from member 0, which fails the call, to member 1 */

static void
words(void)
{
	atomic_var(&word[0], "word[0]", 0);
	atomic_var(&word[1], "word[1]", 0);
	atomic_var(&word[2], "word[2]", 0);
	atomic_var(&box.line[0].seq, "seq", 0);
	atomic_var(&box.line[0].meta, "meta", 0);
	data_var(box.line[0].data, "data", 0);
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
};

CHECK_ALL(scenarios)
