/*
 * threads_calls.c - several threads of each rank call at the same time, each on a
 * communicator of its own: blocking, nonblocking and persistent collectives, send
 * and receive; requests that one thread starts and another waits for; and
 * requests that nobody waits for, which have to come to their end all the same
 * while the application computes.
 */
#include "test/ranks/ranks.h"

#include <pthread.h>

#define WORKERS 3
#define MOST 9000                          /* elements: more than fits into a message at once */
#define FIXED 24                           /* of persistent requests */
#define DEEP 4                             /* requests between two threads */
#define QUIET_NS (UINT64_C(150) * 1000000) /* after it the helper thread sleeps for long */

struct vector {
	uint64_t in[MOST], out[MOST];
	size_t n;
	uint64_t round;
	oriel_req *req;
};

static void
fill(struct vector *v, int rank, uint64_t round, size_t n)
{
	v->n = n;
	v->round = round;
	for (size_t i = 0; i < n; i++)
		v->in[i] = (uint64_t)rank * 1000003 + round * 31 + i;
	memset(v->out, 0xee, n * sizeof(v->out[0]));
}

static bool
summed(const struct vector *v, int size)
{
	uint64_t ranks = (uint64_t)size;

	for (size_t i = 0; i < v->n; i++) {
		uint64_t expected = ranks * (ranks - 1) / 2 * 1000003 + ranks * (v->round * 31 + i);

		if (!CHECK(v->out[i] == expected,
		           "round %llu, element %zu of %zu is %llu, expected %llu",
		           (unsigned long long)v->round, i, v->n, (unsigned long long)v->out[i],
		           (unsigned long long)expected))
			return false;
	}
	return true;
}

/* out is what rank has as in. */
static bool
copied(const struct vector *v, int rank)
{
	for (size_t i = 0; i < v->n; i++) {
		uint64_t expected = (uint64_t)rank * 1000003 + v->round * 31 + i;

		if (!CHECK(v->out[i] == expected,
		           "round %llu, element %zu of %zu of rank %d is %llu, expected %llu",
		           (unsigned long long)v->round, i, v->n, rank,
		           (unsigned long long)v->out[i], (unsigned long long)expected))
			return false;
	}
	return true;
}

static size_t
bytes_of(const struct vector *v)
{
	return v->n * sizeof(v->in[0]);
}

static bool
sum_start(struct vector *v, oriel_comm *comm)
{
	return OK(oriel_iallreduce(comm, v->in, v->out, v->n, ORIEL_UINT64, ORIEL_SUM, &v->req));
}

static bool
sum_now(struct vector *v, oriel_comm *comm)
{
	return OK(oriel_allreduce(comm, v->in, v->out, v->n, ORIEL_UINT64, ORIEL_SUM));
}

static bool
test_until_done(oriel_req **req)
{
	uint64_t until = ranks_now_ns() + RANKS_WAIT_NS;
	int done = 0;

	while (!done) {
		if (!OK(oriel_req_test(req, &done)) ||
		    !NEED(ranks_now_ns() < until, "a request that is tested is never complete"))
			return false;
	}
	return true;
}

/* ---- Threads that call, each on its communicator ---- */

struct worker {
	struct ranks own; /* of this thread: generator, count of failures */
	oriel_comm *comm;
	uint64_t same; /* a generator that is alike on all ranks */
	uint64_t rounds;
	struct vector v[DEEP], again; /* again: of a persistent request */
	pthread_t thread;
	bool good;
};

static size_t
some_length(struct worker *w)
{
	size_t n = ranks_next(&w->same) % (MOST + 1);

	return ranks_next(&w->same) % 4 ? n % 9 : n;
}

/* By this rank's own choice. */
static bool
finish(struct worker *w, oriel_req **req)
{
	ranks_delay(ranks_random(&w->own, 2000));
	if (ranks_random(&w->own, 2))
		return test_until_done(req);
	return OK(oriel_req_wait(req, ranks_random(&w->own, 2) ? RANKS_WAIT_NS : ORIEL_FOREVER));
}

static bool
blocking(struct worker *w, uint64_t round)
{
	fill(&w->v[0], w->own.rank, round, some_length(w));
	return sum_now(&w->v[0], w->comm) && summed(&w->v[0], w->own.size);
}

