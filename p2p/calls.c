/*
 * calls.c - the public calls: oriel_send, oriel_recv and their kin.
 */
#include "p2p/p2p.h"
#include "rma/gpu.h"

#include <stdlib.h>

#define SPIN_AT_ONCE 50 /* spins before a request is made */

/* ---- Arguments ---- */

static __attribute__((cold, noinline)) int
bad_args(const oriel_comm *comm, const char *what, int rank, int tag, const void *buf, size_t len)
{
	if (rank < 0 || rank >= comm->size)
		return fail(ORIEL_ERANK, "%s %d: the communicator has ranks 0 to %d", what, rank,
		            comm->size - 1);
	if (tag < 0 || tag > (int)LINE_NUMBER_MASK)
		return fail(ORIEL_EINVAL, "tag %d: tags are 0 to %u", tag, LINE_NUMBER_MASK);
	return fail(ORIEL_EINVAL, "the buffer is %p and len is %zu", buf, len);
}

static inline bool
buffer_ok(const void *buf, size_t len)
{
	return likely((buf || !len) && len <= PTRDIFF_MAX);
}

/* With a GPU a buffer may be memory that the CPU cannot touch. */
static __attribute__((noinline)) int
check_memory(const oriel_comm *comm, const void *buf)
{
	return gpu_holds(comm->ctx, buf)
	               ? fail(ORIEL_ENOTSUP,
	                      "%p is device memory: send and receive take host memory", buf)
	               : 0;
}

static inline int
check_send(const oriel_comm *comm, int target, int tag, const void *buf, size_t len)
{
	if (likely((unsigned)target < (unsigned)comm->size && (unsigned)tag <= LINE_NUMBER_MASK &&
	           buffer_ok(buf, len)))
		return unlikely(comm->ctx->gpu != NULL) ? check_memory(comm, buf) : 0;
	return bad_args(comm, "target", target, tag, buf, len);
}

static inline int
check_recv(const oriel_comm *comm, int source, int tag, const void *buf, size_t len)
{
	if (likely(((unsigned)source < (unsigned)comm->size || source == ORIEL_ANY) &&
	           ((unsigned)tag <= LINE_NUMBER_MASK || tag == ORIEL_ANY) && buffer_ok(buf, len)))
		return unlikely(comm->ctx->gpu != NULL) ? check_memory(comm, buf) : 0;
	return bad_args(comm, "source", source == ORIEL_ANY ? 0 : source,
	                tag == ORIEL_ANY ? 0 : tag, buf, len);
}

static __attribute__((cold, noinline)) int
enter_slow(oriel_comm *comm)
{
	int rc = comm_enter(comm);

	if (!rc && comm_failed(comm))
		rc = comm_fail_error(comm, comm_failed(comm));
	return rc ? rc : p2p_make(comm);
}

/* The communicator lives, and has comm->p2p. */
static inline int
enter(oriel_comm *comm)
{
	if (likely(comm && comm->magic == COMM_MAGIC && load_relaxed(comm->ctx->alive) &&
	           !comm->ctx->expelled && load_acquire(&comm->p2p) && !comm_failed(comm)))
		return 0;
	return enter_slow(comm);
}

/* ---- Requests ---- */

static inline void
init(struct p2p_req *r, struct p2p *p, bool is_send, int tag, const void *buf, size_t len,
     struct oriel_status *status)
{
	r->p = p;
	r->link = NULL;
	r->is_send = is_send;
	r->handle = r->exposed = false;
	r->state = REQ_DONE;
	r->done = 0;
	r->rc = 0;
	r->tag = tag;
	r->buf = (char *)(uintptr_t)buf;
	r->len = len;
	r->size = r->moved = 0;
	r->status = status;
}

/* Under the lock. An error: the request has not begun. rank: ORIEL_ANY for a receive from anybody.
 */
static inline int
start(struct p2p_req *r, int rank)
{
	struct p2p *p = r->p;
	struct link *k = NULL;
	int rc = 0;

	if (unlikely(p->broken))
		return fail(p->broken, "%s", p->why);
	if (likely(rank >= 0))
		rc = link_get(p, rank, &k);
	if (unlikely(rc))
		return rc;
	if (r->is_send)
		send_start(r, k);
	else
		recv_start(r, k);
	return 0;
}

/* Of a blocking call. */
static inline int
finish(struct p2p_req *r)
{
	if (unlikely(r->rc))
		p2p_settle(r);
	return p2p_result(r);
}

/*
 * ---- The short ways ----
 * of a short message to a mapped rank that nothing else is under way with. They
 * do what the states would do, without a request.
 */

static inline bool
send_at_once(struct p2p *p, int target, int tag, const void *buf, size_t len)
{
	struct link *k = dir_get(&p->links, target);
	struct line l = { .len = (uint32_t)len, .number = (uint32_t)tag, .what = LINE_EAGER };

	if (unlikely(!k || !k->chan || !k->chan->out || len > p->eager || p->broken ||
	             !TAILQ_EMPTY(&k->waits) || !chan_has_credit(k->chan)))
		return false;
	l.kind = len <= MBOX_LINE_DATA ? WIRE_INLINE : WIRE_SCRATCH;
	link_put(k, l, buf);
	return true;
}

