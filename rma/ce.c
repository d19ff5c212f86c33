#ifdef HAVE_CUDA_HEADERS
#include "rma/ce.h"

#include "base/copy.h"
#include "rma/ce_cuda.h"

#include <stdlib.h>
#include <string.h>

#define TAKEN UINT64_MAX
#define ASK_NS 1000000u     /* between questions to the driver */
#define GRACE_NS 250000000u /* after a failure: copies that nothing holds up end by then */

/* ---- Life ---- */

static int
make_words(struct ce *ce)
{
	CUdeviceptr at;
	void *p;
	int rc = pool_alloc_zeroed(ce->ctx->pool, sizeof(*ce->word), CACHE_LINE, &p);

	if (rc)
		return rc;
	ce->word = p;
	rc = gpu_host(ce->g, NULL, p, sizeof(*ce->word), &ce->word_dev);
	if (!rc)
		rc = pool_alloc(ce->ctx->pool, (size_t)CE_BUFFERS * CE_BUFFER, CE_BUFFER, &p);
	if (rc)
		return rc;
	ce->memory = p;
	return gpu_host(ce->g, NULL, p, (size_t)CE_BUFFERS * CE_BUFFER, &at);
}

static int
ce_make(oriel_ctx *ctx, struct gpu *g, struct ce **out)
{
	struct ce *ce;
	int rc;

	if (!g->wait_values)
		return fail(ORIEL_ENOTSUP, "GPU %d: its streams cannot write 64-bit words",
		            (int)g->dev);
	ce = calloc(1, sizeof(*ce));
	if (!ce)
		return fail(ORIEL_ENOMEM, "no memory for a GPU's copies");
	ce->ctx = ctx;
	ce->g = g;
	pthread_mutex_init(&ce->lock, NULL);
	rc = make_words(ce);
	if (rc) {
		if (ce->word)
			pool_free(ctx->pool, ce->word);
		if (ce->memory)
			pool_free(ctx->pool, ce->memory);
		pthread_mutex_destroy(&ce->lock);
		free(ce);
		return rc;
	}
	wake_by_streams(&ctx->ctl->wake);
	*out = ce;
	return 0;
}

static int
ce_need(oriel_ctx *ctx, struct ce **out)
{
	struct ce *ce = load_acquire(&ctx->ce);
	struct gpu *g;
	int rc = 0;

	if (unlikely(!ce)) {
		rc = gpu_need(ctx, &g);
		if (rc)
			return rc;
		pthread_mutex_lock(&ctx->lock);
		ce = ctx->ce;
		if (!ce) {
			rc = ce_make(ctx, g, &ce);
			if (!rc)
				store_release(&ctx->ce, ce);
		}
		pthread_mutex_unlock(&ctx->lock);
	}
	*out = ce;
	return rc;
}

int
ce_enter(oriel_ctx *ctx, struct ce **ce, bool *entered)
{
	int rc = ce_need(ctx, ce);

	return rc ? rc : gpu_enter((*ce)->g, entered);
}

void
ce_close(oriel_ctx *ctx)
{
	struct ce *ce = ctx->ce;

	if (!ce)
		return;
	ctx->ce = NULL;
	pthread_mutex_destroy(&ce->lock);
	free(ce); /* its words and buffers go with the pool, which unpins them first */
}

/* ---- What a pointer is ---- */

bool
ce_is_device(oriel_ctx *ctx, const void *p)
{
	struct gpu *g = gpu_of(ctx);
	unsigned slab;
	size_t off;

	/* The pool of the host is most often it, and asking the driver takes longer. */
	return !pool_find(ctx->pool, p, 1, &slab, &off) && gpu_kind(g, p, NULL) >= GPU_DEVICE;
}

/* The driver has pinned all of it. If it does not say so, it is taken not to be. */
static bool
is_pinned(const void *p, size_t len)
{
	CUdeviceptr start = 0;
	size_t size = 0;

	return !CU(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
	                                  (CUdeviceptr)p) &&
	       !CU(cuPointerGetAttribute)(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)p) &&
	       start && range_inside((CUdeviceptr)p - start, len, size);
}

int
ce_reach(struct ce *ce, const void *p, size_t len, enum ce_reach *reach)
{
	enum gpu_kind kind = GPU_HOST;
	unsigned slab;
	size_t off;

	/* Of the pool of the host pieces are pinned, and no copy may go across two. */
	if (!pool_find(ce->ctx->pool, p, 1, &slab, &off))
		kind = gpu_kind(ce->g, p, NULL);
	if (kind == GPU_FAR)
		return fail(ORIEL_ENOTSUP, "%p is memory of a GPU that GPU %d cannot reach", p,
		            (int)ce->g->dev);
	*reach = kind == GPU_DEVICE || (kind == GPU_PINNED && is_pinned(p, len)) ? CE_AT_ONCE
	                                                                         : CE_BOUNCED;
	return 0;
}

