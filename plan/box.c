#include "plan/box.h"

#include <stdlib.h>
#include <string.h>

struct boxes {
	pthread_mutex_t lock; /* taken with ctx->progress held; nothing is taken under it */
	struct box *head;
	uint64_t made;
	struct table
	        *ended; /* ids of communicators that failed and are freed: lines may still come */
};

struct chan_line_msg { /* AM_CHAN; the payload follows as data */
	uint64_t comm;
	uint64_t meta, seq;
	uint32_t channel, pad;
};

struct chan_credit_msg { /* AM_CREDIT */
	uint64_t comm;
	uint64_t consumed;
	uint32_t channel, pad;
};

struct chan_ready_msg { /* AM_READY; the keys of the buffers follow as data */
	uint64_t comm;
	uint64_t call, hash;
	uint64_t where[MBOX_BUFS];
	uint32_t key_len[MBOX_BUFS];
	uint32_t channel;
};

struct chan_placing_msg { /* AM_PLACING: a question */
	uint64_t token;
	uint64_t comm;
	uint32_t channel, pad;
};

_Static_assert(sizeof(struct chan_ready_msg) <= AM_HDR_MAX, "fits a message's header");
_Static_assert(MBOX_BUFS *UCX_KEY_MAX <= AM_DATA_MAX && MBOX_SCRATCH <= AM_DATA_MAX,
               "fits a message's payload");

int
chan_open(oriel_ctx *ctx)
{
	ctx->boxes = calloc(1, sizeof(*ctx->boxes));
	if (ctx->boxes)
		ctx->boxes->ended = table_create();
	if (!ctx->boxes || !ctx->boxes->ended) {
		free(ctx->boxes);
		ctx->boxes = NULL;
		return fail(ORIEL_ENOMEM, "no memory for the table of mailboxes");
	}
	pthread_mutex_init(&ctx->boxes->lock, NULL);
	return 0;
}

static void
drop(struct boxes *t, uint64_t comm, bool all)
{
	struct box *b = NULL, *next;

	pthread_mutex_lock(&t->lock);
	HASH_ITER(hh, t->head, b, next)
	{
		if (all || b->key.comm == comm) {
			HASH_DEL(t->head, b);
			free(b);
		}
	}
	pthread_mutex_unlock(&t->lock);
}

void
chan_close(oriel_ctx *ctx)
{
	if (!ctx->boxes)
		return;
	drop(ctx->boxes, 0, true);
	table_free(ctx->boxes->ended);
	pthread_mutex_destroy(&ctx->boxes->lock);
	free(ctx->boxes);
	ctx->boxes = NULL;
}

void
chan_drop_boxes(oriel_comm *comm)
{
	struct boxes *t = comm->ctx->boxes;

	/* Members that have not noticed yet still send; out of memory, they will be failed for it.
	 */
	if (comm_failed(comm))
		table_put(t->ended, comm->id, t);
	drop(t, comm->id, false);
}

static struct box *
box_make(struct boxes *t, const struct box_key *key)
{
	struct box *b = aligned_alloc(CACHE_LINE, round_up(sizeof(*b), CACHE_LINE));

	if (!b)
		return NULL;
	/* Scratch stays as it is: nothing of it is read before it is written. */
	memset(b, 0, offsetof(struct box, mbox) + offsetof(struct mbox, scratch));
	b->key = *key;
	HASH_ADD(hh, t->head, key, sizeof(b->key), b);
	store_relaxed(&t->made, t->made + 1);
	return b;
}

static struct box *
box_find_locked(struct boxes *t, uint64_t comm, int rank, unsigned channel, bool make)
{
	const struct box_key key = { .comm = comm, .rank = (uint32_t)rank, .channel = channel };
	struct box *b;

	HASH_FIND(hh, t->head, &key, sizeof(key), b);
	return b || !make ? b : box_make(t, &key);
}

struct box *
box_find(oriel_ctx *ctx, uint64_t comm, int rank, unsigned channel, bool make)
{
	struct box *b;

	pthread_mutex_lock(&ctx->boxes->lock);
	b = box_find_locked(ctx->boxes, comm, rank, channel, make);
	pthread_mutex_unlock(&ctx->boxes->lock);
	return b;
}

uint64_t
box_count(oriel_ctx *ctx)
{
	return load_relaxed(&ctx->boxes->made);
}

size_t
box_ranks(oriel_ctx *ctx, uint64_t comm, unsigned channel, int *ranks, size_t max)
{
	struct box *b = NULL, *next;
	size_t n = 0;

	pthread_mutex_lock(&ctx->boxes->lock);
	HASH_ITER(hh, ctx->boxes->head, b, next)
	{
		if (b->key.comm == comm && b->key.channel == channel && n < max)
			ranks[n++] = (int)b->key.rank;
	}
	pthread_mutex_unlock(&ctx->boxes->lock);
	return n;
}

