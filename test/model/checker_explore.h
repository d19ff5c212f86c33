/*
 * checker_explore.h - depth first through all interleavings and all choices, and
 * what is printed about it.
 */
#ifndef MODEL_CHECKER_EXPLORE_H
#define MODEL_CHECKER_EXPLORE_H

#include "checker_step.h"

/*
 * ---- Exploration -----------------------------------------------------------
 */

static void
hash_add(uint64_t h[2], const void *p, size_t len)
{
	const unsigned char *c = p;
	uint64_t w;

	for (; len; c += 8, len -= len < 8 ? len : 8) {
		w = 0;
		memcpy(&w, c, len < 8 ? len : 8);
		h[0] = (h[0] ^ w) * UINT64_C(0x9e3779b97f4a7c15);
		h[0] ^= h[0] >> 32;
		h[1] = (h[1] + w) * UINT64_C(0xc2b2ae3d27d4eb4f);
		h[1] ^= h[1] >> 29;
	}
}

static void
hash_view(uint64_t h[2], const struct view *v)
{
	hash_add(h, v->at, mc.n_locs);
	hash_add(h, v->hb, mc.n_threads);
}

/* What decides the future: th->next follows from the history. */
static void
hash_thread(uint64_t h[2], const struct thread *th)
{
	uint8_t bits[5] = { th->polling, th->asleep, th->woken, th->fenced,
		            th->next.kind == OP_DONE };

	hash_view(h, &th->cur);
	hash_view(h, &th->acq);
	hash_view(h, &th->rel);
	hash_add(h, bits, sizeof(bits));
	hash_add(h, th->polled, th->n_polled);
	hash_add(h, th->polled_at, th->n_polled);
	hash_add(h, &th->stage, sizeof(th->stage));
	hash_add(h, &th->n_history, sizeof(th->n_history));
	hash_add(h, th->history, th->n_history * sizeof(th->history[0]));
}

static void
hash_state(const struct state *s, uint64_t h[2])
{
	unsigned i, k;

	h[0] = 1;
	h[1] = 2;
	hash_view(h, &s->sc);
	for (i = 0; i < mc.n_futexes; i++)
		hash_view(h, &s->futex[i]);
	for (i = 0; i < PIPES; i++)
		hash_view(h, &s->pipe[i]);
	hash_add(h, s->pipe_full, PIPES);
	for (i = 0; i < mc.n_threads; i++)
		hash_thread(h, &s->thread[i]);
	for (i = 0; i < mc.n_cells; i++) {
		hash_add(h, &s->cell[i].value, sizeof(uint64_t));
		hash_add(h, &s->cell[i].writer, 2 + THREADS);
	}
	for (i = 0; i < mc.n_locs; i++)
		for (k = 0; k < s->n[i]; k++) {
			uint8_t bits[2] = { s->n[i], s->msg[i][k].attached };

			hash_add(h, bits, 2);
			hash_add(h, &s->msg[i][k].value, sizeof(uint64_t));
			hash_view(h, &s->msg[i][k].view);
		}
}

/* The entry of a state, or the free one where it belongs. */
static struct seen *
seen_find(const uint64_t h[2])
{
	size_t i = h[0] & (mc.seen_size - 1);

	while (mc.seen[i].hash[0] && (mc.seen[i].hash[0] != h[0] || mc.seen[i].hash[1] != h[1]))
		i = (i + 1) & (mc.seen_size - 1);
	return &mc.seen[i];
}

static void
seen_grow(void)
{
	struct seen *old = mc.seen;
	size_t size = mc.seen_size, i;

	mc.seen_size = size ? size * 2 : 1 << 12;
	mc.seen = calloc(mc.seen_size, sizeof(*mc.seen));
	if (!mc.seen)
		broken("out of memory");
	for (i = 0; i < size; i++)
		if (old[i].hash[0])
			*seen_find(old[i].hash) = old[i];
	free(old);
}

