/*
 * The PMIx client. A rank's records of one round travel as one value under the
 * key "oriel.<context>.<round>", put and committed by the fence that ends the
 * round. So a peer costs one fetch, and a key that is not there is known at once:
 * a PMIx get of a key that nobody ever puts waits for ever.
 *
 * Each wait is a nonblocking PMIx call and a condition variable of ours
 * (pmix_wait.c), because servers may ignore PMIX_TIMEOUT.
 */
#include "pmix-boot/boot_impl.h"

#if BOOT_HAS_PMIX

#include "base/atomic.h"
#include "pmix-boot/pmix_impl.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * PMIx is one thing of the whole process, so this is too. It is initialized once,
 * and finalized at exit or when the last context leaves, not when the last one
 * closes: a fence of ranks that have started again would end early, because of the
 * ranks that have not, yet, finalized.
 *
 * open guards all but fence_lost. fence is held over a fence, because PMIx does
 * not tell two fences of one process over the same ranks apart.
 */
static struct {
	pthread_mutex_t open, fence;
	pmix_proc_t me;
	pid_t initialized; /* by which process: a forked child must not finalize; 0: not now */
	bool left;         /* a context has left, and none can be opened any more */
	bool at_exit;      /* finalize_at_exit is registered */
	int n_open;        /* contexts that have neither left nor closed */
	unsigned contexts; /* that were ever opened: the next one's number */
	bool fence_lost;   /* a fence timed out and may still be pending in the server */
} process = { .open = PTHREAD_MUTEX_INITIALIZER, .fence = PTHREAD_MUTEX_INITIALIZER };

struct pmix_boot {
	pmix_proc_t me;
	unsigned context;   /* which one of this process */
	struct records put; /* of the round that has not been fenced */
	unsigned rounds;    /* fenced; read by get in any thread */
	bool broken;        /* a fence has failed */
	/* After leave: kept[rank * rounds + round]. NULL before it, and without a collecting fence.
	 */
	struct records *kept;
	struct watcher watcher;
};

/* ---- What the launcher knows about the job ----------------------------- */

static int
job_size(const pmix_proc_t *job, uint64_t timeout_ns, int *size)
{
	struct fetched v = { 0 };
	int rc = bootpmix_fetch(job, PMIX_JOB_SIZE, NULL, timeout_ns, &v);

	if (rc)
		return rc;
	if (v.kind != FETCHED_NUMBER || v.number < 1 || v.number > INT_MAX)
		rc = fail(ORIEL_EBOOT, "PMIx: the launcher gives a job size that is no number");
	else
		*size = (int)v.number;
	free(v.bytes);
	return rc;
}

static int
compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* "0,2,1": some launchers do not sort. */
static int
parse_peers(struct boot *b, const char *text)
{
	size_t cap = strlen(text) / 2 + 1;

	b->local = malloc(cap * sizeof(b->local[0]));
	if (!b->local)
		return fail(ORIEL_ENOMEM, "the numbers of %zu ranks", cap);
	for (const char *p = text; (size_t)b->n_local < cap; p++) {
		char *end;
		long rank;

		errno = 0;
		rank = strtol(p, &end, 10);
		if (end == p || errno || rank < 0 || rank > INT_MAX || (*end && *end != ','))
			break;
		b->local[b->n_local++] = (int)rank;
		p = end;
		if (!*p) {
			qsort(b->local, (size_t)b->n_local, sizeof(b->local[0]), compare_ints);
			return 0;
		}
	}
	return fail(ORIEL_EBOOT, "PMIx: the node's ranks \"%.100s\" are no list of numbers", text);
}

static int
local_peers(struct boot *b, const pmix_proc_t *job, uint64_t timeout_ns)
{
	struct fetched v = { 0 };
	int rc = bootpmix_fetch(job, PMIX_LOCAL_PEERS, NULL, timeout_ns, &v);

	if (rc)
		return rc;
	if (v.kind == FETCHED_TEXT)
		rc = parse_peers(b, (const char *)v.bytes);
	else
		rc = fail(ORIEL_EBOOT, "PMIx: the launcher gives the node's ranks not as text");
	free(v.bytes);
	return rc;
}

/* A detail for people, so a launcher that does not give it is no error. */
static void
host_name(struct boot *b, const pmix_proc_t *me, uint64_t timeout_ns)
{
	struct fetched v = { 0 };

	boot_set_host(b);
	if (bootpmix_fetch(me, PMIX_HOSTNAME, PMIX_OPTIONAL, timeout_ns, &v))
		return;
	if (v.kind == FETCHED_TEXT)
		snprintf(b->host, sizeof(b->host), "%s", (const char *)v.bytes);
	free(v.bytes);
}

