/*
 * One rank fails, and every other must be told so in time: ORIEL_EPEER, with a
 * detail that names the rank, and for a wait the slot, the value expected and
 * the value seen. test/fault/run starts this program's ranks itself, with files
 * for a bootstrap, so that no launcher sees the death; under a launcher nobody
 * fails, and the program only goes through its paces.
 *
 * Arguments: --dir DIR --rank R --size N (the bootstrap), --local (one node),
 * --how none|kill|stop|exit|cut, --op NAME, --timeout MS (ORIEL_PEER_TIMEOUT).
 * With cut the test takes the network away once DIR/ready exists.
 */
#include "test/ranks/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define VICTIM 1
#define BIG (4u << 20)
#define SLOT 3
#define WANTED 77

static struct {
	const char *dir, *how, *op;
	int rank, size;
	unsigned timeout_ms;
} o;

/*
 * ---- A bootstrap of files ----
 */

static void
path_of(char *path, size_t cap, const char *kind, int rank, const char *key)
{
	snprintf(path, cap, "%s/%s-%d-%s", o.dir, kind, rank, key);
}

/* Appears whole. */
static int
write_file(const char *path, const void *data, size_t len)
{
	char temp[600];
	int fd;

	snprintf(temp, sizeof(temp), "%s.new", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len || close(fd) || rename(temp, path))
		return ORIEL_EBOOT;
	return 0;
}

static int
read_file(const char *path, void *data, size_t *len, uint64_t timeout_ns)
{
	uint64_t until = ranks_now_ns() + timeout_ns;
	ssize_t n;
	int fd;

	while ((fd = open(path, O_RDONLY)) < 0) {
		if (errno != ENOENT)
			return ORIEL_EBOOT;
		if (ranks_now_ns() > until)
			return ORIEL_ETIMEDOUT;
		usleep(500);
	}
	n = read(fd, data, *len);
	close(fd);
	if (n < 0)
		return ORIEL_EBOOT;
	*len = (size_t)n;
	return 0;
}

static int
boot_put(void *arg, const char *key, const void *value, size_t len)
{
	char path[512];

	(void)arg;
	path_of(path, sizeof(path), "value", o.rank, key);
	return write_file(path, value, len);
}

static int
boot_get(void *arg, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	char path[512];

	(void)arg;
	path_of(path, sizeof(path), "value", rank, key);
	return read_file(path, value, len, timeout_ns);
}

static int
boot_fence(void *arg, uint64_t timeout_ns)
{
	static int n;
	char path[512], name[32], byte;
	int rc;

	(void)arg;
	snprintf(name, sizeof(name), "%d", n++);
	path_of(path, sizeof(path), "fence", o.rank, name);
	rc = write_file(path, "", 0);
	for (int i = 0; !rc && i < o.size; i++) {
		size_t len = 1;

		path_of(path, sizeof(path), "fence", i, name);
		rc = read_file(path, &byte, &len, timeout_ns);
	}
	return rc;
}

/*
 * ---- What a survivor does until it is told ----
 */

struct survivor {
	struct ranks *r;
	oriel_win *win;
	unsigned char *src;
};

static int
op_wait_from(struct survivor *s)
{
	return oriel_signal_wait_from(s->win, VICTIM, SLOT, ORIEL_GE, WANTED, ORIEL_FOREVER, NULL);
}

static int
op_wait_any(struct survivor *s)
{
	return oriel_signal_wait(s->win, SLOT, ORIEL_GE, WANTED, ORIEL_FOREVER, NULL);
}

static int
op_put(struct survivor *s)
{
	int rc = oriel_put(s->win, VICTIM, 64, s->src, 8);

	return rc ? rc : oriel_flush(s->win, VICTIM);
}

static int
op_put_big(struct survivor *s)
{
	int rc = oriel_put(s->win, VICTIM, 64, s->src, BIG);

	return rc ? rc : oriel_flush(s->win, VICTIM);
}

