#include "rma/lanes.h"

#include "rma/lanes_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_FACTOR                                                                              \
	64 /* a lane may be so many times slower than the rest before it stops all                 \
	    */
#define LEAST_WINDOW 64
#define FIRST_SHARE 1  /* of each lane, before anything is known */
#define MORE_SHARE 4   /* for a segment: more than the first, which is a guess */
#define MOST_SHARE 128 /* a lane's on the average; beyond that all are halved */

/*
 * ---- Limits ----
 */

static uint64_t
ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

struct lanes_limits
lanes_defaults(uint64_t round_trip_ns, uint64_t bits_per_s)
{
	const double most = 1e15;
	double bdp = (double)round_trip_ns * ((double)bits_per_s / 8e9);
	size_t segment = 64 << 10;
	uint64_t n, lanes;

	if (bdp > most)
		bdp = most;
	while (segment < (512 << 10) && 2.0 * (double)segment <= bdp / 16)
		segment *= 2;
	n = ceil_div((uint64_t)(1.4 * bdp), segment) + 2;
	lanes = ceil_div(n, 4);
	if (lanes > LANES_MOST)
		lanes = LANES_MOST;
	n = ceil_div(n, lanes);
	return (struct lanes_limits){
		.lanes = (unsigned)lanes,
		.depth = n < LANES_MOST_DEPTH ? (unsigned)n : LANES_MOST_DEPTH,
		.segment = segment,
	};
}

uint32_t
lanes_window(const struct lanes_limits *limits)
{
	uint32_t wish = WINDOW_FACTOR * limits->lanes * limits->depth, window = LEAST_WINDOW;

	while (window < wish && window < LANES_MOST_WINDOW)
		window *= 2;
	return window;
}

int
lanes_check_limits(const struct lanes_limits *limits)
{
	if (limits->lanes < 1 || limits->lanes > LANES_MOST)
		return fail(ORIEL_ERANGE, "%u data lanes, not 1 to %d", limits->lanes, LANES_MOST);
	if (limits->depth < 1 || limits->depth > LANES_MOST_DEPTH)
		return fail(ORIEL_ERANGE, "%u segments under way on a lane, not 1 to %d",
		            limits->depth, LANES_MOST_DEPTH);
	if (!limits->segment)
		return fail(ORIEL_ERANGE, "segments of 0 bytes");
	return 0;
}

/*
 * ---- Sender ----
 */

static void
tx_start(struct lanes_tx *tx)
{
	struct lanes_flight *flight = tx->flights;

	memset(tx->complete, 0, tx->window / 8);
	for (unsigned i = 0; i <= LANES_MOST; i++) {
		struct lanes_lane *lane = &tx->lane[i];

		lane->down = false;
		lane->oldest = lane->n = 0;
		lane->share = i < tx->limits.lanes ? FIRST_SHARE : 0;
		lane->depth = i < tx->limits.lanes ? tx->limits.depth : 0;
		if (i == LANES_CONTROL)
			lane->depth = LANES_CONTROL_DEPTH;
		lane->flight = flight;
		flight += lane->depth;
	}
	tx->next = tx->oldest = tx->first;
	tx->shares = tx->limits.lanes * FIRST_SHARE;
	tx->under_way = 0;
	tx->turn = 0;
	tx->full = false;
}

int
lanes_tx_init(struct lanes_tx *tx, const struct lanes_limits *limits, uint64_t first)
{
	int rc = lanes_check_limits(limits);
	size_t n;

	*tx = (struct lanes_tx){ 0 };
	if (rc)
		return rc;
	n = (size_t)limits->lanes * limits->depth + LANES_CONTROL_DEPTH;
	tx->limits = *limits;
	tx->window = lanes_window(limits);
	tx->first = first;
	tx->tail = &tx->head;
	tx->flights = calloc(n, sizeof(*tx->flights));
	tx->complete = calloc(tx->window / 64, sizeof(*tx->complete));
	if (!tx->flights || !tx->complete) {
		lanes_tx_fini(tx);
		return fail(ORIEL_ENOMEM,
		            "no memory for the %zu segments under way of a connection", n);
	}
	tx_start(tx);
	return 0;
}

