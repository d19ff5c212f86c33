/*
 * chan.h - channels: (communicator, peer, channel number), both directions, made on first
 * contact and kept with the communicator.
 *
 * Out: the peer's mailbox for this rank, found through the peer's record of the
 * communicator in its control slab and mapped; a peer whose memory is not
 * mapped gets the same lines as messages (AM_CHAN, AM_CREDIT, AM_READY).
 * In: this rank's mailbox for the peer: in the communicator's array in the
 * pool, or a private one, which the handlers of those messages fill. A private
 * mailbox may exist before this rank has made the communicator: the peer may
 * have made it earlier, and sent.
 *
 * Threads: a channel belongs to the thread in the communicator's call. The
 * handlers touch private mailboxes only, in the order that rma/mbox.h gives to
 * a sender, and their table under its own lock.
 */
#ifndef PLAN_CHAN_H
#define PLAN_CHAN_H

#include "plan/wire.h"
#include "rma/am.h"
#include "rma/comm.h"
#include "rma/ucx.h"

struct box; /* a private mailbox */

struct chan {
	struct mbox *in;
	struct mbox *out;  /* NULL: not connected, or by messages */
	struct wake *wake; /* the peer's waiters; set if out is */
	uint64_t sent;     /* messages, ever */
	uint64_t seen;     /* messages taken in, ever */
	uint64_t credited; /* of seen, told to the peer */
	struct recorder_peer *rec;
	size_t more; /* where a payload that is marked "more" goes */
	size_t got;  /* bytes of this call; ragged calls count them */
	union {
		struct {
			uint32_t landed; /* batches of the running call */
			uint32_t expect; /* of those that its plan waits for */
		};
		uint64_t begin; /* both, at the beginning of a call */
	};
	uint64_t ready_told; /* the call whose buffers the peer was last told of */
	bool connected;
	bool unquiet;  /* ucx may still read sources of puts to it */
	bool heard;    /* something has come in */
	struct known { /* the last message, checked: what it does if it comes again */
		uint64_t meta;
		uint64_t shape; /* of the launch; 0: nothing is known */
		size_t off;
		uint32_t len;
		uint8_t dst, last;
	} known;
	struct box *box;
	/* plan/stream.h: */
	unsigned long long dev_in, dev_out;  /* the mailboxes as streams see them; 0: not yet */
	uint64_t records_told, records_read; /* ever */
	oriel_comm *comm;
	struct peer *peer;
	int rank; /* peer's in comm */
	unsigned channel;
	struct recorder_peer uncounted; /* what rec points to when the recorder is full */
};

static inline uint64_t
chan_begin(uint32_t expect)
{
	union {
		struct {
			uint32_t landed, expect;
		};
		uint64_t word;
	} b = { .expect = expect };

	return b.word;
}

/* Makes the part that needs nothing of the peer. */
int chan_make(oriel_comm *comm, int rank, unsigned channel, struct chan **out);
void chan_free(struct chan *c);
/* Can be connected now: the peer has made the communicator, or is reached by messages. */
bool chan_reachable(struct chan *c);
/* Once it is reachable. EMISMATCH: the peer means another group by the same id. */
int chan_connect(struct chan *c);
/* The private mailbox, if the peer turns out to send messages though its memory is mapped here. */
void chan_adopt(struct chan *c);

/* One line by message: out is NULL. */
int chan_send(struct chan *c, uint64_t meta, uint64_t seq, const void *data, size_t len);
/* Tells the peer how much was taken in. Connected. */
int chan_credit(struct chan *c);
/* Tells the peer that the buffers of this call may be written: those of some size. limit: where
 * the peer does not know how long its block must be. Connected. */
int chan_ready(struct chan *c, char *const base[MBOX_BUFS], const size_t size[MBOX_BUFS],
               size_t limit, uint64_t call, uint64_t hash);
static inline size_t
chan_limit(const struct chan *c)
{
	return c->in->ready.buf[0].where; /* IN is nobody's destination */
}

/*
 * Zero copy into a buffer that the peer is ready for (in->ready). can_place
 * false: it can be reached by lines only. place moves len bytes to offset off,
 * all inside the buffer; the next line, published later, is behind them.
 *
 * Each place says so in "placing", a full fence before it looks at the failure
 * word; a receiver that fails sets the word, a fence before it looks at
 * "placing". So either the sender sees the failure or the receiver sees that it
 * has to wait.
 */
bool chan_can_place(struct chan *c, unsigned dst);
/* It can, and by plain copies. Without the word of this call: so it was the last time. */
bool chan_is_mapped(const struct chan *c, unsigned dst);
/*
 * Messages up to this size may go through scratch though zero copy is possible. On
 * one node two copies at a time are faster than process_vm, which looks up each
 * page: always in a stream, where this rank only sends and the receiver only
 * receives, else while caches hold it all. But a network's put costs one trip
 * however long it is. And ranks that outnumber the CPUs change places for each part
 * that fits into scratch; up to that, they need not wait for the receiver's word.
 */
size_t chan_eager_max(const struct chan *c, bool stream);
/* It can, and it is not slower for len bytes. */
bool chan_should_place(struct chan *c, unsigned dst, size_t len, bool stream);
int chan_place(struct chan *c, uint64_t call, unsigned dst, size_t off, const void *src,
               size_t len);
/*
 * The other way round: this rank reads a buffer that the peer of the same node has
 * named, by a key as in mbox.h and an offset or address, and that the peer keeps as it
 * is until it hears that it was read. can_pull false: it cannot be read.
 *
 * A peer that fails first sets the failure word at all members (or, if it has given
 * this rank up, this rank's expelled_by), then waits until this rank has left its
 * buffer alone, for which "placing" holds as above, and only then gives it back. It
 * does not wait for ever, and a stopped reader may go on after that: so pull looks at
 * both words once more behind its last byte. If they are clear then, the peer had not
 * given the buffer back when that byte was read; stale bytes are never reported as good.
 */
bool chan_can_pull(struct chan *c, uint64_t key);
int chan_pull(struct chan *c, uint64_t call, uint64_t where, uint64_t key, void *dst, size_t len);
/* Sources of earlier places are free again. */
int chan_quiet(struct chan *c, uint64_t deadline);
/*
 * After the failure word was spread: the peer does not write (or pull) this rank's
 * buffers in this call any more, so that the caller may have them back. False:
 * it was still at it at the deadline.
 */
bool chan_left_alone(struct chan *c, uint64_t call, uint64_t deadline);

/* The table of private mailboxes, part of the context. */
int chan_open(oriel_ctx *ctx);
void chan_close(oriel_ctx *ctx);
/* Frees the private mailboxes of a communicator. */
void chan_drop_boxes(oriel_comm *comm);

static inline bool
chan_has_credit(const struct chan *c)
{
	return mbox_has_credit(c->in, c->sent);
}

#endif
