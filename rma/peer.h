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
	int rank; /* in the world */
	uint32_t failed;
	char why[192]; /* if failed: what was seen */
	bool dead;     /* failed, and known to be gone: cannot write to our memory any more */
	int local;     /* index on this node, or -1 */
	bool same_process;
	struct boot_rec rec;
	pthread_mutex_t send_lock;

	/* Peers of the node, if mapped: */
	struct ctl *ctl; /* NULL: not reachable through shared memory; why_not says why */
	char why_not[160];
	struct ring *ring;          /* mine, in its control slab */
	char *slab[POOL_MAX_SLABS]; /* its pool slabs, mapped on first use */
	int pidfd;
	uint64_t seen_heartbeat, seen_at; /* helper's */
	enum cma_state cma;
	char cma_why[160];

	/* UCX: rma/ucx.c's own. */
	void *ucx;
	uint64_t heard_at; /* now_ns of the last message, any kind; ucx */
	bool watched;      /* a thread waits for it: the helper pings it */
};

/* Finds or makes the peer; may ask the bootstrap. */
int peer_get(oriel_ctx *ctx, int rank, struct peer **peer);
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
static inline bool
peer_failed(const struct peer *peer)
{
	return load_acquire(&peer->failed);
}
/* fail(ORIEL_EPEER, "rank N has failed: why"). */
int peer_error(const struct peer *peer);

/* The address here of [off, off + len) of the peer's pool slab. */
int peer_map(struct peer *peer, unsigned slab_id, size_t off, size_t len, void **ptr);
/* May process_vm_* reach it? Probes once; the answer stays. */
bool peer_cma(struct peer *peer);
/* Wakes the peer's helper thread if it sleeps. */
void peer_wake_helper(struct peer *peer);

#endif
