#include "examples/common/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLANKS " \t"

static int __attribute__((format(printf, 4, 0)))
fail_with(struct text *t, bool expected, const char *found, const char *format, va_list args)
{
	char what[256];

	if (t->error[0])
		return -1;
	vsnprintf(what, sizeof(what), format, args);
	if (!expected)
		snprintf(t->error, sizeof(t->error), "%s:%zu: %s", t->path, t->number, what);
	else if (!found || !*found)
		snprintf(t->error, sizeof(t->error), "%s:%zu: expected %s, found the end of the %s",
		         t->path, t->number, what, found ? "line" : "file");
	else
		snprintf(t->error, sizeof(t->error), "%s:%zu: expected %s, found \"%.40s\"",
		         t->path, t->number, what, found);
	return -1;
}

int
text_expected(struct text *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail_with(t, true, t->at, format, args);
	va_end(args);
	return -1;
}

int
text_fail(struct text *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail_with(t, false, NULL, format, args);
	va_end(args);
	return -1;
}

int
text_open(struct text *t, const char *path)
{
	*t = (struct text){ .path = path, .file = fopen(path, "re") };
	if (t->file)
		return 0;
	snprintf(t->error, sizeof(t->error), "%s: %s", path, strerror(errno));
	return -1;
}

void
text_close(struct text *t)
{
	if (t->file)
		fclose(t->file);
	t->file = NULL;
}

bool
text_line(struct text *t)
{
	size_t len = 0;
	int c;

	t->at = NULL;
	if (t->error[0])
		return false;
	while ((c = getc_unlocked(t->file)) != EOF && c != '\n' && len <= TEXT_MAX_LINE)
		t->line[len++] = (char)c;
	t->number++;
	if (c == EOF && ferror(t->file))
		return text_fail(t, "reading: %s", strerror(errno)) == 0;
	if (c == EOF && !len)
		return false;
	if (len > TEXT_MAX_LINE)
		return text_fail(t, "more than %d characters", TEXT_MAX_LINE) == 0;
	if (memchr(t->line, '\0', len))
		return text_fail(t, "a zero byte: this is not a text file") == 0;
	if (len && t->line[len - 1] == '\r')
		len--;
	t->line[len] = '\0';
	t->at = t->line;
	return true;
}

bool
text_at_end(struct text *t)
{
	t->at += strspn(t->at, BLANKS);
	return !*t->at;
}

int
text_end(struct text *t)
{
	return text_at_end(t) ? 0 : text_expected(t, "the end of the line");
}

int
text_character(struct text *t, char c)
{
	if (text_at_end(t) || *t->at != c)
		return text_expected(t, "\"%c\"", c);
	t->at++;
	return 0;
}

/* A number ends where a blank, a comma or the line does, not in the middle of a word. */
static bool
ends_here(const char *end)
{
	return !*end || *end == ',' || strchr(BLANKS, *end);
}

int
text_count(struct text *t, const char *what, size_t min, size_t max, size_t *value)
{
	unsigned long long v = 0;
	char *end = NULL;

	errno = 0;
	if (!text_at_end(t) && isdigit((unsigned char)*t->at))
		v = strtoull(t->at, &end, 10);
	if (!end || errno || !ends_here(end) || v < min || v > max)
		return text_expected(t, "%s, a whole number from %zu to %zu", what, min, max);
	t->at = end;
	*value = (size_t)v;
	return 0;
}

int
text_real(struct text *t, const char *what, double *value)
{
	size_t len = text_at_end(t) ? 0 : strspn(t->at, "0123456789+-.eE");
	char *end = NULL;
	double v = 0;

	/* strtod alone would take "nan", "inf" and hexadecimal digits. */
	if (len)
		v = strtod(t->at, &end);
	if (!end || end != t->at + len || !ends_here(end) || !isfinite(v))
		return text_expected(t, "%s, a finite decimal number", what);
	t->at = end;
	*value = v;
	return 0;
}

int
text_word(struct text *t, const char *what, const char *ends, char *word, size_t cap)
{
	size_t len = 0;

	if (!text_at_end(t))
		while (t->at[len] && !strchr(BLANKS, t->at[len]) && !strchr(ends, t->at[len]))
			len++;
	if (!len || len >= cap)
		return text_expected(t, "%s of 1 to %zu characters", what, cap - 1);
	memcpy(word, t->at, len);
	word[len] = '\0';
	t->at += len;
	return 0;
}

int
text_find_data(const char *name, char *path, size_t cap)
{
	char folder[PATH_MAX], *slash;
	ssize_t len = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (len < 0)
		return -1;
	folder[len] = '\0';
	while ((slash = strrchr(folder, '/'))) {
		*slash = '\0';
		if ((size_t)snprintf(path, cap, "%s/examples/data/%s", folder, name) < cap &&
		    !access(path, R_OK))
			return 0;
	}
	return -1;
}
