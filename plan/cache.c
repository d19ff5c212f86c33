/*
 * cache.c - what a communicator keeps between calls: channels, and plans bound
 * to them, the least recently used of which go when they take too much memory.
 */
#include "plan/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
plan_state_make(oriel_comm *comm)
{
	struct plan_state *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return fail(ORIEL_ENOMEM, "no memory for a communicator's plans");
	if (comm->size > INT32_MAX / MBOX_CHANNELS) {
		rc = fail(ORIEL_ELIMIT, "a communicator of %d ranks", comm->size);
		goto free_state;
	}
	rc = dir_init(&s->chans, comm->size * MBOX_CHANNELS);
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

static void
instance_free(struct instance *inst)
{
	if (!inst)
		return;
	plan_free(inst->plan);
	free(inst->launch.chan);
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
		int slot = plan->edges[e].rank * MBOX_CHANNELS + (int)plan->edges[e].queue;
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
		inst->launch.chan[e] = c;
	}
	return 0;
}

static int
instance_make(oriel_comm *comm, const struct program *program, const struct shape *shape,
              struct instance **out)
{
	struct instance *inst = calloc(1, sizeof(*inst));
	int rc;

	if (!inst)
		return fail(ORIEL_ENOMEM, "no memory for a plan of %s", program->name);
	rc = plan_build(program, shape, comm->rank, &inst->plan);
	if (rc)
		goto free_inst;
	inst->launch.chan = calloc(inst->plan->n_edges + 1, sizeof(struct chan *));
	if (!inst->launch.chan) {
		rc = fail(ORIEL_ENOMEM, "no memory for %u channels", inst->plan->n_edges);
		goto free_inst;
	}
	rc = bind_chans(comm, comm->plan, inst);
	if (rc)
		goto free_inst;
	snprintf((char *)inst->name, sizeof(inst->name), "%s", program->name);
	inst->launch.comm = comm;
	inst->launch.ctx = comm->ctx;
	inst->launch.plan = inst->plan;
	inst->launch.n_queues = program->n_queues;
	inst->launch.block = SIZE_MAX; /* none yet */
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

int
instance_search(oriel_comm *comm, const struct program *program, const struct shape *shape,
                struct instance **out)
{
	struct plan_state *s = comm->plan;
	struct instance **at = &s->cache, *inst;
	int rc;

	while (*at && !instance_is_of(*at, program, shape))
		at = &(*at)->next;
	inst = *at;
	if (inst) {
		*at = inst->next;
	} else {
		rc = instance_make(comm, program, shape, &inst);
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
instance_shape(struct launch *l, size_t block)
{
	size_t eager = l->comm->plan->eager, largest = 0;
	size_t at_once = eager > MBOX_LINE_DATA ? eager : MBOX_LINE_DATA;

	for (int i = 0; i < MBOX_BUFS; i++) {
		uint32_t count = l->plan->count[i];

		if (count && block > SIZE_MAX / 2 / count)
			return fail(ORIEL_ERANGE, "%s: %u blocks of %zu bytes",
			            l->plan->program->name, count, block);
		l->size[i] = count * block;
		if (l->size[i] > largest)
			largest = l->size[i];
	}
	l->hash = wire_hash(l->plan->hash, block, eager);
	l->tag = wire_tag(l->hash);
	l->large = largest > at_once;
	l->line_blocks =
	        block && at_once / block < UINT32_MAX ? (uint32_t)(at_once / block) : UINT32_MAX;
	l->block = block;
	return 0;
}
