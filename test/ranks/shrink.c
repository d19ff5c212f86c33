/*
 * shrink.c - oriel_comm_shrink: the survivors of a failure go on in a new
 * communicator on which everything works.
 *
 * Several ranks, or threads: nobody dies, the calls are made on whole, aborted
 * and nested communicators; --late: one rank comes after the others' time is up;
 * --full: one rank cannot have the new communicator. One rank: it starts jobs of
 * its own, one a seed, in which ranks are killed in the middle of collectives and
 * of shrinks, or are stopped until the others have gone on, and counts what their
 * ranks say; --strangers: they die before all have talked to all.
 */
#include "test/ranks/jobs.h"

#define TIMEOUT_NS UINT64_C(1000000000) /* ORIEL_PEER_TIMEOUT */
#define MOST 16
#define BYTES 3000

struct job { /* what its seed says; all of its ranks compute it alike */
	int size;
	bool stop;
	bool halves; /* even and odd ranks work, and shrink, apart */
	bool victim[MOST];
	uint64_t delay[MOST]; /* the victim's */
	bool in_shrink[MOST]; /* it dies in a shrink, not in a collective */
};

static struct job
job_of(uint64_t seed)
{
	uint64_t same = seed * 77;
	struct job j = { .size = 2 + (int)(ranks_next(&same) % 5) };
	int n_victims = 1 + (int)(ranks_next(&same) % (uint64_t)(j.size - 1));
	bool begun[2] = { false, false };

	j.stop = seed % 4 == 3;
	j.halves = seed % 4 == 2;
	if (j.stop || n_victims > j.size - 1)
		n_victims = 1;
	for (int i = 0; i < n_victims; i++) {
		int r = (int)(ranks_next(&same) % (uint64_t)j.size);
		int part = j.halves ? r % 2 : 0;

		if (j.victim[r])
			continue;
		/* The first one of a communicator is what the others shrink for. */
		j.in_shrink[r] = begun[part];
		begun[part] = j.victim[r] = true;
		/* Shrinks are short: as often in the first microseconds as later. */
		j.delay[r] = ranks_next(&same) %
		             (j.in_shrink[r] ? UINT64_C(256) << ranks_next(&same) % 13 : 3000000);
	}
	return j;
}

static int
survivors(const struct job *j, int parity)
{
	int n = 0;

	for (int r = 0; r < j->size; r++)
		n += !j->victim[r] && (parity < 0 || r % 2 == parity);
	return n;
}

/*
 * ---- What must work on a new communicator ----
 */

static bool
check_allgather(struct ranks *r, oriel_comm *comm, size_t len)
{
	static __thread unsigned char in[BYTES], out[MOST * BYTES];
	int me = oriel_comm_rank(comm), n = oriel_comm_size(comm);

	memset(in, me + 1, len);
	if (!OK(oriel_allgather(comm, in, out, len)))
		return false;
	for (int i = 0; i < n; i++)
		for (size_t at = 0; at < len; at++)
			if (!NEED(out[(size_t)i * len + at] == i + 1, "rank %d: byte %zu of %d: %d",
			          r->rank, at, i, out[(size_t)i * len + at]))
				return false;
	return true;
}

static bool
check_window(struct ranks *r, oriel_comm *comm, bool user)
{
	int me = oriel_comm_rank(comm), n = oriel_comm_size(comm);
	static __thread unsigned char own[MOST * 64], src[64];
	void *base = own;
	oriel_win *win;

	if (!OK(user ? oriel_win_create(comm, own, (size_t)n * 64, (size_t)n, &win)
	             : oriel_win_alloc(comm, (size_t)n * 64, (size_t)n, &base, &win)))
		return false;
	memset(src, me + 100, sizeof(src));
	for (int t = 0; t < n; t++)
		if (!OK(oriel_put_signal(win, t, (size_t)me * 64, src, 64, (size_t)me,
		                         ORIEL_SIGNAL_SET, 9)))
			return false;
	for (int f = 0; f < n; f++)
		if (!OK(oriel_signal_wait(win, (size_t)f, ORIEL_EQ, 9, RANKS_WAIT_NS, NULL)) ||
		    !NEED(((unsigned char *)base)[f * 64 + 63] == f + 100, "rank %d from %d: %d",
		          r->rank, f, ((unsigned char *)base)[f * 64 + 63]))
			return false;
	return OK(oriel_flush_all(win)) && OK(oriel_win_free(win));
}

