/* The ranks' output, line by line, and a terminal's input for rank 0. */
#include "tools/orielrun.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_CAP ((size_t)1 << 20) /* a longer line is cut */

static void
sink_add(struct sink *s, const char *bytes, size_t len)
{
	if (s->fd < 0)
		return;
	if (len > s->cap - s->len) {
		size_t cap = 2 * s->cap + len;
		char *p = realloc(s->buf, cap);

		if (!p)
			return; /* A line is lost; the job is worth more. */
		s->buf = p;
		s->cap = cap;
	}
	memcpy(s->buf + s->len, bytes, len);
	s->len += len;
}

/* At most PIPE_BUF at a time: poll() promises no more room than that. */
void
sink_flush(struct sink *s)
{
	size_t want = s->len < PIPE_BUF ? s->len : PIPE_BUF;
	ssize_t n = want ? write(s->fd, s->buf, want) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		s->fd = -1; /* Nobody reads any more. */
		s->len = 0;
	} else if (n > 0) {
		s->len -= (size_t)n;
		memmove(s->buf, s->buf + n, s->len);
	}
}

void
say(const char *fmt, ...)
{
	static const char name[] = "orielrun: ";
	char line[1024];
	size_t n = sizeof(name) - 1;
	va_list ap;

	memcpy(line, name, n);
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	sink_add(&job.sink[1], line, n);
	if (!job.tag)
		sink_flush(&job.sink[1]);
}

static void
emit_line(int rank, int which, const char *line, size_t len)
{
	char tag[32];
	int n = snprintf(tag, sizeof(tag), "[%d] ", rank);

	sink_add(&job.sink[which], tag, (size_t)n);
	sink_add(&job.sink[which], line, len);
	if (!len || line[len - 1] != '\n')
		sink_add(&job.sink[which], "\n", 1);
}

static bool
stream_grow(struct stream *s)
{
	size_t cap = s->cap ? 2 * s->cap : 4096;
	char *p;

	if (s->len < s->cap)
		return true;
	if (cap > LINE_CAP)
		return false;
	p = realloc(s->buf, cap);
	if (!p)
		return false;
	s->buf = p;
	s->cap = cap;
	return true;
}

void
stream_read(int rank, int which)
{
	struct stream *s = &job.ranks[rank].out[which];
	size_t from = 0;
	ssize_t n;
	char *end;

	if (!stream_grow(s)) {
		emit_line(rank, which, s->buf, s->len);
		s->len = 0;
	}
	n = read(s->fd, s->buf + s->len, s->cap - s->len);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		if (s->len)
			emit_line(rank, which, s->buf, s->len);
		close(s->fd);
		free(s->buf);
		*s = (struct stream){ .fd = -1 };
		return;
	}
	s->len += (size_t)n;
	while ((end = memchr(s->buf + from, '\n', s->len - from))) {
		emit_line(rank, which, s->buf + from, (size_t)(end + 1 - s->buf) - from);
		from = (size_t)(end + 1 - s->buf);
	}
	s->len -= from;
	memmove(s->buf, s->buf + from, s->len);
}

void
tty_relay(void)
{
	char buf[PIPE_BUF];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0 || write(job.tty_fd, buf, (size_t)n) < 0) {
		close(job.tty_fd);
		job.tty_fd = -1;
	}
}

/* Reading a terminal from the background would stop us; with a full pipe the line must wait. */
bool
tty_wanted(void)
{
	struct pollfd p = { .fd = job.tty_fd, .events = POLLOUT };

	return job.tty_fd >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp() && poll(&p, 1, 0) == 1;
}
