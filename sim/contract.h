/*
 * contract.h - what the collectives promise: how buffers look before, and what
 * must hold at a rank's own end. A block is 8 bytes here.
 */
#ifndef SIM_CONTRACT_H
#define SIM_CONTRACT_H

#include "coll/table.h"

#define CONTRACT_GARBAGE INT64_C(-0x5a5a5a5a5a5a5a5b) /* what blocks without content hold */

struct contract_rank { /* one rank's view */
	int rank;
	const struct shape *shape;
	bool alias;              /* in place: IN is OUT, or its first block is */
	bool unordered;          /* the row's: the op commutes */
	int64_t *buf[MBOX_BUFS]; /* blocks */
	const uint32_t *count;   /* blocks of each */
	const bool *entered;     /* of all ranks: has begun */
};

/* Block number block of a rank's input. */
int64_t contract_term(int rank, int block);
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
/*
 * As floats round: not associative, so that it shows when two ranks, or two runs,
 * have combined in different ways. Unordered: commutative.
 */
int64_t contract_round(bool unordered, int64_t a, int64_t b);
/* In place makes a difference for op; and whether it does at this rank. */
bool contract_can_alias(enum coll_op op);
bool contract_aliases(enum coll_op op, const struct contract_rank *r);
/* The caller gives the buffer at this rank: a reduction's OUT is root's alone, and a gather's
 * root, which may be in place, has no IN. */
bool contract_has(enum coll_op op, const struct contract_rank *r, enum plan_buf buf);
/* Which part of all data a block of IN or OUT is for: those of one part are equally long, others
 * need not be. */
int contract_part(enum coll_op op, const struct contract_rank *r, enum plan_buf buf, int block);
/* The rank knows how long blocks of the part are; where all differ it may know its own only. */
bool contract_knows(enum coll_op op, const struct contract_rank *r, int part);
/* OUT's block is a result, and not what was there before. */
bool contract_promises(enum coll_op op, const struct contract_rank *r, int block);

#endif
