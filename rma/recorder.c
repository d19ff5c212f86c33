/*
 * recorder.c - reads a flight recorder: a control slab's memfd or its file, of a
 * rank that lives, hangs or is dead.
 *
 * The file may be torn, cut short or somebody else's: everything is copied out
 * first, and every number and text of it is checked before it is used.
 */
#include "rma/recorder.h"

#include "rma/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_CALLS 16 /* of those that have ended */

static int
read_at(int fd, const char *file, void *to, size_t len, size_t off)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, (char *)to + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_errno(ORIEL_ETRANSPORT, errno, "reading %s", file);
		if (n == 0)
			return fail(ORIEL_EINVAL, "%s ends after %zu bytes: not a flight recorder",
			            file, off + got);
		got += (size_t)n;
	}
	return 0;
}

/* For printing: ends within its field, and holds nothing that a terminal would obey. */
static const char *
clean(char *text, size_t cap)
{
	text[cap - 1] = '\0';
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return text;
}

/* Milliseconds from then to now; 0 if the clocks do not belong together. */
static double
ms_since(uint64_t then, uint64_t now)
{
	return then && now > then ? (double)(now - then) / 1e6 : 0;
}

static void
say_call(const struct out *out, struct recorder_call *c, uint64_t now)
{
	char wait[80] = "";
	bool running = !c->end_ns;

	if (running && c->wait_peer >= 0)
		snprintf(wait, sizeof(wait), ", waits for rank %" PRId32, c->wait_peer);
	if (running)
		out_say(out,
		        "running: %s, call %" PRIu64 " of communicator %016" PRIx64
		        ", plan %016" PRIx64 ", %" PRIu64 " bytes a block%s, step %" PRIu32
		        " of %" PRIu32 ", for %.0f ms",
		        clean(c->name, sizeof(c->name)), c->call, c->comm, c->plan, c->bytes, wait,
		        c->step, c->n_steps, ms_since(c->start_ns, now));
	else
		out_say(out,
		        "ended: %s, call %" PRIu64 " of communicator %016" PRIx64
		        ", plan %016" PRIx64 ", %" PRIu64
		        " bytes a block, %s, %.0f ms ago, took %.3f ms",
		        clean(c->name, sizeof(c->name)), c->call, c->comm, c->plan, c->bytes,
		        oriel_strerror(c->status), ms_since(c->end_ns, now),
		        ms_since(c->start_ns, c->end_ns));
}

/* The entry of call number n, if it is there and whole. */
static struct recorder_call *
call_of(struct recorder *r, uint64_t n)
{
	struct recorder_call *c = &r->call[n % RECORDER_CALLS];

	return n && c->number == n ? c : NULL;
}

static void
say_calls(const struct out *out, struct recorder *r, uint64_t now)
{
	uint64_t last = r->n_calls, first = last > RECORDER_CALLS ? last - RECORDER_CALLS + 1 : 1;
	int said = 0;

	out_say(out, "calls: %" PRIu64 " of collectives so far", last);
	for (uint64_t n = last; n >= first && n; n--) {
		struct recorder_call *c = call_of(r, n);

		if (c && !c->end_ns)
			say_call(out, c, now);
	}
	for (uint64_t n = last; n >= first && n && said < LAST_CALLS; n--) {
		struct recorder_call *c = call_of(r, n);

		if (!c || !c->end_ns)
			continue;
		say_call(out, c, now);
		said++;
	}
}

static void
say_waits(const struct out *out, const struct recorder *r, uint64_t now)
{
	static const char *const cmp[] = { "==", "!=", ">=", ">", "<=", "<" };

	for (int i = 0; i < RECORDER_WAITS; i++) {
		const struct recorder_wait *w = &r->wait[i];
		char from[40] = "any rank";

		if (!w->since_ns)
			continue;
		if (w->source >= 0)
			snprintf(from, sizeof(from), "rank %" PRId32, w->source);
		out_say(out,
		        "waits: for a signal of %s in slot %" PRIu64 " of window %016" PRIx64
		        ": expected %s %" PRIu64 ", seen %" PRIu64 ", for %.0f ms",
		        from, w->slot, w->win,
		        w->cmp >= 0 && w->cmp < (int)ARRAY_SIZE(cmp) ? cmp[w->cmp] : "?",
		        w->expected, w->seen, ms_since(w->since_ns, now));
	}
}

static void
say_peers(const struct out *out, const struct recorder *r)
{
	uint32_t n = r->n_peers < RECORDER_PEERS ? r->n_peers : RECORDER_PEERS;

	for (uint32_t i = 0; i < n; i++)
		out_say(out, "peer: rank %" PRId32 ", %" PRIu64 " messages sent, %" PRIu64 " seen",
		        r->peer[i].rank, r->peer[i].sent, r->peer[i].seen);
}

static int
read_recorder(int fd, const char *file, struct recorder *r)
{
	struct {
		uint64_t magic;
		uint32_t version;
	} head;
	int rc = read_at(fd, file, &head, offsetof(struct ctl, rank), 0);

	if (rc)
		return rc;
	if (head.magic != CTL_MAGIC)
		return fail(ORIEL_EINVAL, "%s is not a flight recorder (magic %016" PRIx64 ")",
		            file, head.magic);
	if (head.version != CTL_VERSION)
		return fail(ORIEL_EINVAL, "%s is of version %" PRIu32 ", this library reads %d",
		            file, head.version, CTL_VERSION);
	rc = read_at(fd, file, r, sizeof(*r), offsetof(struct ctl, recorder));
	if (rc)
		return rc;
	if (r->magic != RECORDER_MAGIC)
		return fail(ORIEL_EINVAL, "%s holds no flight recorder (magic %016" PRIx64 ")",
		            file, r->magic);
	return 0;
}

int
oriel_recorder_read(const char *file, void (*line)(void *arg, const char *text), void *arg)
{
	const struct out out = { line, arg };
	struct recorder *r;
	uint64_t now = now_ns();
	int fd, rc;

	if (!file || !line)
		return fail(ORIEL_EINVAL, "%s is NULL", file ? "line" : "file");
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(ORIEL_ETRANSPORT, errno, "opening %s", file);
	r = malloc(sizeof(*r));
	rc = r ? read_recorder(fd, file, r) : fail(ORIEL_ENOMEM, "no memory for a flight recorder");
	if (!rc) {
		out_say(&out, "rank %" PRId32 " of %" PRId32 ", process %" PRId32 " on %s, job %s",
		        r->rank, r->size, r->pid, clean(r->host, sizeof(r->host)),
		        clean(r->job, sizeof(r->job)));
		out_say(&out, "age: %.0f ms since its start", ms_since(r->start_ns, now));
		say_calls(&out, r, now);
		say_waits(&out, r, now);
		say_peers(&out, r);
	}
	free(r);
	close(fd);
	return rc;
}
