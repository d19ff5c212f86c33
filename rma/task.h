/*
 * task.h - work of a context that goes on without a thread of its own:
 * nonblocking collectives, send and receive.
 *
 * Whoever waits (tasks_turn in its ready function) and, while nobody does, the
 * helper thread advances all tasks, one thread at a time. A task is advanced
 * under ctx->task_lock, which is taken before all other locks, with trylock by
 * waiters; nobody who holds another lock of the context may call tasks_turn.
 * advance never waits for a peer's answer.
 */
#ifndef RMA_TASK_H
#define RMA_TASK_H

#include "rma/ctx.h"
#include "rma/doorbell.h"

struct task {
	struct task *next, **at; /* at: what points here; NULL: not in the list */
	/* True if anything moved. May remove the task itself, not others. */
	bool (*advance)(struct task *t);
};

/* Under ctx->task_lock. */
void task_add(oriel_ctx *ctx, struct task *t);
void task_remove(oriel_ctx *ctx, struct task *t);

/*
 * A job that began while there was no other is "solo" (ctx->solo) until somebody
 * takes it: the thread that waits for it runs it itself; anyone else who looks for
 * work makes it a task (plan/job.h). So a call that is started and waited for at
 * once costs no more than one that blocks. Whoever takes it out of the word has
 * it. Threads of several communicators may offer theirs at the same time; all but
 * one keep it.
 */
/* False: another is solo, and j is still the caller's. */
static inline bool
solo_offer(oriel_ctx *ctx, struct job *j)
{
	struct job *none = NULL;

	return cas_acq_rel(&ctx->solo, &none, j);
}

/* By the thread that waits for it. True: nobody else has it. */
static inline bool
solo_claim(oriel_ctx *ctx, struct job *j)
{
	struct job *expected = j;

	return load_relaxed(&ctx->solo) == j && cas_acq_rel(&ctx->solo, &expected, NULL);
}

/* Whichever it is, or NULL. */
static inline struct job *
solo_take(oriel_ctx *ctx)
{
	return load_relaxed(&ctx->solo) ? swap_acquire(&ctx->solo, NULL) : NULL;
}

/* There is something to advance. */
static inline bool
tasks_wait(const oriel_ctx *ctx)
{
	return load_relaxed(&ctx->n_tasks) || load_relaxed(&ctx->solo);
}

/*
 * The helper thread is to look after what has just begun, a task or the solo job:
 * it is woken unless it says that it looks for them soon by itself. Before it
 * sleeps for long it takes that back, makes all CPUs pass a fence, and looks once
 * more (helper_lies_down); so either it sees what has begun or whoever began it
 * sees that. The count only tells it that more is likely to come; threads that
 * add to it at the same time may lose something.
 */
void task_begun_slow(oriel_ctx *ctx);
static inline void
task_begun(oriel_ctx *ctx)
{
	store_relaxed(&ctx->begun, load_relaxed(&ctx->begun) + 1);
	fence_compiler();
	if (unlikely(!load_relaxed(&ctx->helper_naps)))
		task_begun_slow(ctx);
}

/* The helper: true: it may sleep, for no longer than a nap if it naps. */
static inline bool
helper_lies_down(oriel_ctx *ctx, bool naps)
{
	store_relaxed(&ctx->helper_naps, naps);
	doorbell_sleep_begin(&ctx->ctl->helper_asleep);
	return !tasks_wait(ctx);
}

/* It will look for tasks before it lies down again. */
static inline void
helper_stands_up(oriel_ctx *ctx)
{
	store_relaxed(&ctx->helper_naps, true);
	doorbell_sleep_end(&ctx->ctl->helper_asleep);
}

bool tasks_turn_slow(oriel_ctx *ctx);
/* Advances all tasks, unless another thread is at it. True if anything moved. */
static inline bool
tasks_turn(oriel_ctx *ctx)
{
	return unlikely(tasks_wait(ctx)) && tasks_turn_slow(ctx);
}

#endif
