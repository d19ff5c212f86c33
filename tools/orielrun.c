/*
 * orielrun - starts the ranks of a job on this machine, with a PMIx server inside.
 *
 * One thread does everything but PMIx's callbacks: it starts the ranks, then polls
 * a signalfd (deaths of ranks, signals for the job), an eventfd (PMIx_Abort), and
 * with --tag the ranks' output. PMIx's thread only sets flags under job.lock.
 *
 * A rank is the leader of a process group, so that signals reach what it started,
 * and it dies with orielrun (PR_SET_PDEATHSIG).
 */
#if __has_include("config.h")
#include "config.h"
#endif

#include "oriel.h"

#include <stdio.h>

#if defined(HAVE_PMIX) && HAVE_PMIX

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 4096
#define LINE_CAP ((size_t)1 << 20)  /* a longer line is cut */
#define SINK_HIGH ((size_t)1 << 18) /* no more is read from the ranks above it */
#define DRAIN_NS 500000000u         /* for output that outlives the ranks */
#define NEVER UINT64_MAX
#define CODE_USAGE 2
#define CODE_TIMEOUT 124

struct sink { /* our stdout or stderr */
	int fd;
	char *buf;
	size_t len, cap;
};

struct stream { /* a rank's stdout or stderr; fd -1: none, or at its end */
	int fd;
	char *buf;
	size_t len, cap;
};

struct rank {
	pid_t pid; /* 0: not running */
	int exec_error;
	struct stream out[2];
	/* Under job.lock: */
	bool connected, finalized;
};

static struct {
	/* Options. */
	int n;
	bool tag, keep_going, bind, verbose;
	uint64_t timeout_ns, grace_ns;
	char **program;
	char *env[256];
	int n_env;
	/* The run. */
	struct rank *ranks;
	int n_live;
	int code;    /* -1 until the first failure */
	bool ending; /* the ranks have been told to end */
	int n_interrupts;
	uint64_t started, deadline, kill_at;
	int signal_fd, wake_fd, exec_fd[2], null_fd, tty_fd; /* tty_fd: to rank 0's stdin */
	sigset_t old_mask;
	struct rlimit old_files;
	struct sink sink[2];
	char dir[PATH_MAX];
	char host[256];
	pmix_nspace_t nspace;
	/* PMIx_Abort, under lock: */
	pthread_mutex_t lock;
	bool aborted;
	int abort_rank, abort_code;
	char abort_text[256];
} job = { .code = -1,
	  .timeout_ns = NEVER,
	  .grace_ns = 2000000000,
	  .tty_fd = -1,
	  .sink = { { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } },
	  .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- Output: whole lines into a sink, which is written as it accepts ------ */

static void
sink_add(struct sink *s, const char *bytes, size_t len)
{
	if (s->fd < 0)
		return;
	if (len > s->cap - s->len) {
		size_t cap = 2 * s->cap + len;
		char *p = realloc(s->buf, cap);

		if (!p)
			return; /* A line is lost; the job is worth more. */
		s->buf = p;
		s->cap = cap;
	}
	memcpy(s->buf + s->len, bytes, len);
	s->len += len;
}

/* At most PIPE_BUF at a time: poll() promises no more room than that. */
static void
sink_flush(struct sink *s)
{
	size_t want = s->len < PIPE_BUF ? s->len : PIPE_BUF;
	ssize_t n = want ? write(s->fd, s->buf, want) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		s->fd = -1; /* Nobody reads any more. */
		s->len = 0;
	} else if (n > 0) {
		s->len -= (size_t)n;
		memmove(s->buf, s->buf + n, s->len);
	}
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
say(const char *fmt, ...)
{
	static const char name[] = "orielrun: ";
	char line[1024];
	size_t n = sizeof(name) - 1;
	va_list ap;

	memcpy(line, name, n);
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	sink_add(&job.sink[1], line, n);
	if (!job.tag)
		sink_flush(&job.sink[1]);
}

static void
emit_line(int rank, int which, const char *line, size_t len)
{
	char tag[32];
	int n = snprintf(tag, sizeof(tag), "[%d] ", rank);

	sink_add(&job.sink[which], tag, (size_t)n);
	sink_add(&job.sink[which], line, len);
	if (!len || line[len - 1] != '\n')
		sink_add(&job.sink[which], "\n", 1);
}

static bool
stream_grow(struct stream *s)
{
	size_t cap = s->cap ? 2 * s->cap : 4096;
	char *p;

	if (s->len < s->cap)
		return true;
	if (cap > LINE_CAP)
		return false;
	p = realloc(s->buf, cap);
	if (!p)
		return false;
	s->buf = p;
	s->cap = cap;
	return true;
}

static void
stream_read(int rank, int which)
{
	struct stream *s = &job.ranks[rank].out[which];
	size_t from = 0;
	ssize_t n;
	char *end;

	if (!stream_grow(s)) {
		emit_line(rank, which, s->buf, s->len);
		s->len = 0;
	}
	n = read(s->fd, s->buf + s->len, s->cap - s->len);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		if (s->len)
			emit_line(rank, which, s->buf, s->len);
		close(s->fd);
		free(s->buf);
		*s = (struct stream){ .fd = -1 };
		return;
	}
	s->len += (size_t)n;
	while ((end = memchr(s->buf + from, '\n', s->len - from))) {
		emit_line(rank, which, s->buf + from, (size_t)(end + 1 - s->buf) - from);
		from = (size_t)(end + 1 - s->buf);
	}
	s->len -= from;
	memmove(s->buf, s->buf + from, s->len);
}

