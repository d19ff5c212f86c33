#include "pmix-boot/boot.h"
#include "base/atomic.h"
#include "pmix-boot/boot_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
env_above_one(const char *name)
{
	const char *s = getenv(name);

	return s && strtol(s, NULL, 10) > 1;
}

/*
 * Is this one of several processes of a launcher that we cannot talk to? Such a
 * rank must not become a singleton: N of them would each believe to be the job.
 * The variables of a job step are looked at, not those of a job: a program in a
 * batch script sees a job's SLURM_NTASKS and is alone all the same.
 */
static int
foreign_launcher(void)
{
	if (getenv("PMI_RANK") && getenv("MPI_LOCALNRANKS") && env_above_one("PMI_SIZE"))
		return fail(ORIEL_EBOOT,
		            "rank %s of %s was started by MPICH's hydra (mpiexec), which offers "
		            "PMI-1 but no PMIx: use Open MPI's mpirun, srun --mpi=pmix or orielrun",
		            getenv("PMI_RANK"), getenv("PMI_SIZE"));
	if (getenv("SLURM_PROCID") && env_above_one("SLURM_STEP_NUM_TASKS"))
		return fail(ORIEL_EBOOT,
		            "task %s of %s was started by srun without PMIx: use srun --mpi=pmix",
		            getenv("SLURM_PROCID"), getenv("SLURM_STEP_NUM_TASKS"));
	if (getenv("PMI_RANK") && env_above_one("PMI_SIZE"))
		return fail(ORIEL_EBOOT,
		            "rank %s of %s was started by a PMI-1 launcher (PMI_RANK and PMI_SIZE "
		            "are set) without PMIx: use Open MPI's mpirun, srun --mpi=pmix or "
		            "orielrun",
		            getenv("PMI_RANK"), getenv("PMI_SIZE"));
	if (env_above_one("OMPI_COMM_WORLD_SIZE"))
		return fail(ORIEL_EBOOT,
		            "one of %s ranks was started by an Open MPI mpirun without PMIx",
		            getenv("OMPI_COMM_WORLD_SIZE"));
	return 0;
}

/* Opens the first kind that is there. */
static int
open_any(struct boot *b, const struct oriel_bootstrap *user)
{
	int rc;

	if (user) {
		b->ops = &boot_user;
		return b->ops->open(b, user, b->timeout_ns);
	}
	if (getenv("PMIX_NAMESPACE")) {
#if BOOT_HAS_PMIX
		b->ops = &boot_pmix;
		rc = b->ops->open(b, NULL, b->timeout_ns);
		if (rc != BOOT_NOBODY)
			return rc;
#else
		return fail(ORIEL_EBOOT,
		            "a PMIx launcher started this rank (PMIX_NAMESPACE=%s), "
		            "but this build has no PMIx",
		            getenv("PMIX_NAMESPACE"));
#endif
	}
	rc = foreign_launcher();
	if (rc)
		return rc;
	b->ops = &boot_singleton;
	return b->ops->open(b, NULL, b->timeout_ns);
}

/* Every k consecutive ranks of the node become a node. */
static void
split_node(struct boot *b, int64_t k)
{
	int64_t start;

	if (k <= 0 || k >= b->n_local)
		return;
	b->split = (int)k;
	start = boot_local_index(b, b->rank) / k * k;
	b->n_local = (int)(k < b->n_local - start ? k : b->n_local - start);
	memmove(b->local, b->local + start, (size_t)b->n_local * sizeof(b->local[0]));
}

static int
check_opened(const struct boot *b)
{
	int code = b->ops == &boot_user ? ORIEL_EINVAL : ORIEL_EBOOT;

	if (b->size < 1 || b->rank < 0 || b->rank >= b->size)
		return fail(code, "%s: rank %d of %d ranks", b->launcher, b->rank, b->size);
	for (int i = 0; i < b->n_local; i++)
		if (b->local[i] < 0 || b->local[i] >= b->size ||
		    (i > 0 && b->local[i] <= b->local[i - 1]))
			return fail(
			        code,
			        "%s: rank %d, number %d of the %d ranks of this node, is out of "
			        "order or outside the job's %d",
			        b->launcher, b->local[i], i, b->n_local, b->size);
	if (boot_local_index(b, b->rank) < 0)
		return fail(code, "%s: rank %d is not among the %d ranks of its own node",
		            b->launcher, b->rank, b->n_local);
	return 0;
}

int
boot_open(struct boot *b, const struct oriel_bootstrap *user, const struct knobs *k)
{
	int rc;

	*b = (struct boot){ .timeout_ns = (uint64_t)k->v.boot_timeout,
		            .node_size = BOOT_NOT_ASKED };
	if (k->v.node_split < 0 || k->v.node_split > INT_MAX)
		return fail(ORIEL_EINVAL, "ORIEL_NODE_SPLIT=%s is no number of ranks",
		            k->s.node_split);
	rc = open_any(b, user);
	if (rc)
		goto free_local;
	rc = check_opened(b);
	if (rc)
		goto close;
	split_node(b, k->v.node_split);
	log_at(LOG_INFO, "boot: rank %d of %d, %d on this node (%s), job %s, by %s", b->rank,
	       b->size, b->n_local, b->host, b->job, b->launcher);
	return 0;
close:
	b->ops->close(b);
free_local:
	free(b->local);
	*b = (struct boot){ 0 };
	return rc;
}

