/*
 * stream.h - the stream executor: a plan as work of a GPU's stream.
 *
 * A put becomes a copy by the copy engine, a batch's end a word that the stream
 * writes into the peer's mailbox, a wait a wait of the stream for such a word in
 * its own mailbox. The ops of all queues go to the caller's stream in the order in
 * which the program appended them, which every plan survives (the checkers prove
 * it). Nothing of a call runs on the host once it is enqueued.
 *
 * Where a put goes is told by hosts: each call, a rank tells those that write to it
 * where its buffers are and reads what those that it writes to have told
 * (plan/stream_cells.h). So hosts may wait for the hosts of their peers to have
 * made the same call, never for streams.
 *
 * Calls on one communicator are ordered: one that is given another stream than the
 * last one begins behind it.
 *
 * Failure: a communicator that fails has its waiting streams released by the
 * helper (stream_watch, declared in rma/gpu.h), again and again, since a peer's stream may still
 * write older values over it.
 */
#ifndef PLAN_STREAM_H
#define PLAN_STREAM_H

#include "plan/launch.h"

struct CUstream_st;

/* Enqueues one call; between comm_call_begin and comm_call_end. An error fails the communicator. */
int stream_run(oriel_comm *comm, struct instance *inst, const struct binding *b,
               struct CUstream_st *stream);
/* It is device memory. */
bool stream_holds(const oriel_ctx *ctx, const void *p);
/* The stream for blocking calls on device memory; NULL without a GPU. */
struct CUstream_st *stream_own(const oriel_ctx *ctx);
/* Until everything on the stream is over: the error of the communicator if it has failed by then.
 */
int stream_wait(oriel_comm *comm, struct CUstream_st *stream);
/* No stream uses it any more. */
void stream_state_free(oriel_comm *comm);

#endif
