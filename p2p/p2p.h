/*
 * p2p.h - send and receive inside: requests, and links to the ranks that they
 * are with.
 *
 * A request is one send or receive, on the stack of a blocking call or on the
 * heap behind an oriel_req. Until it is done it stands in exactly one queue: of
 * receives that wait for their message (p2p/match.h), or of its link by what it
 * waits for. Whoever holds the lock may take any request any step further, so
 * blocking and nonblocking calls of all threads go through the same states:
 *
 *	send	SEND_WAITS -> done                              (eager)
 *	        SEND_WAITS -> SEND_ASKED -> SEND_CLEARED [-> SEND_FLUSHES] -> done
 *	        SEND_WAITS -> SEND_ASKED -> done                (pulled)
 *	receive	RECV_POSTED -> done                             (eager)
 *	        RECV_POSTED -> RECV_MATCHED -> RECV_CLEARED -> done
 *	        RECV_POSTED -> RECV_MATCHED -> RECV_PULLS -> done
 *
 * Nonblocking requests are brought on by a task of the context; blocking ones
 * by their own threads, without task or allocation.
 *
 * Failure: the communicator's failure word ends all requests (p2p_break). A
 * peer that was cleared to write a receive's buffer, or told where to read a
 * send's, may be at it: the user gets the buffer back when it has left it alone
 * (p2p_settle). For what a reader reads after all see chan_pull.
 *
 * Lock: p2p->lock (p2p/lock.h) lies between ctx->task_lock and ctx->lock. It is
 * held while lines move and bytes are copied, and while a thread spins on the one
 * word that it waits for, unless another wants it. The helper only tries it.
 * p2p_break may be called where it is held, and nowhere else. A word and the
 * sleeper's fence cost a short call a quarter of what a mutex does.
 */
#ifndef P2P_P2P_H
#define P2P_P2P_H

#include "p2p/line.h"
#include "p2p/lock.h"
#include "p2p/match.h"
#include "plan/message.h"
#include "rma/req.h"
#include "rma/task.h"

#define P2P_SPIN_ROUNDS 100 /* looks at the awaited word between looks at everything else */
/*
 * Where ranks share CPUs, before the CPU is given away: less than that costs, and a
 * peer that runs just now on another CPU answers within it. So pairs that take turns
 * stay in step, instead of changing places for every message.
 */
#define P2P_SPIN_BRIEFLY 32
/* What the word "placing" of these channels holds while bytes are put or pulled. */
#define LINK_PLACING 1
#define LINK_STEP (4u << 20) /* bytes of messages copied before others have a turn */

enum p2p_state {
	SEND_WAITS,   /* behind other sends, for credit, or for the peer's communicator */
	SEND_ASKED,   /* for its receive, which may pull it */
	SEND_CLEARED, /* bytes are under way */
	SEND_FLUSHES, /* they are out, but puts still read the buffer */
	RECV_POSTED,
	RECV_MATCHED, /* the peer is to be told */
	RECV_CLEARED, /* bytes are under way */
	RECV_PULLS,   /* this rank reads them, and then tells the peer */
	REQ_DONE
};

struct p2p_req {
	struct oriel_req req; /* first; of nonblocking ones */
	struct match_recv recv;
	TAILQ_ENTRY(p2p_req) entry;
	struct p2p *p;
	struct link *link;         /* NULL: a receive from anybody, not matched */
	enum p2p_state state, was; /* was: when the communicator failed */
	bool handle;               /* the user's: it is on the heap */
	bool is_send;
	bool exposed; /* a peer may write or pull buf, or puts may read it */
	uint32_t done;
	int rc;
	int tag; /* of the message, or wanted */
	char *buf;
	size_t len;      /* of buf */
	size_t size;     /* of the message; 0 until it has come */
	size_t moved;    /* of them, bytes there */
	uint64_t id;     /* of a send, on its link */
	uint64_t mark;   /* ucx_quiet_start */
	uint32_t number; /* of the receive, on its link */
	struct oriel_status *status;
	union {
		struct line_ask ask;     /* of a receive: what was asked */
		struct line_clear clear; /* of a send: what came back, and a key */
	};
	char key[UCX_KEY_MAX];
};