/* Looks for the next line, for as long as nothing else wants this thread. */
static inline bool
comes_soon(struct p2p *p, struct chan *c)
{
	const uint64_t *word = &c->in->line[c->seen % MBOX_SLOTS].seq;
	oriel_ctx *ctx = c->comm->ctx;

	for (unsigned i = 0; i < SPIN_AT_ONCE; i++) {
		uint64_t seen = load_relaxed(word);

		if (likely(message_came(c)))
			return true;
		if (c->box || p2p_wanted(p) || load_relaxed(&ctx->n_tasks) ||
		    !TAILQ_EMPTY(&p->busy) || load_relaxed(p->comm->fail))
			return false;
		oriel_spin(ctx, word, seen, ctx->crowded ? P2P_SPIN_BRIEFLY : P2P_SPIN_ROUNDS);
		if (load_relaxed(word) != seen)
			continue;
		if (ctx->crowded)
			return false;
		ctx_progress(ctx);
	}
	return false;
}

/* The link if the next line is the message that is wanted, and fits. */
static inline struct link *
next_is_it(struct p2p *p, int source, int tag, size_t room, struct line *l)
{
	struct link *k = source >= 0 ? dir_get(&p->links, source) : NULL;
	struct chan *c = k ? k->chan : NULL;
	uint64_t meta;

	if (unlikely(!c || p->broken || p->n_any || !TAILQ_EMPTY(&k->source.posted) ||
	             !TAILQ_EMPTY(&k->source.came) || !comes_soon(p, c)))
		return NULL;
	meta = load_relaxed(&c->in->line[c->seen % MBOX_SLOTS].meta);
	*l = line_unpack(meta);
	if (unlikely(!line_is_eager(meta, *l) || l->len > room ||
	             (tag != (int)l->number && tag != ORIEL_ANY)))
		return NULL;
	return k;
}

static inline bool
recv_at_once(struct p2p *p, int source, int tag, void *buf, size_t len, struct oriel_status *status)
{
	struct line l;
	struct link *k = next_is_it(p, source, tag, len, &l);
	const struct mbox *in;
	uint64_t slot;

	if (unlikely(!k))
		return false;
	in = k->chan->in;
	slot = k->chan->seen % MBOX_SLOTS;
	if (l.len)
		copy_short(buf, l.kind == WIRE_INLINE ? in->line[slot].data : in->scratch[slot],
		           l.len);
	link_taken(k);
	if (status)
		*status = (struct oriel_status){ source, (int)l.number, l.len };
	return true;
}

/* ---- Blocking ---- */

/* With the lock, which it gives away. */
static __attribute__((noinline)) int
run(oriel_comm *comm, bool is_send, int rank, int tag, const void *buf, size_t len,
    struct oriel_status *status)
{
	uint64_t deadline = 0;
	struct p2p_req r;
	int rc;

	init(&r, comm->p2p, is_send, tag, buf, len, status);
	rc = start(&r, rank);
	if (likely(!rc))
		p2p_wait(&r, &deadline);
	p2p_unlock(r.p);
	return unlikely(rc) ? rc : finish(&r);
}

int
oriel_send(oriel_comm *comm, int target, int tag, const void *buf, size_t len)
{
	int rc = enter(comm);

	if (likely(!rc))
		rc = check_send(comm, target, tag, buf, len);
	if (unlikely(rc))
		return rc;
	p2p_lock(comm->p2p);
	if (unlikely(!send_at_once(comm->p2p, target, tag, buf, len)))
		return run(comm, true, target, tag, buf, len, NULL);
	p2p_unlock(comm->p2p);
	return 0;
}

int
oriel_recv(oriel_comm *comm, int source, int tag, void *buf, size_t len,
           struct oriel_status *status)
{
	int rc = enter(comm);

	if (likely(!rc))
		rc = check_recv(comm, source, tag, buf, len);
	if (unlikely(rc))
		return rc;
	p2p_lock(comm->p2p);
	if (unlikely(!recv_at_once(comm->p2p, source, tag, buf, len, status)))
		return run(comm, false, source, tag, buf, len, status);
	p2p_unlock(comm->p2p);
	return 0;
}

int
oriel_sendrecv(oriel_comm *comm, int target, int send_tag, const void *out, size_t out_len,
               int source, int recv_tag, void *in, size_t in_len, struct oriel_status *status)
{
	struct p2p_req send, recv;
	uint64_t deadline = 0;
	int rc = enter(comm);

	if (!rc)
		rc = check_send(comm, target, send_tag, out, out_len);
	if (!rc)
		rc = check_recv(comm, source, recv_tag, in, in_len);
	if (rc)
		return rc;
	init(&recv, comm->p2p, false, recv_tag, in, in_len, status);
	init(&send, comm->p2p, true, send_tag, out, out_len, NULL);
	p2p_lock(recv.p);
	rc = start(&recv, source);
	if (rc) {
		p2p_unlock(recv.p);
		return rc;
	}
	rc = start(&send, target);
	if (rc) {
		/* No memory for a link, say: the other half would wait for ever. */
		p2p_break(recv.p, rc, comm->ctx->boot.rank);
	} else {
		p2p_wait(&send, &deadline);
	}
	p2p_wait(&recv, &deadline);
	p2p_unlock(recv.p);
	if (!rc)
		rc = finish(&send);
	if (!rc)
		return finish(&recv);
	if (recv.rc)
		p2p_settle(&recv);
	return rc;
}

