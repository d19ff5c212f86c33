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
#include "tools/orielrun.h"
#include "oriel.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define DRAIN_NS 500000000u /* for output that outlives the ranks */
#define CODE_USAGE 2
#define CODE_TIMEOUT 124

struct job job = { .code = -1,
	           .timeout_ns = ORIEL_FOREVER,
	           .grace_ns = 2000000000,
	           .tty_fd = -1,
	           .sink = { { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } },
	           .lock = PTHREAD_MUTEX_INITIALIZER };

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
		ranks_end(job.n_interrupts++ ? SIGKILL : sig);
	}
	ranks_reap();
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
	job_failed(job.abort_code & 0xff);
	ranks_end(SIGTERM);
}

static void
on_time(void)
{
	uint64_t now = now_ns();

	if (now >= job.deadline && !job.ending) {
		say("the job has not ended in %.3g s", (double)job.timeout_ns / 1e9);
		job_failed(CODE_TIMEOUT);
		ranks_end(SIGTERM);
	}
	if (job.ending && now >= job.kill_at && job.n_live) {
		say("killing %d ranks that did not end", job.n_live);
		ranks_signal(SIGKILL);
		job.kill_at = ORIEL_FOREVER;
	}
}

static int
poll_timeout(uint64_t until)
{
	uint64_t now = now_ns();

	if (until == ORIEL_FOREVER)
		return -1;
	if (until <= now)
		return 0;
	return (until - now) / 1000000 >= INT_MAX ? INT_MAX : (int)((until - now) / 1000000) + 1;
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
		tty_relay();
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
		job_failed(1);
		ranks_end(SIGKILL);
		while (job.n_live)
			ranks_reap();
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
		turn(p, ORIEL_FOREVER);
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
		return !value || job.keep_going || !strcmp(value, "yes")
		               ? NULL
		               : "--kill-on-failure is yes or no";
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
			       ORIEL_VERSION_MINOR, ORIEL_VERSION_PATCH, server_version());
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
	job.deadline = deadline_after(job.timeout_ns);
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
	if (!server_start()) {
		nftw(job.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		return 1;
	}
	for (int i = 0; started && i < job.n; i++)
		started = rank_start(i);
	if (!started) {
		job_failed(1);
		ranks_end(SIGKILL);
	} else if (job.verbose) {
		say("%d ranks of job %s started in %.1f ms", job.n, job.name,
		    (double)(now_ns() - job.started) / 1e6);
	}
	run();
	server_stop();
	nftw(job.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(job.ranks);
	return job.code < 0 ? 0 : job.code;
}
