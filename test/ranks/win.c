/*
 * Windows: over pool memory, user memory and sub-ranges of either; sizes and
 * slots that differ by rank; their number; what one rank's failure does; loads
 * and stores through oriel_win_ptr.
 */
#include "test/ranks/area.h"
#include "test/ranks/memory.h"

#include <pthread.h>

#define CHURN 1000
#define MOST_WINDOWS 4096 /* of one context at once: CTL_WINS */
#define FLAT_KIB                                                                                   \
	2048 /* by which RSS may grow over all rounds: freed handles are kept for a while */

static size_t
size_of(int rank, int salt)
{
	static const size_t sizes[] = { 0, 1, 4096, 100003, 0, 64 };

	return sizes[(size_t)(rank + salt) % 6];
}

static size_t
slots_of(int rank, int salt)
{
	return (size_t)(rank * 3 + salt) % 4;
}

/* The last byte of every part can be written, the one after it cannot. */
static bool
ends(struct area *a, oriel_comm *comm, int salt)
{
	struct ranks *r = a->r;
	unsigned char mark = (unsigned char)(r->rank + 1);

	for (int t = 0; t < r->size; t++) {
		size_t size = size_of(t, salt), got_size = 77, got_slots = 77;

		if (!OK(oriel_win_query(a->win, t, &got_size, &got_slots)))
			return false;
		CHECK(got_size == size && got_slots == slots_of(t, salt),
		      "rank %d: %zu bytes, %zu slots", t, got_size, got_slots);
		OK(oriel_win_query(a->win, t, NULL, &got_slots));
		OK(oriel_win_query(a->win, t, &got_size, NULL));
		FAILS(ORIEL_ERANGE, oriel_put(a->win, t, size, &mark, 1));
		FAILS(ORIEL_ERANGE,
		      oriel_signal(a->win, t, slots_of(t, salt), ORIEL_SIGNAL_SET, 1));
		if (slots_of(t, salt))
			OK(oriel_signal(a->win, t, slots_of(t, salt) - 1, ORIEL_SIGNAL_ADD, 1));
		OK(oriel_put(a->win, t, size, &mark, 0));
		if (size && t == (r->rank + 1) % r->size)
			OK(oriel_put(a->win, t, size - 1, &mark, 1));
	}
	if (!OK(oriel_flush_all(a->win)) || !OK(oriel_barrier(comm)))
		return false;
	if (a->size)
		CHECK(a->base[a->size - 1] == (r->rank + r->size - 1) % r->size + 1,
		      "last byte is %d", a->base[a->size - 1]);
	if (slots_of(r->rank, salt)) {
		uint64_t seen = 0;

		OK(oriel_signal_read(a->win, slots_of(r->rank, salt) - 1, &seen));
		CHECK(seen == (uint64_t)r->size, "%llu signals came", (unsigned long long)seen);
	}
	return OK(oriel_barrier(comm));
}

static bool
shapes(struct ranks *r)
{
	for (int kind = 0; kind < AREA_KINDS; kind++) {
		for (int salt = 0; salt < 6; salt++) {
			struct area a;

			if (!area_open(&a, r, r->world, (enum area_kind)kind,
			               size_of(r->rank, salt), slots_of(r->rank, salt)) ||
			    !ends(&a, r->world, salt) || !area_close(&a))
				return false;
		}
	}
	return true;
}

/* Two windows over one allocation, the second in the middle of the first. */
static bool
overlapping(struct ranks *r, enum area_kind kind)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	oriel_win *inner;
	struct area a;
	char text[8] = "inner 0";

	text[6] = (char)('0' + r->rank % 10);
	if (!area_open(&a, r, r->world, kind, 1000, 0) ||
	    !OK(oriel_win_create(r->world, a.base + 501, 99, 0, &inner)))
		return false;
	OK(oriel_put(inner, right, 10, text, 8));
	OK(oriel_flush(inner, right));
	FAILS(ORIEL_ERANGE, oriel_put(inner, right, 92, text, 8));
	if (!OK(oriel_barrier(r->world)))
		return false;
	CHECK(!memcmp(a.base + 511, "inner ", 6) && a.base[517] == '0' + left % 10,
	      "the inner window's put is not at 511 of the outer one");
	OK(oriel_get(a.win, right, 511, text, 8));
	OK(oriel_flush_local(a.win, right));
	CHECK(text[6] == '0' + r->rank % 10, "got \"%.8s\" through the outer window", text);
	return OK(oriel_win_free(inner)) && area_close(&a);
}