/* ---- The stream ---- */

/* Under ce->lock, as the next two. */
static int
copy(struct ce *ce, CUdeviceptr dst, CUdeviceptr src, size_t len)
{
	int rc = gpu_check(CU(cuMemcpyAsync)(dst, src, len, ce->g->stream[0]),
	                   "copying %zu bytes from %p to %p", len, (void *)src, (void *)dst);

	ce->posted += !rc;
	return rc;
}

static int
word(struct ce *ce, CUdeviceptr at, uint64_t value)
{
	return gpu_check(CU(cuStreamWriteValue64)(ce->g->stream[0], at, value, 0),
	                 "writing a word at %p", (void *)at);
}

static int
mark(struct ce *ce)
{
	int rc = 0;

	if (ce->marked != ce->posted)
		rc = word(ce, ce->word_dev, ce->posted);
	if (!rc)
		ce->marked = ce->posted;
	return rc;
}

int
ce_copy(struct ce *ce, CUdeviceptr dst, CUdeviceptr src, size_t len)
{
	int rc;

	pthread_mutex_lock(&ce->lock);
	rc = copy(ce, dst, src, len);
	pthread_mutex_unlock(&ce->lock);
	return rc;
}

int
ce_word(struct ce *ce, CUdeviceptr at, uint64_t value)
{
	int rc;

	pthread_mutex_lock(&ce->lock);
	rc = word(ce, at, value);
	ce->posted += !rc;
	pthread_mutex_unlock(&ce->lock);
	return rc;
}

int
ce_mark(struct ce *ce, uint64_t *at)
{
	int rc;

	pthread_mutex_lock(&ce->lock);
	rc = mark(ce);
	*at = ce->marked;
	pthread_mutex_unlock(&ce->lock);
	return rc;
}

bool
ce_idle(struct ce *ce)
{
	bool idle;

	pthread_mutex_lock(&ce->lock);
	idle = ce->marked == ce->posted && ce_reached(ce, ce->posted);
	pthread_mutex_unlock(&ce->lock);
	return idle;
}

/* ---- Waiting ---- */

int
ce_broken(struct ce *ce)
{
	uint64_t now = now_ns();
	bool entered;
	CUresult r;
	int rc;

	if (now - load_relaxed(&ce->asked_at) < ASK_NS)
		return 0;
	store_relaxed(&ce->asked_at, now);
	rc = gpu_enter(ce->g, &entered);
	if (rc)
		return rc;
	r = CU(cuStreamQuery)(ce->g->stream[0]);
	gpu_leave(entered);
	rc = r == CUDA_ERROR_NOT_READY ? 0 : gpu_check(r, "copies of GPU %d", (int)ce->g->dev);
	if (rc)
		store_release(&ce->broken, rc);
	return rc;
}

struct wait {
	struct ce *ce;
	oriel_win *win;
	const struct target *t;
	uint64_t mark;
	uint64_t failed_at; /* 0: nothing has failed */
	/* For buffers: */
	unsigned want, n;
	unsigned *buffer;
	int rc;
};

static bool
reached(void *arg)
{
	const struct wait *w = arg;

	return ce_reached(w->ce, w->mark);
}

/* What was enqueued ends by itself, and until then it uses the caller's buffers. */
static int
doomed(void *arg)
{
	struct wait *w = arg;
	uint64_t fail_word = comm_failed(w->win->comm), now;
	bool aborted = fail_word & COMM_FAIL_ABORT;
	int rc = ce_broken(w->ce);

	if (rc || (!aborted && !peer_failed(w->t->peer)))
		return rc;
	now = now_ns();
	if (!w->failed_at)
		w->failed_at = now;
	if (now - w->failed_at < GRACE_NS)
		return 0;
	return aborted ? comm_fail_error(w->win->comm, fail_word) : peer_error(w->t->peer);
}

static int
wait_until(struct wait *w, bool (*ready)(void *arg))
{
	int rc = ctx_wait(w->ce->ctx, ready, doomed, w, ctx_call_deadline(w->ce->ctx));

	if (rc == ORIEL_ETIMEDOUT)
		fail(rc,
		     "copies of GPU %d for rank %d are not complete, or held up by a stream that "
		     "waits",
		     (int)w->ce->g->dev, w->t->peer->rank);
	return rc;
}

int
ce_wait(struct ce *ce, uint64_t at, oriel_win *win, const struct target *t)
{
	struct wait w = { .ce = ce, .win = win, .t = t, .mark = at };

	return ce_reached(ce, at) ? 0 : wait_until(&w, reached);
}

/* ---- Buffers ---- */

