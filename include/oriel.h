/*
 * oriel.h - windows, puts and signals; collectives as short programs on them.
 *
 * Everything hangs off a context (oriel_init), which is one rank of a job. A
 * process may hold several. A communicator is an ordered group of ranks; a
 * window is memory of each rank of a communicator that the others may reach.
 * A put writes a peer's part; a signal tells the peer, and orders: when a wait
 * returns, the data before the signal is there (doc/memory-model.md).
 *
 * Every call returns ORIEL_OK (0) or a negative ORIEL_E... code, unless said
 * otherwise; results go through trailing pointers and are written on success
 * only. oriel_detail() then says in words what exactly was wrong. The library
 * never exits, installs no signal handler and prints nothing unless ORIEL_LOG
 * asks.
 *
 * Sizes and displacements are bytes, in size_t. Timeouts are nanoseconds.
 * Handles are freed by the call that mirrors the one which made them; using
 * one later is an error where it can be told (ORIEL_EHANDLE).
 *
 * Threads: any thread may call; puts, gets, signals and waits on one window
 * may run at the same time. Calls that are marked "collective", and those of
 * oriel_coll.h, must be made by every rank of the communicator, in the same
 * order, by one thread at a time for each communicator: ORIEL_EBUSY is returned
 * while another thread is in such a call. A nonblocking one is left when it has
 * been started.
 */
#ifndef ORIEL_H
#define ORIEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORIEL_VERSION_MAJOR 0
#define ORIEL_VERSION_MINOR 1
#define ORIEL_VERSION_PATCH 0

/* Errors: X(name, value, text). */
#define ORIEL_ERRORS(X)                                                                            \
	X(EINVAL, -1, "invalid argument")                                                          \
	X(ERANK, -2, "rank outside the communicator")                                              \
	X(ERANGE, -3, "outside the window, the signals or the buffer")                             \
	X(EHANDLE, -4, "NULL, freed or foreign handle")                                            \
	X(ENOMEM, -5, "out of memory")                                                             \
	X(ELIMIT, -6, "a documented limit is reached")                                             \
	X(ENOTSUP, -7, "not supported here")                                                       \
	X(EPEER, -8, "a peer has failed")                                                          \
	X(ETIMEDOUT, -9, "timed out")                                                              \
	X(EABORTED, -10, "the communicator was aborted")                                           \
	X(EMISMATCH, -11, "ranks disagree about this call")                                        \
	X(EBUSY, -12, "in use by another thread")                                                  \
	X(EFORK, -13, "context belongs to the parent process")                                     \
	X(EBOOT, -14, "the launcher or the bootstrap failed")                                      \
	X(ETRANSPORT, -15, "a transport or system call failed")                                    \
	X(EEXPELLED, -16, "this rank was silent for too long and the others went on")              \
	X(EGPU, -17, "a call of the CUDA driver failed")

enum oriel_error {
	ORIEL_OK = 0,
#define ORIEL_ENUM(name, value, text) ORIEL_##name = value,
	ORIEL_ERRORS(ORIEL_ENUM)
#undef ORIEL_ENUM
};

typedef struct oriel_ctx oriel_ctx;
typedef struct oriel_comm oriel_comm;
typedef struct oriel_win oriel_win;
typedef struct oriel_req oriel_req;

#define ORIEL_FOREVER UINT64_MAX /* timeout_ns: wait until it comes or cannot come any more */

#include "oriel_coll.h"

/* The text of an error code; never NULL. */
const char *oriel_strerror(int error);
/* What exactly went wrong in this thread's last failed call; never NULL, valid until the next. */
const char *oriel_detail(void);
/* "0.1.0"; the version of the library that runs, not of this header. */
const char *oriel_version(void);

/*
 * ---- Context -----------------------------------------------------------
 */

/*
 * A bootstrap of the user's own: how ranks find each other when it is not
 * PMIx. All functions return 0 or a negative ORIEL_E...; they are called from
 * oriel_init, and get() later too, from any thread, when a peer is first
 * needed. The table must outlive the context.
 */
