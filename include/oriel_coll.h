/*
 * oriel_coll.h - collectives and send/receive. oriel.h includes it.
 *
 * Every collective has three forms. oriel_NAME(...) blocks: when it returns the
 * results are complete here and the buffers are the caller's.
 * oriel_iNAME(..., req) starts it and returns; the buffers, and the arrays that
 * describe their blocks, are the library's until the request is complete
 * (oriel_req_test, oriel_req_wait and their kin). It goes on while any thread
 * waits in the library, and by the helper thread while none does.
 * oriel_NAME_init(..., req) makes a request that oriel_start starts, again and
 * again, with the same arguments: what is in the buffers may change between, the
 * arrays stay as they are. Wait and test leave it in place, and oriel_req_free
 * frees it. Making it is local. The forms match one another.
 *
 * Order: the collectives of one communicator are started in the same order on
 * all of its ranks; those of different communicators in any order. Requests may
 * be waited for in any order. Any number may be started: up to four of a
 * communicator run at a time, later ones begin by themselves.
 *
 * Arguments: all ranks name the same collective, sizes, type, op and root; where
 * a size may differ between ranks the text says so. Lengths and displacements
 * are bytes, counts are elements. Zero is a size like any other. In place: in is
 * NULL (or is where the text says). in and out overlap in no other way, and no
 * buffer belongs to two calls at a time unless both only read it.
 *
 * Errors of all, before anything is started: EHANDLE, EINVAL (NULL buffer,
 * overlap, type or op), ERANK (root), ERANGE (sizes that do not fit), EBUSY
 * (threads, below), ENOMEM. Later: EMISMATCH (ranks disagree, and it was noticed:
 * both sides are named), EPEER, EABORTED, ETIMEDOUT (ORIEL_CALL_TIMEOUT), ENOMEM:
 * the call has failed, what is in the out buffers is undefined, and the
 * communicator is of no more use but for oriel_comm_shrink.
 *
 * Threads: one thread at a time makes or starts calls on a communicator (EBUSY).
 * Any thread may wait for a request, one thread at a time.
 *
 * Where all ranks get a result it is bitwise the same on all of them; results are
 * the same from run to run for the same communicator, arguments and algorithm.
 * doc/collectives.md says more: rounding, equal algorithms, costs.
 */
#ifndef ORIEL_H
#include "oriel.h"
#endif
#ifndef ORIEL_COLL_H
#define ORIEL_COLL_H

/*
 * ---- Types and operations ----------------------------------------------
 */

/* Of elements. They need not be aligned. */
enum oriel_type {
	ORIEL_INT32 = 0,
	ORIEL_INT64,
	ORIEL_UINT32,
	ORIEL_UINT64,
	ORIEL_FLOAT,
	ORIEL_DOUBLE,
	ORIEL_INT8,
	ORIEL_UINT8,
	ORIEL_INT16,
	ORIEL_UINT16,
	ORIEL_FLOAT16,     /* IEEE binary16 */
	ORIEL_BFLOAT16,    /* the upper half of a float */
	ORIEL_FLOAT8_E4M3, /* no infinity, largest 448 (OCP OFP8) */
	ORIEL_FLOAT8_E5M2, /* largest 57344 (OCP OFP8) */
	ORIEL_TYPES        /* how many there are */
};
/* A type: elements of so many bytes (1 to 2^20) that only a user's op understands. */
#define ORIEL_OPAQUE(bytes) (0x1000000 + (int)(bytes))

typedef struct oriel_op oriel_op;
/* Integers wrap. Floats of 16 and 8 bits are computed as float and rounded when stored. */
#define ORIEL_SUM ((const oriel_op *)1)
#define ORIEL_PROD ((const oriel_op *)2)
#define ORIEL_MIN ((const oriel_op *)3) /* a NaN wins, -0 is less than 0 */
#define ORIEL_MAX ((const oriel_op *)4) /* likewise */
#define ORIEL_AVG ((const oriel_op *)5) /* the sum, then divided by the number of ranks */
#define ORIEL_AND ((const oriel_op *)6) /* bitwise; integers, as the next two */
#define ORIEL_OR ((const oriel_op *)7)
#define ORIEL_XOR ((const oriel_op *)8)

/* out[i] = a[i] op b[i] for n elements; out may be a or b. a comes from lower ranks than b. */
typedef void oriel_op_fn(void *out, const void *a, const void *b, size_t n, void *arg);
/*
 * An associative operation of the user's, for elements of whatever type it is
 * used with. commutative 0: terms are combined in the ranks' order. fn may be
 * called by any thread that makes progress, the helper thread included, must not
 * call the library, and gets elements that are aligned as the buffers are.
 * Errors: EHANDLE, EINVAL (fn or op is NULL), ENOMEM.
 */
int oriel_op_create(oriel_ctx *ctx, oriel_op_fn *fn, void *arg, int commutative, oriel_op **op);
/* When no request uses it any more; oriel_fini frees what is left. Errors: EHANDLE, EINVAL (an op
 * of the library). */
int oriel_op_free(oriel_op *op);

