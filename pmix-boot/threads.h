/*
 * threads.h - a bootstrap for ranks that are threads of one process: a shared
 * table of values and a barrier. Create it, hand each rank its struct
 * oriel_bootstrap, destroy it when all ranks have ended their contexts.
 */
#ifndef PMIX_BOOT_THREADS_H
#define PMIX_BOOT_THREADS_H

#include "oriel.h"

struct threads_boot;

int threads_boot_create(int n, struct threads_boot **boot);
/* table points into boot. */
int threads_boot_table(struct threads_boot *boot, int rank, struct oriel_bootstrap *table);
void threads_boot_destroy(struct threads_boot *boot);

#endif
