/*
 * req.h - requests: what all of them share. Who makes one embeds struct
 * oriel_req as the first member of its own structure and says by its ops how it
 * goes on; oriel_req_wait and its kin know nothing else.
 *
 * Life cycle: the maker fills it in (req_init); ready turns true once and stays
 * so until done or start; done hands the result to the user, and frees it
 * unless it is persistent. A persistent request that is not running is ready.
 *
 * Threads: one thread at a time uses a request; whoever makes progress completes
 * it. ready is looked at without any lock.
 */
#ifndef RMA_REQ_H
#define RMA_REQ_H

#include "rma/ctx.h"

#define REQ_MAGIC UINT64_C(0x7165726c6569726f)

struct req_ops {
	/* Complete, whatever the result. Makes no progress. */
	bool (*ready)(const oriel_req *req);
	/*
	 * Now and then while somebody waits for it: has its peers watched; an error is the
	 * wait's, or it completes the request itself. May be NULL.
	 */
	int (*doomed)(oriel_req *req);
	/* A wait without a limit begins: this thread runs it to its end if it can do so at once.
	 * True: it is ready. May be NULL. */
	bool (*run)(oriel_req *req);
	/* From now on whoever makes progress takes care of it. May be NULL. */
	void (*share)(oriel_req *req);
	/* It is ready: its result, with the detail. Frees it and sets *req to NULL unless it is
	 * persistent. */
	int (*done)(oriel_req **req);
	/* Persistent; req_running if it is. NULL: it is not persistent. */
	int (*start)(oriel_req *req);
	/* Ready, and its result does not matter. NULL: done does it. */
	int (*free)(oriel_req **req);
	/* "send of 8 bytes to rank 3", for errors. */
	void (*name)(const oriel_req *req, char *text, size_t cap);
};

struct oriel_req {
	uint64_t magic;
	oriel_ctx *ctx;
	const struct req_ops *ops;
	bool settled; /* persistent, and no start's result is due: a wait has nothing to do */
	/* Of windows' transfers: */
	struct peer *peer;
	uint32_t pending; /* parts that are not complete; the user's handle is not counted */
	uint64_t mark;    /* rma/ce.c: complete when its copies have come so far */
	int status;
};

static inline void
req_init(oriel_req *req, oriel_ctx *ctx, const struct req_ops *ops)
{
	req->magic = REQ_MAGIC;
	req->ctx = ctx;
	req->ops = ops;
	req->settled = false;
}

/* EBUSY, by its name. */
int req_running(const oriel_req *req);
/* In done and free: the user has it no more. */
static inline void
req_bury(oriel_req **req)
{
	(*req)->magic = 0;
	ctx_bury((*req)->ctx, *req);
	*req = NULL;
}

#endif
