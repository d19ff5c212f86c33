/*
 * oriel_comm_abort ends every wait, collective and message on the communicator, on all
 * ranks, and nothing else: the world and later communicators, which may get the
 * aborted one's memory, go on.
 */
#include "test/ranks/area.h"

#include <pthread.h>

#define SECOND UINT64_C(1000000000)
#define ROUNDS 120

struct aborted {
	struct ranks *r;
	oriel_comm *comm;
	oriel_win *win;
	int aborter;
};

#define WAYS 11
#define LOOPS 6 /* from this way on calls are made until one fails */
static int
wait_for_ever(struct aborted *a, int way)
{
	struct oriel_cond conds[] = { { 0, ORIEL_EQ, 1 }, { 1, ORIEL_EQ, 1 } };
	char in[100] = "", *out;
	oriel_req *req = NULL;
	oriel_comm *comm;
	oriel_win *win;
	void *base;
	int rc = 0;

	switch (way) {
	case 0:
		return oriel_signal_wait(a->win, 0, ORIEL_EQ, 1, ORIEL_FOREVER, NULL);
	case 1:
		return oriel_signal_wait_from(a->win, a->r->rank, 0, ORIEL_EQ, 1, ORIEL_FOREVER,
		                              NULL);
	case 2:
		return oriel_signal_wait_any(a->win, 2, conds, ORIEL_FOREVER, NULL);
	case 3:
		return oriel_signal_wait_all(a->win, 2, conds, 60 * SECOND);
	case 4:
		return oriel_recv(a->comm, ORIEL_ANY, 0, in, sizeof(in), NULL);
	case 5:
		rc = oriel_irecv(a->comm, a->r->rank, 0, in, sizeof(in), NULL, &req);
		return rc ? rc : oriel_req_wait(&req, ORIEL_FOREVER);
	case LOOPS:
		/* Some may end before a member leaves. */
		while (!rc)
			rc = oriel_barrier(a->comm);
		return rc;
	case LOOPS + 1:
		out = malloc(sizeof(in) * (size_t)a->r->size);
		while (out && !rc)
			rc = oriel_allgather(a->comm, in, out, sizeof(in));
		free(out);
		return rc;
	case LOOPS + 2:
		while (!rc) {
			rc = oriel_iallreduce(a->comm, NULL, in, 4, ORIEL_INT32, ORIEL_MAX, &req);
			if (!rc)
				rc = oriel_req_wait(&req, ORIEL_FOREVER);
		}
		return rc;
	case LOOPS + 3:
		while (!rc) {
			rc = oriel_win_alloc(a->comm, 64, 1, &base, &win);
			if (!rc)
				rc = oriel_win_free(win);
		}
		return rc;
	default:
		while (!rc) {
			rc = oriel_comm_split(a->comm, 0, 0, &comm);
			if (!rc)
				rc = oriel_comm_free(comm);
		}
		return rc;
	}
}

/* Everyone but the aborter waits in the same way; loops take the aborter along. */
static bool
meet(struct aborted *a, int way)
{
	struct ranks *r = a->r;
	uint64_t start = ranks_now_ns(), took;
	char name[32];
	int rc;

	if (r->rank == a->aborter) {
		for (uint64_t i = ranks_random(r, 4); way >= LOOPS && i; i--)
			if (way == LOOPS ? !OK(oriel_barrier(a->comm)) : 0)
				return false;
		if (way < LOOPS)
			usleep((unsigned)ranks_random(r, 3000));
		OK(oriel_comm_abort(a->comm));
	}
	rc = wait_for_ever(a, way);
	took = ranks_now_ns() - start;
	CHECK(rc == ORIEL_EABORTED, "way %d: %s (%s)", way, oriel_strerror(rc), oriel_detail());
	snprintf(name, sizeof(name), "rank %d aborted", a->aborter);
	CHECK(strstr(oriel_detail(), name), "way %d: the detail does not name rank %d: %s", way,
	      a->aborter, oriel_detail());
	CHECK(took < 10 * SECOND, "way %d took %llu ms", way, (unsigned long long)(took / 1000000));
	/* For ever. */
	FAILS(ORIEL_EABORTED, oriel_barrier(a->comm));
	FAILS(ORIEL_EABORTED, oriel_signal_wait(a->win, 1, ORIEL_EQ, 1, SECOND, NULL));
	FAILS(ORIEL_EABORTED, oriel_send(a->comm, r->rank, 0, name, 1));
	return true;
}

