#include "rma/peer.h"

#include "rma/am.h"
#include "rma/awaited.h"
#include "rma/gpu.h"
#include "rma/ucx.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A process that ends gives up its files and memory some time before it counts as ended. */
#define GONE_MS 1000

/* Opens a memfd of another process of the node by its number there. */
static int
open_fd_of(const struct peer *p, int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)p->rec.pid, fd);
	return open(path, flags | O_CLOEXEC);
}

static int
map_fd_of(const struct peer *p, int fd, size_t size, void **ptr)
{
	int here = open_fd_of(p, fd, O_RDWR), err;
	void *m;

	if (here < 0)
		return errno;
	m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, here, 0);
	err = errno;
	close(here);
	if (m == MAP_FAILED)
		return err;
	*ptr = m;
	return 0;
}

/* The pid could be another process's by now, or of another pid namespace: the token tells. */
static bool
is_ctl_of(const struct ctl *ctl, const struct peer *p)
{
	return ctl->magic == CTL_MAGIC && ctl->version == CTL_VERSION && ctl->rank == p->rank &&
	       ctl->token == p->rec.token;
}

static void
peer_map_ctl(struct peer *p)
{
	oriel_ctx *ctx = p->ctx;
	void *m = NULL;
	int err;

	if (p->rec.host != ctx->rec.host) {
		snprintf(p->why_not, sizeof(p->why_not),
		         "the launcher says same node, but /proc is not shared with it");
		return;
	}
	p->same_process = p->rec.pid == ctx->rec.pid;
	if (p->same_process) {
		m = (void *)(uintptr_t)p->rec.ctl_base;
	} else {
		err = map_fd_of(p, p->rec.ctl_fd, p->rec.ctl_size, &m);
		if (err) {
			snprintf(p->why_not, sizeof(p->why_not),
			         "opening and mapping /proc/%d/fd/%d: %s", (int)p->rec.pid,
			         (int)p->rec.ctl_fd, strerror(err));
			return;
		}
	}
	if (!is_ctl_of(m, p)) {
		snprintf(p->why_not, sizeof(p->why_not), "process %d is not rank %d's",
		         (int)p->rec.pid, p->rank);
		if (!p->same_process)
			munmap(m, p->rec.ctl_size);
		return;
	}
	p->ctl = m;
	p->ring = &p->ctl->rings[ctx->my_local];
}

static int
peer_fetch(struct peer *p)
{
	oriel_ctx *ctx = p->ctx;
	size_t len = sizeof(p->rec);
	int rc;

	if (p->rank == ctx->boot.rank) {
		p->rec = ctx->rec;
		return 0;
	}
	rc = boot_get(&ctx->boot, p->rank, "rec", &p->rec, &len,
	              (uint64_t)ctx->knobs.v.boot_timeout);
	if (rc)
		return fail_in(rc, "record of rank %d", p->rank);
	if (len < offsetof(struct boot_rec, ucx) || p->rec.ucx_len > BOOT_REC_UCX ||
	    len < offsetof(struct boot_rec, ucx) + p->rec.ucx_len)
		return fail(ORIEL_EBOOT, "record of rank %d is %zu bytes, too short", p->rank, len);
	return 0;
}

static struct peer *
peer_new(oriel_ctx *ctx, int rank)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p) {
		fail(ORIEL_ENOMEM, "no memory for the record of rank %d", rank);
		return NULL;
	}
	p->ctx = ctx;
	p->rank = rank;
	p->local = boot_local_index(&ctx->boot, rank);
	p->pidfd = -1;
	pthread_mutex_init(&p->send_lock, NULL);
	pthread_mutex_init(&p->wake_lock, NULL);
	return p;
}

/* Its record is there: finds the way to it. */
static void
peer_place(struct peer *p)
{
	oriel_ctx *ctx = p->ctx;

	if (p->rank == ctx->boot.rank) {
		p->same_process = true;
		p->ctl = ctx->ctl;
		p->ring = &ctx->ctl->rings[ctx->my_local];
	} else if (p->local < 0) {
		snprintf(p->why_not, sizeof(p->why_not), "another node");
	} else if (!list_has(ctx->knobs.s.transports, "direct")) {
		snprintf(p->why_not, sizeof(p->why_not), "ORIEL_TRANSPORTS has no \"direct\"");
	} else {
		peer_map_ctl(p);
	}
	if (p->ctl && !p->same_process)
		p->pidfd = (int)syscall(SYS_pidfd_open, p->rec.pid, 0);
	p->seen_at = now_ns();
}