static bool
check_groups(oriel_comm *comm)
{
	int me = oriel_comm_rank(comm), n = oriel_comm_size(comm);
	oriel_comm *half, *twin;

	if (!OK(oriel_comm_split(comm, me % 2, -me, &half)) || !OK(oriel_barrier(half)))
		return false;
	CHECK(oriel_comm_size(half) == (n + 1 - me % 2) / 2, "half of %d: %d", n,
	      oriel_comm_size(half));
	return OK(oriel_comm_free(half)) && OK(oriel_comm_dup(comm, &twin)) &&
	       OK(oriel_barrier(twin)) && OK(oriel_comm_free(twin));
}

/* world[i]: the world rank that must be rank i. */
static bool
check_all(struct ranks *r, oriel_comm *comm, const int *world, int n)
{
	int seen[MOST];

	ranks_watch(comm);
	if (!NEED(oriel_comm_size(comm) == n, "rank %d: %d ranks, expected %d", r->rank,
	          oriel_comm_size(comm), n) ||
	    !OK(oriel_allgather(comm, &r->rank, seen, sizeof(int))))
		return false;
	for (int i = 0; i < n; i++)
		if (!NEED(seen[i] == world[i], "rank %d is world rank %d, expected %d", i, seen[i],
		          world[i]))
			return false;
	for (size_t len = 1; len <= BYTES; len = len * 7 + 1)
		if (!check_allgather(r, comm, len))
			return false;
	if (!check_window(r, comm, false) || !check_window(r, comm, true) || !check_groups(comm) ||
	    !OK(oriel_barrier(comm)))
		return false;
	ranks_unwatch(comm);
	return true;
}

/*
 * ---- Ranks that die ----
 */

static int
work_until_error(oriel_comm *comm)
{
	static unsigned char out[MOST * 50000];
	static const size_t sizes[] = { 0, 8, 40, 3000, 8000, 50000 };
	int rc = 0;

	for (size_t i = 0; !rc; i++) {
		size_t len = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];

		rc = len ? oriel_allgather(comm, NULL, out, len) : oriel_barrier(comm);
	}
	return rc;
}

/* Works and shrinks until all victims are gone. */
static int
outlive(struct ranks *r, const struct job *j)
{
	int parity = j->halves ? r->rank % 2 : -1, left = survivors(j, parity), n = 0, shrinks = 0;
	oriel_comm *comm = r->world, *next;
	int world[MOST];

	for (int i = 0; i < j->size; i++)
		if (!j->victim[i] && (parity < 0 || i % 2 == parity))
			world[n++] = i;
	if (!ranks_flag("--strangers") && !jobs_meet(r))
		return 1;
	if (j->halves && !OK(oriel_comm_split(r->world, parity, 0, &comm)))
		return 1;
	/* A victim that is through it knows that all have come so far; it may then be dead
	 * before the others are through. */
	oriel_barrier(r->world);
	if (j->victim[r->rank] && !j->in_shrink[r->rank])
		jobs_die_soon(j->delay[r->rank]);
	while (oriel_comm_size(comm) > left) {
		int rc = work_until_error(comm);

		if (!NEED(rc == ORIEL_EPEER, "expected EPEER, seen %s (%s)", oriel_strerror(rc),
		          oriel_detail()))
			return 1;
		if (j->victim[r->rank] && j->in_shrink[r->rank])
			jobs_die_soon(j->delay[r->rank]);
		if (!OK(oriel_comm_shrink(comm, &next)))
			return 1;
		shrinks++;
		CHECK(oriel_comm_free(comm) < 0, "the failed communicator ended well");
		comm = next;
	}
	if (!check_all(r, comm, world, n))
		return 1;
	ranks_say(NULL, 0, "rank %d survived with %d of %d after %d shrinks", r->rank, n, j->size,
	          shrinks);
	return 0;
}

/*
 * ---- A rank that is stopped ----
 */

static int
be_stopped(struct ranks *r)
{
	oriel_comm *next;
	int rc;

	raise(SIGSTOP);
	rc = work_until_error(r->world);
	CHECK(rc == ORIEL_EPEER || rc == ORIEL_EEXPELLED, "seen %s (%s)", oriel_strerror(rc),
	      oriel_detail());
	if (FAILS(ORIEL_EEXPELLED, oriel_comm_shrink(r->world, &next)) && !r->failures)
		ranks_say(NULL, 0, "rank %d was expelled: %s", r->rank, oriel_detail());
	return 0;
}