/* ---- Ending the job ------------------------------------------------------- */

static void
signal_ranks(int sig)
{
	for (int i = 0; i < job.n; i++)
		if (job.ranks[i].pid)
			kill(-job.ranks[i].pid, sig);
}

/* A stopped rank acts on a signal only when it is continued. */
static void
end_ranks(int sig)
{
	if (!job.ending)
		job.kill_at = now_ns() + job.grace_ns;
	job.ending = true;
	signal_ranks(sig);
	if (sig != SIGKILL)
		signal_ranks(SIGCONT);
}

static void
failed(int code)
{
	if (job.code < 0)
		job.code = code;
}

/* ---- The PMIx server: callbacks run in PMIx's thread ---------------------- */

static bool
known_rank(const pmix_proc_t *proc)
{
	return PMIX_CHECK_NSPACE(proc->nspace, job.nspace) && proc->rank < (pmix_rank_t)job.n;
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
on_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
         pmix_proc_t procs[], size_t n_procs, pmix_op_cbfunc_t done, void *arg)
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
on_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info,
         pmix_modex_cbfunc_t done, void *arg)
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

/* ---- The PMIx server: what the main thread does --------------------------- */

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
	PMIX_INFO_LOAD(&info[8], PMIX_JOBID, job.nspace, PMIX_STRING);
	for (int i = 0; i < job.n; i++)
		load_rank_info(&info[JOB_KEYS + i], i);
	ok = pmix_ok(PMIx_server_register_nspace(job.nspace, job.n, info, n_info, NULL, NULL),
	             "registration of the job");
	PMIX_INFO_FREE(info, n_info);
out:
	free(nodes);
	free(ranks);
	return ok;
}

static bool
start_server(void)
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
	snprintf(job.nspace, sizeof(job.nspace), "orielrun-%.64s-%d-%llx", job.host, (int)getpid(),
	         (unsigned long long)job.started);
	if (register_job())
		return true;
	PMIx_server_finalize();
	return false;
}

static void
stop_server(void)
{
	PMIx_server_deregister_nspace(job.nspace, NULL, NULL);
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
notify_ranks(int i, pmix_status_t code)
{
	struct notice {
		pmix_proc_t proc;
		pmix_info_t info[2];
	} *notice = calloc(1, sizeof(*notice));
	bool no = false;
	pmix_status_t status;

	if (!notice)
		return;
	PMIX_LOAD_PROCID(&notice->proc, job.nspace, (pmix_rank_t)i);
	PMIX_INFO_LOAD(&notice->info[0], PMIX_EVENT_AFFECTED_PROC, &notice->proc, PMIX_PROC);
	PMIX_INFO_LOAD(&notice->info[1], PMIX_EVENT_NON_DEFAULT, &no, PMIX_BOOL);
	status = PMIx_Notify_event(code, &notice->proc, PMIX_RANGE_LOCAL, notice->info, 2,
	                           on_notified, notice);
	if (status != PMIX_SUCCESS) {
		pmix_ok(status, "notice of a failed rank");
		free(notice);
	}
}

/* ---- Starting ranks ------------------------------------------------------- */

/* Hardware threads of one core share the number of their lowest one. */
static int
core_of(int cpu)
{
	char path[128];
	int core = cpu;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
	         cpu);
	f = fopen(path, "re");
	if (!f)
		return cpu;
	if (fscanf(f, "%d", &core) != 1)
		core = cpu;
	fclose(f);
	return core;
}