struct oriel_bootstrap {
	void *arg;        /* handed to each function */
	int rank;         /* this rank, 0 <= rank < size */
	int size;         /* the number of ranks */
	int n_local;      /* ranks of this node, this one included */
	const int *local; /* their numbers, ascending */
	const char *job;  /* unique among jobs on these machines; NULL only if size is 1 */
	/* Publishes this rank's value of a key; copied. */
	int (*put)(void *arg, const char *key, const void *value, size_t len);
	/* Returns when every rank has called it; their earlier put()s can then be got. */
	int (*fence)(void *arg, uint64_t timeout_ns);
	/* Reads the value of another rank; *len is the capacity in, the length out. */
	int (*get)(void *arg, int rank, const char *key, void *value, size_t *len,
	           uint64_t timeout_ns);
};

/* What oriel_init may be told; zeroed, but for size, it is the default. */
struct oriel_options {
	size_t size; /* sizeof(struct oriel_options) */
	const struct oriel_bootstrap
	        *bootstrap; /* NULL: PMIx, or a single rank without a launcher */
	const char *const
	        *knobs; /* "NAME=value" strings, NULL at the end; before the environment */
};

/*
 * Makes this process (or thread) a rank of its job. Collective over the job.
 * opts may be NULL. Errors: EBOOT, ENOMEM, EINVAL (a knob's value), ETIMEDOUT.
 */
int oriel_init(const struct oriel_options *opts, oriel_ctx **ctx);
/*
 * Ends the context: collective over the ranks that live. Windows, communicators
 * and memory made from it are gone, whether freed or not. NULL is allowed.
 */
int oriel_fini(oriel_ctx *ctx);

/* Runs fn(ctx, arg) in n threads of this process, each a rank: for tests. Returns the first nonzero
 * result. */
int oriel_run_threads(int n, int (*fn)(oriel_ctx *ctx, void *arg), void *arg,
                      const struct oriel_options *opts);

/*
 * ---- Communicators -----------------------------------------------------
 */

/* All ranks of the job; owned by the context. NULL if ctx is not a live context. */
oriel_comm *oriel_world(oriel_ctx *ctx);
/* This rank's number in comm, or a negative error. */
int oriel_comm_rank(const oriel_comm *comm);
/* The number of ranks of comm, or a negative error. */
int oriel_comm_size(const oriel_comm *comm);
/* *node_rank and *node_size: this rank's place among the ranks of comm on its node. */
int oriel_comm_node(const oriel_comm *comm, int *node_rank, int *node_size);
/*
 * Collective: the ranks of one color make a communicator, ordered by key, then
 * by rank. color < 0: this rank joins none, and *out is NULL.
 */
int oriel_comm_split(oriel_comm *comm, int color, int key, oriel_comm **out);
/* Collective: the same ranks, separate traffic. */
int oriel_comm_dup(oriel_comm *comm, oriel_comm **out);
/*
 * The ranks start, start + stride, ... (size of them) of comm, without any
 * communication. Called by the members only, all with the same arguments and
 * the same number of times. Errors: ERANK if this rank is none of them.
 */
int oriel_comm_strided(oriel_comm *comm, int start, int stride, int size, oriel_comm **out);
/*
 * comm seen as a grid of n_dims extents (the last varies fastest, their product
 * is comm's size): the ranks that differ from this one only in the dimensions d
 * with keep[d] != 0. No communication; e.g. dims {dp, pp, tp}, keep {0, 0, 1}.
 */
int oriel_comm_grid(oriel_comm *comm, int n_dims, const int *dims, const int *keep,
                    oriel_comm **out);
/* Collective; windows of comm must be freed and its requests completed before (EBUSY). The world
 * cannot be freed. NULL is allowed. */
int oriel_comm_free(oriel_comm *comm);
/*
 * Local: every wait and collective on comm, here and on the members that can be
 * reached, ends with EABORTED. For ever: free it or end the context.
 */
