/*
 * Bad arguments of every public function: the documented error, a detail that
 * names the culprit, no result written, no byte outside the window touched; and
 * calls with handles that are NULL, freed, or of the parent process.
 */
#include "test/ranks/area.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096

static int
waited(int rc, oriel_req **req)
{
	return rc ? rc : oriel_req_wait(req, RANKS_WAIT_NS);
}

/* Each function that takes a window, with good arguments otherwise. */
#define WIN_CALLS 24
static int
win_call(int which, oriel_win *w, int target)
{
	static __thread uint64_t word[8], out;
	static __thread oriel_req *req;
	struct oriel_seg seg = { 0, word, 8 };
	struct oriel_cond cond = { 0, ORIEL_GE, 0 };
	size_t size;
	void *ptr;
	int met;

	switch (which) {
	case 0:
		return oriel_win_query(w, target, &size, NULL);
	case 1:
		return oriel_put(w, target, 0, word, 8);
	case 2:
		return oriel_get(w, target, 0, word, 8);
	case 3:
		return oriel_put_strided(w, target, 0, 8, word, 8, 8, 2);
	case 4:
		return oriel_get_strided(w, target, 0, 8, word, 8, 8, 2);
	case 5:
		return oriel_put_list(w, target, &seg, 1);
	case 6:
		return oriel_get_list(w, target, &seg, 1);
	case 7:
		return waited(oriel_rput(w, target, 0, word, 8, &req), &req);
	case 8:
		return waited(oriel_rget(w, target, 0, word, 8, &req), &req);
	case 9:
		return oriel_put_signal(w, target, 0, word, 8, 0, ORIEL_SIGNAL_SET, 1);
	case 10:
		return oriel_signal(w, target, 0, ORIEL_SIGNAL_SET, 1);
	case 11:
		return oriel_flush(w, target);
	case 12:
		return oriel_flush_local(w, target);
	case 13:
		return oriel_fetch_add(w, target, 0, 1, &out);
	case 14:
		return oriel_compare_swap(w, target, 0, 0, 1, &out);
	case 15:
		return oriel_accumulate(w, target, 0, word, 1, ORIEL_INT64);
	case 16:
		return oriel_win_ptr(w, target, &ptr);
	case 17:
		return oriel_signal_wait_from(w, target, 0, ORIEL_GE, 0, 0, NULL);
	/* Those without a target: */
	case 18:
		return oriel_signal_wait(w, 0, ORIEL_GE, 0, 0, NULL);
	case 19:
		return oriel_signal_test(w, 0, ORIEL_GE, 0, &met);
	case 20:
		return oriel_signal_read(w, 0, &out);
	case 21:
		return oriel_signal_wait_any(w, 1, &cond, 0, &size);
	case 22:
		return oriel_flush_all(w);
	default:
		return oriel_flush_local_all(w);
	}
}
#define WIN_TARGETED 18 /* the first so many of them take a target */

#define COMM_CALLS 11
static int
comm_call(int which, oriel_comm *c)
{
	int one = 1, size = 0;
	char text[80];
	oriel_comm *out;
	oriel_win *win;
	void *base;

	switch (which) {
	case 0:
		return oriel_comm_rank(c);
	case 1:
		return oriel_comm_size(c);
	case 2:
		return oriel_comm_node(c, &one, &size);
	case 3:
		return oriel_comm_split(c, 0, 0, &out);
	case 4:
		return oriel_comm_dup(c, &out);
	case 5:
		return oriel_comm_strided(c, 0, 1, 1, &out);
	case 6:
		return oriel_comm_grid(c, 1, &one, &one, &out);
	case 7:
		return oriel_comm_abort(c);
	case 8:
		return oriel_barrier(c);
	case 9:
		return oriel_win_alloc(c, 8, 1, &base, &win);
	default:
		return oriel_path(c, 0, 0, text, sizeof(text));
	}
}