/* A piece of a block that is not contiguous: len bytes from byte off of the buffer. */
struct oriel_piece {
	size_t off; /* bytes from the buffer's start */
	size_t len; /* bytes */
};
/* A block: its pieces in order. */
struct oriel_pieces {
	size_t n;                        /* 0: an empty block */
	const struct oriel_piece *piece; /* n of them */
};

/*
 * ---- Requests ----------------------------------------------------------
 */

/* Starts a persistent request: as the nonblocking form of its call. EBUSY: it is running. EINVAL:
 * it is not persistent. */
int oriel_start(oriel_req *req);
/* Frees a request that is not running (EBUSY: it is) and sets *req to NULL, which is allowed. */
int oriel_req_free(oriel_req **req);
/* Waits for all of n requests, as oriel_req_wait does for each; the first error is returned, with
 * its number, after all are complete. ETIMEDOUT: all are as they were. */
int oriel_req_waitall(size_t n, oriel_req **reqs, uint64_t timeout_ns);
/* *done: 1 when all of them are complete, as oriel_req_test for each; 0: all are as they were. */
int oriel_req_testall(size_t n, oriel_req **reqs, int *done);

/*
 * ---- Collectives -------------------------------------------------------
 * ORIEL_FORMS declares the three forms of one collective.
 */

#define ORIEL_ARGS(...) __VA_ARGS__
#define ORIEL_FORMS(name, args)                                                                    \
	int oriel_##name(args);                                                                    \
	int oriel_i##name(args, oriel_req **req);                                                  \
	int oriel_##name##_init(args, oriel_req **req)

/* Complete when every rank has started it. Does not complete puts (doc/memory-model.md, MM15). */
ORIEL_FORMS(barrier, ORIEL_ARGS(oriel_comm *comm));

/*
 * in: len bytes of each rank; out: size(comm) x len bytes, rank i's at i * len.
 * In place: in is out + rank * len, or NULL.
 */
ORIEL_FORMS(allgather, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len));
/* Rank i's lens[i] bytes arrive at displs[i] of out; lens and displs are the same on all
 * ranks. In place: in is NULL or where this rank's block belongs in out. */
ORIEL_FORMS(allgatherv, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, const size_t *lens,
                                   const size_t *displs));
/* Rank i's block is at blocks[i] of out, here; its length is the same on all ranks, its pieces need
 * not be. in is contiguous, or NULL: in place. */
ORIEL_FORMS(allgatherv_list, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out,
                                        const struct oriel_pieces *blocks));

/* Block i of in goes to rank i; out: block i came from rank i; size(comm) x len bytes each. In
 * place: in is NULL, and out is copied first, into memory of the library. */
ORIEL_FORMS(alltoall, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len));
/* in_lens[i] bytes from in_displs[i] of in go to rank i, whose out_lens[this rank] is equal. In
 * place: in is NULL, in_lens and in_displs are ignored, and blocks are exchanged where out says. */
ORIEL_FORMS(alltoallv, ORIEL_ARGS(oriel_comm *comm, const void *in, const size_t *in_lens,
                                  const size_t *in_displs, void *out, const size_t *out_lens,
                                  const size_t *out_displs));
/* The same with blocks in pieces; only the blocks' lengths must agree. In place: in is NULL. */
ORIEL_FORMS(alltoallv_list,
            ORIEL_ARGS(oriel_comm *comm, const void *in, const struct oriel_pieces *in_blocks,
                       void *out, const struct oriel_pieces *out_blocks));

/* root's len bytes at buf, to all ranks' buf. */
ORIEL_FORMS(bcast, ORIEL_ARGS(oriel_comm *comm, void *buf, size_t len, int root));

/* out matters at root only: size(comm) x len bytes. In place at root: in is NULL or where its block
 * belongs in out. */
ORIEL_FORMS(gather, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len, int root));
/* len: this rank's; out, lens, displs at root only: rank i's lens[i] bytes at displs[i]. In place
 * at root: in is NULL or where its block belongs in out. */
ORIEL_FORMS(gatherv, ORIEL_ARGS(oriel_comm *comm, const void *in, size_t len, void *out,
                                const size_t *lens, const size_t *displs, int root));
/* The same; at root rank i's block is at blocks[i] of out. In place at root: in is NULL. */
ORIEL_FORMS(gatherv_list, ORIEL_ARGS(oriel_comm *comm, const void *in, size_t len, void *out,
                                     const struct oriel_pieces *blocks, int root));

/* in matters at root only: size(comm) x len bytes. In place at root: out is NULL or this rank's
 * block of in. */
ORIEL_FORMS(scatter, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t len, int root));
/* len: this rank's; in, lens, displs at root only: lens[i] bytes from displs[i] of in go to rank i.
 * In place at root: out is NULL or this rank's block of in. */
ORIEL_FORMS(scatterv, ORIEL_ARGS(oriel_comm *comm, const void *in, const size_t *lens,
                                 const size_t *displs, void *out, size_t len, int root));
/* The same; at root rank i's block is at blocks[i] of in. In place at root: out is NULL. */
ORIEL_FORMS(scatterv_list,
            ORIEL_ARGS(oriel_comm *comm, const void *in, const struct oriel_pieces *blocks,
                       void *out, size_t len, int root));

