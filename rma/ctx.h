/*
 * ctx.h - the context: everything of one rank. No other state exists.
 *
 * Life cycle: ctx_create fills it in the order of its fields (boot, pool and
 * control slab, peers of the node, ucx, helper thread), ctx_destroy undoes it.
 *
 * Locks, by rank (a thread takes them in ascending order only):
 *   0 ctx->task_lock  advancing tasks (rma/task.h); or ctx->streams_lock
 *   1 ctx->lock       tables of windows, communicators; first contacts
 *   2 ctx->progress   whoever drains rings and progresses UCX; taken with trylock
 *                     by waiters. Message handlers run under it.
 *   3 peer->send_lock one message into a ring, or one post to UCX
 *   4 ctx->peers_lock one entry into the table of peers, which handlers may make;
 *                     pool and registry, inside alloc/; those of rma/gpu_mem.h
 * A handler must not take lock 1, block, or call user-level functions.
 */
#ifndef RMA_CTX_H
#define RMA_CTX_H

#include "alloc/pool.h"
#include "alloc/registry.h"
#include "base/knobs.h"
#include "pmix-boot/boot.h"
#include "rma/ctl.h"

#include <pthread.h>

struct peer;
struct selection;
struct ucx; /* rma/ucx.h; NULL without it */
struct gpu;
struct stream_state;
struct reduce_set;

#define BOOT_REC_UCX 1024
struct boot_rec { /* what a rank publishes; key "rec" */
	uint64_t token;
	uint64_t ctl_base; /* address in the owner's address space */
	uint64_t ctl_size;
	uint64_t host; /* hash of what makes /proc common: boot id, pid namespace */
	uint64_t cpus; /* hash of the set of CPUs that it is bound to; 0: not known */
	int32_t pid;
	int32_t ctl_fd;
	int32_t node_id; /* lowest world rank of its node */
	uint32_t ucx_len;
	char ucx[BOOT_REC_UCX]; /* worker address; last, so that only ucx_len bytes of it travel */
};

#define DIR_CHUNK 64
struct peer_dir { /* rank -> entry, in chunks that exist once touched */
	void ***chunk;
	int n_chunks;
};

struct transport_state { /* for oriel_info */
	bool on;
	char why[160];
};

enum transport_id { TP_SELF = 0, TP_DIRECT, TP_CMA, TP_STAGED, TP_CE, TP_UCX, TP_N };

struct oriel_ctx {
	/* Hot: read by every call. */
	uint64_t magic;
	uint64_t *alive; /* on a page that a fork wipes; 0: forked, or expelled */
	bool expelled;
	bool has_remote;     /* some ranks of the job are reached through ucx only */
	bool leaving;        /* oriel_fini has begun: that others leave is in order */
	bool crowded;        /* ranks share CPUs: spinning only hurts */
	uint64_t poll_epoch; /* grows while threads poll: the helper need not */
	struct gpu *gpu;     /* rma/gpu.h; NULL: not open, and gpu_why says why */

	struct knobs knobs;
	struct selection *selection; /* coll/select.h: which algorithm a collective uses */
	struct boot boot;
	int my_local; /* my index in boot.local */
	struct pool *pool;
	struct registry *registry;
	int ctl_fd;
	struct ctl *ctl; /* mine */
	struct boot_rec rec;

	pthread_mutex_t streams_lock; /* 0: the list of communicators that streams wait on */
	pthread_mutex_t lock;         /* 1 */
	pthread_mutex_t progress;     /* 2 */
	pthread_mutex_t peers_lock;   /* 4: writing peers */
	struct peer_dir peers;        /* by world rank: struct peer * */
	struct peer **local;          /* the node's ranks by local index; all present after init */
	struct oriel_comm *world;
	struct table *wins;  /* id -> oriel_win *, read by handlers: own lock inside */
	struct table *comms; /* id -> oriel_comm * */
	struct table
	        *groups; /* hash of a description -> how often made: ids without communication */
	struct table *fails; /* id -> failure word of a communicator that is not made here yet */
	struct table *told_dead; /* world ranks that the launcher says have died, and nobody here
	                            has met */
	struct graves *graves;   /* freed handles */
	const struct reduce_set *reduce; /* coll/reduce.h: loops for this CPU */
	struct oriel_op *ops;            /* the user's */