static void
name_job(struct boot *b, const struct pmix_boot *p)
{
	const char *nspace = p->me.nspace, *version = PMIx_Get_version();
	int len = (int)strcspn(version, ",("); /* "OpenPMIx 4.2.2 (PMIx Standard: ..., ...)" */

	/* The number keeps apart what two contexts of one process name after their job. */
	if (strlen(nspace) <= 100)
		snprintf(b->job, sizeof(b->job), "%.100s.%u", nspace, p->context);
	else
		snprintf(b->job, sizeof(b->job), "%.64s-%016llx.%u", nspace,
		         (unsigned long long)hash_bytes(0, nspace, strlen(nspace)), p->context);
	while (len > 0 && version[len - 1] == ' ')
		len--;
	snprintf(b->launcher, sizeof(b->launcher), "%.*s, namespace %s", len, version, nspace);
}

static int
ask_launcher(struct boot *b, struct pmix_boot *p, uint64_t timeout_ns)
{
	pmix_proc_t job;
	int rc;

	PMIX_LOAD_PROCID(&job, p->me.nspace, PMIX_RANK_WILDCARD);
	b->rank = (int)p->me.rank;
	rc = job_size(&job, timeout_ns, &b->size);
	if (!rc)
		rc = local_peers(b, &job, timeout_ns);
	if (rc)
		return rc;
	host_name(b, &p->me, timeout_ns);
	name_job(b, p);
	return 0;
}

static int
node_of(const struct boot *b, int rank, uint64_t timeout_ns, int64_t *node)
{
	const struct pmix_boot *p = b->priv;
	struct fetched v = { 0 };
	pmix_proc_t proc;
	int rc;

	PMIX_LOAD_PROCID(&proc, p->me.nspace, (pmix_rank_t)rank);
	rc = bootpmix_fetch(&proc, PMIX_NODEID, PMIX_OPTIONAL, timeout_ns, &v);
	if (!rc && v.kind != FETCHED_NUMBER)
		rc = fail(ORIEL_EBOOT, "PMIx: the node of rank %d is no number", rank);
	*node = v.number;
	free(v.bytes);
	return rc;
}

/* Every rank is asked about, so that all ranks decide by the same facts. */
static int
size_by_ranks(struct boot *b, uint64_t timeout_ns, int *size)
{
	int64_t node = -1, before = -1, first = -1;
	int n = 0, rc;

	for (int rank = 0; rank < b->size; rank++) {
		rc = node_of(b, rank, timeout_ns, &node);
		if (rc)
			return rc;
		if (rank == 0)
			first = node;
		if (!n && node != first)
			n = rank;
		/* Launchers number nodes in order; any other order is not told from a mixture. */
		if (rank > 0 && (n && rank % n == 0 ? node <= before : node != before))
			return 0;
		before = node;
	}
	*size = n && b->size % n ? 0 : n ? n : b->size;
	return 0;
}

/*
 * Slurm tells a rank the nodes of its own node's ranks only, but also gives the map
 * that PMI-1 knows as PMI_process_mapping.
 */
static int
pmix_node_size(struct boot *b, uint64_t timeout_ns, int *size)
{
	const struct pmix_boot *p = b->priv;
	struct fetched v = { 0 };
	pmix_proc_t job;
	int rc;

	PMIX_LOAD_PROCID(&job, p->me.nspace, PMIX_RANK_WILDCARD);
	rc = bootpmix_fetch(&job, PMIX_ANL_MAP, PMIX_OPTIONAL, timeout_ns, &v);
	if (!rc && v.kind == FETCHED_TEXT)
		*size = boot_map_node_size((const char *)v.bytes, b->size);
	else
		rc = size_by_ranks(b, timeout_ns, size);
	free(v.bytes);
	return rc;
}

static void
finalize(void)
{
	pmix_status_t status = PMIx_Finalize(NULL, 0);

	process.initialized = 0;
	if (status != PMIX_SUCCESS)
		log_at(LOG_WARN, "boot: PMIx: finalize: %s (%d)", PMIx_Error_string(status),
		       (int)status);
}

/* A rank that exits with an open context has failed, and the launcher is to see that. */
static void
finalize_at_exit(void)
{
	if (process.initialized == getpid() && !process.n_open)
		finalize();
}