static int
ctx_call(int which, oriel_ctx *ctx)
{
	struct oriel_mem_stats stats = { 0 };
	void *p = NULL;

	switch (which) {
	case 0:
		return oriel_mem_alloc(ctx, 8, 0, &p);
	case 1:
		return oriel_mem_free(ctx, p);
	case 2:
		return oriel_mem_stats(ctx, &stats);
	case 3:
		return oriel_mem_reg(ctx, &stats, 8);
	case 4:
		return oriel_mem_dereg(ctx, &stats, 8);
	default:
		return oriel_world(ctx) ? 0 : ORIEL_EHANDLE;
	}
}
#define CTX_CALLS 6

static void
says(const char *what, int line)
{
	CHECK(strstr(oriel_detail(), what), "line %d: the detail does not say \"%s\": %s", line,
	      what, oriel_detail());
}
#define SAYS(code, call, what)                                                                     \
	do {                                                                                       \
		FAILS(code, call);                                                                 \
		says(what, __LINE__);                                                              \
	} while (0)

static bool
handles(struct ranks *r)
{
	oriel_comm *comm;
	oriel_win *win;
	void *base;

	for (int i = 0; i < WIN_CALLS; i++)
		SAYS(ORIEL_EHANDLE, win_call(i, NULL, 0), "NULL");
	for (int i = 0; i < COMM_CALLS; i++)
		SAYS(ORIEL_EHANDLE, comm_call(i, NULL), "NULL");
	for (int i = 0; i < CTX_CALLS; i++)
		FAILS(ORIEL_EHANDLE, ctx_call(i, NULL));
	if (!OK(oriel_comm_dup(r->world, &comm)) || !OK(oriel_win_alloc(comm, 64, 1, &base, &win)))
		return false;
	for (int i = 0; i < WIN_CALLS; i++) {
		int rc = win_call(i, win, r->rank);

		CHECK(!rc, "window call %d on oneself: %s (%s)", i, oriel_strerror(rc),
		      oriel_detail());
	}
	if (!OK(oriel_win_free(win)))
		return false;
	for (int i = 0; i < WIN_CALLS; i++)
		SAYS(ORIEL_EHANDLE, win_call(i, win, r->rank), "not a live window");
	SAYS(ORIEL_EHANDLE, oriel_win_free(win), "not a live window");
	if (!OK(oriel_comm_free(comm)))
		return false;
	for (int i = 0; i < COMM_CALLS; i++)
		SAYS(ORIEL_EHANDLE, comm_call(i, comm), "not a live communicator");
	OK(oriel_win_free(NULL));
	OK(oriel_comm_free(NULL));
	OK(oriel_fini(NULL));
	return OK(oriel_barrier(r->world));
}

static bool
memory(struct ranks *r)
{
	char user[64], *p;
	void *a = NULL, *zero = NULL;

	SAYS(ORIEL_EINVAL, oriel_mem_alloc(r->ctx, 8, 0, NULL), "ptr");
	SAYS(ORIEL_EINVAL, oriel_mem_alloc(r->ctx, 8, 48, &a), "48");
	CHECK(!a, "a failed call wrote its result");
	FAILS(ORIEL_ENOMEM, oriel_mem_alloc(r->ctx, SIZE_MAX, 0, &a));
	FAILS(ORIEL_ENOMEM, oriel_mem_alloc(r->ctx, SIZE_MAX - 63, 64, &a));
	FAILS(ORIEL_ENOMEM, oriel_mem_alloc(r->ctx, SIZE_MAX / 2, 0, &a));
	CHECK(!a, "a failed call wrote its result");
	if (!OK(oriel_mem_alloc(r->ctx, 1000, 0, &a)) || !OK(oriel_mem_alloc(r->ctx, 0, 0, &zero)))
		return false;
	p = a;
	CHECK(zero && zero != a, "an empty allocation is %p", zero);
	FAILS(ORIEL_EINVAL, oriel_mem_free(r->ctx, p + 64));
	FAILS(ORIEL_EINVAL, oriel_mem_free(r->ctx, p + 1));
	FAILS(ORIEL_EINVAL, oriel_mem_free(r->ctx, user));
	OK(oriel_mem_free(r->ctx, a));
	FAILS(ORIEL_EINVAL, oriel_mem_free(r->ctx, a));
	OK(oriel_mem_free(r->ctx, zero));
	OK(oriel_mem_free(r->ctx, NULL));
	SAYS(ORIEL_EINVAL, oriel_mem_stats(r->ctx, NULL), "stats");
	SAYS(ORIEL_EINVAL, oriel_mem_reg(r->ctx, NULL, 8), "addr");
	SAYS(ORIEL_EINVAL, oriel_mem_reg(r->ctx, user, 0), "len");
	SAYS(ORIEL_EINVAL, oriel_mem_reg(r->ctx, user, SIZE_MAX), "wrap");
	FAILS(ORIEL_EINVAL, oriel_mem_dereg(r->ctx, user, sizeof(user)));
	OK(oriel_mem_reg(r->ctx, user, sizeof(user)));
	OK(oriel_mem_reg(r->ctx, user, sizeof(user)));
	OK(oriel_mem_dereg(r->ctx, user, sizeof(user)));
	OK(oriel_mem_dereg(r->ctx, user, sizeof(user)));
	FAILS(ORIEL_EINVAL, oriel_mem_dereg(r->ctx, user, sizeof(user)));
	return true;
}

