/*
 * stream_impl.h - what the stream executor's files share.
 */
#ifndef PLAN_STREAM_IMPL_H
#define PLAN_STREAM_IMPL_H

#include "plan/local.h"
#include "plan/stream.h"
#include "plan/stream_cells.h"
#include "rma/gpu_cuda.h"

struct stream_edge {                 /* of a call */
	CUdeviceptr base[MBOX_BUFS]; /* of the peer's buffers, if this rank puts to it */
	uint32_t batches;            /* sent */
	bool may_put;                /* the stream has waited for the peer's "ready" */
};

struct stream_old { /* TMP that was too small; streams may still use it */
	struct stream_old *next;
	void *ptr;
};

struct stream_map { /* a peer's buffer that calls use */
	struct stream_map *next;
	uint64_t number; /* of the eager call that used it; UINT64_MAX: a captured one */
	CUdeviceptr at;
};

struct stream_short {  /* plan/stream_short.h */
	bool ready;    /* the hosts have told one another */
	char why[160]; /* it cannot be; the same on all ranks, but for words */
	void *scratch; /* in device memory, and behind it the kernel's state */
	uint64_t slot, state;
	CUdeviceptr peer[EXCHANGE_RANKS]; /* scratch of all ranks */
	uint32_t *words; /* of the host: not 0 ends calls that wait; what the kernel says */
	CUdeviceptr dev_words;
};

struct stream_state {
	oriel_comm *comm;
	struct gpu *g;
	struct stream_state *next; /* in the context's list */
	uint64_t calls;            /* made */
	uint64_t eager;            /* of them, not captured: their cells' numbers */
	void *tmp;
	size_t tmp_size;
	struct stream_old *old;
	struct stream_map *maps; /* the newest first */
	uint64_t *done;          /* streams write the number of the last eager call that is over */
	CUdeviceptr dev_done;
	CUevent fork, join, last;
	CUstream last_stream;
	bool any_last; /* last was recorded */
	struct stream_short sh;
};

struct stream_call {
	struct stream_state *st;
	struct instance *inst;
	struct launch *l;
	CUstream s;
	bool captured;
	uint64_t number; /* eager */
	struct stream_edge *edge;
	uint64_t told, read; /* edges whose records are told and read, in order */
};

/* plan/stream.c: a call's frame. Begin makes the GPU's context current, if it succeeds; end
 * undoes that and, with an error, fails the communicator. */
int stream_state_get(oriel_comm *comm, struct stream_state **out);
int stream_call_begin(oriel_comm *comm, CUstream s, struct stream_call *sc, bool *entered);
int stream_call_end(struct stream_call *sc, int rc, bool entered);
/* Behind the last call of the communicator, if that is on another stream; and the next behind this
 * one. */
int stream_follow(const struct stream_call *sc);
int stream_leave_mark(const struct stream_call *sc);
void stream_short_free(struct stream_state *st);
/* plan/stream_ops.c: enqueues all ops. */
int stream_enqueue(struct stream_call *sc);
/* plan/stream_combine.c: reduce and fold by a kernel; avg's division. */
int stream_combine(const struct stream_call *sc, const struct op *op);
int stream_finish(const struct stream_call *sc);
/* Keeps a mapping until its call is over. On an error it is undone. */
int stream_keep_map(struct stream_call *sc, CUdeviceptr at);
/* plan/stream_exchange.c: peers know this rank's buffers, and it knows theirs. */
int stream_exchange(struct stream_call *sc);

#endif
