/*
 * shrink.h - oriel_comm_shrink: rma/agreement.h run over ranks and messages.
 *
 * A context keeps a record of each shrink, by the communicator's id and how
 * many came before on it. It is made by the call or by the first message,
 * whichever is earlier; it answers for this rank after the call has returned,
 * for a rank whose coordinator died may ask late; and it goes when the next
 * shrink of the communicator, or of the one that came of it, has ended: every
 * member of that has returned from this one.
 *
 * Records are used under ctx->progress.
 */
#ifndef RMA_SHRINK_H
#define RMA_SHRINK_H

#include "rma/agreement.h"
#include "rma/comm.h"

struct unsent { /* to a rank that is not met yet, which a handler must not do */
	struct unsent *next;
	int to;
	struct agreement_msg m;
	uint64_t set[];
};

struct shrink {
	oriel_ctx *ctx;
	uint64_t comm, number;
	struct agreement a;
	uint32_t ended; /* the agreement has, or error is set */
	int error;
	struct peer *from; /* of the message that is being handled, or NULL */
	int from_rank;
	struct unsent *unsent, **unsent_tail;
	/* The caller's own: */
	oriel_comm *on;
	struct peer *failed_seen;
	uint64_t looked_at;
};

/* Messages to rank to of s; out of memory, or of room, s ends with an error. */
void shrink_post(struct shrink *s, struct peer *p, int to, const struct agreement_msg *m);
/* Those that were unsent, and whose receiver has been met meanwhile. */
void shrink_post_unsent(struct shrink *s);
/* Nothing more goes to rank to, which cannot be met. */
void shrink_drop_unsent(struct shrink *s, int to);
/* After every event: has the agreement ended? by: the world rank that caused it. */
void shrink_look(struct shrink *s, int by);

uint64_t shrink_id(uint64_t comm, uint64_t number);
/* This call's record, made if no message has. NULL: no memory. */
struct shrink *shrink_enter(oriel_comm *comm, uint64_t number);
/* id may be 0. */
void shrink_drop(oriel_ctx *ctx, uint64_t id);

int shrink_open(oriel_ctx *ctx);
void shrink_close(oriel_ctx *ctx);

#endif