TAILQ_HEAD(p2p_reqs, p2p_req);

struct link {
	struct match_source source; /* first */
	struct p2p *p;
	struct chan *chan; /* NULL: this rank itself */
	int rank;
	unsigned n_reqs;           /* not done, with this rank */
	bool owes;                 /* credit, told as soon as it can be */
	size_t kept;               /* bytes of messages that no receive has wanted yet */
	uint64_t n_sends, n_recvs; /* ids given */
	struct p2p_reqs waits, asked, cleared, flushes; /* sends */
	struct p2p_reqs matched, landing, pulls;        /* receives */
	TAILQ_ENTRY(link) busy;
	SLIST_ENTRY(link) next;
};

SLIST_HEAD(links, link);
TAILQ_HEAD(busy_links, link);

struct p2p {
	struct lock lock;
	oriel_comm *comm;
	struct match match;
	struct peer_dir links; /* by rank */
	struct links all;
	struct busy_links busy; /* with requests that are not done */
	size_t eager;           /* the longest message that is sent at once */
	size_t bound;           /* of link->kept, while nobody waits for the peer */
	unsigned n_any;         /* receives from anybody that are posted */
	uint32_t n_open;        /* nonblocking requests that are not done */
	uint32_t attended;      /* the task is in the context's list */
	uint64_t turns, looks;  /* of anybody; of the task */
	int *strangers; /* by local index: the rank of one whose mailbox may be looked into, or -1
	                 */
	uint64_t boxes; /* box_count at the last look */
	int broken;     /* what all requests end with */
	char why[400];
	struct task task;
};

/* A message that has come before its receive. */
struct kept {
	struct match_msg msg; /* first */
	enum { KEPT_EAGER, KEPT_ASK, KEPT_SELF } kind;
	size_t len;
	union {
		struct line_ask ask;  /* KEPT_ASK */
		struct p2p_req *send; /* KEPT_SELF: its buffer is the message */
	};
	char data[]; /* KEPT_EAGER */
};

/* ---- p2p.c: the communicator's part ---- */

/* comm->p2p, made if it is not there. */
int p2p_make(oriel_comm *comm);
void p2p_lock_slow(struct p2p *p);
void p2p_unlock_slow(struct p2p *p);
static inline bool
p2p_trylock(struct p2p *p)
{
	return likely(lock_try(&p->lock));
}
static inline void
p2p_lock(struct p2p *p)
{
	if (unlikely(!p2p_trylock(p)))
		p2p_lock_slow(p);
}
static inline void
p2p_unlock(struct p2p *p)
{
	if (unlikely(lock_give(&p->lock)))
		p2p_unlock_slow(p);
}
/* Another thread would like to have the lock. */
static inline bool
p2p_wanted(const struct p2p *p)
{
	return lock_wanted(&p->lock);
}
/*
 * The communicator is of no more use, for rc (with its detail) and because of
 * the world rank culprit, or because its failure word is set already (rc 0). All
 * requests end.
 */
void p2p_break(struct p2p *p, int rc, int culprit);
/* The request is done with rc; it may be gone when this returns. */
void p2p_end(struct p2p_req *r, int rc);
/* The same for one that has never stood in a queue. */
void p2p_end_at_once(struct p2p_req *r, int rc);
/* The same because this peer has failed. */
void p2p_blame(struct p2p *p, struct peer *peer);
/* Its buffer is nobody else's any more. Without the lock; r is done. */
void p2p_settle(struct p2p_req *r);
/* The result, with its detail, and the status, for the user. */
int p2p_result(struct p2p_req *r);
void p2p_name(const oriel_req *req, char *text, size_t cap);

