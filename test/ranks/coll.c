/*
 * coll.c - barrier and AllGather between real ranks: results, destinations that
 * are reused at once, calls that follow each other without a pause, several
 * communicators at a time, ranks that disagree, aborts.
 *
 * --algorithm=NAMES forces some, as ORIEL_ALGORITHM does; --rounds N: of the loops.
 */
#include "test/ranks/ranks.h"

#include <pthread.h>

static const size_t sizes[] = { 0,    1,    8,    47,    48,    49,     1000,   4096,
	                        8191, 8192, 8193, 20000, 65536, 100001, 1 << 20 };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define MAX_SIZE ((size_t)1 << 20)

/* The block of a rank in a round: every byte depends on both. */
static void
fill(unsigned char *p, size_t len, int rank, uint64_t round)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)((size_t)rank * 31 + round * 7 + i * 13 + (i >> 8));
}

static bool
holds(const unsigned char *p, size_t len, int rank, uint64_t round)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)((size_t)rank * 31 + round * 7 + i * 13 + (i >> 8)))
			return false;
	return true;
}

static bool
gathered(oriel_comm *comm, const unsigned char *out, size_t len, uint64_t round)
{
	int n = oriel_comm_size(comm);

	for (int i = 0; i < n; i++)
		if (!CHECK(holds(out + (size_t)i * len, len, i, round),
		           "allgather of %zu bytes, round %llu: block %d is wrong", len,
		           (unsigned long long)round, i))
			return false;
	return true;
}

/* Memory of one kind, off bytes away from its alignment. */
struct memory {
	oriel_ctx *ctx;
	bool pool;
	void *whole;
};

static unsigned char *
take(struct memory *m, size_t len, size_t off)
{
	if (m->pool)
		NEED(oriel_mem_alloc(m->ctx, len + off, 0, &m->whole) == 0, "no pool memory");
	else
		m->whole = malloc(len + off + 1);
	return (unsigned char *)m->whole + off;
}

static void
drop(struct memory *m)
{
	if (m->pool)
		OK(oriel_mem_free(m->ctx, m->whole));
	else
		free(m->whole);
}

/* mode 0: apart; 1: in place by pointer; 2: in place by NULL. */
static bool
one_gather(struct ranks *r, oriel_comm *comm, size_t len, size_t off, bool pool, int mode,
           uint64_t round)
{
	int n = oriel_comm_size(comm), me = oriel_comm_rank(comm);
	struct memory mem = { r->ctx, pool, NULL }, mem_in = { r->ctx, pool, NULL };
	unsigned char *out = take(&mem, len * (size_t)n + 8, off);
	unsigned char *in = take(&mem_in, len, off / 2), *own = out + (size_t)me * len;
	bool good;

	memset(out, 0xee, len * (size_t)n + 8);
	fill(mode ? own : in, len, me, round);
	good = OK(oriel_allgather(comm,
	                          mode == 0   ? in
	                          : mode == 1 ? own
	                                      : NULL,
	                          out, len)) &&
	       gathered(comm, out, len, round);
	for (int i = 0; i < 8; i++)
		good &= CHECK(out[len * (size_t)n + (size_t)i] == 0xee,
		              "a byte behind the result of %zu bytes is overwritten", len);
	drop(&mem);
	drop(&mem_in);
	return good;
}

static bool
every_size(struct ranks *r, oriel_comm *comm)
{
	uint64_t round = 0;

	for (size_t i = 0; i < N_SIZES; i++)
		for (int mode = 0; mode < 3; mode++)
			for (size_t off = 0; off < (sizes[i] > 100000 ? 2 : 16);
			     off += off ? 6 : 1) {
				if (!one_gather(r, comm, sizes[i], off, round % 2, mode, round))
					return false;
				round++;
			}
	return OK(oriel_barrier(comm));
}

/*
 * One destination, calls without a pause: a slow reader must find its result
 * whole although the others are in the next call already.
 */
static bool
back_to_back(struct ranks *r, oriel_comm *comm, uint64_t rounds, size_t max, bool pool)
{
	int n = oriel_comm_size(comm), me = oriel_comm_rank(comm);
	struct memory mem = { r->ctx, pool, NULL };
	unsigned char *out = take(&mem, max * (size_t)n, 0);
	uint64_t same = r->seed;
	bool good = true;

	for (uint64_t round = 0; round < rounds && good; round++) {
		size_t len = ranks_next(&same) % (max + 1);

		if (ranks_next(&same) % 3)
			len = len % 64;
		fill(out + (size_t)me * len, len, me, round);
		good = OK(oriel_allgather(comm, NULL, out, len));
		if (ranks_random(r, 4) == 0)
			ranks_delay(ranks_random(r, 3000));
		good = good && gathered(comm, out, len, round);
		if (good && ranks_next(&same) % 8 == 0)
			good = OK(oriel_barrier(comm));
	}
	drop(&mem);
	return good;
}