static int
initialize(void)
{
	pmix_status_t status;

	if (process.left)
		return fail(ORIEL_EBOOT,
		            "PMIx: this process has left its launcher (ORIEL_FT), so no "
		            "further context can be opened");
	if (process.initialized)
		return 0;
	status = PMIx_Init(&process.me, NULL, 0);
	if (status == PMIX_ERR_UNREACH) {
		log_at(LOG_WARN,
		       "boot: PMIX_NAMESPACE=%s is set but its server does not answer: "
		       "a single rank",
		       getenv("PMIX_NAMESPACE"));
		return BOOT_NOBODY;
	}
	if (status != PMIX_SUCCESS)
		return bootpmix_fail(status, "init");
	process.initialized = getpid();
	if (!process.at_exit && atexit(finalize_at_exit))
		log_at(LOG_WARN, "boot: PMIx will not be finalized at exit");
	process.at_exit = true;
	return 0;
}

static int
open_locked(struct boot *b, struct pmix_boot *p, uint64_t timeout_ns)
{
	int rc = initialize();

	if (rc)
		return rc;
	p->me = process.me;
	p->context = process.contexts;
	rc = ask_launcher(b, p, timeout_ns);
	if (rc)
		return rc;
	process.contexts++;
	process.n_open++;
	return 0;
}

static void
release(bool leaving)
{
	pthread_mutex_lock(&process.open);
	process.n_open--;
	process.left = process.left || leaving;
	if (process.left && !process.n_open)
		finalize();
	pthread_mutex_unlock(&process.open);
}

static int
pmix_open(struct boot *b, const struct oriel_bootstrap *user, uint64_t timeout_ns)
{
	struct pmix_boot *p = calloc(1, sizeof(*p));
	int rc;

	(void)user;
	if (!p)
		return fail(ORIEL_ENOMEM, "the state of the PMIx bootstrap");
	pthread_mutex_lock(&process.open);
	rc = open_locked(b, p, timeout_ns);
	pthread_mutex_unlock(&process.open);
	if (rc) {
		free(p);
		return rc;
	}
	b->priv = p;
	return 0;
}

/* ---- Records ----------------------------------------------------------- */

static int
pmix_put(struct boot *b, const char *key, const void *value, size_t len)
{
	struct pmix_boot *p = b->priv;

	return records_put(&p->put, key, value, len);
}

static void
round_key(const struct pmix_boot *p, unsigned round, char key[BOOT_KEY_MAX + 1])
{
	snprintf(key, BOOT_KEY_MAX + 1, "oriel.%u.%u", p->context, round);
}

/* Hands the round's records to PMIx. An empty key makes the value never empty, which some versions
 * reject. */
