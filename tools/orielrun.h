/*
 * orielrun.h - the parts of orielrun: orielrun.c (options and the loop),
 * orielrun_ranks.c (starting and ending ranks), orielrun_output.c (their output),
 * orielrun_server.c (PMIx). One thread runs all of it but the server's callbacks,
 * which come from PMIx's thread and touch only what job.lock guards.
 */
#ifndef TOOLS_ORIELRUN_H
#define TOOLS_ORIELRUN_H

#include "base/base.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define RANKS_MAX 4096
#define ENV_MAX 256
#define SINK_HIGH ((size_t)1 << 18) /* no more is read from the ranks above it */

struct sink { /* our stdout or stderr; fd -1: nobody reads it any more */
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
	pid_t pid; /* leads its process group; 0: not running */
	int exec_error;
	struct stream out[2];
	bool connected, finalized; /* under job.lock */
};

struct job {
	/* Options. */
	int n;
	bool tag, keep_going, bind, verbose;
	uint64_t timeout_ns, grace_ns;
	char **program;
	char *env[ENV_MAX];
	int n_env;
	/* The run. */
	struct rank *ranks;
	int n_live;
	int code;    /* exit status; -1 until the first failure */
	bool ending; /* the ranks have been told to end */
	int n_interrupts;
	uint64_t started, deadline, kill_at;
	int signal_fd, wake_fd, null_fd;
	int exec_fd[2]; /* a child that cannot run the program says so here */
	int tty_fd;     /* to rank 0's stdin, if ours is a terminal */
	struct sink sink[2];
	char dir[1100]; /* temporary */
	char host[256];
	char name[256]; /* PMIx's namespace */
	/* For the ranks: what we had before we changed it. */
	sigset_t old_mask;
	struct rlimit old_files;
	/* PMIx_Abort, under lock; the rest is written once, before aborted. */
	pthread_mutex_t lock;
	bool aborted;
	int abort_rank, abort_code;
	char abort_text[256];
};

extern struct job job;

/* A line of our own to stderr. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sink_flush(struct sink *s);
/* Reads what is there and hands whole lines to the sink; which: 0 stdout, 1 stderr. */
void stream_read(int rank, int which);
/* True: what the terminal offers can be read and given to rank 0 at once. */
bool tty_wanted(void);
void tty_relay(void);

/* False: it has said why. */
bool server_start(void);
void server_stop(void);
bool server_add_rank(int i);
/* Adds what the rank's PMIx needs; *env and its strings are malloc'd. */
bool server_add_env(int i, char ***env);
/* Tells the living ranks how rank i ended (a wait status), if that was a failure. */
void server_tell(int i, int status);
const char *server_version(void);

bool rank_start(int i);
/* Sees to all ranks that have ended. */
void ranks_reap(void);
/* Asks all ranks to end; after the grace time the loop kills them. */
void ranks_end(int sig);
void ranks_signal(int sig);
/* The job's exit status, unless it has one. */
void job_failed(int code);

#endif
