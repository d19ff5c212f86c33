/*
 * boot.h - how a rank finds the others: PMIx, the user's functions, threads of
 * one process, or nobody.
 *
 * Life cycle: boot_open, then boot_put any number of times, one boot_fence, then
 * boot_get lazily for the peers that are needed; boot_close at the end. After
 * boot_leave (fault-tolerant mode) the launcher no longer counts this rank as
 * connected; only boot_get of records that were collected still works.
 *
 * Every wait has a timeout. Threads: boot_get may be called from any thread,
 * the others from the thread that opened.
 */
#ifndef PMIX_BOOT_BOOT_H
#define PMIX_BOOT_BOOT_H

#include "base/knobs.h"

struct boot;

/* One kind of bootstrap; each function returns 0 or an error with its detail. */
struct boot_ops {
	const char *name; /* "pmix", "user", "singleton" */
	int (*open)(struct boot *b, const struct oriel_bootstrap *user);
	int (*put)(struct boot *b, const char *key, const void *value, size_t len);
	/* collect: bring all ranks' records along, so that get works after leave. */
	int (*fence)(struct boot *b, bool collect, uint64_t timeout_ns);
	int (*get)(struct boot *b, int rank, const char *key, void *value, size_t *len,
	           uint64_t timeout_ns);
	int (*leave)(struct boot *b, bool collected);
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
	/* Set by the owner before boot_watch; called from a bootstrap's thread. */
	void (*on_failure)(void *arg, int rank, const char *why);
	void *on_failure_arg;
	void *priv;
};

/*
 * Picks and opens: user's table if given; else PMIx if a launcher started us
 * (and the build has PMIx); else a singleton. knobs: node_split, boot_timeout.
 */
int boot_open(struct boot *b, const struct oriel_bootstrap *user, const struct knobs *k);
int boot_put(struct boot *b, const char *key, const void *value, size_t len);
int boot_fence(struct boot *b, bool collect, uint64_t timeout_ns);
/* *len: capacity in, length out. ETIMEDOUT, EBOOT (no such key). */
int boot_get(struct boot *b, int rank, const char *key, void *value, size_t *len,
             uint64_t timeout_ns);
/* After a collecting fence: forget the launcher. */
int boot_leave(struct boot *b);
void boot_close(struct boot *b);
/* This rank's index in b->local of another rank of the node, or -1. O(log n_local). */
int boot_local_index(const struct boot *b, int rank);

extern const struct boot_ops boot_pmix, boot_user, boot_singleton;

#endif
