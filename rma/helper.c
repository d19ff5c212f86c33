/*
 * helper.c - the one helper thread of a context: makes progress while no caller
 * polls (a passive target's puts complete), shows a sign of life, and looks for
 * the others'.
 *
 * While callers poll it only naps; when they stop it arms the event sources and
 * sleeps in poll() until a message, a death, or the next tick.
 */
#include "rma/helper.h"

#include "rma/am.h"
#include "rma/awaited.h"
#include "rma/gpu.h"
#include "rma/task.h"
#include "rma/doorbell.h"
#include "rma/ucx.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MAX_NS 1000000000u
#define TICK_MIN_NS 10000000u
#define NAPPING_NS 100000000u /* after the last job that was seen to begin */
#define STREAM_NAP_MS 20
#define NAP_MS 1 /* while callers poll: the longest that progress can pause when they stop */

struct helper {
	oriel_ctx *ctx;
	uint64_t tick_ns, next_tick, last_tick;
	uint64_t polled_at;        /* when another thread was last seen to poll */
	uint64_t begun, nap_until; /* jobs seen, and so how long to look for more of them often */
	uint64_t slept_from, slept_to; /* the last time that it was stopped for so long */
	struct pollfd *fds;            /* the pipe, UCX, then one pidfd for each rank of the node */
	int n_fds;
};

enum { FD_PIPE = 0, FD_UCX, FD_PEERS };

static void
notice_death(struct peer *p)
{
	if (load_acquire(&p->ctl->state) == CTL_LEFT)
		peer_leave(p);
	else
		peer_fail(p, true, "process %d has ended", (int)p->rec.pid);
}

/* unseen: how much longer than a tick this process has not looked, which is nobody's silence. */
static void
check_local(struct helper *h, uint64_t now, uint64_t unseen)
{
	uint64_t timeout = (uint64_t)h->ctx->knobs.v.peer_timeout;

	for (int i = 0; i < h->ctx->boot.n_local; i++) {
		struct peer *p = h->ctx->local[i];
		uint64_t beat;
		uint32_t by;

		if (!p->ctl || p->rank == h->ctx->boot.rank || p->left || peer_failed(p))
			continue;
		if (p->pidfd < 0 && !p->same_process && kill(p->rec.pid, 0) && errno == ESRCH) {
			notice_death(p);
			continue;
		}
		/* What one has given up all of the node give up. */
		by = load_acquire(&p->ctl->expelled_by);
		if (by && load_acquire(&p->ctl->state) != CTL_LEFT) {
			peer_fail(p, false, "rank %d has given it up", (int)by - 1);
			continue;
		}
		beat = load_acquire(&p->ctl->heartbeat);
		p->seen_at = p->seen_at + unseen < now ? p->seen_at + unseen : now;
		if (load_acquire(&p->ctl->state) == CTL_LEFT) {
			peer_leave(p);
		} else if (beat != p->seen_heartbeat) {
			p->seen_heartbeat = beat;
			p->seen_at = now;
		} else if (timeout && now - p->seen_at > timeout) {
			store_release(&p->ctl->expelled_by, (uint32_t)h->ctx->boot.rank + 1);
			peer_fail(p, false, "process %d has given no sign of life for %.1f s",
			          (int)p->rec.pid, (double)(now - p->seen_at) / 1e9);
		}
	}
}

struct far {
	struct helper *h;
	uint64_t now;
	bool overslept;
};

static void
check_far(void *entry, void *arg)
{
	struct peer *p = entry;
	struct far *f = arg;
	uint64_t timeout = (uint64_t)p->ctx->knobs.v.peer_timeout,
	         heard = load_relaxed(&p->heard_at);

	if (p->ctl || peer_failed(p))
		return;
	if (load_acquire(&p->left)) {
		peer_leave(p);
		return;
	}
	if (load_relaxed(&p->watch_until) < f->now)
		return;
	if (f->overslept) {
		store_relaxed(&p->heard_at, f->now);
	} else if (heard < f->now && f->now - heard > timeout) {
		peer_fail(p, false, "nothing was heard from it for %.1f s",
		          (double)(f->now - heard) / 1e9);
		return;
	}
	am_reply(p, AM_PING, NULL, 0, NULL, 0);
}

static void
take_dead(void *arg, uint64_t rank, void *value)
{
	(void)value;
	*(uint64_t *)arg = rank + 1;
}

