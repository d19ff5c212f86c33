/*
 * checker.h - an exhaustive checker for a few threads that share a few words on
 * weakly ordered CPUs. Included once by each program of this folder, after the
 * code under test may come.
 *
 * Memory is a set of messages, as in the operational reading of C11's release,
 * acquire and relaxed operations (Kang et al., "A promising semantics for
 * relaxed-memory concurrency", POPL 2017, without promises). A location is the
 * list of its messages in modification order; a view says, for each location,
 * the oldest message that may still be read. A thread reads any message that
 * its view allows, and stores at any place after its view. A release store
 * hands its thread's view to the message, an acquire load joins it; a
 * read-modify-write stays next to the message it read and passes that one's
 * view on (a release sequence). Full fences join a common view.
 *
 * So a store may become visible late, stores to two words in either order, and
 * to two readers in different orders; loads may be early. fence_all_cpus() is
 * a full fence of the caller and one at some point during the call in each
 * other thread, in every order. The futex and the pipe are exact: their lock
 * orders them, nothing else does.
 *
 * Limit: a relaxed load is not delayed past a later relaxed store of the same
 * thread (load buffering). It takes two threads that do so; here every store
 * that another thread acts upon is a release, which orders the loads before it,
 * or an acquire load stands in between. For payload it is no limit: a plain
 * read that is not ordered before an overwriting store is reported as a race,
 * in whatever order the two were run.
 *
 * A thread is a plain function that touches shared state only through the
 * model. To take its next step it is run again from its start with the results
 * it got so far, which needs no second stack and so works under sanitizers. All
 * interleavings and all choices are explored depth first; a state that was seen
 * before (by a 128-bit hash) is not entered again.
 */
#ifndef MODEL_CHECKER_H
#define MODEL_CHECKER_H

#include "model_atomic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 3
#define LOCS 16     /* atomic words of a scenario */
#define CELLS 12    /* plain words of a scenario */
#define MESSAGES 12 /* of one location that can still be read */
#define HISTORY 64  /* steps of one thread */
#define POLLED 6    /* words that one poll reads */
#define PIPES 2
#define FUTEXES 2
#define DEPTH 512

/*
 * ---- What a scenario is made of ----------------------------------------
 */

enum mutant_kind {
	WEAKEN = 1,     /* the operations `op` on words named `var` lose `order` */
	DROP_FENCE_ALL, /* fence_all_cpus() does nothing */
	DROP_FENCE,     /* fence_full() does nothing */
	FLAG            /* the scenario asks mutant(flag) */
};

enum op_kind {
	OP_NONE,
	OP_LOAD,
	OP_STORE,
	OP_RMW,
	OP_CAS,
	OP_FENCE,
	OP_FENCE_ALL,
	OP_FUTEX_SLEEP,
	OP_FUTEX_WAKE,
	OP_PIPE_WRITE,
	OP_PIPE_WAIT,
	OP_DATA_READ,
	OP_DATA_WRITE,
	OP_POLL,
	OP_STAGE,
	OP_DONE
};

struct mutant {
	const char *name;
	enum mutant_kind kind;
	enum op_kind op;        /* WEAKEN */
	const char *var;        /* WEAKEN: "seq" also names seq[0], seq[1], ... */
	enum model_order order; /* WEAKEN: the part that is lost */
	unsigned flag;          /* FLAG */
};

struct scenario {
	const char *name;
	void (*setup)(void); /* declares every shared word */
	void (*thread[THREADS])(void);
	void (*final)(void);          /* may be NULL; checks final_value()s with expect() */
	const struct mutant *mutants; /* ends with a NULL name; may be NULL */
	unsigned daemons;             /* bits: threads that may wait for ever at the end */
};

/* In setup: a shared atomic word, or a word of plain payload, and its first value. */
MODEL_API void atomic_var(const void *p, const char *name, uint64_t value);
MODEL_API void data_var(const void *p, const char *name, uint64_t value);
/* In a thread: true while the mutant with this flag is checked. */
MODEL_API bool mutant(unsigned flag);
/* In a thread or in final: the scenario's claim. */
MODEL_API void expect(bool holds, const char *claim);
/* In final: the last value in modification order. */
MODEL_API uint64_t final_value(const void *p);
/* In final of a scenario that compares: counts an outcome, see selftest.c. */
MODEL_API void outcome(unsigned bit);

/* Loops until cond holds; a failed look waits until one of the words it read has a newer value.
 * cond loads only. */
#define until(cond)                                                                                \
	do {                                                                                       \
		for (model_poll_begin(); !(cond); model_poll_begin())                              \
			model_poll_again();                                                        \
		model_poll_end();                                                                  \
	} while (0)
MODEL_API void model_poll_begin(void);
MODEL_API void model_poll_again(void);
MODEL_API void model_poll_end(void);

/*
 * A thread that keeps nothing in its variables but a number may say so: it then
 * starts again from its beginning, where model_stage() returns that number (0
 * at first). Histories stay short and situations alike, so far fewer states.
 * model_next_stage does not return.
 */
MODEL_API unsigned model_stage(void);
MODEL_API void model_next_stage(unsigned stage);

/* A pipe that is read to its end: wait blocks while nothing was written since. */
MODEL_API void model_pipe_write(unsigned pipe);
MODEL_API void model_pipe_wait(unsigned pipe);

#include "checker_explore.h"

#endif
