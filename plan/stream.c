/*
 * stream.c - a call on a stream, from its arguments to the last op enqueued; and
 * what frees waiting streams after a failure.
 */
#include "plan/stream.h"

#include "rma/gpu.h"

bool
stream_holds(const oriel_ctx *ctx, const void *p)
{
	return gpu_holds(ctx, p);
}

#ifdef HAVE_CUDA_HEADERS
#include "plan/stream_impl.h"

#include "coll/select.h"

#include <stdlib.h>
#include <string.h>

#define TMP_LEAST ((size_t)1 << 20)

/* ---- A communicator's state ---- */

static int
make_events(struct stream_state *st)
{
	CUevent *events[] = { &st->fork, &st->join, &st->last };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(events) && !rc; i++)
		rc = gpu_check(CU(cuEventCreate)(events[i], CU_EVENT_DISABLE_TIMING),
		               "cuEventCreate");
	return rc;
}

static int
make_done(struct stream_state *st)
{
	oriel_ctx *ctx = st->comm->ctx;
	void *p;
	int rc = pool_alloc_zeroed(ctx->pool, CACHE_LINE, CACHE_LINE, &p);

	if (rc)
		return rc;
	st->done = p;
	return gpu_host(st->g, NULL, p, sizeof(*st->done), &st->dev_done);
}

static void
drop_maps(struct stream_state *st, uint64_t done)
{
	struct stream_map **at = &st->maps, *m;

	while ((m = *at)) {
		if (m->number > done) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		gpu_unmap(st->g, m->at);
		free(m);
	}
}

int
stream_keep_map(struct stream_call *sc, CUdeviceptr at)
{
	struct stream_map *m = malloc(sizeof(*m));

	if (!m) {
		gpu_unmap(sc->st->g, at);
		return fail(ORIEL_ENOMEM, "no memory to keep a mapping");
	}
	*m = (struct stream_map){ sc->st->maps, sc->captured ? UINT64_MAX : sc->number, at };
	sc->st->maps = m;
	return 0;
}

static void
free_state(struct stream_state *st)
{
	CUevent events[] = { st->fork, st->join, st->last };
	struct stream_old *old;
	bool entered;

	if (gpu_enter(st->g, &entered))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i])
			CU(cuEventDestroy)(events[i]);
	gpu_leave(entered);
	drop_maps(st, UINT64_MAX);
	stream_short_free(st);
	pool_free(st->comm->ctx->pool, st->done);
	while ((old = st->old)) {
		st->old = old->next;
		pool_free(st->g->pool, old->ptr);
		free(old);
	}
	pool_free(st->g->pool, st->tmp);
	free(st);
}

static int
make_state(oriel_comm *comm, struct gpu *g)
{
	struct stream_state *st = calloc(1, sizeof(*st));
	int rc;

	if (!st)
		return fail(ORIEL_ENOMEM, "no memory for a communicator's calls on streams");
	st->comm = comm;
	st->g = g;
	rc = make_events(st);
	if (!rc)
		rc = make_done(st);
	if (rc) {
		free_state(st);
		return rc;
	}
	comm->plan->stream = st;
	pthread_mutex_lock(&comm->ctx->streams_lock);
	st->next = comm->ctx->streams;
	comm->ctx->streams = st;
	pthread_mutex_unlock(&comm->ctx->streams_lock);
	return 0;
}

void
stream_state_free(oriel_comm *comm)
{
	struct stream_state *st = comm->plan ? comm->plan->stream : NULL, **at;

	if (!st)
		return;
	pthread_mutex_lock(&comm->ctx->streams_lock);
	for (at = &comm->ctx->streams; *at != st;)
		at = &(*at)->next;
	*at = st->next;
	pthread_mutex_unlock(&comm->ctx->streams_lock);
	comm->plan->stream = NULL;
	free_state(st);
}

/* ---- Failures ---- */

/* Every cell of this rank that a stream of its own may wait on. */
static void
release(struct stream_state *st)
{
	struct peer_dir *d = &st->comm->plan->chans;
	uint64_t value = STREAM_RELEASE + (load_relaxed(&st->eager) << STREAM_STEP_BITS);

	if (load_relaxed(&st->sh.words))
		store_release(&st->sh.words[0], 1);

	for (int i = 0; i < d->n_chunks; i++) {
		struct chan **chunk = load_acquire(&d->chunk[i]) ? (void *)d->chunk[i] : NULL;

		for (int j = 0; chunk && j < DIR_CHUNK; j++) {
			struct chan *c = load_acquire(&chunk[j]);
			struct stream_cells *cells = c ? stream_cells(c->in) : NULL;

			if (!c || !load_relaxed(&c->dev_in))
				continue;
			store_release(&cells->signal, value);
			store_release(&cells->ready, value);
			store_release(&cells->captured_signal, STREAM_RELEASE);
			store_release(&cells->captured_ready, STREAM_RELEASE);
		}
	}
}

