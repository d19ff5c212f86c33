/*
 * match.h - which receive takes which message: two kinds of queues for each
 * source, and nothing else. No memory is made or freed here, no lock taken.
 *
 * A message meets the receive that was posted first of those it fits, whether
 * that names its source or not; a receive meets the message that came first.
 * Both are found by walking one source's queue and the one of receives from
 * anybody (or of all messages).
 */
#ifndef P2P_MATCH_H
#define P2P_MATCH_H

#include "base/base.h"

#include <sys/queue.h>

struct match_recv { /* posted */
	TAILQ_ENTRY(match_recv) entry;
	uint64_t order;
	int tag;  /* or ORIEL_ANY */
	bool any; /* from anybody */
	bool posted;
};

struct match_msg { /* has come, and no receive wanted it yet */
	TAILQ_ENTRY(match_msg) entry, all;
	struct match_source *source;
	int tag;
};

TAILQ_HEAD(match_recvs, match_recv);
TAILQ_HEAD(match_msgs, match_msg);

struct match_source {
	struct match_recvs posted;
	struct match_msgs came;
};

struct match {
	struct match_recvs any;
	struct match_msgs came; /* of all sources, in the order in which they came */
	uint64_t order;         /* receives ever posted */
};

void match_init(struct match *m);
void match_source_init(struct match_source *s);

/* source NULL: from anybody. */
void match_post(struct match *m, struct match_source *source, struct match_recv *r, int tag);
void match_unpost(struct match *m, struct match_source *source, struct match_recv *r);
/* The receive that takes a message of source with the tag, which is then no longer posted; or NULL.
 */
struct match_recv *match_arrival(struct match *m, struct match_source *source, int tag);

/* It stays until some receive takes it. */
void match_keep(struct match *m, struct match_source *source, struct match_msg *msg, int tag);
/* The message that a receive would take; it stays. */
struct match_msg *match_look(struct match *m, struct match_source *source, int tag);
void match_drop(struct match *m, struct match_msg *msg);

#endif
