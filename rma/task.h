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

struct task {
	struct task *next, **at; /* at: what points here; NULL: not in the list */
	/* True if anything moved. May remove the task itself, not others. */
	bool (*advance)(struct task *t);
};

/* Under ctx->task_lock. */
void task_add(oriel_ctx *ctx, struct task *t);
void task_remove(oriel_ctx *ctx, struct task *t);

/* The helper thread is to look after what has just begun, if it may not do so soon by itself. */
void task_begun_slow(oriel_ctx *ctx);
static inline void
task_begun(oriel_ctx *ctx)
{
	store_relaxed(&ctx->begun, load_relaxed(&ctx->begun) + 1);
	fence_compiler();
	if (unlikely(!load_relaxed(&ctx->helper_naps)))
		task_begun_slow(ctx);
}

bool tasks_turn_slow(oriel_ctx *ctx);
/* Advances all tasks, unless another thread is at it. True if anything moved. */
static inline bool
tasks_turn(oriel_ctx *ctx)
{
	return unlikely(load_relaxed(&ctx->n_tasks) || load_relaxed(&ctx->solo)) &&
	       tasks_turn_slow(ctx);
}

#endif
