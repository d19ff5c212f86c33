/*
 * Lanes: small cases by hand, and connections over a network that delivers in any order, twice,
 * late, or under another epoch, with lanes that fail, connections made anew and aborts. Each run is
 * one seed, and TEST_SEED=N starts there; LANES_ORDERS=10000000 is how many, 200,000 without it.
 */
#include "rma/lanes.h"
#include "test/alloc/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define WRAP (UINT64_C(1) << 24)

/*
 * ---- By hand ----
 */

static struct lanes_tx tx;
static struct lanes_rx rx;
static struct lanes_segment seg;

static void
connect_first(unsigned lanes, unsigned depth, size_t segment, uint64_t first)
{
	struct lanes_limits limits = { .lanes = lanes, .depth = depth, .segment = segment };

	cr_assert_eq(lanes_tx_init(&tx, &limits, first), 0, "%s", oriel_detail());
	cr_assert_eq(lanes_rx_init(&rx, &limits, first), 0, "%s", oriel_detail());
}

static void
disconnect(void)
{
	cr_expect_null(lanes_tx_check(&tx), "%s", lanes_tx_check(&tx));
	lanes_tx_fini(&tx);
	lanes_rx_fini(&rx);
}

static void
expect_next(unsigned lane, size_t offset, size_t len, uint32_t immediate)
{
	cr_assert(lanes_next(&tx, &seg));
	cr_expect_eq(seg.lane, lane, "lane %u, not %u", seg.lane, lane);
	cr_expect_eq(seg.offset, offset);
	cr_expect_eq(seg.len, len);
	cr_expect_eq(seg.immediate, immediate, "immediate 0x%08x, not 0x%08x", seg.immediate,
	             immediate);
}

static void
expect_arrival(uint32_t immediate, uint64_t messages)
{
	cr_assert_eq(lanes_arrived(&rx, rx.epoch, immediate), 0, "%s", oriel_detail());
	cr_expect_eq(rx.messages, messages, "0x%08x: %llu messages, not %llu", immediate,
	             (unsigned long long)rx.messages, (unsigned long long)messages);
}

Test(lanes, cuts_in_order_and_stops_when_full)
{
	struct lanes_msg a = { .len = 10 }, b = { .len = 0 };

	connect_first(2, 1, 4, 0);
	cr_assert_eq(lanes_post(&tx, &a), 0);
	cr_assert_eq(lanes_post(&tx, &b), 0);
	expect_next(0, 0, 4, 0);
	expect_next(1, 4, 4, 1);
	cr_expect_not(lanes_next(&tx, &seg), "both lanes are full");
	cr_assert_eq(lanes_completed(&tx, 1, 1), 0);
	expect_next(1, 8, 2, 2 | LANES_LAST);
	cr_expect_eq(tx.lane[0].count.stalls, 1, "lane 0 was skipped");
	cr_expect_null(lanes_done(&tx), "two of its segments are under way");
	cr_assert_eq(lanes_completed(&tx, 1, 1), 0);
	cr_expect_null(lanes_done(&tx));
	expect_next(1, 0, 0, 3 | LANES_LAST);
	cr_expect(seg.msg == &b);
	cr_assert_eq(lanes_completed(&tx, 1, 1), 0);
	cr_expect_null(lanes_done(&tx), "b is complete, but behind a");
	cr_assert_eq(lanes_completed(&tx, 0, 1), 0);
	cr_expect(lanes_done(&tx) == &a);
	cr_expect(lanes_done(&tx) == &b);
	cr_expect_null(lanes_done(&tx));
	cr_expect_eq(tx.lane[1].count.bytes, 6);
	cr_expect_eq(tx.lane[1].count.segments, 3);
	cr_expect_eq(tx.lane[1].count.high_water, 1);
	disconnect();
}

Test(lanes, completes_when_all_is_here_and_in_order)
{
	connect_first(4, 4, 1, 0);
	expect_arrival(4 | LANES_LAST | LANES_FAST, 0); /* a signal, two messages before it */
	expect_arrival(1 | LANES_LAST, 0);
	expect_arrival(3 | LANES_LAST, 0);
	expect_arrival(0, 1);
	expect_arrival(2, 3);
	expect_arrival(5 | LANES_LAST, 4);
	cr_expect_eq(rx.out_of_order, 3);
	cr_expect_eq(rx.fast, 1);
	cr_expect_eq(rx.segments, 6);
	disconnect();
}