static int
outwait(struct ranks *r, const struct job *j)
{
	int world[MOST], pids[MOST], n = 0, stopped = -1;
	oriel_comm *next;
	uint64_t start;

	pids[r->rank] = getpid();
	if (!jobs_meet(r) || !OK(oriel_allgather(r->world, NULL, pids, sizeof(int))) ||
	    !OK(oriel_barrier(r->world)))
		return 1;
	for (int i = 0; i < j->size; i++)
		if (j->victim[i])
			stopped = i;
		else
			world[n++] = i;
	if (r->rank == stopped)
		return be_stopped(r);
	start = ranks_now_ns();
	if (!NEED(work_until_error(r->world) == ORIEL_EPEER, "seen: %s", oriel_detail()) ||
	    !OK(oriel_comm_shrink(r->world, &next)))
		return 1;
	CHECK(ranks_now_ns() - start < 8 * TIMEOUT_NS, "it took %llu ms",
	      (unsigned long long)(ranks_now_ns() - start) / 1000000);
	if (!check_all(r, next, world, n))
		return 1;
	/* All have gone on without it: whatever it sees, it must not think that it is alone. */
	if (oriel_comm_rank(next) == 0)
		kill(pids[stopped], SIGCONT);
	ranks_say(NULL, 0, "rank %d survived with %d of %d after 1 shrinks", r->rank, n, j->size);
	return 0;
}

/*
 * ---- Nobody dies ----
 */

static int
whole(struct ranks *r)
{
	int world[MOST], n = r->size;
	oriel_comm *next, *sub, *again;

	for (int i = 0; i < n; i++)
		world[i] = i;
	FAILS(ORIEL_EINVAL, oriel_comm_shrink(r->world, NULL));
	FAILS(ORIEL_EHANDLE, oriel_comm_shrink(NULL, &next));
	/* Repeatedly, and of what came of it. */
	for (int i = 0; i < 3; i++) {
		if (!OK(oriel_comm_shrink(r->world, &next)) || !check_all(r, next, world, n) ||
		    !OK(oriel_comm_shrink(next, &again)) || !check_all(r, again, world, n) ||
		    !OK(oriel_comm_free(again)) || !OK(oriel_comm_free(next)))
			return 1;
	}
	/* After an abort: others are in it while some have not noticed. */
	if (!OK(oriel_comm_dup(r->world, &sub)))
		return 1;
	ranks_watch(sub);
	if (r->rank == n / 2)
		oriel_comm_abort(sub);
	while (!oriel_barrier(sub))
		;
	if (!OK(oriel_comm_shrink(sub, &next)) || !check_all(r, next, world, n))
		return 1;
	FAILS(ORIEL_EABORTED, oriel_barrier(sub));
	ranks_unwatch(sub);
	CHECK(oriel_comm_free(sub) == (n > 1 ? ORIEL_EABORTED : 0), "%s", oriel_detail());
	return !OK(oriel_comm_free(next)) || !OK(oriel_barrier(r->world));
}

/* Groups of every kind, those with common ranks at the same time. */
static int
parts(struct ranks *r)
{
	int world[MOST], n = 0, me = r->rank, pair[2] = { (r->size + 1) / 2, 2 }, keep[2] = { 0 };
	oriel_comm *part, *next;

	for (int i = me % 2; i < r->size; i += 2)
		world[n++] = i;
	if (!OK(oriel_comm_strided(r->world, me % 2, 2, n, &part)) ||
	    !OK(oriel_comm_shrink(part, &next)) || !check_all(r, next, world, n) ||
	    !OK(oriel_comm_free(next)) || !OK(oriel_comm_free(part)))
		return 1;
	/* Reversed, so that ranks and world ranks differ in order. */
	for (int i = 0; i < r->size; i++)
		world[i] = r->size - 1 - i;
	if (!OK(oriel_comm_split(r->world, 0, -me, &part)) || !OK(oriel_comm_shrink(part, &next)) ||
	    !check_all(r, next, world, r->size) || !OK(oriel_comm_free(next)) ||
	    !OK(oriel_comm_free(part)))
		return 1;
	keep[1] = 1;
	world[0] = me & ~1;
	world[1] = me | 1;
	if (r->size % 2 == 0 &&
	    (!OK(oriel_comm_grid(r->world, 2, pair, keep, &part)) ||
	     !OK(oriel_comm_shrink(part, &next)) || !check_all(r, next, world, 2) ||
	     !OK(oriel_comm_free(next)) || !OK(oriel_comm_free(part))))
		return 1;
	return !OK(oriel_barrier(r->world));
}