/* True if the state is new; *paths if it is not. h: its hash. */
static bool
seen_add(const struct state *s, uint64_t h[2], double *paths)
{
	struct seen *e;

	if (mc.n_states * 2 >= mc.seen_size)
		seen_grow();
	hash_state(s, h);
	h[0] |= 1; /* 0 marks a free entry */
	e = seen_find(h);
	*paths = e->paths;
	if (e->hash[0])
		return false;
	memcpy(e->hash, h, sizeof(e->hash));
	mc.n_states++;
	return true;
}

/* The state after a step, at the next depth. False: no such step (see apply). */
static int
take(unsigned t, unsigned choice)
{
	struct state *from = &mc.level[mc.depth], *to = &mc.level[mc.depth + 1];
	uint64_t result;
	int done;

	if (mc.depth + 2 >= DEPTH)
		broken("an execution of more than %d steps", DEPTH);
	*to = *from;
	done = apply(to, t, choice, &result);
	if (done <= 0)
		return done;
	mc.path[mc.depth].thread = (uint8_t)t;
	mc.path[mc.depth].op = from->thread[t].next;
	mc.path[mc.depth].result = result;
	mc.path[mc.depth].choice = (int)choice;
	if (!mc.violation[0]) {
		if (!to->thread[t].asleep && !to->thread[t].fenced)
			advance(to, t);
		drop_dead(to);
	}
	return 1;
}

static void
finish(struct state *s)
{
	unsigned t;

	for (t = 0; t < mc.n_threads; t++)
		if (s->thread[t].next.kind != OP_DONE && !(mc.scenario->daemons & 1u << t)) {
			violated("deadlock: thread %u %s for ever", t,
			         s->thread[t].asleep                      ? "sleeps"
			         : s->thread[t].next.kind == OP_PIPE_WAIT ? "waits for the pipe"
			                                                  : "polls");
			return;
		}
	if (mc.scenario->final) {
		mc.cursor = 0;
		mc.scenario->final();
	}
}

static double explore(void);

/* All choices of thread t; *any: it had one. The number of executions. */
static double
explore_thread(unsigned t, bool *any)
{
	double paths = 0;
	unsigned choice;
	int done;

	for (choice = 0; !mc.violation[0]; choice++) {
		done = take(t, choice);
		if (done < 0)
			break;
		if (!done)
			continue;
		*any = true;
		mc.depth++;
		if (!mc.violation[0])
			paths += explore();
		if (!mc.violation[0]) /* else the path stays for print_path */
			mc.depth--;
	}
	return paths;
}

/* Plain accesses commute with all other steps, so their thread alone goes on. */
static int
plain_thread(const struct state *s)
{
	unsigned t;

	for (t = 0; t < mc.n_threads; t++)
		if (s->thread[t].next.kind == OP_DATA_READ ||
		    s->thread[t].next.kind == OP_DATA_WRITE)
			return (int)t;
	return -1;
}

/* The number of executions from here; a look that fails for ever the same counts once. */
static double
explore(void)
{
	struct state *s = &mc.level[mc.depth];
	int alone = plain_thread(s);
	bool any = false;
	uint64_t h[2];
	double paths;
	unsigned t;

	if (!seen_add(s, h, &paths))
		return paths;
	for (t = 0; t < mc.n_threads && !mc.violation[0]; t++)
		if (alone >= 0 ? (int)t == alone : runnable(s, t))
			paths += explore_thread(t, &any);
	if (!any && !mc.violation[0]) {
		finish(s);
		paths = 1;
	}
	seen_find(h)->paths = paths;
	return paths;
}

MODEL_API uint64_t
final_value(const void *p)
{
	const struct state *s = &mc.level[mc.depth];
	unsigned loc = find_loc(p);

	return s->msg[loc][s->n[loc] - 1].value;
}

MODEL_API void
outcome(unsigned bit)
{
	mc.outcomes |= UINT64_C(1) << bit;
}

