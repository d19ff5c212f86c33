/*
 * wait.c - progress, and waiting for it: spin, then yield, then sleep.
 *
 * A waiter polls while it spins and yields. When it sleeps the helper thread
 * polls in its place and wakes it. poll_epoch tells the helper that somebody
 * polls, so that the two do not fight over the same messages. Where streams of GPUs
 * write what is waited for, which wake nobody, it naps (wake.h).
 */
#include "rma/ctx.h"

#include "rma/am.h"
#include "rma/ucx.h"

#include <sched.h>

#define SPINS_A_CHECK 64 /* rounds between looks at the clock */

__attribute__((noinline)) void
oriel_spin(const oriel_ctx *ctx, const uint64_t *word, uint64_t seen, unsigned rounds)
{
	const uint64_t *bell = ctx->ctl->doorbell;

	while (rounds-- && load_relaxed(word) == seen && !load_relaxed(bell))
		cpu_relax();
}

bool
ctx_progress_unseen(oriel_ctx *ctx)
{
	bool moved;

	if (pthread_mutex_trylock(&ctx->progress))
		return false;
	moved = ring_drain(ctx);
	if (ctx->ucx)
		moved |= ucx_progress(ctx);
	moved |= am_flush_queued(ctx);
	pthread_mutex_unlock(&ctx->progress);
	if (moved)
		wake_after_store(&ctx->ctl->wake);
	return moved;
}

bool
ctx_progress(oriel_ctx *ctx)
{
	store_relaxed(&ctx->poll_epoch, load_relaxed(&ctx->poll_epoch) + 1);
	return ctx_progress_unseen(ctx);
}

uint64_t
ctx_call_deadline(const oriel_ctx *ctx)
{
	return ctx->knobs.v.call_timeout ? deadline_after((uint64_t)ctx->knobs.v.call_timeout)
	                                 : ORIEL_FOREVER;
}

/* One look at everything that may end a wait but the event itself. */
static int
wait_check(oriel_ctx *ctx, int (*doomed)(void *arg), void *arg, uint64_t now, uint64_t deadline)
{
	int rc;

	/* First: to an expelled rank it looks as if the others had failed. */
	if (load_acquire(&ctx->ctl->expelled_by))
		return ctx_enter(ctx);
	rc = doomed ? doomed(arg) : 0;
	if (rc)
		return rc;
	return now >= deadline ? ORIEL_ETIMEDOUT : 0;
}

/* True: it is ready after all, and ready must not be asked again, since it may be what sends. */
static bool
wait_sleep(oriel_ctx *ctx, bool (*ready)(void *arg), void *arg, uint64_t now, uint64_t deadline)
{
	struct wake *w = &ctx->ctl->wake;
	uint32_t seen = wake_prepare(w);
	uint64_t longest = wake_longest(w);

	if (ready(arg))
		return true;
	wake_sleep(w, seen, deadline - now < longest ? deadline - now : longest);
	return false;
}

int
ctx_wait(oriel_ctx *ctx, bool (*ready)(void *arg), int (*doomed)(void *arg), void *arg,
         uint64_t deadline)
{
	uint64_t spin = ctx->crowded ? 0 : (uint64_t)ctx->knobs.v.spin;
	uint64_t yield = spin + (uint64_t)ctx->knobs.v.yield;
	uint64_t start = 0, now;
	int rc;

	for (unsigned round = 0;; round++) {
		if (ready(arg))
			return 0;
		ctx_progress(ctx);
		if (start && now - start < spin && round % SPINS_A_CHECK) {
			cpu_relax();
			continue;
		}
		now = now_ns();
		if (!start)
			start = now;
		rc = wait_check(ctx, doomed, arg, now, deadline);
		if (rc)
			return ready(arg) ? 0 : rc;
		if (now - start < spin)
			continue;
		if (now - start < yield)
			sched_yield();
		else if (wait_sleep(ctx, ready, arg, now, deadline))
			return 0;
	}
}

void
ctx_delay_slow(oriel_ctx *ctx)
{
	uint64_t x = add_relaxed(&ctx->delay_rng, UINT64_C(0x9e3779b97f4a7c15)), until;

	x = hash_bytes(0, &x, sizeof(x));
	/* Mostly none or short ones, now and then the whole length. */
	x = x % 4 ? x % 256 : (x >> 8) % (uint64_t)ctx->knobs.v.delay;
	until = now_ns() + x;
	while (now_ns() < until)
		cpu_relax();
}