void
lanes_tx_fini(struct lanes_tx *tx)
{
	free(tx->flights);
	free(tx->complete);
	*tx = (struct lanes_tx){ 0 };
}

static uint64_t
segments_of(const struct lanes_tx *tx, const struct lanes_msg *msg)
{
	if (msg->fast)
		return 0;
	return msg->len ? ceil_div(msg->len, tx->limits.segment) : 1;
}

static void
msg_start(struct lanes_msg *msg)
{
	msg->cut = 0;
	msg->under_way = 0;
	msg->all_out = false;
}

int
lanes_post(struct lanes_tx *tx, struct lanes_msg *msg)
{
	if (tx->aborted)
		return fail(ORIEL_EABORTED, "the connection was aborted");
	if (msg->fast && msg->len > tx->limits.segment)
		return fail(ORIEL_ERANGE,
		            "a message of %zu bytes on the fast path, a segment has %zu", msg->len,
		            tx->limits.segment);
	msg_start(msg);
	msg->next = NULL;
	*tx->tail = msg;
	tx->tail = &msg->next;
	if (!tx->cut)
		tx->cut = msg;
	tx->left += segments_of(tx, msg);
	tx->posted++;
	return 0;
}

static bool
is_full(const struct lanes_lane *lane)
{
	return lane->n == lane->depth;
}

/* Would the lane be done with one more no later than all lanes with all that is left? */
static bool
in_time(const struct lanes_tx *tx, const struct lanes_lane *lane)
{
	return (uint64_t)(lane->n + 1) * tx->shares <= (tx->left + tx->under_way) * lane->share;
}

/* Of all, full ones too, that which would be done first. NULL: every lane is down. */
static struct lanes_lane *
soonest(struct lanes_tx *tx)
{
	struct lanes_lane *best = NULL;

	for (unsigned i = 0; i < tx->limits.lanes; i++) {
		struct lanes_lane *lane = &tx->lane[(tx->turn + i) % tx->limits.lanes];

		if (!lane->down && (!best || (uint64_t)(lane->n + 1) * best->share <
		                                     (uint64_t)(best->n + 1) * lane->share))
			best = lane;
	}
	return best;
}

/* The data lane for the next segment, or NULL. */
static struct lanes_lane *
choose(struct lanes_tx *tx, bool urgent)
{
	struct lanes_lane *taken = NULL, *full[LANES_MOST];
	unsigned n_full = 0, down = 0;

	for (unsigned i = 0; i < tx->limits.lanes && !taken; i++) {
		struct lanes_lane *lane = &tx->lane[(tx->turn + i) % tx->limits.lanes];

		if (lane->down)
			down++;
		else if (is_full(lane))
			full[n_full++] = lane;
		else if (urgent || in_time(tx, lane))
			taken = lane;
	}
	tx->full = !taken && n_full + down == tx->limits.lanes;
	if (!taken && !tx->full) {
		taken = soonest(tx);
		if (is_full(taken))
			return NULL; /* its next completion makes room */
	}
	for (unsigned i = 0; taken && i < n_full; i++)
		full[i]->count.stalls++;
	if (taken)
		tx->turn = ((unsigned)(taken - tx->lane) + 1) % tx->limits.lanes;
	return taken;
}

/* Puts a segment on a lane that has room. */
static void
take_off(struct lanes_tx *tx, struct lanes_lane *lane, const struct lanes_flight *flight,
         struct lanes_segment *out)
{
	lane->flight[(lane->oldest + lane->n++) % lane->depth] = *flight;
	if (lane->count.high_water < lane->n)
		lane->count.high_water = lane->n;
	lane->count.segments++;
	lane->count.bytes += flight->len;
	*out = (struct lanes_segment){
		.lane = (unsigned)(lane - tx->lane),
		.immediate = ((uint32_t)flight->seq & LANES_SEQ_MASK) | flight->flags,
		.offset = flight->offset,
		.len = flight->len,
		.msg = flight->msg,
	};
}