int oriel_comm_abort(oriel_comm *comm);
/*
 * Collective over the survivors, after a failure or an abort of comm, or without
 * one: a new communicator of the ranks that live, in the same order. They agree
 * on the membership even if more ranks fail meanwhile; a rank that fails after
 * the agreement fails the new communicator, which can be shrunk again. comm
 * stays as it is; free it. A rank that lives and has not called is waited for;
 * ORIEL_CALL_TIMEOUT limits that, and the call can then be made again. Errors:
 * EINVAL, EBUSY, EEXPELLED (the others went on without this rank), ETIMEDOUT,
 * ENOMEM, ELIMIT; after the last two the others find the new one aborted.
 */
int oriel_comm_shrink(oriel_comm *comm, oriel_comm **out);

/*
 * ---- Memory ------------------------------------------------------------
 */

/*
 * Registered memory of the pool: peers on the node reach it directly. Local,
 * not collective. align: a power of two, 0 for 64. len 0 gives a pointer that
 * may be freed. Contents are undefined. Errors: EINVAL, ENOMEM.
 */
int oriel_mem_alloc(oriel_ctx *ctx, size_t len, size_t align, void **ptr);
/* NULL is allowed. Errors: EINVAL (not the start of a live allocation of this context's pool). */
int oriel_mem_free(oriel_ctx *ctx, void *ptr);

/* Of a context's pool and registrations. */
struct oriel_mem_stats {
	size_t slabs;            /* shared slabs */
	size_t reserved_bytes;   /* their address space */
	size_t used_bytes;       /* handed out now, rounding included */
	size_t peak_bytes;       /* the most that used_bytes ever was */
	size_t allocations;      /* live now */
	size_t total_allocs;     /* ever made */
	size_t retired_bytes;    /* kept back because a failed peer may still write to them */
	size_t registrations;    /* live registrations of user memory */
	size_t registered_bytes; /* theirs; a range inside another one is not counted */
};
/* Fills *stats in. Local. Errors: EHANDLE, EINVAL (stats is NULL). */
int oriel_mem_stats(oriel_ctx *ctx, struct oriel_mem_stats *stats);

/*
 * Registers memory of the user, so that transports prepare it once. Optional:
 * sources and windows need no registration. Refcounted: a range inside a
 * registered one shares it; each reg wants its dereg, with the same arguments.
 */
int oriel_mem_reg(oriel_ctx *ctx, const void *addr, size_t len);
/* Takes back one oriel_mem_reg of the same range. EINVAL: there is none. */
int oriel_mem_dereg(oriel_ctx *ctx, const void *addr, size_t len);

/*
 * ---- Windows -----------------------------------------------------------
 */

/*
 * Collective: exposes [base, base + size) of each rank, with n_signals signal
 * slots (zero at the start). size, base and n_signals may differ by rank; size
 * may be 0, and base then NULL. base may be any host memory: inside the pool
 * it is reached directly. Memory of GPUs: oriel_cuda.h. The caller keeps base alive until win_free.
 * When one rank fails, all ranks return an error.
 */
int oriel_win_create(oriel_comm *comm, void *base, size_t size, size_t n_signals, oriel_win **win);
/* The same over new pool memory of the window, 64-byte aligned and zeroed; *base is NULL if size is
 * 0. */
int oriel_win_alloc(oriel_comm *comm, size_t size, size_t n_signals, void **base, oriel_win **win);
/*
 * Collective: completes everything of this rank, then nobody can reach the
 * window any more. The handle is gone whatever is returned. After an error that
 * a failure or abort caused, members that have not noticed may still write for
 * a while: keep memory of your own until they have ended. NULL is allowed.
 */
int oriel_win_free(oriel_win *win);
/* *size: bytes of target's part; *n_signals: its slots. Either may be NULL. */
int oriel_win_query(oriel_win *win, int target, size_t *size, size_t *n_signals);
/*
 * *ptr: where this process can load and store target's part; for the own rank
 * its base. ENOTSUP: target is on another node, or its memory is not shared.
 */
int oriel_win_ptr(oriel_win *win, int target, void **ptr);

