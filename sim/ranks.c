#include "sim/check_impl.h"

#include <stdlib.h>

/* IN and OUT become the same memory, the larger one's. */
static bool
alias(struct sim *s, struct rank *r)
{
	int larger = r->plan->count[OUT] > r->plan->count[IN] ? OUT : IN, other = IN + OUT - larger;

	if (s->check->row->op != COLL_REDUCE_SCATTER && r->plan->count[IN] != r->plan->count[OUT]) {
		sim_wrong(s, "IN has %u blocks, OUT %u: not the same vector", r->plan->count[IN],
		          r->plan->count[OUT]);
		return false;
	}
	free(r->view.buf[other]);
	free(r->unread[other]);
	r->view.buf[other] = r->view.buf[larger];
	r->unread[other] = r->unread[larger];
	return true;
}

bool
sim_make_rank(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];
	const struct check *c = s->check;

	s->error = plan_build(&c->row->program, &c->shape, rank, &r->plan);
	if (s->error)
		return false;
	if (c->change)
		c->change(r->plan, c->change_arg);
	r->view = (struct contract_rank){
		.rank = rank,
		.shape = &c->shape,
		.alias = c->alias,
		.unordered = c->row->unordered,
		.count = r->plan->count,
		.entered = s->entered,
	};
	r->part = calloc(r->plan->count[TMP] + 1, sizeof(*r->part));
	for (uint32_t i = 0; r->part && i < r->plan->count[TMP]; i++)
		r->part[i] = NO_PART;
	for (int b = 0; b < MBOX_BUFS; b++) {
		r->view.buf[b] = calloc(r->plan->count[b] + 1, sizeof(int64_t));
		r->unread[b] = calloc(r->plan->count[b] + 1, 1);
		if (!r->view.buf[b] || !r->unread[b])
			return false;
		for (uint32_t i = 0; i < r->plan->count[b]; i++)
			r->view.buf[b][i] = CONTRACT_GARBAGE;
	}
	if (contract_aliases(c->row->op, &r->view) && !alias(s, r))
		return false;
	r->side = calloc(r->plan->n_edges + 1, sizeof(*r->side));
	for (uint32_t e = 0; r->side && e < r->plan->n_edges; e++) {
		/* A change may have added a send; a batch each is the most. */
		r->side[e].pending =
		        calloc(r->plan->queue[0].n + r->plan->queue[1].n + 2, sizeof(uint32_t));
		r->side[e].clock = calloc(r->plan->edges[e].expect + 1, sizeof(int));
		if (!r->side[e].pending || !r->side[e].clock)
			return false;
	}
	contract_start(c->row->op, &r->view);
	return r->side && r->part;
}

void
sim_join_sides(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];

	for (uint32_t e = 0; e < r->plan->n_edges; e++) {
		const struct plan *there = s->rank[r->plan->edges[e].rank].plan;

		r->side[e].there = UINT32_MAX;
		for (uint32_t t = 0; t < there->n_edges; t++)
			if (there->edges[t].rank == rank &&
			    there->edges[t].queue == r->plan->edges[e].queue)
				r->side[e].there = t;
	}
}

void
sim_free_rank(struct rank *r)
{
	for (uint32_t e = 0; r->side && e < r->plan->n_edges; e++) {
		free(r->side[e].pending);
		free(r->side[e].clock);
	}
	free(r->side);
	free(r->part);
	if (r->view.buf[IN] == r->view.buf[OUT])
		r->view.buf[IN] = NULL, r->unread[IN] = NULL;
	for (int b = 0; b < MBOX_BUFS; b++) {
		free(r->view.buf[b]);
		free(r->unread[b]);
	}
	plan_free(r->plan);
}
