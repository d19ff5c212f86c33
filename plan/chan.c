#include "plan/chan.h"

#include "base/copy.h"
#include "plan/box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define PLACE_CHUNK (1u << 20) /* between looks at the failure word */
#define NET_EAGER_MAX ((size_t)16 << 10)
#define WINDOW ((size_t)MBOX_SLOTS * MBOX_SCRATCH) /* bytes under way in scratch */

/* The recorder's counters of a peer: one entry for all channels to it. */
static struct recorder_peer *
counters(oriel_ctx *ctx, int world_rank)
{
	struct recorder *rec = ctx->rec_out;
	struct recorder_peer *found = NULL;
	uint32_t n;

	if (!rec)
		return NULL;
	pthread_mutex_lock(&ctx->lock);
	n = rec->n_peers;
	for (uint32_t i = 0; i < n && !found; i++)
		if (rec->peer[i].rank == world_rank)
			found = &rec->peer[i];
	if (!found && n < RECORDER_PEERS) {
		found = &rec->peer[n];
		found->rank = world_rank;
		store_release(&rec->n_peers, n + 1);
	}
	pthread_mutex_unlock(&ctx->lock);
	return found;
}

static int
use_box(struct chan *c)
{
	c->box = box_find(c->comm->ctx, c->comm->id, c->peer->rank, c->channel, true);
	if (!c->box)
		return fail(ORIEL_ENOMEM, "no memory for a mailbox for rank %d", c->peer->rank);
	c->in = &c->box->mbox;
	return 0;
}

int
chan_make(oriel_comm *comm, int rank, unsigned channel, struct chan **out)
{
	struct chan *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fail(ORIEL_ENOMEM, "no memory for a channel");
	c->comm = comm;
	c->rank = rank;
	c->channel = channel;
	rc = comm_peer(comm, rank, &c->peer);
	if (rc)
		goto free_chan;
	if (c->peer->ctl && comm->boxes)
		c->in = &comm->boxes[(size_t)c->peer->local * MBOX_CHANNELS + channel];
	else
		rc = use_box(c);
	if (rc)
		goto free_chan;
	c->rec = counters(comm->ctx, c->peer->rank);
	if (!c->rec)
		c->rec = &c->uncounted;
	*out = c;
	return 0;

free_chan:
	free(c);
	return rc;
}

void
chan_free(struct chan *c)
{
	free(c);
}

void
chan_adopt(struct chan *c)
{
	struct box *b;

	if (c->heard || c->box)
		return;
	b = box_find(c->comm->ctx, c->comm->id, c->peer->rank, c->channel, false);
	if (b) {
		c->box = b;
		c->in = &b->mbox;
	}
}

/* The peer's record of the communicator, read in one piece. */
static bool
find_record(const struct chan *c, struct comm_rec *copy)
{
	const uint64_t id = c->comm->id;

	for (size_t i = 0; i < CTL_COMMS; i++) {
		const struct comm_rec *r = &c->peer->ctl->comms[(id + i) % CTL_COMMS];
		uint64_t seen = load_acquire(&r->id);

		if (!seen)
			return false;
		if (seen != id)
			continue;
		copy->check = r->check;
		copy->boxes_off = r->boxes_off;
		copy->boxes_slab = r->boxes_slab;
		return load_acquire(&r->id) == id;
	}
	return false;
}

bool
chan_reachable(struct chan *c)
{
	struct comm_rec rec;

	return c->connected || !c->peer->ctl || find_record(c, &rec);
}

int
chan_connect(struct chan *c)
{
	const oriel_comm *comm = c->comm;
	struct comm_rec rec;
	void *box;
	int rc;

	if (c->connected)
		return 0;
	if (!c->peer->ctl) {
		c->connected = true;
		return 0;
	}
	if (!find_record(c, &rec))
		return 0;
	if (rec.check != comm->check)
		return fail(ORIEL_EMISMATCH,
		            "communicator %016llx is another group on rank %d (%016llx) than on "
		            "rank %d (%016llx)",
		            (unsigned long long)comm->id, c->peer->rank,
		            (unsigned long long)rec.check, comm->ctx->boot.rank,
		            (unsigned long long)comm->check);
	if (!rec.boxes_slab) { /* It cannot map this rank's memory, so it expects messages. */
		c->connected = true;
		return 0;
	}
	rc = peer_map(c->peer, rec.boxes_slab - 1,
	              rec.boxes_off + ((size_t)comm->ctx->my_local * MBOX_CHANNELS + c->channel) *
	                                      sizeof(struct mbox),
	              sizeof(struct mbox), &box);
	if (rc)
		return fail_in(rc, "mailbox of communicator %016llx", (unsigned long long)comm->id);
	c->out = box;
	c->wake = &c->peer->ctl->wake;
	c->connected = true;
	return 0;
}

bool
chan_is_mapped(const struct chan *c, unsigned dst)
{
	uint64_t key = load_relaxed(&c->in->ready.buf[dst].key);

	return c->out && key != MBOX_NO_KEY && (key || c->peer->same_process);
}

bool
chan_can_place(struct chan *c, unsigned dst)
{
	if (!c->out)
		return c->box && c->box->key_len[dst] > 0;
	return chan_is_mapped(c, dst) ||
	       (c->in->ready.buf[dst].key != MBOX_NO_KEY && peer_cma(c->peer));
}

