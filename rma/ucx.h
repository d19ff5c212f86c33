/*
 * ucx.h - UCX: carrier of messages between nodes, and the ucx transport.
 *
 * One UCP context and worker a context; endpoints in PEER error mode, made on
 * first contact, one a peer. No ucp_worker_fence, no UCX atomics, no blocking
 * flush, no posting from callbacks; our own failed flag overrides UCX's
 * statuses; AMs carry our own sequence number, so that their order is ours.
 *
 * Order to one peer: an ordered message (all but unsigned puts) is posted only
 * when every earlier put to that peer is flushed; until then it waits in the
 * peer's queue, and later ordered ones behind it.
 *
 * All functions but ucx_open and ucx_close take ctx->progress themselves where
 * they need it, unless said otherwise. None blocks for a peer except where a
 * deadline is given.
 */
#ifndef RMA_UCX_H
#define RMA_UCX_H

#include "rma/win.h"

/* Fills rec->ucx and ucx_len. An error leaves ctx->ucx NULL and says why in ctx->tp[TP_UCX]. */
int ucx_open(oriel_ctx *ctx, struct boot_rec *rec);
/* Closes endpoints of live peers in order (they do the same), of failed ones by force. */
void ucx_close(oriel_ctx *ctx);
/* Under ctx->progress. True if anything happened. */
bool ucx_progress(oriel_ctx *ctx);
/* Prepares the worker's event fd: returns it if the caller may sleep on it, -1 if there is work.
 * Under ctx->progress. */
int ucx_arm(oriel_ctx *ctx);
/* Wakes the helper, so that it makes progress (from any thread, with any lock). */
void ucx_wake(oriel_ctx *ctx);

/* Carrier, for am.c. handler: called from a handler or the helper (ctx->progress is held, must
 * queue rather than wait). */
int ucx_am_send(struct peer *to, unsigned id, const void *hdr, size_t hdr_len, const void *data,
                size_t len, bool handler);
/* The peer has failed: completes everything to it with EPEER, closes by force. Under ctx->progress.
 */
void ucx_peer_failed(struct peer *peer);

/* Zero copy for plans: a key of any memory of mine, which a peer needs to write it. */
#define UCX_KEY_MAX 256
/* The registration is kept; *len: capacity in, length out. 0: peers must send messages instead. */
int ucx_mem_key(oriel_ctx *ctx, const void *addr, size_t size, void *key, size_t *len);
/* A put to raddr of the peer with its key; ordered messages sent later come after it. src is free
 * after ucx_quiet. */
int ucx_put_key(struct peer *to, const void *key, size_t key_len, uint64_t raddr, const void *src,
                size_t len);
/* Waits until all puts to the peer are complete there. */
int ucx_quiet(struct peer *to, uint64_t deadline);
/* The same without waiting: the mark of the puts up to now, and whether they are complete. */
uint64_t ucx_quiet_start(struct peer *to);
bool ucx_quiet_done(const struct peer *to, uint64_t mark);
struct ucx_key_blob { /* target->priv when transport_ucx.attach is called; it frees it */
	size_t len;
	char key[];
};
/* The registration of a window's memory, to be packed into AM_WIN's answer. Under ctx->lock. */
int ucx_win_reg(oriel_win *win);
void ucx_win_dereg(oriel_win *win);
/* Packs win's key for AM_WIN's answer; *len capacity in, length out (0: none needed). */
int ucx_win_key(oriel_win *win, void *key, size_t *len);

#endif
