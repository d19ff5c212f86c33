/*
 * solo.c - jobs of a context's threads (rma/task.h, plan/job.c) on weakly ordered
 * CPUs: one thread gets the job that has begun, nobody touches it once it is
 * done, a slot is one call's at a time, and the helper does not sleep over a job
 * that nobody waits for.
 *
 * What a job and its slot hold are plain words here, so that two threads that use
 * them at the same time, or in no order, are found.
 */
#include "checker.h"
#include "rma/task.h"

enum {
	STORE_OVER = 1,
	CLAIM_UNASKED,
	TOUCH_LATE,
	DONE_FIRST,
	CROWD_FIRST,
	NO_CROWD,
	NO_BUSY,
	BUSY_FIRST,
	ONLY_COUNT,
	LOOK_FIRST,
	DOZE_LATE,
	SAY_NAP
};
#define JOBS 2
#define WAKE_PIPE 0

static struct ctl ctl;
static struct oriel_ctx ctx = { .ctl = &ctl };
static struct job { /* the words of plan/job.h and launch.h that matter, each of a communicator */
	int status;
	uint32_t done;
	uint32_t listed; /* under the lock: it is a task, and in its slot */
	uint32_t crowd;
	bool busy;
	uint64_t slot; /* what a call uses: channels, scratch */
} job[JOBS];
static uint32_t task_lock;
static bool bare; /* of a job only done is of interest, and there is a helper */

static void
words(void)
{
	atomic_var(&ctx.solo, "solo", 0);
	atomic_var(&ctx.n_tasks, "n_tasks", 0);
	atomic_var(&task_lock, "task_lock", 0);
	bare = false;
}

static void
words_of_users(unsigned n)
{
	static const char *const name[][6] = {
		{ "job[0]", "slot[0]", "listed[0]", "busy[0]", "crowd[0]", "done[0]" },
		{ "job[1]", "slot[1]", "listed[1]", "busy[1]", "crowd[1]", "done[1]" },
	};

	words();
	for (unsigned k = 0; k < n; k++) {
		data_var(&job[k].status, name[k][0], 0);
		data_var(&job[k].slot, name[k][1], 0);
		data_var(&job[k].listed, name[k][2], 0);
		atomic_var(&job[k].busy, name[k][3], 0);
		atomic_var(&job[k].crowd, name[k][4], 0);
		atomic_var(&job[k].done, name[k][5], 0);
	}
}

static void
words_of_one(void)
{
	words_of_users(1);
}

static void
words_of_two(void)
{
	words_of_users(2);
}

static void
words_of_helper(unsigned n)
{
	static const char *const name[][2] = { { "listed[0]", "done[0]" },
		                               { "listed[1]", "done[1]" } };

	words();
	for (unsigned k = 0; k < n; k++) {
		data_var(&job[k].listed, name[k][0], 0);
		atomic_var(&job[k].done, name[k][1], 0);
	}
	atomic_var(&ctx.begun, "begun", 0);
	atomic_var(&ctx.helper_naps, "helper_naps", true);
	atomic_var(&ctl.helper_asleep, "helper_asleep", 0);
	bare = true;
}

static void
words_of_helper_and_one(void)
{
	words_of_helper(1);
}

static void
words_of_helper_and_two(void)
{
	words_of_helper(2);
}

/* ---- ctx->task_lock ---- */

static bool
lock_if_free(void)
{
	uint32_t nobody = 0;

	return cas_acq_rel(&task_lock, &nobody, 1);
}

static void
lock(void)
{
	do
		until(!load_relaxed(&task_lock));
	while (!lock_if_free());
}

static void
unlock(void)
{
	store_release(&task_lock, 0);
}

/* ---- plan/job.c and rma/task.c ---- */

void
task_begun_slow(oriel_ctx *c)
{
	(void)c;
	model_pipe_write(WAKE_PIPE);
}

static void
adopt(unsigned k)
{
	data_write(&job[k].listed, 1);
	if (!bare) {
		data_read(&job[k].status);
		store_release(&job[k].busy, false);
	}
	store_relaxed(&ctx.n_tasks, load_relaxed(&ctx.n_tasks) + 1);
	if (bare && load_relaxed(&ctl.helper_asleep))
		model_pipe_write(WAKE_PIPE);
}

static void
end_of(unsigned k)
{
	if (mutant(DONE_FIRST))
		store_release(&job[k].done, 1);
	if (mutant(CROWD_FIRST))
		add_release(&job[k].crowd, (uint32_t)-1);
	data_write(&job[k].slot, 1);
	data_write(&job[k].status, 1);
}

static void
release(unsigned k)
{
	if (!mutant(CROWD_FIRST))
		add_release(&job[k].crowd, (uint32_t)-1);
	if (!mutant(DONE_FIRST))
		store_release(&job[k].done, 1);
	if (mutant(TOUCH_LATE))
		data_read(&job[k].status);
}

/* Under the lock. */
static void
advance_job(unsigned k)
{
	if (!data_read(&job[k].listed))
		return;
	data_write(&job[k].listed, 0);
	store_relaxed(&ctx.n_tasks, load_relaxed(&ctx.n_tasks) - 1);
	if (bare) {
		store_release(&job[k].done, 1);
		return;
	}
	end_of(k);
	release(k);
}