static void
bad_ranks(struct ranks *r, oriel_win *win)
{
	const int bad[] = { -1, r->size, INT_MAX, INT_MIN };
	char name[16];

	for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
		snprintf(name, sizeof(name), "%d", bad[b]);
		for (int i = 0; i < WIN_TARGETED; i++)
			SAYS(ORIEL_ERANK, win_call(i, win, bad[b]), name);
		SAYS(ORIEL_ERANK, oriel_path(r->world, bad[b], 0, NULL, 0), name);
	}
}

static void
bad_ranges(oriel_win *win, int t, size_t size)
{
	static const size_t huge[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, (size_t)1 << 32 };
	uint64_t word[8] = { 0 };
	char *src = (char *)word;
	oriel_req *req = NULL;

	for (size_t i = 0; i < 4; i++) {
		size_t h = huge[i];

		SAYS(ORIEL_ERANGE, oriel_put(win, t, h, src, 1), "displacement");
		SAYS(ORIEL_ERANGE, oriel_put(win, t, 1, src, h), "displacement 1");
		SAYS(ORIEL_ERANGE, oriel_put(win, t, h, src, h), "displacement");
		SAYS(ORIEL_ERANGE, oriel_get(win, t, h, src, 1), "displacement");
		SAYS(ORIEL_ERANGE, oriel_get(win, t, 0, src, h), "displacement 0");
		SAYS(ORIEL_ERANGE, oriel_rput(win, t, h, src, 8, &req), "displacement");
		SAYS(ORIEL_ERANGE, oriel_rget(win, t, 8, src, h, &req), "displacement 8");
		SAYS(ORIEL_ERANGE, oriel_put_signal(win, t, h, src, 8, 0, ORIEL_SIGNAL_SET, 1),
		     "displacement");
		SAYS(ORIEL_ERANGE, oriel_signal(win, t, h, ORIEL_SIGNAL_SET, 1), "slot");
		FAILS(ORIEL_ERANGE, oriel_put_strided(win, t, 0, h, src, 8, 8, 2));
		FAILS(ORIEL_ERANGE, oriel_put_strided(win, t, h, 8, src, 8, 8, 1));
		FAILS(ORIEL_ERANGE, oriel_put_strided(win, t, 0, 8, src, 8, 8, h));
		FAILS(ORIEL_ERANGE, oriel_put_strided(win, t, 0, h, src, h, h, 2));
		FAILS(ORIEL_ERANGE, oriel_get_strided(win, t, 8, h, src, h, 8, h));
		FAILS(ORIEL_ERANGE, oriel_get_strided(win, t, 0, h, src, h, h, 1));
	}
	FAILS(ORIEL_ERANGE, oriel_put_strided(win, t, size - 8, 8, src, 8, 8, 2));
	FAILS(ORIEL_ERANGE, oriel_put_strided(win, t, 1, size - 8, src, 8, 8, 2));
	FAILS(ORIEL_ERANGE, oriel_put(win, t, size + 1, src, 0));
	OK(oriel_put(win, t, size, src, 0));
	CHECK(!req, "a refused call made a request");
}

