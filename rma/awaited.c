#include "rma/awaited.h"

#include "rma/task.h"

#include <limits.h>
#include <stdlib.h>

#define RELEASED (UINT64_C(1) << 62)

/* ---- Who waits ---- */

/* Under ctx->lock. */
static int
entry_new(oriel_win *w, size_t slot, struct awaited **out)
{
	struct awaited *a;
	int rc = 0;

	if (!w->awaited) {
		if (w->n_signals > INT_MAX)
			return fail(ORIEL_ELIMIT, "streams can wait on windows of up to %d signals",
			            INT_MAX);
		rc = dir_init(&w->waits, (int)w->n_signals);
		if (rc)
			return rc;
		store_release(&w->awaited, true);
		add_release(&w->ctx->n_awaited, 1);
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return fail(ORIEL_ENOMEM, "no memory for a slot that a stream waits for");
	a->slot = &w->signals[slot];
	rc = dir_set(&w->waits, (int)slot, a);
	if (rc)
		free(a);
	else
		*out = a;
	return rc;
}

static struct awaited *
entry(const oriel_win *w, size_t slot)
{
	return load_acquire(&w->awaited) ? dir_get(&w->waits, (int)slot) : NULL;
}

static void
note_eq(struct awaited *a, uint64_t value)
{
	for (int i = 0; i < AWAITED_EQ; i++)
		if (load_relaxed(&a->eq[i]) == value + 1)
			return;
	store_release(&a->eq[add_relaxed(&a->n_eq, 1) % AWAITED_EQ], value + 1);
}

int
awaited_note(oriel_win *w, size_t slot, int cmp, uint64_t value)
{
	struct awaited *a = entry(w, slot);
	int rc = 0;

	if (!a) {
		pthread_mutex_lock(&w->ctx->lock);
		a = entry(w, slot);
		if (!a)
			rc = entry_new(w, slot, &a);
		pthread_mutex_unlock(&w->ctx->lock);
	}
	if (rc)
		return rc;
	if (cmp == ORIEL_GE)
		store_release(&a->ge, value + 1);
	else
		note_eq(a, value);
	fence_full(); /* the caller looks for failures next; who fails looks for entries */
	return 0;
}

/* ---- Letting go ---- */

static void
release_slot(void *value, void *arg)
{
	struct awaited *a = value;
	uint64_t word[1 + AWAITED_EQ];
	unsigned n = 0;

	(void)arg;
	if (load_acquire(&a->ge))
		word[n++] = load_relaxed(&a->ge) - 1 + RELEASED;
	for (int i = 0; i < AWAITED_EQ; i++)
		if (load_acquire(&a->eq[i]))
			word[n++] = load_relaxed(&a->eq[i]) - 1;
	if (n)
		store_release(a->slot, word[a->turn++ % n]);
}

void
awaited_release(oriel_win *w)
{
	if (!load_acquire(&w->awaited))
		return;
	store_release(&w->released, true);
	dir_each(&w->waits, release_slot, NULL);
	wake_after_store(&w->ctx->ctl->wake);
}

static void
release_failed(void *arg, uint64_t id, void *value)
{
	oriel_win *w = value;

	(void)id;
	if (!load_acquire(&w->awaited) || !comm_failed(w->comm))
		return;
	awaited_release(w);
	*(bool *)arg = true;
}

void
awaited_failed(oriel_ctx *ctx)
{
	bool any = false;

	if (likely(!load_relaxed(&ctx->n_awaited)))
		return;
	table_each(ctx->wins, release_failed, &any);
	if (any)
		awaited_call_helper(ctx);
}

static void
look(void *arg, uint64_t id, void *value)
{
	oriel_win *w = value;
	const struct peer *p;

	if (!load_acquire(&w->awaited))
		return;
	if (!comm_failed(w->comm) && (p = comm_known_failed(w->comm)) != NULL)
		comm_fail_locked(w->comm, comm_fail_word(p->rank, load_relaxed(&w->comm->n_calls)));
	release_failed(arg, id, value);
}

bool
awaited_look(oriel_ctx *ctx)
{
	bool any = false;

	pthread_mutex_lock(&ctx->progress);
	table_each(ctx->wins, look, &any);
	pthread_mutex_unlock(&ctx->progress);
	return any;
}

void
awaited_call_helper(oriel_ctx *ctx)
{
	fence_full();
	if (unlikely(load_relaxed(&ctx->n_awaited)))
		task_begun_slow(ctx);
}

int
awaited_error(const oriel_win *w)
{
	uint64_t word = comm_failed(w->comm);

	return word ? comm_fail_error(w->comm, word)
	            : fail(ORIEL_EHANDLE, "the window is being freed");
}

/* ---- The end ---- */

static void
free_entry(void *value, void *arg)
{
	(void)arg;
	free(value);
}

void
awaited_free(oriel_win *w)
{
	if (!w->awaited)
		return;
	dir_each(&w->waits, free_entry, NULL);
	dir_free(&w->waits);
	add_release(&w->ctx->n_awaited, -1u);
}