/* tasks_turn. A job that was adopted ends in another one, unless only its end is of interest: then
 * it is not even listed. */
static void
turn(unsigned n)
{
	struct job *j;

	if (!tasks_wait(&ctx) || !lock_if_free())
		return;
	j = solo_take(&ctx);
	if (j && bare)
		store_release(&j->done, 1);
	else if (j)
		adopt((unsigned)(j - job));
	for (unsigned k = 0; k < n && !j; k++)
		advance_job(k);
	unlock();
}

/* job_go_on. */
static void
start(unsigned k)
{
	if (!bare) {
		data_write(&job[k].slot, 1);
		data_write(&job[k].status, 0);
		store_relaxed(&job[k].busy, true);
		add_relaxed(&job[k].crowd, 1);
		store_relaxed(&job[k].done, 0);
	}
	if (mutant(STORE_OVER)) {
		store_release(&ctx.solo, &job[k]);
	} else if (!solo_offer(&ctx, &job[k])) {
		lock();
		adopt(k);
		unlock();
	}
}

/* job_run_solo. */
static bool
run_solo(unsigned k)
{
	if (mutant(CLAIM_UNASKED)) {
		if (load_relaxed(&ctx.solo) != &job[k])
			return false;
		store_relaxed(&ctx.solo, NULL);
	} else if (!solo_claim(&ctx, &job[k])) {
		return false;
	}
	if (mutant(BUSY_FIRST))
		store_release(&job[k].busy, false);
	end_of(k);
	if (!mutant(BUSY_FIRST))
		store_release(&job[k].busy, false);
	release(k);
	return true;
}

static bool
jobs_idle(unsigned k)
{
	return !load_acquire(&job[k].crowd);
}

/* One round of the wait in job_run. */
static bool
wait_a_round(unsigned k, unsigned n)
{
	if (load_acquire(&job[k].done))
		return true;
	turn(n);
	until(load_relaxed(&job[k].done) || (tasks_wait(&ctx) && !load_relaxed(&task_lock)));
	return false;
}

/* Starts job k of n, waits for it, and frees it. */
static void
user(unsigned k, unsigned n)
{
	switch (model_stage()) {
	case 0:
		start(k);
		model_next_stage(1);
		break;
	case 1:
		model_next_stage(run_solo(k) ? 3 : 2);
		break;
	case 2:
		model_next_stage(wait_a_round(k, n) ? 3 : 2);
		break;
	case 3:
		expect(data_read(&job[k].status) == 1, "the job has ended");
		data_write(&job[k].status, 2);
		if (jobs_idle(k))
			data_write(&job[k].slot, 2);
		break;
	}
}

static void
only_user(void)
{
	user(0, 1);
}

static void
user0(void)
{
	user(0, 2);
}

static void
user1(void)
{
	user(1, 2);
}

/* A thread that waits for something else. */
static void
passer_by(void)
{
	if (model_stage() == 2)
		return;
	turn(1);
	model_next_stage(model_stage() + 1);
}

#define SOLO_MUTANTS                                                                               \
	{ "solo is offered relaxed", WEAKEN, OP_CAS, "solo", MODEL_RELEASE, 0 },                   \
	        { "the waiter takes it without asking", FLAG, 0, NULL, 0, CLAIM_UNASKED },         \
	        { "done is stored relaxed", WEAKEN, OP_STORE, "done", MODEL_RELEASE, 0 },          \
	        { "done is loaded relaxed", WEAKEN, OP_LOAD, "done", MODEL_ACQUIRE, 0 },           \
	        { "done before the end", FLAG, 0, NULL, 0, DONE_FIRST },                           \
	{                                                                                          \
		"the job is looked at after done", FLAG, 0, NULL, 0, TOUCH_LATE                    \
	}

