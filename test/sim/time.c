/*
 * The sim executor: small cases whose time is known by hand; every program on
 * every fabric; mistakes that it must find; and 98,304 ranks.
 */
#include "sim/time.h"

#include "plan/verbs.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define US 1000000 /* ps */
#define SEND (US / 2)
#define RECEIVE (US / 2)
#define NIC 20 /* ps a byte */

static struct fabric
fabric(const char *text, int ranks)
{
	struct fabric f;

	cr_assert_eq(fabric_read(text, &f), 0, "%s", oriel_detail());
	cr_assert_eq(fabric_use(&f, ranks), 0, "%s", oriel_detail());
	return f;
}

static struct time_result
run(const struct time_call *call)
{
	struct time_result r;

	cr_assert_eq(time_run(call, &r), 0, "%s", oriel_detail());
	return r;
}

/* A throw-away program of up to two queues, without closed forms; blocks of OUT: one for each rank.
 */
static struct time_result
run_program(void (*build)(struct queue *q, int arg), unsigned queues, const char *text, int ranks,
            uint64_t bytes)
{
	const struct coll_row row = {
		.program = { "test", build, queues, { [OUT] = { blocks_ranks, true } } },
		.op = COLL_ALLGATHER,
	};
	const struct fabric f = fabric(text, ranks);
	const struct time_call call = {
		.row = &row, .shape = { .size = ranks }, .fabric = &f, .bytes = bytes
	};

	return run(&call);
}

static int64_t
end_of(void (*build)(struct queue *q, int arg), unsigned queues, const char *text, int ranks,
       uint64_t bytes)
{
	struct time_result r = run_program(build, queues, text, ranks, bytes);
	int64_t end = r.end;

	time_result_free(&r);
	return end;
}

/* ---- by hand ---- */

static void
one_put(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank == 0)
		put_signal(q, q->size - 1, OUT, 0, OUT, 0, 1);
	if (q->rank == q->size - 1)
		wait(q, 0, 0);
}

Test(time, one_put)
{
	struct time_result r = run_program(one_put, 1, "node:2 gpu:1", 2, 1000);

	cr_expect_eq(r.end, SEND + US + 1000 * NIC + RECEIVE);
	cr_expect_eq(r.last, 1);
	cr_expect_eq(r.bytes[FABRIC_RACK], 1000);
	cr_expect_eq(r.messages[FABRIC_RACK], 1);
	cr_expect_eq(r.busy, 1000 * NIC);
	cr_expect_eq(r.least_messages, 0);
	cr_expect_eq(r.most_messages, 1);
	cr_assert_eq(r.n_path, 3);
	cr_expect_str_eq(r.path[0].what, "put");
	cr_expect_eq(r.path[0].end, SEND);
	cr_expect_str_eq(r.path[1].what, "message");
	cr_expect_eq(r.path[1].peer, 1);
	cr_expect_eq(r.path[1].latency, US);
	cr_expect_eq(r.path[1].bandwidth, 1000 * NIC);
	cr_expect_str_eq(r.path[2].what, "wait");
	cr_expect_eq(r.path[2].start, r.end - RECEIVE);
	cr_expect_eq(r.sum[FABRIC_RACK].overhead, SEND + RECEIVE);
	cr_expect_eq(r.sum[FABRIC_RACK].waiting, 0);
	time_result_free(&r);
	/* In a node at 450 GB/s, and through all of the tree. */
	cr_expect_eq(end_of(one_put, 1, "gpu:2", 2, 450000), SEND + US / 2 + US + RECEIVE);
	cr_expect_eq(end_of(one_put, 1, "building:2 zone:2 rack:2 node:2 gpu:2", 32, 1000),
	             SEND + 30 * US + 1000 * NIC + RECEIVE);
}

/* The lower half puts into the upper half, each into its own. */
static void
across(struct queue *q, int arg)
{
	int half = q->size / 2;

	(void)arg;
	if (q->rank < half)
		put_signal(q, q->rank + half, OUT, 0, OUT, 0, 1);
	else
		wait(q, q->rank - half, 0);
}