/*
 * Moves. [disp, disp + len) must lie inside target's part. They return before
 * the data is there; the source (of put) or destination (of get) belongs to
 * the library until flush_local, flush or the request says so. len 0 is legal.
 * Errors: EHANDLE, ERANK, ERANGE, EINVAL (NULL with len > 0), EPEER, EFORK,
 * ETRANSPORT. When an error is returned nothing was written.
 */

/* src's len bytes, to target's part at disp. */
int oriel_put(oriel_win *win, int target, size_t disp, const void *src, size_t len);
/* len bytes of target's part from disp on, to dst. */
int oriel_get(oriel_win *win, int target, size_t disp, void *dst, size_t len);
/*
 * n_blocks blocks of block_len bytes; the window's start disp + i * disp_stride,
 * the local ones at src + i * src_stride. Strides are bytes, at least block_len.
 */
int oriel_put_strided(oriel_win *win, int target, size_t disp, size_t disp_stride, const void *src,
                      size_t src_stride, size_t block_len, size_t n_blocks);
/* The other way: from the window's blocks into those at dst + i * dst_stride. */
int oriel_get_strided(oriel_win *win, int target, size_t disp, size_t disp_stride, void *dst,
                      size_t dst_stride, size_t block_len, size_t n_blocks);

/* A stretch of memory that is moved. */
struct oriel_seg {
	size_t disp; /* in the window */
	void *addr;  /* local: source of a put, destination of a get */
	size_t len;  /* bytes */
};
/* A list of segments; all are checked before the first is moved. */
int oriel_put_list(oriel_win *win, int target, const struct oriel_seg *segs, size_t n_segs);
/* The same for gets. */
int oriel_get_list(oriel_win *win, int target, const struct oriel_seg *segs, size_t n_segs);

/* oriel_put with a request, which is complete when src is the caller's again. */
int oriel_rput(oriel_win *win, int target, size_t disp, const void *src, size_t len,
               oriel_req **req);
/* oriel_get with a request, which is complete when dst holds the data. */
int oriel_rget(oriel_win *win, int target, size_t disp, void *dst, size_t len, oriel_req **req);
/*
 * Requests of all kinds. *done: 1 when it is complete, else 0. A complete request
 * is freed and *req set to NULL, but a persistent one stays (oriel_coll.h). *req
 * NULL counts as complete, and so does a persistent request that is not running.
 * Also makes progress. Errors: EHANDLE, EINVAL, and then the call's own.
 */
int oriel_req_test(oriel_req **req, int *done);
/*
 * Waits until it is complete, and then as oriel_req_test. ETIMEDOUT: timeout_ns
 * is over, and the request is as it was, as after EFORK and EEXPELLED. Other
 * errors are the call's, which is then complete.
 */
int oriel_req_wait(oriel_req **req, uint64_t timeout_ns);

/*
 * ---- Signals -----------------------------------------------------------
 */

enum oriel_signal_op { ORIEL_SIGNAL_SET = 0, ORIEL_SIGNAL_ADD = 1 };
enum oriel_cmp { ORIEL_EQ = 0, ORIEL_NE, ORIEL_GE, ORIEL_GT, ORIEL_LE, ORIEL_LT };
#define ORIEL_SIGNAL_MAX ((UINT64_C(1) << 62) - 1)

/*
 * put, then set (or add to) target's slot: when a wait there sees it, this put
 * and this thread's earlier puts to target in this window are visible to it.
 * value is at most ORIEL_SIGNAL_MAX. Returns before completion, like put.
 */
int oriel_put_signal(oriel_win *win, int target, size_t disp, const void *src, size_t len,
                     size_t slot, enum oriel_signal_op op, uint64_t value);
/* A signal alone, ordered after this thread's earlier puts to target in this window. */
int oriel_signal(oriel_win *win, int target, size_t slot, enum oriel_signal_op op, uint64_t value);

/*
 * Waits until this rank's own slot compares true with value (unsigned), and
 * consumes nothing. *seen, if not NULL, is the value that did. Errors: ETIMEDOUT;
 * EPEER when a rank of the communicator has failed and the value is not there;
 * EABORTED. The detail names rank, slot, expected and seen.
 */