/* *out: a segment of a lane that failed. False: there is none, or no room for it. */
static bool
next_retry(struct lanes_tx *tx, struct lanes_segment *out, bool *waits)
{
	for (unsigned i = 0; i < tx->limits.lanes; i++) {
		struct lanes_lane *from = &tx->lane[i], *to;

		if (!from->down || !from->n)
			continue;
		*waits = true;
		to = choose(tx, true);
		if (!to)
			return false;
		take_off(tx, to, &from->flight[from->oldest], out);
		from->oldest = (from->oldest + 1) % from->depth;
		from->n--;
		tx->retries++;
		return true;
	}
	return false;
}

static struct lanes_flight
cut(struct lanes_tx *tx, struct lanes_msg *msg)
{
	struct lanes_flight flight = { .msg = msg, .seq = tx->next++, .offset = msg->cut };

	flight.len = msg->len - msg->cut;
	if (flight.len > tx->limits.segment)
		flight.len = tx->limits.segment;
	msg->cut += flight.len;
	msg->under_way++;
	if (msg->cut == msg->len) {
		msg->all_out = true;
		tx->cut = msg->next;
		flight.flags = LANES_LAST;
	}
	if (msg->fast)
		flight.flags |= LANES_FAST;
	return flight;
}

bool
lanes_next(struct lanes_tx *tx, struct lanes_segment *segment)
{
	struct lanes_msg *msg = tx->cut;
	struct lanes_lane *lane;
	struct lanes_flight flight;
	bool waits = false;

	if (next_retry(tx, segment, &waits))
		return true;
	if (waits)
		return false;
	tx->full = false;
	if (!msg)
		return false;
	if (tx->next - tx->oldest >= tx->window) {
		tx->blocked++;
		return false;
	}
	lane = msg->fast ? &tx->lane[LANES_CONTROL] : choose(tx, false);
	if (!lane || is_full(lane))
		return false;
	flight = cut(tx, msg);
	if (!msg->fast) {
		tx->left--;
		tx->under_way++;
	}
	take_off(tx, lane, &flight, segment);
	return true;
}

/* Shares count only while every lane is full: else they would say what a lane was given, not what
 * it can carry. */
static void
share_count(struct lanes_tx *tx, struct lanes_lane *lane)
{
	lane->share += MORE_SHARE;
	tx->shares += MORE_SHARE;
	if (tx->shares <= MOST_SHARE * tx->limits.lanes)
		return;
	tx->shares = 0;
	for (unsigned i = 0; i < tx->limits.lanes; i++) {
		tx->lane[i].share = (tx->lane[i].share + 1) / 2;
		tx->shares += tx->lane[i].share;
	}
}

int
lanes_completed(struct lanes_tx *tx, unsigned index, uint32_t n)
{
	struct lanes_lane *lane = &tx->lane[index];

	if (tx->aborted)
		return 0;
	if (lane->down || n > lane->n)
		return fail(ORIEL_ETRANSPORT,
		            "lane %u completed %" PRIu32 " segments, %" PRIu32 " are under way%s",
		            index, n, lane->n, lane->down ? ", and it is down" : "");
	for (; n; n--) {
		struct lanes_flight *flight = &lane->flight[lane->oldest];

		lane->oldest = (lane->oldest + 1) % lane->depth;
		lane->n--;
		flight->msg->under_way--;
		lanes_bit_set(tx->complete, tx->window, flight->seq);
		if (index == LANES_CONTROL)
			continue;
		tx->under_way--;
		if (tx->full)
			share_count(tx, lane);
	}
	for (; tx->oldest < tx->next && lanes_bit(tx->complete, tx->window, tx->oldest);
	     tx->oldest++)
		lanes_bit_clear(tx->complete, tx->window, tx->oldest);
	return 0;
}

static struct lanes_msg *
pop(struct lanes_tx *tx)
{
	struct lanes_msg *msg = tx->head;

	tx->head = msg->next;
	if (!tx->head)
		tx->tail = &tx->head;
	msg->next = NULL;
	tx->done++;
	return msg;
}