Test(time, a_shared_up_link_is_first_come_first_served)
{
	const int64_t one = SEND + 7 * US + 100000 * NIC + RECEIVE;
	struct time_result r = run_program(across, 1, "rack:2 node:2 gpu:1 over:1:2", 4, 100000);

	/* Two NICs' worth on a link of one: the second message ends a message later. */
	cr_expect_eq(r.end, one + 100000 * NIC);
	cr_expect_eq(r.last, 3);
	cr_expect_eq(r.busy, 2 * 100000 * NIC);
	cr_expect_eq(r.sum[FABRIC_ZONE].waiting, 100000 * NIC);
	time_result_free(&r);
	cr_expect_eq(end_of(across, 1, "rack:2 node:2 gpu:1", 4, 100000), one);
	/* Eight on a link of two. */
	cr_expect_eq(end_of(across, 1, "rack:2 node:8 gpu:1 over:1:4", 16, 100000),
	             one + 3 * 100000 * NIC);
	/* A link that is slower than a NIC. */
	cr_expect_eq(end_of(across, 1, "rack:2 node:1 gpu:1 over:1:4", 2, 100000),
	             one + 3 * 100000 * NIC);
}

static void
all_to_first(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank)
		put_signal(q, 0, OUT, q->rank, OUT, q->rank, 1);
	for (int i = 1; i < q->size && !q->rank; i++)
		wait(q, i, 0);
}

Test(time, a_nic_takes_one_after_the_other)
{
	/* The third message is in when the bytes of all are; its wait is the last. */
	cr_expect_eq(end_of(all_to_first, 1, "node:4 gpu:1", 4, 100000),
	             SEND + US + 3 * 100000 * NIC + RECEIVE);
	/* Tiny ones: the processor is the bottleneck. */
	cr_expect_eq(end_of(all_to_first, 1, "node:4 gpu:1", 4, 0), SEND + US + 3 * RECEIVE);
}

Test(time, ring_and_barrier_are_their_steps)
{
	const struct coll_row *ring = coll_row_named("allgather/ring");
	const struct coll_row *barrier = coll_row_named("barrier/dissemination");

	for (int P = 1; P <= 40; P++) {
		const struct fabric f = fabric("node:64 gpu:1", P);
		struct time_call call = { .row = ring, .shape = { .size = P }, .fabric = &f };
		struct time_result r;

		call.bytes = 5000;
		r = run(&call);
		cr_expect_eq(r.end, (P - 1) * (SEND + US + 5000 * NIC + RECEIVE), "%d ranks", P);
		cr_expect_eq(r.rounds, P - 1);
		time_result_free(&r);
		call.row = barrier;
		r = run(&call);
		cr_expect_eq(r.end, blocks_log2(&call.shape) * (SEND + US + RECEIVE), "%d ranks",
		             P);
		time_result_free(&r);
	}
}

static void
sender_flushes(struct queue *q, int arg)
{
	one_put(q, arg);
	if (q->rank == 0) {
		flush(q);
		copy(q, OUT, 0, OUT, 1, 1);
	}
	if (q->rank == 1 && arg)
		flush(q);
}

static void
only_copies(struct queue *q, int arg)
{
	(void)arg;
	copy(&q[0], OUT, 0, OUT, 1, 1);
	copy(&q[1], OUT, 2, OUT, 3, 1);
}

static void
two_queues_send(struct queue *q, int arg)
{
	(void)arg;
	for (int k = 0; k < 2; k++)
		if (q->rank == k)
			for (int c = 0; c < 2; c++)
				k ? wait(&q[c], 0, c) : signal(&q[c], 1);
}

Test(time, what_a_rank_has_once_is_shared)
{
	/* The copy starts when the put has left: a long one, at 1,500 GB/s. */
	cr_expect_eq(end_of(sender_flushes, 1, "node:2 gpu:1 latency:0:0", 2, 1500000),
	             SEND + 1500000 * NIC + US);
	cr_expect_eq(end_of(only_copies, 2, "gpu:4", 4, 1500000), 2 * US, "one memory engine");
	cr_expect_eq(end_of(two_queues_send, 2, "gpu:2", 2, 0), SEND + SEND + US / 2 + RECEIVE,
	             "one processor");
}

static void
long_then_short(struct queue *q, int arg)
{
	(void)arg;
	if (q->rank < 2) {
		put_signal(q, q->rank + 2, OUT, 0, OUT, 0, 1);
		put_signal(q, q->rank + 2, OUT, 2, OUT, 2, 2);
		signal(q, q->rank + 2);
	} else {
		for (int k = 0; k < 3; k++)
			wait(q, q->rank - 2, 0);
	}
}

/* Trains of different lengths on busy links: a channel keeps its order (asserted in time.c), so
 * that the lone signal, which takes no time of any link, comes with the last data. */
Test(time, a_channel_keeps_its_order)
{
	struct time_result r =
	        run_program(long_then_short, 1, "rack:2 node:2 gpu:1 over:1:8", 4, 100000);

	cr_expect_eq(r.end, SEND + 7 * US + 2 * 3 * 4 * 100000 * NIC + 2 * RECEIVE, "%lld",
	             (long long)r.end);
	time_result_free(&r);
}

