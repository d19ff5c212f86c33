/*
 * proof.h - proves a program's plans for one shape, over the happens-before
 * graph of all ranks and so for every order of events, not for those that a
 * random run happens to meet (sim/check.h).
 *
 * Proven, and refuted with both sides named in plan_dump's words:
 * 1. Every batch has its wait, every wait its batch, every put a signal.
 * 2. No deadlock; nor if the queues of a rank are merged in append order.
 * 3. No two accesses to a block of a rank's memory in any order, if one of them
 *    writes: no read before arrival, no overwrite before a read, no source that
 *    changes before its flush. No op whose operands overlap in a way that
 *    reducers do not allow, no buffer that the rank does not have.
 * 4. The contract (sim/contract.h) at each rank's own end.
 * 5. The cost: rounds, blocks, total are the row's closed forms.
 * In place and not, where that makes a difference (3 and 4).
 *
 * This holds for two consecutive calls on the same buffers and for MBOX_CALLS + 1
 * chunk instances of which each rank runs MBOX_CALLS at a time: see proof.c.
 */
#ifndef SIM_PROOF_H
#define SIM_PROOF_H

#include "coll/table.h"

struct proof {
	const struct coll_row *row;
	struct shape shape;
	struct plan *const *plan; /* by rank, the caller's; NULL: what the program builds */
	/*
	 * Result: TMP may be written for instance e + MBOX_CALLS without asking whether its owner
	 * is through with instance e, because the program's own messages order that. Else the
	 * executor must ask: by readiness or credit.
	 */
	bool tmp_unasked;
};

/* 0; EMISMATCH with what is wrong as the detail; or why no plan could be built. */
int proof_run(struct proof *proof);

#endif