/* ---- turn.c: what keeps requests going ---- */

/* One look at all that may go on. True if anything did. */
bool p2p_turn(struct p2p *p);
/* The link to a rank that is not known yet, if it has sent something. */
void p2p_discover(struct p2p *p);
/* Somebody waits for the rank (NULL: for any): has it watched. The peer that has failed, or NULL.
 */
struct peer *p2p_watch(struct p2p *p, struct link *k);
/* The same for all requests, of which some are perhaps only tested now and then. */
void p2p_watch_all(struct p2p *p);
/* For a request that somebody waits for. Without the lock. */
void p2p_watch_for(struct p2p_req *r);
/* The task, once there is something to do for it. Without the lock. */
void p2p_attend(struct p2p *p);
/*
 * With the lock, which it gives away at times: until r is done. *deadline: 0 if
 * it was not worth finding out yet.
 */
void p2p_wait(struct p2p_req *r, uint64_t *deadline);

/* ---- link.c: lines ---- */

int link_get(struct p2p *p, int rank, struct link **out);
void link_free(struct link *k);
/* Takes in what has come as long as it is wanted, or anyway (greedy). True if anything was. */
bool link_take(struct link *k, bool greedy);
/* Tells the peer what can be told now. */
bool link_tell(struct link *k);
/* An error of the link's channel is the communicator's end. */
void link_broke(struct link *k, int rc);
/* There is a credit and a connection for one line. Errors break the communicator. */
bool link_open(struct link *k);
/* One line; link_open was true. False: the communicator is broken. */
bool link_line(struct link *k, unsigned what, uint32_t number, const void *data, size_t len);
/* The same for a mapped mailbox, where it cannot fail. */
static inline void
link_put(struct link *k, struct line l, const void *data)
{
	struct chan *c = k->chan;
	struct mbox *out = c->out;
	uint64_t slot = c->sent % MBOX_SLOTS;

	if (l.len)
		copy_short(l.kind == WIRE_INLINE ? out->line[slot].data : out->scratch[slot], data,
		           l.len);
	ctx_delay(c->comm->ctx);
	mbox_publish(out, c->sent, line_pack(l), wire_seq(0, c->sent));
	ctx_delay(c->comm->ctx);
	wake_after_store(c->wake);
	c->sent++;
	count_up(&c->rec->sent);
}
/* Tells the peer what was taken in, if that is due. */
void link_pay(struct link *k);
/* Message c->seen was taken in. */
static inline void
link_taken(struct link *k)
{
	struct chan *c = k->chan;

	c->seen++;
	c->heard = true;
	count_up(&c->rec->seen);
	if (owes_credit(c))
		link_pay(k);
}
/* A request with this rank begins. */
void link_enter(struct link *k, struct p2p_req *r);
/* A receive or a send with the peer needs that its lines are taken in. */
static inline bool
link_hungry(const struct link *k)
{
	return k->p->n_any || !TAILQ_EMPTY(&k->source.posted) || !TAILQ_EMPTY(&k->asked) ||
	       !TAILQ_EMPTY(&k->landing);
}

/* ---- send.c and recv.c: the states ---- */

void send_start(struct p2p_req *r, struct link *k);
/* A line has come. False: it makes no sense. */
bool send_on_clear(struct link *k, const char *data, size_t len);
bool send_on_pulled(struct link *k, uint32_t number);
bool send_tell(struct link *k);

/* k NULL: from anybody. */
void recv_start(struct p2p_req *r, struct link *k);
bool recv_on_message(struct link *k, int tag, const char *data, size_t len);
bool recv_on_ask(struct link *k, int tag, const char *data, size_t len);
bool recv_on_piece(struct link *k, uint32_t number, const char *data, size_t len);
bool recv_on_placed(struct link *k, uint32_t number);
bool recv_tell(struct link *k);
/* To this rank itself: a receive takes it, or it is kept. */
void recv_on_self(struct p2p_req *send);

#endif
