/*
 * die.c - a rank that ends itself in the middle of a call, for tests.
 *
 * ORIEL_DIE=RANK:PROGRAM:CALL:STEP[:SIGNAL]: in its CALL-th call (from 1) of a
 * program, such as allgather/ring, that world rank runs STEP ops, or all if it
 * has fewer, and then sends itself SIGNAL (9). Steps are counted through all queues, the first one
 * first. The op that does it is put into a copy of the plan's queue, so the executor knows nothing
 * of it.
 */
#include "plan/launch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct death {
	int rank, sig;
	char program[32];
	unsigned call, step;
};

static bool
parse(const char *text, struct death *d)
{
	int n;

	d->sig = SIGKILL;
	n = sscanf(text, "%d:%31[^:]:%u:%u:%d", &d->rank, d->program, &d->call, &d->step, &d->sig);
	return n >= 4 && d->sig > 0;
}

static int
die(void *arg, int sig, int unused)
{
	(void)arg;
	(void)unused;
	return kill(getpid(), sig) ? fail(ORIEL_EINVAL, "ORIEL_DIE: signal %d", sig) : 0;
}

/* The queue's ops, with the deadly one behind the first steps of them. */
static int
insert(struct launch *l, struct cursor *cur, unsigned step, int sig)
{
	const struct op deadly = { .kind = OP_CALL, .i = (uint32_t)sig, .fn = die };
	size_t n = (size_t)(cur->end - cur->first);
	struct op *ops = calloc(n + 1, sizeof(*ops));

	if (!ops)
		return fail(ORIEL_ENOMEM, "ORIEL_DIE: no memory for %zu ops", n + 1);
	memcpy(ops, cur->first, step * sizeof(*ops));
	ops[step] = deadly;
	memcpy(ops + step + 1, cur->first + step, (n - step) * sizeof(*ops));
	free(l->ctx->deadly_ops);
	l->ctx->deadly_ops = ops;
	cur->first = cur->op = ops;
	cur->end = ops + n + 1;
	return 0;
}

int
launch_die(struct launch *l)
{
	struct death d;
	unsigned all = 0;

	if (!parse(l->ctx->knobs.s.die, &d))
		return fail(ORIEL_EINVAL, "ORIEL_DIE=%s is not RANK:PROGRAM:CALL:STEP[:SIGNAL]",
		            l->ctx->knobs.s.die);
	if (d.rank != l->ctx->boot.rank || strcmp(d.program, l->plan->program->name) ||
	    ++l->ctx->deadly_calls != d.call)
		return 0;
	for (unsigned k = 0; k < l->n_queues; k++)
		all += (unsigned)(l->cur[k].end - l->cur[k].first);
	d.step = d.step < all ? d.step : all;
	log_at(LOG_INFO, "rank %d sends itself signal %d after %u of %u ops of %s", d.rank, d.sig,
	       d.step, all, d.program);
	for (unsigned k = 0; k < l->n_queues; k++) {
		size_t n = (size_t)(l->cur[k].end - l->cur[k].first);

		if (d.step < n || (d.step == n && k + 1 == l->n_queues))
			return insert(l, &l->cur[k], d.step, d.sig);
		d.step -= (unsigned)n;
	}
	return 0;
}
