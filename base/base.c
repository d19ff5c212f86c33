#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DETAIL_CAP 512

static __thread char detail[DETAIL_CAP];
static int log_level = -1; /* nothing */

void
log_set_level(int level)
{
	__atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
}

bool
log_on(int level)
{
	return level <= __atomic_load_n(&log_level, __ATOMIC_RELAXED);
}

static void
log_line(int level, const char *text)
{
	static const char *const name[] = { "error", "warn", "info", "debug", "trace" };
	char line[DETAIL_CAP + 64];
	int n = snprintf(line, sizeof(line), "oriel[%d] %s: %s\n", (int)getpid(), name[level],
	                 text);

	if (n > (int)sizeof(line) - 1) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* Nobody is left to tell. */
	}
}

void
log_at(int level, const char *fmt, ...)
{
	char text[DETAIL_CAP];
	va_list ap;

	if (!log_on(level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_line(level, text);
}

static int
decided(int code)
{
	if (log_on(LOG_DEBUG))
		log_line(LOG_DEBUG, detail);
	return code;
}

int
fail(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	return decided(code);
}

int
fail_errno(int code, int err, const char *fmt, ...)
{
	char text[DETAIL_CAP];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail(code, "%s: %s", text, strerrordesc_np(err) ? strerrordesc_np(err) : "?");
}

int
fail_in(int code, const char *fmt, ...)
{
	char text[DETAIL_CAP], old[DETAIL_CAP];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(old, detail, sizeof(old));
	snprintf(detail, sizeof(detail), "%.200s: %.300s", text, old);
	return code;
}

int
fail_more(int code, const char *fmt, ...)
{
	size_t used = strnlen(detail, sizeof(detail) - 1);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail + used, sizeof(detail) - used, fmt, ap);
	va_end(ap);
	return code;
}

void
out_say(const struct out *out, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	out->line(out->arg, text);
}

const char *
oriel_detail(void)
{
	return detail;
}

const char *
oriel_strerror(int error)
{
	switch (error) {
	case ORIEL_OK:
		return "success";
#define ERROR_TEXT(name, value, text)                                                              \
	case value:                                                                                \
		return "ORIEL_" #name ": " text;
		ORIEL_ERRORS(ERROR_TEXT)
#undef ERROR_TEXT
	default:
		return "not an Oriel error";
	}
}

#define STR2(x) #x
#define STR(x) STR2(x)

const char *
oriel_version(void)
{
	return STR(ORIEL_VERSION_MAJOR) "." STR(ORIEL_VERSION_MINOR) "." STR(ORIEL_VERSION_PATCH);
}

uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t
deadline_after(uint64_t timeout_ns)
{
	uint64_t now = now_ns();

	return timeout_ns > UINT64_MAX - now ? ORIEL_FOREVER : now + timeout_ns;
}

uint64_t
hash_bytes(uint64_t h, const void *p, size_t len)
{
	const unsigned char *s = p;

	h ^= UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < len; i++)
		h = (h ^ s[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	h *= UINT64_C(0xd6e8feb86659fd93);
	return h ^ (h >> 32);
}
