/* How ranks are started and how they end. */
#include "tools/orielrun.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
	if (server_add_env(i, &env))
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

/* Rank 0 reads what we would; from a terminal through us, because its group is not the foreground.
 */
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

bool
rank_start(int i)
{
	struct rank *r = &job.ranks[i];
	int fd[3] = { -1, -1, -1 };
	pid_t parent = getpid(), pid;
	cpu_set_t cpus;
	char **env;
	bool ok;

	ok = server_add_rank(i) && make_stdin(i, &fd[0]);
	ok = ok &&
	     (!job.tag || (make_stream(&r->out[0], &fd[1]) && make_stream(&r->out[1], &fd[2])));
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
rank_ended(int i, int status)
{
	char text[256];
	int code;

	read_exec_notes();
	code = judge(&job.ranks[i], status, text);
	if (job.verbose || (code && !job.ending))
		say("rank %d (process %d) %s%s", i, (int)job.ranks[i].pid, text,
		    code && !job.ending && !job.keep_going && job.n_live > 1 ? "; ending the others"
		                                                             : "");
	if (code)
		job_failed(code);
	if (job.n_live > 1 && !job.ending && (!code || job.keep_going))
		server_tell(i, status);
	/* Its process group may hold more than the rank; the number is ours until it is reaped. */
	if (code || job.ending)
		kill(-job.ranks[i].pid, SIGKILL);
	waitpid(job.ranks[i].pid, NULL, 0);
	job.ranks[i].pid = 0;
	job.n_live--;
	if (code && !job.keep_going && !job.ending)
		ranks_end(SIGTERM);
}

void
ranks_reap(void)
{
	siginfo_t si = { 0 };

	while (!waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid) {
		int i = 0;

		while (i < job.n && job.ranks[i].pid != si.si_pid)
			i++;
		if (i == job.n)
			waitpid(si.si_pid, NULL, 0); /* None of the ranks. */
		else
			rank_ended(i, si.si_code == CLD_EXITED ? (si.si_status & 0xff) << 8
			                                       : si.si_status);
		si.si_pid = 0;
	}
}

/* ---- Ending the job ------------------------------------------------------- */

void
ranks_signal(int sig)
{
	for (int i = 0; i < job.n; i++)
		if (job.ranks[i].pid)
			kill(-job.ranks[i].pid, sig);
}

/* A stopped rank acts on a signal only when it is continued. */
void
ranks_end(int sig)
{
	if (!job.ending)
		job.kill_at = now_ns() + job.grace_ns;
	job.ending = true;
	ranks_signal(sig);
	if (sig != SIGKILL)
		ranks_signal(SIGCONT);
}

void
job_failed(int code)
{
	if (job.code < 0)
		job.code = code;
}
