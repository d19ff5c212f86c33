/*
 * litmus.c - a litmus test for every line of doc/memory-model.md, over windows of
 * the pool and over ordinary memory, messages of 8 bytes to 1 MiB, and seeded
 * delays between all that may overtake.
 *
 * --rounds N: rounds of a line and kind of window; --only N: line MM<N>.
 */
#include "test/ranks/litmus.h"

#include "test/ranks/litmus_coll.h"
#include "test/ranks/litmus_words.h"

#define ROUNDS 2000

/* One round each; the names are those of doc/memory-model.md. */

/* MM1: three puts in three forms, the last with the signal. */
static void
domain(struct env *e)
{
	struct oriel_seg segs[2] = { { AREA, e->src[1], e->len / 2 },
		                     { AREA + e->len / 2, e->src[1] + e->len / 2,
		                       e->len - e->len / 2 } };
	size_t block = e->len < 128 ? 8 : e->len / 16;
	unsigned i;

	for (i = 0; i < 3; i++)
		fill(e, e->src[i], e->r->rank, i);
	if (!put(e, e->right, 0))
		return;
	delay(e);
	if (e->round % 2)
		OK(oriel_put_list(e->win, e->right, segs, 2));
	else
		OK(oriel_put_strided(e->win, e->right, AREA, block, e->src[1], block, block,
		                     e->len / block));
	delay(e);
	if (!OK(oriel_put_signal(e->win, e->right, 2 * AREA, e->src[2], e->len, DATA,
	                         ORIEL_SIGNAL_SET, e->round)) ||
	    !await_round(e, e->left, DATA))
		return;
	verify(e, area(e, 2), e->left, 2, "the put of the signal");
	verify(e, area(e, 1), e->left, 1, "the put before it");
	verify(e, area(e, 0), e->left, 0, "the first put");
	acknowledge(e);
}

/* MM1 also holds for a signal alone, and for one without any data. */
static void
signal_alone(struct env *e)
{
	fill(e, e->src[0], e->r->rank, 0);
	if (!put(e, e->right, 0))
		return;
	delay(e);
	if (!OK(oriel_put_signal(e->win, e->right, 0, NULL, 0, DATA, ORIEL_SIGNAL_SET, e->round)) ||
	    !await_round(e, e->left, DATA))
		return;
	verify(e, area(e, 0), e->left, 0, "the put before the signal");
	acknowledge(e);
}

/* MM2: every other rank adds at the root. */
static void
sum(struct env *e)
{
	int i, me = e->r->rank;

	if (me != e->root) {
		unsigned mine = (unsigned)(me % AREAS);

		fill(e, e->src[mine], me, mine);
		/* More ranks than areas: those share an area and send no data in this round. */
		if (me < AREAS && !put(e, e->root, mine))
			return;
		OK(oriel_signal(e->win, e->root, COUNT, ORIEL_SIGNAL_ADD, 1));
	} else if (await_count(e)) {
		for (i = 0; i < e->r->size && i < AREAS; i++)
			if (i != me)
				verify(e, area(e, (unsigned)i), i, (unsigned)i, "an adder's put");
	}
	acknowledge_root(e);
}

/* MM3: signals of one order domain are seen in their order. */
static void
signal_order(struct env *e)
{
	uint64_t seen;

	fill(e, e->src[0], e->r->rank, 0);
	if (!set(e, e->right, FIRST) || !put(e, e->right, 0) || !set(e, e->right, SECOND) ||
	    !await_round(e, e->left, SECOND) || !OK(oriel_signal_read(e->win, FIRST, &seen)))
		return;
	if (seen != e->round)
		violated(e, "the earlier signal", e->round, seen);
	acknowledge(e);
}

/* MM4: all put at one place of the root; each byte is one writer's. */
static inline void
overlap(struct env *e)
{
	unsigned char mark = (unsigned char)(e->round / (uint64_t)e->r->size % 8 * 16);
	size_t i;

	memset(e->src[0], mark + 1 + e->r->rank % 15, e->len);
	if (e->r->rank != e->root) {
		if (put(e, e->root, 0))
			OK(oriel_signal(e->win, e->root, COUNT, ORIEL_SIGNAL_ADD, 1));
	} else if (await_count(e)) {
		for (i = 0; i < e->len; i++)
			if (area(e, 0)[i] <= mark || area(e, 0)[i] > mark + 15) {
				violated(e, "a byte of none of the writers", mark, area(e, 0)[i]);
				break;
			}
	}
	acknowledge_root(e);
}