Test(lanes, duplicates_are_counted_once)
{
	connect_first(4, 4, 1, WRAP - 1);
	expect_arrival(1 | LANES_LAST, 0);
	expect_arrival(1 | LANES_LAST, 0);
	expect_arrival(WRAP - 1, 0);
	expect_arrival(WRAP - 1, 0);
	expect_arrival(0 | LANES_LAST, 2);
	expect_arrival(1 | LANES_LAST, 2);
	cr_expect_eq(rx.duplicates, 3);
	cr_expect_eq(rx.segments, 3);
	disconnect();
}

Test(lanes, refuses_what_was_never_sent)
{
	connect_first(1, 1, 1, 0);
	cr_expect_eq(lanes_arrived(&rx, 0, 1 << 24), ORIEL_ETRANSPORT, "a bit that nobody sets");
	cr_expect_eq(lanes_arrived(&rx, 0, LANES_FAST), ORIEL_ETRANSPORT, "half a fast message");
	cr_expect_eq(lanes_arrived(&rx, 0, rx.window), ORIEL_ETRANSPORT, "above the window");
	cr_expect_eq(lanes_arrived(&rx, 0, LANES_SEQ_MASK), ORIEL_ETRANSPORT, "before the first");
	cr_expect_eq(rx.segments + rx.messages + rx.duplicates + rx.stale, 0);
	expect_arrival((rx.window - 1) | LANES_LAST, 0);
	expect_arrival(0 | LANES_LAST, 1);
	cr_expect_eq(lanes_arrived(&rx, 0, LANES_SEQ_MASK), ORIEL_ETRANSPORT);
	disconnect();
}

/* Every number twice round, each pair swapped, so that the bits are used too; every third is a last
 * one, so that no bit may stay. */
Test(lanes, wraps)
{
	uint64_t messages = 0;

	connect_first(2, 8, 1, WRAP - 3);
	for (uint64_t i = 0; i < 2 * WRAP + 10; i++) {
		uint64_t seq = WRAP - 3 + (i ^ 1);
		uint32_t last = seq % 3 ? 0 : LANES_LAST;

		if (lanes_arrived(&rx, 0, ((uint32_t)seq & LANES_SEQ_MASK) | last))
			cr_assert_fail("%s", oriel_detail());
		messages += i & 1 ? seq % 3 == 0 || (seq + 1) % 3 == 0 : 0;
		if (rx.messages != messages)
			cr_assert_fail("%llu messages after %llu arrivals",
			               (unsigned long long)rx.messages, (unsigned long long)i + 1);
	}
	cr_expect_eq(rx.out_of_order, WRAP + 5);
	disconnect();
}

/* A segment that is stuck holds back whatever the window has no number for. */
Test(lanes, window_bounds_what_a_stuck_lane_lets_by)
{
	struct lanes_msg msg = { .len = 100000 };
	uint64_t n = 2, missing;

	connect_first(2, 1, 1, WRAP - 50);
	cr_assert_eq(lanes_post(&tx, &msg), 0);
	expect_next(0, 0, 1, WRAP - 50);
	expect_next(1, 1, 1, WRAP - 49);
	expect_arrival(seg.immediate, 0);
	for (; lanes_completed(&tx, 1, 1) == 0 && lanes_next(&tx, &seg); n++) {
		cr_assert_eq(seg.lane, 1);
		expect_arrival(seg.immediate, 0);
	}
	cr_expect_eq(n, tx.window);
	cr_expect_eq(tx.blocked, 1);
	cr_expect_eq(lanes_missing(&rx, tx.next, &missing, 1), 1);
	cr_expect_eq(missing, WRAP - 50);
	expect_arrival(WRAP - 50, 0);
	cr_expect_eq(rx.next, tx.next);
	cr_assert_eq(lanes_completed(&tx, 0, 1), 0);
	cr_expect(lanes_next(&tx, &seg));
	disconnect();
}

