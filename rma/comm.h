/*
 * comm.h - communicators: an ordered group of ranks, described, not listed,
 * where that is possible.
 *
 * A rank r of the group is world rank start + r * stride, or list[r] if list is
 * not NULL (a shared, refcounted table), or a grid's. All traffic names the
 * communicator by its id, which all members compute alike: a hash of the
 * parent's id, the description, and how often it was made before. check is
 * another hash of the full description, compared at first contact.
 *
 * The failure word (fail): 0, or who failed first and in which call, written
 * once. A call on the communicator is OK only if it is 0 after its last op; once
 * set the communicator is of no more use. The first writer wins at each member,
 * and passes its word on: one failure is named alike by every survivor; of two
 * at the same moment some may name the one and some the other.
 */
#ifndef RMA_COMM_H
#define RMA_COMM_H

#include "rma/peer.h"

#define COMM_MAGIC UINT64_C(0x6d6d6f636c65726f)

enum comm_kind { COMM_STRIDED = 0, COMM_LIST, COMM_GRID };
#define COMM_MAX_DIMS 8

struct rank_list {
	uint32_t refs;
	int n;
	int rank[]; /* world ranks */
};

struct oriel_comm {
	uint64_t magic;
	oriel_ctx *ctx;
	int rank, size;
	enum comm_kind kind;
	int start, stride;      /* COMM_STRIDED: world ranks */
	struct rank_list *list; /* COMM_LIST */
	struct comm_grid {      /* COMM_GRID: ranks of base that vary in n_dims dimensions */
		struct oriel_comm *base; /* a reference is held */
		int n_dims;
		int extent[COMM_MAX_DIMS]; /* kept dimensions, the last fastest */
		int stride[COMM_MAX_DIMS]; /* in base's ranks */
		int origin;
	} grid;
	uint64_t id, check;
	uint32_t refs;    /* the user's handle, windows, grids over it */
	uint32_t in_call; /* a collective is running: EBUSY for a second */
	uint64_t n_calls; /* collective calls made; the next is n_calls + 1 */
	uint64_t n_wins;  /* windows ever made on it */
	uint64_t n_children;
	uint64_t n_shrinks;   /* that have ended here; under ctx->progress */
	uint64_t last_shrink; /* the record of the last one, or 0: see shrink.h */
	uint64_t shrunk_by;   /* the record of the one that made this, or 0 */
	int n_windows;        /* live */
	bool closing; /* its last call: nothing may be written to a peer that the call does not wait
	                 for */

	uint64_t *fail; /* failure word: in the control slab's record if there is one */
	uint64_t fail_private;
	bool fail_spread;        /* the word was passed on to the members that this rank has met */
	uint64_t watched_at;     /* when the members of other nodes were last put under watch */
	struct comm_rec *rec;    /* my record in ctl->comms; NULL if no member shares memory */
	struct mbox *boxes;      /* [world local index][queue], in the pool; NULL without rec */
	struct plan_state *plan; /* plan/: channels, cache; NULL until the first collective */
	struct p2p *p2p;         /* p2p/: NULL until the first send or receive */
	uint32_t n_reqs;         /* requests that the user has not completed */
};

/* Failure words: culprit's world rank + 1 (32 bits), call number (30 bits), abort flag. */
#define COMM_FAIL_ABORT (UINT64_C(1) << 63)
static inline uint64_t
comm_fail_word(int world_rank, uint64_t call)
{
	return (uint64_t)(uint32_t)(world_rank + 1) | (call & 0x3fffffff) << 32;
}

/* NULL, freed, forked, expelled: the error. */
int comm_enter(const oriel_comm *comm);
/* Publishes c, whose description, rank, size and ids are set; refs becomes 1. On error nothing is
 * left but c. */
int comm_make(oriel_comm *c);
/*
 * For shrink number of parent: the ranks that are not in left_out (a bit each). On
 * an error the others find what they made aborted.
 */
int comm_make_rest(oriel_comm *parent, uint64_t number, const uint64_t *left_out, oriel_comm **out);
/* Drops a reference; the last one frees. */
void comm_put(oriel_comm *c);
/* At the context's end: frees those that were not freed, but for the world. */
void comm_free_left(oriel_ctx *ctx);
/* World rank of r, 0 <= r < size. */
int comm_world_rank(const oriel_comm *comm, int r);
/* Rank in comm of a world rank, or -1. */
int comm_rank_of(const oriel_comm *comm, int world_rank);
/* The peer of comm's rank r. ERANK names r. */
int comm_peer(const oriel_comm *comm, int r, struct peer **peer);

/*
 * Sets the failure word here and at every member that can be reached, first
 * writer wins; returns the word that stands here.
 */
uint64_t comm_fail(oriel_comm *comm, uint64_t word);
/* The same under ctx->progress; streams that wait on the communicator's windows are the caller's.
 */
uint64_t comm_fail_locked(oriel_comm *comm, uint64_t word);
static inline uint64_t
comm_failed(const oriel_comm *comm)
{
	return load_acquire(comm->fail);
}
/* The error of a failure word: EABORTED or EPEER, naming culprit, its reason if known, and call. */
int comm_fail_error(const oriel_comm *comm, uint64_t word);
/* A member that is known to have failed, or NULL. Asks nobody. */
struct peer *comm_known_failed(const oriel_comm *comm);
/*
 * The same. For waits on anybody; also
 * has the helper watch members that it does not yet (bounded: see comm.c).
 */
struct peer *comm_failed_member(oriel_comm *comm);

/* A collective call begins or ends: EBUSY if one is running. */
int comm_call_refused(oriel_comm *comm);
static inline void
comm_call_end(oriel_comm *comm)
{
	store_release(&comm->in_call, 0);
}
static inline int
comm_call_begin(oriel_comm *comm)
{
	uint32_t idle = 0;

	if (unlikely(!cas_acq_rel(&comm->in_call, &idle, 1)))
		return comm_call_refused(comm);
	if (likely(!comm_failed(comm)))
		return 0;
	comm_call_end(comm);
	return comm_call_refused(comm);
}

/*
 * In coll/: the least status of all ranks, for calls that make or free something
 * on all of them. Returns that status: own if own < 0; otherwise fails with
 * "rank R: …" when another rank's was negative. what names the call.
 */
int comm_agree(oriel_comm *comm, int own, const char *what);
/* In coll/: allgather without argument checks; for split. */
int comm_allgather(oriel_comm *comm, const void *in, void *out, size_t len);
/* In plan/: frees comm->plan. */
void plan_state_free(oriel_comm *comm);
/* In p2p/: frees comm->p2p, before plan_state_free. */
void p2p_free(oriel_comm *comm);

#endif