/* ---- every program on every fabric ---- */

static void
looks_right(const struct time_result *r, const char *name)
{
	int64_t at = 0, all = r->local;

	for (size_t i = 0; i < r->n_path; i++) {
		cr_assert_eq(r->path[i].start, at, "%s: a gap on the path at step %zu", name, i);
		cr_assert_geq(r->path[i].end, at);
		at = r->path[i].end;
		cr_assert_leq(r->path[i].latency + r->path[i].bandwidth,
		              r->path[i].end - r->path[i].start, "%s: step %zu", name, i);
	}
	cr_expect_eq(at, r->end, "%s", name);
	for (int l = 0; l < FABRIC_LEVELS; l++)
		all += r->sum[l].overhead + r->sum[l].latency + r->sum[l].bandwidth +
		       r->sum[l].waiting;
	cr_expect_eq(all, r->end, "%s", name);
	cr_expect_leq(r->busy, r->end, "%s", name);
}

/* With data and without: the time is the same, and both are the same again. */
static void
twice(struct time_call call)
{
	struct time_result a, b;

	call.check = true;
	a = run(&call);
	looks_right(&a, call.row->program.name);
	for (int again = 0; again < 2; again++) {
		call.check = again;
		b = run(&call);
		cr_assert_eq(a.end, b.end, "%s of %d ranks", call.row->program.name,
		             call.shape.size);
		cr_assert_eq(a.last, b.last);
		cr_assert_eq(a.n_path, b.n_path);
		for (size_t i = 0; i < a.n_path; i++)
			cr_assert(a.path[i].rank == b.path[i].rank &&
			          a.path[i].start == b.path[i].start &&
			          a.path[i].end == b.path[i].end);
		cr_assert_arr_eq(a.bytes, b.bytes, sizeof(a.bytes));
		time_result_free(&b);
	}
	time_result_free(&a);
}

static void
every_program(const char *file, int ranks)
{
	static const uint64_t sizes[] = { 0, 8, 100000 };
	const struct fabric f = fabric(file, ranks);
	int node = (int)f.size[FABRIC_NODE];

	for (size_t i = 0; i < coll_rows; i++)
		for (int most = 0; most <= (coll_table[i].max_arg != NULL); most++)
			for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
				struct time_call call = { .row = &coll_table[i],
					                  .fabric = &f,
					                  .bytes = sizes[s] };

				call.shape.size = ranks;
				call.shape.node = ranks % node ? 0 : node;
				call.shape.arg = coll_clip(call.row, ranks, most ? ranks : 0);
				if (coll_kinds[call.row->op].rooted)
					call.shape.root = most ? ranks - 1 : ranks / 3;
				if (!call.row->unfit || !call.row->unfit(&call.shape))
					twice(call);
			}
}

Test(time, every_program_on_every_fabric)
{
	static const int sizes[] = { 1, 2, 7, 8, 24, 32 };
	DIR *dir = opendir("test/fabric");
	const struct dirent *entry;
	int files = 0;

	cr_assert(dir, "test/fabric cannot be read");
	while ((entry = readdir(dir))) {
		char file[300];
		struct fabric f;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "test/fabric/%s", entry->d_name);
		cr_assert_eq(fabric_read(file, &f), 0, "%s", oriel_detail());
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
			if (sizes[s] <= f.size[FABRIC_BETWEEN])
				every_program(file, sizes[s]);
		files++;
	}
	closedir(dir);
	cr_expect_geq(files, 5);
}

Test(time, farthest_peers_first_wins_where_links_are_thin)
{
	const struct coll_row *far = coll_row_named("allgather/doubling");
	const struct coll_row *near = coll_row_named("allgather/doubling_near");
	const struct fabric f = fabric("test/fabric/campus.txt", 1024);
	struct time_call call = { .shape = { .size = 1024, .node = 8 }, .fabric = &f };
	int64_t end[2];

	cr_assert(far && near);
	call.bytes = 64 << 10;
	for (int k = 0; k < 2; k++) {
		struct time_result r;

		call.row = k ? near : far;
		call.shape.arg = coll_clip(call.row, 1024, 0);
		r = run(&call);
		end[k] = r.end;
		time_result_free(&r);
	}
	cr_expect_lt(5 * end[0], end[1], "far %lld ps, near %lld ps", (long long)end[0],
	             (long long)end[1]);
}

/* ---- mistakes ---- */

