/*
 * mbox.c - rma/mbox.h on weakly ordered CPUs: messages in order, data in the
 * line and in scratch, slots that are used again by credit only, the ready
 * record, and both ends asleep.
 */
#define MBOX_SLOTS 2
#include "checker.h"
#include "plan/wire.h"
#include "rma/wake.h"

enum {
	NO_CREDIT = 1,
	CREDIT_OFF_BY_ONE,
	CREDIT_FIRST,
	CREDIT_AHEAD,
	PUBLISH_FIRST,
	SEQ_FIRST,
	STALE_SEQ,
	CALL_FIRST,
	NO_CLEAR,
	ONE_LOOK,
	READY_EARLY,
	READY_AHEAD,
	PUT_LATE
};
#define MESSAGES_SENT 8
#define CALLS 3
#define SLEPT 3

static struct mbox box;  /* in the receiver's memory */
static struct mbox back; /* in the sender's memory, written by the receiver */
static struct wake sender_wake, receiver_wake;
static char buffer[8]; /* the receiver's, of the zero-copy calls */

static void
words(void)
{
	atomic_var(&box.line[0].seq, "seq[0]", 0);
	atomic_var(&box.line[1].seq, "seq[1]", 0);
	atomic_var(&box.line[0].meta, "meta[0]", 0);
	atomic_var(&box.line[1].meta, "meta[1]", 0);
	atomic_var(&back.credit.consumed, "consumed", 0);
	data_var(box.line[0].data, "line[0].data", 0);
	data_var(box.line[1].data, "line[1].data", 0);
	data_var(box.scratch[0], "scratch[0]", 0);
	data_var(box.scratch[1], "scratch[1]", 0);
}

static void
words_to_sleep(void)
{
	words();
	atomic_var(&sender_wake.seq, "sender_wake.seq", 0);
	atomic_var(&sender_wake.asleep, "sender_wake.asleep", 0);
	atomic_var(&receiver_wake.seq, "receiver_wake.seq", 0);
	atomic_var(&receiver_wake.asleep, "receiver_wake.asleep", 0);
}

/* Messages alternate between steps of two calls. */
static uint64_t
seq_of(unsigned n)
{
	return wire_seq(1 + n / 2, n);
}

/* Four messages inline, four in scratch: each slot is used again for either. */
static char *
place_of(unsigned n)
{
	return n / 4 % 2 ? box.scratch[n % MBOX_SLOTS] : box.line[n % MBOX_SLOTS].data;
}

static bool
may_send(unsigned n)
{
	if (mutant(NO_CREDIT))
		return true;
	if (mutant(CREDIT_OFF_BY_ONE))
		return n - load_acquire(&back.credit.consumed) <= MBOX_SLOTS;
	return mbox_has_credit(&back, n);
}

static void
send(unsigned n)
{
	if (mutant(SEQ_FIRST)) {
		data_write(place_of(n), 100 + n);
		store_release(&box.line[n % MBOX_SLOTS].seq, seq_of(n));
		store_relaxed(&box.line[n % MBOX_SLOTS].meta, n);
		return;
	}
	if (mutant(PUBLISH_FIRST))
		mbox_publish(&box, n, n, seq_of(n));
	data_write(place_of(n), 100 + n);
	if (!mutant(PUBLISH_FIRST))
		mbox_publish(&box, n, n, seq_of(n));
}

static bool
came(unsigned n)
{
	return mutant(STALE_SEQ) ? mbox_peek(&box, n) != 0 : mbox_peek(&box, n) == seq_of(n);
}

static void
receive(unsigned n)
{
	if (mutant(CREDIT_FIRST))
		mbox_give_credit(&back, n + 1);
	expect(load_relaxed(&box.line[n % MBOX_SLOTS].meta) == n, "the message's meta");
	expect(data_read(place_of(n)) == 100 + n, "the message's data");
	if (!mutant(CREDIT_FIRST))
		mbox_give_credit(&back, n + 1 + mutant(CREDIT_AHEAD));
}

static void
sender(void)
{
	unsigned n = model_stage();

	if (n == MESSAGES_SENT)
		return;
	until(may_send(n));
	send(n);
	model_next_stage(n + 1);
}

static void
receiver(void)
{
	unsigned n = model_stage();

	if (n == MESSAGES_SENT)
		return;
	until(came(n));
	receive(n);
	model_next_stage(n + 1);
}