Test(lanes, fast_path)
{
	struct lanes_msg big = { .len = 8 }, fast = { .len = 4, .fast = true },
	                 signal = { .fast = true }, longer = { .len = 5, .fast = true };

	connect_first(1, 1, 4, 0);
	cr_expect_eq(lanes_post(&tx, &longer), ORIEL_ERANGE);
	cr_assert_eq(lanes_post(&tx, &fast), 0);
	cr_assert_eq(lanes_post(&tx, &big), 0);
	cr_assert_eq(lanes_post(&tx, &signal), 0);
	expect_next(LANES_CONTROL, 0, 4, 0 | LANES_FAST | LANES_LAST);
	expect_next(0, 0, 4, 1);
	cr_expect_not(lanes_next(&tx, &seg), "the signal waits for the data before it");
	cr_assert_eq(lanes_completed(&tx, 0, 1), 0);
	expect_next(0, 4, 4, 2 | LANES_LAST);
	expect_next(LANES_CONTROL, 0, 0, 3 | LANES_FAST | LANES_LAST);
	disconnect();
}

Test(lanes, limits)
{
	static const struct lanes_limits wrong[] = {
		{ 0, 1, 1 }, { 17, 1, 1 }, { 1, 0, 1 }, { 1, LANES_MOST_DEPTH + 1, 1 }, { 1, 1, 0 }
	};
	const struct lanes_limits most = { LANES_MOST, LANES_MOST_DEPTH, SIZE_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		cr_expect_eq(lanes_tx_init(&tx, &wrong[i], 0), ORIEL_ERANGE, "%zu", i);
		cr_expect_eq(lanes_rx_init(&rx, &wrong[i], 0), ORIEL_ERANGE, "%zu", i);
	}
	cr_expect_eq(lanes_window(&most), LANES_MOST_WINDOW);
	cr_expect_geq(lanes_window(&most), most.lanes * most.depth);
}

Test(lanes, defaults_fill_the_link)
{
	static const uint64_t rates[] = { 1000000000, 100000000000, 400000000000, 800000000000 };
	static const uint64_t trips[] = { 0, 1000, 5000, 35000, 75000, 150000, 100000000 };

	for (size_t r = 0; r < ARRAY_SIZE(rates); r++)
		for (size_t t = 0; t < ARRAY_SIZE(trips); t++) {
			struct lanes_limits l = lanes_defaults(trips[t], rates[r]);
			double bdp = (double)rates[r] / 8 * (double)trips[t] / 1e9;
			double all = (double)l.segment * l.lanes * l.depth;

			cr_assert_eq(lanes_tx_init(&tx, &l, 0), 0, "%s", oriel_detail());
			lanes_tx_fini(&tx);
			cr_expect_geq(all, bdp + (double)(l.segment * l.lanes));
			cr_expect_leq(all, 2 * bdp + 16.0 * (double)l.segment, "%g for %g", all,
			              bdp);
		}
	cr_expect_eq(lanes_defaults(5000, rates[2]).lanes, 2);
	cr_expect_eq(lanes_defaults(5000, rates[2]).depth, 4);
	cr_expect_eq(lanes_defaults(5000, rates[2]).segment, 64 << 10);
	cr_expect_eq(lanes_defaults(150000, rates[2]).segment, 256 << 10);
}

