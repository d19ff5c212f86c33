/*
 * lanes.h - the flow control of one connection: which segment of which message goes on which lane,
 * and when a message is complete at the other end. It knows no transport.
 *
 * Source: dynamic queue pair load balancing, "Collective Communication for 100k+ GPUs"
 * (arXiv 2510.20171), section 4.4; the format of the immediate is the paper's.
 *
 * A connection has 1 to 16 data lanes and one control lane. A lane is what the transport keeps in
 * order, such as a queue pair. A message is cut into segments, each a write that carries 32 bits:
 *
 *   BITS   MEANING
 *   0-23   the segment's number on the connection, modulo 2^24
 *   24-29  0
 *   30     fast path: a whole small message on the control lane
 *   31     last segment of its message
 *
 * The sender (lanes_tx) never has more than depth segments under way on a lane. A lane that is full
 * is skipped, so that one on a faster path carries more. At the end of what is posted a segment
 * goes to a lane only if that lane will be done with it no later than all of them with all that is
 * left, by the shares that the lanes had while all were full; else the last segments on a slow
 * lane would hold up the whole message. The receiver (lanes_rx) counts: it needs a bit for "is
 * here" and one for "is a last one" for each number of the window.
 *
 * Invariants
 * - Numbers: segments are numbered in the order of messages, and in a message by offset. Inside,
 *   numbers have 64 bits; only the wire has 24.
 * - Window: every segment that was handed out and is not complete at the sender has a number below
 *   that of the oldest such one + window, and window <= 2^22. So the 24 bits of an arrival mean
 *   one number only: less than 2^22 ahead of the next one, or at most 2^23 behind it and then a
 *   duplicate. Anything else was never sent, and is an error of the connection.
 * - Completion at the sender follows arrival: the transport calls lanes_completed for a segment
 *   only when the peer's lanes_arrived will see it before anything that is handed out later. A
 *   reliable connection whose arrivals all go to one queue does that by itself; with several
 *   queues, or where completion is only local, the transport has to wait for the peer's word.
 * - Order: message k is complete at the receiver when all segments of messages 0 to k have
 *   arrived, whatever their order, and not before. So messages complete in posting order, on the
 *   fast path too, and a signal that is a message never passes its data. A signal that travels
 *   outside the lanes carries lanes_tx.posted of its moment; the receiver keeps it until
 *   lanes_rx.messages is no less.
 * - Fast path: one segment, on the control lane, in order with everything else; on an idle
 *   connection it arrives as the next number and is only counted. The transport's own control
 *   messages share the lane and are not known here.
 * - Once: a number that has arrived is counted once. Another arrival of it is a duplicate and
 *   changes nothing but its counter.
 * - Failed lane: lanes_down puts what was under way there on other lanes, under the same numbers.
 *   The transport calls it only when nothing of that lane can land any more, for a write that
 *   lands late could meet a buffer that has other uses by then. What had landed arrives as a
 *   duplicate. Without the control lane, or the last data lane, the connection is broken.
 * - Loss: nothing is given up. Segments below a number that the sender names (lanes_tx.next, when
 *   it has nothing under way) and that have not arrived are lost: lanes_missing lists them.
 * - Abort: the sender hands back what is unfinished, in posting order. Any first part of that may
 *   be complete at the receiver. Nothing is sent until a reconnection.
 * - Epochs: a broken connection is made anew under a greater epoch. The receiver forgets segments
 * of incomplete messages, keeps its count of messages and tells it to the sender, which goes on
 * with the first that is not complete: every message completes once. An arrival belongs to the
 *   epoch of the lane that it came on; one of another epoch is counted as stale and changes
 *   nothing.
 *
 * Life cycle: init allocates, fini frees; nothing in between allocates or blocks. A message is the
 * caller's memory, from lanes_post until lanes_done or lanes_abort returns it. The caller
 * serializes the calls on one object. Cost: O(1) a segment, amortized, and O(lanes) to choose.
 */
#ifndef RMA_LANES_H
#define RMA_LANES_H

#include "base/base.h"

#define LANES_MOST 16
#define LANES_CONTROL LANES_MOST /* the index of the control lane */
#define LANES_CONTROL_DEPTH 64
#define LANES_MOST_DEPTH 4096

#define LANES_SEQ_MASK UINT32_C(0x00ffffff)
#define LANES_UNUSED UINT32_C(0x3f000000)
#define LANES_FAST (UINT32_C(1) << 30)
#define LANES_LAST (UINT32_C(1) << 31)
#define LANES_MOST_WINDOW (UINT32_C(1) << 22)

struct lanes_limits {
	unsigned lanes; /* 1 to LANES_MOST */
	unsigned depth; /* segments under way on a lane: 1 to LANES_MOST_DEPTH */
	size_t segment; /* bytes, not 0 */
};

/*
 * The limits for a distance. With BDP = rate x round trip, the bytes that fill the link:
 *
 *   segment  the power of two at or below BDP / 16, from 64 KiB to 512 KiB
 *   n        1.4 x BDP / segment, rounded up, + 2: segments under way
 *   lanes    n / 4, rounded up, 1 to 16
 *   depth    n / lanes, rounded up
 *
 * A NIC serves its queue pairs in turn, so that up to one segment a lane, a quarter of what is
 * under way, is partly sent and cannot complete: 4/3 x BDP fills the link, 1.4 leaves a
 * twentieth for jitter, and the 2 are the segment at either end of a short link. More would only
 * stand in queues.
 */
