/*
 * size.h - a size on a command line: 64, 64K, 64KiB; K, M and G are powers of 1024.
 */
#ifndef TOOLS_SIZE_H
#define TOOLS_SIZE_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define TOOL_SIZE_MAX ((size_t)1 << 40)

/* 0, or -1 if text is no size from 0 to TOOL_SIZE_MAX. */
static inline int
tool_size(const char *text, size_t *value)
{
	unsigned long long v;
	int shift = 0;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	end += shift > 0;
	if (shift && !strcmp(end, "iB"))
		end += 2;
	if (errno || *end || v > TOOL_SIZE_MAX >> shift)
		return -1;
	*value = (size_t)v << shift;
	return 0;
}

#endif
