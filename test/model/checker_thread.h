/*
 * checker_thread.h - the checker's state, and how a thread of a scenario runs up
 * to its next step.
 */
#ifndef MODEL_CHECKER_THREAD_H
#define MODEL_CHECKER_THREAD_H

#define NO_LOC 255

struct view {
	uint8_t at[LOCS];    /* the oldest message that may be read */
	uint8_t hb[THREADS]; /* plain accesses of each thread that happened before */
};

struct message {
	uint64_t value;
	struct view view;
	bool attached; /* written by a read-modify-write of the message before */
};

struct cell {
	uint64_t value;
	uint8_t writer, write_clock;
	uint8_t read_clock[THREADS];
};

struct op {
	enum op_kind kind;
	enum model_order order;
	enum model_rmw rmw;
	uint8_t where; /* location, cell, pipe */
	uint8_t size;
	bool in_poll, poll_first;
	unsigned poll_start; /* OP_POLL: length of the history when this look began */
	uint64_t a, b;
};

struct thread {
	struct view cur, acq, rel;
	unsigned n_history;
	uint8_t n_polled, polled[POLLED], polled_at[POLLED]; /* position + 1; 0: dropped since */
	bool polling;                                        /* the last look failed */
	bool asleep, woken;
	unsigned stage;
	uint8_t fenced; /* threads that a running fence_all_cpus() has reached */
	struct op next;
	uint64_t history[HISTORY]; /* results of the steps so far */
};

struct state {
	struct view sc, futex[FUTEXES], pipe[PIPES];
	uint8_t pipe_full[PIPES];
	struct thread thread[THREADS];
	struct cell cell[CELLS];
	uint8_t n[LOCS];
	struct message msg[LOCS][MESSAGES];
};

static struct {
	const struct scenario *scenario;
	const struct mutant *mutant;
	unsigned n_threads, n_locs, n_cells, n_futexes;
	struct {
		const void *p;
		const char *name;
	} loc[LOCS], cell[CELLS];
	const uint32_t *futex[FUTEXES];
	uint64_t first_loc[LOCS], first_cell[CELLS];

	/* The thread that runs now. */
	struct state *s;
	unsigned self, cursor, poll_start;
	bool in_poll, fresh;
	jmp_buf back;

	/* The exploration. */
	struct state *level; /* one for each depth */
	struct {
		uint8_t thread;
		struct op op;
		uint64_t result;
		int choice;
	} path[DEPTH];
	unsigned depth;
	struct seen {
		uint64_t hash[2];
		double paths; /* from here to an end; 0 while it is being explored */
	} * seen;
	size_t seen_size, n_states;
	double n_executions;
	uint64_t outcomes;
	uint64_t n_cut; /* paths that were left because a word had too many messages */
	char violation[256];
} mc;

static void __attribute__((format(printf, 1, 2), noreturn)) broken(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fprintf(stderr, "checker: %s: ", mc.scenario ? mc.scenario->name : "");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(2);
}

static void __attribute__((format(printf, 1, 2))) violated(const char *fmt, ...)
{
	va_list args;

	if (mc.violation[0])
		return;
	va_start(args, fmt);
	vsnprintf(mc.violation, sizeof(mc.violation), fmt, args);
	va_end(args);
}

/*
 * ---- Declarations and the calls of a thread ----------------------------
 */

MODEL_API void
atomic_var(const void *p, const char *name, uint64_t value)
{
	if (mc.n_locs == LOCS)
		broken("more than %d atomic words", LOCS);
	mc.loc[mc.n_locs].p = p;
	mc.loc[mc.n_locs].name = name;
	mc.first_loc[mc.n_locs++] = value;
}

MODEL_API void
data_var(const void *p, const char *name, uint64_t value)
{
	if (mc.n_cells == CELLS)
		broken("more than %d plain words", CELLS);
	mc.cell[mc.n_cells].p = p;
	mc.cell[mc.n_cells].name = name;
	mc.first_cell[mc.n_cells++] = value;
}

static uint8_t
find_loc(const void *p)
{
	unsigned i;

	for (i = 0; i < mc.n_locs; i++)
		if (mc.loc[i].p == p)
			return (uint8_t)i;
	broken("an atomic word that setup did not declare, at %p", p);
}

static uint8_t
find_cell(const void *p)
{
	unsigned i;

	for (i = 0; i < mc.n_cells; i++)
		if (mc.cell[i].p == p)
			return (uint8_t)i;
	broken("a plain word that setup did not declare, at %p", p);
}

MODEL_API bool
mutant(unsigned flag)
{
	return mc.mutant && mc.mutant->kind == FLAG && mc.mutant->flag == flag;
}

MODEL_API void
expect(bool holds, const char *claim)
{
	if (!holds)
		violated("not true: %s", claim);
	if (mc.violation[0] && mc.s)
		longjmp(mc.back, 1);
}

/* A word of a scenario's name, or of an array of it. */
static bool
named(const char *name, const char *var)
{
	size_t len = strlen(var);

	return !strncmp(name, var, len) && (!name[len] || name[len] == '[');
}