static int
publish(struct pmix_boot *p)
{
	char key[BOOT_KEY_MAX + 1];
	pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
	pmix_status_t status;
	int rc = records_put(&p->put, "", NULL, 0);

	if (rc)
		return rc;
	round_key(p, p->rounds, key);
	value.data.bo.bytes = (char *)p->put.bytes;
	value.data.bo.size = p->put.len;
	status = PMIx_Put(PMIX_GLOBAL, key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	if (status != PMIX_SUCCESS)
		return bootpmix_fail(status, "put of this rank's %zu bytes of records", p->put.len);
	records_free(&p->put);
	return 0;
}

/*
 * Slurm's fence without data ends, unless its mpi.conf says PMIxFenceBarrier, as
 * soon as the ranks of this node are there. That will do for a process's first
 * fence: a get from another node then waits for that rank's records. Later ones
 * must bring the data along: of a rank that was asked before, Slurm knows only
 * what it knew then.
 */
static bool
must_collect(const struct pmix_boot *p)
{
	static const char slurm[] = "slurm.";

	return !strncmp(p->me.nspace, slurm, sizeof(slurm) - 1) && (p->context || p->rounds);
}

static int
pmix_fence(struct boot *b, bool collect, uint64_t timeout_ns)
{
	struct pmix_boot *p = b->priv;
	pmix_proc_t all;
	int rc;

	/* Others may have seen this round end: there is no way back into step with them. */
	if (p->broken)
		return fail(ORIEL_EBOOT, "PMIx: an earlier fence of this context has failed");
	p->broken = true;
	PMIX_LOAD_PROCID(&all, p->me.nspace, PMIX_RANK_WILDCARD);
	pthread_mutex_lock(&process.fence);
	if (process.fence_lost)
		rc = fail(ORIEL_EBOOT, "PMIx: an earlier fence of this process has not ended yet");
	else
		rc = publish(p);
	if (!rc)
		rc = bootpmix_fence(&all, collect || must_collect(p), timeout_ns,
		                    &process.fence_lost);
	pthread_mutex_unlock(&process.fence);
	if (rc)
		return rc;
	p->broken = false;
	store_release(&p->rounds, p->rounds + 1);
	return 0;
}

static int
fetch_round(const struct pmix_boot *p, int rank, unsigned round, uint64_t timeout_ns,
            struct records *out)
{
	char key[BOOT_KEY_MAX + 1];
	struct fetched got = { 0 };
	pmix_proc_t peer;
	int rc;

	PMIX_LOAD_PROCID(&peer, p->me.nspace, (pmix_rank_t)rank);
	round_key(p, round, key);
	rc = bootpmix_fetch(&peer, key, NULL, timeout_ns, &got);
	/* Servers keep what they once fetched of a rank, from before its later rounds. */
	if (rc == ORIEL_EBOOT && (p->context || round))
		rc = bootpmix_fetch(&peer, key, PMIX_GET_REFRESH_CACHE, timeout_ns, &got);
	if (!rc && got.kind != FETCHED_BYTES)
		rc = fail(ORIEL_EBOOT, "PMIx: rank %d's records came back as another type", rank);
	if (rc) {
		free(got.bytes);
		return rc;
	}
	*out = (struct records){ .bytes = got.bytes, .len = got.len, .cap = got.len };
	return 0;
}

static int
pmix_get(struct boot *b, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	struct pmix_boot *p = b->priv;
	uint64_t deadline = deadline_after(timeout_ns);
	const void *found;
	size_t found_len;

	if (b->left && !p->kept)
		return fail(ORIEL_EBOOT, "rank %d's \"%s\" was not collected before leaving", rank,
		            key);
	for (unsigned round = load_acquire(&p->rounds); round-- > 0;) {
		uint64_t now = now_ns();
		struct records r;
		int rc = 0;

		if (b->left)
			r = p->kept[(size_t)rank * p->rounds + round];
		else
			rc = fetch_round(p, rank, round, deadline > now ? deadline - now : 0, &r);
		if (rc)
			return rc;
		if (records_find(&r, key, &found, &found_len))
			rc = boot_copy_out(rank, key, found, found_len, value, len);
		else
			rc = BOOT_NOBODY;
		if (!b->left)
			records_free(&r);
		if (rc != BOOT_NOBODY)
			return rc;
	}
	return boot_no_key(rank, key);
}

/* ---- Failures, and the end --------------------------------------------- */

static int
pmix_watch(struct boot *b)
{
	struct pmix_boot *p = b->priv;

	return bootpmix_watch(&p->watcher, b, &p->me);
}

static void
free_kept(struct records *kept, size_t n)
{
	for (size_t i = 0; kept && i < n; i++)
		records_free(&kept[i]);
	free(kept);
}

static int
keep_all(struct boot *b, struct pmix_boot *p, uint64_t timeout_ns)
{
	uint64_t deadline = deadline_after(timeout_ns);
	size_t n = (size_t)b->size * p->rounds;
	struct records *kept = calloc(n, sizeof(*kept));

	if (!kept)
		return fail(ORIEL_ENOMEM, "the records of %d ranks", b->size);
	for (size_t i = 0; i < n; i++) {
		uint64_t now = now_ns();
		int rc = fetch_round(p, (int)(i / p->rounds), (unsigned)(i % p->rounds),
		                     deadline > now ? deadline - now : 0, &kept[i]);

		if (rc) {
			free_kept(kept, n);
			return rc;
		}
	}
	p->kept = kept;
	return 0;
}

static int
pmix_leave(struct boot *b, bool collected, uint64_t timeout_ns)
{
	struct pmix_boot *p = b->priv;
	int rc = collected ? keep_all(b, p, timeout_ns) : 0;

	if (rc)
		return rc;
	bootpmix_unwatch(&p->watcher);
	release(true);
	return 0;
}

static void
pmix_close(struct boot *b)
{
	struct pmix_boot *p = b->priv;

	if (!b->left) {
		bootpmix_unwatch(&p->watcher);
		release(false);
	}
	free_kept(p->kept, (size_t)b->size * p->rounds);
	records_free(&p->put);
	free(p);
}

const struct boot_ops boot_pmix = {
	.name = "pmix",
	.open = pmix_open,
	.put = pmix_put,
	.fence = pmix_fence,
	.get = pmix_get,
	.watch = pmix_watch,
	.node_size = pmix_node_size,
	.leave = pmix_leave,
	.close = pmix_close,
};

#endif