static void
bad_arguments(oriel_win *win, int t)
{
	uint64_t word[8] = { 0 };
	oriel_req *req = NULL;
	int done = 77;

	SAYS(ORIEL_EINVAL, oriel_put(win, t, 0, NULL, 8), "src");
	SAYS(ORIEL_EINVAL, oriel_get(win, t, 0, NULL, 8), "dst");
	SAYS(ORIEL_EINVAL, oriel_put_signal(win, t, 0, NULL, 8, 0, ORIEL_SIGNAL_SET, 1), "src");
	SAYS(ORIEL_EINVAL, oriel_rput(win, t, 0, NULL, 8, &req), "src");
	SAYS(ORIEL_EINVAL, oriel_rget(win, t, 0, NULL, 8, &req), "dst");
	SAYS(ORIEL_EINVAL, oriel_rput(win, t, 0, word, 8, NULL), "req");
	SAYS(ORIEL_EINVAL, oriel_put_strided(win, t, 0, 8, NULL, 8, 8, 2), "NULL");
	SAYS(ORIEL_EINVAL, oriel_put_strided(win, t, 0, 7, word, 8, 8, 2), "7");
	SAYS(ORIEL_EINVAL, oriel_get_strided(win, t, 0, 8, word, 7, 8, 2), "7");
	SAYS(ORIEL_EINVAL, oriel_put_list(win, t, NULL, 1), "segs");
	OK(oriel_put_list(win, t, NULL, 0));
	OK(oriel_put(win, t, 0, NULL, 0));
	OK(oriel_put_strided(win, t, 0, 0, NULL, 0, 0, 5));
	OK(oriel_put_strided(win, t, 0, 0, NULL, 0, 5, 0));
	SAYS(ORIEL_EINVAL, oriel_win_ptr(win, t, NULL), "ptr");
	SAYS(ORIEL_EINVAL, oriel_signal_test(win, 0, ORIEL_EQ, 0, NULL), "met");
	SAYS(ORIEL_EINVAL, oriel_signal_read(win, 0, NULL), "value");
	SAYS(ORIEL_EINVAL, oriel_signal_wait(win, 0, (enum oriel_cmp)6, 0, 0, NULL), "6");
	SAYS(ORIEL_EINVAL, oriel_signal_wait(win, 0, (enum oriel_cmp) - 1, 0, 0, NULL), "-1");
	SAYS(ORIEL_EINVAL, oriel_req_test(NULL, &done), "req");
	SAYS(ORIEL_EINVAL, oriel_req_wait(NULL, 0), "req");
	OK(oriel_req_wait(&req, 0));
	SAYS(ORIEL_EINVAL, oriel_req_test(&req, NULL), "done");
	OK(oriel_req_test(&req, &done));
	CHECK(done == 1, "no request is not complete: %d", done);
}

/* A request's handle that was kept after its end. */
static bool
stale_request(oriel_win *win, int t)
{
	oriel_req *req = NULL, *stale;
	uint64_t word = 0;
	int done;

	if (!OK(oriel_rget(win, t, 0, &word, 8, &req)))
		return false;
	stale = req;
	if (!OK(oriel_req_wait(&req, RANKS_WAIT_NS)))
		return false;
	SAYS(ORIEL_EHANDLE, oriel_req_wait(&stale, 0), "live request");
	SAYS(ORIEL_EHANDLE, oriel_req_test(&stale, &done), "live request");
	return true;
}