struct mistake {
	int kind;
	uint32_t at;
	bool made;
};

enum { DROP, SHIFT, LATER, MISTAKES };

/* In rank 1's queue 0; messages only. */
static void
make_mistake(struct plan *plan, void *arg)
{
	struct mistake *m = arg;
	struct plan_queue *q = &plan->queue[0];
	struct op *op = &q->ops[m->at], copy;

	if (plan->rank != 1 || m->at >= q->n || op->kind > OP_WAIT)
		return;
	if (m->kind == SHIFT && (op->kind != OP_PUT || op->n == plan->count[op->dst]))
		return;
	if (m->kind == LATER && (op->kind != OP_WAIT || m->at + 1 == q->n || op[1].kind != OP_PUT))
		return;
	m->made = true;
	switch (m->kind) {
	case DROP:
		memmove(op, op + 1, (q->n - m->at - 1) * sizeof(*op));
		q->n--;
		break;
	case SHIFT:
		op->i = (op->i + 1) % plan->count[op->dst];
		break;
	default:
		copy = *op;
		*op = op[1];
		op[1] = copy;
	}
}

/* Programs whose every message is needed; the first so many also have no put that could as well go
 * before the wait in front of it. */
#define NO_PUT_IS_EARLY 5

Test(time, mistakes_are_found)
{
	static const char *const rows[] = { "allgather/bruck",    "allgather/ring",
		                            "bcast/binomial",     "allgather/doubling_near",
		                            "scan/chain",         "barrier/dissemination",
		                            "allgather/doubling", "alltoall/direct",
		                            "allreduce/doubling" };
	const struct fabric f = fabric("rack:2 node:2 gpu:2 over:1:2", 8);
	int made[MISTAKES] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int kind = 0; kind < (i < NO_PUT_IS_EARLY ? MISTAKES : LATER); kind++)
			for (uint32_t at = 0; at < 20; at++) {
				struct mistake m = { .kind = kind, .at = at };
				struct time_call call = { .row = coll_row_named(rows[i]),
					                  .fabric = &f,
					                  .bytes = 64,
					                  .check = true,
					                  .change = make_mistake,
					                  .change_arg = &m };
				struct time_result r;
				int rc;

				cr_assert(call.row, "%s", rows[i]);
				call.shape = (struct shape){ .size = 8, .node = 2 };
				call.shape.arg = coll_clip(call.row, 8, 2);
				rc = time_run(&call, &r);
				time_result_free(&r);
				if (m.made)
					cr_expect_eq(rc, ORIEL_EMISMATCH,
					             "%s: nobody finds mistake %d in op %u",
					             rows[i], kind, at);
				else
					cr_expect_eq(rc, 0, "%s", oriel_detail());
				made[kind] += m.made;
			}
	for (int kind = 0; kind < MISTAKES; kind++)
		cr_expect_gt(made[kind], 5, "mistake %d was made %d times", kind, made[kind]);
}

Test(time, a_fabric_for_another_number_of_ranks)
{
	const struct fabric f = fabric("gpu:8", 8);
	const struct time_call call = { .row = coll_row_named("allgather/ring"),
		                        .shape = { .size = 7 },
		                        .fabric = &f };
	struct time_result r;

	cr_expect_eq(time_run(&call, &r), ORIEL_EINVAL);
}

/* ---- scale ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MANY 6144
#else
#define MANY 98304
#endif

/* All plans, the contract and the cost; a minute of one core and 4 GiB are the limits. */
static void
at_scale(const char *name)
{
	const struct fabric f = fabric("test/fabric/98304.txt", MANY);
	struct time_call call = { .row = coll_row_named(name), .fabric = &f, .check = true };
	clock_t start = clock();
	struct time_result r;
	struct rusage usage;

	call.shape = (struct shape){ .size = MANY, .node = 8, .arg = coll_clip(call.row, MANY, 2) };
	call.bytes = 8;
	r = run(&call);
	looks_right(&r, name);
	cr_expect_eq(r.rounds, blocks_log2(&call.shape));
	cr_expect_eq(r.most_messages, blocks_log2(&call.shape));
	time_result_free(&r);
	cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
	cr_expect_lt(usage.ru_maxrss, 4L << 20, "%ld KiB", usage.ru_maxrss);
	cr_expect_lt((double)(clock() - start) / CLOCKS_PER_SEC, 60.0);
}

Test(time, bruck_of_98304_ranks, .timeout = 600)
{
	at_scale("allgather/bruck");
}

Test(time, barrier_of_98304_ranks, .timeout = 600)
{
	at_scale("barrier/dissemination");
}
