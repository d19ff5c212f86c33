/*
 * cache.c - what a communicator keeps between calls: channels, and plans bound
 * to them, the least recently used of which go when they take too much memory.
 */
#include "plan/launch.h"

#include "coll/select.h"
#include "plan/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 256 /* ops of a plan */

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
	s->comm = comm;
	s->node = -1;
	s->jobs_end = &s->jobs;
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
	for (int k = 0; k < MBOX_CALLS; k++) {
		free(inst->launch[k].chan);
		free(inst->launch[k].room);
		free(inst->launch[k].openings);
	}
	if (inst->stream)
		free(inst->stream->chan);
	free(inst->stream);
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
	stream_state_free(comm);
	while (s->cache) {
		struct instance *inst = s->cache;

		s->cache = inst->next;
		instance_free(inst);
	}
	free_chans(&s->chans);
	dir_free(&s->chans);
	for (int k = 0; k < MBOX_CALLS; k++) {
		if (s->scratch[k].ptr)
			pool_free(comm->ctx->pool, s->scratch[k].ptr);
		if (s->large[k].ptr)
			pool_free(comm->ctx->pool, s->large[k].ptr);
	}
	free(s->recent);
	free(s);
	comm->plan = NULL;
}

static int
get_chan(oriel_comm *comm, int rank, unsigned channel, struct chan **out)
{
	struct plan_state *s = comm->plan;
	int slot = rank * MBOX_CHANNELS + (int)channel, rc;

	*out = dir_get(&s->chans, slot);
	if (*out)
		return 0;
	rc = chan_make(comm, rank, channel, out);
	if (rc)
		return rc;
	rc = dir_set(&s->chans, slot, *out);
	if (rc)
		chan_free(*out);
	return rc;
}

/* What the recorder stores of all calls of the launch, but for their size. */
static void
name_calls(struct launch *l)
{
	l->record =
	        (struct launch_record){ .comm = l->comm->id,
		                        .plan = l->plan->hash,
		                        .steps = l->plan->queue[0].n | UINT64_C(0xffffffff) << 32 };
	snprintf((char *)l->record.name, sizeof(l->record.name), "%s", l->plan->program->name);
}

/* Without it each op is worked out when it runs: for long plans, and for want of memory. */
static void
make_room(struct launch *l)
{
	const struct plan *plan = l->plan;
	uint32_t n = plan->queue[0].n + plan->queue[1].n;

	if (n > STEPS_MAX)
		return;
	l->openings = calloc(plan->n_edges + 1, sizeof(*l->openings));
	l->room = l->openings ? calloc(n + 1, sizeof(*l->room)) : NULL;
	for (uint32_t e = 0; l->room && e < plan->n_edges; e++)
		l->openings[e] = (struct opening){ l->chan[e], chan_begin(plan->edges[e].expect) };
}

/* The root of a tree, or one of two ranks: where others send too, the receiver may be the one
 * who has most to do. */
static bool
streams(const struct plan *plan)
{
	for (uint32_t e = 0; e < plan->n_edges; e++)
		if (plan->edges[e].expect)
			return false;
	return plan->rank == plan->shape.root || plan->shape.size == 2;
}

int
instance_connect_slot(oriel_comm *comm, struct instance *inst, struct launch *l, unsigned slot)
{
	const struct plan *plan = inst->plan;
	struct chan **chan = calloc(plan->n_edges + 1, sizeof(struct chan *));
	int rc = 0;

	if (!chan)
		return fail(ORIEL_ENOMEM, "no memory for %u channels", plan->n_edges);
	for (uint32_t e = 0; e < plan->n_edges && !rc; e++)
		rc = get_chan(comm, plan->edges[e].rank, MBOX_CHANNEL(slot, plan->edges[e].queue),
		              &chan[e]);
	if (rc) {
		free(chan);
		return rc;
	}
	l->comm = comm;
	l->ctx = comm->ctx;
	l->plan = plan;
	l->n_queues = plan->program->n_queues;
	launch_queues(l);
	l->mortal = comm->ctx->knobs.s.die[0] != '\0';
	l->streams = streams(plan);
	l->chan = chan;
	name_calls(l);
	return 0;
}

int
instance_connect(oriel_comm *comm, struct instance *inst, struct launch *l)
{
	int rc = instance_connect_slot(comm, inst, l, (unsigned)(l - inst->launch));

	if (!rc)
		make_room(l);
	return rc;
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
	if (rc) {
		instance_free(inst);
		return rc;
	}
	inst->bytes = sizeof(*inst) + plan_bytes(inst->plan) +
	              MBOX_CALLS * inst->plan->n_edges * sizeof(struct chan *);
	*out = inst;
	return 0;
}

