/*
 * insn.c - loops of one call each, for counting instructions with callgrind.
 *
 * bench/run starts two ranks, rank 0 under "valgrind --tool=callgrind
 * --collect-atstart=no". Each loop runs twice, with FEW and with MANY calls,
 * and each run is dumped under its name, "put FEW" or "put MANY"; the
 * difference over MANY - FEW is one call, without what is done once. The loops'
 * own instructions (the functions call_...) are the caller's and left out.
 *
 * Rank 1 is not counted. It takes part in the allgathers, and polls meanwhile:
 * a rank that sleeps has to be woken, which is another path.
 */
#include "bench/bench.h"

#include "oriel.h"

#include <valgrind/callgrind.h>

#define FEW 200
#define MANY 1200

struct insn {
	oriel_ctx *ctx;
	oriel_comm *world;
	oriel_win *win;
	int me;
	uint64_t word, all[2];
	oriel_req *req;
};

static __attribute__((noinline)) int
call_put(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_put(s->win, 1, 0, &s->word, sizeof(s->word));
	return err;
}

static __attribute__((noinline)) int
call_put_signal(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_put_signal(s->win, 1, 0, &s->word, sizeof(s->word), 0, ORIEL_SIGNAL_SET,
		                       1);
	return err;
}

/* Slot 1 was set before the loop. */
static __attribute__((noinline)) int
call_satisfied_wait(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_signal_wait(s->win, 1, ORIEL_GE, 1, ORIEL_FOREVER, NULL);
	return err;
}

static __attribute__((noinline)) int
call_allgather(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_allgather(s->world, &s->word, s->all, sizeof(s->word));
	return err;
}

static __attribute__((noinline)) int
call_persistent(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err) {
		err = oriel_start(s->req);
		if (!err)
			err = oriel_req_wait(&s->req, ORIEL_FOREVER);
	}
	return err;
}

static const struct loop {
	const char *name;
	int (*run)(struct insn *s, size_t n);
	int both; /* rank 1 runs it too */
} loops[] = { { "put", call_put, 0 },
	      { "put_signal", call_put_signal, 0 },
	      { "wait", call_satisfied_wait, 0 },
	      { "allgather", call_allgather, 1 },
	      { "persistent", call_persistent, 1 } };

#define N_LOOPS (sizeof(loops) / sizeof(loops[0]))

/* A function of its own: the client requests are no part of a loop. */
static int
count(struct insn *s, const struct loop *l, size_t n)
{
	char label[64];
	int err;

	snprintf(label, sizeof(label), "%s %zu", l->name, n);
	CALLGRIND_ZERO_STATS;
	CALLGRIND_TOGGLE_COLLECT;
	err = l->run(s, n);
	CALLGRIND_TOGGLE_COLLECT;
	CALLGRIND_DUMP_STATS_AT(label);
	return err;
}

/* Slot 2 of rank 1 says which loop rank 0 has begun. */
static int
rank_0(struct insn *s)
{
	int err = oriel_signal(s->win, 0, 1, ORIEL_SIGNAL_SET, 1);

	for (size_t i = 0; i < N_LOOPS && !err; i++) {
		/* The first calls make connections and plans. */
		if (loops[i].both)
			err = oriel_signal(s->win, 1, 2, ORIEL_SIGNAL_SET, i + 1);
		if (!err)
			err = loops[i].run(s, FEW);
		if (!err)
			err = count(s, &loops[i], FEW);
		if (!err)
			err = count(s, &loops[i], MANY);
	}
	return err ? err : oriel_signal(s->win, 1, 2, ORIEL_SIGNAL_SET, N_LOOPS + 1);
}

static int
rank_1(struct insn *s)
{
	int err = 0;

	for (size_t i = 0; i <= N_LOOPS && !err; i++) {
		int begun = 0;

		if (i < N_LOOPS && !loops[i].both)
			continue;
		while (!begun && !err)
			err = oriel_signal_test(s->win, 2, ORIEL_GE, i + 1, &begun);
		if (!err && i < N_LOOPS)
			err = loops[i].run(s, 2 * FEW + MANY);
	}
	return err;
}

int
main(void)
{
	struct insn s = { .word = 1 };
	void *base;
	int err = oriel_init(NULL, &s.ctx);

	if (!err) {
		s.world = oriel_world(s.ctx);
		s.me = oriel_comm_rank(s.world);
		if (oriel_comm_size(s.world) != 2) {
			fprintf(stderr, "insn: wants 2 ranks\n");
			return 2;
		}
		err = oriel_win_alloc(s.world, 64, 3, &base, &s.win);
	}
	if (!err)
		err = oriel_allgather_init(s.world, &s.word, s.all, sizeof(s.word), &s.req);
	if (!err)
		err = s.me == 0 ? rank_0(&s) : rank_1(&s);
	if (!err && s.me == 0)
		printf("insn %d %d\n", FEW, MANY);
	if (!err)
		err = oriel_req_free(&s.req);
	if (!err)
		err = oriel_win_free(s.win);
	if (!err)
		err = oriel_fini(s.ctx);
	if (err) {
		fprintf(stderr, "insn: rank %d: %s: %s\n", s.me, oriel_strerror(err),
		        oriel_detail());
		if (s.world)
			oriel_comm_abort(s.world);
	}
	return err != 0;
}
