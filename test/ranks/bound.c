/*
 * bound.c - ranks that bind themselves to a CPU each find out whether they share
 * it, and then yield at once rather than spin until their time slice is over.
 *
 * --share: all on one; else one each.
 */
#include "test/ranks/ranks.h"

#include <sched.h>

#define MOST 64

static int cpu[MOST], cpus;

/* Before the library starts. */
static void
bind_rank(int rank)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE && cpus < MOST; i++)
		if (CPU_ISSET(i, &set))
			cpu[cpus++] = i;
	if (ranks_flag("--share")) /* ranks_main sees to it */
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu[rank % cpus], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void
look(void *arg, const char *text)
{
	if (!strncmp(text, "waits: ", 7))
		snprintf(arg, 100, "%s", text + 7);
}

static int
run(struct ranks *r)
{
	const char *want = ranks_flag("--share") ? "yield" : "spin";
	char waits[100] = "";

	if (r->size > cpus)
		return ranks_skip("more ranks than CPUs");
	if (!OK(oriel_info(r->ctx, look, waits)))
		return 1;
	CHECK(!strncmp(waits, want, strlen(want)), "%d ranks, %d CPUs: it waits so: \"%s\"",
	      r->size, cpus, waits);
	for (int i = 0; i < 100; i++)
		if (!OK(oriel_barrier(r->world)))
			return 1;
	return 0;
}

int
main(int argc, char **argv)
{
	const char *rank = getenv("PMIX_RANK");

	ranks_job.argc = argc;
	ranks_job.argv = argv;
	if (rank)
		bind_rank(atoi(rank));
	return ranks_main(argc, argv, run, NULL);
}