/* count elements of all ranks, combined element by element; out matters at root only. type: of enum
 * oriel_type, or ORIEL_OPAQUE. In place at root: in is out, or NULL. */
ORIEL_FORMS(reduce, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                               const oriel_op *op, int root));
/* The result at all ranks. In place: in is out, or NULL. */
ORIEL_FORMS(allreduce, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count,
                                  int type, const oriel_op *op));
/* in: size(comm) x count elements; out: count elements, rank i's are block i of the result. In
 * place: in is NULL, the input is in out (size(comm) x count), the result at its start. */
ORIEL_FORMS(reduce_scatter, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count,
                                       int type, const oriel_op *op));
/* Rank i gets the next counts[i] elements; counts are the same on all ranks, and need not stay. In
 * place: in is NULL, the input is in out, which is copied first. */
ORIEL_FORMS(reduce_scatterv, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out,
                                        const size_t *counts, int type, const oriel_op *op));
/* Combines ranks 0 to this one. In place: in is out, or NULL. */
ORIEL_FORMS(scan, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                             const oriel_op *op));
/* Combines ranks 0 to the one before this; rank 0's out is left as it is. avg is EINVAL for both:
 * the ranks' numbers of terms differ. */
ORIEL_FORMS(exscan, ORIEL_ARGS(oriel_comm *comm, const void *in, void *out, size_t count, int type,
                               const oriel_op *op));

/*
 * ---- Send and receive --------------------------------------------------
 * Apart from collectives, which they neither match nor wait for. A receive takes
 * messages of one sender in the order in which they were sent, those that its tag
 * fits. Zero length is a message. Any thread may call.
 */

#define ORIEL_ANY (-1) /* source or tag of a receive or probe: whatever comes */
/* Of a message that was received. */
struct oriel_status {
	int source; /* rank */
	int tag;
	size_t len; /* bytes of the message */
};

/*
 * Returns when the buffer is the caller's again; a long message waits for its
 * receive. tag: 0 to 2^30 - 1. Errors: EHANDLE, ERANK, EINVAL, EPEER, EABORTED,
 * ETIMEDOUT, ENOMEM.
 */
int oriel_send(oriel_comm *comm, int target, int tag, const void *buf, size_t len);
/* Up to len bytes; ERANGE if the message is longer (it is then lost, status says its length).
 * status may be NULL. */
int oriel_recv(oriel_comm *comm, int source, int tag, void *buf, size_t len,
               struct oriel_status *status);
/* Starts it; buf is the caller's again when the request is complete. */
int oriel_isend(oriel_comm *comm, int target, int tag, const void *buf, size_t len,
                oriel_req **req);
/* Starts it; buf and status, if not NULL, are written by the time the request is complete. */
int oriel_irecv(oriel_comm *comm, int source, int tag, void *buf, size_t len,
                struct oriel_status *status, oriel_req **req);
/* Both at once, so that ranks may send to one another in any pattern; the arguments of a send, then
 * those of a receive. */
int oriel_sendrecv(oriel_comm *comm, int target, int send_tag, const void *out, size_t out_len,
                   int source, int recv_tag, void *in, size_t in_len, struct oriel_status *status);
/* *found: a message that a receive would take is here; it stays. */
int oriel_probe(oriel_comm *comm, int source, int tag, int *found, struct oriel_status *status);

/*
 * ---- Selection ---------------------------------------------------------
 */

/*
 * Why a collective takes the way it does, line by line: the algorithm for len
 * bytes on this communicator and the rule that chose it, chunks, cost, this rank's
 * peers and the paths to them, and what else was possible or why not. name: as the
 * call is called, "allgather", "alltoallv". len: bytes of one rank's block, or of
 * the vector (bcast, reduce, allreduce, scan, exscan); of a v form the mean block.
 * Local. Errors: EINVAL (name; what ORIEL_ALGORITHM forces cannot run), ENOMEM.
 */
int oriel_explain(oriel_comm *comm, const char *name, size_t len,
                  void (*line)(void *arg, const char *text), void *arg);
/*
 * The same for ranks that need not exist, and so without paths. node: so many
 * consecutive ranks share a node, and size is a multiple; 0: they do not.
 */
int oriel_explain_ranks(oriel_ctx *ctx, const char *name, size_t len, int ranks, int node,
                        void (*line)(void *arg, const char *text), void *arg);

/* An algorithm of a collective, as ORIEL_ALGORITHM names it. */
struct oriel_algorithm {
	const char *name;  /* "bruck" */
	int min_arg;       /* the least, as 4 in "bruck:4", on this communicator */
	int max_arg;       /* the most; 0: it takes none */
	const char *unfit; /* NULL, or why it cannot run here */
};
/*
 * Calls each for the algorithms of name ("allgather"); what they get is valid
 * during the call. *node: how selection sees comm, as in oriel_explain_ranks; may
 * be NULL. Local.
 */
int oriel_algorithms(oriel_comm *comm, const char *name, int *node,
                     void (*each)(void *arg, const struct oriel_algorithm *algorithm), void *arg);

#endif