int oriel_signal_wait(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value,
                      uint64_t timeout_ns, uint64_t *seen);
/* The same when only the rank source will signal: other ranks' failures do not end it. */
int oriel_signal_wait_from(oriel_win *win, int source, size_t slot, enum oriel_cmp cmp,
                           uint64_t value, uint64_t timeout_ns, uint64_t *seen);
/* *met: 1 if it compares true now (the data is then visible), else 0. Also makes progress. */
int oriel_signal_test(oriel_win *win, size_t slot, enum oriel_cmp cmp, uint64_t value, int *met);
/* The slot's value now, with the visibility of a wait that saw it. */
int oriel_signal_read(oriel_win *win, size_t slot, uint64_t *value);

/* Holds while the slot compares true with value. */
struct oriel_cond {
	size_t slot;        /* of this rank */
	enum oriel_cmp cmp; /* the slot's value on the left */
	uint64_t value;     /* on the right */
};
/* Waits until one of n conditions holds; *which is the lowest that does. */
int oriel_signal_wait_any(oriel_win *win, size_t n, const struct oriel_cond *conds,
                          uint64_t timeout_ns, size_t *which);
/* Waits until each of n conditions has held since the call. */
int oriel_signal_wait_all(oriel_win *win, size_t n, const struct oriel_cond *conds,
                          uint64_t timeout_ns);

/*
 * ---- Completion --------------------------------------------------------
 */

/* All earlier puts, gets and signals of this rank to target in win are complete here and there. */
int oriel_flush(oriel_win *win, int target);
/* The same for all targets. */
int oriel_flush_all(oriel_win *win);
/* Local buffers of earlier puts and gets to target are the caller's again. */
int oriel_flush_local(oriel_win *win, int target);
/* The same for all targets. */
int oriel_flush_local_all(oriel_win *win);

/*
 * ---- Atomics -----------------------------------------------------------
 * On 64-bit words in the window, disp a multiple of 8 and the address too.
 * Atomic with each other on every path; not with puts. They return when done.
 */

/* *old: the word before; old may be NULL. */
int oriel_fetch_add(oriel_win *win, int target, size_t disp, uint64_t add, uint64_t *old);
/* The word becomes desired if it was expected; *old: the word before. */
int oriel_compare_swap(oriel_win *win, int target, size_t disp, uint64_t expected, uint64_t desired,
                       uint64_t *old);

#define ORIEL_ACCUMULATE_MAX 4096 /* bytes in one oriel_accumulate */
/*
 * dst[i] += src[i], each element atomic with other accumulates, ordered before
 * this thread's later signals to target like a put. disp is a multiple of the
 * element's size. ELIMIT over ORIEL_ACCUMULATE_MAX bytes.
 */
int oriel_accumulate(oriel_win *win, int target, size_t disp, const void *src, size_t count,
                     enum oriel_type type);

/*
 * ---- Explanation -------------------------------------------------------
 */

/*
 * One line: which transport this rank uses to reach rank target's pool memory
 * (kind 0), ordinary memory (kind 1) or memory of its GPU (kind 2), and why.
 * Written like snprintf.
 */
int oriel_path(oriel_comm *comm, int target, int kind, char *text, size_t cap);
/* Calls line(arg, text) for each fact: version, transports and why on or off, knobs with value and
 * origin. */
int oriel_info(oriel_ctx *ctx, void (*line)(void *arg, const char *text), void *arg);
/*
 * Reads a flight recorder's file (ORIEL_RECORDER, or /proc/<pid>/fd/<n> of a rank
 * that hangs) and calls line(arg, text) for each fact: rank, what it waits for,
 * its last calls. Needs no context. Errors: EINVAL (not such a file), ETRANSPORT.
 */
int oriel_recorder_read(const char *file, void (*line)(void *arg, const char *text), void *arg);

#ifdef __cplusplus
}
#endif

#endif