struct lanes_limits lanes_defaults(uint64_t round_trip_ns, uint64_t bits_per_s);
/* Numbers in the window of a connection: a power of two, the same at both ends. */
uint32_t lanes_window(const struct lanes_limits *limits);

/* ---- Sender ---- */

struct lanes_msg {
	/* The caller's. */
	uint64_t id;
	size_t len; /* may be 0 */
	bool fast;  /* len is at most the segment size */
	/* The module's. */
	struct lanes_msg *next;
	size_t cut;         /* bytes that were handed out */
	uint64_t under_way; /* segments */
	bool all_out;
};

struct lanes_segment {
	unsigned lane; /* LANES_CONTROL: the control lane */
	uint32_t immediate;
	size_t offset, len; /* in the message */
	struct lanes_msg *msg;
};

struct lanes_counters {
	uint64_t segments, bytes; /* handed out, repeats too */
	uint64_t stalls;          /* another lane was taken because this one was full */
	uint32_t high_water;      /* segments under way */
};

/* A segment under way. */
struct lanes_flight {
	struct lanes_msg *msg;
	uint64_t seq;
	size_t offset, len;
	uint32_t flags;
};

struct lanes_lane {
	struct lanes_flight *flight; /* a ring of depth */
	uint32_t depth, oldest, n;
	uint32_t share; /* of what completed while all lanes were full */
	bool down;      /* what is in the ring has to go elsewhere */
	struct lanes_counters count;
};

struct lanes_tx {
	struct lanes_limits limits;
	struct lanes_lane lane[LANES_MOST + 1];
	struct lanes_flight *flights;
	uint64_t *complete;        /* a bit for each number of the window */
	uint64_t first;            /* the number that an epoch starts with */
	uint64_t next, oldest;     /* all below oldest are complete */
	struct lanes_msg *head;    /* in posting order: not yet returned by lanes_done */
	struct lanes_msg *cut;     /* the first of them that is not all out */
	struct lanes_msg **tail;   /* of that list */
	uint64_t posted, done;     /* messages, over all epochs */
	uint64_t left;             /* segments for data lanes that are not out yet */
	uint64_t retries, blocked; /* segments sent again; times that the window was full */
	uint32_t window, epoch, shares, under_way; /* under_way: on data lanes */
	unsigned turn;                             /* the lane to try first */
	bool full, aborted;                        /* full: all data lanes, while more is left */
};

/* first: the number of the first segment; 0 but in tests. ERANGE: limits; ENOMEM. */
int lanes_tx_init(struct lanes_tx *tx, const struct lanes_limits *limits, uint64_t first);
void lanes_tx_fini(struct lanes_tx *tx);
/* ERANGE: a fast message longer than a segment. EABORTED: no reconnection since lanes_abort. */
int lanes_post(struct lanes_tx *tx, struct lanes_msg *msg);
/* The next segment to send. False: no lane has room, or there is nothing to send. */
bool lanes_next(struct lanes_tx *tx, struct lanes_segment *segment);
/* The n oldest segments of a lane are complete. ETRANSPORT: so many are not under way there. */
int lanes_completed(struct lanes_tx *tx, unsigned lane, uint32_t n);
/* The next message, in posting order, of which all segments are complete, or NULL. */
struct lanes_msg *lanes_done(struct lanes_tx *tx);
/* EPEER: the connection is broken, see above. */
int lanes_down(struct lanes_tx *tx, unsigned lane);
/* The lane was made anew. EBUSY: segments that were on it have yet to be sent elsewhere. */
int lanes_up(struct lanes_tx *tx, unsigned lane);
/* All messages that lanes_done has not returned, linked by next. */
struct lanes_msg *lanes_abort(struct lanes_tx *tx);
/* messages: the receiver's count. EMISMATCH: it cannot be that, or the epoch is not greater. */
int lanes_tx_reconnect(struct lanes_tx *tx, uint32_t epoch, uint64_t messages);
/* NULL, or the invariant that does not hold: for tests. */
const char *lanes_tx_check(const struct lanes_tx *tx);

/* ---- Receiver ---- */

struct lanes_rx {
	uint64_t *here, *last; /* a bit for each number of the window */
	uint64_t first, next;  /* next: all below have arrived */
	uint64_t above;        /* no number from this on has arrived */
	uint64_t messages;     /* complete, over all epochs */
	uint64_t segments, fast, out_of_order, duplicates, stale;
	uint32_t window, epoch;
};

int lanes_rx_init(struct lanes_rx *rx, const struct lanes_limits *limits, uint64_t first);
void lanes_rx_fini(struct lanes_rx *rx);
/*
 * A segment has arrived on a lane of that epoch. Messages from rx->messages as it was before the
 * call up to what it is now are complete. ETRANSPORT: it was never sent like that; nothing changes.
 */
int lanes_arrived(struct lanes_rx *rx, uint32_t epoch, uint32_t immediate);
/* How many of the numbers below end have not arrived, the first cap of them in seq. */
size_t lanes_missing(const struct lanes_rx *rx, uint64_t end, uint64_t *seq, size_t cap);
/* EMISMATCH: the epoch is not greater. */
int lanes_rx_reconnect(struct lanes_rx *rx, uint32_t epoch);

#endif