void
stream_watch(oriel_ctx *ctx)
{
	if (likely(!load_relaxed(&ctx->streams)))
		return;
	pthread_mutex_lock(&ctx->streams_lock);
	for (struct stream_state *st = ctx->streams; st; st = st->next) {
		struct peer *p = comm_failed(st->comm) ? NULL : comm_known_failed(st->comm);

		if (p)
			comm_fail(st->comm, comm_fail_word(p->rank, load_relaxed(&st->calls)));
		if (comm_failed(st->comm))
			release(st);
	}
	pthread_mutex_unlock(&ctx->streams_lock);
}

/* ---- A call ---- */

static int
bind_plan(oriel_comm *comm, struct instance *inst)
{
	struct launch *l = inst->stream;
	int rc;

	if (l)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return fail(ORIEL_ENOMEM, "no memory for a call of %s", inst->plan->program->name);
	/* The mailboxes of the first slot: their cells are apart from what calls of the host use.
	 */
	rc = instance_connect_slot(comm, inst, l, 0);
	if (rc) {
		free(l);
		return rc;
	}
	inst->stream = l;
	return 0;
}

/* TMP; it only grows. */
static int
take_scratch(struct stream_state *st, size_t size)
{
	size_t want = st->tmp_size ? st->tmp_size : TMP_LEAST;
	struct stream_old *old;
	void *p;
	int rc;

	if (size <= st->tmp_size)
		return 0;
	while (want < size)
		want *= 2;
	old = malloc(sizeof(*old));
	if (!old)
		return fail(ORIEL_ENOMEM, "no memory to keep scratch");
	rc = pool_alloc(st->g->pool, want, CACHE_LINE, &p);
	if (rc) {
		free(old);
		return fail_in(rc, "%zu bytes of scratch in the GPU", want);
	}
	if (st->tmp) {
		*old = (struct stream_old){ st->old, st->tmp };
		st->old = old;
	} else {
		free(old);
	}
	st->tmp = p;
	st->tmp_size = want;
	return 0;
}

static int
shape(struct stream_call *sc, const struct binding *b)
{
	struct launch *l = sc->l;
	int rc = launch_sizes(l, b);

	if (!rc)
		rc = take_scratch(sc->st, l->size[TMP]);
	if (rc)
		return rc;
	l->hash = wire_hash(l->plan->hash ^ selection_hash(l->ctx->selection) ^
	                            (uint64_t)b->salt << 32 ^ sc->captured,
	                    b->block, b->bytes);
	l->binding = b;
	l->base[IN] = b->buf[IN];
	l->base[OUT] = b->buf[OUT];
	l->base[TMP] = sc->st->tmp;
	return 0;
}

int
stream_follow(const struct stream_call *sc)
{
	struct stream_state *st = sc->st;

	if (!st->any_last || st->last_stream == sc->s || sc->captured)
		return 0;
	return gpu_check(CU(cuStreamWaitEvent)(sc->s, st->last, 0), "cuStreamWaitEvent");
}

int
stream_leave_mark(const struct stream_call *sc)
{
	struct stream_state *st = sc->st;
	int rc;

	if (sc->captured)
		return 0;
	st->last_stream = sc->s;
	st->any_last = true;
	rc = gpu_check(CU(cuStreamWriteValue64)(sc->s, st->dev_done, sc->number, 0),
	               "cuStreamWriteValue64");
	return rc ? rc : gpu_check(CU(cuEventRecord)(st->last, sc->s), "cuEventRecord");
}

static int
enqueue(struct stream_call *sc, const struct binding *b)
{
	int rc = bind_plan(sc->st->comm, sc->inst);

	if (rc)
		return rc;
	sc->l = sc->inst->stream;
	sc->l->culprit = -1;
	sc->edge = calloc(sc->inst->plan->n_edges + 1, sizeof(*sc->edge));
	if (!sc->edge)
		return fail(ORIEL_ENOMEM, "no memory for a call on a stream");
	rc = shape(sc, b);
	if (!rc)
		rc = stream_exchange(sc);
	if (!rc)
		rc = stream_follow(sc);
	if (!rc)
		rc = stream_enqueue(sc);
	if (!rc)
		rc = stream_leave_mark(sc);
	free(sc->edge);
	return rc;
}

