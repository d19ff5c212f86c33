#include "pmix-boot/boot.h"

#include "pmix-boot/boot_impl.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

/* What launchers set, so that these tests find nobody wherever they run. */
static const char *const launcher_env[] = { "PMIX_NAMESPACE",
	                                    "PMIX_RANK",
	                                    "PMI_RANK",
	                                    "PMI_SIZE",
	                                    "PMI_FD",
	                                    "MPI_LOCALNRANKS",
	                                    "SLURM_PROCID",
	                                    "SLURM_NTASKS",
	                                    "SLURM_STEP_NUM_TASKS",
	                                    "OMPI_COMM_WORLD_SIZE" };

static void
forget_launcher(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(launcher_env); i++)
		unsetenv(launcher_env[i]);
}

TestSuite(boot, .init = forget_launcher);

static struct knobs
knobs_with(const char *option)
{
	const char *const options[] = { option, NULL };
	struct knobs k;

	cr_assert_eq(knobs_load(&k, options), 0, "%s", oriel_detail());
	return k;
}

static int
put_nothing(void *arg, const char *key, const void *value, size_t len)
{
	(void)arg;
	(void)key;
	(void)value;
	(void)len;
	return 0;
}

static int
fence_nothing(void *arg, uint64_t timeout_ns)
{
	(void)arg;
	(void)timeout_ns;
	return 0;
}

static int
get_nothing(void *arg, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	(void)arg;
	(void)rank;
	(void)key;
	(void)value;
	(void)timeout_ns;
	*len = 0;
	return 0;
}

static struct oriel_bootstrap
table(int rank, int size, int n_local, const int *local)
{
	return (struct oriel_bootstrap){ .rank = rank,
		                         .size = size,
		                         .n_local = n_local,
		                         .local = local,
		                         .job = "a job",
		                         .put = put_nothing,
		                         .fence = fence_nothing,
		                         .get = get_nothing };
}

Test(boot, split_node)
{
	/* Every other rank of the job is on this node. */
	int local[9];

	for (int i = 0; i < 9; i++)
		local[i] = 2 * i + 1;
	for (int n = 1; n <= 9; n++) {
		for (int k = 0; k <= 10; k++) {
			for (int at = 0; at < n; at++) {
				struct oriel_bootstrap t = table(local[at], 40, n, local);
				int group = k ? k : n, first = at / group * group;
				char option[32];
				struct knobs knobs;
				struct boot b;

				snprintf(option, sizeof(option), "ORIEL_NODE_SPLIT=%d", k);
				knobs = knobs_with(option);
				cr_assert_eq(boot_open(&b, &t, &knobs), 0, "%s", oriel_detail());
				cr_assert_eq(b.n_local, n - first < group ? n - first : group);
				for (int i = 0; i < b.n_local; i++)
					cr_assert_eq(b.local[i], local[first + i]);
				cr_assert_eq(boot_local_index(&b, b.rank), at - first);
				boot_close(&b);
			}
		}
	}
}

Test(boot, split_of_huge_k_is_an_error)
{
	struct knobs k = knobs_with("ORIEL_NODE_SPLIT=99999999999");
	struct boot b;

	cr_assert_eq(boot_open(&b, NULL, &k), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "ORIEL_NODE_SPLIT"));
}

Test(boot, local_index)
{
	const int local[] = { 3, 4, 9, 100 };
	struct oriel_bootstrap t = table(9, 101, 4, local);
	struct knobs k = knobs_with("ORIEL_NODE_SPLIT=0");
	struct boot b;

	cr_assert_eq(boot_open(&b, &t, &k), 0, "%s", oriel_detail());
	for (int rank = -1; rank <= 101; rank++) {
		int want = -1;

		for (int i = 0; i < 4; i++)
			if (local[i] == rank)
				want = i;
		cr_assert_eq(boot_local_index(&b, rank), want, "rank %d", rank);
	}
	boot_close(&b);
}

Test(boot, chooses_the_table_of_the_user)
{
	const int local[] = { 0 };
	struct oriel_bootstrap t = table(0, 1, 1, local);
	struct knobs k = knobs_with("ORIEL_NODE_SPLIT=0");
	struct boot b;

	cr_assert_eq(boot_open(&b, &t, &k), 0, "%s", oriel_detail());
	cr_assert_eq(b.ops, &boot_user);
	boot_close(&b);
}

Test(boot, alone_without_launcher)
{
	struct knobs k = knobs_with("ORIEL_NODE_SPLIT=1");
	struct boot b;

	cr_assert_eq(boot_open(&b, NULL, &k), 0, "%s", oriel_detail());
	cr_assert_eq(b.ops, &boot_singleton);
	boot_close(&b);
	cr_assert_null(b.ops);
	boot_close(&b); /* a closed one, like a zeroed one */
}