static bool
nonblocking(struct worker *w, uint64_t round)
{
	fill(&w->v[0], w->own.rank, round, some_length(w));
	return sum_start(&w->v[0], w->comm) && finish(w, &w->v[0].req) &&
	       summed(&w->v[0], w->own.size);
}

static bool
several(struct worker *w, uint64_t round)
{
	oriel_req *reqs[DEEP];
	bool good = true;

	for (unsigned i = 0; i < DEEP && good; i++) {
		fill(&w->v[i], w->own.rank, round + i, some_length(w));
		good = sum_start(&w->v[i], w->comm);
		reqs[DEEP - 1 - i] = w->v[i].req;
	}
	good = good && OK(oriel_req_waitall(DEEP, reqs, RANKS_WAIT_NS));
	for (unsigned i = 0; i < DEEP && good; i++)
		good = summed(&w->v[i], w->own.size);
	return good;
}

static bool
persistent(struct worker *w, uint64_t round)
{
	for (unsigned i = 0; i < 3; i++) {
		fill(&w->again, w->own.rank, round + i, FIXED);
		if (!OK(oriel_start(w->again.req)) || !finish(w, &w->again.req) ||
		    !summed(&w->again, w->own.size))
			return false;
	}
	return true;
}

/* From the left, to the right. */
static bool
passed_on(struct worker *w, uint64_t round, bool posted)
{
	int n = w->own.size, right = (w->own.rank + 1) % n, left = (w->own.rank + n - 1) % n;
	struct vector *v = &w->v[0];
	struct oriel_status st;
	oriel_req *reqs[2];
	size_t len;
	bool good;

	fill(v, w->own.rank, round, some_length(w));
	len = bytes_of(v);
	if (!posted)
		good = OK(oriel_sendrecv(w->comm, right, 7, v->in, len, left, 7, v->out, len, &st));
	else
		good = OK(oriel_irecv(w->comm, left, 7, v->out, len, &st, &reqs[0])) &&
		       OK(oriel_isend(w->comm, right, 7, v->in, len, &reqs[1])) &&
		       OK(oriel_req_waitall(2, reqs, RANKS_WAIT_NS));
	return good &&
	       CHECK(st.source == left && st.len == len, "%zu bytes of rank %d", st.len,
	             st.source) &&
	       copied(v, left);
}

static bool
one_round(struct worker *w, uint64_t round)
{
	switch (ranks_next(&w->same) % 7) {
	case 0:
		return blocking(w, round);
	case 1:
		return nonblocking(w, round);
	case 2:
		return several(w, round);
	case 3:
		return persistent(w, round);
	case 4:
		return passed_on(w, round, true);
	case 5:
		return passed_on(w, round, false);
	default:
		return OK(oriel_barrier(w->comm));
	}
}

static void *
worker_main(void *arg)
{
	struct worker *w = arg;

	ranks_adopt(&w->own);
	w->again.n = FIXED;
	w->good = OK(oriel_allreduce_init(w->comm, w->again.in, w->again.out, FIXED, ORIEL_UINT64,
	                                  ORIEL_SUM, &w->again.req));
	for (uint64_t round = 0; round < w->rounds && w->good; round++)
		w->good = one_round(w, round);
	w->good = w->good && OK(oriel_req_free(&w->again.req));
	return NULL;
}

static void
worker_init(struct worker *w, const struct ranks *r, uint64_t index, uint64_t rounds)
{
	w->own = *r;
	w->own.failures = 0;
	w->own.random += index * 7919;
	w->same = r->seed * 31 + index;
	w->rounds = rounds;
}

static bool
side_by_side(struct ranks *r, uint64_t rounds)
{
	struct worker *w = calloc(WORKERS, sizeof(*w));
	bool good = NEED(w != NULL, "no memory");

	for (unsigned i = 0; i < WORKERS && good; i++) {
		good = OK(oriel_comm_dup(r->world, &w[i].comm));
		if (good)
			ranks_watch(w[i].comm);
	}
	for (unsigned i = 0; i < WORKERS && good; i++) {
		worker_init(&w[i], r, i, rounds);
		NEED(!pthread_create(&w[i].thread, NULL, worker_main, &w[i]), "no thread");
	}
	for (unsigned i = 0; i < WORKERS && good; i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned i = 0; i < WORKERS && good; i++)
		good = CHECK(w[i].good && !w[i].own.failures, "worker %u has failed", i);
	for (unsigned i = 0; i < WORKERS && good; i++) {
		ranks_unwatch(w[i].comm);
		good = OK(oriel_comm_free(w[i].comm));
	}
	free(w);
	return good;
}

