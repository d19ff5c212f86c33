/*
 * stream_short.h - short collectives on a stream: one kernel instead of copies.
 *
 * Up to ORIEL_GPU_SHORT_MAX bytes, on one node, an AllGather, AllToAll, AllReduce or
 * barrier is one launch of ll_exchange (kernels/kernels.h): it stores data with
 * flags into the peers' scratch and waits for theirs. It needs no word from a peer's
 * host, and is the same in a graph and outside.
 *
 * Scratch lies in the device pool and is told to all in a collective of the hosts
 * before the first call on a stream, which also settles whether all ranks can.
 */
#ifndef PLAN_STREAM_SHORT_H
#define PLAN_STREAM_SHORT_H

#include "plan/stream.h"

enum short_mode { SHORT_NO = -1, SHORT_GATHER, SHORT_ALLTOALL, SHORT_REDUCE };

struct short_call {
	enum short_mode mode;
	const void *in;
	void *out;
	size_t bytes;                 /* of a block, or of the vector */
	size_t in_stride, out_stride; /* from block to block */
	int type, op;                 /* reduce */
};

/* Collective over the hosts, the first time; not between comm_call_begin and comm_call_end. */
int stream_prepare(oriel_comm *comm);
/* NULL, or why such calls are not one kernel. */
const char *stream_short_unfit(oriel_comm *comm, size_t bytes);
/* Enqueues it; between comm_call_begin and comm_call_end. */
int stream_short_run(oriel_comm *comm, const struct short_call *c, struct CUstream_st *stream);

#endif