/* No flush: back-pressure has to end too. */
static int
op_stream(struct survivor *s)
{
	return oriel_put_signal(s->win, VICTIM, 64, s->src, 1000, 0, ORIEL_SIGNAL_ADD, 1);
}

static int
op_stream_big(struct survivor *s)
{
	return oriel_put_signal(s->win, VICTIM, 64, s->src, 100000, 0, ORIEL_SIGNAL_ADD, 1);
}

static int
op_get(struct survivor *s)
{
	int rc = oriel_get(s->win, VICTIM, 64, s->src, 100000);

	return rc ? rc : oriel_flush(s->win, VICTIM);
}

static int
op_req(struct survivor *s)
{
	oriel_req *req;
	int rc = oriel_rget(s->win, VICTIM, 64, s->src, BIG, &req);

	return rc ? rc : oriel_req_wait(&req, ORIEL_FOREVER);
}

static int
op_atomic(struct survivor *s)
{
	return oriel_fetch_add(s->win, VICTIM, 64, 1, NULL);
}

static int
op_barrier(struct survivor *s)
{
	return oriel_barrier(s->r->world);
}

static const struct {
	const char *name;
	int (*fn)(struct survivor *s);
	bool names_slot;
} ops[] = { { "wait_from", op_wait_from, true },
	    { "wait_any", op_wait_any, true },
	    { "put", op_put, false },
	    { "put_big", op_put_big, false },
	    { "stream", op_stream, false },
	    { "stream_big", op_stream_big, false },
	    { "get", op_get, false },
	    { "req", op_req, false },
	    { "atomic", op_atomic, false },
	    { "barrier", op_barrier, false } };

static bool
says(const char *detail, const char *what)
{
	return CHECK(strstr(detail, what), "the detail does not say \"%s\": %s", what, detail);
}

/* The survivors are of use to one another. */
static void
go_on(struct survivor *s)
{
	struct ranks *r = s->r;

	for (int to = 0; to < r->size; to++)
		if (to != VICTIM && to != r->rank)
			OK(oriel_put_signal(s->win, to, (size_t)r->rank * 8, s->src, 8,
			                    (size_t)(4 + r->rank), ORIEL_SIGNAL_SET, 5));
	for (int from = 0; from < r->size; from++)
		if (from != VICTIM && from != r->rank)
			OK(oriel_signal_wait_from(s->win, from, (size_t)(4 + from), ORIEL_EQ, 5,
			                          RANKS_WAIT_NS, NULL));
}

static void
survive(struct survivor *s)
{
	uint64_t start = ranks_now_ns(), took, limit = o.timeout_ms + 1000 + 300;
	bool names_slot = false;
	char detail[1024];
	int rc = 0;

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].name, o.op))
			continue;
		names_slot = ops[i].names_slot;
		do {
			rc = ops[i].fn(s);
			took = (ranks_now_ns() - start) / 1000000;
		} while (!rc && took < limit + 5000);
	}
	took = (ranks_now_ns() - start) / 1000000;
	snprintf(detail, sizeof(detail), "%s", oriel_detail());
	CHECK(rc == ORIEL_EPEER, "\"%s\" (%s) after %llu ms", oriel_strerror(rc), detail,
	      (unsigned long long)took);
	CHECK(took <= limit, "told after %llu ms, the limit is %llu", (unsigned long long)took,
	      (unsigned long long)limit);
	says(detail, "rank 1");
	if (names_slot) {
		says(detail, "slot 3");
		says(detail, "77");
		says(detail, "seen 0");
	}
	printf("rank %d: %s after %llu ms: %s\n", s->r->rank, oriel_strerror(rc),
	       (unsigned long long)took, detail);
	fflush(stdout);
	/* A collective may have been told by another survivor, a moment before this rank sees
	 * it for itself. */
	start = ranks_now_ns();
	do {
		rc = oriel_put(s->win, VICTIM, 64, s->src, 8);
		took = (ranks_now_ns() - start) / 1000000;
	} while (!rc && took < 1000);
	CHECK(rc == ORIEL_EPEER, "a later put: \"%s\" after %llu ms", oriel_strerror(rc),
	      (unsigned long long)took);
	start = ranks_now_ns();
	FAILS(ORIEL_EPEER, oriel_signal(s->win, VICTIM, 0, ORIEL_SIGNAL_SET, 1));
	took = (ranks_now_ns() - start) / 1000000;
	CHECK(took < 200, "a signal to a failed rank took %llu ms", (unsigned long long)took);
	go_on(s);
}