/* ---- One thread starts, another waits ---- */

struct hand_over {
	struct worker waiter;
	struct vector v[DEEP];
	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint64_t started, ended; /* requests */
	bool over;               /* one of the two has failed */
};

/* Until there is another one to wait for, or room for one. False: there will be none. */
static bool
look(struct hand_over *h, bool for_room)
{
	bool good;

	pthread_mutex_lock(&h->lock);
	while (!h->over && (for_room ? h->started - h->ended == DEEP : h->started == h->ended))
		pthread_cond_wait(&h->moved, &h->lock);
	good = !h->over;
	pthread_mutex_unlock(&h->lock);
	return good;
}

static void
tell(struct hand_over *h, uint64_t *count, bool good)
{
	pthread_mutex_lock(&h->lock);
	*count += good;
	h->over |= !good;
	pthread_cond_signal(&h->moved);
	pthread_mutex_unlock(&h->lock);
}

static void *
waiter_main(void *arg)
{
	struct hand_over *h = arg;
	struct worker *w = &h->waiter;

	ranks_adopt(&w->own);
	w->good = true;
	for (uint64_t i = 0; i < w->rounds && w->good; i++) {
		struct vector *v = &h->v[i % DEEP];

		w->good = look(h, false) && finish(w, &v->req) && summed(v, w->own.size);
		tell(h, &h->ended, w->good);
	}
	return NULL;
}

/* Requests of DEEP vectors, one after the other. */
static bool
start_all(struct ranks *r, struct hand_over *h, bool persistent)
{
	bool good = true;

	for (uint64_t i = 0; i < h->waiter.rounds && good; i++) {
		struct vector *v = &h->v[i % DEEP];

		good = look(h, true);
		if (!good)
			break;
		fill(v, r->rank, i, persistent ? FIXED : some_length(&h->waiter));
		good = persistent ? OK(oriel_start(v->req)) : sum_start(v, h->waiter.comm);
		tell(h, &h->started, good);
	}
	return good;
}

static bool
handed_over(struct ranks *r, uint64_t rounds, bool persistent)
{
	struct hand_over *h = calloc(1, sizeof(*h));
	struct worker *w = &h->waiter;
	bool good = NEED(h != NULL, "no memory");

	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->moved, NULL);
	good = good && OK(oriel_comm_dup(r->world, &w->comm));
	if (good)
		ranks_watch(w->comm);
	for (unsigned i = 0; i < DEEP && good && persistent; i++)
		good = OK(oriel_allreduce_init(w->comm, h->v[i].in, h->v[i].out, FIXED,
		                               ORIEL_UINT64, ORIEL_SUM, &h->v[i].req));
	worker_init(w, r, WORKERS, rounds);
	if (good && NEED(!pthread_create(&w->thread, NULL, waiter_main, h), "no thread")) {
		good = start_all(r, h, persistent);
		pthread_join(w->thread, NULL);
		good = good && CHECK(w->good && !w->own.failures, "the waiter has failed");
	}
	for (unsigned i = 0; i < DEEP && good && persistent; i++)
		good = OK(oriel_req_free(&h->v[i].req));
	ranks_unwatch(w->comm);
	good = good && OK(oriel_comm_free(w->comm));
	pthread_cond_destroy(&h->moved);
	pthread_mutex_destroy(&h->lock);
	free(h);
	return good;
}

/* ---- Requests that nobody waits for ---- */

struct alone {
	struct worker w[2]; /* each starts a collective on its communicator */
	oriel_win *win;     /* rank 0 says there that it is through */
	struct vector msg;  /* between rank 0 and each of the others, both ways */
};

static void *
start_one(void *arg)
{
	struct worker *w = arg;

	ranks_adopt(&w->own);
	w->good = sum_start(&w->v[0], w->comm);
	return NULL;
}

/* Both at the same time, or one after the other. */
static bool
start_two(struct alone *a, bool at_once)
{
	if (!at_once)
		return sum_start(&a->w[0].v[0], a->w[0].comm) &&
		       sum_start(&a->w[1].v[0], a->w[1].comm);
	for (unsigned i = 0; i < 2; i++)
		NEED(!pthread_create(&a->w[i].thread, NULL, start_one, &a->w[i]), "no thread");
	for (unsigned i = 0; i < 2; i++)
		pthread_join(a->w[i].thread, NULL);
	return a->w[0].good && a->w[1].good;
}

