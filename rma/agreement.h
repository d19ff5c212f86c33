/*
 * agreement.h - which members of a group go on together: the protocol alone, with
 * no threads, clocks or peers. Events go in, messages come out. rma/shrink.c runs
 * it over ranks; test/rma/agreement.c over simulated ones that crash at any step.
 *
 * The lowest member that is not known to have failed coordinates. Each member
 * joins it, with those that it knows to have failed; when all that are left have
 * joined, the coordinator proposes an outcome (the set of those left out), all
 * that are in acknowledge, and it commits. So when anybody returns, every member
 * of the outcome that lives has accepted it. A next coordinator hears from everybody
 * what was accepted, and carries an outcome on that may have been committed: one that
 * every member of it, as far as it is still there, holds.
 *
 * Who is given up by one is given up by all that hear of it, for ever, be it
 * rightly or not; a member that is told so while nothing is decided is expelled.
 * A coordinator's predecessors have all failed for whoever listens to it, so they
 * are not listened to any more: that is what makes a later ballot safe.
 *
 * Promise: all that return return the same outcome, those included that fail
 * later, unless a group falls into parts that have given each other up entirely
 * (a cut network); each part then goes on by itself.
 *
 * Cost, without failures: 4 (P - 1) messages at the coordinator, 4 at a member,
 * two round trips; a coordinator's failure adds the same again. Memory: P/2
 * bytes, at a coordinator that takes over 8 P more while it lasts.
 *
 * Threads: one at a time. Messages of one pair arrive in order or not at all.
 */
#ifndef RMA_AGREEMENT_H
#define RMA_AGREEMENT_H

#include "rma/rankset.h"

/* X(KIND). Members that have ended answer JOIN, ASK and PROPOSE: with COMMIT, or, expelled, NEWS.
 */
#define AGREEMENT_KINDS(X)                                                                         \
	X(JOIN)    /* the sender has entered; set: who has failed, as far as it knows */           \
	X(HELD)    /* before a JOIN: the outcome that the sender has accepted, with its ballot */  \
	X(ASK)     /* the sender coordinates now, its predecessors being in set */                 \
	X(PROPOSE) /* set: the outcome. bound: it is an earlier coordinator's */                   \
	X(ACK)     /* of the proposal with that ballot; no set */                                  \
	X(COMMIT)  /* set: the outcome, decided */                                                 \
	X(NEWS)    /* set: who has failed */

enum agreement_kind {
#define AGREEMENT_ENUM(kind) AGREEMENT_##kind,
	AGREEMENT_KINDS(AGREEMENT_ENUM)
#undef AGREEMENT_ENUM
	        AGREEMENT_N
};

struct agreement_msg {
	enum agreement_kind kind;
	bool bound;
	uint64_t ballot;     /* coordinator + 1 (32 bits), its attempt (32 bits) */
	const uint64_t *set; /* of ranks: a bit each, as many words as the receiver's */
};

enum agreement_state { AGREEMENT_OPEN = 0, AGREEMENT_DECIDED, AGREEMENT_EXPELLED };

struct agreement {
	int size, rank;
	enum agreement_state state;
	bool entered;
	uint64_t ballot;   /* of outcome; 0: nothing accepted */
	uint64_t *outcome; /* who is left out: accepted, or decided */
	uint64_t *failed;  /* given up, by this member or by one that it listens to */
	int told;          /* whom this member has joined; -1 */

	/* As the coordinator: */
	bool leading, chosen, bound, proposing;
	uint32_t attempt;
	int proposed_failed;         /* how many had failed when it proposed */
	uint64_t *joined, *acked;    /* who has */
	uint64_t *held;              /* rank -> ballot that it holds; NULL: none does */
	struct agreement_held *news; /* the outcomes of those ballots */

	/* Called from the calls below; copies what it needs. May drop a message to a rank that
	 * has failed, or whose failure it reports. */
	void (*send)(void *arg, int to, const struct agreement_msg *m);
	void *arg;
};

/* size, rank, send and arg are set, all else is 0. ENOMEM leaves nothing behind. */
int agreement_init(struct agreement *a);
void agreement_fini(struct agreement *a);
/* This member takes part. Messages may have come before. */
void agreement_enter(struct agreement *a);
/* Rank r has failed, as this member has found itself. Once is enough. */
void agreement_fail(struct agreement *a, int r);
/*
 * To be called now and then while it is open: who has gone over to another
 * coordinator, having heard that this one was given up, says so when asked.
 */
void agreement_remind(struct agreement *a);
/* This member was given up by others, as it has heard elsewhere. */
void agreement_expel(struct agreement *a);
/* A message; sets of ranks beyond size have been refused. */
void agreement_take(struct agreement *a, int from, const struct agreement_msg *m);
/* Whom this member waits for: itself if it coordinates. */
int agreement_coordinator(const struct agreement *a);
/* As the coordinator, while open: is r still to say something? */
bool agreement_owes(const struct agreement *a, int r);

#endif