/* The CPUs of the which-th core, round robin, of those that we may use ourselves. */
static bool
pick_core(int which, cpu_set_t *cpus)
{
	int core[CPU_SETSIZE], cores[CPU_SETSIZE], n = 0;
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int at = 0;

		core[cpu] = CPU_ISSET(cpu, &allowed) ? core_of(cpu) : -1;
		while (at < n && cores[at] != core[cpu])
			at++;
		if (at == n && core[cpu] >= 0)
			cores[n++] = core[cpu];
	}
	CPU_ZERO(cpus);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (n && core[cpu] == cores[which % n])
			CPU_SET(cpu, cpus);
	return n > 0;
}

struct exec_note { /* what a child writes when it cannot run the program */
	int rank, error;
};

/* Between fork and exec of a process with threads: only what a signal handler may call. */
static void __attribute__((noreturn))
be_rank(int i, const int fd[3], const cpu_set_t *cpus, char **env, pid_t parent)
{
	struct exec_note note = { .rank = i };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	setpgid(0, 0);
	for (int k = 0; k < 3; k++)
		if (fd[k] >= 0 && dup2(fd[k], k) < 0)
			_exit(127);
	if (cpus)
		sched_setaffinity(0, sizeof(*cpus), cpus);
	setrlimit(RLIMIT_NOFILE, &job.old_files);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &job.old_mask, NULL);
	execvpe(job.program[0], job.program, env);
	note.error = errno;
	if (write(job.exec_fd[1], &note, sizeof(note)) < 0) {
		/* The exit status says it too. */
	}
	_exit(127);
}

static void
free_env(char **env)
{
	for (char **e = env; e && *e; e++)
		free(*e);
	free(env);
}

static bool
env_is(const char *entry, const char *assignment)
{
	size_t n = (size_t)(strchr(assignment, '=') - assignment) + 1;

	return !strncmp(entry, assignment, n);
}

/* Ours, plus what PMIx needs, plus --env; malloc'd as PMIx_server_setup_fork wants it. */
static char **
make_env(int i)
{
	size_t n = 0, kept = 0;
	pmix_proc_t proc;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + (size_t)job.n_env + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t k = 0; k < n; k++) {
		bool replaced = false;

		for (int o = 0; o < job.n_env; o++)
			replaced = replaced || env_is(environ[k], job.env[o]);
		if (!replaced)
			env[kept++] = strdup(environ[k]);
	}
	for (int o = 0; o < job.n_env; o++)
		env[kept++] = strdup(job.env[o]);
	PMIX_LOAD_PROCID(&proc, job.nspace, (pmix_rank_t)i);
	if (pmix_ok(PMIx_server_setup_fork(&proc, &env), "environment of a rank"))
		return env;
	free_env(env);
	return NULL;
}

/* One end of a pipe for the rank, the other for us; none of them survives an exec. */
static bool
make_stream(struct stream *s, int *rank_end)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC)) {
		say("pipe: %s", strerror(errno));
		return false;
	}
	s->fd = fd[0];
	*rank_end = fd[1];
	return true;
}

/* Rank 0 reads what we would; from a terminal through us, because its group is not the foreground. */
static bool
make_stdin(int i, int *rank_end)
{
	int fd[2];

	if (i > 0) {
		*rank_end = job.null_fd;
		return true;
	}
	if (!isatty(STDIN_FILENO))
		return true;
	if (pipe2(fd, O_CLOEXEC) || fcntl(fd[1], F_SETFL, O_NONBLOCK)) {
		say("pipe: %s", strerror(errno));
		return false;
	}
	*rank_end = fd[0];
	job.tty_fd = fd[1];
	return true;
}

