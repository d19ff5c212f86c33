/*
 * ctl.h - the control slab: what a rank shows to the other ranks of its node.
 *
 * One memfd a context, made at init and mapped by the node's ranks at their
 * init. The owner writes it, but for the fields that say otherwise. Sparse:
 * only what is used has pages.
 *
 * Tables (windows, communicators) are open-addressed by a 64-bit id: the owner
 * fills an entry and stores its id last; a reader finds the id, copies the
 * entry and checks the id again. 0 is empty, 1 is deleted.
 */
#ifndef RMA_CTL_H
#define RMA_CTL_H

#include "alloc/pool.h"
#include "base/atomic.h"
#include "base/base.h"
#include "rma/recorder.h"
#include "rma/wake.h"

#define CTL_MAGIC UINT64_C(0x4c5443204c454952)
#define CTL_VERSION 2
#define CTL_WINS 4096  /* windows a context, at once */
#define CTL_COMMS 1024 /* communicators a context, at once, that have a peer on the node */
#define CTL_MAX_LOCAL 1024
#define CTL_RING_BYTES (128u << 10)

#define CTL_WHERE_WORDS 15

enum ctl_state { CTL_STARTING = 0, CTL_LIVE, CTL_LEFT };

#define CTL_PIN_CHUNK (64u << 10) /* what is pinned of a host slab is pinned in such pieces */

struct ctl_slab { /* a slab of the owner's pool, of host memory or its GPU's */
	uint64_t size;
	uint64_t base; /* in the owner's address space */
	int32_t fd;    /* -1: it is not shared by descriptor */
	uint32_t live; /* written last */
	/*
	 * Written by anyone, and they only grow: what GPUs of the node have pinned lies in
	 * [size - pinned_tail, pinned_end). Its pages must stay: who drops them gives the
	 * processors new ones, and the GPUs keep the old.
	 */
	uint64_t pinned_end, pinned_tail;
};

struct win_rec {     /* one rank's part of a window */
	uint64_t id; /* in the table: written last */
	uint64_t size;
	uint64_t base;     /* address in the owner's address space */
	uint64_t slab_off; /* if slab != 0 */
	uint64_t n_signals;
	uint64_t signals;  /* address in the owner's address space */
	uint64_t sig_off;  /* in slab sig_slab */
	uint32_t slab;     /* id + 1 of the pool slab that holds the memory; 0: ordinary memory */
	uint32_t sig_slab; /* id + 1; 0: n_signals is 0 */
	uint64_t on_gpu;   /* 1: memory of a GPU, and where says how peers map it */
	uint64_t where[CTL_WHERE_WORDS]; /* struct gpu_where of rma/gpu_mem.h */
};

struct comm_rec { /* a communicator this rank is in */
	uint64_t id;
	uint64_t check;     /* hash of the full description */
	uint64_t boxes_off; /* mbox array, [local index of the sender][queue], in slab boxes_slab */
	uint64_t fail;      /* written by anyone: the failure word, see comm.h */
	uint32_t boxes_slab; /* id + 1 */
	uint32_t pad[7];
};

struct ring { /* messages from one rank of the node to the owner; bytes, single producer */
	uint64_t head cache_aligned; /* written by the sender: bytes ever written */
	uint64_t tail cache_aligned; /* written by the owner: bytes ever read */
	char data[CTL_RING_BYTES - 2 * CACHE_LINE] cache_aligned;
};

struct ctl {
	uint64_t magic;
	uint32_t version;
	int32_t rank;
	uint64_t job;   /* hash of the job's name */
	uint64_t token; /* random: this incarnation */
	int32_t pid;
	uint32_t n_local;
	uint32_t state;       /* enum ctl_state */
	uint32_t expelled_by; /* written by a peer that gave the owner up: its rank + 1 */

	struct wake wake cache_aligned; /* threads of the owner that wait */

	uint32_t helper_asleep
	        cache_aligned; /* the helper thread sleeps in poll; a byte into wake_fd wakes it */
	int32_t wake_fd;       /* the pipe's writing end, in the owner's process */

	uint64_t heartbeat cache_aligned; /* grows while the owner lives */

	uint64_t doorbell[CTL_MAX_LOCAL / 64] cache_aligned; /* a set bit: ring[i] has something */

	struct ctl_slab slabs[POOL_MAX_SLABS] cache_aligned;
	struct ctl_slab gpu_slabs[POOL_MAX_SLABS]; /* base is a device address */
	struct win_rec wins[CTL_WINS] cache_aligned;
	struct comm_rec comms[CTL_COMMS] cache_aligned;
	struct recorder recorder cache_aligned;
	struct ring rings[]; /* n_local of them, by the sender's local index */
};

/* Before [from, end) of a slab is pinned, by whatever process. */
static inline void
ctl_slab_pin(struct ctl_slab *s, uint64_t from, uint64_t end)
{
	uint64_t seen = load_relaxed(&s->pinned_end), tail = s->size - from;

	while (seen < end && !cas_acq_rel(&s->pinned_end, &seen, end))
		;
	seen = load_relaxed(&s->pinned_tail);
	while (seen < tail && !cas_acq_rel(&s->pinned_tail, &seen, tail))
		;
}

/* Some of [from, end) may be pinned. */
static inline bool
ctl_slab_pinned(const struct ctl_slab *s, uint64_t from, uint64_t end)
{
	return from < load_acquire(&s->pinned_end) && end > s->size - load_acquire(&s->pinned_tail);
}

static inline size_t
ctl_size(unsigned n_local)
{
	return round_up(sizeof(struct ctl) + n_local * sizeof(struct ring), 4096);
}

#endif
