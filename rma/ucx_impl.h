/*
 * ucx_impl.h - inside the UCX carrier and transport. All of it is read and
 * written under ctx->progress, but for the fields that say otherwise.
 *
 * Nothing is posted from a callback of UCX: callbacks count, release, and put
 * their peer on u->ready or u->broken; ucx_progress posts what waits when
 * ucp_worker_progress has returned.
 *
 * Puts to a peer are numbered from 1 in the order of their acceptance:
 *
 *	issued >= posted >= flushed
 *
 * A message carries the number of the last put before it (after) and is posted
 * when that put is flushed. A flush covers what was posted when it started, so
 * one is enough for any number of puts and messages.
 */
#ifndef RMA_UCX_IMPL_H
#define RMA_UCX_IMPL_H

#include "rma/ucx_wire.h"
#include "rma/ucx.h"

#include "rma/ucx_load.h"

#define UCX_AM_ID 0
#define UCX_POSTED_MAX 64     /* messages to a peer that UCX holds */
#define UCX_QUEUED_MAX 256    /* messages to a peer in our queue before senders wait */
#define UCX_HELD_MAX 256      /* messages of a peer that came before their turn */
#define UCX_STRAYS_MAX 256    /* messages that came before their sender's hello */
#define UCX_PART (512u << 10) /* a put or get is posted in parts of so many bytes, */
#define UCX_PARTS_MAX 64      /* so many at a time: a sign of life waits behind them */
#define UCX_OPS_MAX 1024      /* puts and gets of a peer before callers wait */
#define UCX_PUT_MESSAGE_MAX                                                                        \
	AM_DATA_MAX          /* puts up to this size go as messages where UCX has no               \
	                        real put: see ucx_tp.c */
#define UCX_KEYS_MAX 64      /* unpacked keys of plans a peer */
#define UCX_EPS_ESTIMATE 128 /* no job's ranks talk to more than this as a rule */
#define UCX_CLOSE_NS UINT64_C(3000000000)
#define UCX_REAP_ROUNDS 1000 /* of progress, for UCX to give back a failed peer's operations */

struct ucx_peer;

struct ucx_msg { /* to be sent, or received before its turn */
	struct ucx_msg *next;
	struct ucx_peer *peer;
	uint64_t after; /* to be sent once this put is flushed; received: its number */
	uint32_t size;
	bool big; /* room for WIRE_MAX; else UCX_MSG_SMALL */
	char buf[] __attribute__((aligned(8)));
};
#define UCX_MSG_SMALL 512
#define UCX_FREE_MAX 256 /* messages kept for the next */

struct ucx_op {                     /* a put or a get */
	struct ucx_op *prev, *next; /* peer->ops, in order */
	struct ucx_peer *peer;
	uint64_t number;
	bool get;
	char *local;
	uint64_t remote;
	ucp_rkey_h rkey;
	size_t len, posted;
	uint32_t parts; /* posted and not complete */
	oriel_req *req;
};

struct ucx_target {                    /* target->priv */
	struct ucx_target **at, *next; /* peer->targets */
	ucp_rkey_h rkey;
};

struct ucx_win {                    /* oriel_win's ucx */
	struct ucx_win **at, *next; /* u->wins */
	ucp_mem_h memh;
	size_t key_len;
	char key[UCX_KEY_MAX];
};

struct ucx_key { /* a plan's key, unpacked */
	ucp_rkey_h rkey;
	uint64_t last_put; /* may be destroyed when that is flushed */
	uint64_t used;
	uint32_t len;
	char bytes[UCX_KEY_MAX];
};

struct ucx_peer {
	struct ucx_peer *next_peer;
	struct ucx_peer *next_ready, *next_broken;
	bool on_ready, on_broken;
	struct ucx *u;
	struct peer *peer;
	ucp_ep_h ep;
	bool closed; /* failed or ended: nothing goes out any more */
	bool bye;    /* it said so */
	bool bye_sent;
	ucs_status_t error; /* what UCX reported */
	void *closing;      /* request */

	/* Messages out. Counters that waits read without the lock are stored with release. */
	struct ucx_msg *queue, **queue_tail;
	uint32_t n_queued; /* read without the lock */
	uint32_t n_posted;
	uint64_t seq;        /* next */
	uint64_t ops_sent;   /* AM_OP messages accepted; read without the lock */
	uint64_t ops_synced; /* of them known to be handled; by am_sync's callers, monotonic */

	/* Messages in. */
	uint64_t expected;
	struct ucx_msg *held; /* ascending */
	uint32_t n_held;

	/* Puts and gets. */
	struct ucx_op *ops, *ops_last, *unposted;
	uint32_t n_ops;     /* read without the lock */
	uint64_t ops_begun; /* read without the lock */
	uint64_t ops_done;  /* all up to this number are; read without the lock */
	uint32_t n_parts;
	uint64_t issued, posted;
	uint64_t flushed; /* read without the lock */
	uint64_t wanted;  /* somebody waits until this put is flushed */
	bool flushing;
	uint64_t flush_covers;

