/*
 * contract_runs.h - what the collectives promise (sim/contract.h), for buffers
 * that are kept as runs.
 *
 * A barrier has no buffers. Its OUT stands for what a rank knows here: block i
 * is there when the rank knows that rank i has entered. Every message carries
 * all that its sender knew when it left.
 */
#ifndef SIM_CONTRACT_RUNS_H
#define SIM_CONTRACT_RUNS_H

#include "sim/runs.h"

struct contract_runs {
	struct run_op op;
	const struct shape *shape;
	int64_t *prefix; /* of a reducing op: the terms of ranks 0 to i combined */
};

/* False: no memory. fini frees what init made. */
bool contract_runs_init(struct contract_runs *c, const struct coll_row *row,
                        const struct shape *shape);
void contract_runs_fini(struct contract_runs *c);
/* Whether the rank has that buffer, if the program has: it may touch no other. */
bool contract_runs_has(const struct contract_runs *c, int rank, enum plan_buf buf);
/* Fills a rank's buffers, which are empty. count: their blocks. False: no memory. */
bool contract_runs_start(const struct contract_runs *c, int rank, const uint32_t *count,
                         struct runs *buf);
/* At the rank's end. False: text says what is wrong. */
bool contract_runs_hold(const struct contract_runs *c, int rank, const uint32_t *count,
                        const struct runs *buf, char *text, size_t cap);

#endif