static bool
start_rank(int i)
{
	struct rank *r = &job.ranks[i];
	int fd[3] = { -1, -1, -1 };
	pid_t parent = getpid(), pid;
	cpu_set_t cpus;
	pmix_proc_t proc;
	char **env;
	bool ok;

	PMIX_LOAD_PROCID(&proc, job.nspace, (pmix_rank_t)i);
	ok = pmix_ok(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL),
	             "registration of a rank");
	ok = ok && make_stdin(i, &fd[0]);
	ok = ok && (!job.tag || (make_stream(&r->out[0], &fd[1]) && make_stream(&r->out[1], &fd[2])));
	if (ok && job.bind && !pick_core(i, &cpus)) {
		say("--bind core: this process may run on no CPU that it can name");
		ok = false;
	}
	env = ok ? make_env(i) : NULL;
	pid = env ? fork() : -1;
	if (!pid)
		be_rank(i, fd, job.bind ? &cpus : NULL, env, parent);
	if (pid < 0)
		say("rank %d cannot be started: %s", i, strerror(errno));
	free_env(env);
	for (int k = 0; k < 3; k++)
		if (fd[k] >= 0 && fd[k] != job.null_fd)
			close(fd[k]);
	if (pid < 0)
		return false;
	setpgid(pid, pid); /* The child does it too: whoever comes first. */
	r->pid = pid;
	job.n_live++;
	if (job.verbose)
		say("rank %d is process %d", i, (int)pid);
	return true;
}

/* ---- The end of ranks ----------------------------------------------------- */

static void
read_exec_notes(void)
{
	struct exec_note note;

	while (read(job.exec_fd[0], &note, sizeof(note)) == sizeof(note))
		job.ranks[note.rank].exec_error = note.error;
}