/* One rank computes for longer than a call may take; then all call again. */
static int
late(struct ranks *r, int who)
{
	int world[MOST], rc;
	oriel_comm *next;
	oriel_win *win;
	void *base;

	for (int i = 0; i < r->size; i++)
		world[i] = i;
	if (!OK(oriel_win_alloc(r->world, 0, 1, &base, &win)))
		return 1;
	if (r->rank == who) {
		OK(oriel_signal_wait(win, 0, ORIEL_EQ, (uint64_t)r->size - 1, RANKS_WAIT_NS, NULL));
	} else {
		char name[32];

		/* Rank 0 waits for it, the others for rank 0. */
		snprintf(name, sizeof(name), "rank %d ", r->rank ? 0 : who);
		FAILS(ORIEL_ETIMEDOUT, oriel_comm_shrink(r->world, &next));
		CHECK(strstr(oriel_detail(), name), "\"%s\" is not in: %s", name, oriel_detail());
		OK(oriel_signal(win, who, 0, ORIEL_SIGNAL_ADD, 1));
	}
	do
		rc = oriel_comm_shrink(r->world, &next);
	while (rc == ORIEL_ETIMEDOUT);
	return !OK(rc) || !check_all(r, next, world, r->size) || !OK(oriel_win_free(win)) ||
	       !OK(oriel_comm_free(next));
}

/* A rank has no room for the new communicator: the others must not wait for it there. */
static int
full(struct ranks *r)
{
	oriel_comm *next;
	int rc = 0;

	if (r->size < 3)
		return ranks_skip("wants three ranks of a node");
	for (int i = 0; r->rank == 1 && !rc; i++)
		rc = NEED(i < 10000, "no limit") ? oriel_comm_strided(r->world, 1, 1, 2, &next) : 1;
	if (r->rank == 1) {
		FAILS(ORIEL_ELIMIT, oriel_comm_shrink(r->world, &next));
		CHECK(strstr(oriel_detail(), "communicators"), "%s", oriel_detail());
	} else if (OK(oriel_comm_shrink(r->world, &next))) {
		FAILS(ORIEL_EABORTED, oriel_barrier(next));
		CHECK(strstr(oriel_detail(), "rank 1 "), "%s", oriel_detail());
	}
	return !OK(oriel_barrier(r->world));
}

/*
 * ---- Jobs ----
 */

static int
said(const char *line, const char *what)
{
	return strstr(line, what) != NULL;
}

/* Reads a job's output until its end. */
static bool
one_job(uint64_t seed)
{
	struct job j = job_of(seed);
	char command[512], line[1024], all[8192] = "";
	int survived = 0, expelled = 0, reports = 0, expected = survivors(&j, -1);
	FILE *f;

	snprintf(command, sizeof(command),
	         "exec %s/tools/orielrun --kill-on-failure=no -n %d env ORIEL_DELAY=%s %s --inner "
	         "--limit 60 --seed %llu %s 2>&1",
	         jobs_build(), j.size, seed / 4 % 2 ? "300us" : "0", ranks_job.argv[0],
	         (unsigned long long)seed, ranks_flag("--strangers") ? "--strangers" : "");
	f = popen(command, "r");
	if (!CHECK(f != NULL, "cannot start %s", command))
		return false;
	while (fgets(line, sizeof(line), f)) {
		survived += said(line, " survived with ");
		expelled += said(line, " was expelled: ");
		reports += said(line, "Sanitizer") || said(line, "runtime error: ");
		if (strlen(all) + strlen(line) < sizeof(all))
			strcat(all, line);
	}
	pclose(f);
	if (ranks_flag("--verbose"))
		printf("%s", all);
	return CHECK(survived == expected && expelled == j.stop && !reports,
	             "seed %llu: %d of %d survived, %d expelled:\n%.600s", (unsigned long long)seed,
	             survived, expected, expelled, all);
}

static int
jobs(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 16;

	jobs_leave_launcher();
	for (uint64_t i = 0; i < rounds; i++)
		if (!one_job(r->seed + i))
			return 1;
	return 0;
}

static int
run(struct ranks *r)
{
	if (r->size > MOST)
		return ranks_skip("at most 16 ranks");
	if (ranks_flag("--inner")) {
		struct job j = job_of(r->seed);

		return j.stop ? outwait(r, &j) : outlive(r, &j);
	}
	if (ranks_flag("--late"))
		return late(r, 0) || late(r, r->size - 1);
	if (ranks_flag("--full"))
		return full(r);
	if (whole(r) || parts(r))
		return 1;
	return r->size == 1 && !r->threads ? jobs(r) : 0;
}

int
main(int argc, char **argv)
{
	const char *knobs[] = { "ORIEL_CALL_TIMEOUT=50s", "ORIEL_PEER_TIMEOUT=1s", NULL };
	const struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--late"))
			knobs[0] = "ORIEL_CALL_TIMEOUT=4s";
	return ranks_main(argc, argv, run, &opts);
}