Test(lanes, failed_lane)
{
	struct lanes_msg msg = { .len = 4 };

	connect_first(2, 2, 1, 0);
	cr_assert_eq(lanes_post(&tx, &msg), 0);
	for (int i = 0; i < 4; i++) {
		cr_assert(lanes_next(&tx, &seg));
		cr_expect_eq(seg.lane, i % 2);
	}
	expect_arrival(0, 0);
	cr_assert_eq(lanes_down(&tx, 0), 0);
	cr_expect_eq(lanes_completed(&tx, 0, 1), ORIEL_ETRANSPORT);
	cr_expect_eq(lanes_up(&tx, 0), ORIEL_EBUSY);
	cr_expect_not(lanes_next(&tx, &seg), "lane 1 is full");
	expect_arrival(1, 0);
	cr_assert_eq(lanes_completed(&tx, 1, 1), 0);
	expect_next(1, 0, 1, 0);
	expect_arrival(0, 0);
	expect_arrival(3 | LANES_LAST, 0);
	cr_assert_eq(lanes_completed(&tx, 1, 1), 0);
	expect_next(1, 2, 1, 2);
	expect_arrival(2, 1);
	cr_expect_eq(tx.retries, 2);
	cr_expect_eq(rx.duplicates, 1);
	cr_assert_eq(lanes_up(&tx, 0), 0);
	cr_assert_eq(lanes_down(&tx, 1), 0);
	cr_expect_eq(lanes_down(&tx, 0), ORIEL_EPEER);
	cr_expect_eq(lanes_down(&tx, LANES_CONTROL), ORIEL_EPEER);
	disconnect();
}

Test(lanes, reconnect_and_abort)
{
	struct lanes_msg msg[3] = { { .len = 2 }, { .len = 1 }, { .len = 3 } }, *back;

	connect_first(1, 8, 1, 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(lanes_post(&tx, &msg[i]), 0);
	for (int i = 0; i < 5; i++)
		cr_assert(lanes_next(&tx, &seg));
	expect_arrival(0, 0);
	expect_arrival(1 | LANES_LAST, 1);
	expect_arrival(2 | LANES_LAST, 2);
	expect_arrival(4, 2);
	cr_expect_eq(lanes_tx_reconnect(&tx, 0, 2), ORIEL_EMISMATCH);
	cr_expect_eq(lanes_tx_reconnect(&tx, 1, 4), ORIEL_EMISMATCH);
	cr_assert_eq(lanes_tx_reconnect(&tx, 1, rx.messages), 0);
	cr_expect_eq(lanes_rx_reconnect(&rx, 0), ORIEL_EMISMATCH);
	cr_assert_eq(lanes_rx_reconnect(&rx, 1), 0);
	cr_expect(lanes_done(&tx) == &msg[0]);
	cr_expect(lanes_done(&tx) == &msg[1]);
	cr_expect_null(lanes_done(&tx));
	cr_expect_eq(lanes_tx_reconnect(&tx, 2, 1), ORIEL_EMISMATCH, "two are complete");
	expect_next(0, 0, 1, 0);
	cr_assert_eq(lanes_arrived(&rx, 0, 3), 0);
	cr_expect_eq(rx.stale, 1);
	expect_next(0, 1, 1, 1);
	back = lanes_abort(&tx);
	cr_expect(back == &msg[2] && !back->next);
	cr_expect_not(lanes_next(&tx, &seg));
	cr_expect_eq(lanes_post(&tx, &msg[2]), ORIEL_EABORTED);
	cr_expect_eq(lanes_completed(&tx, 0, 2), 0, "too late, and nobody minds");
	cr_assert_eq(lanes_tx_reconnect(&tx, 3, rx.messages), 0);
	cr_assert_eq(lanes_rx_reconnect(&rx, 3), 0);
	cr_assert_eq(lanes_post(&tx, &msg[2]), 0);
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert(lanes_next(&tx, &seg));
		expect_arrival(seg.immediate, i == 2 ? 3 : 2);
	}
	disconnect();
}

/* Lane 0 takes eight ticks for a segment, the others one: the ideal is n / 3.125. */
Test(lanes, slow_lane_carries_less)
{
	struct lanes_msg msg = { .len = 1000 };
	unsigned tick = 0;

	connect_first(4, 4, 1, 0);
	cr_assert_eq(lanes_post(&tx, &msg), 0);
	do {
		while (lanes_next(&tx, &seg))
			continue;
		tick++;
		for (unsigned i = 0; i < 4; i++)
			if (tx.lane[i].n && (i || tick % 8 == 0))
				cr_assert_eq(lanes_completed(&tx, i, 1), 0);
	} while (!lanes_done(&tx));
	cr_expect_leq(tick, 1.05 * 1000 / 3.125, "%u ticks", tick);
	cr_expect_gt(tx.lane[1].count.segments, 7 * tx.lane[0].count.segments);
	disconnect();
}

