/*
 * p2p_kill.c - a rank is killed while others send to it and receive from it, at
 * a random moment: every survivor that depends on it gets EPEER in time, which
 * names it, and nobody writes a buffer that was given back.
 *
 * --stop: it is stopped, given up by the others, who write to their buffers, and
 * goes on after that: it gets an error, and no message that was not sent.
 *
 * Started as one rank it starts jobs of its own, one a seed, under an orielrun
 * that lets survivors go on, and counts what they say.
 */
#include "test/ranks/jobs.h"

#include <ctype.h>

#define JOB_SIZE 3
#define BIG (4u << 20)
/* Ten times the time in which silence is noticed. */
#define IN_TIME_NS (UINT64_C(20) * 1000000000)

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

static bool
is_from(const char *in, size_t len, int rank)
{
	return CHECK(in[0] == rank && !memcmp(in, in + 1, len - 1),
	             "%zu bytes of rank %d are wrong, the first is %02x", len, rank,
	             (unsigned char)in[0]);
}

/* Traffic of all pairs, long and short messages, in blocking and nonblocking calls, until it ends.
 */
static int
traffic(struct ranks *r, char *out, char *in)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	int rc = 0;

	for (uint64_t same = r->seed; !rc;) {
		size_t len = ranks_next(&same) % 3 ? 5000 : BIG;
		oriel_req *req[2] = { NULL, NULL };

		rc = oriel_sendrecv(r->world, right, 1, out, len, left, 1, in, len, NULL);
		if (!rc && !is_from(in, len, left))
			return 1;
		if (!rc)
			rc = oriel_irecv(r->world, ORIEL_ANY, 2, in, len, NULL, &req[0]);
		if (!rc)
			rc = oriel_isend(r->world, left, 2, out, len, &req[1]);
		/* All end, whatever the first one says. */
		if (req[0] && req[1])
			rc = oriel_req_waitall(2, req, RANKS_WAIT_NS);
		else if (req[0] &&
		         !CHECK(oriel_req_wait(&req[0], RANKS_WAIT_NS) == rc, "%s", oriel_detail()))
			return rc;
		if (!rc && !is_from(in, len, right))
			return 1;
	}
	return rc;
}

/* One wait only, for a rank that is gone before it has done its part. */
static int
one_wait(struct ranks *r, char *out, char *in, int dead)
{
	switch (r->seed / JOB_SIZE % 3) {
	case 0:
		return oriel_send(r->world, dead, 9, out, BIG);
	case 1:
		return oriel_recv(r->world, dead, 9, in, BIG, NULL);
	default:
		return oriel_recv(r->world, ORIEL_ANY, 9, in, BIG, NULL);
	}
}

/* Of each second seed in the pool. */
static char *
buffer(struct ranks *r)
{
	void *p = NULL;

	if (r->seed % 2)
		p = malloc(BIG);
	else if (!OK(oriel_mem_alloc(r->ctx, BIG, 64, &p)))
		return NULL;
	NEED(p != NULL, "no memory");
	return p;
}

static void
buffer_free(struct ranks *r, char *p)
{
	if (r->seed % 2)
		free(p);
	else
		oriel_mem_free(r->ctx, p); /* an error if others have given this rank up */
}

struct victim {
	int pid;
	oriel_comm *others; /* NULL for itself */
};

/* Everybody learns the process of the one that is to stop. */
static bool
know_victim(struct ranks *r, int victim, struct victim *v)
{
	bool ok = OK(oriel_comm_split(r->world, r->rank == victim ? -1 : 0, 0, &v->others));

	v->pid = (int)getpid();
	if (r->rank != victim)
		return ok && OK(oriel_recv(r->world, victim, 0, &v->pid, sizeof(v->pid), NULL));
	for (int i = 1; i < r->size && ok; i++)
		ok = OK(oriel_send(r->world, (victim + i) % r->size, 0, &v->pid, sizeof(v->pid)));
	return ok;
}