	struct am *am;           /* rma/am.h */
	struct shrinks *shrinks; /* rma/shrink.h */
	struct boxes *boxes;     /* plan/chan.h: chan_open, chan_close */
	struct ucx *ucx;
	struct transport_state tp[TP_N];

	pthread_t helper;
	bool helper_on;
	int wake_pipe[2];
	void *helper_state;
	uint32_t stop; /* the helper ends */

	pthread_mutex_t task_lock; /* 0 */
	struct task *tasks;        /* rma/task.h */
	uint32_t n_tasks;
	struct job *solo; /* plan/job.h: under way, and nobody's task yet */
	uint64_t begun;   /* changes when jobs begin: a hint */
	bool helper_naps; /* the helper looks for tasks before it sleeps longer than a nap */

	char gpu_why[256];
	struct stream_state *streams; /* plan/stream.h; under streams_lock */
	struct ce *ce;                /* rma/ce.h; NULL: not used yet */
	uint32_t n_awaited; /* windows with slots that streams have waited for: rma/awaited.h */

	struct peer *failed_peers; /* chained by next_failed, newest first */
	struct recorder *rec_out;
	uint64_t delay_rng; /* injected delays */
	/* plan/die.c */
	void *deadly_ops;
	unsigned deadly_calls;
};

/* EHANDLE, EFORK or EEXPELLED; for the slow entry points. */
int ctx_enter(const oriel_ctx *ctx);

/*
 * One round: drains the node's rings, progresses UCX. Returns true if anything
 * happened. Never blocks: if another thread is at it, returns at once.
 */
bool ctx_progress(oriel_ctx *ctx);
/* The same, of the helper: it is not somebody who polls. */
bool ctx_progress_unseen(oriel_ctx *ctx);

/*
 * Makes progress until ready(arg) or until the deadline. Spins, yields, then
 * sleeps; whoever makes ready true in another process must wake ctx->ctl->wake.
 * doomed(arg), called now and then and before each sleep, may end the wait with its
 * own error (an abort, a failed peer). May be NULL.
 * Returns 0, ETIMEDOUT (without a detail) or what doomed returned.
 */
int ctx_wait(oriel_ctx *ctx, bool (*ready)(void *arg), int (*doomed)(void *arg), void *arg,
             uint64_t deadline);

/* ctx->knobs' call_timeout as a deadline from now. */
uint64_t ctx_call_deadline(const oriel_ctx *ctx);

/* Random busy delay if ORIEL_DELAY asks; a single test of a knob otherwise. */
void ctx_delay_slow(oriel_ctx *ctx);
static inline void
ctx_delay(oriel_ctx *ctx)
{
	if (unlikely(ctx->knobs.v.delay > 0))
		ctx_delay_slow(ctx);
}

/*
 * The one place where a wait spins without doing anything else: until the word
 * changes from seen, a message rings (then ctx_progress is due), or the rounds
 * are over. Measured apart from the rest.
 */
void oriel_spin(const oriel_ctx *ctx, const uint64_t *word, uint64_t seen, unsigned rounds);

static inline void *
dir_get(const struct peer_dir *d, int rank)
{
	unsigned r = (unsigned)rank;
	void **c = load_acquire(&d->chunk[r / DIR_CHUNK]);

	return c ? load_acquire(&c[r % DIR_CHUNK]) : NULL;
}
int dir_init(struct peer_dir *d, int size);
/* Publishes entry for rank; the caller holds the directory's lock (ctx->lock, peers_lock). */
int dir_set(struct peer_dir *d, int rank, void *entry);
void dir_each(struct peer_dir *d, void (*fn)(void *entry, void *arg), void *arg);
void dir_free(struct peer_dir *d); /* not the entries */

/*
 * Frees a handle later: its magic is cleared already, and its memory stays until
 * some thousands of others have been freed.
 */
void ctx_bury(oriel_ctx *ctx, void *handle);

/* A small hash table from 64-bit ids to pointers, with its own lock. */
struct table;
struct table *table_create(void);
void table_free(struct table *t);
int table_put(struct table *t, uint64_t id, void *value);
void *table_get(struct table *t, uint64_t id);
void *table_del(struct table *t, uint64_t id);
/* A value for which is() says so, or NULL. */
void *table_find(struct table *t, bool (*is)(const void *value));
void table_each(struct table *t, void (*fn)(void *arg, uint64_t id, void *value), void *arg);

#endif
