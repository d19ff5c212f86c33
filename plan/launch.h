/*
 * launch.h - the executor's inner structures: what one call binds to a plan.
 *
 * plan_state hangs off a communicator: channels by (rank, channel), plans bound
 * to the channels of their edges, and the jobs that are under way.
 *
 * Calls are numbered; call e uses slot e % MBOX_CALLS: its channels, its scratch,
 * its launch in each instance. So it starts only when call e - MBOX_CALLS has
 * ended here, and calls start in their order.
 */
#ifndef PLAN_LAUNCH_H
#define PLAN_LAUNCH_H

#include "plan/chan.h"
#include "plan/plan.h"
#include "rma/task.h"

struct cursor { /* of a queue */
	const struct op *op, *end, *first;
	size_t moved;   /* bytes of a put that takes several lines */
	uint32_t block; /* ragged: blocks of the op that are through */
};

/*
 * A message op of a call whose messages are all short and whose blocks lie one
 * behind the other, worked out once: plan/short.h.
 */
struct step {
	struct chan *c;
	uint64_t meta;
	size_t off;   /* in src */
	uint32_t len; /* wait: the batch */
	uint8_t kind; /* enum op_kind */
	uint8_t src;
	bool plain; /* all of the above holds; else the op is worked out anew */
};

struct opening {        /* of a call: what its channels start from */
	struct chan *c; /* NULL: the end */
	uint64_t begin;
};

/* One call. It lives in its plan's instance, so that what does not change from call to call stays
 * filled in. */
struct launch {
	/* Of the plan, the communicator and the slot: */
	oriel_comm *comm;
	oriel_ctx *ctx;
	const struct plan *plan;
	struct chan **chan; /* by edge; NULL: never used yet */
	unsigned n_queues;
	bool mortal;       /* ORIEL_DIE is set */
	bool streams;      /* this rank only sends, and each of its receivers hears only from it */
	struct step *room; /* for steps; NULL: there are never any */
	/* Of the sizes, too: */
	bool shaped;
	struct step *steps[MBOX_QUEUES]; /* NULL: there are none */
	const struct step *steps_end;    /* of queue 0 */
	struct opening *openings;        /* if there is room for steps */
	uint64_t quick; /* fixed, if there is one queue, with steps, and nothing to finish; or 0 */
	struct scratch *scratch; /* TMP */
	struct launch_record {   /* what the recorder stores of all such calls, word by word */
		uint64_t comm, plan, bytes;
		uint64_t name[3];
		uint64_t steps; /* n_steps, and wait_peer -1 */
	} record;
	uint64_t shape; /* no other launch of the communicator ever has this number */
	bool large;     /* some put may be placed, so all say when they are ready */
	bool clipped;   /* IN or OUT ends before its last block does */
	uint16_t tag;
	uint32_t salt;
	uint64_t hash;
	size_t block, bytes;
	size_t at_once; /* longer messages need to know that the receiver is ready */
	size_t size[MBOX_BUFS];
	/* Of this call: */
	uint64_t call;
	char *base[MBOX_BUFS];
	const struct binding *binding;
	const struct ragged *ragged;
	uint64_t deadline;       /* 0: nothing has blocked yet */
	int error;               /* found where none can be returned */
	int culprit;             /* world rank, -1: this rank */
	uint64_t fixed;          /* the id of the binding that has the sizes above, or 0 */
	char *own_to, *own_from; /* of fixed */
	/* Of a call that is short and has not waited all are false. */
	union {
		struct {
			bool patient; /* nobody waits for this call alone: look, do not spin */
			bool owed;    /* credits or ready words are to be told */
			bool timed;   /* worth a look at the fine clock */
			bool unquiet; /* some channel has puts under way */
		};
		uint32_t flags;
	};
	struct recorder_call *rec;
	struct cursor cur[MBOX_QUEUES];
};

struct instance {              /* a cached plan and its launches */
	struct instance *next; /* least recently used last */
	struct plan *plan;
	size_t bytes;
	uint32_t pins; /* requests and running calls that need it */
	struct launch launch[MBOX_CALLS];
	struct launch *stream; /* plan/stream.h; NULL: never used on a stream */
};

struct plan_state {
	struct stream_state *stream; /* plan/stream.h; NULL: nothing was ever called on a stream */
	struct peer_dir chans;       /* rank * MBOX_CHANNELS + channel */
	struct instance *cache;
	size_t bytes;
	/*
	 * TMP of the calls under way: of small ones by slot; large ones take the first that is
	 * free, so that calls one after the other use the same memory, which caches hold.
	 */
	struct scratch {
		void *ptr;
		size_t size;
		uint32_t taken;
	} scratch[MBOX_CALLS], large[MBOX_CALLS];
	struct job *jobs, **jobs_end; /* plan/job.h, in the order of their calls */
	struct job *running[MBOX_CALLS];
	bool busy[MBOX_CALLS]; /* slots of calls that run outside the list of jobs */
	uint32_t crowd;        /* jobs in the list and outside of it */
	uint64_t shapes;       /* numbers given to launches' shapes */
	uint64_t bindings;     /* ids given to bindings, by the thread in the call */
	struct task task;      /* in the context's list while there are jobs */
	oriel_comm *comm;
	void *recent; /* coll/: what the last calls chose */
	int node;     /* coll/shape.c; -1: not looked up yet */
};

