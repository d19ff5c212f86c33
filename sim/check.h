/*
 * check.h - runs a program for all its ranks under one random order of events
 * and looks whether it keeps its contract and its cost.
 *
 * The network is as free as the rules of plans allow: each block of a put is
 * read and lands at a time of its own, in any order; a signal comes after the
 * puts of its batch and the signals before it, on its channel. In most runs one
 * rank is slow, and the puts of one are. A rank's results are looked at when its
 * own queues end, not when all is quiet. Errors: what a contract says, a deadlock, a source that
 * changes before it was read, data or signals that come to a rank after its
 * end, more or fewer rounds or blocks than the row's closed forms; a buffer that
 * the rank has not; a block that goes where one of another length belongs, or is
 * combined with one, unless the row says that all blocks are equally long.
 *
 * One block is 8 bytes. All state is in the call; a seed repeats it exactly.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "coll/table.h"

struct check {
	const struct coll_row *row;
	struct shape shape;
	bool alias; /* in place, where that makes a difference */
	uint64_t seed;
	/* Not NULL: the op rounds, so the contract's values are not looked at but that AllReduce's
	 * are the same bits at all ranks; and this gets a digest of all results. */
	uint64_t *digest;
	/* Called with each rank's plan before anything runs: for deliberate mistakes. May be NULL.
	 */
	void (*change)(struct plan *plan, void *arg);
	void *change_arg;
};

/* 0, or EMISMATCH with what went wrong as the detail. */
int check_run(const struct check *check);

#endif
