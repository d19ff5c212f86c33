/*
 * job.h - collectives that do not run at once from end to end on the calling
 * thread: nonblocking and persistent ones, and those that are cut into chunks.
 *
 * A job is one collective; each of its chunks is a call of its own. A
 * communicator's jobs are started in order, as many of their calls at a time as
 * there are slots, and are advanced by whoever waits (rma/task.h).
 *
 * Life cycle: the caller owns the memory and fills in what is marked; job_start;
 * done turns true once; then it may be started again or freed.
 */
#ifndef PLAN_JOB_H
#define PLAN_JOB_H

#include "plan/launch.h"

struct job {
	/* The caller's: */
	oriel_comm *comm;
	struct instance *inst; /* pinned */
	struct binding binding;
	size_t chunk; /* bytes of a vector, or of each block; 0: one call */
	bool vector;  /* a chunk is a stretch of the vector */
	size_t align; /* of its parts */
	/* job.c's: */
	struct job *next;
	struct launch *launch; /* of its only call, while it is solo */
	uint64_t first;        /* call */
	uint32_t n_chunks, started, ended;
	struct piece { /* of the chunk that runs in the slot */
		struct binding binding;
		struct ragged ragged;
		struct launch *launch;
	} piece[MBOX_CALLS];
	int status;
	uint32_t done;
	char detail[512]; /* of status, whole */
};

/* Under ctx->task_lock: the solo job becomes one of its communicator's list. */
void job_adopt(oriel_ctx *ctx);

/* After the caller's part is filled in. */
void job_prepare(struct job *j);
/* Takes the next call numbers and begins; between comm_call_begin and comm_call_end. Errors show
 * in the job. */
void job_start(struct job *j);
static inline bool
job_done(const struct job *j)
{
	return load_acquire(&j->done) != 0;
}
enum job_state { JOB_NOT_BEGUN = 0, JOB_UNDER_WAY, JOB_COMPLETE };
/* plan/quick.c: as job_start for one that was started before. Not begun: nothing was done;
 * complete: without an error, and the job looks as if it had never been started. */
enum job_state job_quick(struct job *j);
/* Its one call has begun, and some of its ops are through. */
void job_go_on(struct job *j, struct launch *l);
/* A blocking call on this thread, from end to end; nothing else runs on the communicator
 * (jobs_idle). */
int call_run(oriel_comm *comm, struct instance *inst, const struct binding *b);
/* A blocking call among others: starts the job, makes progress until it is done; its result. */
int job_run(struct job *j);
/* If it is solo: runs it on this thread to its end. True: it is done. */
bool job_run_solo(struct job *j);
/* The result of a job that is done, with its detail. */
int job_result(const struct job *j);
/* Its peers are watched; for waits. */
void job_watch(struct job *j);
/* EBUSY names a request of the communicator that runs. */
int jobs_check_ended(oriel_comm *comm);
/* Nothing runs on the communicator but what this thread runs. */
static inline bool
jobs_idle(const oriel_comm *comm)
{
	const struct plan_state *s = comm->plan;

	return !load_acquire(&s->crowd);
}

#endif