static bool
churn(struct ranks *r, int rounds)
{
	size_t before = 0, after;
	char user[64];

	for (int i = 0; i < rounds; i++) {
		uint64_t word = (uint64_t)i + 1, seen;
		oriel_win *win;
		void *base;

		if (i == rounds / 10)
			before = resident() / 1024;
		if (i % 2) {
			if (!OK(oriel_win_alloc(r->world, 64, 1, &base, &win)))
				return false;
		} else if (!OK(oriel_win_create(r->world, user, sizeof(user), 1, &win))) {
			return false;
		}
		OK(oriel_put_signal(win, (r->rank + 1) % r->size, 8, &word, 8, 0, ORIEL_SIGNAL_SET,
		                    word));
		if (!OK(oriel_signal_wait(win, 0, ORIEL_NE, 0, RANKS_WAIT_NS, &seen)))
			return false;
		CHECK(seen == word, "round %d: a signal of another window: %llu", i,
		      (unsigned long long)seen);
		memcpy(&word, i % 2 ? (char *)base + 8 : user + 8, 8);
		CHECK(seen == word, "round %d: data %llu", i, (unsigned long long)word);
		if (!OK(oriel_win_free(win)))
			return false;
	}
	after = resident() / 1024;
	CHECK(SANITIZED || after < before + FLAT_KIB, "RSS grew from %zu to %zu KiB in %d windows",
	      before, after, rounds);
	return true;
}

/* Only one rank is at its limit, or gives bad arguments: all are told, and who it was. */
static bool
one_fails(struct ranks *r)
{
	static oriel_win *const poison = (oriel_win *)(uintptr_t)0x5a5a;
	int culprit = r->size - 1;
	char user[64], name[32];
	oriel_win *win = poison;
	void *base = NULL;
	int rc;

	snprintf(name, sizeof(name), "rank %d", culprit);
	rc = oriel_win_create(r->world, r->rank == culprit ? NULL : user, 64, 2, &win);
	CHECK(rc < 0, "one rank's base is NULL: %s", oriel_strerror(rc));
	CHECK(win == poison, "a failed win_create wrote its result");
	if (r->rank == culprit)
		CHECK(rc == ORIEL_EINVAL, "%s", oriel_strerror(rc));
	else
		CHECK(strstr(oriel_detail(), name), "the detail names no culprit: %s",
		      oriel_detail());
	rc = oriel_win_alloc(r->world, r->rank == culprit ? SIZE_MAX / 2 : 64, 2, &base, &win);
	CHECK(rc < 0, "one rank asks for too much: %s", oriel_strerror(rc));
	CHECK(!base && win == poison, "a failed win_alloc wrote its results");
	rc = oriel_win_alloc(r->world, 64, r->rank == culprit ? SIZE_MAX / 8 + 1 : 1, &base, &win);
	CHECK(rc < 0, "one rank asks for too many slots: %s", oriel_strerror(rc));
	rc = oriel_win_create(r->world, user, 64, 1, r->rank == culprit ? NULL : &win);
	CHECK(rc < 0, "one rank gives no result pointer: %s", oriel_strerror(rc));
	rc = oriel_win_alloc(r->world, 64, 1, r->rank == culprit ? NULL : &base, &win);
	CHECK(rc < 0, "one rank gives no base pointer: %s", oriel_strerror(rc));
	return churn(r, 4);
}

static bool
reached_directly(struct ranks *r, int rank, enum area_kind kind)
{
	char path[256] = "";

	OK(oriel_path(r->world, rank, !area_is_pool(kind), path, sizeof(path)));
	return !strncmp(path, "direct", 6) || !strncmp(path, "self", 4);
}

static bool
pointers(struct ranks *r, enum area_kind kind)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size, rc;
	struct area a;
	void *ptr = NULL;

	if (!area_open(&a, r, r->world, kind, 64, 1))
		return false;
	OK(oriel_win_ptr(a.win, r->rank, &ptr));
	CHECK(ptr == a.base, "own part at %p, not %p", ptr, (void *)a.base);
	rc = oriel_win_ptr(a.win, right, &ptr);
	if (reached_directly(r, right, kind)) {
		if (!OK(rc))
			return false;
		((volatile unsigned char *)ptr)[5] = (unsigned char)(40 + r->rank);
	} else {
		CHECK(rc == ORIEL_ENOTSUP, "%s of rank %d: %s", area_name[kind], right,
		      oriel_strerror(rc));
	}
	OK(oriel_signal(a.win, right, 0, ORIEL_SIGNAL_SET, 1));
	if (!OK(oriel_signal_wait(a.win, 0, ORIEL_EQ, 1, RANKS_WAIT_NS, NULL)))
		return false;
	if (reached_directly(r, left, kind))
		CHECK(a.base[5] == 40 + left, "the neighbour stored %d", a.base[5]);
	if (!OK(oriel_barrier(r->world)))
		return false;
	if (reached_directly(r, right, kind))
		CHECK(((volatile unsigned char *)ptr)[5] == 40 + r->rank,
		      "load through the pointer");
	return OK(oriel_barrier(r->world)) && area_close(&a);
}

