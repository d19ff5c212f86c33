/*
 * again.c - the same short calls with the same buffers again and again, which
 * take ways of their own: every result is looked at, in calls that run ahead of
 * slow ranks, in one direction only, mixed with other calls, and persistent.
 *
 * --rounds N
 */
#include "test/ranks/ranks.h"

#define MAX_RANKS 16
#define LEN 64 /* of int64_t */

struct again {
	oriel_comm *comm;
	int me, n;
	int64_t in[MAX_RANKS * LEN], out[MAX_RANKS * LEN];
};

static int64_t
value(int rank, uint64_t round, int i)
{
	return (int64_t)round * 1000 + rank * 100 + i % 100;
}

static int64_t
sum(int ranks, uint64_t round, int i)
{
	int64_t all = 0;

	for (int r = 0; r < ranks; r++)
		all += value(r, round, i);
	return all;
}

/* Kind k with len elements a block; the first element of every block of the result is looked at. */
static bool
call(struct again *a, int k, int len, uint64_t round)
{
	size_t bytes = (size_t)len * 8, n = (size_t)len;
	int root = a->n - 1, err;

	for (int b = 0; b < a->n; b++)
		for (int i = 0; i < len; i++)
			a->in[b * len + i] = value(a->me, round, i + b);
	switch (k) {
	case 0:
		err = oriel_allgather(a->comm, a->in, a->out, bytes);
		for (int b = 0; b < a->n && !err; b++)
			CHECK(a->out[b * len] == value(b, round, 0), "allgather, round %llu",
			      (unsigned long long)round);
		break;
	case 1:
		err = oriel_bcast(a->comm, a->in, bytes, root);
		CHECK(err || a->in[len - 1] == value(root, round, len - 1), "bcast, round %llu",
		      (unsigned long long)round);
		break;
	case 2:
		err = oriel_scatter(a->comm, a->in, a->out, bytes, root);
		CHECK(err || a->out[0] == value(root, round, a->me), "scatter, round %llu",
		      (unsigned long long)round);
		break;
	case 3:
		err = oriel_gather(a->comm, a->in, a->out, bytes, root);
		for (int b = 0; b < a->n && !err && a->me == root; b++)
			CHECK(a->out[b * len] == value(b, round, 0), "gather, round %llu",
			      (unsigned long long)round);
		break;
	case 4:
		err = oriel_allreduce(a->comm, a->in, a->out, n, ORIEL_INT64, ORIEL_SUM);
		CHECK(err || a->out[len - 1] == sum(a->n, round, len - 1), "allreduce, round %llu",
		      (unsigned long long)round);
		break;
	case 5:
		err = oriel_scan(a->comm, a->in, a->out, n, ORIEL_INT64, ORIEL_SUM);
		CHECK(err || a->out[0] == sum(a->me + 1, round, 0), "scan, round %llu",
		      (unsigned long long)round);
		break;
	case 6:
		err = oriel_reduce(a->comm, a->in, a->out, n, ORIEL_INT64, ORIEL_SUM, root);
		CHECK(err || a->me != root || a->out[0] == sum(a->n, round, 0),
		      "reduce, round %llu", (unsigned long long)round);
		break;
	default:
		err = oriel_alltoall(a->comm, a->in, a->out, bytes);
		for (int b = 0; b < a->n && !err; b++)
			CHECK(a->out[b * len] == value(b, round, a->me), "alltoall, round %llu",
			      (unsigned long long)round);
		break;
	}
	return OK(err);
}

#define KINDS 8

static bool
mixed(struct again *a, uint64_t rounds, uint64_t seed)
{
	uint64_t rng = seed;

	for (uint64_t i = 0; i < rounds; i++)
		if (!call(a, (int)(ranks_next(&rng) % KINDS), 1 + (int)(ranks_next(&rng) % 2), i))
			return false;
	return true;
}

static bool
persistent(struct again *a, uint64_t rounds)
{
	oriel_req *up, *down;
	bool good =
	        OK(oriel_bcast_init(a->comm, a->in, 8, 0, &down)) &&
	        OK(oriel_reduce_init(a->comm, a->in, a->out, 1, ORIEL_INT64, ORIEL_SUM, 0, &up));

	for (uint64_t i = 0; i < rounds && good; i++) {
		a->in[0] = value(a->me, i, 0);
		good = OK(oriel_start(up)) && OK(oriel_req_wait(&up, ORIEL_FOREVER));
		CHECK(a->me || a->out[0] == sum(a->n, i, 0), "reduce again, round %llu",
		      (unsigned long long)i);
		good = good && OK(oriel_start(down)) && OK(oriel_req_wait(&down, ORIEL_FOREVER));
		CHECK(a->in[0] == value(0, i, 0), "bcast again, round %llu", (unsigned long long)i);
	}
	return good && OK(oriel_req_free(&up)) && OK(oriel_req_free(&down));
}

/*
 * Each kind alone, on a communicator of its own: those with one direction run
 * ahead as far as credits allow, and who only receives has nobody to send to.
 */
static bool
alone(struct ranks *r, struct again *a, int k, uint64_t rounds)
{
	static const int lens[] = { 1, 6, 7, LEN };

	for (int l = 0; l < 4; l++)
		for (uint64_t i = 0; i < rounds; i++) {
			if (ranks_random(r, 50) == 0)
				ranks_delay(ranks_random(r, 200000));
			if (!call(a, k, lens[l], i))
				return false;
		}
	return true;
}

static bool
on_its_own(struct ranks *r, struct again *a, int k, uint64_t rounds)
{
	bool good = OK(oriel_comm_dup(r->world, &a->comm));

	if (!good)
		return false;
	ranks_watch(a->comm);
	if (k < KINDS)
		good = alone(r, a, k, rounds);
	else
		good = mixed(a, 4 * rounds, r->seed) && persistent(a, rounds);
	ranks_unwatch(a->comm);
	return good && OK(oriel_comm_free(a->comm));
}

static int
run(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 400;
	struct again *a = calloc(1, sizeof(*a));
	bool good = true;

	if (!NEED(a && r->size <= MAX_RANKS, "memory, or more than %d ranks", MAX_RANKS))
		return 1;
	a->me = r->rank;
	a->n = r->size;
	for (int k = 0; k <= KINDS && good; k++)
		good = on_its_own(r, a, k, rounds);
	free(a);
	return !good;
}

RANKS_MAIN(run)
