#include "rma/task.h"

#include "plan/job.h"
#include "rma/peer.h"

#include <unistd.h>

void
task_add(oriel_ctx *ctx, struct task *t)
{
	struct task **end = &ctx->tasks;

	while (*end)
		end = &(*end)->next;
	t->next = NULL;
	t->at = end;
	*end = t;
	store_relaxed(&ctx->n_tasks, ctx->n_tasks + 1);
	/* It may sleep where no store of a peer wakes it. Its own look at n_tasks is behind a
	 * fence that this thread passes too. */
	fence_compiler();
	if (load_relaxed(&ctx->ctl->helper_asleep))
		peer_wake_helper(ctx->local[ctx->my_local]);
}

void
task_remove(oriel_ctx *ctx, struct task *t)
{
	if (!t->at)
		return;
	*t->at = t->next;
	if (t->next)
		t->next->at = t->at;
	t->at = NULL;
	store_relaxed(&ctx->n_tasks, ctx->n_tasks - 1);
}

void
task_begun_slow(oriel_ctx *ctx)
{
	if (ctx->helper_on && write(ctx->wake_pipe[1], "", 1) < 0)
		return; /* The pipe is full: it will be woken. */
}

bool
tasks_turn_slow(oriel_ctx *ctx)
{
	struct task *t, *next;
	bool moved = false;

	if (pthread_mutex_trylock(&ctx->task_lock))
		return false;
	job_adopt(ctx);
	for (t = ctx->tasks; t; t = next) {
		next = t->next;
		moved |= t->advance(t);
	}
	pthread_mutex_unlock(&ctx->task_lock);
	if (moved)
		wake_after_store(&ctx->ctl->wake);
	return moved;
}
