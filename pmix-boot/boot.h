/*
 * boot.h - how a rank finds the others: PMIx, the user's functions, threads of
 * one process, or nobody.
 *
 * Life cycle: boot_open, then boot_put any number of times, one boot_fence, then
 * boot_get lazily for the peers that are needed; boot_close at the end. After
 * boot_leave (fault-tolerant mode) the launcher no longer counts this rank as
 * connected; only boot_get of records that were collected still works. Further
 * rounds of put and fence are legal before that; a fence is also a barrier.
 *
 * Every wait has a timeout. Threads: boot_get may be called from any thread,
 * the others from the thread that opened. A process may hold several boots at
 * a time (several contexts). Under PMIx the n-th boot of one process pairs with
 * the n-th of every other, so they are opened and fenced in the same order
 * everywhere. The process stays connected until it exits after its last boot_close;
 * one that exits with an open boot has failed, for the launcher.
 */
#ifndef PMIX_BOOT_BOOT_H
#define PMIX_BOOT_BOOT_H

#include "base/knobs.h"

#define BOOT_KEY_MAX 63 /* characters of a key; at least one */
#define BOOT_NOT_ASKED (-1)
#define BOOT_NOBODY 1 /* open: no launcher is there, try the next kind */

struct boot;

/* One kind of bootstrap; each function returns 0 or an error with its detail. */
struct boot_ops {
	const char *name; /* "pmix", "user", "singleton" */
	/*
	 * Fills rank, size, n_local, local (malloc), job, host, launcher and priv.
	 * On an error, or BOOT_NOBODY, it leaves nothing behind but perhaps local.
	 */
	int (*open)(struct boot *b, const struct oriel_bootstrap *user, uint64_t timeout_ns);
	int (*put)(struct boot *b, const char *key, const void *value, size_t len);
	/* collect: bring all ranks' records along, so that get works after leave. */
	int (*fence)(struct boot *b, bool collect, uint64_t timeout_ns);
	int (*get)(struct boot *b, int rank, const char *key, void *value, size_t *len,
	           uint64_t timeout_ns);
	int (*watch)(struct boot *b); /* NULL: nobody tells of failures */
	/* *size: as boot_node_size has it. NULL: nobody knows. */
	int (*node_size)(struct boot *b, uint64_t timeout_ns, int *size);
	/* NULL: there is nobody to leave. Errors leave the boot as it was. */
	int (*leave)(struct boot *b, bool collected, uint64_t timeout_ns);
	void (*close)(struct boot *b);
};

struct boot {
	const struct boot_ops *ops;
	int rank, size;
	int n_local;   /* ranks of this node */
	int *local;    /* their numbers, ascending */
	char job[128]; /* names the job; the same on all ranks */
	char host[128];
	char launcher[64]; /* for oriel_info: what told us so, e.g. "PMIx 4.2.2, namespace
	                      prterun-…" */
	/*
	 * Set by the owner between boot_open and boot_watch. Called from a
	 * bootstrap's thread until boot_leave or boot_close returns, perhaps more
	 * than once for a rank; it must not call boot_... functions.
	 */
	void (*on_failure)(void *arg, int rank, const char *why);
	void *on_failure_arg;
	void *priv;
	uint64_t timeout_ns; /* knob boot_timeout */
	bool collected;      /* a collecting fence has ended */
	bool left;
	int split;     /* knob node_split, if it is in force; else 0 */
	int node_size; /* boot_node_size; BOOT_NOT_ASKED */
};

/*
 * Picks and opens: user's table if given; else PMIx if a launcher started us
 * (and the build has PMIx); else a singleton. A launcher that starts several
 * ranks but speaks no PMIx is EBOOT, not several singletons. Whatever *b held
 * is overwritten; after an error it needs no close. knobs: node_split,
 * boot_timeout. Errors: EINVAL (the table, a knob), EBOOT, ENOMEM, ETIMEDOUT.
 */
int boot_open(struct boot *b, const struct oriel_bootstrap *user, const struct knobs *k);
/* Copied. A second value of a key replaces the first. EINVAL: a bad key. */
int boot_put(struct boot *b, const char *key, const void *value, size_t len);
/*
 * Returns when every rank has called it. (Under Slurm the first one of a process
 * waits only for the ranks of the node; gets from other nodes then wait, within
 * their timeout, for the record.) After an error no later fence of b succeeds.
 */
int boot_fence(struct boot *b, bool collect, uint64_t timeout_ns);
/*
 * *len: capacity in, length out. ERANK; ERANGE: the value is longer than *len;
 * EBOOT: that rank had put no such key before the last fence, or no fence has
 * ended; ETIMEDOUT.
 */
int boot_get(struct boot *b, int rank, const char *key, void *value, size_t *len,
             uint64_t timeout_ns);
/* From now on, tells on_failure what the launcher tells; 0 also where it tells nothing. */
int boot_watch(struct boot *b);
/*
 * Forgets the launcher; when all contexts of the process have left or closed, the
 * launcher no longer minds its end, and none can be opened any more. After a collecting fence all
 * ranks' records are kept here first (memory in proportion to the job), else none is.
 */
int boot_leave(struct boot *b);
/* Also after boot_leave, and on a zeroed struct. No collective: fence first if peers may still get.
 */
void boot_close(struct boot *b);
/*
 * So many consecutive ranks of the job share each node, from rank 0 on; 0: it is not so, or
 * nobody knows. The same on all ranks. The first time it asks the launcher, for all ranks.
 */
int boot_node_size(struct boot *b);
/* This rank's index in b->local of another rank of the node, or -1. O(log n_local). */
int boot_local_index(const struct boot *b, int rank);

extern const struct boot_ops boot_pmix, boot_user, boot_singleton;

#endif
