/*
 * copy.h - copying bytes. memcpy of C libraries uses "rep movsb" for some KiB and
 * more on x86, which takes 5 to 10 times as long on AMD's Zen 3 and 4 where source
 * and destination lie differently in their cache lines (sourceware bug 30994). User
 * buffers of malloc do: they begin 16 bytes behind a page.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COPY_LINE 64
#define COPY_LOOP_MIN 1024
#define COPY_LOOP_MAX ((size_t)1 << 20) /* above that memcpy has loops of its own */

/* The loop, for tests: COPY_LOOP_MIN bytes or more. */
void copy_loop(void *dst, const void *src, size_t len);

/* As memcpy. */
static inline void
copy_bytes(void *dst, const void *src, size_t len)
{
#ifdef __x86_64__
	if (len - COPY_LOOP_MIN <= COPY_LOOP_MAX - COPY_LOOP_MIN &&
	    ((uintptr_t)dst - (uintptr_t)src) % COPY_LINE) {
		copy_loop(dst, src, len);
		return;
	}
#endif
	memcpy(dst, src, len);
}

/* As memmove. */
static inline void
move_bytes(void *dst, const void *src, size_t len)
{
	uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;

	if (to - from >= len && from - to >= len)
		copy_bytes(dst, src, len);
	else
		memmove(dst, src, len);
}

#endif