static int
check_key(const char *key)
{
	size_t n = key ? strnlen(key, BOOT_KEY_MAX + 1) : 0;

	if (!n || n > BOOT_KEY_MAX)
		return fail(ORIEL_EINVAL, "a key has 1 to %d characters, not \"%.*s\"",
		            BOOT_KEY_MAX, BOOT_KEY_MAX + 1, key ? key : "");
	return 0;
}

static int
check_connected(const struct boot *b, const char *call)
{
	if (b->left)
		return fail(ORIEL_EBOOT, "%s after this rank has left its launcher", call);
	return 0;
}

int
boot_put(struct boot *b, const char *key, const void *value, size_t len)
{
	int rc = check_key(key);

	if (!rc)
		rc = check_connected(b, "put");
	if (!rc && !value && len)
		rc = fail(ORIEL_EINVAL, "key \"%s\": NULL as a value of %zu bytes", key, len);
	return rc ? rc : b->ops->put(b, key, value, len);
}

int
boot_fence(struct boot *b, bool collect, uint64_t timeout_ns)
{
	int rc = check_connected(b, "fence");

	if (!rc)
		rc = b->ops->fence(b, collect, timeout_ns);
	if (!rc && collect)
		b->collected = true;
	return rc;
}

int
boot_get(struct boot *b, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	int rc = check_key(key);

	if (rc)
		return rc;
	if (rank < 0 || rank >= b->size)
		return fail(ORIEL_ERANK, "key \"%s\" of rank %d, but the job has %d ranks", key,
		            rank, b->size);
	return b->ops->get(b, rank, key, value, len, timeout_ns);
}

int
boot_watch(struct boot *b)
{
	int rc = check_connected(b, "watch");

	if (!rc && !b->on_failure)
		rc = fail(ORIEL_EINVAL, "watch without on_failure");
	return rc || !b->ops->watch ? rc : b->ops->watch(b);
}

int
boot_map_node_size(const char *map, int ranks)
{
	int size = 0, next = 0, seen = 0, node, nodes, each, used = 0;

	if (strncmp(map, "(vector", 7))
		return 0;
	for (map += 7; sscanf(map, " , (%d,%d,%d)%n", &node, &nodes, &each, &used) == 3;
	     map += used) {
		/* A node that comes again has ranks in several places. */
		if (node < next || nodes < 1 || node > INT_MAX - nodes || each < 1 ||
		    (size && each != size) || nodes > (ranks - seen) / each)
			return 0;
		size = each;
		next = node + nodes;
		seen += nodes * each;
	}
	return !strcmp(map, ")") && seen == ranks ? size : 0;
}

static int
find_node_size(struct boot *b)
{
	int size = 0;

	if (b->split)
		return b->size % b->split ? 0 : b->split;
	if (b->n_local == b->size)
		return b->size;
	if (b->left || !b->ops->node_size)
		return 0;
	if (b->ops->node_size(b, b->timeout_ns, &size)) {
		log_at(LOG_WARN, "boot: how the ranks lie on nodes: %s", oriel_detail());
		return 0;
	}
	return size;
}

int
boot_node_size(struct boot *b)
{
	int size = load_relaxed(&b->node_size);

	/* Threads that ask at the same time find the same. */
	if (size == BOOT_NOT_ASKED) {
		size = find_node_size(b);
		store_relaxed(&b->node_size, size);
	}
	return size;
}

int
boot_leave(struct boot *b)
{
	int rc;

	if (b->left || !b->ops->leave)
		return 0;
	boot_node_size(b);
	rc = b->ops->leave(b, b->collected, b->timeout_ns);
	if (!rc)
		b->left = true;
	return rc;
}

void
boot_close(struct boot *b)
{
	if (b->ops)
		b->ops->close(b);
	free(b->local);
	*b = (struct boot){ 0 };
}

int
boot_local_index(const struct boot *b, int rank)
{
	int low = 0, high = b->n_local;

	while (low < high) {
		int mid = low + (high - low) / 2;

		if (b->local[mid] == rank)
			return mid;
		if (b->local[mid] < rank)
			low = mid + 1;
		else
			high = mid;
	}
	return -1;
}

int
boot_copy_out(int rank, const char *key, const void *found, size_t found_len, void *value,
              size_t *len)
{
	if (found_len > *len)
		return fail(ORIEL_ERANGE,
		            "rank %d's \"%s\" has %zu bytes, more than the buffer's %zu", rank, key,
		            found_len, *len);
	if (found_len)
		memcpy(value, found, found_len);
	*len = found_len;
	return 0;
}

int
boot_no_key(int rank, const char *key)
{
	return fail(ORIEL_EBOOT, "rank %d had put no \"%s\" before the last fence", rank, key);
}

int
boot_set_local(struct boot *b, const int *local, int n)
{
	b->local = malloc((size_t)n * sizeof(local[0]));
	if (!b->local)
		return fail(ORIEL_ENOMEM, "the numbers of %d ranks", n);
	memcpy(b->local, local, (size_t)n * sizeof(local[0]));
	b->n_local = n;
	return 0;
}

void
boot_set_host(struct boot *b)
{
	if (gethostname(b->host, sizeof(b->host)))
		snprintf(b->host, sizeof(b->host), "localhost");
	b->host[sizeof(b->host) - 1] = '\0';
}
