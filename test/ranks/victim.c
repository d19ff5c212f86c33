/*
 * One rank of the node dies or stops while the others are in a call that needs
 * it, on the paths of shared memory: they get ORIEL_EPEER in time, with a detail
 * that names the rank, and go on without it to an orderly end. A stopped rank that
 * is continued learns that it was expelled. test/fault/local.sh starts it, under
 * orielrun --kill-on-failure=no; without --how nobody fails.
 *
 * Arguments: --how kill|stop|continue, --op NAME, --user (ordinary memory), --late
 * (the survivors call when they know already), --timeout MS (ORIEL_PEER_TIMEOUT,
 * which the environment sets).
 */
#include "test/ranks/area.h"

#define VICTIM 1
#define MS UINT64_C(1000000)
#define SLOT 3
#define WANTED 77
#define BIG ((size_t)1 << 20)

struct survivor {
	struct ranks *r;
	struct area a;
	unsigned char *buf; /* BIG bytes for each rank */
	pid_t victim;
};

static int
op_wait(struct survivor *s)
{
	return oriel_signal_wait(s->a.win, SLOT, ORIEL_EQ, WANTED, ORIEL_FOREVER, NULL);
}

static int
op_wait_from(struct survivor *s)
{
	return oriel_signal_wait_from(s->a.win, VICTIM, SLOT, ORIEL_EQ, WANTED, ORIEL_FOREVER,
	                              NULL);
}

static int
op_wait_any(struct survivor *s)
{
	struct oriel_cond conds[] = { { SLOT, ORIEL_EQ, WANTED }, { 0, ORIEL_EQ, WANTED } };

	return oriel_signal_wait_any(s->a.win, 2, conds, ORIEL_FOREVER, NULL);
}

static int
op_wait_all(struct survivor *s)
{
	struct oriel_cond conds[] = { { SLOT, ORIEL_EQ, WANTED }, { 0, ORIEL_EQ, WANTED } };

	return oriel_signal_wait_all(s->a.win, 2, conds, ORIEL_FOREVER);
}

static int
op_barrier(struct survivor *s)
{
	return oriel_barrier(s->r->world);
}

static int
op_allgather(struct survivor *s)
{
	return oriel_allgather(s->r->world, NULL, s->buf, 8);
}

static int
op_allgather_big(struct survivor *s)
{
	return oriel_allgather(s->r->world, NULL, s->buf, BIG);
}

static int
op_flush(struct survivor *s)
{
	int rc = oriel_put(s->a.win, VICTIM, 64, s->buf, 1000);

	return rc ? rc : oriel_flush(s->a.win, VICTIM);
}

/* Back-pressure of a ring that nobody drains. */
static int
op_stream(struct survivor *s)
{
	return oriel_put_signal(s->a.win, VICTIM, 64, s->buf, 2000, 0, ORIEL_SIGNAL_ADD, 1);
}

static int
op_get(struct survivor *s)
{
	int rc = oriel_get(s->a.win, VICTIM, 64, s->buf, 3000);

	return rc ? rc : oriel_flush_local(s->a.win, VICTIM);
}

static int
op_req(struct survivor *s)
{
	oriel_req *req = NULL;
	int rc = oriel_rget(s->a.win, VICTIM, 64, s->buf, 3000, &req);

	return rc ? rc : oriel_req_wait(&req, ORIEL_FOREVER);
}

static int
op_atomic(struct survivor *s)
{
	return oriel_fetch_add(s->a.win, VICTIM, 64, 1, NULL);
}

static int
op_accumulate(struct survivor *s)
{
	return oriel_accumulate(s->a.win, VICTIM, 64, s->buf, 8, ORIEL_DOUBLE);
}

static int
op_win_create(struct survivor *s)
{
	oriel_win *win;

	return oriel_win_create(s->r->world, s->buf, 100, 1, &win);
}

static int
op_win_free(struct survivor *s)
{
	int rc = oriel_win_free(s->a.win);

	s->a.win = NULL;
	return rc;
}

