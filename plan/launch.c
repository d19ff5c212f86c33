/*
 * launch.c - one call: plan and channels from the cache, buffers bound, the
 * executor run, and the rules of failure kept.
 */
#include "plan/launch.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define GRACE_NS UINT64_C(10000000000) /* for peers of a failed call, where no timeout is set */

static __attribute__((noinline)) int
state_make(oriel_comm *comm)
{
	struct plan_state *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return fail(ORIEL_ENOMEM, "no memory for a communicator's plans");
	if (comm->size > INT32_MAX / MBOX_QUEUES) {
		rc = fail(ORIEL_ELIMIT, "a communicator of %d ranks", comm->size);
		goto free_state;
	}
	rc = dir_init(&s->chans, comm->size * MBOX_QUEUES);
	if (rc)
		goto free_state;
	s->eager = (size_t)comm->ctx->knobs.v.eager_max;
	if (s->eager > MBOX_SCRATCH)
		s->eager = MBOX_SCRATCH;
	comm->plan = s;
	return 0;

free_state:
	free(s);
	return rc;
}

int
plan_state_get(oriel_comm *comm, struct plan_state **out)
{
	if (unlikely(!comm->plan)) {
		int rc = state_make(comm);

		if (rc)
			return rc;
	}
	*out = comm->plan;
	return 0;
}

static void
instance_free(struct instance *inst)
{
	if (!inst)
		return;
	plan_free(inst->plan);
	free(inst->chan);
	free(inst);
}

static void
free_chans(struct peer_dir *d)
{
	for (int i = 0; i < d->n_chunks; i++)
		for (int j = 0; d->chunk[i] && j < DIR_CHUNK; j++)
			chan_free(d->chunk[i][j]);
}

void
plan_state_free(oriel_comm *comm)
{
	struct plan_state *s = comm->plan;

	chan_drop_boxes(comm);
	if (!s)
		return;
	while (s->cache) {
		struct instance *inst = s->cache;

		s->cache = inst->next;
		instance_free(inst);
	}
	free_chans(&s->chans);
	dir_free(&s->chans);
	free(s);
	comm->plan = NULL;
}

static int
bind_chans(oriel_comm *comm, struct plan_state *s, struct instance *inst)
{
	const struct plan *plan = inst->plan;

	for (uint32_t e = 0; e < plan->n_edges; e++) {
		int slot = plan->edges[e].rank * MBOX_QUEUES + (int)plan->edges[e].queue;
		struct chan *c = dir_get(&s->chans, slot);
		int rc;

		if (!c) {
			rc = chan_make(comm, plan->edges[e].rank, plan->edges[e].queue, &c);
			if (rc)
				return rc;
			rc = dir_set(&s->chans, slot, c);
			if (rc) {
				chan_free(c);
				return rc;
			}
		}
		inst->chan[e] = c;
	}
	return 0;
}

static int
instance_make(oriel_comm *comm, const struct program *program, int arg, struct instance **out)
{
	struct instance *inst = calloc(1, sizeof(*inst));
	int rc;

	if (!inst)
		return fail(ORIEL_ENOMEM, "no memory for a plan of %s", program->name);
	rc = plan_build(program, arg, comm->rank, comm->size, &inst->plan);
	if (rc)
		goto free_inst;
	inst->chan = calloc(inst->plan->n_edges + 1, sizeof(struct chan *));
	if (!inst->chan) {
		rc = fail(ORIEL_ENOMEM, "no memory for %u channels", inst->plan->n_edges);
		goto free_inst;
	}
	rc = bind_chans(comm, comm->plan, inst);
	if (rc)
		goto free_inst;
	snprintf((char *)inst->name, sizeof(inst->name), "%s", program->name);
	inst->bytes = sizeof(*inst) + plan_bytes(inst->plan) +
	              inst->plan->n_edges * sizeof(struct chan *);
	*out = inst;
	return 0;

free_inst:
	instance_free(inst);
	return rc;
}

/* The least recently used go, but never the first. */
static void
trim(struct plan_state *s)
{
	while (s->bytes > PLAN_CACHE_BYTES && s->cache->next) {
		struct instance **at = &s->cache->next;

		while ((*at)->next)
			at = &(*at)->next;
		s->bytes -= (*at)->bytes;
		instance_free(*at);
		*at = NULL;
	}
}

static inline bool
is_of(const struct instance *inst, const struct program *program, int arg)
{
	return inst->plan->program == program && inst->plan->arg == arg;
}

static __attribute__((noinline)) int
instance_search(oriel_comm *comm, const struct program *program, int arg, struct instance **out)
{
	struct plan_state *s = comm->plan;
	struct instance **at = &s->cache, *inst;
	int rc;

	while (*at && !is_of(*at, program, arg))
		at = &(*at)->next;
	inst = *at;
	if (inst) {
		*at = inst->next;
	} else {
		rc = instance_make(comm, program, arg, &inst);
		if (rc)
			return rc;
		s->bytes += inst->bytes;
	}
	inst->next = s->cache;
	s->cache = inst;
	trim(s);
	*out = inst;
	return 0;
}

int
instance_get(oriel_comm *comm, const struct program *program, int arg, struct instance **out)
{
	struct instance *first = comm->plan->cache;

	if (likely(first && is_of(first, program, arg))) {
		*out = first;
		return 0;
	}
	return instance_search(comm, program, arg, out);
}

/*
 * Small calls are stamped with the coarse clock: its steps of some milliseconds
 * are good enough to see a hang, and reading the fine one twice would be a
 * tenth of such a call.
 */