/* All segments are checked before the first is moved. */
static void
bad_lists(oriel_win *win, int t, size_t size)
{
	unsigned char byte = 1;
	struct oriel_seg segs[2] = { { 40, &byte, 1 }, { size, &byte, 1 } };

	SAYS(ORIEL_ERANGE, oriel_put_list(win, t, segs, 2), "segment 1");
	SAYS(ORIEL_ERANGE, oriel_get_list(win, t, segs, 2), "segment 1");
	segs[1] = (struct oriel_seg){ 0, NULL, 1 };
	SAYS(ORIEL_EINVAL, oriel_put_list(win, t, segs, 2), "segment 1");
	segs[1] = (struct oriel_seg){ SIZE_MAX, &byte, 2 };
	SAYS(ORIEL_ERANGE, oriel_put_list(win, t, segs, 2), "segment 1");
}

/* Pages that nobody may touch lie around the window and around the local buffer. */
static unsigned char *
fenced(size_t pages)
{
	unsigned char *p =
	        mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!NEED(p != MAP_FAILED && !mprotect(p + PAGE, pages * PAGE, PROT_READ | PROT_WRITE),
	          "no memory"))
		return NULL;
	memset(p + PAGE, AREA_FILL, pages * PAGE);
	return p + PAGE;
}

static bool
arguments(struct ranks *r)
{
	unsigned char *base = fenced(1), *local = fenced(1);
	int t = (r->rank + 1) % r->size;
	uint64_t word[2] = { 0 };
	oriel_win *win;

	if (!base || !local || !OK(oriel_win_create(r->world, base, PAGE, 1, &win)))
		return false;
	bad_ranks(r, win);
	for (int i = 0; i < 2; i++) { /* to the neighbour, to itself */
		bad_ranges(win, i ? r->rank : t, PAGE);
		bad_arguments(win, i ? r->rank : t);
		bad_lists(win, i ? r->rank : t, PAGE);
		if (!stale_request(win, i ? r->rank : t))
			return false;
	}
	if (!OK(oriel_barrier(r->world)) ||
	    !OK(oriel_put_strided(win, t, 0, PAGE - 8, word, 8, 8, 2)) ||
	    !OK(oriel_flush_all(win)) || !OK(oriel_barrier(r->world)))
		return false;
	/* The one put that was legal wrote the first and the last word. */
	for (size_t i = 0; i < PAGE; i++)
		if (!CHECK(base[i] == (i < 8 || i >= PAGE - 8 ? 0 : AREA_FILL),
		           "byte %zu is %02x after refused calls", i, base[i]))
			break;
	if (!OK(oriel_barrier(r->world)))
		return false;
	/* Whole and last bytes, with the local buffer at the edge of what can be read. */
	for (size_t len = 1; len <= PAGE; len += len < 64 ? 1 : 251) {
		OK(oriel_put(win, t, PAGE - len, local + PAGE - len, len));
		OK(oriel_get(win, t, PAGE - len, local + PAGE - len, len));
		OK(oriel_put_signal(win, t, PAGE - len, local + PAGE - len, len, 0,
		                    ORIEL_SIGNAL_SET, len));
		FAILS(ORIEL_ERANGE, oriel_put(win, t, PAGE - len + 1, local, len));
		OK(oriel_flush(win, t));
	}
	if (!OK(oriel_win_free(win)))
		return false;
	munmap(base - PAGE, 3 * PAGE);
	munmap(local - PAGE, 3 * PAGE);
	return true;
}

static bool
collectives(struct ranks *r)
{
	char text[4] = "abc", in = 1;
	oriel_comm *comm = NULL;
	oriel_win *win = NULL;

	CHECK(oriel_allgather(r->world, &in, NULL, 1) < 0, "allgather into NULL");
	/* On all ranks, so that it is refused before anything is sent. */
	CHECK(oriel_allgather(r->world, &in, text, SIZE_MAX / 2) < 0 || r->size == 1,
	      "allgather of SIZE_MAX / 2");
	OK(oriel_allgather(r->world, NULL, NULL, 0));
	FAILS(ORIEL_EINVAL, oriel_comm_dup(r->world, NULL));
	FAILS(ORIEL_EINVAL, oriel_comm_split(r->world, 0, 0, NULL));
	FAILS(ORIEL_EINVAL, oriel_win_create(r->world, (void *)-8, 64, 0, &win));
	FAILS(ORIEL_EINVAL, oriel_win_create(r->world, NULL, 64, 0, &win));
	CHECK(!comm && !win, "a failed call wrote its result");
	SAYS(ORIEL_EINVAL, oriel_path(r->world, 0, 3, text, 4), "3");
	SAYS(ORIEL_EINVAL, oriel_path(r->world, 0, 0, NULL, 4), "text");
	CHECK(oriel_path(r->world, r->rank, 0, text, 4) > 4, "the length of the whole text");
	CHECK(!memcmp(text, "sel", 4), "cut to \"%.4s\"", text);
	return OK(oriel_barrier(r->world));
}

