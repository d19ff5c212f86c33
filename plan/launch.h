/*
 * launch.h - the executor's inner structures: what one call binds to a plan.
 *
 * plan_state hangs off a communicator: channels by (rank, queue), and plans,
 * each bound to the channels of its edges.
 */
#ifndef PLAN_LAUNCH_H
#define PLAN_LAUNCH_H

#include "plan/chan.h"
#include "plan/plan.h"

struct cursor { /* of a queue */
	const struct op *op, *end, *first;
	size_t moved; /* bytes of a put that takes several lines */
};

/*
 * One call. It lives in its plan's instance, so that what does not change from
 * call to call stays filled in; a communicator has one call at a time.
 */
struct launch {
	/* Of the plan and the communicator: */
	oriel_comm *comm;
	oriel_ctx *ctx;
	const struct plan *plan;
	struct chan **chan; /* by edge */
	unsigned n_queues;
	/* Of the block size, too: */
	uint16_t tag;
	bool large;           /* some put may be placed, so all say when they are ready */
	uint32_t line_blocks; /* puts of so many blocks go through a line or its slot's scratch */
	uint64_t hash;
	size_t block;
	size_t size[MBOX_BUFS];
	/* Of this call: */
	uint64_t call;
	char *base[MBOX_BUFS];
	const struct binding *binding;
	uint64_t deadline; /* 0: nothing has blocked yet */
	int error;         /* found where none can be returned */
	int culprit;       /* world rank, -1: this rank */
	bool owed;         /* credits or ready words are to be told */
	bool timed;        /* worth a look at the fine clock */
	bool unquiet;      /* some channel has puts under way */
	struct recorder_call *rec;
	struct cursor cur[MBOX_QUEUES];
};

struct instance {              /* a cached plan, its channels, and its launch */
	struct instance *next; /* least recently used last */
	struct plan *plan;
	struct launch launch;
	size_t bytes;
	uint64_t name[3]; /* text, in the words that the recorder stores */
};

_Static_assert(sizeof(((struct instance *)0)->name) == sizeof(((struct recorder_call *)0)->name) &&
                       offsetof(struct recorder_call, name) % sizeof(uint64_t) == 0,
               "the name can be stored word by word");

struct plan_state {
	struct peer_dir chans; /* rank * MBOX_CHANNELS + channel */
	struct instance *cache;
	size_t bytes;
	size_t eager;   /* messages up to so long go through lines and scratch */
	struct choice { /* coll/: the algorithms of this communicator, up to a size and above it */
		const struct program *small, *large;
		struct shape small_shape, large_shape;
		size_t small_max; /* bytes of a block */
		bool made;
	} allgather;
};

/* plan/cache.c */
int plan_state_make(oriel_comm *comm);
int instance_search(oriel_comm *comm, const struct program *program, const struct shape *shape,
                    struct instance **out);
int instance_shape(struct launch *l, size_t block);

static inline bool
instance_is_of(const struct instance *inst, const struct program *program,
               const struct shape *shape)
{
	const struct shape *s = &inst->plan->shape;

	return inst->plan->program == program && s->arg == shape->arg && s->root == shape->root &&
	       s->node == shape->node;
}

/* comm->plan, made if it is not there. */
static inline int
plan_state_get(oriel_comm *comm, struct plan_state **out)
{
	int rc = likely(comm->plan) ? 0 : plan_state_make(comm);

	*out = comm->plan;
	return rc;
}

/* The plan of this rank with its channels, built or from the cache; becomes the first one. */
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

/* Runs the ops of all queues. launch->culprit is set where it is known. */
int exec_run(struct launch *l);

/* The channel that op waits for or sends on; NULL if it is local. */
static inline struct chan *
launch_chan(const struct launch *l, const struct op *op)
{
	return op->kind <= OP_WAIT ? l->chan[op->edge] : NULL;
}

/* plan/blame.c: errors that say who waits for whom, and what was expected and seen. */
int blame_wait(struct launch *l, const struct cursor *cur, int code, const char *what);
int blame_message(struct launch *l, const struct chan *c, uint64_t seq, const char *what);
int blame_ready(struct launch *l, const struct chan *c);

#endif
