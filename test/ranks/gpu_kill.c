/*
 * gpu_kill.c - a rank is killed while the others' streams wait for it, at a random
 * moment: every stream ends soon, and every survivor is told who has died.
 *
 * Started as one rank it starts jobs of its own, as p2p_kill does.
 */
#include "test/ranks/gpu_test.h"

#include "test/ranks/jobs.h"

#include <ctype.h>

#define JOB_SIZE 3
#define LEN ((size_t)100000)
#define AHEAD 5 /* rounds that are enqueued at a time */
/* A death is noticed at once, and the streams are let go within milliseconds; the rest is for
 * busy machines. */
#define IN_TIME_NS (UINT64_C(5) * 1000000000)

/* A detail that says "rank N", N not the beginning of a longer number. */
static bool
names(const char *detail, int rank)
{
	char text[32];

	snprintf(text, sizeof(text), "rank %d", rank);
	for (const char *p = strstr(detail, text); p; p = strstr(p + 1, text))
		if (!isdigit((unsigned char)p[strlen(text)]))
			return true;
	return false;
}

/* Rounds of a ring on the stream; waits by EQ or by GE, which both have to end. */
static int
rounds_ahead(struct test *t, oriel_win *win, char *base, uint64_t first)
{
	int rc = 0;

	for (uint64_t i = first; i < first + AHEAD && !rc; i++) {
		rc = oriel_put_signal_on_stream(win, t->right, LEN, base, LEN, i % 2,
		                                ORIEL_SIGNAL_SET, i, t->stream);
		if (!rc)
			rc = oriel_signal_wait_on_stream(win, i % 2, i % 2 ? ORIEL_EQ : ORIEL_GE, i,
			                                 t->stream);
		if (!rc)
			rc = oriel_signal_on_stream(win, t->left, 2, ORIEL_SIGNAL_SET, i,
			                            t->stream);
		if (!rc)
			rc = oriel_signal_wait_on_stream(win, 2, ORIEL_GE, i, t->stream);
	}
	return rc;
}

static int
traffic(struct test *t, oriel_win *win, char *base, uint64_t *round)
{
	int rc = 0;

	for (*round = 1; !rc; *round += AHEAD) {
		rc = rounds_ahead(t, win, base, *round);
		GOOD(CU(cuStreamSynchronize)(t->stream));
		if (!rc)
			rc = oriel_flush_all(win);
	}
	return rc;
}

/* For what the dead rank will never send. */
static int
one_wait(struct test *t, oriel_win *win)
{
	int rc = oriel_signal_wait_on_stream(
	        win, 3, t->r->seed / JOB_SIZE % 2 ? ORIEL_EQ : ORIEL_GE, 1, t->stream);

	GOOD(CU(cuStreamSynchronize)(t->stream));
	return rc ? rc : oriel_flush_all(win);
}

static bool
tells(int rc, int dead, const char *what)
{
	return CHECK(rc == ORIEL_EPEER, "%s: expected EPEER, seen %d (%s)", what, rc,
	             oriel_detail()) &&
	       CHECK(names(oriel_detail(), dead), "%s: rank %d is dead, the detail says: %s", what,
	             dead, oriel_detail());
}

static int
survive(struct ranks *r)
{
	int dead = (int)(r->seed % (uint64_t)r->size), rc;
	uint64_t same = r->seed * 77, rounds = 0, start;
	uint64_t delay = 200000 + ranks_next(&same) % 20000000;
	bool waits = ranks_flag("--wait");
	pthread_t thread = 0;
	struct test t;
	oriel_win *win;
	void *base;

	if (!test_begin(&t, r) || !jobs_meet(r) ||
	    !OK(oriel_win_alloc_device(r->world, 2 * LEN, 4, &base, &win)))
		return 1;
	/* The dead rank may be through the barrier, and dead, before the others are. */
	rc = oriel_barrier(r->world);
	if (r->rank == dead)
		thread = jobs_die_soon(delay);
	if (r->rank == dead && waits)
		pthread_join(thread, NULL);
	start = ranks_now_ns();
	if (!rc)
		rc = waits ? one_wait(&t, win) : traffic(&t, win, base, &rounds);
	tells(rc, dead, "streams");
	CHECK(ranks_now_ns() - start < delay + IN_TIME_NS, "%llu ms until the stream was let go",
	      (unsigned long long)(ranks_now_ns() - start) / 1000000);
	/* Another survivor may have told this rank, which then finds out for itself a moment later.
	 */
	do
		rc = oriel_flush(win, dead);
	while (!rc && ranks_now_ns() - start < delay + IN_TIME_NS);
	tells(rc, dead, "flush");
	tells(oriel_signal_wait(win, 3, ORIEL_GE, 2, RANKS_WAIT_NS, NULL), dead, "signal_wait");
	tells(oriel_signal_wait_on_stream(win, 3, ORIEL_GE, 2, t.stream), dead, "wait_on_stream");
	tells(oriel_win_free(win), dead, "win_free");
	if (!r->failures)
		ranks_say(NULL, 0, "rank %d survived after %llu rounds: %s", r->rank,
		          (unsigned long long)rounds, oriel_detail());
	test_end(&t);
	return 0;
}

/* All but the dead rank survive. */
static bool
one_job(uint64_t seed, const char *how)
{
	return jobs_run(seed, JOB_SIZE, how, JOB_SIZE - 1);
}

static int
run(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 12;

	if (ranks_flag("--inner"))
		return survive(r);
	if (r->size != 1 || r->threads)
		return ranks_skip("it wants one process, which starts others");
	jobs_leave_launcher();
	for (uint64_t i = 0; i < rounds; i++)
		if (!one_job(r->seed + i, "") || !one_job(r->seed + i, " --wait"))
			return 1;
	return 0;
}

int
main(int argc, char **argv)
{
	static const char *knobs[] = { "ORIEL_CALL_TIMEOUT=50s", "ORIEL_PEER_TIMEOUT=10s", NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };

	return ranks_main(argc, argv, run, &opts);
}
