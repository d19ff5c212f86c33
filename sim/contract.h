/*
 * contract.h - what the collectives promise: how buffers look before, and what
 * must hold at a rank's own end. A block is 8 bytes here.
 */
#ifndef SIM_CONTRACT_H
#define SIM_CONTRACT_H

#include "coll/table.h"

struct contract_rank { /* one rank's view */
	int rank;
	const struct shape *shape;
	bool alias;              /* in place: IN is OUT, or its first block is */
	bool unordered;          /* the row's: the op commutes */
	int64_t *buf[MBOX_BUFS]; /* blocks */
	const uint32_t *count;   /* blocks of each */
	const bool *entered;     /* of all ranks: has begun */
};

/* Whether the rank has that buffer, if the program has: it may touch no other. */
bool contract_has(enum coll_op op, const struct contract_rank *r, enum plan_buf buf);
/* Fills the rank's buffers; they hold garbage before. */
void contract_start(enum coll_op op, struct contract_rank *r);
/* At the rank's end. False: text says what is wrong. */
bool contract_holds(enum coll_op op, const struct contract_rank *r, char *text, size_t cap);
/*
 * The op that the test binds: a op b. Unordered: addition modulo 2^64, so that a
 * term that is missing or comes twice shows; for agree, which may have terms
 * twice, the minimum. Ordered: composition of affine maps modulo a prime, which
 * is associative and does not commute.
 */
int64_t contract_combine(enum coll_op op, bool unordered, int64_t a, int64_t b);
/* In place makes a difference for op. */
bool contract_can_alias(enum coll_op op);

#endif
