/*
 * recorder.h - the flight recorder: what a rank does and waits for, in a shared
 * slab, so that it can be read after a hang or a kill.
 *
 * It is part of the control slab, so the memfd (or, with ORIEL_RECORDER, the
 * file) holds it after death. The owner writes with plain relaxed stores, a few
 * per call; nothing reads it in normal operation. All numbers are the owner's.
 *
 * Entries of calls form a ring of RECORDER_CALLS; entry n is call[n % ...], its
 * number is written last and cleared first, so a reader skips a torn one.
 */
#ifndef RMA_RECORDER_H
#define RMA_RECORDER_H

#include "base/atomic.h"

#include <stdint.h>

#define RECORDER_MAGIC UINT64_C(0x3143455252454c4f)
#define RECORDER_CALLS 256
#define RECORDER_WAITS 64
#define RECORDER_PEERS 1024

struct recorder_call {
	uint64_t number; /* from 1; 0: being written */
	uint64_t comm;
	uint64_t call; /* the communicator's call number */
	uint64_t plan; /* hash */
	uint64_t bytes;
	uint64_t start_ns, end_ns; /* end 0: still running */
	char name[24];
	int32_t status;
	uint32_t step; /* ops done */
	uint32_t n_steps;
	int32_t wait_peer; /* world rank that step waits for, or -1 */
};

struct recorder_wait {     /* a thread that waits for a signal, now or last */
	uint64_t since_ns; /* 0: not in use */
	uint64_t win;
	uint64_t slot;
	uint64_t expected;
	uint64_t seen;
	int32_t cmp;
	int32_t source; /* world rank, or -1 for any */
};

struct recorder_peer { /* messages of plans */
	int32_t rank;
	uint32_t pad;
	uint64_t sent;
	uint64_t seen;
};

struct recorder {
	uint64_t magic;
	int32_t rank, size;
	int32_t pid;
	uint32_t n_peers;
	char host[64];
	char job[64];
	uint64_t start_ns;
	uint64_t n_calls; /* ever made */
	struct recorder_call call[RECORDER_CALLS];
	struct recorder_wait wait[RECORDER_WAITS];
	struct recorder_peer peer[RECORDER_PEERS]; /* by order of first contact */
};

#endif