/* Ranks that the launcher says have died: whoever waits for anybody must hear of them. */
static void
meet_dead(oriel_ctx *ctx)
{
	struct peer *p;
	uint64_t next;

	for (;;) {
		next = 0;
		table_each(ctx->told_dead, take_dead, &next);
		if (!next)
			return;
		if (!peer_get(ctx, (int)(next - 1), &p) && !load_acquire(&p->left))
			peer_fail(p, true, "the launcher says that it has ended");
		table_del(ctx->told_dead, next - 1);
	}
}

static void
tick(struct helper *h, uint64_t now)
{
	oriel_ctx *ctx = h->ctx;
	/* If this process itself did not run, the others' silence is ours; but on a busy machine
	 * that may be so at every tick, and each has to count for something. */
	bool overslept = now - h->last_tick > 3 * h->tick_ns;
	uint64_t unseen = overslept ? now - h->last_tick - h->tick_ns : 0;
	struct far f = { h, now, overslept };

	if (now - h->last_tick > (uint64_t)ctx->knobs.v.peer_timeout) {
		store_relaxed(&h->slept_from, h->last_tick);
		store_release(&h->slept_to, now);
	}
	store_release(&h->last_tick, now);
	h->next_tick = now + h->tick_ns;
	add_release(&ctx->ctl->heartbeat, 1);
	if (load_acquire(&ctx->ctl->expelled_by) && !ctx->expelled) {
		store_relaxed(&ctx->expelled, true);
		store_relaxed(ctx->alive, 0);
		wake_after_store(&ctx->ctl->wake);
	}
	check_local(h, now, unseen);
	meet_dead(ctx);
	if (ctx->ucx && ctx->knobs.v.peer_timeout) {
		pthread_mutex_lock(&ctx->progress);
		dir_each(&ctx->peers, check_far, &f);
		pthread_mutex_unlock(&ctx->progress);
	}
}

bool
helper_slept(const oriel_ctx *ctx, uint64_t when)
{
	const struct helper *h = ctx->helper_state;
	uint64_t timeout = (uint64_t)ctx->knobs.v.peer_timeout, last, to;

	if (!h || !timeout)
		return false;
	last = load_acquire(&h->last_tick);
	if (now_ns() - last > timeout && when >= last) /* it has woken up just now */
		return true;
	to = load_acquire(&h->slept_to);
	return to && when >= load_relaxed(&h->slept_from) && when <= to + timeout;
}

static void
drain_pipe(oriel_ctx *ctx)
{
	char bytes[64];

	while (read(ctx->wake_pipe[0], bytes, sizeof(bytes)) == sizeof(bytes))
		;
}

/* A peer's message has come, or the end. */
static bool
is_called(const oriel_ctx *ctx)
{
	for (int w = 0; w < (ctx->boot.n_local + 63) / 64; w++)
		if (load_relaxed(&ctx->ctl->doorbell[w]))
			return true;
	return load_relaxed(&ctx->stop) != 0;
}

/* -1: there is work already. */
static int
arm_ucx(oriel_ctx *ctx)
{
	int fd;

	pthread_mutex_lock(&ctx->progress);
	fd = ucx_arm(ctx);
	pthread_mutex_unlock(&ctx->progress);
	return fd;
}

static void
sleep_armed(struct helper *h, uint64_t now)
{
	oriel_ctx *ctx = h->ctx;
	int ms = now < h->next_tick ? (int)((h->next_tick - now) / 1000000) + 1 : 0;
	bool naps = now < h->nap_until, idle;

	if (naps && ms > NAP_MS)
		ms = NAP_MS;
	/* Failures wake waiting threads; but a stream that waits is let go by this one. */
	if (load_relaxed(&ctx->streams) && ms > STREAM_NAP_MS)
		ms = STREAM_NAP_MS;
	idle = helper_lies_down(ctx, naps);
	h->fds[FD_UCX].fd = ctx->ucx ? arm_ucx(ctx) : -1;
	if (idle && !is_called(ctx) && (!ctx->ucx || h->fds[FD_UCX].fd >= 0))
		poll(h->fds, (nfds_t)h->n_fds, ms);
	helper_stands_up(ctx);
	if (h->fds[FD_PIPE].revents)
		drain_pipe(ctx);
	for (int i = FD_PEERS; i < h->n_fds; i++) {
		if (h->fds[i].fd < 0 || !h->fds[i].revents)
			continue;
		notice_death(ctx->local[i - FD_PEERS]);
		h->fds[i].fd = -1;
		h->fds[i].revents = 0;
	}
}