/* A counter of each rank that a barrier must order. */
static bool
barriers_hold(struct ranks *r, uint64_t rounds)
{
	oriel_win *win;
	void *base;
	bool good;

	if (!OK(oriel_win_alloc(r->world, 8, 1, &base, &win)))
		return false;
	good = OK(oriel_barrier(r->world));
	for (uint64_t round = 1; round <= rounds && good; round++) {
		int next = (r->rank + 1) % r->size;
		uint64_t seen = 0;

		good = OK(oriel_signal(win, next, 0, ORIEL_SIGNAL_SET, round)) &&
		       OK(oriel_flush(win, next)) && OK(oriel_barrier(r->world)) &&
		       OK(oriel_signal_read(win, 0, &seen)) &&
		       CHECK(seen == round, "after barrier %llu the slot is %llu",
		             (unsigned long long)round, (unsigned long long)seen) &&
		       OK(oriel_barrier(r->world));
	}
	OK(oriel_win_free(win));
	return good;
}

struct job {
	struct ranks *r;
	oriel_comm *comm;
	uint64_t rounds;
	pthread_t thread;
	bool good;
};

static void *
job_main(void *arg)
{
	struct job *j = arg;
	struct ranks own = *j->r;

	/* A thread of its own has a generator and a count of failures of its own. */
	own.failures = 0;
	ranks_adopt(&own);
	j->good = back_to_back(&own, j->comm, j->rounds, 3000, true) && !own.failures;
	return NULL;
}

/* Communicators in calls at the same time, in no common order. */
static bool
side_by_side(struct ranks *r, uint64_t rounds)
{
	struct job job[3] = { { 0 } };
	bool good = true;

	for (int i = 0; i < 3; i++) {
		job[i].r = r;
		job[i].rounds = rounds;
		if (!OK(i == 2 ? oriel_comm_split(r->world, r->rank % 2, -r->rank, &job[i].comm)
		               : oriel_comm_dup(r->world, &job[i].comm)))
			return false;
		ranks_watch(job[i].comm);
	}
	for (int i = 0; i < 3; i++)
		NEED(!pthread_create(&job[i].thread, NULL, job_main, &job[i]), "no thread");
	for (int i = 0; i < 3; i++)
		pthread_join(job[i].thread, NULL);
	for (int i = 0; i < 3; i++) {
		good &= CHECK(job[i].good, "communicator %d of those side by side", i);
		ranks_unwatch(job[i].comm);
		OK(oriel_comm_free(job[i].comm));
	}
	return good;
}

/* One rank calls something else: all get an error, nobody hangs, nothing is overwritten. */
static bool
disagree(struct ranks *r, int kind)
{
	static unsigned char out[1 << 19];
	unsigned char *mine = r->threads ? malloc(sizeof(out)) : out;
	int rc, odd = kind % r->size;
	oriel_comm *comm;
	size_t len = 64;

	if (!OK(oriel_comm_dup(r->world, &comm)))
		return false;
	memset(mine, 0xee, sizeof(out));
	if (kind == 1)
		len = r->rank == odd ? 8 : 10000;
	if (kind == 2)
		len = r->rank == odd ? 9000 : 60000;
	if (r->rank == odd && (kind == 0 || kind == 3))
		len = 8;
	if (r->rank == odd && kind == 4)
		oriel_barrier(comm); /* one call ahead of the others from here on */
	if (r->rank == odd && kind == 3)
		rc = oriel_barrier(comm);
	else
		rc = oriel_allgather(comm, NULL, mine, len);
	if (rc == 0) /* A rank may be through before the others find out. */
		rc = oriel_barrier(comm);
	CHECK(rc == ORIEL_EMISMATCH || rc == ORIEL_ETIMEDOUT || rc == ORIEL_EPEER,
	      "kind %d: expected an error of disagreeing ranks, seen %d", kind, rc);
	CHECK(rc == 0 || oriel_detail()[0], "no detail");
	for (size_t i = len * (size_t)r->size; i < sizeof(out); i++)
		if (!CHECK(mine[i] == 0xee, "byte %zu behind the result is overwritten", i))
			break;
	CHECK(oriel_barrier(comm) < 0, "the communicator works again");
	oriel_comm_free(comm);
	if (r->threads)
		free(mine);
	return OK(oriel_barrier(r->world));
}

