/*
 * insn.c - loops of one call each, for counting instructions with callgrind.
 *
 * bench/run starts two ranks, rank 0 under "valgrind --tool=callgrind
 * --collect-atstart=no". Each loop runs twice, with FEW and with MANY calls,
 * and each run is dumped under its name, "put FEW" or "put MANY"; the
 * difference over MANY - FEW is one call, without what is done once. The loops'
 * own instructions (the functions call_...) are the caller's and left out.
 *
 * Rank 1 is not counted. It takes part in the allgathers, sends and receives,
 * and polls meanwhile: a rank that sleeps has to be woken, which is another path.
 */
#include "bench/bench.h"

#include "oriel.h"

#include <valgrind/callgrind.h>

#define FEW 200
#define MANY 1200
#define BURST 4 /* sends or receives between two looks at the other rank */

struct insn {
	oriel_ctx *ctx;
	oriel_comm *world;
	oriel_win *win;
	int me;
	uint64_t word, all[2], bursts;
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

/* Rank 0 waits, uncounted, until rank 1 has done its part of a burst. */
static int
burst(struct insn *s)
{
	int err;

	if (s->me)
		return oriel_signal(s->win, 0, 3, ORIEL_SIGNAL_ADD, 1);
	CALLGRIND_TOGGLE_COLLECT;
	err = oriel_signal_wait(s->win, 3, ORIEL_GE, ++s->bursts, ORIEL_FOREVER, NULL);
	CALLGRIND_TOGGLE_COLLECT;
	return err;
}

/* So few that there is always credit for the next one. */
static __attribute__((noinline)) int
call_send(struct insn *s, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		err = oriel_send(s->world, !s->me, 0, &s->word, sizeof(s->word));
		if (!err && i % BURST == BURST - 1)
			err = burst(s);
	}
	return err;
}

/* The messages are there when rank 0 looks for them. */
static __attribute__((noinline)) int
call_recv(struct insn *s, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (s->me == 0 && i % BURST == 0)
			err = burst(s);
		if (!err)
			err = oriel_recv(s->world, !s->me, 0, &s->word, sizeof(s->word), NULL);
		if (!err && s->me && i % BURST == BURST - 1)
			err = burst(s);
	}
	return err;
}

static const struct loop {
	const char *name;
	int (*run)(struct insn *s, size_t n);
	int (*peer)(struct insn *s, size_t n); /* rank 1's part, or NULL */
} loops[] = { { "put", call_put, NULL },
	      { "put_signal", call_put_signal, NULL },
	      { "wait", call_satisfied_wait, NULL },
	      { "allgather", call_allgather, call_allgather },
	      { "persistent", call_persistent, call_persistent },
	      { "send", call_send, call_recv },
	      { "recv", call_recv, call_send } };

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
		if (loops[i].peer)
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

		if (i < N_LOOPS && !loops[i].peer)
			continue;
		while (!begun && !err)
			err = oriel_signal_test(s->win, 2, ORIEL_GE, i + 1, &begun);
		if (!err && i < N_LOOPS)
			err = loops[i].peer(s, 2 * FEW + MANY);
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
		err = oriel_win_alloc(s.world, 64, 4, &base, &s.win);
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
