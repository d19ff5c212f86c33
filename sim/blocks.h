/*
 * blocks.h - every rank's memory, block by block: who touched it, in what order,
 * and what it holds.
 *
 * Ops run one after the other in the graph's order, a put at once. Each access
 * must be ordered by the graph itself behind the conflicting ones before it.
 */
#ifndef SIM_BLOCKS_H
#define SIM_BLOCKS_H

#include "coll/table.h"
#include "sim/contract.h"
#include "sim/graph.h"

struct touch {
	struct access access;
	uint32_t next; /* in the list of reads; NEVER */
};

struct cell {                   /* the past of a block; numbers of touches or NEVER */
	uint32_t first, writer; /* the last write */
	uint32_t readers;       /* the list of reads since */
};

struct value {
	int64_t bits;    /* with an exact op */
	int64_t rounded; /* with one that rounds: other orders, other bits */
	int part;        /* of TMP: what it holds a part of, contract_part; -1: of nothing */
};

struct part { /* of the memory: one rank's */
	const struct plan *plan;
	struct contract_rank view;
	uint32_t at[MBOX_BUFS]; /* the buffer's first block among all ranks' */
	int64_t sent;           /* blocks put */
};

struct blocks {
	const struct coll_row *row;
	const struct graph *g;
	struct part *part; /* by rank */
	bool *begun;       /* by rank; for the contract's views */
	int64_t *bits, *rounded;
	int *held; /* by block: value.part */
	struct cell *cell;
	struct touch *touch;
	uint32_t n_blocks, n_touches;
	int error;
	char odd[200]; /* the first block of a wrong length: only a race explains more */
};

/* The memory of all ranks as it is before the call, in place or not. EMISMATCH, ENOMEM. */
int blocks_make(struct blocks *m, const struct coll_row *row, const struct shape *shape,
                const struct graph *g, bool alias);
void blocks_free(struct blocks *m);
/* All ops. EMISMATCH: an access that nothing orders, or that the rank may not make. */
int blocks_run(struct blocks *m);

#endif