/* One rank aborts instead of calling. The buffers of a call that has failed are the caller's. */
static bool
aborted(struct ranks *r, size_t len, bool pool)
{
	struct memory mem = { r->ctx, pool, NULL };
	size_t total = len * (size_t)r->size;
	unsigned char *out = take(&mem, total, 0);
	oriel_comm *comm;
	int rc = 0;

	if (!OK(oriel_comm_dup(r->world, &comm)))
		return false;
	if (r->rank == r->size - 1) {
		ranks_delay(ranks_random(r, 300000));
		OK(oriel_comm_abort(comm));
		rc = oriel_barrier(comm);
	} else {
		for (int i = 0; i < 3 && !rc; i++)
			rc = oriel_allgather(comm, NULL, out, len);
	}
	CHECK(rc == ORIEL_EABORTED, "expected EABORTED, seen %d (%s)", rc, oriel_detail());
	memset(out, 0x5a, total);
	oriel_comm_free(comm);
	if (!OK(oriel_barrier(r->world)))
		return false;
	for (size_t i = 0; i < total; i++)
		if (!CHECK(out[i] == 0x5a, "byte %zu of %zu is written after the call has failed",
		           i, total))
			break;
	drop(&mem);
	return true;
}

#define REUSES 50000 /* requests made and freed until one has the memory of the first */

/* A persistent request in the place of one that was freed is none of that one's. */
static bool
same_place(struct ranks *r, oriel_comm *comm)
{
	uint64_t first[2] = { 1, 0 }, second[2] = { 2, 0 };
	const oriel_req *place;
	oriel_req *req = NULL;
	bool good = OK(
	        oriel_allreduce_init(comm, &first[0], &first[1], 1, ORIEL_UINT64, ORIEL_SUM, &req));

	place = req;
	for (int i = 0; i < 8 && good; i++)
		good = OK(oriel_start(req)) && OK(oriel_req_wait(&req, RANKS_WAIT_NS)) &&
		       CHECK(first[1] == (uint64_t)r->size, "start %d: the sum is %llu", i,
		             (unsigned long long)first[1]);
	first[1] = 0;
	for (int i = 0; i < REUSES && good && (i == 0 || req != place); i++)
		good = OK(oriel_req_free(&req)) &&
		       OK(oriel_allreduce_init(comm, &second[0], &second[1], 1, ORIEL_UINT64,
		                               ORIEL_SUM, &req));
	good = good && OK(oriel_start(req)) && OK(oriel_req_wait(&req, RANKS_WAIT_NS)) &&
	       CHECK(second[1] == 2 * (uint64_t)r->size && first[1] == 0,
	             "a request %s of one that was freed: the sum is %llu, and %llu there",
	             req == place ? "in the place" : "away from the place",
	             (unsigned long long)second[1], (unsigned long long)first[1]);
	return good && OK(oriel_req_free(&req));
}

static bool
bad_arguments(struct ranks *r)
{
	unsigned char *out = calloc((size_t)r->size + 1, 8);

	FAILS(ORIEL_EHANDLE, oriel_barrier(NULL));
	FAILS(ORIEL_EHANDLE, oriel_allgather(NULL, out, out, 8));
	FAILS(ORIEL_EINVAL, oriel_allgather(r->world, out, NULL, 8));
	FAILS(ORIEL_ERANGE, oriel_allgather(r->world, NULL, out, SIZE_MAX - 7));
	FAILS(ORIEL_EINVAL, oriel_allgather(r->world, out + r->rank * 8 + 1, out, 8));
	free(out);
	return true;
}

static int
run(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 2000;

	if (!bad_arguments(r) || !every_size(r, r->world) || !barriers_hold(r, 200))
		return 1;
	if (!back_to_back(r, r->world, rounds, 40, false) ||
	    !back_to_back(r, r->world, rounds / 2, 9000, true) ||
	    !back_to_back(r, r->world, rounds / 8, 60000, false))
		return 1;
	if (!side_by_side(r, rounds / 4) || !same_place(r, r->world))
		return 1;
	for (int kind = 0; kind < 5 && r->size > 1; kind++)
		if (!disagree(r, kind))
			return 1;
	for (int i = 0; i < 40 && r->size > 1; i++)
		if (!aborted(r, i % 4 == 0 ? 100 : i % 4 == 1 ? 50000 : 400000, i % 2))
			return 1;
	return 0;
}

int
main(int argc, char **argv)
{
	char forced[300] = "ORIEL_ALGORITHM=";
	const char *knobs[] = { "ORIEL_CALL_TIMEOUT=60s", forced, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--algorithm=", 12))
			snprintf(forced, sizeof(forced), "ORIEL_ALGORITHM=%.200s", argv[i] + 12);
	return ranks_main(argc, argv, run, &opts);
}