/* The least recently used go, but never the first, nor what is in use. */
static void
trim(struct plan_state *s)
{
	while (s->bytes > PLAN_CACHE_BYTES) {
		struct instance **at, **last = NULL, *inst;

		for (at = &s->cache->next; *at; at = &(*at)->next)
			if (!load_acquire(&(*at)->pins))
				last = at;
		if (!last)
			return;
		inst = *last;
		*last = inst->next;
		s->bytes -= inst->bytes;
		instance_free(inst);
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

static struct step
make_step(const struct launch *l, const struct op *op)
{
	struct step st = { .src = op->src };
	struct wire w = { .dst = op->dst, .block = op->i, .last = op->last, .tag = l->tag };

	st.kind = op->kind;
	if (op->kind > OP_WAIT)
		return st;
	st.c = l->chan[op->edge];
	st.len = op->n;
	if (op->kind == OP_WAIT)
		return st;
	w.len = (uint32_t)(op->n * l->block);
	w.kind = w.len <= MBOX_LINE_DATA ? WIRE_INLINE : WIRE_SCRATCH;
	st.len = w.len;
	st.off = op->j * l->block;
	st.meta = wire_pack(w);
	st.plain = !w.len || st.off + st.len <= l->size[op->src];
	return st;
}

/* Of a call that may take the short way; others have none. */
static void
make_steps(struct launch *l)
{
	const struct plan *plan = l->plan;
	struct step *st = l->room;

	l->steps[0] = l->steps[1] = NULL;
	l->quick = 0;
	if (!st || l->large || l->clipped || l->ragged || l->ctx->knobs.v.delay || l->mortal)
		return;
	for (unsigned k = 0; k < MBOX_QUEUES; k++) {
		l->steps[k] = st;
		for (uint32_t i = 0; i < plan->queue[k].n; i++)
			*st++ = make_step(l, &plan->queue[k].ops[i]);
	}
	l->steps_end = l->steps[1];
}

/* Room for TMP; it only grows. */
static int
grow_scratch(struct launch *l)
{
	struct scratch *t = l->scratch;
	size_t size = 4096;

	if (l->size[TMP] <= t->size)
		return 0;
	while (size < l->size[TMP])
		size *= 2;
	if (t->ptr)
		pool_free(l->ctx->pool, t->ptr);
	t->ptr = NULL;
	t->size = 0;
	if (pool_alloc(l->ctx->pool, size, CACHE_LINE, &t->ptr))
		return fail_in(ORIEL_ENOMEM, "%zu bytes of scratch for %s", size,
		               l->plan->program->name);
	t->size = size;
	return 0;
}

int
launch_take_scratch(struct launch *l)
{
	struct scratch *t = l->comm->plan->large;
	int rc;

	/* There are as many as calls. */
	while (swap_acquire(&t->taken, 1))
		t++;
	l->scratch = t;
	rc = grow_scratch(l);
	if (rc)
		store_release(&t->taken, 0);
	return rc;
}

int
launch_sizes(struct launch *l, const struct binding *b)
{
	l->clipped = false;
	for (int i = 0; i < MBOX_BUFS; i++) {
		uint32_t count = l->plan->count[i];

		if (count && b->block > SIZE_MAX / 2 / count)
			return fail(ORIEL_ERANGE, "%s: %u blocks of %zu bytes",
			            l->plan->program->name, count, b->block);
		l->size[i] = count * b->block;
		if (i != TMP && count && b->bytes < l->size[i]) {
			l->size[i] = b->bytes;
			l->clipped = true;
		}
	}
	l->block = b->block;
	l->bytes = b->bytes;
	l->salt = b->salt;
	return 0;
}

/* Whatever all ranks know decides here: what may be long, and so whether "ready" is said. */
int
launch_shape(struct launch *l, const struct binding *b)
{
	const size_t direct = (size_t)l->ctx->knobs.v.direct_min;
	const size_t eager = (size_t)l->ctx->knobs.v.eager_max;
	const size_t small = direct < eager ? direct : eager;
	const size_t at_once = small < MBOX_SCRATCH ? small : MBOX_SCRATCH;
	size_t largest = 0;

	int rc;

	l->shaped = false;
	rc = launch_sizes(l, b);
	if (rc)
		return rc;
	for (int i = 0; i < MBOX_BUFS; i++)
		if (l->size[i] > largest)
			largest = l->size[i];
	l->at_once = at_once > MBOX_LINE_DATA ? at_once : MBOX_LINE_DATA;
	l->hash = wire_hash(l->plan->hash ^ selection_hash(l->ctx->selection) ^
	                            (uint64_t)b->salt << 32 ^ !!b->ragged,
	                    b->block, l->clipped ? b->bytes ^ l->at_once << 32 : l->at_once);
	l->tag = wire_tag(l->hash);
	l->large = largest > l->at_once || b->ragged;
	l->ragged = b->ragged;
	l->record.bytes = b->block;
	l->shaped = true;
	l->shape = ++l->comm->plan->shapes;
	make_steps(l);
	l->scratch = &l->comm->plan->scratch[l->call % MBOX_CALLS];
	return l->large ? 0 : grow_scratch(l);
}
