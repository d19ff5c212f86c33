/*
 * base.h - what every part of the library uses: statuses with a detail, the log,
 * the clock, small arithmetic. No state but thread-local text and the log level.
 *
 * A function that decides that something is an error calls fail() once, with
 * the cause it saw; those above pass the code on.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "oriel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE 64
#define cache_aligned __attribute__((aligned(CACHE_LINE)))
#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

enum log_level { LOG_ERROR = 0, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Sets the thread's detail, logs it at LOG_DEBUG, returns code. */
int fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* The same with ": <text of errno value err>" at the end. */
int fail_errno(int code, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));
/* Puts "<text>: " before the detail that is there, returns code. */
int fail_in(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* Adds text at the end of the detail that is there, returns code. */
int fail_more(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/* Process-wide, set from the first context's ORIEL_LOG. */
void log_set_level(int level);
bool log_on(int level);
void log_at(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/* Where a caller wants lines of text: oriel_info, oriel_recorder_read. */
struct out {
	void (*line)(void *arg, const char *text);
	void *arg;
};
void out_say(const struct out *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Monotonic nanoseconds. */
uint64_t now_ns(void);
/* now + timeout, saturated: ORIEL_FOREVER stays. */
uint64_t deadline_after(uint64_t timeout_ns);

/* FNV-1a of bytes, chained from h (0 to start), finished so that all bits spread. */
uint64_t hash_bytes(uint64_t h, const void *p, size_t len);

static inline size_t
round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static inline bool
is_pow2(size_t n)
{
	return n && !(n & (n - 1));
}

/* [off, off + len) inside [0, size), without overflow. */
static inline bool
range_inside(size_t off, size_t len, size_t size)
{
	return len <= size && off <= size - len;
}

#endif