/* The sender broke the rules of the channel: nothing that it sends can be trusted any more. */
static void
bad_sender(const struct am_msg *m, const char *what)
{
	peer_fail(m->from, false, "it sent a %s that breaks the rules of channels", what);
}

/* False: the line does not follow from the lines before it, or the slot is still in use. */
static bool
deposit(struct box *b, const struct chan_line_msg *h, struct wire w, const void *data)
{
	uint64_t slot = b->came % MBOX_SLOTS;

	if (!wire_fresh(h->seq, b->came) || b->came - load_acquire(&b->given) >= MBOX_SLOTS)
		return false;
	if (w.len)
		memcpy(w.kind == WIRE_INLINE ? b->mbox.line[slot].data : b->mbox.scratch[slot],
		       data, w.len);
	mbox_publish(&b->mbox, b->came, h->meta, h->seq);
	b->came++;
	return true;
}

void
chan_on_message(oriel_ctx *ctx, const struct am_msg *m)
{
	struct chan_line_msg h;
	struct wire w;
	struct box *b;
	bool good;

	if (m->hdr_len != sizeof(h)) {
		bad_sender(m, "line");
		return;
	}
	memcpy(&h, m->hdr, sizeof(h));
	w = wire_unpack(h.meta);
	if (h.channel >= MBOX_CHANNELS || !wire_sane(w) || w.len != m->len) {
		bad_sender(m, "line");
		return;
	}
	if (table_get(ctx->boxes->ended, h.comm))
		return;
	pthread_mutex_lock(&ctx->boxes->lock);
	b = box_find_locked(ctx->boxes, h.comm, m->from->rank, h.channel, true);
	good = b && deposit(b, &h, w, m->data);
	pthread_mutex_unlock(&ctx->boxes->lock);
	if (!b)
		peer_fail(m->from, false, "there is no memory for its lines");
	else if (!good)
		bad_sender(m, "line");
	wake_after_store(&ctx->ctl->wake);
}

/* A credit never comes first, so it makes no mailbox; it may come after the communicator's end. */
void
chan_on_credit(oriel_ctx *ctx, const struct am_msg *m)
{
	struct chan_credit_msg h;
	struct box *b;

	if (m->hdr_len != sizeof(h)) {
		bad_sender(m, "credit");
		return;
	}
	memcpy(&h, m->hdr, sizeof(h));
	pthread_mutex_lock(&ctx->boxes->lock);
	b = box_find_locked(ctx->boxes, h.comm, m->from->rank, h.channel, false);
	if (b)
		store_release(&b->mbox.credit.consumed, h.consumed);
	pthread_mutex_unlock(&ctx->boxes->lock);
	wake_after_store(&ctx->ctl->wake);
}

static bool
ready_sane(const struct am_msg *m, struct chan_ready_msg *h)
{
	size_t keys = 0;

	if (m->hdr_len != sizeof(*h))
		return false;
	memcpy(h, m->hdr, sizeof(*h));
	for (int i = 0; i < MBOX_BUFS; i++) {
		if (h->key_len[i] > UCX_KEY_MAX)
			return false;
		keys += h->key_len[i];
	}
	return h->channel < MBOX_CHANNELS && keys == m->len;
}

void
chan_on_ready(oriel_ctx *ctx, const struct am_msg *m)
{
	const char *keys = m->data;
	struct chan_ready_msg h;
	struct box *b;

	if (!ready_sane(m, &h)) {
		bad_sender(m, "ready");
		return;
	}
	if (table_get(ctx->boxes->ended, h.comm))
		return;
	pthread_mutex_lock(&ctx->boxes->lock);
	b = box_find_locked(ctx->boxes, h.comm, m->from->rank, h.channel, true);
	for (int i = 0; b && i < MBOX_BUFS; i++) {
		b->mbox.ready.buf[i].where = h.where[i];
		b->key_len[i] = h.key_len[i];
		if (h.key_len[i])
			memcpy(b->rkey[i], keys, h.key_len[i]);
		keys += h.key_len[i];
	}
	if (b) {
		mbox_publish_ready(&b->mbox, h.call, h.hash);
	}
	pthread_mutex_unlock(&ctx->boxes->lock);
	if (!b)
		peer_fail(m->from, false, "there is no memory for its mailbox");
	wake_after_store(&ctx->ctl->wake);
}