size_t
chan_eager_max(const struct chan *c, bool stream)
{
	const struct knobs *k = &c->comm->ctx->knobs;
	size_t max = (size_t)(stream ? k->v.stream_max : k->v.eager_max);
	size_t limit = !c->out ? NET_EAGER_MAX : c->comm->ctx->crowded ? WINDOW : SIZE_MAX;

	return max < limit ? max : limit;
}

bool
chan_should_place(struct chan *c, unsigned dst, size_t len, bool stream)
{
	return chan_is_mapped(c, dst) ||
	       (len > chan_eager_max(c, stream) && chan_can_place(c, dst));
}

/* To (read: from) ordinary memory of another process of the node. */
static int
move_process(struct chan *c, bool read, uint64_t addr, char *own, size_t len)
{
	struct iovec here, there;
	ssize_t n;
	int err;

	while (len) {
		here.iov_base = own;
		here.iov_len = len < PLACE_CHUNK ? len : PLACE_CHUNK;
		there.iov_base = (void *)(uintptr_t)addr;
		there.iov_len = here.iov_len;
		if (comm_failed(c->comm))
			return comm_fail_error(c->comm, comm_failed(c->comm));
		n = (read ? process_vm_readv : process_vm_writev)(c->peer->rec.pid, &here, 1,
		                                                  &there, 1, 0);
		err = n < 0 ? errno : EFAULT;
		if (n < 0 && err == EINTR)
			continue;
		if (n <= 0 && peer_gone(c->peer))
			return peer_error(c->peer);
		if (n <= 0)
			return fail_errno(ORIEL_ETRANSPORT, err,
			                  "%s %zu bytes of rank %d (process %d)",
			                  read ? "reading" : "writing", here.iov_len, c->peer->rank,
			                  (int)c->peer->rec.pid);
		own += n;
		addr += (size_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int
move_mapped(struct chan *c, char *dst, const char *src, size_t len)
{
	while (len) {
		size_t n = len < PLACE_CHUNK ? len : PLACE_CHUNK;

		if (comm_failed(c->comm))
			return comm_fail_error(c->comm, comm_failed(c->comm));
		copy_bytes(dst, src, n);
		dst += n;
		src += n;
		len -= n;
	}
	return 0;
}

static int
place(struct chan *c, unsigned dst, size_t off, const void *src, size_t len)
{
	uint64_t where = c->in->ready.buf[dst].where + off;
	uint64_t key = c->in->ready.buf[dst].key;
	void *to = (void *)(uintptr_t)where;
	int rc;

	if (!c->out)
		return ucx_put_key(c->peer, c->box->rkey[dst], c->box->key_len[dst], where, src,
		                   len);
	if (!key && !c->peer->same_process)
		return move_process(c, false, where, (char *)(uintptr_t)src, len);
	rc = key ? peer_map(c->peer, (unsigned)key - 1, where, len, &to) : 0;
	return rc ? rc : move_mapped(c, to, src, len);
}

/* What the peer looks at to see whether this rank is at its buffers. */
static uint64_t *
placing(struct chan *c)
{
	return c->out ? &c->out->placing.call : &c->box->placing;
}

static void
stop_placing(struct chan *c)
{
	store_release(placing(c), 0);
	if (c->out)
		wake_after_store(c->wake);
}

int
chan_place(struct chan *c, uint64_t call, unsigned dst, size_t off, const void *src, size_t len)
{
	int rc;

	store_relaxed(placing(c), call);
	fence_full();
	rc = comm_failed(c->comm) ? comm_fail_error(c->comm, comm_failed(c->comm))
	                          : place(c, dst, off, src, len);
	/* Puts through ucx are under way until chan_quiet. */
	if (c->out)
		stop_placing(c);
	else
		c->unquiet = true;
	return rc;
}

bool
chan_can_pull(struct chan *c, uint64_t key)
{
	return c->out && key != MBOX_NO_KEY && (key || c->peer->same_process || peer_cma(c->peer));
}

static int
pull(struct chan *c, uint64_t where, uint64_t key, char *dst, size_t len)
{
	void *from = (void *)(uintptr_t)where;
	int rc;

	if (!key && !c->peer->same_process)
		return move_process(c, true, where, dst, len);
	rc = key ? peer_map(c->peer, (unsigned)key - 1, where, len, &from) : 0;
	return rc ? rc : move_mapped(c, dst, from, len);
}

int
chan_pull(struct chan *c, uint64_t call, uint64_t where, uint64_t key, void *dst, size_t len)
{
	int rc;

	store_relaxed(placing(c), call);
	fence_full();
	rc = comm_failed(c->comm) ? comm_fail_error(c->comm, comm_failed(c->comm))
	                          : pull(c, where, key, dst, len);
	/* The bytes first, then the word that says whether they were still the message. */
	fence_full();
	if (!rc && comm_failed(c->comm))
		rc = comm_fail_error(c->comm, comm_failed(c->comm));
	if (!rc)
		rc = ctx_enter(c->comm->ctx);
	stop_placing(c);
	return rc;
}

int
chan_quiet(struct chan *c, uint64_t deadline)
{
	int rc;

	if (!c->unquiet)
		return 0;
	c->unquiet = false;
	rc = ucx_quiet(c->peer, deadline);
	stop_placing(c);
	return rc;
}