static bool
rounds(struct ranks *r, int n)
{
	static const enum area_kind kinds[] = { AREA_ALLOC, AREA_USER };

	for (int i = 0; i < n; i++) {
		struct aborted a = { .r = r, .aborter = i / WAYS % r->size };
		struct area area;

		if (!OK(oriel_comm_dup(r->world, &a.comm)))
			return false;
		ranks_watch(a.comm);
		if (!area_open(&area, r, a.comm, kinds[i / 3 % 2], 100, 2))
			return false;
		a.win = area.win;
		/* Nobody is inside a collective of the communicator any more. */
		if (!OK(oriel_barrier(r->world)))
			return false;
		meet(&a, i % WAYS);
		FAILS(ORIEL_EABORTED, oriel_win_free(area.win));
		area_guards(&area);
		/* The world is not concerned. Nobody frees memory that others may still reach. */
		if (!OK(oriel_barrier(r->world)))
			return false;
		if (area.all && area.kind == AREA_USER)
			free(area.all);
		ranks_unwatch(a.comm);
		FAILS(ORIEL_EABORTED, oriel_comm_free(a.comm));
	}
	return true;
}

/* An abort by another thread of the same rank. */
static void *
abort_soon(void *arg)
{
	struct aborted *a = arg;

	ranks_adopt(a->r);
	usleep(2000);
	OK(oriel_comm_abort(a->comm));
	return NULL;
}

static bool
own_thread(struct ranks *r)
{
	struct aborted a = { .r = r };
	pthread_t thread;
	void *base;

	if (!OK(oriel_comm_strided(r->world, r->rank, 1, 1, &a.comm)) ||
	    !OK(oriel_win_alloc(a.comm, 8, 1, &base, &a.win)) ||
	    !NEED(!pthread_create(&thread, NULL, abort_soon, &a), "no thread"))
		return false;
	FAILS(ORIEL_EABORTED, oriel_signal_wait(a.win, 0, ORIEL_EQ, 1, ORIEL_FOREVER, NULL));
	pthread_join(thread, NULL);
	oriel_win_free(a.win);
	oriel_comm_free(a.comm);
	return true;
}

/*
 * A member that has not heard of the abort still puts, while another has freed
 * the window already: what is allocated next must not be hit.
 */
static bool
late_puts(struct ranks *r)
{
	uint64_t word = 0x5a5a5a5a5a5a5a5a, stop = 0;
	size_t part = 1024, mine = (size_t)r->rank * part, size = (size_t)r->size * part;
	oriel_comm *comm;
	oriel_win *win, *done;
	void *base, *next[4];

	if (!OK(oriel_win_alloc(r->world, 8, 1, &base, &done)) ||
	    !OK(oriel_comm_dup(r->world, &comm)) ||
	    !OK(oriel_win_alloc(comm, size, 1, &base, &win)) ||
	    !OK(oriel_put(win, 0, mine, &word, 8)) || !OK(oriel_flush(win, 0)) ||
	    !OK(oriel_barrier(r->world)))
		return false;
	if (r->rank == 0) {
		OK(oriel_comm_abort(comm));
		FAILS(ORIEL_EABORTED, oriel_win_free(win));
		for (int i = 0; i < 4; i++) {
			if (!OK(oriel_mem_alloc(r->ctx, size, 64, &next[i])))
				return false;
			memset(next[i], AREA_FILL, size);
		}
		usleep(3000);
		for (int i = 0; i < 4; i++) {
			CHECK(area_all_fill(next[i], size), "a late put hit new memory");
			OK(oriel_mem_free(r->ctx, next[i]));
		}
		for (int t = 1; t < r->size; t++)
			OK(oriel_signal(done, t, 0, ORIEL_SIGNAL_SET, 1));
	} else {
		while (!stop) {
			for (size_t i = 0; i < part; i += 8)
				if (!OK(oriel_put(win, 0, mine + i, &word, 8)))
					return false;
			if (!OK(oriel_signal_read(done, 0, &stop)))
				return false;
			ranks_delay(10000);
		}
		FAILS(ORIEL_EABORTED, oriel_win_free(win));
	}
	FAILS(ORIEL_EABORTED, oriel_comm_free(comm));
	return OK(oriel_win_free(done));
}

/* A member that makes its group only after another has aborted it learns so at once. */
static bool
late(struct ranks *r)
{
	oriel_comm *comm;
	int rc;

	if (r->rank == 0) {
		if (!OK(oriel_comm_strided(r->world, 0, 1, r->size, &comm)))
			return false;
		OK(oriel_comm_abort(comm));
	}
	if (!OK(oriel_barrier(r->world)))
		return false;
	if (r->rank && !OK(oriel_comm_strided(r->world, 0, 1, r->size, &comm)))
		return false;
	rc = oriel_barrier(comm);
	CHECK(rc == ORIEL_EABORTED, "barrier of a group that was aborted before: %s",
	      oriel_strerror(rc));
	FAILS(ORIEL_EABORTED, oriel_comm_free(comm));
	return OK(oriel_barrier(r->world));
}

static int
run(struct ranks *r)
{
	if (!own_thread(r))
		return 1;
	if (r->size == 1)
		return 0;
	return !rounds(r, r->rounds ? (int)r->rounds : ROUNDS) || !late_puts(r) || !late(r);
}

RANKS_MAIN(run)