/* Takes up to w->want of them. If there are none, what they wait for gets its mark. */
static bool
have_buffers(void *arg)
{
	struct wait *w = arg;
	struct ce *ce = w->ce;
	uint64_t now;

	pthread_mutex_lock(&ce->lock);
	now = load_acquire(ce->word);
	for (unsigned i = 0; i < CE_BUFFERS && w->n < w->want; i++) {
		unsigned b = ce->next++ % CE_BUFFERS;

		if (ce->until[b] > now)
			continue;
		ce->until[b] = TAKEN;
		w->buffer[w->n++] = b;
	}
	if (!w->n)
		w->rc = mark(ce);
	pthread_mutex_unlock(&ce->lock);
	return w->n || w->rc;
}

static int
take_buffers(struct ce *ce, const struct ce_end *end, size_t len, unsigned *buffer, unsigned *n)
{
	size_t want = (len + CE_BUFFER - 1) / CE_BUFFER;
	struct wait w = { .ce = ce, .win = end->win, .t = end->t, .buffer = buffer };
	int rc;

	w.want = want < CE_BATCH ? (unsigned)want : CE_BATCH;
	rc = have_buffers(&w) ? 0 : wait_until(&w, have_buffers);
	*n = w.n;
	return rc ? rc : w.rc;
}

static char *
buffer_at(const struct ce *ce, unsigned b)
{
	return ce->memory + (size_t)b * CE_BUFFER;
}

/* They are in use until what is posted now is done. */
static void
give_buffers(struct ce *ce, const unsigned *buffer, unsigned n)
{
	pthread_mutex_lock(&ce->lock);
	for (unsigned i = 0; i < n; i++)
		ce->until[buffer[i]] = ce->posted;
	pthread_mutex_unlock(&ce->lock);
}

static size_t
part(size_t left)
{
	return left < CE_BUFFER ? left : CE_BUFFER;
}

static int
read_end(const struct ce_end *e, size_t at, char *to, size_t len)
{
	if (e->host || e->t->base) {
		copy_bytes(to, (e->host ? e->host : e->t->base + e->disp) + at, len);
		return 0;
	}
	return e->t->tp->get(e->win, e->t, e->disp + at, to, len, NULL);
}

static int
write_end(const struct ce_end *e, size_t at, const char *from, size_t len)
{
	if (e->host || e->t->base) {
		copy_bytes((e->host ? e->host : e->t->base + e->disp) + at, from, len);
		return 0;
	}
	return e->t->tp->put(e->win, e->t, e->disp + at, from, len, NULL);
}

/* The transport has done with the buffers. */
static int
end_settle(const struct ce_end *e)
{
	return e->host || e->t->base ? 0 : e->t->tp->flush(e->win, e->t, true);
}

/* *done: the bytes that are posted. */
static int
batch_in(struct ce *ce, CUdeviceptr dst, const struct ce_end *src, size_t len, size_t *done)
{
	unsigned buffer[CE_BATCH], n;
	size_t at = *done;
	int rc = take_buffers(ce, src, len - at, buffer, &n);

	for (unsigned i = 0; i < n && !rc; i++) {
		rc = read_end(src, at, buffer_at(ce, buffer[i]), part(len - at));
		at += part(len - at);
	}
	if (!rc)
		rc = end_settle(src);
	at = *done;
	for (unsigned i = 0; i < n && !rc; i++) {
		rc = ce_copy(ce, dst + at, (CUdeviceptr)buffer_at(ce, buffer[i]), part(len - at));
		at += part(len - at);
	}
	give_buffers(ce, buffer, n);
	*done = at;
	return rc;
}

int
ce_in(struct ce *ce, CUdeviceptr dst, const struct ce_end *src, size_t len)
{
	int rc = 0;

	for (size_t at = 0; at < len && !rc;)
		rc = batch_in(ce, dst, src, len, &at);
	return rc;
}

static int
batch_out(struct ce *ce, const struct ce_end *dst, CUdeviceptr src, size_t len, size_t *done)
{
	unsigned buffer[CE_BATCH], n;
	size_t at = *done;
	uint64_t there = 0;
	int rc = take_buffers(ce, dst, len - at, buffer, &n);

	for (unsigned i = 0; i < n && !rc; i++) {
		rc = ce_copy(ce, (CUdeviceptr)buffer_at(ce, buffer[i]), src + at, part(len - at));
		at += part(len - at);
	}
	if (!rc)
		rc = ce_mark(ce, &there);
	if (!rc)
		rc = ce_wait(ce, there, dst->win, dst->t);
	at = *done;
	for (unsigned i = 0; i < n && !rc; i++) {
		rc = write_end(dst, at, buffer_at(ce, buffer[i]), part(len - at));
		at += part(len - at);
	}
	if (!rc)
		rc = end_settle(dst);
	give_buffers(ce, buffer, n);
	*done = at;
	return rc;
}

int
ce_out(struct ce *ce, const struct ce_end *dst, CUdeviceptr src, size_t len)
{
	int rc = 0;

	for (size_t at = 0; at < len && !rc;)
		rc = batch_out(ce, dst, src, len, &at);
	return rc;
}
#endif