/* Exit status for the rank's end; 0: it was no failure. *text says what happened. */
static int
judge(const struct rank *r, int status, char text[256])
{
	if (r->exec_error) {
		snprintf(text, 256, "cannot run %.180s: %s", job.program[0],
		         strerror(r->exec_error));
		return r->exec_error == ENOENT ? 127 : 126;
	}
	if (WIFSIGNALED(status)) {
		snprintf(text, 256, "was killed by signal %d (%s)%s", WTERMSIG(status),
		         strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
		return 128 + WTERMSIG(status);
	}
	snprintf(text, 256, "exited with status %d", WEXITSTATUS(status));
	return WEXITSTATUS(status);
}

static void
tell_others(int i, int status)
{
	struct rank *r = &job.ranks[i];
	bool silent;

	pthread_mutex_lock(&job.lock);
	silent = r->connected && !r->finalized;
	pthread_mutex_unlock(&job.lock);
	if (WIFSIGNALED(status))
		notify_ranks(i, PMIX_ERR_PROC_ABORTED);
	else if (WEXITSTATUS(status))
		notify_ranks(i, PMIX_ERR_EXIT_NONZERO_TERM);
	else if (silent)
		notify_ranks(i, PMIX_ERR_PROC_TERM_WO_SYNC);
}

static void
rank_ended(int i, int status)
{
	char text[256];
	int code;

	read_exec_notes();
	code = judge(&job.ranks[i], status, text);
	if (job.verbose || (code && !job.ending))
		say("rank %d (process %d) %s%s", i, (int)job.ranks[i].pid, text,
		    code && !job.ending && !job.keep_going && job.n_live > 1 ?
		            "; ending the others" :
		            "");
	if (code)
		failed(code);
	if (job.n_live > 1 && !job.ending)
		tell_others(i, status);
	/* Its process group may hold more than the rank; the number is ours until it is reaped. */
	if (code || job.ending)
		kill(-job.ranks[i].pid, SIGKILL);
	waitpid(job.ranks[i].pid, NULL, 0);
	job.ranks[i].pid = 0;
	job.n_live--;
	if (code && !job.keep_going && !job.ending)
		end_ranks(SIGTERM);
}

static void
reap(void)
{
	siginfo_t si = { 0 };

	while (!waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid) {
		int i = 0;

		while (i < job.n && job.ranks[i].pid != si.si_pid)
			i++;
		if (i == job.n)
			waitpid(si.si_pid, NULL, 0); /* None of the ranks. */
		else
			rank_ended(i, si.si_code == CLD_EXITED ? (si.si_status & 0xff) << 8 :
			                                         si.si_status);
		si.si_pid = 0;
	}
}

/* ---- The loop ------------------------------------------------------------- */

static void
on_signals(void)
{
	struct signalfd_siginfo si;

	while (read(job.signal_fd, &si, sizeof(si)) == sizeof(si)) {
		int sig = (int)si.ssi_signo;

		if (sig == SIGCHLD)
			continue;
		say("%s: %s", strsignal(sig),
		    job.n_interrupts ? "killing the ranks" : "handed to the ranks");
		end_ranks(job.n_interrupts++ ? SIGKILL : sig);
	}
	reap();
}

static void
on_wake(void)
{
	uint64_t count;
	bool aborted;

	if (read(job.wake_fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&job.lock);
	aborted = job.aborted;
	pthread_mutex_unlock(&job.lock);
	/* on_abort writes the rest once, before it sets aborted. */
	if (!aborted || job.ending)
		return;
	say("rank %d aborted the job with code %d%s%s", job.abort_rank, job.abort_code,
	    job.abort_text[0] ? ": " : "", job.abort_text);
	failed(job.abort_code & 0xff);
	end_ranks(SIGTERM);
}

static void
on_time(void)
{
	uint64_t now = now_ns();

	if (now >= job.deadline && !job.ending) {
		say("the job has not ended in %.3g s", (double)job.timeout_ns / 1e9);
		failed(CODE_TIMEOUT);
		end_ranks(SIGTERM);
	}
	if (job.ending && now >= job.kill_at && job.n_live) {
		say("killing %d ranks that did not end", job.n_live);
		signal_ranks(SIGKILL);
		job.kill_at = NEVER;
	}
}

static int
poll_timeout(uint64_t until)
{
	uint64_t now = now_ns();

	if (until == NEVER)
		return -1;
	if (until <= now)
		return 0;
	return (until - now) / 1000000 >= INT_MAX ? INT_MAX : (int)((until - now) / 1000000) + 1;
}

static void
relay_tty(void)
{
	char buf[PIPE_BUF];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0 || write(job.tty_fd, buf, (size_t)n) < 0) {
		close(job.tty_fd);
		job.tty_fd = -1;
	}
}

/* Reading a terminal from the background would stop us; with a full pipe the line must wait. */
static bool
tty_wanted(void)
{
	struct pollfd p = { .fd = job.tty_fd, .events = POLLOUT };

	return job.tty_fd >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp() && poll(&p, 1, 0) == 1;
}

enum { AT_SIGNAL, AT_WAKE, AT_TTY, AT_OUT, AT_ERR, AT_RANKS };

static bool
streams_open(void)
{
	for (int k = 0; k < 2 * job.n; k++)
		if (job.ranks[k / 2].out[k % 2].fd >= 0)
			return true;
	return false;
}

/* Waits for something, and does it. */
static void
turn(struct pollfd *p, uint64_t until)
{
	for (int k = 0; k < AT_RANKS; k++)
		p[k] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[AT_SIGNAL].fd = job.signal_fd;
	p[AT_WAKE].fd = job.wake_fd;
	if (tty_wanted())
		p[AT_TTY].fd = STDIN_FILENO;
	for (int w = 0; w < 2; w++)
		if (job.sink[w].len)
			p[AT_OUT + w] = (struct pollfd){ .fd = job.sink[w].fd, .events = POLLOUT };
	for (int k = 0; k < 2 * job.n; k++) {
		int fd = job.ranks[k / 2].out[k % 2].fd;

		p[AT_RANKS + k] = (struct pollfd){ .fd = fd, .events = POLLIN };
		if (job.sink[k % 2].len >= SINK_HIGH)
			p[AT_RANKS + k].fd = -1;
	}
	if (poll(p, (nfds_t)(AT_RANKS + 2 * job.n), poll_timeout(until)) < 0)
		return;
	for (int k = 0; k < 2 * job.n; k++)
		if (p[AT_RANKS + k].revents)
			stream_read(k / 2, k % 2);
	for (int w = 0; w < 2; w++)
		if (p[AT_OUT + w].revents)
			sink_flush(&job.sink[w]);
	if (p[AT_TTY].revents)
		relay_tty();
	if (p[AT_WAKE].revents)
		on_wake();
	if (p[AT_SIGNAL].revents)
		on_signals();
}

static void
run(void)
{
	struct pollfd *p = calloc(AT_RANKS + 2 * (size_t)job.n, sizeof(*p));
	uint64_t drained;
	int interrupts;

	if (!p) {
		say("out of memory");
		failed(1);
		end_ranks(SIGKILL);
		while (job.n_live)
			reap();
		return;
	}
	while (job.n_live) {
		uint64_t until = job.ending ? job.kill_at : job.deadline;

		turn(p, until);
		on_time();
	}
	/* What the ranks started may keep the pipes open: not our job any more. */
	drained = now_ns() + DRAIN_NS;
	interrupts = job.n_interrupts;
	while (streams_open() && now_ns() < drained && job.n_interrupts == interrupts)
		turn(p, drained);
	while ((job.sink[0].len || job.sink[1].len) && job.n_interrupts == interrupts)
		turn(p, NEVER);
	free(p);
}

/* ---- Set-up and options --------------------------------------------------- */

static const char usage[] =
	"usage: orielrun -n N [options] program [arguments]\n"
	"Starts N ranks of a program on this machine and lets them find each other by PMIx.\n"
	"\n"
	"  -n N                      ranks, 1 to 4096\n"
	"  --tag                     put \"[rank] \" before each line of the ranks' output\n"
	"  --kill-on-failure[=yes|no]\n"
	"                            yes (default): when a rank fails, end the others;\n"
	"                            no: let them go on, and tell them by a PMIx event\n"
	"  --timeout SECONDS         end the job after so long, with status 124\n"
	"  --grace SECONDS           from the request to end until ranks are killed (2)\n"
	"  --bind core               pin rank i to core i, round robin\n"
	"  --env NAME=VALUE          for the ranks' environment; may be given again\n"
	"  -v                        say what happens\n"
	"  --help, --version\n"
	"\n"
	"A rank fails when it exits with a status other than 0 or dies by a signal. The status\n"
	"is 0, or that of the first rank to fail (128 + its signal), or the code that a rank gave\n"
	"to PMIx_Abort; 127: no such program; 2: wrong usage; 1: orielrun itself failed.\n"
	"SIGINT, SIGTERM and SIGHUP are handed to the ranks; the second one kills them. Rank 0\n"
	"reads orielrun's standard input, the others /dev/null.\n";

static bool
parse_seconds(const char *text, uint64_t *ns)
{
	char *end;
	double d = strtod(text, &end);

	if (end == text || *end || !(d >= 0) || d > 1e9)
		return false;
	*ns = (uint64_t)(d * 1e9);
	return true;
}

static bool
parse_count(const char *text, int *n)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v < 1 || v > RANKS_MAX)
		return false;
	*n = (int)v;
	return true;
}