static bool
options(struct ranks *r)
{
	static const char *const unknown[] = { "ORIEL_SPIM=1us", NULL };
	static const char *const bad[] = { "ORIEL_SPIN=soon", NULL };
	struct oriel_options o = { .size = sizeof(o) - 1 };
	oriel_ctx *ctx = NULL;

	SAYS(ORIEL_EINVAL, oriel_init(NULL, NULL), "ctx");
	SAYS(ORIEL_EINVAL, oriel_init(&o, &ctx), "size");
	o.size = sizeof(o);
	o.knobs = unknown;
	SAYS(ORIEL_EINVAL, oriel_init(&o, &ctx), "ORIEL_SPIM");
	o.knobs = bad;
	SAYS(ORIEL_EINVAL, oriel_init(&o, &ctx), "ORIEL_SPIN=soon");
	CHECK(!ctx, "a failed init wrote its result");
	SAYS(ORIEL_EINVAL, oriel_run_threads(0, NULL, NULL, NULL), "n");
	SAYS(ORIEL_EINVAL, oriel_run_threads(1, NULL, NULL, NULL), "fn");
	for (int e = 1; e > -20; e--)
		CHECK(oriel_strerror(e) && oriel_strerror(e)[0], "no text for %d", e);
	return OK(oriel_barrier(r->world));
}

/* Every call of a forked child is refused; none hangs, none writes to the peers. */
static int
child(struct ranks *r, oriel_win *win)
{
	int bad = 0;

	for (int i = 0; i < WIN_CALLS; i++)
		bad += win_call(i, win, (r->rank + 1) % r->size) != ORIEL_EFORK;
	for (int i = 0; i < COMM_CALLS; i++)
		bad += comm_call(i, r->world) != ORIEL_EFORK;
	for (int i = 0; i < CTX_CALLS - 1; i++)
		bad += ctx_call(i, r->ctx) != ORIEL_EFORK;
	bad += oriel_win_free(win) != ORIEL_EFORK;
	bad += oriel_fini(r->ctx) != ORIEL_EFORK;
	bad += oriel_world(r->ctx) != NULL;
	bad += !strstr(oriel_detail(), "child");
	return bad;
}

static bool
forked(struct ranks *r)
{
	uint64_t word = 1;
	int status = -1;
	oriel_win *win;
	void *base;
	pid_t pid;

	if (!OK(oriel_win_alloc(r->world, 64, 1, &base, &win)) ||
	    !OK(oriel_put(win, (r->rank + 1) % r->size, 8, &word, 8)))
		return false;
	pid = fork();
	if (!pid)
		_exit(child(r, win));
	NEED(pid > 0 && waitpid(pid, &status, 0) == pid, "fork");
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "child: status 0x%x", (unsigned)status);
	if (!OK(oriel_flush_all(win)) || !OK(oriel_barrier(r->world)))
		return false;
	/* The parent goes on as if nothing had been. */
	CHECK(((uint64_t *)base)[0] == 0 && ((uint64_t *)base)[1] == 1, "the child wrote");
	return OK(oriel_win_free(win));
}

static int
run(struct ranks *r)
{
	return !handles(r) || !memory(r) || !arguments(r) || !collectives(r) || !options(r) ||
	       !forked(r);
}

RANKS_MAIN(run)
