/*
 * coll_kill.c - a rank is killed in the middle of collectives, at a random
 * moment: every survivor's call ends with EPEER, all name the dead rank, and the
 * context can be ended.
 *
 * Started as one rank it starts jobs of its own, one a seed, under an orielrun
 * that lets survivors go on, and counts what they say.
 */
#include "test/ranks/ranks.h"

#include <ctype.h>
#include <pthread.h>

#define JOB_SIZE 4

struct victim {
	uint64_t delay;
};

static void *
die(void *arg)
{
	ranks_delay(((struct victim *)arg)->delay);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* A detail that says "rank N", N not the beginning of a longer number. */
static bool
names(const char *detail, int rank)
{
	char text[32];

	snprintf(text, sizeof(text), "rank %d", rank);
	for (const char *p = strstr(detail, text); p; p = strstr(p + 1, text))
		if (!isdigit((unsigned char)p[strlen(text)]))
			return true;
	return false;
}

static int
survive(struct ranks *r)
{
	static const size_t sizes[] = { 0, 8, 40, 3000, 8000, 50000, 300000 };
	static unsigned char out[JOB_SIZE * 300000];
	uint64_t same = r->seed * 77, rounds = 0;
	int dead = (int)(r->seed % (uint64_t)r->size), rc = 0;
	struct victim v = { 200000 + ranks_next(&same) % 3000000 };
	pthread_t thread;

	/* The dead rank may be through the first barrier, and dead, before the others are. */
	rc = oriel_barrier(r->world);
	if (r->rank == dead)
		NEED(!pthread_create(&thread, NULL, die, &v), "no thread");
	for (; !rc; rounds++) {
		size_t len = sizes[ranks_next(&same) % (sizeof(sizes) / sizeof(sizes[0]))];

		rc = len ? oriel_allgather(r->world, NULL, out, len) : oriel_barrier(r->world);
	}
	CHECK(rc == ORIEL_EPEER, "expected EPEER, seen %d (%s)", rc, oriel_detail());
	CHECK(names(oriel_detail(), dead), "rank %d is dead, the detail says: %s", dead,
	      oriel_detail());
	FAILS(ORIEL_EPEER, oriel_barrier(r->world));
	if (!r->failures)
		ranks_say(NULL, 0, "rank %d survived after %llu calls", r->rank,
		          (unsigned long long)rounds);
	return 0;
}

/* One job; true if all but the dead rank say that they survived. */
static bool
one_job(uint64_t seed, const char *algorithm)
{
	const char *build = getenv("BUILD");
	char command[512], line[1024], all[8192] = "";
	int survived = 0;
	FILE *f;

	snprintf(command, sizeof(command),
	         "exec %s/tools/orielrun --kill-on-failure=no -n %d %s --inner --limit 60 "
	         "--seed %llu --algorithm=%s 2>&1",
	         build ? build : "build", JOB_SIZE, ranks_job.argv[0], (unsigned long long)seed,
	         algorithm);
	f = popen(command, "r");
	if (!CHECK(f != NULL, "cannot start %s", command))
		return false;
	while (fgets(line, sizeof(line), f)) {
		survived += strstr(line, " survived after ") != NULL;
		if (strlen(all) + strlen(line) < sizeof(all))
			strcat(all, line);
	}
	pclose(f);
	return CHECK(survived == JOB_SIZE - 1, "seed %llu, %s: %d of %d survived:\n%.600s",
	             (unsigned long long)seed, algorithm, survived, JOB_SIZE - 1, all);
}

static int
run(struct ranks *r)
{
	static const char *const algorithms[] = { "", "allgather=ring", "allgather=bruck:3",
		                                  "allgather=bruck:4" };
	uint64_t rounds = r->rounds ? r->rounds : 8;
	extern char **environ;

	if (ranks_flag("--inner"))
		return survive(r);
	if (r->size != 1 || r->threads)
		return ranks_skip("it wants one process, which starts others");
	/* The inner launcher is nobody's rank. */
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
	for (uint64_t i = 0; i < rounds; i++)
		if (!one_job(r->seed + i, algorithms[i % 4]))
			return 1;
	return 0;
}

int
main(int argc, char **argv)
{
	char forced[300] = "ORIEL_ALGORITHM=";
	const char *knobs[] = { "ORIEL_CALL_TIMEOUT=50s", "ORIEL_PEER_TIMEOUT=2s", forced, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--algorithm=", 12))
			snprintf(forced, sizeof(forced), "ORIEL_ALGORITHM=%.200s", argv[i] + 12);
	return ranks_main(argc, argv, run, &opts);
}
