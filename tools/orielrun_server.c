/* The PMIx server. Its callbacks run in PMIx's thread, everything else in the main one. */
#include "tools/orielrun.h"

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Callbacks ---------------------------------------------------------- */

static bool
known_rank(const pmix_proc_t *proc)
{
	return PMIX_CHECK_NSPACE(proc->nspace, job.name) && proc->rank < (pmix_rank_t)job.n;
}

static void
wake_main(void)
{
	const uint64_t one = 1;

	if (write(job.wake_fd, &one, sizeof(one)) < 0) {
		/* Cannot happen: the counter does not overflow. */
	}
}

static pmix_status_t
on_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t n_info,
             pmix_op_cbfunc_t done, void *arg)
{
	(void)object;
	(void)info;
	(void)n_info;
	(void)done;
	(void)arg;
	if (known_rank(proc)) {
		pthread_mutex_lock(&job.lock);
		job.ranks[proc->rank].connected = true;
		job.ranks[proc->rank].finalized = false;
		pthread_mutex_unlock(&job.lock);
	}
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t
on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *arg)
{
	(void)object;
	(void)done;
	(void)arg;
	if (known_rank(proc)) {
		pthread_mutex_lock(&job.lock);
		job.ranks[proc->rank].finalized = true;
		pthread_mutex_unlock(&job.lock);
	}
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t
on_abort(const pmix_proc_t *proc, void *object, int status, const char text[], pmix_proc_t procs[],
         size_t n_procs, pmix_op_cbfunc_t done, void *arg)
{
	(void)object;
	(void)procs;
	(void)n_procs;
	(void)done;
	(void)arg;
	pthread_mutex_lock(&job.lock);
	if (!job.aborted) {
		job.aborted = true;
		job.abort_rank = (int)proc->rank;
		job.abort_code = status;
		snprintf(job.abort_text, sizeof(job.abort_text), "%s", text ? text : "");
	}
	pthread_mutex_unlock(&job.lock);
	wake_main();
	return PMIX_OPERATION_SUCCEEDED;
}

/* All ranks are here: what they gave is what they all get. */
static pmix_status_t
on_fence(const pmix_proc_t procs[], size_t n_procs, const pmix_info_t info[], size_t n_info,
         char *data, size_t n_data, pmix_modex_cbfunc_t done, void *arg)
{
	(void)procs;
	(void)n_procs;
	(void)info;
	(void)n_info;
	done(PMIX_SUCCESS, data, n_data, arg, free, data);
	return PMIX_SUCCESS;
}

static pmix_status_t
on_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info, pmix_modex_cbfunc_t done,
         void *arg)
{
	(void)proc;
	(void)info;
	(void)n_info;
	(void)done;
	(void)arg;
	return PMIX_ERR_NOT_FOUND; /* No rank is on another node. */
}

static pmix_status_t
on_register_events(pmix_status_t *codes, size_t n_codes, const pmix_info_t info[], size_t n_info,
                   pmix_op_cbfunc_t done, void *arg)
{
	(void)codes;
	(void)n_codes;
	(void)info;
	(void)n_info;
	(void)done;
	(void)arg;
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t
on_deregister_events(pmix_status_t *codes, size_t n_codes, pmix_op_cbfunc_t done, void *arg)
{
	return on_register_events(codes, n_codes, NULL, 0, done, arg);
}

static pmix_server_module_t server = {
	.client_connected2 = on_connected,
	.client_finalized = on_finalized,
	.abort = on_abort,
	.fence_nb = on_fence,
	.direct_modex = on_modex,
	.register_events = on_register_events,
	.deregister_events = on_deregister_events,
};

/* ---- The main thread ---------------------------------------------------- */

static bool
pmix_ok(pmix_status_t status, const char *what)
{
	if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED)
		return true;
	say("PMIx server: %s: %s (%d)", what, PMIx_Error_string(status), (int)status);
	return false;
}