/* Small messages, one after the other, say nothing about the lanes, and take each in turn. */
Test(lanes, small_messages_take_turns)
{
	connect_first(4, 4, 8, 0);
	for (unsigned i = 0; i < 100; i++) {
		struct lanes_msg msg = { .len = 8 };

		cr_assert_eq(lanes_post(&tx, &msg), 0);
		cr_assert(lanes_next(&tx, &seg));
		cr_expect_eq(seg.lane, i % 4);
		cr_assert_eq(lanes_completed(&tx, seg.lane, 1), 0);
		cr_assert(lanes_done(&tx) == &msg);
	}
	for (unsigned i = 1; i < 4; i++)
		cr_expect_eq(tx.lane[i].share, tx.lane[0].share);
	disconnect();
}

/*
 * ---- In any order ----
 */

#define MOST_MSGS 12
#define MOST_PIECES 10 /* segments of a message */
#define MOST_FLIGHTS 1024
#define MOST_STEPS 100000

/* Deliberate mistakes of the network or the sender: each must be found. */
enum mistake { NONE, EARLY_LAST, WRAP_TOO_SOON, NEW_NUMBER, COMPLETE_LOST, OLD_AS_NEW, MISTAKES };

struct flight {
	uint32_t immediate, epoch;
	unsigned lane, msg, piece;
	uint64_t seq;
	enum { FLYING, LANDED, LOST, OVER } state; /* OVER: its lane or its connection is no more */
	bool completed;
};

struct run {
	uint64_t random;
	enum mistake mistake;
	struct lanes_limits limits;
	struct lanes_tx tx;
	struct lanes_rx rx;
	struct lanes_msg msg[MOST_MSGS];
	uint32_t here[MOST_MSGS], all[MOST_MSGS]; /* a bit for each segment */
	unsigned n_msgs, posted, done, complete;
	struct flight flight[MOST_FLIGHTS];
	unsigned n_flights, first_flying; /* all before it are no longer FLYING */
	bool lossy, rough;                /* rough: lanes fail, connections are made anew */
	const char *wrong;
	struct {
		uint64_t segments, out_of_order, duplicates, stale, retries, aborts, lost;
	} sum; /* over all runs */
};

static size_t
below(struct run *r, size_t n)
{
	return random_below(&r->random, n);
}

static void
expect(struct run *r, bool ok, const char *what)
{
	if (!ok && !r->wrong)
		r->wrong = what;
}

static void
set_up(struct run *r)
{
	uint64_t first = below(r, 4) ? WRAP - below(r, 64) : random_next(&r->random) % (4 * WRAP);

	r->limits.lanes = 1 + (unsigned)below(r, LANES_MOST);
	r->limits.depth = 1 + (unsigned)below(r, 6);
	r->limits.segment = 1 + below(r, 100);
	r->n_msgs = 1 + (unsigned)below(r, MOST_MSGS);
	r->lossy = !below(r, 8);
	r->rough = !below(r, 2);
	for (unsigned i = 0; i < r->n_msgs; i++) {
		size_t pieces = 1 + below(r, MOST_PIECES), len = r->limits.segment * pieces;

		len -= below(r, 2) ? 0 : below(r, r->limits.segment);
		if (!below(r, 4)) {
			r->msg[i].fast = true;
			pieces = 1;
			len = below(r, r->limits.segment + 1);
		} else if (!below(r, 8)) {
			pieces = 1;
			len = 0;
		}
		r->msg[i].id = i;
		r->msg[i].len = len;
		r->all[i] = (UINT32_C(1) << pieces) - 1;
	}
	expect(r, !lanes_tx_init(&r->tx, &r->limits, first), "no sender");
	expect(r, !lanes_rx_init(&r->rx, &r->limits, first), "no receiver");
}

/* What the receiver must have, by its own arithmetic: all before the first with a gap. */
static void
look(struct run *r)
{
	while (r->complete < r->n_msgs && r->here[r->complete] == r->all[r->complete])
		r->complete++;
	expect(r, r->rx.messages <= r->complete, "a message was complete too early");
	expect(r, r->rx.messages >= r->complete, "a message that is here is not complete");
}