/* MM4: of two puts at one place with a flush between them the second stands. */
static void
overwrite(struct env *e)
{
	fill(e, e->src[0], e->r->rank, 0);
	fill(e, e->src[1], e->r->rank, 1);
	if (!put(e, e->right, 0) || !OK(oriel_flush(e->win, e->right)) ||
	    !OK(oriel_put(e->win, e->right, 0, e->src[1], e->len)) || !set(e, e->right, DATA) ||
	    !await_round(e, e->left, DATA))
		return;
	verify(e, area(e, 0), e->left, 1, "the second put");
	acknowledge(e);
}

/* MM5: after local completion the sources may change. */
static bool
put_and_change(struct env *e)
{
	oriel_req *req[4] = { NULL, NULL, NULL, NULL };
	unsigned i;

	delay(e);
	for (i = 0; i < 4; i++)
		if (!OK(e->round % 2
		                ? oriel_rput(e->win, e->right, i * AREA, e->src[i], e->len, &req[i])
		                : oriel_put(e->win, e->right, i * AREA, e->src[i], e->len)))
			return false;
	if (e->round % 2 == 0 && !OK(oriel_flush_local(e->win, e->right)))
		return false;
	for (i = 0; i < 4; i++) {
		if (!OK(oriel_req_wait(&req[i], RANKS_WAIT_NS)))
			return false;
		memset(e->src[i], 0xee, e->len);
	}
	return true;
}

static void
source(struct env *e)
{
	unsigned i;

	for (i = 0; i < 4; i++)
		fill(e, e->src[i], e->r->rank, i);
	if (!put_and_change(e) || !set(e, e->right, DATA) || !await_round(e, e->left, DATA))
		return;
	for (i = 0; i < 4; i++)
		verify(e, area(e, i), e->left, i, "the source at the time of the put");
	acknowledge(e);
}

/* MM6: after a flush the put is at the target, whoever tells it so; the barrier may come around
 * the other way. */
static void
flushed(struct env *e)
{
	int to = e->round / 2 % 2 ? e->right : e->left, from = to == e->right ? e->left : e->right;

	fill(e, e->src[0], e->r->rank, 0);
	if (!put(e, to, 0))
		return;
	delay(e);
	if (!OK(e->round % 2 ? oriel_flush(e->win, to) : oriel_flush_all(e->win)) ||
	    !OK(oriel_barrier(e->r->world)))
		return;
	verify(e, area(e, 0), from, 0, "the flushed put");
	OK(oriel_barrier(e->r->world));
}

/* MM7: two windows. */
static void
two_windows(struct env *e)
{
	fill(e, e->src[0], e->r->rank, 0);
	if (!put(e, e->right, 0) || !OK(oriel_flush(e->win, e->right)))
		return;
	delay(e);
	if (!OK(oriel_signal(e->other, e->right, DATA, ORIEL_SIGNAL_SET, e->round)) ||
	    !await(e->other, e->left, DATA, e->round, (unsigned)ranks_random(e->r, 6)))
		return;
	verify(e, area(e, 0), e->left, 0, "the put in the other window");
	acknowledge(e);
}

/* MM7: two targets; the third rank reads what was put at the second. */
static void
two_targets(struct env *e)
{
	int n = e->r->size, third = (e->r->rank + 2) % n, first = (e->r->rank + n - 2 % n) % n;

	fill(e, e->src[0], e->r->rank, 0);
	if (!put(e, e->right, 0) || !OK(oriel_flush(e->win, e->right)) || !set(e, third, RELAY) ||
	    !await_round(e, first, RELAY))
		return;
	delay(e);
	if (!OK(oriel_get(e->win, (first + 1) % n, 0, e->src[1], e->len)) ||
	    !OK(oriel_flush(e->win, (first + 1) % n)))
		return;
	verify(e, e->src[1], first, 0, "the put at the other target");
	if (set(e, first, ACK) && await_round(e, third, ACK))
		OK(oriel_flush_local_all(e->win));
}

/* MM7: two threads; the second puts, the first flushes and signals. */
static void
put_job(struct env *e)
{
	fill(e, e->src[0], e->r->rank, 0);
	pause_a_bit(&e->helper_random);
	OK(oriel_put(e->win, e->right, 0, e->src[0], e->len));
}

static void
two_threads(struct env *e)
{
	helper_post(e, put_job);
	delay(e);
	helper_join(e);
	if (stopped(e) || !OK(oriel_flush(e->win, e->right)) || !set(e, e->right, DATA) ||
	    !await_round(e, e->left, DATA))
		return;
	verify(e, area(e, 0), e->left, 0, "the other thread's put");
	acknowledge(e);
}

