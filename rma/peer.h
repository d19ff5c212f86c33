/*
 * peer.h - another rank, as this context sees it; one incarnation.
 *
 * Made on first contact (peers of the node: at init), lives until the context
 * ends. Failed is for ever: first writer wins, and the reason stays.
 */
#ifndef RMA_PEER_H
#define RMA_PEER_H

#include "rma/ctx.h"

enum cma_state { CMA_UNKNOWN = 0, CMA_YES, CMA_NO };

struct peer {
	oriel_ctx *ctx;
	int rank;              /* in the world */
	uint32_t failed_claim; /* who sets it writes why */
	uint32_t failed;       /* why is there */
	char why[192];         /* if failed: what was seen */
	uint64_t failed_at;    /* and when */
	struct peer *next_failed;
	bool dead; /* failed, and known to be gone: cannot write to our memory any more */
	bool left; /* has ended its context in order: its silence means nothing */
	int local; /* index on this node, or -1 */
	bool same_process;
	struct boot_rec rec;
	pthread_mutex_t send_lock;
	uint64_t full_round; /* am.c: its carrier was full in that round */

	/* Peers of the node, if mapped: */
	struct ctl *ctl; /* NULL: not reachable through shared memory; why_not says why */
	char why_not[160];
	struct ring *ring;          /* mine, in its control slab */
	char *slab[POOL_MAX_SLABS]; /* its pool slabs, mapped on first use */
	int pidfd;
	pthread_mutex_t wake_lock;
	int wake_fd;                      /* its helper's pipe; 0: not opened yet, -1: cannot be */
	uint64_t seen_heartbeat, seen_at; /* helper's */
	enum cma_state cma;
	char cma_why[160];

	struct gpu_peer *gpu; /* what is mapped of its GPU's memory; NULL: nothing */

	/* UCX: rma/ucx.c's own. */
	void *ucx;
	uint64_t heard_at;    /* now_ns of the last message, any kind; ucx */
	uint64_t watch_until; /* somebody waits for it: the helper pings it until then */
	uint64_t pinged_at;   /* helper's */
};

/* Finds or makes the peer; may ask the bootstrap. */
int peer_get(oriel_ctx *ctx, int rank, struct peer **peer);
/* The same for one that has sent its record itself: asks nobody, so that handlers may call it. */
int peer_meet(oriel_ctx *ctx, int rank, const struct boot_rec *rec, struct peer **peer);
/* The peer if it was made already, else NULL. */
static inline struct peer *
peer_find(oriel_ctx *ctx, int rank)
{
	return dir_get(&ctx->peers, rank);
}

/*
 * Marks it failed (once), wakes this rank's waiters. dead: its process is known
 * to be gone. Any thread, any lock but send_lock of another peer.
 */
void peer_fail(struct peer *peer, bool dead, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/*
 * It has ended its context. All do so together unless some rank has failed; for
 * a rank that is not at its own end this one is as good as failed: it will
 * answer nothing any more.
 */
void peer_leave(struct peer *peer);
static inline bool
peer_failed(const struct peer *peer)
{
	return load_acquire(&peer->failed);
}
/* fail(ORIEL_EPEER, "rank N has failed: why"). */
int peer_error(const struct peer *peer);

/*
 * After its memory or files could not be reached: has its process ended? Then
 * it is marked failed. Waits a moment for that.
 */
bool peer_gone(struct peer *peer);

/* The address here of [off, off + len) of the peer's pool slab. */
int peer_map(struct peer *peer, unsigned slab_id, size_t off, size_t len, void **ptr);
/* The file here that is fd in the peer's process: any file, also one that no path opens. -1: errno
 * says why not. */
int peer_take_fd(const struct peer *peer, int fd);
/* May process_vm_* reach it? Probes once; the answer stays. */
bool peer_cma(struct peer *peer);
/* Wakes the peer's helper thread, which said that it sleeps. */
void peer_wake_helper(struct peer *peer);
/* Somebody waits for a peer on another node: have it pinged, and noticed if it is silent. */
void peer_watch(struct peer *peer);
/* Makes all peers of the node, after the fence; then the helper may look at them. */
int peer_open_local(oriel_ctx *ctx);
void peer_free(struct peer *peer);

#endif