static void
deliver(struct run *r, const struct flight *f)
{
	uint32_t epoch = f->epoch;

	if (r->mistake == OLD_AS_NEW)
		epoch = r->rx.epoch;
	if (f->epoch == r->rx.epoch)
		r->here[f->msg] |= UINT32_C(1) << f->piece;
	expect(r, !lanes_arrived(&r->rx, epoch, f->immediate), "an arrival was refused");
	look(r);
}

/* The number of a segment that is sent again: that of its first time. */
static uint64_t
seq_of(const struct run *r, const struct flight *again)
{
	for (unsigned i = r->n_flights; i-- > 0;) {
		const struct flight *f = &r->flight[i];

		if (f->epoch == again->epoch && f->msg == again->msg && f->piece == again->piece)
			return f->seq;
	}
	return UINT64_MAX;
}

static void
send_some(struct run *r)
{
	struct lanes_segment s;

	for (size_t n = 1 + below(r, 16); n && r->n_flights < MOST_FLIGHTS; n--) {
		uint64_t next = r->tx.next;
		struct flight *f = &r->flight[r->n_flights];

		if (!lanes_next(&r->tx, &s))
			return;
		*f = (struct flight){ .immediate = s.immediate,
			              .epoch = r->tx.epoch,
			              .lane = s.lane,
			              .msg = (unsigned)s.msg->id,
			              .piece = (unsigned)(s.offset / r->limits.segment) };
		f->seq = r->tx.next > next ? next : seq_of(r, f);
		expect(r, s.len <= r->limits.segment && s.offset + s.len <= s.msg->len,
		       "a wrong cut");
		expect(r, (s.lane == LANES_CONTROL) == s.msg->fast, "the wrong kind of lane");
		if (r->mistake == WRAP_TOO_SOON)
			f->immediate =
			        (s.immediate & ~LANES_SEQ_MASK) | (uint32_t)(f->seq % 0xffffff);
		if (r->mistake == EARLY_LAST && s.len == r->limits.segment &&
		    s.offset + 2 * s.len == s.msg->len)
			f->immediate |= LANES_LAST;
		if (r->lossy && !below(r, 32))
			f->state = LOST;
		r->n_flights++;
	}
}

/* One that is in the air: any, from all of them. */
static void
land(struct run *r)
{
	size_t n = 0;
	struct flight *pick = NULL;

	while (r->first_flying < r->n_flights && r->flight[r->first_flying].state != FLYING)
		r->first_flying++;
	for (unsigned i = r->first_flying; i < r->n_flights; i++)
		if (r->flight[i].state == FLYING && !below(r, ++n))
			pick = &r->flight[i];
	if (!pick)
		return;
	pick->state = LANDED;
	if (r->mistake == NEW_NUMBER && !below(r, 8))
		pick->immediate = (pick->immediate & ~LANES_SEQ_MASK) |
		                  ((pick->immediate + 1) & LANES_SEQ_MASK);
	deliver(r, pick);
}

/* Something that has come before: of this epoch or another. */
static void
repeat(struct run *r)
{
	const struct flight *f;
	struct lanes_rx before = r->rx;

	if (!r->n_flights)
		return;
	f = &r->flight[below(r, r->n_flights)];
	if (f->epoch == r->rx.epoch ? f->state != LANDED : f->state == FLYING)
		return;
	deliver(r, f);
	expect(r, r->rx.segments == before.segments && r->rx.next == before.next, "counted twice");
	expect(r, r->rx.duplicates + r->rx.stale == before.duplicates + before.stale + 1,
	       "not noticed");
}