enum { OPT_TAG = 256, OPT_KILL, OPT_TIMEOUT, OPT_GRACE, OPT_BIND, OPT_ENV, OPT_HELP, OPT_VERSION };

/* 0: it was taken; else why not. */
static const char *
take_option(int opt, char *value)
{
	switch (opt) {
	case 'n':
		return parse_count(value, &job.n) ? NULL : "-n wants a number from 1 to 4096";
	case 'v':
		job.verbose = true;
		return NULL;
	case OPT_TAG:
		job.tag = true;
		return NULL;
	case OPT_KILL:
		job.keep_going = value && !strcmp(value, "no");
		return !value || job.keep_going || !strcmp(value, "yes") ?
		               NULL :
		               "--kill-on-failure is yes or no";
	case OPT_TIMEOUT:
		return parse_seconds(value, &job.timeout_ns) ? NULL : "--timeout wants seconds";
	case OPT_GRACE:
		return parse_seconds(value, &job.grace_ns) ? NULL : "--grace wants seconds";
	case OPT_BIND:
		job.bind = !strcmp(value, "core");
		return job.bind || !strcmp(value, "none") ? NULL : "--bind is core or none";
	case OPT_ENV:
		if (!strchr(value, '=') || *value == '=')
			return "--env wants NAME=VALUE";
		if (job.n_env == (int)(sizeof(job.env) / sizeof(job.env[0])))
			return "--env was given too often";
		job.env[job.n_env++] = value;
		return NULL;
	default:
		return "see orielrun --help";
	}
}

