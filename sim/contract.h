/*
 * contract.h - what the collectives promise: how buffers look before, and what
 * must hold at a rank's own end.
 */
#ifndef SIM_CONTRACT_H
#define SIM_CONTRACT_H

#include "coll/table.h"

struct contract_rank { /* one rank's view */
	int rank, size;
	int64_t *buf[MBOX_BUFS]; /* blocks of 8 bytes */
	const uint32_t *count;   /* blocks of each */
	const bool *entered;     /* of all ranks: has begun */
};

struct contract {
	void (*start)(struct contract_rank *r);
	/* False: text says what is wrong. */
	bool (*holds)(const struct contract_rank *r, char *text, size_t cap);
	plan_reduce_fn *reduce; /* the op that the test binds */
};

extern const struct contract contracts[COLL_OPS];

#endif