/* What ranks ask about rank i. */
static void
load_rank_info(pmix_info_t *info, int i)
{
	pmix_rank_t rank = (pmix_rank_t)i;
	uint16_t local = (uint16_t)i;
	uint32_t node = 0;
	pmix_data_array_t array;
	pmix_info_t *list;

	PMIX_INFO_CREATE(list, 5);
	PMIX_INFO_LOAD(&list[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&list[1], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&list[2], PMIX_NODE_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&list[3], PMIX_NODEID, &node, PMIX_UINT32);
	PMIX_INFO_LOAD(&list[4], PMIX_HOSTNAME, job.host, PMIX_STRING);
	array = (pmix_data_array_t){ .type = PMIX_INFO, .size = 5, .array = list };
	PMIX_INFO_LOAD(info, PMIX_PROC_DATA, &array, PMIX_DATA_ARRAY);
	PMIX_INFO_FREE(list, 5);
}

static bool
register_job(void)
{
	enum { JOB_KEYS = 9 };
	char peers[RANKS_MAX * 5 + 1], *nodes = NULL, *ranks = NULL;
	size_t n_info = JOB_KEYS + (size_t)job.n, len = 0;
	uint32_t n = (uint32_t)job.n, one = 1;
	pmix_info_t *info;
	bool ok;

	for (int i = 0; i < job.n; i++)
		len += (size_t)snprintf(peers + len, sizeof(peers) - len, "%s%d", i ? "," : "", i);
	ok = pmix_ok(PMIx_generate_regex(job.host, &nodes), "node map") &&
	     pmix_ok(PMIx_generate_ppn(peers, &ranks), "rank map");
	if (!ok)
		goto out;
	PMIX_INFO_CREATE(info, n_info);
	PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, nodes, PMIX_REGEX);
	PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, ranks, PMIX_REGEX);
	PMIX_INFO_LOAD(&info[2], PMIX_JOB_SIZE, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[3], PMIX_UNIV_SIZE, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[4], PMIX_MAX_PROCS, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[5], PMIX_LOCAL_SIZE, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[6], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
	PMIX_INFO_LOAD(&info[7], PMIX_NUM_NODES, &one, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[8], PMIX_JOBID, job.name, PMIX_STRING);
	for (int i = 0; i < job.n; i++)
		load_rank_info(&info[JOB_KEYS + i], i);
	ok = pmix_ok(PMIx_server_register_nspace(job.name, job.n, info, n_info, NULL, NULL),
	             "registration of the job");
	PMIX_INFO_FREE(info, n_info);
out:
	free(nodes);
	free(ranks);
	return ok;
}

bool
server_start(void)
{
	pmix_info_t info[2];
	bool ok;

	PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, job.dir, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, job.dir, PMIX_STRING);
	ok = pmix_ok(PMIx_server_init(&server, info, 2), "start");
	PMIX_INFO_DESTRUCT(&info[0]);
	PMIX_INFO_DESTRUCT(&info[1]);
	if (!ok)
		return false;
	snprintf(job.name, sizeof(job.name), "orielrun-%.64s-%d-%llx", job.host, (int)getpid(),
	         (unsigned long long)job.started);
	if (register_job())
		return true;
	PMIx_server_finalize();
	return false;
}

void
server_stop(void)
{
	PMIx_server_deregister_nspace(job.name, NULL, NULL);
	PMIx_server_finalize();
}

static void
on_notified(pmix_status_t status, void *arg)
{
	(void)status;
	free(arg);
}

/* Tells the ranks that registered for it that rank i has failed. */
static void
notify(int i, pmix_status_t code)
{
	struct notice {
		pmix_proc_t proc;
		pmix_info_t info[2];
	} *notice = calloc(1, sizeof(*notice));
	bool no = false;
	pmix_status_t status;

	if (!notice)
		return;
	PMIX_LOAD_PROCID(&notice->proc, job.name, (pmix_rank_t)i);
	PMIX_INFO_LOAD(&notice->info[0], PMIX_EVENT_AFFECTED_PROC, &notice->proc, PMIX_PROC);
	PMIX_INFO_LOAD(&notice->info[1], PMIX_EVENT_NON_DEFAULT, &no, PMIX_BOOL);
	status = PMIx_Notify_event(code, &notice->proc, PMIX_RANGE_LOCAL, notice->info, 2,
	                           on_notified, notice);
	if (status != PMIX_SUCCESS) {
		pmix_ok(status, "notice of a failed rank");
		free(notice);
	}
}

void
server_tell(int i, int status)
{
	struct rank *r = &job.ranks[i];
	bool silent;

	pthread_mutex_lock(&job.lock);
	silent = r->connected && !r->finalized;
	pthread_mutex_unlock(&job.lock);
	if (WIFSIGNALED(status))
		notify(i, PMIX_ERR_PROC_ABORTED);
	else if (WEXITSTATUS(status))
		notify(i, PMIX_ERR_EXIT_NONZERO_TERM);
	else if (silent)
		notify(i, PMIX_ERR_PROC_TERM_WO_SYNC);
}

bool
server_add_rank(int i)
{
	pmix_proc_t proc;

	PMIX_LOAD_PROCID(&proc, job.name, (pmix_rank_t)i);
	return pmix_ok(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL),
	               "registration of a rank");
}

bool
server_add_env(int i, char ***env)
{
	pmix_proc_t proc;

	PMIX_LOAD_PROCID(&proc, job.name, (pmix_rank_t)i);
	return pmix_ok(PMIx_server_setup_fork(&proc, env), "environment of a rank");
}

const char *
server_version(void)
{
	return PMIx_Get_version();
}
