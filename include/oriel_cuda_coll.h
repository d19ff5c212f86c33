/*
 * oriel_cuda_coll.h - collectives on a GPU's stream. Included by oriel_cuda.h.
 *
 * Each is the call of oriel_coll.h of the same name, with the same arguments, but
 * it is enqueued: it begins when the stream has come to it, and what the stream
 * does after it finds the results. Buffers are memory of the GPU (of the pool, of
 * cudaMalloc) or pinned; they are the caller's again when the stream is past the
 * call. Data moves by the copy engine and takes no multiprocessor, but for local
 * copies of the own block and for reductions (oriel_explain tells which).
 *
 * Collective over the communicator, in the same order on every rank; the host may
 * wait for the hosts of its peers to make the same call, never for their streams. So
 * calls on several communicators are made in the same order on all ranks.
 * Calls on one communicator run in their order, whatever their streams. Inside a
 * capture the call becomes part of the graph, which every rank launches equally
 * often.
 *
 * After a failure the streams that wait are released, and oriel_comm_status says
 * what happened: results are good only if it is 0 when the stream is past the call.
 *
 * Errors: those of the call itself; ENOTSUP (no GPU, why is in the detail; a peer on
 * another node), EGPU, EPEER, EABORTED, ETIMEDOUT (a peer's host has not come within
 * ORIEL_CALL_TIMEOUT), EMISMATCH. After one of the last five the communicator has failed.
 */
#ifndef ORIEL_CUDA_COLL_H
#define ORIEL_CUDA_COLL_H

#include "oriel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

/* The stream goes on when every rank's has come here. */
int oriel_barrier_on_stream(oriel_comm *comm, struct CUstream_st *stream);
/* As oriel_allgather. */
int oriel_allgather_on_stream(oriel_comm *comm, const void *in, void *out, size_t len,
                              struct CUstream_st *stream);
/* As oriel_alltoall; not in place. */
int oriel_alltoall_on_stream(oriel_comm *comm, const void *in, void *out, size_t len,
                             struct CUstream_st *stream);
/* As oriel_bcast. */
int oriel_bcast_on_stream(oriel_comm *comm, void *buf, size_t len, int root,
                          struct CUstream_st *stream);
/* As oriel_gather. */
int oriel_gather_on_stream(oriel_comm *comm, const void *in, void *out, size_t len, int root,
                           struct CUstream_st *stream);
/* As oriel_scatter. */
int oriel_scatter_on_stream(oriel_comm *comm, const void *in, void *out, size_t len, int root,
                            struct CUstream_st *stream);
/*
 * As the calls of oriel_coll.h; ORIEL_GPU_BLOCKS thread blocks combine. Bitwise the same on all
 * ranks. No operations of the user's (ENOTSUP).
 */
int oriel_reduce_on_stream(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                           const oriel_op *op, int root, struct CUstream_st *stream);
/* As oriel_allreduce. */
int oriel_allreduce_on_stream(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                              const oriel_op *op, struct CUstream_st *stream);
/* As oriel_reduce_scatter. */
int oriel_reduce_scatter_on_stream(oriel_comm *comm, const void *in, void *out, size_t count,
                                   int type, const oriel_op *op, struct CUstream_st *stream);
/* As oriel_scan. */
int oriel_scan_on_stream(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                         const oriel_op *op, struct CUstream_st *stream);
/* As oriel_exscan. */
int oriel_exscan_on_stream(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                           const oriel_op *op, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