/* The oldest of a lane that have landed. */
static void
complete(struct run *r)
{
	unsigned lane = (unsigned)below(r, r->limits.lanes + 1);

	if (lane == r->limits.lanes)
		lane = LANES_CONTROL;
	for (unsigned i = 0; i < r->n_flights; i++) {
		struct flight *f = &r->flight[i];

		if (f->lane != lane || f->state == OVER || f->completed)
			continue;
		if (f->state != LANDED && (r->mistake != COMPLETE_LOST || f->state != LOST))
			break;
		f->completed = true;
		expect(r, !lanes_completed(&r->tx, lane, 1), "a completion was refused");
		if (!below(r, 4))
			break;
	}
	for (struct lanes_msg *m; (m = lanes_done(&r->tx)); r->done++)
		expect(r, m == &r->msg[r->done] && r->done < r->complete,
		       "done at the sender too early");
}

static void
fail_lane(struct run *r)
{
	unsigned lane = (unsigned)below(r, r->limits.lanes), up = 0;

	for (unsigned i = 0; i < r->limits.lanes; i++)
		up += !r->tx.lane[i].down;
	if (r->tx.lane[lane].down) {
		if (!r->tx.lane[lane].n)
			expect(r, !lanes_up(&r->tx, lane), "the lane does not come up");
		return;
	}
	if (up < 2)
		return;
	for (unsigned i = 0; i < r->n_flights; i++)
		if (r->flight[i].lane == lane && !r->flight[i].completed) {
			if (r->flight[i].state != LANDED)
				r->flight[i].state = OVER;
			r->flight[i].completed = true;
		}
	expect(r, !lanes_down(&r->tx, lane), "the connection broke");
}

/* Some of what is in the air comes later, under the old epoch. */
static void
start_anew(struct run *r, uint32_t epoch)
{
	expect(r, !lanes_tx_reconnect(&r->tx, epoch, r->rx.messages), "no new connection out");
	expect(r, !lanes_rx_reconnect(&r->rx, epoch), "no new connection in");
	for (unsigned i = 0; i < r->n_flights; i++)
		r->flight[i].state = OVER;
	for (unsigned i = r->complete; i < r->n_msgs; i++)
		r->here[i] = 0;
}

static void
abort_and_post_again(struct run *r)
{
	struct lanes_msg *m = lanes_abort(&r->tx), *next;

	expect(r, lanes_post(&r->tx, &r->msg[0]) == ORIEL_EABORTED, "posted after an abort");
	r->sum.aborts++;
	start_anew(r, r->tx.epoch + 1);
	for (unsigned i = r->done; m; m = next, i++) {
		next = m->next;
		expect(r, m == &r->msg[i], "handed back in another order");
		if (i < r->complete)
			r->done++;
		else
			expect(r, !lanes_post(&r->tx, m), "cannot be posted again");
	}
}

static bool
is_lost(const struct run *r, uint64_t seq)
{
	for (unsigned i = 0; i < r->n_flights; i++)
		if (r->flight[i].state == LOST && r->flight[i].seq == seq)
			return true;
	return false;
}

/* All that can come has come: what is missing is what was lost, or waits for another lane. */
static void
find_losses(struct run *r)
{
	uint64_t missing[MOST_FLIGHTS];
	size_t n = lanes_missing(&r->rx, r->tx.next, missing, MOST_FLIGHTS), waiting = 0, lost = 0;

	for (unsigned i = 0; i < r->limits.lanes; i++)
		waiting += r->tx.lane[i].down ? r->tx.lane[i].n : 0;
	for (size_t k = 0; k < n; k++)
		if (is_lost(r, missing[k]))
			lost++;
	expect(r, lost + waiting >= n, "listed as missing, and not lost");
	for (unsigned i = 0; i < r->n_flights; i++)
		if (r->flight[i].state == LOST &&
		    !(r->here[r->flight[i].msg] >> r->flight[i].piece & 1))
			lost--;
	expect(r, !lost || r->mistake == COMPLETE_LOST, "the list is not what was lost");
	r->sum.lost += n;
	if (r->mistake != COMPLETE_LOST)
		start_anew(r, r->tx.epoch + 1);
	r->lossy = false;
}

static bool
in_the_air(const struct run *r)
{
	for (unsigned i = 0; i < r->n_flights; i++)
		if (r->flight[i].state == FLYING)
			return true;
	return false;
}