struct lanes_msg *
lanes_done(struct lanes_tx *tx)
{
	if (!tx->head || !tx->head->all_out || tx->head->under_way)
		return NULL;
	return pop(tx);
}

/*
 * ---- What goes wrong ----
 */

int
lanes_down(struct lanes_tx *tx, unsigned index)
{
	unsigned up = 0;

	tx->lane[index].down = true;
	for (unsigned i = 0; i < tx->limits.lanes; i++)
		up += !tx->lane[i].down;
	if (index == LANES_CONTROL)
		return fail(ORIEL_EPEER, "the control lane of the connection failed");
	if (!up)
		return fail(ORIEL_EPEER, "all %u data lanes of the connection failed",
		            tx->limits.lanes);
	return 0;
}

int
lanes_up(struct lanes_tx *tx, unsigned index)
{
	struct lanes_lane *lane = &tx->lane[index];

	if (lane->n)
		return fail(ORIEL_EBUSY, "%" PRIu32 " segments of lane %u wait for another lane",
		            lane->n, index);
	lane->down = false;
	return 0;
}

struct lanes_msg *
lanes_abort(struct lanes_tx *tx)
{
	struct lanes_msg *unfinished = tx->head;

	tx->head = tx->cut = NULL;
	tx->tail = &tx->head;
	tx->left = 0;
	tx->aborted = true;
	tx_start(tx);
	return unfinished;
}

int
lanes_tx_reconnect(struct lanes_tx *tx, uint32_t epoch, uint64_t messages)
{
	if (epoch <= tx->epoch)
		return fail(ORIEL_EMISMATCH, "epoch %" PRIu32 " after %" PRIu32, epoch, tx->epoch);
	if (messages < tx->done || messages > tx->posted)
		return fail(ORIEL_EMISMATCH,
		            "the peer has %" PRIu64 " messages, of %" PRIu64 " posted and %" PRIu64
		            " complete",
		            messages, tx->posted, tx->done);
	tx_start(tx);
	tx->epoch = epoch;
	if (tx->aborted)
		tx->posted = tx->done = messages;
	tx->aborted = false;
	tx->left = 0;
	tx->cut = NULL;
	messages -= tx->done; /* of those that are still in the list, so many have come */
	for (struct lanes_msg *msg = tx->head; msg; msg = msg->next) {
		msg_start(msg);
		if (messages) {
			messages--;
			msg->all_out = true;
			continue;
		}
		if (!tx->cut)
			tx->cut = msg;
		tx->left += segments_of(tx, msg);
	}
	return 0;
}

const char *
lanes_tx_check(const struct lanes_tx *tx)
{
	uint64_t under_way = 0, of_messages = 0, left = 0, on_data = 0;

	if (tx->next - tx->oldest > tx->window || tx->window > LANES_MOST_WINDOW)
		return "more numbers than the window has";
	for (unsigned i = 0; i <= LANES_MOST; i++) {
		const struct lanes_lane *lane = &tx->lane[i];

		if (lane->n > lane->depth || lane->count.high_water > lane->depth)
			return "more segments on a lane than its depth";
		under_way += lane->n;
		if (i != LANES_CONTROL)
			on_data += lane->n;
		for (uint32_t k = 0; k < lane->n; k++) {
			uint64_t seq = lane->flight[(lane->oldest + k) % lane->depth].seq;

			if (seq < tx->oldest || seq >= tx->next)
				return "a number under way that is outside the window";
			if (lanes_bit(tx->complete, tx->window, seq))
				return "a number that is under way and complete";
		}
	}
	for (const struct lanes_msg *msg = tx->head; msg; msg = msg->next) {
		of_messages += msg->under_way;
		if (!msg->fast && !msg->all_out)
			left += msg->len ? ceil_div(msg->len - msg->cut, tx->limits.segment) : 1;
	}
	if (under_way != of_messages)
		return "lanes and messages differ in what is under way";
	if (on_data != tx->under_way || left != tx->left)
		return "wrong sums of what is under way or left";
	return NULL;
}
