/*
 * threads.h - a bootstrap for ranks that are threads of one process: the tables
 * of n ranks over one shared store of records.
 *
 * Life cycle: threads_boot_create; each rank takes its table and opens a context
 * with it; when all contexts have ended, threads_boot_destroy. The tables'
 * functions may be called from any thread; they are TSan-clean.
 */
#ifndef PMIX_BOOT_THREADS_H
#define PMIX_BOOT_THREADS_H

#include "base/base.h"

struct threads_boot;

/* n: at least 1. Errors: EINVAL, ENOMEM. */
int threads_boot_create(int n, struct threads_boot **out);
/*
 * *table is valid until destroy. All ranks are of one node. Its fence ends with
 * ETIMEDOUT when not every rank came; this rank is then as if it had not come.
 * Its get gives EBOOT at once for a key that was not put before a fence.
 * Errors: ERANK.
 */
int threads_boot_table(struct threads_boot *tb, int rank, struct oriel_bootstrap *table);
/* NULL is allowed. */
void threads_boot_destroy(struct threads_boot *tb);

#endif
