/*
 * win.h - windows, and the table that a transport fills in.
 *
 * A window has one struct target for each rank it has talked to, made on first
 * contact (win_target_slow) and immutable then. If target->base is set the
 * memory is mapped here and the common path is a copy; everything else goes
 * through the target's transport.
 */
#ifndef RMA_WIN_H
#define RMA_WIN_H

#include "rma/am.h"
#include "rma/comm.h"
#include "rma/req.h"
#include "rma/signal.h"

#define WIN_MAGIC UINT64_C(0x6e69776c6569726f)

struct transport;

struct target {
	char *base; /* its memory in this address space, or NULL */
	size_t size;
	uint64_t *signals; /* its slots here, or NULL */
	size_t n_signals;
	struct wake *wake; /* its waiters; set if signals is */
	struct peer *peer;
	uint64_t dev;     /* its memory for this context's GPU, if that is a GPU's; base is NULL */
	uint64_t sig_dev; /* its slots for streams; 0: no stream has met it (rma/ce.h) */
	const struct transport
	        *tp; /* moves data; for signals too unless signals is set and ordered */
	struct win_rec rec;
	void *priv; /* the transport's */
};

struct oriel_win {
	uint64_t magic;
	oriel_ctx *ctx;
	oriel_comm *comm; /* a reference is held */
	uint64_t id;
	char *base; /* mine */
	size_t size;
	uint64_t *signals; /* mine; NULL if none */
	size_t n_signals;
	bool released;    /* slots that streams waited for were overwritten: rma/awaited.h */
	bool awaited;     /* waits below is there */
	bool own_base;    /* win_alloc: base is the pool's, freed with the window */
	bool on_gpu_pool; /* it is the GPU's pool */
	bool ending;      /* the context ends, and the window with it */
	struct peer_dir targets;
	struct peer_dir waits; /* slot -> struct awaited * */
	struct win_rec rec;    /* mine, as peers see it */
	struct win_rec *slot;  /* in ctl->wins */
	void *ucx;             /* rma/ucx.c: registration of base */
};

/*
 * A way to reach memory that is not mapped here. Calls return 0 or an error
 * with its detail; arguments were checked against the window before.
 */
struct transport {
	const char *name;
	enum transport_id id;
	/* First contact: fills t->priv. t->peer and t->rec are set. ctx->lock is held. */
	int (*attach)(oriel_win *win, struct target *t);
	/* The window ends; nothing is in flight. May be NULL. */
	void (*detach)(oriel_win *win, struct target *t);
	/* req may be NULL; else req->pending was counted up by the caller for this call and the
	 * transport counts it down once when the local buffer is free (may be before it returns).
	 */
	int (*put)(oriel_win *win, struct target *t, size_t disp, const void *src, size_t len,
	           oriel_req *req);
	int (*get)(oriel_win *win, struct target *t, size_t disp, void *dst, size_t len,
	           oriel_req *req);
	/* Several at once, NULL: one by one. */
	int (*putv)(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n);
	int (*getv)(oriel_win *win, struct target *t, const struct oriel_seg *segs, size_t n);
	/* len bytes (may be 0) and then the signal, after this rank's earlier puts to t. */
	int (*put_signal)(oriel_win *win, struct target *t, size_t disp, const void *src,
	                  size_t len, size_t slot, int add, uint64_t value);
	int (*flush)(oriel_win *win, struct target *t, bool local);
	/* kind: enum atomic_kind. Blocking. */
	int (*atomic)(oriel_win *win, struct target *t, int kind, size_t disp, uint64_t a,
	              uint64_t b, uint64_t *old);
	/* Ordered before later signals. */
	int (*accumulate)(oriel_win *win, struct target *t, size_t disp, const void *src,
	                  size_t count, int type);
};

enum atomic_kind { ATOMIC_ADD = 0, ATOMIC_CAS };

extern const struct transport transport_cma, transport_staged, transport_ce, transport_ucx;

int win_target_slow(oriel_win *win, int target, struct target **t);
/* When the window has been made everywhere. */
void win_meet_node(oriel_win *win);

/* A live window of a live context of this process. */
static inline bool
win_live(const oriel_win *win)
{
	return win && win->magic == WIN_MAGIC && load_relaxed(win->ctx->alive);
}

/* The target's entry if all is well and it has been met before; else NULL, and win_target_slow()
 * says what it is. */
static inline struct target *
win_met(oriel_win *win, int target)
{
	struct target *t;

	if (unlikely(!win_live(win) || (unsigned)target >= (unsigned)win->comm->size))
		return NULL;
	t = dir_get(&win->targets, target);
	return likely(t && !peer_failed(t->peer)) ? t : NULL;
}

/* The target's entry, made if needed; all checks of handle and rank. */
static inline int
win_target(oriel_win *win, int target, struct target **t)
{
	*t = win_met(win, target);
	return likely(*t != NULL) ? 0 : win_target_slow(win, target, t);
}

/* At the context's end: completes what is under way on windows that were not freed. */
void win_flush_left(oriel_ctx *ctx);
/* Then frees them. */
void win_free_left(oriel_ctx *ctx);

/* EHANDLE, EFORK, EEXPELLED. */
int win_enter(const oriel_win *win);
/* What this rank's part looks like to others: AM_WIN's answer and the local table's entry. */
oriel_win *win_find(oriel_ctx *ctx, uint64_t id);

/* Local work on a window's memory, by the owner's handlers and by direct paths: rma/ops.c. */
uint64_t ops_atomic(uint64_t *word, int kind, uint64_t a, uint64_t b);
void ops_accumulate(void *dst, const void *src, size_t count, int type);
size_t ops_type_size(int type); /* 0: no such type */

/* Executes operations at the target by messages; the staged transport is just these. */
int ops_put(struct peer *to, uint64_t win, size_t disp, const void *src, size_t len);
int ops_put_signal(struct peer *to, uint64_t win, size_t disp, const void *src, size_t len,
                   size_t slot, int add, uint64_t value);
int ops_get(struct peer *to, uint64_t win, size_t disp, void *dst, size_t len);
int ops_atomic_call(struct peer *to, uint64_t win, int kind, size_t disp, uint64_t a, uint64_t b,
                    uint64_t *old);
int ops_accumulate_call(struct peer *to, uint64_t win, size_t disp, const void *src, size_t count,
                        int type);

#endif
