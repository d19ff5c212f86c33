/*
 * time.h - the sim executor: runs the plans of all ranks in one process, in
 * virtual time, on a fabric; says how long the call takes and why, and checks
 * what the program promises.
 *
 * The model, LogGP with shared links. All ranks enter at time 0. An op of a queue
 * starts when the one before it is done.
 *
 * - put, signal: the rank's processor, which its queues share, is busy for the
 *   fabric's send overhead; less for a put directly behind one of the same batch,
 *   which is chained to it. Then the message leaves, and the queue goes on.
 * - A message is a train as long as its bytes take on the slowest link of its
 *   path. At each link it joins what the link has to carry, first come, first
 *   served by their heads: its end leaves no sooner than all that work is done.
 *   Links do not hold back each other (their buffers have no end), one that is
 *   fast enough does not delay it at all, and messages of one channel do not
 *   overtake. Half way it pays the latency of the level that the ranks have in
 *   common. On an idle path that is overhead + latency +
 *   size / bandwidth. A signal alone, or with a put, adds no bytes.
 * - wait: until the batch is here, then the receive overhead of the processor.
 * - copy, reduce, fold: bytes of result (fold: of terms) on the rank's memory
 *   engine, one after the other. call: nothing.
 * - flush, and a rank's own end: until the last byte of its puts has left it.
 *
 * Ties go by the order in which the events were made: a run repeats itself
 * exactly. Every message costs O(log of the events that are pending) for each of
 * its two to eight links.
 *
 * Checks, always: every batch has its wait, no deadlock, no message to a rank
 * that has ended, and the row's closed forms (rounds, blocks, total), where it
 * has them. With check, data moves as well, as runs (sim/runs.h): a put reads
 * its source when it leaves, its data lands when the message arrives, and the
 * contract must hold at each rank's own end. That is one order of many;
 * sim/check.h tries others.
 */
#ifndef SIM_TIME_H
#define SIM_TIME_H

#include "coll/table.h"
#include "sim/fabric.h"

struct time_call {
	const struct coll_row *row; /* its closed forms may be NULL */
	struct shape shape;
	const struct fabric *fabric; /* laid out for the shape's ranks */
	uint64_t bytes;              /* of a block; of a vector op: of the whole vector */
	bool check;
	/* Called with each rank's plan before anything runs: for deliberate mistakes. May be NULL.
	 */
	void (*change)(struct plan *plan, void *arg);
	void *change_arg;
};

/* One op, or one message's way, on the critical path. */
struct time_step {
	const char *what; /* "put", "wait", ...; "message" */
	int rank, peer;   /* peer: -1 if none */
	unsigned queue;
	int level;          /* enum fabric_level; -1: local */
	int64_t start, end; /* ps */
	/* Of a message. */
	uint64_t bytes;
	int64_t latency, bandwidth; /* ps; what is left is waiting for links */
};

/* The critical path's messages of one level; times in ps. */
struct time_sum {
	uint64_t messages;
	int64_t overhead, latency, bandwidth, waiting;
};

struct time_result {
	int64_t end; /* ps: of the last rank */
	int last;    /* the lowest of those that end then */
	/* The critical path, from time 0 to the end without a gap. */
	struct time_step *path;
	size_t n_path;
	struct time_sum sum[FABRIC_LEVELS];
	int64_t local; /* copies, reductions and flushes on it */
	/* What moved. */
	uint64_t bytes[FABRIC_LEVELS], messages[FABRIC_LEVELS];
	uint64_t least_messages, most_messages; /* that one rank sent */
	uint32_t busiest;                       /* link */
	int64_t busy;                           /* ps */
	int64_t rounds, blocks, total;          /* as in coll/table.h */
	/* What it took. */
	uint64_t ops, events;
	size_t plan_bytes;
};

/* 0, or an error with its detail: EMISMATCH is what the program does wrong. out is freed with
 * time_result_free, also after an error. */
int time_run(const struct time_call *call, struct time_result *out);
void time_result_free(struct time_result *result);

#endif
