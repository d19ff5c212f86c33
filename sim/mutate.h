/*
 * mutate.h - deliberate mistakes in plans: what a checker must find.
 *
 * A mutant has one mistake, of one kind, at one op of one queue: in one rank's
 * plan or in those of all ranks where it can be made. Mistakes are such as a
 * programmer makes with the verbs: batches are counted anew where waits move.
 *
 * Some mutants are right programs: each is shown harmless by the whole proof, cost
 * included. Fatal ones never are:
 * - Puts: without its data, to another peer, twice, or with a block more or less a
 *   put costs otherwise or its batch does not come where it is waited for. Into
 *   another block: somebody reads the block that was left out.
 * - Signals that are dropped, doubled or misled, and waits of programs with one
 *   queue: the batches no longer match. With two, the other queue may wait as well.
 * - Operands that are exchanged, of an op that does not commute.
 * May be harmless:
 * - Two ops exchanged that need nothing of each other, such as puts to two peers, and a
 *   signal before its data if nobody looks at the data before the next batch.
 * - A flush that another one or the receiver's answer makes redundant; one too many.
 * - Waiting for a later batch than needed, if nobody waits for this rank meanwhile, or
 *   for an earlier one right behind or before a wait for a later one.
 * - A source that is another block with the same value; local ops that are done twice
 *   with an idempotent result, or whose result nobody wants (agreement between ranks
 *   that are not a power of two says all things twice).
 */
#ifndef SIM_MUTATE_H
#define SIM_MUTATE_H

#include "coll/table.h"

struct mutation {
	unsigned kind; /* below mutation_kinds */
	unsigned queue;
	uint32_t op;
};

extern const unsigned mutation_kinds;
const char *mutation_name(unsigned kind);

/* Makes the mistake in one rank's plan, as built. False: it cannot be made there, and the plan is
 * as it was. *fatal becomes true if such a mutant is never harmless. */
bool mutate(const struct coll_row *row, struct plan *plan, const struct mutation *m, bool *fatal);

#endif