/* Collectives of two communicators from two threads at once: their windows' records must not
 * collide. */
struct maker {
	struct ranks *r;
	oriel_comm *comm;
	int salt;
};

static void *
make_windows(void *arg)
{
	struct maker *m = arg;
	struct ranks *r = m->r;

	ranks_adopt(r);
	for (int i = 0; i < 200; i++) {
		uint64_t word = (uint64_t)(i * 10 + m->salt), got = 0;
		oriel_win *win;
		void *base;

		if (!OK(oriel_win_alloc(m->comm, 16, 1, &base, &win)))
			break;
		OK(oriel_put_signal(win, (r->rank + 1) % r->size, 8, &word, 8, 0, ORIEL_SIGNAL_ADD,
		                    word + 1));
		if (!OK(oriel_signal_wait(win, 0, ORIEL_NE, 0, RANKS_WAIT_NS, &got)))
			break;
		CHECK(got == word + 1 && ((uint64_t *)base)[1] == word,
		      "window %d of thread %d: signal %llu", i, m->salt, (unsigned long long)got);
		if (!OK(oriel_win_free(win)))
			break;
	}
	return NULL;
}

static bool
two_makers(struct ranks *r)
{
	struct maker m[2];
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		m[i] = (struct maker){ r, NULL, i };
		if (!OK(oriel_comm_dup(r->world, &m[i].comm)))
			return false;
		ranks_watch(m[i].comm);
	}
	if (!NEED(!pthread_create(&thread, NULL, make_windows, &m[1]), "no thread"))
		return false;
	make_windows(&m[0]);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		ranks_unwatch(m[i].comm);
		if (!OK(oriel_comm_free(m[i].comm)))
			return false;
	}
	return true;
}

/* All at once, up to the limit, which every rank is told of; then all are usable, and freed. */
static bool
limit(struct ranks *r)
{
	oriel_win **win = calloc(MOST_WINDOWS + 1, sizeof(*win));
	static const size_t step = 64;
	void *base;
	int n = 0, rc = 0;

	if (!NEED(win, "no memory") ||
	    !OK(oriel_mem_alloc(r->ctx, step * (MOST_WINDOWS + 1), 0, &base)))
		return false;
	for (; n <= MOST_WINDOWS; n++) {
		rc = oriel_win_create(r->world, (char *)base + (size_t)n * step, step, 0, &win[n]);
		if (rc)
			break;
	}
	CHECK(rc == ORIEL_ELIMIT && n == MOST_WINDOWS, "window %d: %s (%s)", n, oriel_strerror(rc),
	      oriel_detail());
	CHECK(strstr(oriel_detail(), "4096"), "the detail names no limit: %s", oriel_detail());
	for (int i = 0; i < n; i += 97) {
		uint64_t word = (uint64_t)i * 31 + (uint64_t)r->rank;

		OK(oriel_put(win[i], (r->rank + 1) % r->size, step - 8, &word, 8));
		OK(oriel_flush(win[i], (r->rank + 1) % r->size));
	}
	if (!OK(oriel_barrier(r->world)))
		return false;
	for (int i = 0; i < n; i += 97) {
		uint64_t word, left = (uint64_t)((r->rank + r->size - 1) % r->size);

		memcpy(&word, (char *)base + (size_t)(i + 1) * step - 8, 8);
		CHECK(word == (uint64_t)i * 31 + left, "window %d holds %llu", i,
		      (unsigned long long)word);
	}
	/* With hardly a record free, two threads look for the same ones. */
	for (int i = 0; i < 3; i++)
		if (!OK(oriel_win_free(win[--n])))
			return false;
	if (!two_makers(r))
		return false;
	for (int i = 0; i < n; i++)
		if (!OK(oriel_win_free(win[i])))
			return false;
	free(win);
	return OK(oriel_mem_free(r->ctx, base));
}

static int
run(struct ranks *r)
{
	int rounds = r->rounds ? (int)r->rounds : CHURN;

	if (!shapes(r) || !one_fails(r) || !two_makers(r))
		return 1;
	for (int kind = 0; kind < AREA_KINDS; kind++)
		if (!pointers(r, (enum area_kind)kind) || !overlapping(r, (enum area_kind)kind))
			return 1;
	if (!churn(r, rounds) || (!ranks_flag("--short") && !limit(r)) || !churn(r, 100))
		return 1;
	return 0;
}

RANKS_MAIN(run)