/* plan/cache.c */
int plan_state_make(oriel_comm *comm);
int instance_search(oriel_comm *comm, const struct program *program, const struct shape *shape,
                    struct instance **out);
/* Sizes of the buffers. ERANGE. */
int launch_sizes(struct launch *l, const struct binding *b);
/* The channels of the slot that call uses. */
int instance_connect(oriel_comm *comm, struct instance *inst, struct launch *l);
/* The same for one that stands alone. */
int instance_connect_slot(oriel_comm *comm, struct instance *inst, struct launch *l, unsigned slot);
/* What depends on sizes alone, and room for TMP of small calls. */
int launch_shape(struct launch *l, const struct binding *b);
/* TMP of a large call, until it ends. */
int launch_take_scratch(struct launch *l);
static inline void
launch_leave_scratch(struct launch *l)
{
	if (l->large && l->size[TMP])
		store_release(&l->scratch->taken, 0);
}

static inline bool
instance_is_of(const struct instance *inst, const struct program *program,
               const struct shape *shape)
{
	const struct shape *s = &inst->plan->shape;

	return inst->plan->program == program && s->arg == shape->arg && s->root == shape->root &&
	       s->node == shape->node;
}

/* While it is pinned it stays in the cache. */
static inline void
instance_pin(struct instance *inst)
{
	add_relaxed(&inst->pins, 1);
}

static inline void
instance_unpin(struct instance *inst)
{
	add_release(&inst->pins, (uint32_t)-1);
}

/* comm->plan, made if it is not there. */
static inline int
plan_state_get(oriel_comm *comm, struct plan_state **out)
{
	int rc = likely(comm->plan) ? 0 : plan_state_make(comm);

	*out = comm->plan;
	return rc;
}

/* The plan of this rank, built or from the cache; becomes the first one. */
static inline int
instance_get(oriel_comm *comm, const struct program *program, const struct shape *shape,
             struct instance **out)
{
	struct plan_state *s;
	int rc = plan_state_get(comm, &s);

	if (unlikely(rc))
		return rc;
	*out = s->cache;
	if (likely(*out && instance_is_of(*out, program, shape)))
		return 0;
	return instance_search(comm, program, shape, out);
}

/*
 * plan/launch.c: a call is begun (an error: it has failed, and all members know),
 * run, and ended with the executor's result; end returns the call's.
 */
int launch_begin(struct instance *inst, oriel_comm *comm, uint64_t call, const struct binding *b,
                 bool patient, struct launch **out);
int launch_end(struct launch *l, int rc);
/* A call that was not begun here, or not by launch_begin, has failed. culprit: a world rank, -1:
 * this one. */
int launch_fail_unmade(oriel_comm *comm, uint64_t call, int culprit, int rc);

static inline void
launch_queues(struct launch *l)
{
	for (unsigned k = 0; k < l->n_queues; k++) {
		l->cur[k].first = l->plan->queue[k].ops;
		l->cur[k].end = l->cur[k].first + l->plan->queue[k].n;
	}
}

/* plan/die.c: has this rank die in the call that has been started, if ORIEL_DIE says so. */
int launch_die(struct launch *l);

/*
 * plan/quick.c: a whole blocking call, if it was made before with b, which has
 * not changed since, and nothing else is under way. False: nothing was done.
 */
bool quick_call(oriel_comm *comm, struct instance *inst, const struct binding *b, int *rc);

/* plan/exec.c: runs the ops of all queues until the end. launch->culprit is set where it is known.
 */
int exec_run(struct launch *l);
/* Runs what can run now. *done: all has. */
int exec_advance(struct launch *l, bool *done);
/* The same, without a look at anything but what its queues need. */
int exec_try(struct launch *l, bool *done);
/* The peers that it waits for are watched. */
void exec_watch(struct launch *l);

/* The channel that op waits for or sends on; NULL if it is local. */
static inline struct chan *
launch_chan(const struct launch *l, const struct op *op)
{
	return op->kind <= OP_WAIT ? l->chan[op->edge] : NULL;
}

/* plan/blame.c: errors that say who waits for whom, and what was expected and seen. */
int blame_wait(struct launch *l, const struct cursor *cur, int code, const char *what);
/* An error with a detail of its own: where this rank stood. */
int blame_stand(struct launch *l, int rc);
static inline int
blame_told(struct launch *l, uint64_t word)
{
	return blame_stand(l, comm_fail_error(l->comm, word));
}
int blame_message(struct launch *l, const struct chan *c, uint64_t seq, const char *what);
int blame_ready(struct launch *l, const struct chan *c);
/* more: what was sent may not have ended. */
int blame_length(struct launch *l, const struct chan *c, size_t sent, bool more, size_t expected);

#endif