/* Publishes p, or frees it if another thread was first or there is no memory. */
static int
peer_publish(struct peer *p, struct peer **peer)
{
	oriel_ctx *ctx = p->ctx;
	int rc = 0;

	pthread_mutex_lock(&ctx->peers_lock);
	*peer = peer_find(ctx, p->rank);
	if (!*peer)
		rc = dir_set(&ctx->peers, p->rank, p);
	pthread_mutex_unlock(&ctx->peers_lock);
	if (*peer || rc) {
		peer_free(p);
		return rc;
	}
	*peer = p;
	return 0;
}

int
peer_get(oriel_ctx *ctx, int rank, struct peer **peer)
{
	struct peer *p;
	int rc = 0;

	*peer = peer_find(ctx, rank);
	if (*peer)
		return 0;
	pthread_mutex_lock(&ctx->lock); /* one question to the bootstrap at a time */
	*peer = peer_find(ctx, rank);
	if (*peer)
		goto unlock;
	p = peer_new(ctx, rank);
	rc = p ? peer_fetch(p) : ORIEL_ENOMEM;
	if (rc) {
		if (p)
			peer_free(p);
		goto unlock;
	}
	peer_place(p);
	rc = peer_publish(p, peer);
unlock:
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

int
peer_meet(oriel_ctx *ctx, int rank, const struct boot_rec *rec, struct peer **peer)
{
	struct peer *p;

	*peer = peer_find(ctx, rank);
	if (*peer)
		return 0;
	p = peer_new(ctx, rank);
	if (!p)
		return ORIEL_ENOMEM;
	p->rec = *rec;
	peer_place(p);
	return peer_publish(p, peer);
}

int
peer_open_local(oriel_ctx *ctx)
{
	int rc;

	ctx->local = calloc((size_t)ctx->boot.n_local, sizeof(*ctx->local));
	if (!ctx->local)
		return fail(ORIEL_ENOMEM, "no memory for %d ranks of the node", ctx->boot.n_local);
	for (int i = 0; i < ctx->boot.n_local; i++) {
		rc = peer_get(ctx, ctx->boot.local[i], &ctx->local[i]);
		if (rc)
			return rc;
	}
	return 0;
}

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

int
peer_take_fd(const struct peer *p, int fd)
{
	if (p->pidfd < 0) {
		errno = ENOSYS; /* pidfd_open is refused, so this is */
		return -1;
	}
	return (int)syscall(SYS_pidfd_getfd, p->pidfd, fd, 0);
}

void
peer_free(struct peer *p)
{
	gpu_peer_free(p);
	if (p->ctl && !p->same_process) {
		for (unsigned i = 0; i < POOL_MAX_SLABS; i++)
			if (p->slab[i])
				munmap(p->slab[i], p->ctl->slabs[i].size);
		munmap(p->ctl, p->rec.ctl_size);
	}
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->wake_fd > 0)
		close(p->wake_fd);
	pthread_mutex_destroy(&p->send_lock);
	pthread_mutex_destroy(&p->wake_lock);
	free(p);
}

void
peer_fail(struct peer *p, bool dead, const char *fmt, ...)
{
	oriel_ctx *ctx = p->ctx;
	char why[sizeof(p->why)];
	uint32_t nobody = 0;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (dead)
		store_release(&p->dead, true);
	if (!cas_acq_rel(&p->failed_claim, &nobody, 1))
		return;
	memcpy(p->why, why, sizeof(why));
	p->failed_at = now_ns();
	p->next_failed = load_relaxed(&ctx->failed_peers);
	while (!cas_acq_rel(&ctx->failed_peers, &p->next_failed, p))
		;
	store_release(&p->failed, 1);
	log_at(LOG_WARN, "rank %d: rank %d has failed: %s", ctx->boot.rank, p->rank, why);
	wake_after_store(&ctx->ctl->wake);
	awaited_call_helper(ctx);
	if (ctx->ucx && p->ucx)
		ucx_wake(ctx);
}

void
peer_leave(struct peer *p)
{
	store_release(&p->left, true);
	if (!load_acquire(&p->ctx->leaving))
		peer_fail(p, true, "it has ended its context");
}

int
peer_error(const struct peer *p)
{
	return fail(ORIEL_EPEER, "rank %d (process %d) has failed: %s", p->rank, (int)p->rec.pid,
	            p->why);
}

bool
peer_gone(struct peer *p)
{
	struct pollfd end = { .fd = p->pidfd, .events = POLLIN };

	if (peer_failed(p))
		return true;
	if (p->same_process || p->pidfd < 0 || poll(&end, 1, GONE_MS) <= 0)
		return false;
	peer_fail(p, true, "process %d has ended", (int)p->rec.pid);
	return true;
}