static void
compute_for(uint64_t ns)
{
	uint64_t until = ranks_now_ns() + ns;

	while (ranks_now_ns() < until)
		ranks_delay(1000);
}

/* Without a call that makes progress, until rank 0 has said so. */
static bool
compute_until_told(struct alone *a, uint64_t round)
{
	uint64_t until = ranks_now_ns() + RANKS_WAIT_NS, seen = 0;

	while (seen < round) {
		ranks_delay(5000);
		if (!OK(oriel_signal_read(a->win, 0, &seen)) ||
		    !NEED(ranks_now_ns() < until,
		          "rank 0 is not through with round %llu: what this rank has started does "
		          "not go on while it computes",
		          (unsigned long long)round))
			return false;
	}
	return true;
}

/* Rank 0 waits for what the others have started. */
static bool
wait_for_all(struct ranks *r, struct alone *a, uint64_t round)
{
	bool good = sum_now(&a->w[0].v[0], a->w[0].comm) && sum_now(&a->w[1].v[0], a->w[1].comm);

	for (int p = 1; p < r->size && good; p++)
		good = OK(oriel_send(r->world, p, 1, a->msg.in, bytes_of(&a->msg))) &&
		       OK(oriel_recv(r->world, p, 2, a->msg.out, bytes_of(&a->msg), NULL)) &&
		       copied(&a->msg, p);
	for (int p = 1; p < r->size && good; p++)
		good = OK(oriel_signal(a->win, p, 0, ORIEL_SIGNAL_SET, round)) &&
		       OK(oriel_flush(a->win, p));
	return good;
}

static bool
leave_alone(struct ranks *r, struct alone *a, uint64_t round)
{
	oriel_req *reqs[4];

	if (round % 4 == 0)
		compute_for(QUIET_NS);
	if (!OK(oriel_irecv(r->world, 0, 1, a->msg.out, bytes_of(&a->msg), NULL, &reqs[0])) ||
	    !OK(oriel_isend(r->world, 0, 2, a->msg.in, bytes_of(&a->msg), &reqs[1])) ||
	    !start_two(a, round % 2 == 0) || !compute_until_told(a, round))
		return false;
	reqs[2] = a->w[0].v[0].req;
	reqs[3] = a->w[1].v[0].req;
	return OK(oriel_req_waitall(4, reqs, RANKS_WAIT_NS)) && copied(&a->msg, 0);
}

static bool
alone_rounds(struct ranks *r, struct alone *a, uint64_t rounds)
{
	bool good = true;

	for (uint64_t round = 1; round <= rounds && good; round++) {
		for (unsigned i = 0; i < 2; i++)
			fill(&a->w[i].v[0], r->rank, round + i, some_length(&a->w[i]));
		fill(&a->msg, r->rank, round, some_length(&a->w[0]));
		good = OK(oriel_barrier(r->world)) &&
		       (r->rank ? leave_alone(r, a, round) : wait_for_all(r, a, round)) &&
		       summed(&a->w[0].v[0], r->size) && summed(&a->w[1].v[0], r->size);
	}
	return good;
}

static bool
left_alone(struct ranks *r, uint64_t rounds)
{
	struct alone *a = calloc(1, sizeof(*a));
	bool good = NEED(a != NULL, "no memory");
	void *base;

	good = good && OK(oriel_win_alloc(r->world, 8, 1, &base, &a->win));
	for (unsigned i = 0; i < 2 && good; i++) {
		worker_init(&a->w[i], r, i, 0);
		good = OK(oriel_comm_dup(r->world, &a->w[i].comm));
		if (good)
			ranks_watch(a->w[i].comm);
	}
	good = good && alone_rounds(r, a, rounds);
	for (unsigned i = 0; i < 2 && good; i++) {
		ranks_unwatch(a->w[i].comm);
		good = OK(oriel_comm_free(a->w[i].comm));
	}
	good = good && OK(oriel_win_free(a->win));
	free(a);
	return good;
}

static int
run(struct ranks *r)
{
	uint64_t rounds = r->rounds ? r->rounds : 200;

	return !(left_alone(r, rounds / 10) && handed_over(r, rounds, false) &&
	         handed_over(r, rounds, true) && side_by_side(r, rounds));
}

RANKS_MAIN(run)