static const struct mutant box_mutants[] = {
	{ "seq is stored relaxed", WEAKEN, OP_STORE, "seq", MODEL_RELEASE, 0 },
	{ "seq is loaded relaxed", WEAKEN, OP_LOAD, "seq", MODEL_ACQUIRE, 0 },
	{ "the credit is stored relaxed", WEAKEN, OP_STORE, "consumed", MODEL_RELEASE, 0 },
	{ "the credit is loaded relaxed", WEAKEN, OP_LOAD, "consumed", MODEL_ACQUIRE, 0 },
	{ "no look at the credit", FLAG, 0, NULL, 0, NO_CREDIT },
	{ "one message more than there is credit", FLAG, 0, NULL, 0, CREDIT_OFF_BY_ONE },
	{ "credit before the read", FLAG, 0, NULL, 0, CREDIT_FIRST },
	{ "credit for one message too many", FLAG, 0, NULL, 0, CREDIT_AHEAD },
	{ "published before the data", FLAG, 0, NULL, 0, PUBLISH_FIRST },
	{ "seq before meta", FLAG, 0, NULL, 0, SEQ_FIRST },
	{ "any seq is taken for the message", FLAG, 0, NULL, 0, STALE_SEQ },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* A third thread of the receiver's rank reads what the first has received and passed on. */
static uint64_t passed;

static void
words_to_pass(void)
{
	words();
	atomic_var(&passed, "passed", 0);
}

static void
passer(void)
{
	unsigned n = model_stage();

	if (n == 3)
		return;
	until(came(n));
	store_release(&passed, n + 1);
	model_next_stage(n + 1);
}

static void
short_sender(void)
{
	unsigned n = model_stage();

	if (n == 3)
		return;
	until(may_send(n));
	send(n);
	model_next_stage(n + 1);
}

static void
reader(void)
{
	unsigned n = model_stage();

	if (n == 3)
		return;
	until(load_acquire(&passed) > n);
	receive(n);
	model_next_stage(n + 1);
}

/* Both ends sleep; the first thing of a stage, like signal.c's. */
static void
sleep_on(struct wake *w, bool (*there)(unsigned n), unsigned n)
{
	uint32_t seen;

	if (there(n))
		return;
	seen = wake_prepare(w);
	if (!there(n))
		wake_sleep(w, seen, WAKE_MAX_SLEEP_NS);
	model_next_stage(n);
}

static void
sleeping_sender(void)
{
	unsigned n = model_stage();

	if (n == SLEPT)
		return;
	sleep_on(&sender_wake, may_send, n);
	send(n);
	wake_after_store(&receiver_wake);
	model_next_stage(n + 1);
}

static void
sleeping_receiver(void)
{
	unsigned n = model_stage();

	if (n == SLEPT)
		return;
	sleep_on(&receiver_wake, came, n);
	receive(n);
	wake_after_store(&sender_wake);
	model_next_stage(n + 1);
}

static const struct mutant sleep_mutants[] = {
	{ "no fence on all CPUs", DROP_FENCE_ALL, 0, NULL, 0, 0 },
	{ "seq is stored relaxed", WEAKEN, OP_STORE, "seq", MODEL_RELEASE, 0 },
	{ "the credit is stored relaxed", WEAKEN, OP_STORE, "consumed", MODEL_RELEASE, 0 },
	{ "credit before the read", FLAG, 0, NULL, 0, CREDIT_FIRST },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/*
 * Zero copy: the receiver says where its buffer of this call is, the sender puts
 * there and sends the message. The record is written again in the next call.
 */
static void
words_to_put(void)
{
	words();
	atomic_var(&back.ready.call, "ready.call", 0);
	atomic_var(&back.ready.hash, "ready.hash", 0);
	data_var(&back.ready.buf[0].where, "ready.where", 0);
	data_var(&back.ready.buf[0].key, "ready.key", 0);
	data_var(buffer, "buffer", 0);
}

#define HASH(n) (7000 + (n))

/*
 * plan/message.c. Calls here are those of one slot, every MBOX_CALLS'th of the
 * communicator. A sender that has yet to send takes a word for a later call for
 * a strange one: the receiver does not leave a call without what it expects.
 */
static bool
message_ready(unsigned n)
{
	uint64_t call = load_acquire(&back.ready.call);

	expect(call <= n + 1, "the receiver is not ahead of what it waits for");
	return mutant(READY_EARLY) ? call >= 1 : call == n + 1;
}

static void
put_sender(void)
{
	unsigned n = model_stage();

	if (n == CALLS)
		return;
	until(message_ready(n));
	expect(load_relaxed(&back.ready.hash) == HASH(n), "hash of this call");
	expect(data_read(&back.ready.buf[0].where) == 1000 + n, "where of this call");
	expect(data_read(&back.ready.buf[0].key) == 2000 + n, "key of this call");
	if (mutant(PUT_LATE))
		mbox_publish(&box, n, n, wire_seq(n + 1, n));
	data_write(buffer, 300 + n);
	if (!mutant(PUT_LATE))
		mbox_publish(&box, n, n, wire_seq(n + 1, n));
	model_next_stage(n + 1);
}

static void
publish_ready(unsigned n)
{
	if (!mutant(NO_CLEAR)) {
		mbox_publish_ready(&back, n + 1, HASH(n));
		return;
	}
	store_release(&back.ready.hash, HASH(n));
	store_release(&back.ready.call, n + 1);
}

static void
put_receiver(void)
{
	unsigned n = model_stage();

	if (n == CALLS)
		return;
	if (mutant(CALL_FIRST))
		publish_ready(n);
	data_write(&back.ready.buf[0].where, 1000 + n);
	data_write(&back.ready.buf[0].key, 2000 + n);
	if (!mutant(CALL_FIRST))
		publish_ready(n);
	if (mutant(READY_AHEAD) && n + 1 < CALLS)
		publish_ready(n + 1);
	until(mbox_peek(&box, n) == wire_seq(n + 1, n));
	expect(data_read(buffer) == 300 + n, "this call's data");
	model_next_stage(n + 1);
}

static const struct mutant put_mutants[] = {
	{ "call is stored relaxed", WEAKEN, OP_STORE, "ready.call", MODEL_RELEASE, 0 },
	{ "call is loaded relaxed", WEAKEN, OP_LOAD, "ready.call", MODEL_ACQUIRE, 0 },
	{ "seq is stored relaxed", WEAKEN, OP_STORE, "seq", MODEL_RELEASE, 0 },
	{ "seq is loaded relaxed", WEAKEN, OP_LOAD, "seq", MODEL_ACQUIRE, 0 },
	{ "call before the fields", FLAG, 0, NULL, 0, CALL_FIRST },
	{ "any call is taken for this one", FLAG, 0, NULL, 0, READY_EARLY },
	{ "ready for the next call too soon", FLAG, 0, NULL, 0, READY_AHEAD },
	{ "the message before the put", FLAG, 0, NULL, 0, PUT_LATE },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/*
 * A rank that waits in a call looks whether the peer is ready for another call
 * of this number (plan/message.c); the peer may have come to its next call.
 */
static void
next_caller(void)
{
	unsigned n = model_stage();

	if (n == CALLS)
		return;
	publish_ready(n);
	model_next_stage(n + 1);
}

static void
onlooker(void)
{
	unsigned n = model_stage();
	bool strange;

	if (n == CALLS)
		return;
	strange = load_acquire(&back.ready.call) == n + 1 &&
	          load_acquire(&back.ready.hash) != HASH(n) &&
	          (mutant(ONE_LOOK) || load_relaxed(&back.ready.call) == n + 1);
	expect(!strange, "the peer's next call is not taken for a strange one");
	model_next_stage(n + 1);
}

static const struct mutant ready_mutants[] = {
	{ "call is stored relaxed", WEAKEN, OP_STORE, "ready.call", MODEL_RELEASE, 0 },
	{ "call is loaded relaxed", WEAKEN, OP_LOAD, "ready.call", MODEL_ACQUIRE, 0 },
	{ "hash is stored relaxed", WEAKEN, OP_STORE, "ready.hash", MODEL_RELEASE, 0 },
	{ "hash is loaded relaxed", WEAKEN, OP_LOAD, "ready.hash", MODEL_ACQUIRE, 0 },
	{ "call is not cleared first", FLAG, 0, NULL, 0, NO_CLEAR },
	{ "no second look at call", FLAG, 0, NULL, 0, ONE_LOOK },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct scenario scenarios[] = {
	{ "eight messages through two slots", words, { sender, receiver }, NULL, box_mutants, 0 },
	{ "three messages, read by another thread",
	  words_to_pass,
	  { short_sender, passer, reader },
	  NULL,
	  box_mutants,
	  0 },
	{ "three messages, both ends sleep",
	  words_to_sleep,
	  { sleeping_sender, sleeping_receiver },
	  NULL,
	  sleep_mutants,
	  0 },
	{ "three calls of a zero-copy put",
	  words_to_put,
	  { put_sender, put_receiver },
	  NULL,
	  put_mutants,
	  0 },
	{ "ready for the next call",
	  words_to_put,
	  { next_caller, onlooker },
	  NULL,
	  ready_mutants,
	  0 },
};

CHECK_ALL(scenarios)