/* Ranks of a launcher that we cannot talk to must not become singletons. */
Test(boot, foreign_launchers_are_errors)
{
	static const struct {
		const char *env[3][2]; /* name, value */
		const char *says;      /* NULL: such a process is alone */
	} cases[] = {
		{ { { "PMI_RANK", "3" }, { "PMI_SIZE", "4" }, { "MPI_LOCALNRANKS", "4" } },
		  "MPICH's hydra" },
		{ { { "PMI_RANK", "0" }, { "PMI_SIZE", "1" }, { "MPI_LOCALNRANKS", "1" } }, NULL },
		{ { { "PMI_RANK", "3" }, { "PMI_SIZE", "4" } }, "PMI-1" },
		{ { { "SLURM_PROCID", "1" }, { "SLURM_STEP_NUM_TASKS", "2" } },
		  "use srun --mpi=pmix" },
		{ { { "SLURM_PROCID", "0" }, { "SLURM_STEP_NUM_TASKS", "1" } }, NULL },
		/* A batch script: the job has several tasks, but this is none of them. */
		{ { { "SLURM_PROCID", "0" }, { "SLURM_NTASKS", "4" } }, NULL },
		/* srun --mpi=pmi2 */
		{ { { "SLURM_PROCID", "1" }, { "SLURM_STEP_NUM_TASKS", "2" }, { "PMI_RANK", "1" } },
		  "use srun --mpi=pmix" },
		{ { { "OMPI_COMM_WORLD_SIZE", "4" } }, "Open MPI" },
	};
	struct knobs k = knobs_with("ORIEL_NODE_SPLIT=0");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct boot b;
		int rc;

		forget_launcher();
		for (int e = 0; e < 3; e++)
			if (cases[i].env[e][0])
				setenv(cases[i].env[e][0], cases[i].env[e][1], 1);
		rc = boot_open(&b, NULL, &k);
		cr_assert_eq(rc, cases[i].says ? ORIEL_EBOOT : 0, "case %zu: %d", i, rc);
		if (cases[i].says)
			cr_assert(strstr(oriel_detail(), cases[i].says), "case %zu: %s", i,
			          oriel_detail());
		else
			boot_close(&b);
	}
}

Test(boot, bad_arguments)
{
	struct knobs k = knobs_with("ORIEL_NODE_SPLIT=0");
	char longest[BOOT_KEY_MAX + 2], value[8] = "";
	size_t len = sizeof(value);
	struct boot b;

	memset(longest, 'k', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	cr_assert_eq(boot_open(&b, NULL, &k), 0, "%s", oriel_detail());
	cr_assert_eq(boot_put(&b, NULL, value, 1), ORIEL_EINVAL);
	cr_assert_eq(boot_put(&b, "", value, 1), ORIEL_EINVAL);
	cr_assert_eq(boot_put(&b, longest, value, 1), ORIEL_EINVAL);
	cr_assert_eq(boot_put(&b, "key", NULL, 1), ORIEL_EINVAL);
	longest[BOOT_KEY_MAX] = '\0';
	cr_assert_eq(boot_put(&b, longest, value, 1), 0);
	cr_assert_eq(boot_fence(&b, true, 0), 0);
	cr_assert_eq(boot_get(&b, 0, longest, value, &len, 0), 0);
	cr_assert_eq(len, 1);
	cr_assert_eq(boot_get(&b, -1, longest, value, &len, 0), ORIEL_ERANK);
	cr_assert_eq(boot_get(&b, 1, longest, value, &len, 0), ORIEL_ERANK);
	cr_assert(strstr(oriel_detail(), "rank 1"));
	cr_assert_eq(boot_watch(&b), ORIEL_EINVAL);
	boot_close(&b);
}

Test(boot, node_size_by_the_launchers_map)
{
	static const struct {
		const char *map;
		int ranks, size;
	} maps[] = {
		{ "(vector,(0,2,2))", 4, 2 },
		{ "(vector,(0,1,3),(1,1,3))", 6, 3 },
		{ "(vector,(0,1,3),(4,2,3))", 9, 3 },
		{ "(vector, (0,4,1))", 4, 1 },
		{ "(vector,(0,1,4),(1,1,3))", 7, 0 }, /* not alike */
		{ "(vector,(0,2,1),(0,2,1))", 4, 0 }, /* round robin */
		{ "(vector,(1,1,2),(0,1,2))", 4, 0 }, /* another order */
		{ "(vector,(0,2,2))", 5, 0 },         /* another job's */
		{ "(vector,(0,2,2)", 4, 0 },          /* cut off */
		{ "(vector,(0,2,2))x", 4, 0 },
		{ "(vector,(0,-2,-2))", 4, 0 },
		{ "(vector,(2147483647,2,2))", 4, 0 },
		{ "(vector,(0,2147483647,2147483647))", 1, 0 },
		{ "(vector)", 4, 0 },
		{ "", 4, 0 },
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		cr_expect_eq(boot_map_node_size(maps[i].map, maps[i].ranks), maps[i].size, "%s",
		             maps[i].map);
}