	/* Windows may outlive the context; UCX's part of them must not. */
	struct ucx_target *targets;
	struct ucx_key *keys;
	uint32_t n_keys;
	uint64_t key_clock;
};

struct ucx_reg { /* memory of mine that plans let peers write */
	uintptr_t addr;
	size_t len;
	ucp_mem_h memh; /* NULL: no transport pins memory, the key is enough */
	uint64_t used;
	uint32_t key_len;
	uint32_t stale; /* set by any thread: the range was unmapped */
	char key[UCX_KEY_MAX];
};

struct ucx {
	oriel_ctx *ctx;
	uint64_t job;          /* hash of its name */
	unsigned major, minor; /* of the library that runs */
	ucp_context_h context;
	ucp_worker_h worker;
	int fd;
	bool offload; /* UCX has a transport with real puts */
	bool pins;    /* UCX has a transport that must register memory */
	bool has_get; /* ucp_get works on endpoints with error handling */
	bool no_keys; /* nobody may put to or get from this rank: UCX would emulate it, and not
	                 survive */
	struct ucx_peer *peers;
	struct ucx_peer *ready, *broken;
	struct ucx_msg *strays;
	uint32_t n_strays;
	uint64_t n_garbage;
	struct peer *failed_seen; /* ctx->failed_peers when it was last looked at */
	struct ucx_msg *free_small, *free_big;
	uint32_t n_free;
	struct ucx_op *free_ops;
	struct ucx_win *wins;
	struct ucx_regs *regs; /* ucx_mem.c */
	char aligned[WIRE_MAX + 8] __attribute__((aligned(8)));
};

/* ucx.c */
/* Puts the peer where ucx_progress looks for work. From callbacks too. */
void ucx_ready(struct ucx_peer *p);
/* UCX gave up on the peer; what was seen. From callbacks too. */
void ucx_broke(struct ucx_peer *p, ucs_status_t status);
/* Fails the peers that broke. Not from callbacks. */
void ucx_reap(struct ucx *u);
/* Posts what the peer's queues allow. Not from callbacks. */
void ucx_pump(struct ucx_peer *p);
/* Carries on what waits: reaps, pumps all that are ready. True if there was any. */
bool ucx_carry_on(struct ucx *u);

/* Sleeps until something comes, a millisecond at most. */
void ucx_nap(struct ucx *u);

/* ucx_ep.c */
/* The carrier's record of a peer, made if needed. EPEER, ENOMEM, ENOTSUP. */
int ucx_peer_get(struct peer *peer, struct ucx_peer **p);
/* Makes the endpoint and queues the hello. False: the peer broke. */
bool ucx_connect(struct ucx_peer *p);
/* In order, as far as that goes within a bounded time. */
void ucx_close_peers(struct ucx *u);
/* When the worker is gone. */
void ucx_free_peers(struct ucx *u);

/* ucx_am.c */
ucs_status_t ucx_on_am(void *arg, const void *header, size_t header_len, void *data, size_t len,
                       const ucp_am_recv_param_t *param);
struct ucx_msg *ucx_msg_new(struct ucx *u, size_t size);
void ucx_msg_free(struct ucx *u, struct ucx_msg *m);
void ucx_msgs_free(struct ucx *u, struct ucx_msg *list);
/* Queues one of the carrier's own messages. first: before all that wait. */
int ucx_queue_own(struct ucx_peer *p, enum wire_id id, const void *hdr, size_t hdr_len,
                  const void *data, size_t len, bool first);
/* Posts messages while that is allowed. False: the peer broke. */
bool ucx_post_messages(struct ucx_peer *p);
void ucx_am_free(struct ucx *u);

/* ucx_rma.c */
/* Posts parts while that is allowed. False: the peer broke. */
bool ucx_post_ops(struct ucx_peer *p);
/* Starts a flush if one is wanted and would help. True: it is complete already. */
bool ucx_start_flush(struct ucx_peer *p);
/* Completes with EPEER what UCX has not given back. */
void ucx_drop_ops(struct ucx_peer *p);
/* Accepts a put or get and posts what it can. */
int ucx_op_issue(struct ucx_peer *p, bool get, ucp_rkey_h rkey, uint64_t remote, void *local,
                 size_t len, oriel_req *req);
void ucx_rma_free(struct ucx *u);
/* Waits until the peer takes another operation. */
int ucx_wait_room(struct ucx_peer *p, const uint32_t *n, uint32_t max);
int ucx_wait_flushed(struct ucx_peer *p, uint64_t put, uint64_t deadline);
/* Until the buffers of all puts and gets so far are free. */
int ucx_wait_local(struct ucx_peer *p, uint64_t deadline);

/* ucx_tp.c */
void ucx_target_free(struct ucx_target *k);

/* ucx_mem.c */
int ucx_mem_open(struct ucx *u);
/* From now on notices when memory is unmapped. */
int ucx_mem_watch(struct ucx *u);
void ucx_mem_close(struct ucx *u);
/* Keys of plans and of windows. */
void ucx_keys_free(struct ucx_peer *p);

#endif