/* MM7: each thread is an order domain of its own, and both keep their order at once. */
static void
domain_job(struct env *e)
{
	fill(e, e->src[1], e->r->rank, 1);
	pause_a_bit(&e->helper_random);
	if (OK(oriel_put(e->win, e->right, AREA, e->src[1], e->len)) &&
	    OK(oriel_signal(e->win, e->right, THREAD, ORIEL_SIGNAL_SET, e->round)) &&
	    await(e->win, e->left, THREAD, e->round, (unsigned)(ranks_next(&e->helper_random) % 6)))
		verify(e, area(e, 1), e->left, 1, "the second thread's put");
}

static void
two_domains(struct env *e)
{
	helper_post(e, domain_job);
	fill(e, e->src[0], e->r->rank, 0);
	if (put(e, e->right, 0) && set(e, e->right, DATA) && await_round(e, e->left, DATA))
		verify(e, area(e, 0), e->left, 0, "the first thread's put");
	helper_join(e);
	if (!stopped(e))
		acknowledge(e);
}

/* MM7: with a flush the order is passed on: first puts at third, tells second, which tells third.
 */
static void
relay(struct env *e)
{
	int n = e->r->size, third = (e->r->rank + 2) % n, first = (e->r->rank + n - 2 % n) % n;

	fill(e, e->src[0], e->r->rank, 0);
	if (!put(e, third, 0) || !OK(oriel_flush(e->win, third)) || !set(e, e->right, FIRST) ||
	    !await_round(e, e->left, FIRST) || !set(e, e->right, SECOND) ||
	    !await_round(e, e->left, SECOND))
		return;
	verify(e, area(e, 0), first, 0, "the put of the rank before the last");
	if (set(e, first, ACK) && await_round(e, third, ACK))
		OK(oriel_flush_local_all(e->win));
}

/* MM8: the owner's own stores before its signal, and the peer's get after it. */
static void
own_stores(struct env *e)
{
	oriel_req *req = NULL;

	fill(e, area(e, 3), e->r->rank, 3);
	if (!set(e, e->right, DATA) || !await_round(e, e->left, DATA))
		return;
	if (e->round % 2) {
		if (!OK(oriel_rget(e->win, e->left, 3 * AREA, e->src[0], e->len, &req)) ||
		    !OK(oriel_req_wait(&req, RANKS_WAIT_NS)))
			return;
	} else if (!OK(oriel_get(e->win, e->left, 3 * AREA, e->src[0], e->len)) ||
	           !OK(oriel_flush_local(e->win, e->left))) {
		return;
	}
	verify(e, e->src[0], e->left, 3, "the owner's stores");
	acknowledge(e);
}

/* MM9: a get after the own put, with a flush between them. */
static void
get_back(struct env *e)
{
	fill(e, e->src[0], e->r->rank, 0);
	memset(e->src[1], 0, e->len);
	if (!put(e, e->right, 0) || !OK(oriel_flush(e->win, e->right)))
		return;
	delay(e);
	if (!OK(oriel_get(e->win, e->right, 0, e->src[1], e->len)) ||
	    !OK(oriel_flush(e->win, e->right)))
		return;
	verify(e, e->src[1], e->r->rank, 0, "the own put");
}

/* MM12: two threads wait for the same value of the same slot; both see it, and it stays. */
static void
wait_job(struct env *e)
{
	if (await(e->win, e->left, DATA, e->round, (unsigned)(ranks_next(&e->helper_random) % 6)))
		verify(e, area(e, 0), e->left, 0, "the put, by the second thread");
}

static void
consumes_nothing(struct env *e)
{
	helper_post(e, wait_job);
	fill(e, e->src[0], e->r->rank, 0);
	if (put(e, e->right, 0) && set(e, e->right, DATA) && await_round(e, e->left, DATA)) {
		verify(e, area(e, 0), e->left, 0, "the put, by the first thread");
		OK(oriel_signal_wait(e->win, DATA, ORIEL_EQ, e->round, 0, NULL));
	}
	helper_join(e);
	if (!stopped(e))
		acknowledge(e);
}

/* MM15: a barrier orders the own stores before it and the peers' gets after it. */
static void
barrier_orders(struct env *e)
{
	fill(e, area(e, 3), e->r->rank, 3);
	delay(e);
	if (!OK(oriel_barrier(e->r->world)))
		return;
	delay(e);
	if (!OK(oriel_get(e->win, e->left, 3 * AREA, e->src[0], e->len)) ||
	    !OK(oriel_flush_local(e->win, e->left)))
		return;
	verify(e, e->src[0], e->left, 3, "the owner's stores before the barrier");
	OK(oriel_barrier(e->r->world));
}