static int
map_slab(struct peer *p, unsigned id)
{
	const struct ctl_slab *s = &p->ctl->slabs[id];
	void *m = NULL;
	int err;

	if (!load_acquire(&s->live))
		return fail(ORIEL_EPEER, "rank %d names its slab %u, which does not exist", p->rank,
		            id);
	if (p->same_process) {
		m = (void *)(uintptr_t)s->base;
	} else {
		err = map_fd_of(p, s->fd, s->size, &m);
		if (err)
			return fail_errno(ORIEL_ETRANSPORT, err,
			                  "mapping slab %u of rank %d (process %d)", id, p->rank,
			                  (int)p->rec.pid);
	}
	store_release(&p->slab[id], m);
	return 0;
}

int
peer_map(struct peer *p, unsigned id, size_t off, size_t len, void **ptr)
{
	int rc = 0;

	if (id >= POOL_MAX_SLABS || !p->ctl)
		return fail(ORIEL_EPEER, "slab %u of rank %d cannot be mapped", id, p->rank);
	if (!load_acquire(&p->slab[id])) {
		pthread_mutex_lock(&p->send_lock);
		if (!p->slab[id])
			rc = map_slab(p, id);
		pthread_mutex_unlock(&p->send_lock);
		if (rc)
			return peer_gone(p) ? peer_error(p) : rc;
	}
	if (!range_inside(off, len, p->ctl->slabs[id].size))
		return fail(ORIEL_EPEER,
		            "rank %d names %zu bytes at %zu of its slab %u of %zu bytes", p->rank,
		            len, off, id, (size_t)p->ctl->slabs[id].size);
	*ptr = p->slab[id] + off;
	return 0;
}

/* Reads the peer's token out of its memory: proves the pid and the permission in one. */
static enum cma_state
probe_cma(struct peer *p)
{
	uint64_t token = 0;
	struct iovec to = { &token, sizeof(token) };
	struct iovec from = { (char *)(uintptr_t)p->rec.ctl_base + offsetof(struct ctl, token),
		              sizeof(token) };
	ssize_t n;

	if (!p->ctl || p->same_process) {
		snprintf(p->cma_why, sizeof(p->cma_why), "%s",
		         p->ctl ? "same process" : p->why_not);
		return p->ctl ? CMA_YES : CMA_NO;
	}
	if (!list_has(p->ctx->knobs.s.transports, "cma")) {
		snprintf(p->cma_why, sizeof(p->cma_why), "ORIEL_TRANSPORTS has no \"cma\"");
		return CMA_NO;
	}
	n = process_vm_readv(p->rec.pid, &to, 1, &from, 1, 0);
	if (n != sizeof(token)) {
		snprintf(p->cma_why, sizeof(p->cma_why), "process_vm_readv of process %d: %s",
		         (int)p->rec.pid, n < 0 ? strerror(errno) : "short");
		return CMA_NO;
	}
	if (token != p->rec.token) {
		snprintf(p->cma_why, sizeof(p->cma_why), "process %d is another one",
		         (int)p->rec.pid);
		return CMA_NO;
	}
	snprintf(p->cma_why, sizeof(p->cma_why), "process_vm_readv of process %d works",
	         (int)p->rec.pid);
	return CMA_YES;
}

bool
peer_cma(struct peer *p)
{
	enum cma_state s = load_acquire(&p->cma);

	if (s == CMA_UNKNOWN) {
		pthread_mutex_lock(&p->send_lock);
		s = p->cma;
		if (s == CMA_UNKNOWN) {
			s = probe_cma(p);
			store_release(&p->cma, s);
		}
		pthread_mutex_unlock(&p->send_lock);
	}
	return s == CMA_YES;
}

void
peer_wake_helper(struct peer *p)
{
	static const char byte = 1;
	int fd = load_relaxed(&p->wake_fd);

	if (p->same_process) {
		fd = p->ctl->wake_fd;
	} else if (fd == 0) {
		/* For reading too, so that there is a reader, and no SIGPIPE, when the peer
		 * has died. */
		fd = open_fd_of(p, p->ctl->wake_fd, O_RDWR | O_NONBLOCK);
		pthread_mutex_lock(&p->wake_lock);
		if (p->wake_fd == 0) {
			store_relaxed(&p->wake_fd, fd);
		} else {
			if (fd >= 0)
				close(fd);
			fd = p->wake_fd;
		}
		pthread_mutex_unlock(&p->wake_lock);
	}
	if (fd >= 0 && write(fd, &byte, 1) < 0 && errno != EAGAIN && errno != EPIPE)
		log_at(LOG_WARN, "waking rank %d's helper: %s", p->rank, strerror(errno));
}

void
peer_watch(struct peer *p)
{
	uint64_t now = now_ns();

	if (p->ctl || !p->ctx->ucx || !p->ctx->knobs.v.peer_timeout)
		return;
	if (load_relaxed(&p->watch_until) < now)
		store_relaxed(&p->heard_at, now);
	store_relaxed(&p->watch_until, now + 2 * (uint64_t)p->ctx->knobs.v.peer_timeout);
}