static const struct mutant solo_mutants[] = {
	SOLO_MUTANTS,
	{ "solo is taken relaxed", WEAKEN, OP_RMW, "solo", MODEL_ACQUIRE, 0 },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant two_user_mutants[] = {
	SOLO_MUTANTS,
	{ "a job is stored over another", FLAG, 0, NULL, 0, STORE_OVER },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* ---- The slot's next call, started by another thread while the first waits for the job ---- */

static uint32_t in_call;

static void
words_of_slot(void)
{
	words_of_users(1);
	atomic_var(&in_call, "in_call", 1);
}

static void
first_caller(void)
{
	if (model_stage() == 0) {
		start(0);
		store_release(&in_call, 0);
		model_next_stage(1);
	}
	if (model_stage() != 3)
		user(0, 1);
}

/* start_call's condition. */
static bool
slot_is_free(void)
{
	return mutant(NO_BUSY) || !load_acquire(&job[0].busy);
}

/* As a job: once the call before it has left the slot. Under the lock. */
static bool
start_behind(void)
{
	bool free = !data_read(&job[0].listed) && slot_is_free();

	if (free)
		data_write(&job[0].slot, 3);
	return free;
}

static void
next_caller(void)
{
	struct job *j;
	bool begun;

	if (model_stage() == 0) {
		until(!load_acquire(&in_call));
		if (!mutant(NO_CROWD) && !jobs_idle(0))
			model_next_stage(1);
		data_write(&job[0].slot, 3);
		return;
	}
	lock();
	j = solo_take(&ctx);
	if (j)
		adopt(0);
	else
		advance_job(0);
	begun = start_behind();
	unlock();
	if (begun)
		return;
	until(!load_relaxed(&job[0].busy) && !load_relaxed(&task_lock));
	model_next_stage(1);
}

static const struct mutant slot_mutants[] = {
	{ "crowd is lowered relaxed", WEAKEN, OP_RMW, "crowd", MODEL_RELEASE, 0 },
	{ "crowd is loaded relaxed", WEAKEN, OP_LOAD, "crowd", MODEL_ACQUIRE, 0 },
	{ "busy is stored relaxed", WEAKEN, OP_STORE, "busy", MODEL_RELEASE, 0 },
	{ "busy is loaded relaxed", WEAKEN, OP_LOAD, "busy", MODEL_ACQUIRE, 0 },
	{ "crowd is lowered before the end", FLAG, 0, NULL, 0, CROWD_FIRST },
	{ "no look at crowd", FLAG, 0, NULL, 0, NO_CROWD },
	{ "no look at busy", FLAG, 0, NULL, 0, NO_BUSY },
	{ "busy is cleared before the end", FLAG, 0, NULL, 0, BUSY_FIRST },
	{ NULL, 0, 0, NULL, 0, 0 },
};

/* ---- Jobs that nobody waits for: the helper's naps and long sleeps ---- */

static void
begin_job(unsigned k)
{
	bool naps = mutant(LOOK_FIRST) && load_relaxed(&ctx.helper_naps);

	start(k);
	if (!mutant(LOOK_FIRST))
		task_begun(&ctx);
	else if (!naps)
		model_pipe_write(WAKE_PIPE);
}

static void
starter0(void)
{
	begin_job(0);
}

static void
starter1(void)
{
	begin_job(1);
}

/* Naps have no end of their own here, so they are not slept at all. */
static void
helper_round(unsigned n, bool naps)
{
	uint64_t begun = mutant(ONLY_COUNT) ? load_relaxed(&ctx.begun) : 0;
	bool idle;

	turn(n);
	if (mutant(DOZE_LATE)) {
		idle = !tasks_wait(&ctx);
		helper_lies_down(&ctx, naps);
	} else {
		idle = helper_lies_down(&ctx, naps || mutant(SAY_NAP));
	}
	if (mutant(ONLY_COUNT))
		idle = load_relaxed(&ctx.begun) == begun && !load_relaxed(&ctx.n_tasks);
	if (idle && !naps)
		model_pipe_wait(WAKE_PIPE);
	helper_stands_up(&ctx);
}

static void
napping_helper(void)
{
	helper_round(1, model_stage());
	model_next_stage(!model_stage());
}

static void
helper_of_two(void)
{
	helper_round(2, false);
	model_next_stage(0);
}

static void
one_done(void)
{
	expect(final_value(&job[0].done) == 1, "the job is done");
}

static void
two_done(void)
{
	one_done();
	expect(final_value(&job[1].done) == 1, "the other thread's job is done");
}

#define NAP_MUTANTS                                                                                \
	{ "no fence on all CPUs", DROP_FENCE_ALL, 0, NULL, 0, 0 },                                 \
	        { "the helper looks before it says that it sleeps", FLAG, 0, NULL, 0, DOZE_LATE }, \
	        { "the starter looks first", FLAG, 0, NULL, 0, LOOK_FIRST },                       \
	        { "a long sleep is called a nap", FLAG, 0, NULL, 0, SAY_NAP },                     \
	{                                                                                          \
		"only the count is looked at", FLAG, 0, NULL, 0, ONLY_COUNT                        \
	}

static const struct mutant nap_mutants[] = {
	NAP_MUTANTS,
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct mutant two_starter_mutants[] = {
	NAP_MUTANTS,
	{ "a job is stored over another", FLAG, 0, NULL, 0, STORE_OVER },
	{ NULL, 0, 0, NULL, 0, 0 },
};

static const struct scenario scenarios[] = {
	{ "a job, waited for, and two threads passing by",
	  words_of_one,
	  { only_user, passer_by, passer_by },
	  NULL,
	  solo_mutants,
	  0 },
	{ "two jobs of two threads, each waited for",
	  words_of_two,
	  { user0, user1 },
	  NULL,
	  two_user_mutants,
	  0 },
	{ "the next call in the slot, by another thread",
	  words_of_slot,
	  { first_caller, next_caller },
	  NULL,
	  slot_mutants,
	  0 },
	{ "a job that nobody waits for, the helper",
	  words_of_helper_and_one,
	  { starter0, napping_helper },
	  one_done,
	  nap_mutants,
	  2 },
	{ "two jobs of two threads, the helper",
	  words_of_helper_and_two,
	  { starter0, starter1, helper_of_two },
	  two_done,
	  two_starter_mutants,
	  4 },
};

CHECK_ALL(scenarios)