static void
step(struct run *r)
{
	size_t what = below(r, 256);

	if (what < 32 && r->posted < r->n_msgs)
		expect(r, !lanes_post(&r->tx, &r->msg[r->posted++]), "cannot post");
	else if (what < 96)
		send_some(r);
	else if (what < 200)
		land(r);
	else if (what < 240)
		complete(r);
	else if (what < 251)
		repeat(r);
	else if (!r->rough || r->n_flights > MOST_FLIGHTS / 2)
		return;
	else if (what < 254)
		fail_lane(r);
	else if (what == 254 && !below(r, 4))
		start_anew(r, r->tx.epoch + 1 + (uint32_t)below(r, 3));
	else if (what == 255 && !below(r, 4))
		abort_and_post_again(r);
}

static const char *
run(uint64_t seed, enum mistake mistake, struct run *r)
{
	memset(r, 0, offsetof(struct run, flight));
	r->n_flights = r->first_flying = 0;
	r->wrong = NULL;
	r->random = seed;
	r->mistake = mistake;
	set_up(r);
	for (unsigned i = 0; r->done < r->n_msgs && !r->wrong; i++) {
		step(r);
		if (i % 64 == 0 && lanes_tx_check(&r->tx))
			r->wrong = lanes_tx_check(&r->tx);
		if (r->lossy && i % 1024 == 1023 && !in_the_air(r))
			find_losses(r);
		expect(r, i < MOST_STEPS, "it does not come to an end");
	}
	expect(r, r->wrong || (r->rx.messages == r->n_msgs && !lanes_done(&r->tx)),
	       "not all is here");
	expect(r, r->wrong || !lanes_missing(&r->rx, r->tx.next, NULL, 0) || r->rough || r->lossy,
	       "all is here, and some is missing");
	r->sum.segments += r->rx.segments;
	r->sum.out_of_order += r->rx.out_of_order;
	r->sum.duplicates += r->rx.duplicates;
	r->sum.stale += r->rx.stale;
	r->sum.retries += r->tx.retries;
	lanes_tx_fini(&r->tx);
	lanes_rx_fini(&r->rx);
	return r->wrong;
}

Test(lanes, any_order)
{
	const char *n_text = getenv("LANES_ORDERS");
	unsigned n = n_text ? (unsigned)strtoul(n_text, NULL, 0) : 200000;
	uint64_t first = first_seed("lanes", n);
	struct run *r = calloc(1, sizeof(*r));

	cr_assert_not_null(r);
	for (unsigned i = 0; i < n; i++) {
		const char *wrong = run(first + i, NONE, r);

		if (wrong)
			cr_assert_fail("TEST_SEED=%llu: %s", (unsigned long long)(first + i),
			               wrong);
	}
	fprintf(stderr,
	        "lanes: %llu segments, %llu out of order, %llu twice, %llu of an old epoch, %llu "
	        "sent "
	        "again, %llu lost, %llu aborts\n",
	        (unsigned long long)r->sum.segments, (unsigned long long)r->sum.out_of_order,
	        (unsigned long long)r->sum.duplicates, (unsigned long long)r->sum.stale,
	        (unsigned long long)r->sum.retries, (unsigned long long)r->sum.lost,
	        (unsigned long long)r->sum.aborts);
	if (n >= 1000)
		cr_expect(r->sum.out_of_order && r->sum.duplicates && r->sum.stale &&
		                  r->sum.retries && r->sum.lost && r->sum.aborts,
		          "something never happened");
	free(r);
}

Test(lanes, mistakes_are_found)
{
	static const char *const name[] = {
		"none",           "the last segment is not the last", "numbers wrap one too soon",
		"another number", "complete and never there",         "an old epoch as the new one"
	};
	struct run *r = calloc(1, sizeof(*r));

	cr_assert_not_null(r);
	for (enum mistake m = EARLY_LAST; m < MISTAKES; m++) {
		unsigned found = 0;

		for (uint64_t seed = 1; seed <= 2000; seed++)
			found += run(seed, m, r) != NULL;
		fprintf(stderr, "%s: found in %u of 2000 orders\n", name[m], found);
		cr_expect_gt(found, 20, "%s", name[m]);
	}
	free(r);
}