static int
op_dup(struct survivor *s)
{
	oriel_comm *comm;

	return oriel_comm_dup(s->r->world, &comm);
}

static int
op_split(struct survivor *s)
{
	oriel_comm *comm;

	return oriel_comm_split(s->r->world, 0, 0, &comm);
}

static const struct {
	const char *name;
	int (*fn)(struct survivor *s);
	bool names_slot;
} ops[] = {
	{ "wait", op_wait, true },
	{ "wait_from", op_wait_from, true },
	{ "wait_any", op_wait_any, true },
	{ "wait_all", op_wait_all, true },
	{ "barrier", op_barrier, false },
	{ "allgather", op_allgather, false },
	{ "allgather_big", op_allgather_big, false },
	{ "flush", op_flush, false },
	{ "stream", op_stream, false },
	{ "get", op_get, false },
	{ "req", op_req, false },
	{ "atomic", op_atomic, false },
	{ "accumulate", op_accumulate, false },
	{ "win_create", op_win_create, false },
	{ "win_free", op_win_free, false },
	{ "dup", op_dup, false },
	{ "split", op_split, false },
};
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

static size_t
op_number(const char *name)
{
	for (size_t i = 0; i < N_OPS; i++)
		if (!strcmp(ops[i].name, name))
			return i;
	return N_OPS;
}

static void
says(const char *what)
{
	CHECK(strstr(oriel_detail(), what), "the detail does not say \"%s\": %s", what,
	      oriel_detail());
}

/* Repeats the call until it is told, or long after the limit. */
static void
be_told(struct survivor *s, size_t op, uint64_t timeout_ms)
{
	uint64_t start = ranks_now_ns(), limit = timeout_ms + 1000, took;
	int rc = 0;

	do {
		rc = s->a.win ? ops[op].fn(s) : ORIEL_OK;
		took = (ranks_now_ns() - start) / MS;
	} while (!rc && s->a.win && took < limit + 3000);
	CHECK(rc == ORIEL_EPEER, "%s: %s (%s) after %llu ms", ops[op].name, oriel_strerror(rc),
	      oriel_detail(), (unsigned long long)took);
	CHECK(took <= limit, "%s: told after %llu ms, the limit is %llu", ops[op].name,
	      (unsigned long long)took, (unsigned long long)limit);
	says("rank 1");
	if (ops[op].names_slot) {
		says("slot 3 == 77");
		says("seen 0");
	}
	printf("rank %d: told after %llu ms: %s\n", s->r->rank, (unsigned long long)took,
	       oriel_detail());
	fflush(stdout);
}

/* The survivors are of use to one another. */
static void
go_on(struct survivor *s)
{
	struct ranks *r = s->r;

	for (int t = 0; s->a.win && t < r->size; t++)
		if (t != VICTIM)
			OK(oriel_put_signal(s->a.win, t, 128 + (size_t)r->rank * 8, s->buf, 8,
			                    4 + (size_t)r->rank, ORIEL_SIGNAL_SET, 5));
	for (int f = 0; s->a.win && f < r->size; f++)
		if (f != VICTIM)
			OK(oriel_signal_wait_from(s->a.win, f, 4 + (size_t)f, ORIEL_EQ, 5,
			                          RANKS_WAIT_NS, NULL));
}

/* Nothing of what comes later hangs either. */
static void
leave(struct survivor *s)
{
	uint64_t start = ranks_now_ns(), took;

	if (s->a.win)
		FAILS(ORIEL_EPEER, oriel_win_free(s->a.win));
	FAILS(ORIEL_EPEER, oriel_barrier(s->r->world));
	took = (ranks_now_ns() - start) / MS;
	CHECK(took < 500, "after the failure was known, win_free and barrier took %llu ms",
	      (unsigned long long)took);
}