static int
is_captured(CUstream s, bool *is)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	int rc = gpu_check(CU(cuStreamIsCapturing)(s, &status), "cuStreamIsCapturing");

	*is = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return rc;
}

int
stream_state_get(oriel_comm *comm, struct stream_state **out)
{
	struct plan_state *s;
	struct gpu *g;
	bool entered;
	int rc = plan_state_get(comm, &s);

	if (!rc)
		rc = gpu_need(comm->ctx, &g);
	if (!rc && !s->stream) {
		rc = gpu_enter(g, &entered);
		if (!rc)
			rc = make_state(comm, g);
		gpu_leave(entered);
	}
	*out = rc ? NULL : s->stream;
	return rc;
}

int
stream_call_begin(oriel_comm *comm, CUstream s, struct stream_call *sc, bool *entered)
{
	int rc;

	*sc = (struct stream_call){ .s = s };
	rc = stream_state_get(comm, &sc->st);
	if (!rc)
		rc = gpu_enter(sc->st->g, entered);
	if (rc)
		return rc;
	rc = is_captured(s, &sc->captured);
	if (rc) {
		gpu_leave(*entered);
		return rc;
	}
	store_relaxed(&sc->st->calls, sc->st->calls + 1);
	if (!sc->captured)
		store_relaxed(&sc->st->eager, sc->st->eager + 1);
	sc->number = sc->st->eager;
	drop_maps(sc->st, load_acquire(sc->st->done));
	return 0;
}

int
stream_call_end(struct stream_call *sc, int rc, bool entered)
{
	/* What was enqueued can no longer end by itself. */
	if (rc)
		rc = launch_fail_unmade(sc->st->comm, sc->st->calls, sc->l ? sc->l->culprit : -1,
		                        rc);
	gpu_leave(entered);
	return rc;
}

int
stream_run(oriel_comm *comm, struct instance *inst, const struct binding *b,
           struct CUstream_st *stream)
{
	struct stream_call sc;
	bool entered;
	int rc = stream_call_begin(comm, stream, &sc, &entered);

	if (rc)
		return rc;
	sc.inst = inst;
	return stream_call_end(&sc, enqueue(&sc, b), entered);
}

/* ---- Waiting ---- */

struct CUstream_st *
stream_own(const oriel_ctx *ctx)
{
	return gpu_of(ctx) ? gpu_of(ctx)->stream[0] : NULL;
}

struct waiting {
	struct gpu *g;
	CUstream s;
	CUresult result;
};

static bool
is_over(void *arg)
{
	struct waiting *w = arg;
	bool entered;

	if (gpu_enter(w->g, &entered)) {
		w->result = CUDA_ERROR_UNKNOWN;
		return true;
	}
	w->result = CU(cuStreamQuery)(w->s);
	gpu_leave(entered);
	return w->result != CUDA_ERROR_NOT_READY;
}

int
stream_wait(oriel_comm *comm, struct CUstream_st *stream)
{
	struct waiting w = { .g = gpu_of(comm->ctx), .s = stream };
	/* Failures end it, too: the stream is let go by the helper. */
	int rc = ctx_wait(comm->ctx, is_over, NULL, &w, ctx_call_deadline(comm->ctx));

	if (rc == ORIEL_ETIMEDOUT) {
		comm_fail(comm, comm_fail_word(comm->ctx->boot.rank, comm->n_calls));
		ctx_wait(comm->ctx, is_over, NULL, &w, ORIEL_FOREVER);
		return fail(rc, "a call on device memory took longer than ORIEL_CALL_TIMEOUT");
	}
	if (!rc && comm_failed(comm))
		return comm_fail_error(comm, comm_failed(comm));
	return rc ? rc : gpu_check(w.result, "waiting for a stream");
}

#else

struct CUstream_st *
stream_own(const oriel_ctx *ctx)
{
	(void)ctx;
	return NULL;
}

int
stream_wait(oriel_comm *comm, struct CUstream_st *stream)
{
	struct gpu *g;

	(void)stream;
	return gpu_need(comm->ctx, &g);
}

int
stream_run(oriel_comm *comm, struct instance *inst, const struct binding *b,
           struct CUstream_st *stream)
{
	struct gpu *g;

	(void)inst;
	(void)b;
	(void)stream;
	return gpu_need(comm->ctx, &g);
}

void
stream_state_free(oriel_comm *comm)
{
	(void)comm;
}

void
stream_watch(oriel_ctx *ctx)
{
	(void)ctx;
}
#endif