/* Explores a scenario, with a mutant or as it is; mc.violation says what was found. */
static void
check(const struct scenario *scenario, const struct mutant *mu)
{
	struct state *s;
	unsigned t, i;

	free(mc.seen);
	free(mc.level);
	memset(&mc, 0, sizeof(mc));
	mc.scenario = scenario;
	mc.mutant = mu;
	mc.level = calloc(DEPTH, sizeof(*mc.level));
	if (!mc.level)
		broken("out of memory");
	while (mc.n_threads < THREADS && scenario->thread[mc.n_threads])
		mc.n_threads++;
	scenario->setup();
	s = &mc.level[0];
	for (i = 0; i < mc.n_locs; i++) {
		s->n[i] = 1;
		s->msg[i][0].value = mc.first_loc[i];
	}
	for (i = 0; i < mc.n_cells; i++)
		s->cell[i].value = mc.first_cell[i];
	for (t = 0; t < mc.n_threads && !mc.violation[0]; t++)
		advance(s, t);
	if (!mc.violation[0])
		mc.n_executions = explore();
	if (mc.n_cut && !mu)
		violated("not explored to the end: %llu paths with over %d readable messages",
		         (unsigned long long)mc.n_cut, MESSAGES);
}

static void
print_path(void)
{
	static const char *const names[] = { "none",       "load",       "store",     "rmw",
		                             "cas",        "fence",      "fence all", "futex sleep",
		                             "futex wake", "pipe write", "pipe wait", "read",
		                             "write",      "poll",       "stage",     "done" };
	static const char *const orders[] = { "relaxed", "acquire", "release", "acq_rel" };
	unsigned i;

	for (i = 0; i < mc.depth; i++) {
		const struct op *op = &mc.path[i].op;
		bool data = op->kind == OP_DATA_READ || op->kind == OP_DATA_WRITE;

		printf("      %*sthread %u: %s %s", mc.path[i].thread * 4, "", mc.path[i].thread,
		       names[op->kind],
		       data                  ? mc.cell[op->a].name
		       : op->where != NO_LOC ? mc.loc[op->where].name
		                             : "");
		if (op->kind == OP_DATA_WRITE)
			printf(" = %llu\n", (unsigned long long)op->b);
		else if (op->kind == OP_STORE)
			printf(" = %llu %s, place %d\n", (unsigned long long)op->a,
			       orders[op->order], mc.path[i].choice);
		else if (op->where != NO_LOC)
			printf(" -> %llu %s, message %d\n", (unsigned long long)mc.path[i].result,
			       orders[op->order], mc.path[i].choice);
		else
			printf(" -> %llu\n", (unsigned long long)mc.path[i].result);
	}
}

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Checks each scenario and each of its mutants; the exit status. */
MODEL_API int
check_all(const struct scenario *scenarios, size_t n)
{
	unsigned passed = 0, failed = 0;
	const struct mutant *mu;
	double start;
	size_t i;

	for (i = 0; i < n; i++) {
		start = seconds();
		check(&scenarios[i], NULL);
		printf("%-60s %9.3g executions %8zu states %6.2f s  %s\n", scenarios[i].name,
		       mc.n_executions, mc.n_states, seconds() - start,
		       mc.violation[0] ? mc.violation : "holds");
		if (mc.violation[0])
			print_path();
		*(mc.violation[0] ? &failed : &passed) += 1;
		for (mu = scenarios[i].mutants; mu && mu->name; mu++) {
			start = seconds();
			check(&scenarios[i], mu);
			printf("  mutant: %-50s %9.3g executions %8zu states %6.2f s  %s%s\n",
			       mu->name, mc.n_executions, mc.n_states, seconds() - start,
			       mc.violation[0] ? "caught: " : "NOT CAUGHT", mc.violation);
			*(mc.violation[0] ? &passed : &failed) += 1;
		}
		fflush(stdout);
	}
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}

#define CHECK_ALL(scenarios)                                                                       \
	int main(void)                                                                             \
	{                                                                                          \
		return check_all(scenarios, sizeof(scenarios) / sizeof((scenarios)[0]));           \
	}

#endif