/* True: go on; else *status is the exit status. */
static bool
parse_options(int argc, char **argv, int *status)
{
	static const struct option options[] = {
		{ "tag", no_argument, NULL, OPT_TAG },
		{ "kill-on-failure", optional_argument, NULL, OPT_KILL },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "grace", required_argument, NULL, OPT_GRACE },
		{ "bind", required_argument, NULL, OPT_BIND },
		{ "env", required_argument, NULL, OPT_ENV },
		{ "help", no_argument, NULL, OPT_HELP },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	const char *wrong = NULL;
	int opt;

	*status = 0;
	while (!wrong && (opt = getopt_long(argc, argv, "+n:v", options, NULL)) != -1) {
		if (opt == OPT_HELP) {
			fputs(usage, stdout);
			return false;
		}
		if (opt == OPT_VERSION) {
			printf("orielrun %d.%d.%d, with %s\n", ORIEL_VERSION_MAJOR,
			       ORIEL_VERSION_MINOR, ORIEL_VERSION_PATCH, PMIx_Get_version());
			return false;
		}
		wrong = take_option(opt, optarg);
	}
	if (!wrong && !job.n)
		wrong = "-n N is missing";
	if (!wrong && optind == argc)
		wrong = "the program is missing";
	job.program = argv + optind;
	if (wrong) {
		fprintf(stderr, "orielrun: %s\n", wrong);
		*status = CODE_USAGE;
	}
	return !wrong;
}

/* We may have been started by another launcher; its variables must not reach the ranks. */
static void
forget_launchers(void)
{
	for (char **e = environ; *e;) {
		char name[256];
		size_t n = strcspn(*e, "=");
		bool foreign = (!strncmp(*e, "PMIX_", 5) && strncmp(*e, "PMIX_MCA_", 9)) ||
		               !strncmp(*e, "PMI_", 4);

		if (!foreign || n >= sizeof(name)) {
			e++;
			continue;
		}
		memcpy(name, *e, n);
		name[n] = '\0';
		unsetenv(name); /* The next entry moves here. */
	}
}

static bool
set_up(void)
{
	const char *tmp = getenv("TMPDIR");
	struct rlimit files;
	sigset_t mask;

	forget_launchers();
	job.started = now_ns();
	job.deadline = job.timeout_ns == NEVER ? NEVER : job.started + job.timeout_ns;
	if (gethostname(job.host, sizeof(job.host)))
		strcpy(job.host, "localhost");
	job.host[sizeof(job.host) - 1] = '\0';
	/* Sockets and pipes of each rank: as many as the system lets us have. */
	getrlimit(RLIMIT_NOFILE, &job.old_files);
	files = job.old_files;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	/* Before PMIx starts its thread, which inherits the mask. */
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, &job.old_mask);
	job.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	job.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	job.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	job.ranks = calloc((size_t)job.n, sizeof(*job.ranks));
	if (job.signal_fd < 0 || job.wake_fd < 0 || job.null_fd < 0 || !job.ranks ||
	    pipe2(job.exec_fd, O_CLOEXEC) || fcntl(job.exec_fd[0], F_SETFL, O_NONBLOCK)) {
		say("cannot start: %s", strerror(errno));
		return false;
	}
	for (int i = 0; i < job.n; i++)
		job.ranks[i].out[0].fd = job.ranks[i].out[1].fd = -1;
	snprintf(job.dir, sizeof(job.dir), "%.1024s/orielrun.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(job.dir)) {
		say("%s: %s", job.dir, strerror(errno));
		return false;
	}
	return true;
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

int
main(int argc, char **argv)
{
	bool started = true;
	int status;

	if (!parse_options(argc, argv, &status))
		return status;
	if (!set_up())
		return 1;
	if (!start_server()) {
		nftw(job.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		return 1;
	}
	for (int i = 0; started && i < job.n; i++)
		started = start_rank(i);
	if (!started) {
		failed(1);
		end_ranks(SIGKILL);
	} else if (job.verbose) {
		say("%d ranks of job %s started in %.1f ms", job.n, job.nspace,
		    (double)(now_ns() - job.started) / 1e6);
	}
	run();
	stop_server();
	nftw(job.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(job.ranks);
	return job.code < 0 ? 0 : job.code;
}

#else

int
main(void)
{
	fputs("orielrun: this build has no PMIx, which orielrun needs: configure --with-pmix\n",
	      stderr);
	return 1;
}

#endif