static bool
check_end(struct ranks *r, int rc, int dead, uint64_t start)
{
	/* Whoever was stopped finds that the others have failed, or that they have given it up. */
	if (r->rank == dead)
		return CHECK(rc == ORIEL_EPEER || rc == ORIEL_EEXPELLED,
		             "expected EPEER or EEXPELLED, seen %d (%s)", rc, oriel_detail());
	CHECK(rc == ORIEL_EPEER, "expected EPEER, seen %d (%s)", rc, oriel_detail());
	CHECK(names(oriel_detail(), dead), "rank %d is dead, the detail says: %s", dead,
	      oriel_detail());
	return CHECK(ranks_now_ns() - start < IN_TIME_NS, "%llu ms until it was noticed",
	             (unsigned long long)(ranks_now_ns() - start) / 1000000);
}

/* The buffers are this rank's again: it writes to them, and nobody else does. When all have,
 * whoever was stopped goes on. */
static void
use_again(struct ranks *r, char *out, char *in, const struct victim *v)
{
	char detail[200];

	snprintf(detail, sizeof(detail), "%s", oriel_detail());
	memset(in, 0x5a, BIG);
	memset(out, 0x5a, BIG);
	if (v->others && OK(oriel_barrier(v->others)))
		kill(v->pid, SIGCONT);
	ranks_delay(20000000);
	for (size_t i = 0; i < BIG; i++)
		if (!CHECK(in[i] == 0x5a, "byte %zu was written after the error", i))
			break;
	if (!r->failures)
		ranks_say(NULL, 0, "rank %d survived after an error: %s", r->rank, detail);
}

static int
survive(struct ranks *r)
{
	int dead = (int)(r->seed % (uint64_t)r->size), rc;
	uint64_t same = r->seed * 77, start;
	uint64_t delay = 200000 + ranks_next(&same) % 20000000;
	bool waits = ranks_flag("--wait"), stops = ranks_flag("--stop");
	char *out = buffer(r), *in = buffer(r);
	struct victim victim = { 0, NULL };
	pthread_t thread = 0;

	if (!out || !in || !jobs_meet(r) || (stops && !know_victim(r, dead, &victim)))
		return 1;
	memset(out, r->rank, BIG);
	/* The dead rank may be through the barrier, and dead, before the others are. */
	rc = oriel_barrier(r->world);
	if (r->rank == dead)
		thread = jobs_end_soon(delay, stops ? SIGSTOP : SIGKILL);
	start = ranks_now_ns();
	if (r->rank == dead && waits)
		pthread_join(thread, NULL);
	if (!rc)
		rc = waits ? one_wait(r, out, in, dead) : traffic(r, out, in);
	check_end(r, rc, dead, start);
	use_again(r, out, in, &victim);
	rc = oriel_send(r->world, (dead + 1) % r->size, 1, out, 8);
	CHECK(rc == ORIEL_EPEER || (r->rank == dead && rc == ORIEL_EEXPELLED), "seen %d", rc);
	if (r->rank == dead)
		pthread_join(thread, NULL);
	buffer_free(r, out);
	buffer_free(r, in);
	return 0;
}

/* All but the dead rank survive, and that one if it was stopped. */
static bool
one_job(uint64_t seed, const char *how)
{
	return jobs_run(seed, JOB_SIZE, how, strcmp(how, " --stop") ? JOB_SIZE - 1 : JOB_SIZE);
}

static int
run(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 9;

	if (ranks_flag("--inner"))
		return survive(r);
	if (r->size != 1 || r->threads)
		return ranks_skip("it wants one process, which starts others");
	jobs_leave_launcher();
	for (uint64_t i = 0; i < rounds && ranks_flag("--stop"); i++)
		if (!one_job(r->seed + i, " --stop"))
			return 1;
	for (uint64_t i = 0; i < rounds && !ranks_flag("--stop"); i++)
		if (!one_job(r->seed + i, "") || !one_job(r->seed + i, " --wait"))
			return 1;
	return 0;
}

int
main(int argc, char **argv)
{
	static const char *knobs[] = { "ORIEL_CALL_TIMEOUT=50s", "ORIEL_PEER_TIMEOUT=2s", NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };

	return ranks_main(argc, argv, run, &opts);
}
