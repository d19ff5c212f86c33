/*
 * am.h - active messages between two ranks: small, reliable, in order for each
 * (sender, receiver). The control plane, and the data plane where nothing
 * better exists (staged; small operations over UCX).
 *
 * Two carriers: the rings of the control slabs (same node) and UCX. Handlers run
 * on whoever makes progress at the receiver (a waiting thread or the helper),
 * under ctx->progress, one at a time. A handler must not block; it may send with
 * am_reply, which never blocks.
 */
#ifndef RMA_AM_H
#define RMA_AM_H

#include "rma/peer.h"

#define AM_HDR_MAX 128   /* bytes of a message's header */
#define AM_DATA_MAX 8192 /* bytes of its payload, on every carrier */

/* X(ID, handler): the handlers are functions of the files that know what they do. */
#define AM_HANDLERS(X)                                                                             \
	X(AM_REPLY, am_on_reply)        /* answer to am_call */                                    \
	X(AM_SYNC, am_on_sync)          /* answers when all before it has been handled */          \
	X(AM_WIN, win_on_lookup)        /* "what is your part of window id?" */                    \
	X(AM_OP, ops_on_op)             /* put, signal, get, atomics on a window: rma/ops.c */     \
	X(AM_CHAN, chan_on_message)     /* one mailbox line with its scratch: plan/chan.c */       \
	X(AM_CREDIT, chan_on_credit)    /* plan/chan.c */                                          \
	X(AM_READY, chan_on_ready)      /* plan/chan.c */                                          \
	X(AM_PLACING, chan_on_placing)  /* plan/box.c */                                           \
	X(AM_FAIL, comm_on_fail)        /* failure word of a communicator: rma/comm.c */           \
	X(AM_SHRINK, shrink_on_message) /* rma/shrink.c */                                         \
	X(AM_PING, am_on_ping)          /* sign of life wanted */                                  \
	X(AM_PONG, am_on_pong)                                                                     \
	X(AM_BYE, am_on_bye) /* the sender ends its context in order */

enum am_id {
#define AM_ENUM(id, handler) id,
	AM_HANDLERS(AM_ENUM)
#undef AM_ENUM
	        AM_N
};

struct am_msg { /* as handed to a handler */
	struct peer *from;
	const void *hdr;
	size_t hdr_len;
	const void *data;
	size_t len;
};

typedef void am_handler(oriel_ctx *ctx, const struct am_msg *m);
#define AM_DECLARE(id, handler) am_handler handler;
AM_HANDLERS(AM_DECLARE)
#undef AM_DECLARE

int am_open(oriel_ctx *ctx);
void am_close(oriel_ctx *ctx);

/*
 * Sends; hdr and data are copied. If the carrier is full, makes progress until
 * it is not (back-pressure), or until the peer fails. Not from handlers.
 */
int am_send(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
            size_t len);
/* From handlers and the helper: never blocks; queues if the carrier is full. */
void am_reply(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
              size_t len);
/* Sends what am_reply had to queue. Called by ctx_progress under ctx->progress. */
bool am_flush_queued(oriel_ctx *ctx);
/* So many replies are queued that no more requests should be taken in. Under ctx->progress. */
bool am_congested(oriel_ctx *ctx);

/*
 * A question: sends with a token that the answerer hands to am_answer, waits
 * for the answer. The request's header must start with a uint64_t that am_call
 * fills with the token. *out_len: capacity in, length out. Returns the answer's
 * status, EPEER or ETIMEDOUT.
 */
int am_call(struct peer *to, enum am_id id, void *hdr, size_t hdr_len, const void *data, size_t len,
            void *out, size_t *out_len, uint64_t deadline);

/* The same in two steps, for several questions under way. Each start that returned 0 wants its end.
 */
struct am_call {
	void *out;
	size_t cap; /* of out */
	size_t len; /* of the answer */
	int status;
	struct peer *to;
	uint64_t token;
	uint32_t done;
};
/* c->out, cap and to are set, the rest is 0; c and out stay until the end. */
int am_call_start(struct am_call *c, enum am_id id, void *hdr, size_t hdr_len, const void *data,
                  size_t len);
int am_call_end(struct am_call *c, uint64_t deadline);
/* From a handler: answers token of m with a status and data. */
void am_answer(oriel_ctx *ctx, const struct am_msg *m, uint64_t token, int status, const void *data,
               size_t len);
/* All messages this rank has sent to the peer have been handled there. */
int am_sync(struct peer *to, uint64_t deadline);

/* Drains the rings of the node. Under ctx->progress. */
bool ring_drain(oriel_ctx *ctx);
/* False: full. Under to->send_lock. */
bool ring_push(struct peer *to, enum am_id id, const void *hdr, size_t hdr_len, const void *data,
               size_t len);

/* A carrier has received: checks id and lengths, calls the handler. Under ctx->progress. */
void am_deliver(oriel_ctx *ctx, struct peer *from, unsigned id, const void *hdr, size_t hdr_len,
                const void *data, size_t len);

#endif