/* MM16: stores into the peer's part, and loads from it, with a signal between them. */
static void
direct_access(struct env *e)
{
	void *right = NULL, *left = NULL;
	int to_right = oriel_win_ptr(e->win, e->right, &right);
	int to_left = oriel_win_ptr(e->win, e->left, &left);

	if (to_right == ORIEL_ENOTSUP || to_left == ORIEL_ENOTSUP)
		e->unreachable = true;
	if ((to_right != ORIEL_ENOTSUP && !OK(to_right)) ||
	    (to_left != ORIEL_ENOTSUP && !OK(to_left)))
		return;
	fill(e, area(e, 3), e->r->rank, 3);
	fill(e, right ? right : e->src[0], e->r->rank, 0);
	if ((!right && !put(e, e->right, 0)) || !set(e, e->right, DATA) ||
	    !await_round(e, e->left, DATA))
		return;
	verify(e, area(e, 0), e->left, 0, "the peer's stores");
	if (left)
		verify(e, (char *)left + 3 * AREA, e->left, 3, "loads of the peer's own stores");
	acknowledge(e);
}

/* MM17: an aborted communicator ends its waits; the others do not notice. */
static void
aborted(struct env *e)
{
	oriel_comm *comm = NULL;
	oriel_win *win = NULL;
	void *base;
	int code;

	if (!OK(oriel_comm_dup(e->r->world, &comm)))
		return;
	ranks_watch(comm);
	if (!OK(oriel_win_alloc(comm, 64, 1, &base, &win)) || !OK(oriel_barrier(e->r->world)))
		return;
	delay(e);
	if (e->r->rank == e->root)
		OK(oriel_comm_abort(comm));
	code = oriel_signal_wait(win, 0, ORIEL_GE, 1, RANKS_WAIT_NS, NULL);
	if (code != ORIEL_EABORTED)
		violated(e, "the error of a wait", (uint64_t)-ORIEL_EABORTED, (uint64_t)-code);
	oriel_win_free(win);
	ranks_unwatch(comm);
	oriel_comm_free(comm);
	signal_alone(e);
}

/*
 * ---- All of it ----
 */

static const struct line {
	const char *name;
	unsigned number;
	void (*round)(struct env *e);
	unsigned part; /* of the rounds: one in so many */
	size_t max;    /* bytes of the largest message */
	int min_ranks;
} lines[] = {
	{ "MM1 domain", 1, domain, 1, AREA, 1 },
	{ "MM1 signal_alone", 1, signal_alone, 1, AREA, 1 },
	{ "MM2 sum", 2, sum, 1, AREA, 2 },
	{ "MM2 many_adds", 2, many_adds, 2, 8, 1 },
	{ "MM3 signal_order", 3, signal_order, 1, AREA, 1 },
#ifndef __SANITIZE_THREAD__ /* it is a race, and meant to be one */
	{ "MM4 overlap", 4, overlap, 1, AREA, 2 },
#endif
	{ "MM4 overwrite", 4, overwrite, 1, AREA, 1 },
	{ "MM5 source", 5, source, 1, AREA, 1 },
	{ "MM6 flushed", 6, flushed, 1, AREA, 1 },
	{ "MM7 two_windows", 7, two_windows, 1, AREA, 1 },
	{ "MM7 two_targets", 7, two_targets, 1, AREA, 1 },
	{ "MM7 two_threads", 7, two_threads, 1, AREA, 1 },
	{ "MM7 two_domains", 7, two_domains, 1, AREA, 1 },
	{ "MM7 relay", 7, relay, 1, AREA, 1 },
	{ "MM8 own_stores", 8, own_stores, 1, AREA, 1 },
	{ "MM9 get_back", 9, get_back, 1, AREA, 1 },
	{ "MM10 atomics", 10, atomics, 2, 8, 1 },
	{ "MM10 locked", 10, locked, 4, 4096, 1 },
	{ "MM11 accumulate", 11, accumulate, 2, 4096, 1 },
	{ "MM12 consumes_nothing", 12, consumes_nothing, 1, AREA, 1 },
	{ "MM13 set_and_add", 13, set_and_add, 1, 8, 1 },
	{ "MM14 passive", 14, passive, 4, AREA, 2 },
	{ "MM15 barrier_orders", 15, barrier_orders, 1, AREA, 1 },
	{ "MM16 direct_access", 16, direct_access, 1, AREA, 1 },
	{ "MM17 aborted", 17, aborted, 50, 8, 2 },
	{ "MM20 own_again", 20, own_again, 2, AREA, 1 },
	{ "MM20 goes_on", 20, goes_on, 8, AREA, 2 },
	{ "MM21 started", 21, started, 1, AREA, 1 },
	{ "MM22 message", 22, message, 1, AREA, 1 },
	{ "MM23 beside", 23, beside, 1, AREA, 1 },
};

