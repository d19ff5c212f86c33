/*
 * pmix_impl.h - the parts of the PMIx bootstrap: pmix.c (the boot_ops), pmix_wait.c
 * (calls with a bounded wait), pmix_watch.c (failure events). Only where
 * BOOT_HAS_PMIX. Names start with bootpmix_, because libpmix exports pmix_ ones.
 */
#ifndef PMIX_BOOT_PMIX_IMPL_H
#define PMIX_BOOT_PMIX_IMPL_H

#include "pmix-boot/boot_impl.h"

#include <pmix.h>

/* Sets the detail "PMIx: <what>: <text of status>" and returns the code that fits. */
int bootpmix_fail(pmix_status_t status, const char *what, ...)
        __attribute__((format(printf, 2, 3), cold));

/* A value as the caller wants it; bytes are malloc'd, and a NUL follows them. */
struct fetched {
	enum { FETCHED_OTHER = 0, FETCHED_NUMBER, FETCHED_TEXT, FETCHED_BYTES } kind;
	int64_t number; /* of any of PMIx's integer types */
	unsigned char *bytes;
	size_t len;
};

/* how: NULL, or the one attribute to set, such as PMIX_OPTIONAL. A key that is not there is EBOOT.
 */
int bootpmix_fetch(const pmix_proc_t *proc, const char *key, const char *how, uint64_t timeout_ns,
                   struct fetched *out);
/* *lost: our wait ended before the server's, so that the fence may be pending there. */
int bootpmix_fence(const pmix_proc_t *all, bool collect, uint64_t timeout_ns, bool *lost);
int bootpmix_register(pmix_status_t *codes, size_t n_codes, pmix_notification_fn_t handler,
                      uint64_t timeout_ns, size_t *id);
/* Best effort: at the end nobody can do anything about its failure. */
void bootpmix_deregister(size_t id, uint64_t timeout_ns);

/* A boot that wants to hear of failures, in the one list of the process. */
struct watcher {
	struct watcher *next;
	struct boot *b;
	pmix_proc_t me;
	bool listed;
};

int bootpmix_watch(struct watcher *w, struct boot *b, const pmix_proc_t *me);
/* When it returns, on_failure is not running and will not be called. */
void bootpmix_unwatch(struct watcher *w);

#endif