static void
survive(struct survivor *s, const char *how, size_t op)
{
	uint64_t timeout_ms = ranks_number("--timeout", 1000), start = ranks_now_ns();

	if (ranks_flag("--late")) {
		/* Until it is known: then every call is told at once. */
		while (!oriel_put(s->a.win, VICTIM, 64, s->buf, 8) &&
		       ranks_now_ns() - start < (timeout_ms + 1000) * MS)
			usleep(1000);
		timeout_ms = 0;
	}
	be_told(s, op, timeout_ms);
	go_on(s);
	/* All survivors must have come so far before the victim moves on, and before one of
	 * them leaves, which is a failure to the others. Their clocks tell them within a tick
	 * of a tenth of the timeout. */
	usleep(300000);
	if (s->r->rank == 0 && strcmp(how, "kill"))
		kill(s->victim, !strcmp(how, "stop") ? SIGKILL : SIGCONT);
	leave(s);
}

/* After SIGCONT. */
static void
be_expelled(struct survivor *s, size_t op)
{
	uint64_t start = ranks_now_ns();
	int rc = 0;

	while (!rc && s->a.win && ranks_now_ns() - start < 3000 * MS)
		rc = ops[op].fn(s);
	CHECK(rc == ORIEL_EEXPELLED, "%s of an expelled rank: %s (%s)", ops[op].name,
	      oriel_strerror(rc), oriel_detail());
	for (int i = 0; i < 3000 && !oriel_put(s->a.win, 0, 64, s->buf, 8); i++)
		usleep(1000);
	if (s->a.win)
		FAILS(ORIEL_EEXPELLED, oriel_put(s->a.win, 0, 64, s->buf, 8));
	FAILS(ORIEL_EEXPELLED, oriel_barrier(s->r->world));
	says("gave this rank up");
	if (s->a.win)
		FAILS(ORIEL_EEXPELLED, oriel_win_free(s->a.win));
}

static bool
prepare(struct survivor *s)
{
	struct ranks *r = s->r;
	int pids[64];

	pids[r->rank] = getpid();
	if (!OK(oriel_allgather(r->world, NULL, pids, sizeof(int))))
		return false;
	s->victim = pids[VICTIM];
	s->buf = calloc((size_t)r->size, BIG);
	if (!NEED(s->buf, "no memory") ||
	    !area_open(&s->a, r, r->world, ranks_flag("--user") ? AREA_USER : AREA_ALLOC, 8192,
	               4 + (size_t)r->size))
		return false;
	/* Everybody has met everybody. */
	for (int t = 0; t < r->size; t++)
		if (!OK(oriel_put_signal(s->a.win, t, 32, s->buf, 8, 1, ORIEL_SIGNAL_ADD, 1)))
			return false;
	return OK(oriel_signal_wait(s->a.win, 1, ORIEL_EQ, (uint64_t)r->size, RANKS_WAIT_NS,
	                            NULL)) &&
	       OK(oriel_barrier(r->world));
}

static int
run(struct ranks *r)
{
	const char *how = ranks_text("--how", ""), *op = ranks_text("--op", "barrier");
	struct survivor s = { .r = r };

	if (r->size < 2 || r->size > 64 || r->threads)
		return ranks_skip("needs 2 to 64 processes");
	if (!NEED(op_number(op) < N_OPS, "no op %s", op) || !prepare(&s))
		return 1;
	if (!how[0]) {
		free(s.buf);
		return !area_close(&s.a);
	}
	if (r->rank == VICTIM) {
		usleep(20000); /* some survivors are in their call by then */
		raise(!strcmp(how, "kill") ? SIGKILL : SIGSTOP);
		be_expelled(&s, op_number(op));
	} else {
		survive(&s, how, op_number(op));
	}
	free(s.buf);
	return 0;
}

int
main(int argc, char **argv)
{
	int status = ranks_main(argc, argv, run, NULL);

	/* For test/fault/local.sh: the end was reached, oriel_fini included. */
	if (!status)
		printf("reached the end\n");
	return status;
}