int
chan_send(struct chan *c, uint64_t meta, uint64_t seq, const void *data, size_t len)
{
	const struct chan_line_msg h = {
		.comm = c->comm->id, .meta = meta, .seq = seq, .channel = c->channel
	};

	return am_send(c->peer, AM_CHAN, &h, sizeof(h), data, len);
}

int
chan_credit(struct chan *c)
{
	const struct chan_credit_msg h = { .comm = c->comm->id,
		                           .consumed = c->seen,
		                           .channel = c->channel };

	c->credited = c->seen;
	if (c->box)
		store_release(&c->box->given, c->seen);
	if (c->out) {
		mbox_give_credit(c->out, c->seen);
		wake_after_store(c->wake);
		return 0;
	}
	return am_send(c->peer, AM_CREDIT, &h, sizeof(h), NULL, 0);
}

static void
ready_in_place(struct chan *c, char *const base[MBOX_BUFS], const size_t size[MBOX_BUFS],
               size_t limit, uint64_t call, uint64_t hash)
{
	struct mbox_ready *r = &c->out->ready;
	unsigned slab;
	size_t off;

	r->buf[0].where = limit; /* of IN, which is nobody's destination */
	for (int i = 1; i < MBOX_BUFS; i++) {
		bool pool = size[i] && pool_find(c->comm->ctx->pool, base[i], size[i], &slab, &off);

		r->buf[i].where = pool ? off : (uintptr_t)base[i];
		store_relaxed(&r->buf[i].key, pool ? slab + 1 : size[i] ? 0 : MBOX_NO_KEY);
	}
	mbox_publish_ready(c->out, call, hash);
	wake_after_store(c->wake);
}

int
chan_ready(struct chan *c, char *const base[MBOX_BUFS], const size_t size[MBOX_BUFS], size_t limit,
           uint64_t call, uint64_t hash)
{
	struct chan_ready_msg h = {
		.comm = c->comm->id, .call = call, .hash = hash, .channel = c->channel
	};
	char keys[MBOX_BUFS * UCX_KEY_MAX];
	size_t used = 0, len;
	int rc;

	c->ready_told = call;
	if (c->out) {
		ready_in_place(c, base, size, limit, call, hash);
		return 0;
	}
	h.where[0] = limit;
	for (int i = 1; i < MBOX_BUFS; i++) {
		if (!size[i])
			continue;
		len = UCX_KEY_MAX;
		rc = ucx_mem_key(c->comm->ctx, base[i], size[i], keys + used, &len);
		if (rc)
			return rc;
		h.where[i] = (uintptr_t)base[i];
		h.key_len[i] = (uint32_t)len;
		used += len;
	}
	return am_send(c->peer, AM_READY, &h, sizeof(h), keys, used);
}

/* "Are you writing my buffers?" The failure word came before it, so a no stays one. */
void
chan_on_placing(oriel_ctx *ctx, const struct am_msg *m)
{
	struct chan_placing_msg h;
	uint64_t call = 0;
	struct box *b;

	if (m->hdr_len != sizeof(h)) {
		bad_sender(m, "question");
		return;
	}
	memcpy(&h, m->hdr, sizeof(h));
	fence_full();
	pthread_mutex_lock(&ctx->boxes->lock);
	b = box_find_locked(ctx->boxes, h.comm, m->from->rank, h.channel, false);
	if (b)
		call = load_acquire(&b->placing);
	pthread_mutex_unlock(&ctx->boxes->lock);
	am_answer(ctx, m, h.token, 0, &call, sizeof(call));
}

static bool
ask_left_alone(struct chan *c, uint64_t call, uint64_t deadline)
{
	struct chan_placing_msg h = { .comm = c->comm->id, .channel = c->channel };
	uint64_t answer = call;
	size_t len = sizeof(answer);
	int rc;

	do {
		rc = am_call(c->peer, AM_PLACING, &h, sizeof(h), NULL, 0, &answer, &len, deadline);
	} while (!rc && answer == call && now_ns() < deadline);
	return rc == ORIEL_EPEER || (!rc && answer != call);
}

struct leaving {
	struct chan *c;
	uint64_t call;
};

static bool
has_left(void *arg)
{
	struct leaving *l = arg;

	return load_acquire(&l->c->in->placing.call) != l->call || load_acquire(&l->c->peer->dead);
}

bool
chan_left_alone(struct chan *c, uint64_t call, uint64_t deadline)
{
	struct leaving l = { c, call };

	if (c->ready_told != call)
		return true;
	if (!c->out)
		return ask_left_alone(c, call, deadline);
	fence_full();
	return !ctx_wait(c->comm->ctx, has_left, NULL, &l, deadline);
}
