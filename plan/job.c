#include "plan/job.h"

#include <stdio.h>
#include <string.h>

/* The same on all ranks. */
static uint32_t
count_chunks(size_t bytes, size_t chunk)
{
	size_t n;

	if (!chunk || bytes <= chunk)
		return 1;
	n = (bytes - 1) / chunk + 1;
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static size_t
smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* A stretch of the vector, cut into as many parts as the whole is. */
static void
bind_stretch(struct binding *b, const struct job *j, size_t at)
{
	size_t left = j->binding.bytes - at;
	uint32_t parts = plan_parts(j->inst->plan);

	if (b->buf[IN])
		b->buf[IN] = (char *)b->buf[IN] + at;
	if (b->buf[OUT])
		b->buf[OUT] = (char *)b->buf[OUT] + at;
	b->bytes = smaller(left, j->chunk);
	b->block = vector_block(b->bytes, parts, j->align);
}

/* The same stretch of every block. */
static void
bind_strides(struct piece *p, const struct job *j, size_t at)
{
	size_t block = j->binding.block, len = smaller(block - at, j->chunk);

	p->ragged.in = p->ragged.out =
	        (struct layout){ .kind = LAYOUT_STRIDED, .stride = block, .len = len };
	p->ragged.extent = (j->inst->plan->count[OUT] - 1) * block + len;
	p->ragged.in.base = p->binding.buf[IN] ? (char *)p->binding.buf[IN] + at : NULL;
	p->ragged.out.base = p->binding.buf[OUT] ? (char *)p->binding.buf[OUT] + at : NULL;
	p->binding.block = len;
	p->binding.ragged = &p->ragged;
}

/* A chunk's buffers. */
static const struct binding *
bind_piece(struct job *j, struct piece *p, uint32_t chunk)
{
	size_t at = chunk * j->chunk;

	if (j->n_chunks == 1)
		return &j->binding;
	p->binding = j->binding;
	p->binding.id = 0;
	if (j->vector)
		bind_stretch(&p->binding, j, at);
	else
		bind_strides(p, j, at);
	return &p->binding;
}

/* The first error counts. */
static void
spoil_slow(struct job *j, int rc)
{
	j->status = rc;
	snprintf(j->detail, sizeof(j->detail), "%s", oriel_detail());
}

static inline void
spoil(struct job *j, int rc)
{
	if (unlikely(rc && !j->status))
		spoil_slow(j, rc);
}

/* ---- Under ctx->task_lock ---- */

static void
end_call(struct plan_state *s, unsigned slot, int rc)
{
	struct job *j = s->running[slot];
	struct piece *p = &j->piece[slot];

	if (p->launch)
		rc = launch_end(p->launch, rc);
	p->launch = NULL;
	s->running[slot] = NULL;
	spoil(j, rc);
	j->ended++;
}

/* True: something moved. */
static bool
advance_call(struct plan_state *s, unsigned slot)
{
	struct launch *l = s->running[slot]->piece[slot].launch;
	const struct op *at = l->cur[0].op;
	bool done;
	int rc = exec_advance(l, &done);

	if (rc || done) {
		end_call(s, slot, rc);
		return true;
	}
	return l->cur[0].op != at;
}

/* The first job that has calls to start. */
static struct job *
next_to_start(const struct plan_state *s)
{
	struct job *j = s->jobs;

	while (j && j->started == j->n_chunks)
		j = j->next;
	return j;
}

/* False: the next call has to wait for its slot. */
static bool
start_call(struct plan_state *s, struct job *j)
{
	uint64_t call = j->first + j->started;
	unsigned slot = (unsigned)(call % MBOX_CALLS);
	struct piece *p = &j->piece[slot];
	int rc;

	if (s->running[slot] || load_acquire(&s->busy[slot]))
		return false;
	s->running[slot] = j;
	if (comm_failed(s->comm))
		rc = comm_fail_error(s->comm, comm_failed(s->comm));
	else
		rc = launch_begin(j->inst, s->comm, call, bind_piece(j, p, j->started), true,
		                  &p->launch);
	j->started++;
	if (rc)
		end_call(s, slot, rc);
	else
		advance_call(s, slot);
	return true;
}

/* Jobs whose calls have ended leave, whatever their order. True: some did. */
static bool
drop_ended(struct plan_state *s)
{
	struct job **at = &s->jobs, *j;
	bool any = false;

	while ((j = *at)) {
		if (j->ended < j->n_chunks) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		any = true;
		add_release(&s->crowd, (uint32_t)-1);
		/* Last: whoever sees it may free it. */
		store_release(&j->done, 1);
	}
	s->jobs_end = at;
	if (!s->jobs)
		task_remove(s->comm->ctx, &s->task);
	return any;
}

static bool
advance_all(struct task *t)
{
	struct plan_state *s = container_of(t, struct plan_state, task);
	struct job *j;
	bool moved = false;

	for (unsigned slot = 0; slot < MBOX_CALLS; slot++)
		if (s->running[slot])
			moved |= advance_call(s, slot);
	while ((j = next_to_start(s)) && start_call(s, j))
		moved = true;
	return drop_ended(s) | moved;
}

/* ---- Solo ---- */

static inline uint64_t
take_numbers(struct job *j)
{
	j->first = j->comm->n_calls + 1;
	j->comm->n_calls += j->n_chunks;
	return j->first;
}

/* For a start that does not end at once. */
static void
reset(struct job *j)
{
	j->next = NULL;
	j->started = j->ended = 0;
	store_relaxed(&j->done, 0);
}

static void
enlist(struct plan_state *s, struct job *j)
{
	*s->jobs_end = j;
	s->jobs_end = &j->next;
	if (!s->task.at) {
		s->task.advance = advance_all;
		task_add(s->comm->ctx, &s->task);
	}
}

/* Under ctx->task_lock. */
static void
adopt(struct job *j)
{
	struct plan_state *s = j->comm->plan;
	unsigned slot = (unsigned)(j->first % MBOX_CALLS);

	j->launch->patient = true;
	j->piece[slot].launch = j->launch;
	j->started = 1;
	s->running[slot] = j;
	store_release(&s->busy[slot], false);
	enlist(s, j);
}

void
job_adopt(oriel_ctx *ctx)
{
	struct job *j = solo_take(ctx);

	if (j)
		adopt(j);
}

static void
end_solo(struct job *j, int rc)
{
	struct plan_state *s = j->comm->plan;
	bool others;

	spoil(j, launch_end(j->launch, rc));
	store_release(&s->busy[j->first % MBOX_CALLS], false);
	others = add_release(&s->crowd, (uint32_t)-1) != 1;
	store_release(&j->done, 1);
	/* A later call may wait for the slot. */
	if (unlikely(others))
		wake_after_store(&s->comm->ctx->ctl->wake);
}

void
job_go_on(struct job *j, struct launch *l)
{
	oriel_ctx *ctx = l->ctx;
	bool done;
	int rc = exec_try(l, &done);

	j->status = 0;
	if (likely(rc || done)) {
		spoil(j, launch_end(l, rc));
		store_release(&j->done, 1);
		return;
	}
	l->patient = true;
	j->comm->plan->busy[j->first % MBOX_CALLS] = true;
	add_relaxed(&j->comm->plan->crowd, 1);
	j->launch = l;
	reset(j);
	if (unlikely(!solo_offer(ctx, j))) {
		pthread_mutex_lock(&ctx->task_lock);
		adopt(j);
		pthread_mutex_unlock(&ctx->task_lock);
	}
	task_begun(ctx);
}

/* True: it has begun, and may have ended. */
static inline bool
start_solo(struct job *j)
{
	struct plan_state *s = j->comm->plan;
	const oriel_ctx *ctx = j->comm->ctx;
	int rc;

	if (j->n_chunks > 1 || load_acquire(&s->crowd) || load_relaxed(&ctx->solo))
		return false;
	rc = launch_begin(j->inst, j->comm, take_numbers(j), &j->binding, true, &j->launch);
	if (unlikely(rc)) {
		spoil(j, rc);
		store_release(&j->done, 1);
		return true;
	}
	job_go_on(j, j->launch);
	return true;
}

bool
job_run_solo(struct job *j)
{
	if (!solo_claim(j->comm->ctx, j))
		return false;
	j->launch->patient = false;
	end_solo(j, exec_run(j->launch));
	return true;
}

/* ---- Starting ---- */

void
job_prepare(struct job *j)
{
	j->n_chunks = count_chunks(j->vector ? j->binding.bytes : j->binding.block, j->chunk);
}

void
job_start(struct job *j)
{
	struct plan_state *s = j->comm->plan;
	oriel_ctx *ctx = j->comm->ctx;
	bool moved;

	j->status = 0;
	if (likely(start_solo(j)))
		return;
	reset(j);
	pthread_mutex_lock(&ctx->task_lock);
	job_adopt(ctx);
	take_numbers(j);
	add_relaxed(&s->crowd, 1);
	enlist(s, j);
	moved = advance_all(&s->task);
	pthread_mutex_unlock(&ctx->task_lock);
	/* Another thread may sleep until one of the jobs before it is done. */
	if (moved)
		wake_after_store(&ctx->ctl->wake);
	task_begun(ctx);
}

/* ---- Waiting ---- */

static bool
turn(void *arg)
{
	struct job *j = arg;

	if (job_done(j))
		return true;
	tasks_turn(j->comm->ctx);
	return job_done(j);
}

void
job_watch(struct job *j)
{
	struct plan_state *s = j->comm->plan;

	if (pthread_mutex_trylock(&s->comm->ctx->task_lock))
		return;
	for (unsigned slot = 0; slot < MBOX_CALLS; slot++)
		if (s->running[slot] && s->running[slot]->piece[slot].launch)
			exec_watch(s->running[slot]->piece[slot].launch);
	pthread_mutex_unlock(&s->comm->ctx->task_lock);
}

static int
watch(void *arg)
{
	job_watch(arg);
	return 0;
}

int
job_run(struct job *j)
{
	instance_pin(j->inst);
	job_start(j);
	job_run_solo(j);
	/* The calls end by themselves: by their timeouts, failures, and if this rank is expelled.
	 */
	while (!job_done(j))
		ctx_wait(j->comm->ctx, turn, watch, j, ORIEL_FOREVER);
	instance_unpin(j->inst);
	return job_result(j);
}

/* Another thread may be in a call that only its slot knows of. */
static bool
any_busy(const struct plan_state *s)
{
	bool busy = false;

	for (unsigned slot = 0; slot < MBOX_CALLS; slot++)
		busy |= load_acquire(&s->busy[slot]);
	return busy;
}

int
jobs_check_ended(oriel_comm *comm)
{
	struct plan_state *s = comm->plan;
	oriel_ctx *ctx = comm->ctx;
	const struct job *j;
	bool moved = false;
	int rc = 0;

	if (!s)
		return 0;
	pthread_mutex_lock(&ctx->task_lock);
	job_adopt(ctx);
	if (s->jobs)
		moved = advance_all(&s->task);
	j = s->jobs;
	if (j)
		rc = fail(ORIEL_EBUSY, "a request runs: %s, call %llu of communicator %016llx",
		          j->inst->plan->program->name, (unsigned long long)j->first,
		          (unsigned long long)comm->id);
	else if (any_busy(s))
		rc = fail(ORIEL_EBUSY, "another thread waits for a request of communicator %016llx",
		          (unsigned long long)comm->id);
	pthread_mutex_unlock(&ctx->task_lock);
	if (moved)
		wake_after_store(&ctx->ctl->wake);
	return rc;
}

int
job_result(const struct job *j)
{
	return j->status ? fail(j->status, "%s", j->detail) : 0;
}

int
call_run(oriel_comm *comm, struct instance *inst, const struct binding *b)
{
	struct launch *l;
	int rc = launch_begin(inst, comm, ++comm->n_calls, b, false, &l);

	return likely(!rc) ? launch_end(l, exec_run(l)) : rc;
}

int
plan_run(oriel_comm *comm, const struct program *program, const struct shape *shape,
         const struct binding *b)
{
	struct instance *inst;
	struct job j;
	int rc;

	rc = instance_get(comm, program, shape, &inst);
	if (rc)
		return launch_fail_unmade(comm, ++comm->n_calls, -1, rc);
	if (jobs_idle(comm))
		return call_run(comm, inst, b);
	memset(&j, 0, sizeof(j));
	j.comm = comm;
	j.inst = inst;
	j.binding = *b;
	job_prepare(&j);
	return job_run(&j);
}