/* Message sizes, and how the rounds are shared out. */
static const struct {
	size_t len;
	unsigned parts;
} sizes[] = { { 8, 40 }, { 64, 25 }, { 4096, 25 }, { 65536, 8 }, { AREA, 2 } };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* All rounds of a line, over all sizes; false if nothing more can be run. */
static bool
run_line(struct env *e, const struct line *l, uint64_t rounds)
{
	uint64_t start = ranks_now_ns(), n, i, made = 0;
	unsigned s, parts = 0;

	e->line = l->name;
	e->unreachable = false;
	for (s = 0; s < N_SIZES && sizes[s].len <= l->max; s++)
		parts += sizes[s].parts;
	for (s = 0; s < N_SIZES && sizes[s].len <= l->max; s++) {
		e->len = sizes[s].len;
		n = rounds * sizes[s].parts / parts / l->part;
		for (i = 0; i <= n && !stopped(e); i++, made++) {
			e->round++;
			e->root = (int)(e->round % (uint64_t)e->r->size);
			l->round(e);
		}
	}
	if (stopped(e) || !OK(oriel_flush_all(e->win)) || !OK(oriel_barrier(e->r->world)))
		return false;
	if (e->r->rank == 0)
		ranks_say(NULL, 0, "%-22s %s window: %llu rounds, %.2f s%s", l->name, e->kind,
		          (unsigned long long)made, (double)(ranks_now_ns() - start) * 1e-9,
		          e->unreachable ? " (not all ranks share this memory)" : "");
	return true;
}

static void
run_lines(struct env *e)
{
	uint64_t rounds = e->r->rounds ? e->r->rounds : ROUNDS, only = ranks_number("--only", 0);
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if ((!only || only == lines[i].number) && e->r->size >= lines[i].min_ranks)
			if (!run_line(e, &lines[i], rounds))
				return;
}

/* Ordinary memory is 8 bytes off its page, so that nothing is aligned by chance. */
static bool
open_windows(struct env *e, void **memory)
{
	void *base;

	if (!memory)
		return OK(oriel_win_alloc(e->r->world, WINDOW, SLOTS, &base, &e->win)) &&
		       (e->base = base, true) &&
		       OK(oriel_win_alloc(e->r->world, 64, SLOTS, &base, &e->other));
	*memory = calloc(1, 2 * WINDOW);
	if (!NEED(*memory, "no memory"))
		return false;
	e->base = (unsigned char *)*memory + 8;
	return OK(oriel_win_create(e->r->world, e->base, WINDOW, SLOTS, &e->win)) &&
	       OK(oriel_win_create(e->r->world, e->base + WINDOW, 64, SLOTS, &e->other));
}

static void
run_kind(struct env *e, const char *kind, bool ordinary)
{
	void *memory = NULL;

	e->kind = kind;
	e->win = e->other = NULL;
	e->count = e->total = e->sum = 0;
	if (open_windows(e, ordinary ? &memory : NULL) && OK(oriel_barrier(e->r->world)))
		run_lines(e);
	if (stopped(e))
		return; /* peers may still write: the memory stays */
	OK(oriel_win_free(e->other));
	OK(oriel_win_free(e->win));
	free(memory);
}

static int
run(struct ranks *r)
{
	struct env e = { .r = r };
	unsigned i;

	e.right = (r->rank + 1) % r->size;
	e.left = (r->rank + r->size - 1) % r->size;
	for (i = 0; i < AREAS; i++) {
		e.src[i] = calloc(1, AREA);
		if (!NEED(e.src[i], "no memory"))
			return 1;
	}
	if (!helper_open(&e))
		return 1;
	run_kind(&e, "pool", false);
	if (!stopped(&e))
		run_kind(&e, "user", true);
	helper_close(&e);
	for (i = 0; i < AREAS && !stopped(&e); i++)
		free(e.src[i]);
	return 0;
}

RANKS_MAIN(run)