/* The next step of the running thread: its result, if it was taken already. */
static uint64_t
step(struct op op)
{
	struct thread *t = &mc.s->thread[mc.self];
	const struct mutant *mu = mc.mutant;

	if (mc.cursor < t->n_history)
		return t->history[mc.cursor++];
	if (mu && mu->kind == WEAKEN && mu->op == op.kind && op.where != NO_LOC &&
	    named(mc.loc[op.where].name, mu->var))
		op.order &= ~mu->order;
	op.in_poll = mc.in_poll;
	op.poll_first = mc.in_poll && mc.cursor == mc.poll_start;
	if (mc.in_poll && op.kind != OP_LOAD && op.kind != OP_POLL)
		broken("a poll may only load");
	t->next = op;
	longjmp(mc.back, 1);
}

MODEL_API uint64_t
model_load(const void *p, size_t size, enum model_order order)
{
	return step((struct op){
	        .kind = OP_LOAD, .where = find_loc(p), .size = (uint8_t)size, .order = order });
}

MODEL_API void
model_store(void *p, size_t size, enum model_order order, uint64_t v)
{
	step((struct op){ .kind = OP_STORE,
	                  .where = find_loc(p),
	                  .size = (uint8_t)size,
	                  .order = order,
	                  .a = v });
}

MODEL_API uint64_t
model_rmw(void *p, size_t size, enum model_order order, enum model_rmw rmw, uint64_t v)
{
	return step((struct op){ .kind = OP_RMW,
	                         .where = find_loc(p),
	                         .size = (uint8_t)size,
	                         .order = order,
	                         .rmw = rmw,
	                         .a = v });
}

MODEL_API int
model_cas(void *p, size_t size, uint64_t *expected, uint64_t v)
{
	uint64_t e = *expected;

	*expected = step((struct op){ .kind = OP_CAS,
	                              .where = find_loc(p),
	                              .size = (uint8_t)size,
	                              .order = MODEL_ACQ_REL,
	                              .a = e,
	                              .b = v });
	return *expected == e;
}

MODEL_API void
model_fence_full(void)
{
	if (!mc.mutant || mc.mutant->kind != DROP_FENCE)
		step((struct op){ .kind = OP_FENCE, .where = NO_LOC });
}

MODEL_API void
model_fence_all_cpus(void)
{
	if (!mc.mutant || mc.mutant->kind != DROP_FENCE_ALL)
		step((struct op){ .kind = OP_FENCE_ALL, .where = NO_LOC });
}

MODEL_API void
model_futex_sleep(uint32_t *word, uint32_t seen)
{
	step((struct op){ .kind = OP_FUTEX_SLEEP, .where = find_loc(word), .size = 4, .a = seen });
}

MODEL_API void
model_futex_wake_all(uint32_t *word)
{
	step((struct op){ .kind = OP_FUTEX_WAKE, .where = find_loc(word) });
}

MODEL_API void
model_pipe_write(unsigned pipe)
{
	step((struct op){ .kind = OP_PIPE_WRITE, .where = NO_LOC, .a = pipe });
}

MODEL_API void
model_pipe_wait(unsigned pipe)
{
	step((struct op){ .kind = OP_PIPE_WAIT, .where = NO_LOC, .a = pipe });
}

MODEL_API uint64_t
model_data_read(const void *p)
{
	return step((struct op){ .kind = OP_DATA_READ, .where = NO_LOC, .a = find_cell(p) });
}

MODEL_API void
model_data_write(void *p, uint64_t v)
{
	step((struct op){ .kind = OP_DATA_WRITE, .where = NO_LOC, .a = find_cell(p), .b = v });
}

MODEL_API void
model_poll_begin(void)
{
	mc.in_poll = true;
	mc.poll_start = mc.cursor;
}

MODEL_API void
model_poll_again(void)
{
	step((struct op){ .kind = OP_POLL, .where = NO_LOC, .poll_start = mc.poll_start });
}

MODEL_API void
model_poll_end(void)
{
	mc.in_poll = false;
}

MODEL_API unsigned
model_stage(void)
{
	return mc.s->thread[mc.self].stage;
}

MODEL_API void
model_next_stage(unsigned stage)
{
	step((struct op){ .kind = OP_STAGE, .where = NO_LOC, .a = stage });
}

/* Runs thread t up to the step that it has not taken yet. */
static void
run_to_next(struct state *s, unsigned t)
{
	mc.s = s;
	mc.self = t;
	mc.cursor = 0;
	mc.in_poll = false;
	if (!setjmp(mc.back)) {
		mc.scenario->thread[t]();
		s->thread[t].next = (struct op){ .kind = OP_DONE, .where = NO_LOC };
	}
	mc.s = NULL;
}

static void
forget(struct thread *th, unsigned n_history)
{
	while (th->n_history > n_history)
		th->history[--th->n_history] = 0;
}

/* The same; a failed look begins anew, and waits (see runnable). */
static void
advance(struct state *s, unsigned t)
{
	struct thread *th = &s->thread[t];

	for (run_to_next(s, t); !mc.violation[0]; run_to_next(s, t)) {
		if (th->next.kind == OP_POLL) {
			forget(th, th->next.poll_start);
			th->polling = true;
		} else if (th->next.kind == OP_STAGE) {
			forget(th, 0);
			th->stage = (unsigned)th->next.a;
		} else {
			break;
		}
	}
	if (th->next.kind == OP_DONE)
		forget(th, 0);
}

#endif
