/*
 * jobs.h - what rank tests share that start jobs of their own, in which ranks
 * die: the launcher's traces in the environment, where the programs are, first
 * contact, death.
 */
#ifndef TEST_RANKS_JOBS_H
#define TEST_RANKS_JOBS_H

#include "test/ranks/ranks.h"

#include <pthread.h>

/* The folder of the programs. */
static inline const char *
jobs_build(void)
{
	const char *build = getenv("BUILD");

	return build ? build : "build";
}

/* The inner launcher is nobody's rank. */
static inline void
jobs_leave_launcher(void)
{
	extern char **environ;

	for (char **e = environ; *e;) {
		char name[128];

		if (strncmp(*e, "PMIX_", 5)) {
			e++;
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		unsetenv(name);
		e = environ;
	}
}

/*
 * Everybody has talked to everybody, and all connections stand: UCX 1.13 ends a
 * process whose peer dies while they are made (openucx/ucx pull request 8175).
 */
static inline bool
jobs_meet(struct ranks *r)
{
	oriel_win *win;
	void *base;

	if (!OK(oriel_win_alloc(r->world, 64, 1, &base, &win)))
		return false;
	for (int t = 0; t < r->size; t++)
		if (!OK(oriel_signal(win, t, 0, ORIEL_SIGNAL_ADD, 1)) || !OK(oriel_flush(win, t)))
			return false;
	return OK(oriel_signal_wait(win, 0, ORIEL_EQ, (uint64_t)r->size, RANKS_WAIT_NS, NULL)) &&
	       OK(oriel_barrier(r->world)) && OK(oriel_win_free(win));
}

struct jobs_end {
	uint64_t delay;
	int sig;
};

static inline void *
jobs_end(void *arg)
{
	const struct jobs_end *e = arg;

	ranks_delay(e->delay);
	kill(getpid(), e->sig);
	return NULL;
}

/* This process ends (or stops) after about so many cycles, wherever it is then; the thread, not
 * before. */
static inline pthread_t
jobs_end_soon(uint64_t cycles, int sig)
{
	static struct jobs_end end;
	pthread_t thread;

	end = (struct jobs_end){ cycles, sig };
	NEED(!pthread_create(&thread, NULL, jobs_end, &end), "no thread");
	return thread;
}

static inline pthread_t
jobs_die_soon(uint64_t cycles)
{
	return jobs_end_soon(cycles, SIGKILL);
}

/*
 * One job of this program, with --inner and how, of so many ranks. True if as many of them as
 * expected say that they have survived.
 */
static inline bool
jobs_run(uint64_t seed, int size, const char *how, int expected)
{
	char command[512], line[1024], all[8192] = "";
	int survived = 0;
	FILE *f;

	snprintf(command, sizeof(command),
	         "exec %s/tools/orielrun --kill-on-failure=no -n %d %s --inner %s --limit 100 "
	         "--seed %llu 2>&1",
	         jobs_build(), size, ranks_job.argv[0], how, (unsigned long long)seed);
	f = popen(command, "r");
	if (!CHECK(f != NULL, "cannot start %s", command))
		return false;
	while (fgets(line, sizeof(line), f)) {
		survived += strstr(line, " survived after ") != NULL;
		if (strlen(all) + strlen(line) < sizeof(all))
			strcat(all, line);
	}
	pclose(f);
	if (ranks_flag("--say"))
		ranks_say(NULL, 0, "seed %llu%s:\n%.900s", (unsigned long long)seed, how, all);
	return CHECK(survived == expected, "seed %llu%s: %d of %d survived:\n%.600s",
	             (unsigned long long)seed, how, survived, expected, all);
}

#endif