/* Until a peer stores something for a task: such stores wake waiters, not poll(). */
static void
sleep_lightly(oriel_ctx *ctx)
{
	uint32_t seen = wake_prepare(&ctx->ctl->wake);

	uint64_t longest = wake_longest(&ctx->ctl->wake);

	if (longest > NAP_MS * UINT64_C(1000000))
		longest = NAP_MS * UINT64_C(1000000);
	if (!load_relaxed(&ctx->stop) && !ctx_progress_unseen(ctx) && !tasks_turn(ctx))
		wake_sleep(&ctx->ctl->wake, seen, longest);
}

static void *
helper_main(void *arg)
{
	struct helper *h = arg;
	oriel_ctx *ctx = h->ctx;
	uint64_t polled = load_relaxed(&ctx->poll_epoch);

	store_relaxed(&ctx->helper_naps, true);
	while (!load_acquire(&ctx->stop)) {
		uint64_t now = now_ns(), epoch = load_relaxed(&ctx->poll_epoch);

		if (now >= h->next_tick)
			tick(h, now);
		stream_watch(ctx);
		if (load_relaxed(&ctx->begun) != h->begun) {
			h->begun = load_relaxed(&ctx->begun);
			h->nap_until = now + NAPPING_NS;
		}
		/* Streams may have more waits behind those that were let go. */
		if (unlikely(load_relaxed(&ctx->n_awaited)) && awaited_look(ctx))
			h->nap_until = now + NAPPING_NS;
		if (epoch != polled) {
			polled = epoch;
			h->polled_at = now;
		}
		/* Who polls may be copying just now: a sleeper here would have to be woken by every
		 * message, though nobody needs it. */
		if (now - h->polled_at < NAP_MS * UINT64_C(1000000)) {
			poll(h->fds, 1, NAP_MS);
			if (h->fds[FD_PIPE].revents)
				drain_pipe(ctx);
			tasks_turn(ctx);
			continue;
		}
		if (!(ctx_progress_unseen(ctx) | tasks_turn(ctx))) {
			if (tasks_wait(ctx))
				sleep_lightly(ctx);
			else
				sleep_armed(h, now);
		}
	}
	return NULL;
}

static int
fds_open(struct helper *h)
{
	oriel_ctx *ctx = h->ctx;

	h->n_fds = FD_PEERS + ctx->boot.n_local;
	h->fds = calloc((size_t)h->n_fds, sizeof(*h->fds));
	if (!h->fds)
		return fail(ORIEL_ENOMEM, "no memory for the helper thread");
	for (int i = 0; i < h->n_fds; i++)
		h->fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	h->fds[FD_PIPE].fd = ctx->wake_pipe[0];
	for (int i = 0; i < ctx->boot.n_local; i++)
		h->fds[FD_PEERS + i].fd = ctx->local[i]->pidfd;
	return 0;
}

int
helper_start(oriel_ctx *ctx)
{
	struct helper *h = calloc(1, sizeof(*h));
	sigset_t all, old;
	int rc;

	if (!h)
		return fail(ORIEL_ENOMEM, "no memory for the helper thread");
	h->ctx = ctx;
	h->tick_ns =
	        ctx->knobs.v.peer_timeout ? (uint64_t)ctx->knobs.v.peer_timeout / 10 : TICK_MAX_NS;
	if (h->tick_ns > TICK_MAX_NS)
		h->tick_ns = TICK_MAX_NS;
	if (h->tick_ns < TICK_MIN_NS)
		h->tick_ns = TICK_MIN_NS;
	h->last_tick = now_ns();
	rc = fds_open(h);
	if (rc)
		goto free_helper;
	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&ctx->helper, NULL, helper_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		rc = fail_errno(ORIEL_ENOMEM, rc, "starting the helper thread");
		goto free_fds;
	}
	ctx->helper_state = h;
	ctx->helper_on = true;
	return 0;
free_fds:
	free(h->fds);
free_helper:
	free(h);
	return rc;
}

void
helper_stop(oriel_ctx *ctx)
{
	struct helper *h = ctx->helper_state;
	static const char byte = 1;

	if (!ctx->helper_on)
		return;
	store_release(&ctx->stop, 1);
	if (write(ctx->wake_pipe[1], &byte, 1) < 0 && errno != EAGAIN)
		log_at(LOG_WARN, "waking the helper: %s", strerror(errno));
	pthread_join(ctx->helper, NULL);
	ctx->helper_on = false;
	free(h->fds);
	free(h);
	ctx->helper_state = NULL;
}