static void
fail_now(void)
{
	if (!strcmp(o.how, "cut"))
		return;
	usleep(100000);
	if (!strcmp(o.how, "exit"))
		_exit(0);
	kill(getpid(), !strcmp(o.how, "kill") ? SIGKILL : SIGSTOP);
}

static int
warm_up(struct survivor *s)
{
	struct ranks *r = s->r;

	for (int to = 0; to < r->size; to++)
		if (to != r->rank &&
		    !OK(oriel_put_signal(s->win, to, 128, s->src, 8, 1, ORIEL_SIGNAL_ADD, 1)))
			return 1;
	return !OK(oriel_signal_wait(s->win, 1, ORIEL_EQ, (uint64_t)r->size - 1, RANKS_WAIT_NS,
	                             NULL)) ||
	       !OK(oriel_barrier(r->world));
}

static int
run(struct ranks *r)
{
	struct survivor s = { .r = r };
	uint64_t start;
	char path[512];
	void *base;
	int rc;

	if (r->size < 2)
		return ranks_skip("needs two ranks");
	s.src = calloc(1, BIG);
	if (!OK(oriel_win_alloc(r->world, BIG + 4096, 4 + (size_t)r->size, &base, &s.win)) ||
	    warm_up(&s))
		return 1;
	if (!strcmp(o.how, "none")) {
		OK(oriel_win_free(s.win));
		free(s.src);
		return 0;
	}
	if (r->rank == 0) {
		snprintf(path, sizeof(path), "%s/ready", o.dir);
		NEED(!write_file(path, "", 0), "cannot write %s", path);
	}
	if (r->rank == VICTIM)
		fail_now();
	if (r->rank == VICTIM) /* cut off, or going on after having been stopped */
		for (;;)
			pause();
	survive(&s);
	start = ranks_now_ns();
	rc = oriel_win_free(s.win);
	CHECK(rc == ORIEL_EPEER, "win_free: \"%s\"", oriel_strerror(rc));
	CHECK(ranks_now_ns() - start < UINT64_C(3000000000), "win_free took more than 3 s");
	free(s.src);
	return 0;
}

static int
with_files(void)
{
	static struct oriel_bootstrap table = { .put = boot_put,
		                                .fence = boot_fence,
		                                .get = boot_get };
	static int local[64];
	static char knob[64];
	static const char *knobs[] = { knob, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .bootstrap = &table, .knobs = knobs };

	table.rank = o.rank;
	table.size = o.size;
	table.job = o.dir;
	table.n_local = ranks_flag("--local") ? o.size : 1;
	for (int i = 0; i < table.n_local; i++)
		local[i] = table.n_local > 1 ? i : o.rank;
	table.local = local;
	snprintf(knob, sizeof(knob), "ORIEL_PEER_TIMEOUT=%ums", o.timeout_ms);
	return ranks_main(ranks_job.argc, ranks_job.argv, run, &opts);
}

int
main(int argc, char **argv)
{
	ranks_job.argc = argc;
	ranks_job.argv = argv;
	o.dir = ranks_text("--dir", NULL);
	o.how = ranks_text("--how", "none");
	o.op = ranks_text("--op", "wait_from");
	o.rank = (int)ranks_number("--rank", 0);
	o.size = (int)ranks_number("--size", 1);
	o.timeout_ms = (unsigned)ranks_number("--timeout", 2000);
	if (!o.dir)
		return ranks_main(argc, argv, run, NULL);
	return with_files();
}
