#include "rma/ctl.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINES (RECORDER_CALLS + RECORDER_WAITS + RECORDER_PEERS + 3)

struct lines {
	char text[MAX_LINES + 1][420];
	int n;
};

static void
keep(void *arg, const char *text)
{
	struct lines *l = arg;

	cr_assert_leq(l->n, MAX_LINES, "more lines than a recorder can give");
	cr_assert_lt(strlen(text), sizeof(l->text[0]));
	for (const char *p = text; *p; p++)
		cr_assert(*p >= ' ' && *p <= '~', "byte %d in a line", *p);
	strcpy(l->text[l->n++], text);
}

static bool
has(const struct lines *l, const char *part)
{
	for (int i = 0; i < l->n; i++)
		if (strstr(l->text[i], part))
			return true;
	return false;
}

static struct ctl *
sample(void)
{
	struct ctl *c = calloc(1, ctl_size(1));
	struct recorder *r = &c->recorder;

	c->magic = CTL_MAGIC;
	c->version = CTL_VERSION;
	*r = (struct recorder){ .magic = RECORDER_MAGIC,
		                .rank = 3,
		                .size = 8,
		                .pid = 4711,
		                .n_peers = 2,
		                .host = "somewhere",
		                .job = "job-7",
		                .start_ns = now_ns() - 2000000000,
		                .n_calls = 300 };
	for (uint64_t n = 300 - RECORDER_CALLS + 1; n <= 300; n++)
		r->call[n % RECORDER_CALLS] = (struct recorder_call){
			.number = n,
			.comm = 0xabc,
			.call = n,
			.bytes = 8,
			.start_ns = r->start_ns,
			.end_ns = n == 300 ? 0 : r->start_ns + 1000000,
			.name = "allgather/ring",
			.step = 5,
			.n_steps = 14,
			.wait_peer = n == 300 ? 6 : -1,
		};
	r->wait[1] = (struct recorder_wait){ .since_ns = r->start_ns,
		                             .win = 0xdef,
		                             .slot = 9,
		                             .expected = 12,
		                             .seen = 11,
		                             .cmp = 2,
		                             .source = -1 };
	r->peer[0] = (struct recorder_peer){ .rank = 2, .sent = 21, .seen = 22 };
	r->peer[1] = (struct recorder_peer){ .rank = 6, .sent = 61, .seen = 62 };
	return c;
}

static int
read_back(const void *data, size_t len, struct lines *l)
{
	char name[] = "/tmp/oriel-recorder-XXXXXX";
	int fd = mkstemp(name), rc;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
	memset(l, 0, sizeof(*l));
	rc = oriel_recorder_read(name, keep, l);
	unlink(name);
	return rc;
}

Test(recorder, says_what_a_rank_waits_for)
{
	struct ctl *c = sample();
	static struct lines l;

	cr_assert_eq(read_back(c, ctl_size(1), &l), 0, "%s", oriel_detail());
	cr_expect(has(&l, "rank 3 of 8, process 4711 on somewhere, job job-7"));
	cr_expect(has(&l, "calls: 300"));
	cr_expect(has(&l, "running: allgather/ring, call 300 of communicator 0000000000000abc"));
	cr_expect(has(&l, "waits for rank 6, step 5 of 14, for 2"));
	cr_expect(has(&l, "ended: allgather/ring, call 299"));
	cr_expect(has(&l, "slot 9 of window 0000000000000def: expected >= 12, seen 11, for 2"));
	cr_expect(has(&l, "rank 2, 21 messages sent, 22 seen"));
	cr_expect(has(&l, "rank 6, 61 messages sent, 62 seen"));
	free(c);
}

Test(recorder, torn_entries_are_left_out)
{
	struct ctl *c = sample();
	static struct lines l;

	c->recorder.call[300 % RECORDER_CALLS].number = 0;                    /* being written */
	c->recorder.call[299 % RECORDER_CALLS].number = 299 - RECORDER_CALLS; /* not yet */
	cr_assert_eq(read_back(c, ctl_size(1), &l), 0);
	cr_expect(!has(&l, "running"));
	cr_expect(!has(&l, "call 299 "));
	cr_expect(has(&l, "call 298 "));
	free(c);
}

Test(recorder, short_files_are_refused)
{
	struct ctl *c = sample();
	size_t end = offsetof(struct ctl, recorder) + sizeof(struct recorder);
	static const size_t cut[] = { 0, 1, 8, 11, 12, 64 };
	static struct lines l;

	for (size_t i = 0; i < ARRAY_SIZE(cut); i++)
		cr_expect_eq(read_back(c, cut[i], &l), ORIEL_EINVAL, "%zu bytes", cut[i]);
	cr_expect_eq(read_back(c, end - 1, &l), ORIEL_EINVAL);
	cr_expect_eq(read_back(c, offsetof(struct ctl, recorder), &l), ORIEL_EINVAL);
	cr_expect_eq(l.n, 0, "something is said about a file that is not one");
	cr_expect_eq(read_back(c, end, &l), 0);
	free(c);
}

Test(recorder, other_files_are_refused)
{
	struct ctl *c = sample();
	static struct lines l;

	c->version++;
	cr_expect_eq(read_back(c, ctl_size(1), &l), ORIEL_EINVAL);
	c->version--;
	c->magic ^= 1;
	cr_expect_eq(read_back(c, ctl_size(1), &l), ORIEL_EINVAL);
	c->magic ^= 1;
	c->recorder.magic ^= 1;
	cr_expect_eq(read_back(c, ctl_size(1), &l), ORIEL_EINVAL);
	cr_expect_eq(oriel_recorder_read("/nonexistent/file", keep, &l), ORIEL_ETRANSPORT);
	cr_expect_eq(oriel_recorder_read(NULL, keep, &l), ORIEL_EINVAL);
	cr_expect_eq(oriel_recorder_read("/dev/null", NULL, NULL), ORIEL_EINVAL);
	cr_expect_eq(oriel_recorder_read("/dev/null", keep, &l), ORIEL_EINVAL);
	free(c);
}

/* Whatever stands in it: no fault, no endless loop, nothing that a terminal would obey. */
Test(recorder, garbage_is_survived)
{
	struct ctl *c = sample();
	uint64_t x = 1;
	static struct lines l;

	for (int round = 0; round < 200; round++) {
		unsigned char *p = (unsigned char *)&c->recorder + sizeof(uint64_t);

		for (size_t i = 0; i < sizeof(c->recorder) - sizeof(uint64_t); i++) {
			x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
			if (round % 4 == 0 || x >> 60 == 0)
				p[i] = round % 8 == 4 ? 0xff : (unsigned char)(x >> 40);
		}
		/* Some pass as entries. */
		for (uint64_t n = 0; n < RECORDER_CALLS; n++)
			if (round % 3 == 0)
				c->recorder.call[n].number =
				        c->recorder.n_calls - RECORDER_CALLS / 2 + n;
		cr_expect_eq(read_back(c, ctl_size(1), &l), 0);
	}
	free(c);
}
