/*
 * launch.c - one call: plan and channels from the cache, buffers bound, the
 * executor run, and the rules of failure kept.
 */
#include "plan/launch.h"

#include "plan/record.h"

#include <stdio.h>
#include <string.h>

#define GRACE_NS UINT64_C(10000000000) /* for peers of a failed call, where no timeout is set */

/* The sizes that the launch was shaped for. */
static inline bool
has_shape(const struct launch *l, const struct binding *b)
{
	return l->shaped && l->block == b->block && l->bytes == b->bytes && l->salt == b->salt &&
	       !l->ragged == !b->ragged;
}

static inline void
start(struct launch *l, const struct binding *b, bool patient)
{
	const struct plan *plan = l->plan;

	l->base[IN] = b->buf[IN];
	l->base[OUT] = b->buf[OUT];
	l->base[TMP] = l->scratch->ptr;
	l->binding = b;
	l->ragged = b->ragged;
	l->deadline = 0;
	l->error = 0;
	l->patient = patient;
	l->owed = l->timed = l->large;
	l->unquiet = false;
	if (unlikely(l->mortal))
		launch_queues(l);
	for (unsigned k = 0; k < l->n_queues; k++) {
		l->cur[k].op = l->cur[k].first;
		l->cur[k].moved = 0;
		l->cur[k].block = 0;
	}
	for (uint32_t e = 0; e < plan->n_edges; e++)
		l->chan[e]->begin = chan_begin(plan->edges[e].expect);
	if (unlikely(b->ragged))
		for (uint32_t e = 0; e < plan->n_edges; e++)
			l->chan[e]->got = 0;
	if (b->own)
		launch_own_block(l);
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
			log_at(LOG_WARN,
			       "rank %d has not said that it leaves the buffers of a failed "
			       "call alone: it may still write them",
			       c->peer->rank);
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
		return begun ? blame_told(l, stands) : comm_fail_error(l->comm, stands);
	return fail(rc, "%s", detail);
}

int
launch_fail_unmade(oriel_comm *comm, uint64_t call, int culprit, int rc)
{
	struct launch l = { .comm = comm, .ctx = comm->ctx, .call = call, .culprit = culprit };

	return fail_call(&l, rc, false);
}

int
launch_begin(struct instance *inst, oriel_comm *comm, uint64_t call, const struct binding *b,
             bool patient, struct launch **out)
{
	struct launch *l = &inst->launch[call % MBOX_CALLS];
	int rc = 0;

	if (unlikely(!l->chan))
		rc = instance_connect(comm, inst, l);
	if (unlikely(rc))
		return launch_fail_unmade(comm, call, -1, rc);
	l->call = call;
	l->culprit = -1;
	if (unlikely((!b->id || l->fixed != b->id) && !has_shape(l, b))) {
		rc = launch_shape(l, b);
		if (rc)
			return fail_call(l, rc, false);
	}
	rc = l->large && l->size[TMP] ? launch_take_scratch(l) : 0;
	if (unlikely(rc))
		return fail_call(l, rc, false);
	l->fixed = b->id;
	l->quick = 0;
	if (unlikely(b->id)) {
		if (l->steps[0] && l->n_queues == 1 && !b->finish && !l->mortal)
			l->quick = b->id;
		l->own_to = (char *)b->buf[OUT] + b->own_out * l->block;
		l->own_from = (char *)b->buf[IN] + b->own_in * l->block;
	}
	start(l, b, patient);
	rc = unlikely(l->mortal) ? launch_die(l) : 0;
	if (unlikely(rc)) {
		rc = fail_call(l, rc, true);
		launch_leave_scratch(l);
		return rc;
	}
	record_begin(l, l->timed);
	*out = l;
	return 0;
}

static int
check_lengths(struct launch *l)
{
	int rc = 0;

	for (uint32_t e = 0; e < l->plan->n_edges && !rc; e++)
		rc = message_check_length(l, l->chan[e]);
	return rc;
}

int
launch_end(struct launch *l, int rc)
{
	l->deadline = 0;
	if (unlikely(!rc && l->ragged && l->ragged->out.own))
		rc = check_lengths(l);
	if (unlikely(!rc && comm_failed(l->comm)))
		rc = blame_told(l, comm_failed(l->comm));
	if (unlikely(rc))
		rc = fail_call(l, rc, true);
	else if (unlikely(l->binding->finish))
		local_finish(l);
	launch_leave_scratch(l);
	record_end(l, rc);
	return rc;
}