/* ---- Nonblocking ---- */

static bool
handle_ready(const oriel_req *req)
{
	return load_acquire(&((const struct p2p_req *)req)->done);
}

static int
handle_doomed(oriel_req *req)
{
	p2p_watch_for((struct p2p_req *)req);
	return 0;
}

static int
handle_done(oriel_req **req)
{
	struct p2p_req *r = (struct p2p_req *)*req;
	int rc = finish(r);

	add_release(&r->p->comm->n_reqs, -1u);
	req_bury(req);
	return rc;
}

static const struct req_ops handle_ops = {
	.ready = handle_ready,
	.doomed = handle_doomed,
	.done = handle_done,
	.name = p2p_name,
};

static int
start_handle(oriel_comm *comm, bool is_send, int rank, int tag, const void *buf, size_t len,
             struct oriel_status *status, oriel_req **out)
{
	struct p2p *p = comm->p2p;
	struct p2p_req *r;
	int rc;

	if (!out)
		return fail(ORIEL_EINVAL, "req is NULL");
	r = malloc(sizeof(*r));
	if (!r)
		return fail(ORIEL_ENOMEM, "no memory for a request");
	init(r, p, is_send, tag, buf, len, status);
	req_init(&r->req, comm->ctx, &handle_ops);
	r->handle = true;
	p2p_lock(p);
	store_relaxed(&p->n_open, p->n_open + 1);
	rc = start(r, rank);
	if (rc)
		store_relaxed(&p->n_open, p->n_open - 1);
	p2p_unlock(p);
	if (rc) {
		free(r);
		return rc;
	}
	add_release(&comm->n_reqs, 1);
	p2p_attend(p);
	*out = &r->req;
	return 0;
}

int
oriel_isend(oriel_comm *comm, int target, int tag, const void *buf, size_t len, oriel_req **req)
{
	int rc = enter(comm);

	if (!rc)
		rc = check_send(comm, target, tag, buf, len);
	return rc ? rc : start_handle(comm, true, target, tag, buf, len, NULL, req);
}

int
oriel_irecv(oriel_comm *comm, int source, int tag, void *buf, size_t len,
            struct oriel_status *status, oriel_req **req)
{
	int rc = enter(comm);

	if (!rc)
		rc = check_recv(comm, source, tag, buf, len);
	return rc ? rc : start_handle(comm, false, source, tag, buf, len, status, req);
}

/* ---- Probe ---- */

static const struct kept *
look(struct p2p *p, struct link *k, int tag)
{
	const struct match_msg *msg = match_look(&p->match, k ? &k->source : NULL, tag);

	return msg ? container_of(msg, const struct kept, msg) : NULL;
}

/* Whatever has come is taken in, so that the message asked for is found behind any others. */
static void
take_all(struct p2p *p, struct link *k)
{
	if (k) {
		if (k->chan)
			link_take(k, true);
		return;
	}
	SLIST_FOREACH(k, &p->all, next)
	{
		if (k->chan && !p->broken)
			link_take(k, true);
	}
}

static int
probe(struct p2p *p, int source, int tag, const struct kept **found)
{
	struct link *k = NULL;
	int rc = source >= 0 ? link_get(p, source, &k) : 0;
	struct peer *failed;

	if (rc)
		return rc;
	*found = look(p, k, tag);
	if (*found)
		return 0;
	failed = p2p_watch(p, k);
	p2p_turn(p); /* meets strangers, now and then */
	take_all(p, k);
	*found = look(p, k, tag);
	if (!*found && failed)
		p2p_blame(p, failed);
	return p->broken ? fail(p->broken, "probe: %s", p->why) : 0;
}

int
oriel_probe(oriel_comm *comm, int source, int tag, int *found, struct oriel_status *status)
{
	const struct kept *m = NULL;
	int rc = enter(comm);

	if (!rc)
		rc = check_recv(comm, source, tag, NULL, 0);
	if (rc)
		return rc;
	if (!found)
		return fail(ORIEL_EINVAL, "found is NULL");
	ctx_progress(comm->ctx);
	tasks_turn(comm->ctx);
	p2p_lock(comm->p2p);
	rc = comm->p2p->broken ? fail(comm->p2p->broken, "%s", comm->p2p->why)
	                       : probe(comm->p2p, source, tag, &m);
	if (!rc && m && status)
		*status = (struct oriel_status){
			container_of(m->msg.source, struct link, source)->rank, m->msg.tag, m->len
		};
	if (!rc)
		*found = m != NULL;
	p2p_unlock(comm->p2p);
	return rc;
}
