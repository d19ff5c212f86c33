/*
 * memory.h - how much memory this process uses, for tests that want it flat.
 */
#ifndef TEST_RANKS_MEMORY_H
#define TEST_RANKS_MEMORY_H

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers use memory of their own and keep freed memory back */
#else
#define SANITIZED 0
#endif

/* Resident bytes; 0 if that cannot be told. */
static inline size_t
resident(void)
{
	unsigned long size, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f)
		return 0;
	if (fscanf(f, "%lu %lu", &size, &pages) != 2)
		pages = 0;
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
