/*
 * stream_exchange.c - hosts tell one another where the buffers of a stream call are.
 */
#ifdef HAVE_CUDA_HEADERS
#include "plan/stream_impl.h"

#include <string.h>

/* ---- Telling ---- */

static bool
has_room(const struct chan *c)
{
	const struct stream_cells *own = stream_cells(c->in);

	return c->records_told - load_acquire(&own->taken) < STREAM_RECORDS;
}

static void
tell(struct stream_call *sc, struct chan *c, const struct stream_record *record)
{
	uint64_t number = c->records_told + 1;
	struct stream_record *r = &stream_cells(c->out)->record[c->records_told % STREAM_RECORDS];

	memcpy((char *)r + sizeof(r->number), (const char *)record + sizeof(r->number),
	       sizeof(*r) - sizeof(r->number));
	ctx_delay(sc->l->ctx);
	store_release(&r->number, number);
	c->records_told = number;
	wake_after_store(c->wake);
}

/* ---- Reading ---- */

static bool
is_told(const struct chan *c)
{
	const struct stream_record *r =
	        &stream_cells(c->in)->record[c->records_read % STREAM_RECORDS];

	return load_acquire(&r->number) == c->records_read + 1;
}

static int
map_buffers(struct stream_call *sc, struct chan *c, struct stream_edge *e,
            const struct stream_record *r)
{
	const struct launch *l = sc->l;
	int rc = 0;

	for (int b = OUT; b < MBOX_BUFS && !rc; b++) {
		e->base[b] = 0;
		if (l->plan->count[b] && r->buf[b].kind)
			rc = gpu_map(sc->st->g, c->peer, &r->buf[b], l->size[b], &e->base[b]);
		if (!rc && e->base[b])
			rc = stream_keep_map(sc, e->base[b]);
	}
	return rc ? fail_in(rc, "buffer of rank %d", c->rank) : 0;
}

static int
read_record(struct stream_call *sc, struct chan *c, struct stream_edge *e)
{
	const struct stream_record *r =
	        &stream_cells(c->in)->record[c->records_read % STREAM_RECORDS];
	struct stream_record copy;

	memcpy(&copy, r, sizeof(copy));
	c->records_read++;
	store_release(&stream_cells(c->out)->taken, c->records_read);
	wake_after_store(c->wake);
	if (copy.hash != sc->l->hash) {
		sc->l->culprit = c->peer->rank;
		return fail(ORIEL_EMISMATCH,
		            "call %llu on a stream: rank %d has another call, size or algorithm "
		            "than %s with blocks of %zu bytes here",
		            (unsigned long long)sc->st->calls, c->rank, sc->l->plan->program->name,
		            sc->l->block);
	}
	return map_buffers(sc, c, e, &copy);
}

/* ---- All of it ---- */

struct exchange {
	struct stream_call *sc;
	struct stream_record record; /* what this rank tells */
	int error;
};

static int
connect(struct stream_call *sc, struct chan *c, bool *is)
{
	const struct stream_cells *in = stream_cells(c->in);
	int rc = 0;

	*is = false;
	if (!c->connected && chan_reachable(c))
		rc = chan_connect(c);
	if (rc || !c->connected)
		return rc;
	if (!c->out)
		return fail(ORIEL_ENOTSUP,
		            "rank %d is on another node, or shares no memory: calls on streams "
		            "do not reach it",
		            c->rank);
	if (!c->dev_in)
		rc = gpu_host(sc->st->g, NULL, in, sizeof(*in), &c->dev_in);
	if (!rc && !c->dev_out)
		rc = gpu_host(sc->st->g, c->peer, stream_cells(c->out), sizeof(*in), &c->dev_out);
	*is = !rc;
	return rc;
}

/* True: all is told and read, or there is an error. Edges in order: nobody waits for a later one
 * with an earlier one undone. */
static bool
go_on(void *arg)
{
	struct exchange *x = arg;
	struct stream_call *sc = x->sc;
	const struct plan *plan = sc->l->plan;
	bool is;

	for (; sc->told < plan->n_edges; sc->told++) {
		struct chan *c = sc->l->chan[sc->told];

		x->error = connect(sc, c, &is);
		if (x->error || !is)
			return x->error != 0;
		if (!plan->edges[sc->told].expect)
			continue;
		if (!has_room(c))
			return false;
		tell(sc, c, &x->record);
	}
	for (; sc->read < plan->n_edges; sc->read++) {
		struct chan *c = sc->l->chan[sc->read];

		if (!plan->edges[sc->read].sends)
			continue;
		if (!is_told(c))
			return false;
		x->error = read_record(sc, c, &sc->edge[sc->read]);
		if (x->error)
			return true;
	}
	return true;
}

static int
doomed(void *arg)
{
	struct exchange *x = arg;
	oriel_comm *comm = x->sc->l->comm;
	const struct plan *plan = x->sc->l->plan;

	if (comm_failed(comm))
		return comm_fail_error(comm, comm_failed(comm));
	for (uint32_t e = 0; e < plan->n_edges; e++) {
		struct peer *p = x->sc->l->chan[e]->peer;

		if (!peer_failed(p))
			continue;
		x->sc->l->culprit = p->rank;
		return peer_error(p);
	}
	return 0;
}

static int
timed_out(const struct stream_call *sc)
{
	const struct plan *plan = sc->l->plan;
	uint64_t at = sc->told < plan->n_edges ? sc->told : sc->read;
	const struct chan *c = sc->l->chan[at];

	sc->l->culprit = c->peer->rank;
	return fail(ORIEL_ETIMEDOUT, "%s, call %llu on a stream: rank %d has not made it",
	            plan->program->name, (unsigned long long)sc->st->calls, c->rank);
}

/* Where OUT and TMP are; what others do not write is not told. */
static int
describe(const struct stream_call *sc, struct stream_record *r)
{
	const struct launch *l = sc->l;
	int rc = 0;

	memset(r, 0, sizeof(*r));
	r->hash = l->hash;
	for (int b = OUT; b < MBOX_BUFS && !rc; b++)
		if (l->base[b] && l->size[b])
			rc = gpu_describe(sc->st->g, l->base[b], l->size[b], &r->buf[b]);
	return rc;
}

int
stream_exchange(struct stream_call *sc)
{
	struct exchange x = { .sc = sc };
	int rc = describe(sc, &x.record);

	sc->told = sc->read = 0;
	if (!rc && !go_on(&x))
		rc = ctx_wait(sc->l->ctx, go_on, doomed, &x, ctx_call_deadline(sc->l->ctx));
	if (rc == ORIEL_ETIMEDOUT)
		return timed_out(sc);
	return rc ? rc : x.error;
}
#endif
