/*
 * box.h - private mailboxes: where the lines of peers without shared memory go.
 *
 * Found by (communicator, sender, queue) in one table a context, made by
 * whoever needs one first: the receiver's channel, or the handler of the
 * sender's first message. Freed with the communicator.
 */
#ifndef PLAN_BOX_H
#define PLAN_BOX_H

#include "plan/chan.h"

#include <uthash.h>

struct box {
	struct box_key {
		uint64_t comm;
		uint32_t rank; /* world */
		uint32_t channel;
	} key;
	UT_hash_handle hh;
	uint64_t came;    /* lines, ever; the handlers' */
	uint64_t given;   /* credits told to the sender; the owner's */
	uint64_t placing; /* the call in which the owner has puts to the peer under way, or 0 */
	uint32_t key_len[MBOX_BUFS]; /* of the buffers in mbox.ready */
	char rkey[MBOX_BUFS][UCX_KEY_MAX];
	struct mbox mbox cache_aligned;
};

/* make false: NULL if there is none. make true: NULL if there is no memory. */
struct box *box_find(oriel_ctx *ctx, uint64_t comm, int rank, unsigned channel, bool make);
/* Grows with each mailbox that is made. */
uint64_t box_count(oriel_ctx *ctx);
/* The world ranks, at most max, that a communicator has mailboxes of this channel for; how many. */
size_t box_ranks(oriel_ctx *ctx, uint64_t comm, unsigned channel, int *ranks, size_t max);

#endif