static inline uint64_t
stamp(const struct launch *l)
{
	struct timespec ts;

	if (l->large)
		return now_ns();
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Relaxed, not plain, stores: a peer that finds a mismatch reads the entry meanwhile. */
static inline void
record_begin(struct launch *l, const struct instance *inst)
{
	struct recorder *r = l->ctx->rec_out;
	uint64_t n = add_relaxed(&r->n_calls, 1) + 1;
	struct recorder_call *e = &r->call[n % RECORDER_CALLS];

	store_relaxed(&e->number, 0);
	fence_compiler();
	store_relaxed(&e->comm, l->comm->id);
	store_relaxed(&e->call, l->call);
	store_relaxed(&e->plan, inst->plan->hash);
	store_relaxed(&e->bytes, l->block);
	store_relaxed(&e->start_ns, stamp(l));
	store_relaxed(&e->end_ns, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(inst->name); i++)
		store_relaxed((uint64_t *)(void *)e->name + i, inst->name[i]);
	store_relaxed(&e->status, 0);
	store_relaxed(&e->step, 0);
	store_relaxed(&e->n_steps, inst->plan->queue[0].n);
	store_relaxed(&e->wait_peer, -1);
	store_release(&e->number, n);
	l->rec = e;
}

static inline void
record_end(struct launch *l, int status)
{
	store_relaxed(&l->rec->status, status);
	store_relaxed(&l->rec->step, (uint32_t)(l->cur[0].op - l->cur[0].first));
	store_relaxed(&l->rec->end_ns, stamp(l));
}

static int
bind_buffers(struct launch *l, const struct binding *b)
{
	size_t total = 0;

	for (int i = 0; i < MBOX_BUFS; i++) {
		uint32_t count = l->plan->count[i];

		if (unlikely(count && b->block > SIZE_MAX / 2 / count))
			return fail(ORIEL_ERANGE, "%u blocks of %zu bytes", count, b->block);
		l->buf[i].base = b->buf[i];
		l->buf[i].size = count * b->block;
		if (unlikely(l->buf[i].size && !b->buf[i]))
			return fail(ORIEL_EINVAL, "%s needs buffer %d", l->plan->program->name, i);
		if (l->buf[i].size > total)
			total = l->buf[i].size;
	}
	l->large = total > l->eager && total > MBOX_LINE_DATA;
	l->owed = l->large;
	return 0;
}

static inline int
launch_start(struct launch *l, struct instance *inst, const struct binding *b)
{
	const struct plan *plan = inst->plan;
	int rc;

	l->ctx = l->comm->ctx;
	l->plan = plan;
	l->chan = inst->chan;
	l->block = b->block;
	l->eager = l->comm->plan->eager;
	l->hash = wire_hash(plan->hash, b->block, l->eager);
	l->tag = wire_tag(l->hash);
	l->n_queues = plan->program->n_queues;
	l->error = 0;
	l->deadline = 0;
	l->binding = b;
	rc = bind_buffers(l, b);
	if (unlikely(rc))
		return rc;
	for (unsigned k = 0; k < l->n_queues; k++) {
		l->cur[k].first = l->cur[k].op = plan->queue[k].ops;
		l->cur[k].end = plan->queue[k].ops + plan->queue[k].n;
		l->cur[k].moved = 0;
	}
	for (uint32_t e = 0; e < plan->n_edges; e++) {
		l->chan[e]->landed = 0;
		l->chan[e]->expect = plan->edges[e].expect;
	}
	return 0;
}

/*
 * After this the buffers are the caller's: no put of this rank reads them, and
 * no peer that was told that they are ready writes them.
 */
static void
take_back(struct launch *l)
{
	uint64_t grace = (uint64_t)l->ctx->knobs.v.peer_timeout;
	uint64_t deadline = deadline_after(grace ? grace : GRACE_NS);

	for (uint32_t e = 0; e < l->plan->n_edges; e++) {
		struct chan *c = l->chan[e];

		chan_quiet(c, deadline);
		if (!chan_left_alone(c, l->call, deadline))
			log_at(LOG_WARN, "rank %d has not said that it leaves the buffers of a failed "
			       "call alone: it may still write them", c->peer->rank);
	}
}

/*
 * Before anybody else can see that this rank is out of the call: the failure
 * word, at every member. Whose word stands first names the culprit for all.
 */
static __attribute__((cold, noinline)) int
fail_call(struct launch *l, int rc, bool begun)
{
	int culprit = l->culprit >= 0 ? l->culprit : l->comm->ctx->boot.rank;
	uint64_t word = comm_fail_word(culprit, l->call), before = comm_failed(l->comm), stands;
	char detail[512];

	snprintf(detail, sizeof(detail), "%s", oriel_detail());
	stands = comm_fail(l->comm, before ? before : word);
	if (begun)
		take_back(l);
	if (!before && stands != word && rc != ORIEL_EMISMATCH)
		return comm_fail_error(l->comm, stands);
	return fail(rc, "%s", detail);
}

static int
run_begun(struct launch *l, const struct program *program, int arg, const struct binding *b)
{
	struct plan_state *s;
	struct instance *inst;
	int rc;

	rc = plan_state_get(l->comm, &s);
	if (likely(!rc))
		rc = instance_get(l->comm, program, arg, &inst);
	if (likely(!rc))
		rc = launch_start(l, inst, b);
	if (unlikely(rc))
		return fail_call(l, rc, false);
	record_begin(l, inst);
	rc = exec_run(l);
	if (unlikely(!rc && comm_failed(l->comm)))
		rc = comm_fail_error(l->comm, comm_failed(l->comm));
	if (unlikely(rc))
		rc = fail_call(l, rc, true);
	record_end(l, rc);
	return rc;
}

int
plan_run(oriel_comm *comm, const struct program *program, int arg, const struct binding *b)
{
	struct launch l;

	l.comm = comm;
	l.call = ++comm->n_calls;
	l.culprit = -1;
	return run_begun(&l, program, arg, b);
}
