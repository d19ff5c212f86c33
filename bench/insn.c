/*
 * insn.c - loops of one call each, for counting instructions with callgrind.
 *
 * bench/run starts two ranks, rank 0 under "valgrind --tool=callgrind
 * --collect-atstart=no". Each loop runs twice, with FEW and with MANY calls,
 * and each run is dumped under its name, "put FEW" or "put MANY"; the
 * difference over MANY - FEW is one call, its caller's loop included and
 * everything done once excluded.
 *
 * Rank 1 takes part in the allgathers and is not counted.
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
};

static int
put(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_put(s->win, 1, 0, &s->word, sizeof(s->word));
	return err;
}

static int
put_signal(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_put_signal(s->win, 1, 0, &s->word, sizeof(s->word), 0, ORIEL_SIGNAL_SET,
		                       1);
	return err;
}

/* Slot 1 was set before the loop. */
static int
satisfied_wait(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_signal_wait(s->win, 1, ORIEL_GE, 1, ORIEL_FOREVER, NULL);
	return err;
}

static int
allgather(struct insn *s, size_t n)
{
	int err = 0;

	while (n-- && !err)
		err = oriel_allgather(s->world, &s->word, s->all, sizeof(s->word));
	return err;
}

static const struct loop {
	const char *name;
	int (*run)(struct insn *s, size_t n);
	int both; /* rank 1 runs it too */
} loops[] = { { "put", put, 0 },
	      { "put_signal", put_signal, 0 },
	      { "wait", satisfied_wait, 0 },
	      { "allgather", allgather, 1 } };

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

static int
run(struct insn *s)
{
	int err = oriel_signal(s->win, s->me, 1, ORIEL_SIGNAL_SET, 1);

	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]) && !err; i++) {
		const struct loop *l = &loops[i];

		/* The first calls make connections and plans. */
		if (l->both || s->me == 0)
			err = l->run(s, FEW);
		if (!err)
			err = oriel_barrier(s->world);
		if (!err && s->me == 0)
			err = count(s, l, FEW);
		else if (!err && l->both)
			err = l->run(s, FEW);
		if (!err && s->me == 0)
			err = count(s, l, MANY);
		else if (!err && l->both)
			err = l->run(s, MANY);
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
		err = oriel_win_alloc(s.world, 64, 2, &base, &s.win);
	}
	if (!err)
		err = run(&s);
	if (!err && s.me == 0)
		printf("insn %d %d\n", FEW, MANY);
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
