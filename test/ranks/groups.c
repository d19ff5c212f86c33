/*
 * Communicators: split, dup, strided and grid groups, groups of groups; windows
 * and collectives on each; in which order they may be freed; several contexts
 * of one process.
 */
#include "test/ranks/area.h"

#include <dirent.h>

/* Every rank of comm tells every other its world rank: expected[i] is rank i's. */
static bool
members(struct ranks *r, oriel_comm *comm, const int *expected, int n, int mine)
{
	int world = r->rank, *all = calloc((size_t)n, sizeof(int));
	int node_rank = -1, node_size = -1;
	bool ok = NEED(all, "no memory");

	CHECK(oriel_comm_size(comm) == n, "size %d, not %d", oriel_comm_size(comm), n);
	CHECK(oriel_comm_rank(comm) == mine, "rank %d, not %d", oriel_comm_rank(comm), mine);
	OK(oriel_comm_node(comm, &node_rank, &node_size));
	OK(oriel_comm_node(comm, NULL, NULL));
	CHECK(node_rank >= 0 && node_rank <= mine && node_rank < node_size && node_size <= n,
	      "place %d of %d on the node", node_rank, node_size);
	ok = ok && OK(oriel_barrier(comm)) && OK(oriel_allgather(comm, &world, all, sizeof(int)));
	for (int i = 0; ok && i < n; i++)
		CHECK(all[i] == expected[i], "rank %d is world rank %d, not %d", i, all[i],
		      expected[i]);
	free(all);
	return ok;
}

/* A window over comm: everybody puts its world rank into everybody's part, twice in a row. */
static bool
window(struct ranks *r, oriel_comm *comm, const int *expected, int n, int mine)
{
	for (int round = 0; round < 2; round++) {
		uint64_t word = (uint64_t)r->rank + 1000;
		oriel_win *win;
		void *base;

		if (!OK(oriel_win_alloc(comm, (size_t)n * 8, (size_t)n, &base, &win)))
			return false;
		for (int t = 0; t < n; t++)
			if (!OK(oriel_put_signal(win, t, (size_t)mine * 8, &word, 8, (size_t)mine,
			                         ORIEL_SIGNAL_SET, word)))
				return false;
		FAILS(ORIEL_ERANK, oriel_put(win, n, 0, &word, 8));
		FAILS(ORIEL_ERANK, oriel_put(win, -1, 0, &word, 8));
		for (int s = 0; s < n; s++) {
			uint64_t seen = 0, want = (uint64_t)expected[s] + 1000;

			if (!OK(oriel_signal_wait_from(win, s, (size_t)s, ORIEL_NE, 0,
			                               RANKS_WAIT_NS, &seen)))
				return false;
			CHECK(seen == want && ((uint64_t *)base)[s] == want,
			      "rank %d of the group sent %llu, not %llu", s,
			      (unsigned long long)seen, (unsigned long long)want);
		}
		if (!OK(oriel_win_free(win)))
			return false;
	}
	return true;
}

static bool
use(struct ranks *r, oriel_comm *comm, const int *expected, int n, int mine)
{
	bool ok;

	ranks_watch(comm);
	ok = members(r, comm, expected, n, mine) && window(r, comm, expected, n, mine);
	ranks_unwatch(comm);
	return ok;
}

static bool
splits(struct ranks *r)
{
	int expected[64], n = 0, mine;
	oriel_comm *comm = (oriel_comm *)(uintptr_t)1;

	/* All, in reverse order. */
	if (!OK(oriel_comm_split(r->world, 0, -r->rank, &comm)))
		return false;
	for (int i = r->size - 1; i >= 0; i--)
		expected[n++] = i;
	if (!use(r, comm, expected, n, r->size - 1 - r->rank) || !OK(oriel_comm_free(comm)))
		return false;

	/* Odd and even, with keys that are equal: by rank. */
	if (!OK(oriel_comm_split(r->world, r->rank % 2, 7, &comm)))
		return false;
	for (n = 0, mine = 0; r->rank % 2 + 2 * n < r->size; n++)
		expected[n] = r->rank % 2 + 2 * n;
	mine = r->rank / 2;
	if (!use(r, comm, expected, n, mine) || !OK(oriel_comm_free(comm)))
		return false;

	/* Rank 0 joins none; the extreme keys sort too. */
	if (!OK(oriel_comm_split(r->world, r->rank ? INT32_MAX : -5,
	                         r->rank == 1 ? INT32_MAX : INT32_MIN + r->rank, &comm)))
		return false;
	if (!r->rank)
		return CHECK(!comm, "a rank of no color got a communicator");
	for (n = 0; n < r->size - 2; n++)
		expected[n] = n + 2;
	expected[n++] = 1;
	return use(r, comm, expected, n, r->rank == 1 ? n - 1 : r->rank - 2) &&
	       OK(oriel_comm_free(comm));
}

static bool
dups(struct ranks *r)
{
	int expected[64];
	oriel_comm *one, *two;

	for (int i = 0; i < r->size; i++)
		expected[i] = i;
	if (!OK(oriel_comm_dup(r->world, &one)) || !OK(oriel_comm_dup(one, &two)))
		return false;
	/* The first is freed while its child lives. */
	return use(r, one, expected, r->size, r->rank) && OK(oriel_comm_free(one)) &&
	       use(r, two, expected, r->size, r->rank) &&
	       use(r, r->world, expected, r->size, r->rank) && OK(oriel_comm_free(two));
}

/* start, start + stride, ... of comm, whose ranks are of[0 .. n-1] in the world. */
static bool
strided(struct ranks *r, oriel_comm *comm, const int *of, int n, int me)
{
	for (int start = 0; start < n; start++) {
		for (int stride = 1; stride <= n; stride++) {
			int size = (n - 1 - start) / stride + 1, expected[64];
			bool in = me >= start && (me - start) % stride == 0;
			oriel_comm *sub = NULL;

			for (int i = 0; i < size; i++)
				expected[i] = of[start + i * stride];
			if (!in) {
				FAILS(ORIEL_ERANK,
				      oriel_comm_strided(comm, start, stride, size, &sub));
				CHECK(!sub, "a failed call wrote its result");
				continue;
			}
			if (!OK(oriel_comm_strided(comm, start, stride, size, &sub)) ||
			    !use(r, sub, expected, size, (me - start) / stride) ||
			    !OK(oriel_comm_free(sub)))
				return false;
		}
	}
	return true;
}

static bool
strided_of_groups(struct ranks *r)
{
	int all[64], reversed[64];
	oriel_comm *comm;

	for (int i = 0; i < r->size; i++) {
		all[i] = i;
		reversed[i] = r->size - 1 - i;
	}
	if (!strided(r, r->world, all, r->size, r->rank))
		return false;
	FAILS(ORIEL_EINVAL, oriel_comm_strided(r->world, 0, 1, 0, &comm));
	FAILS(ORIEL_ERANK, oriel_comm_strided(r->world, 0, 1, r->size + 1, &comm));
	FAILS(ORIEL_ERANK, oriel_comm_strided(r->world, -1, 1, 1, &comm));
	FAILS(ORIEL_ERANK, oriel_comm_strided(r->world, r->size, 1, 1, &comm));
	FAILS(ORIEL_EINVAL, oriel_comm_strided(r->world, 0, 1, 1, NULL));
	if (r->size > 1) {
		FAILS(ORIEL_EINVAL, oriel_comm_strided(r->world, 0, 0, 2, &comm));
		FAILS(ORIEL_ERANK, oriel_comm_strided(r->world, 0, INT32_MAX, 2, &comm));
	}
	if (!OK(oriel_comm_split(r->world, 0, -r->rank, &comm)))
		return false;
	return strided(r, comm, reversed, r->size, r->size - 1 - r->rank) &&
	       OK(oriel_comm_free(comm));
}

/* Every choice of kept dimensions of a grid over the world, and a line of each result. */
static bool
grid(struct ranks *r, int n_dims, const int *dims)
{
	for (int bits = 0; bits < 1 << n_dims; bits++) {
		int keep[8], expected[64], n = 0, mine = -1;
		oriel_comm *comm, *line;

		for (int d = 0; d < n_dims; d++)
			keep[d] = bits >> d & 1;
		for (int w = 0; w < r->size; w++) {
			bool in = true;

			for (int d = n_dims - 1, a = w, b = r->rank; d >= 0;
			     a /= dims[d], b /= dims[d], d--)
				in = in && (keep[d] || a % dims[d] == b % dims[d]);
			if (in && w == r->rank)
				mine = n;
			if (in)
				expected[n++] = w;
		}
		if (!OK(oriel_comm_grid(r->world, n_dims, dims, keep, &comm)) ||
		    !use(r, comm, expected, n, mine))
			return false;
		/* A grid of the grid, its parent freed first; all ranks in one dimension. */
		if (!OK(oriel_comm_grid(comm, 1, &n, (int[]){ 1 }, &line)) ||
		    !OK(oriel_comm_free(comm)) || !use(r, line, expected, n, mine) ||
		    !OK(oriel_comm_free(line)))
			return false;
	}
	return true;
}

static bool
grids(struct ranks *r)
{
	int n = r->size;
	oriel_comm *comm;

	if (!grid(r, 1, &n) || !grid(r, 3, (int[]){ 1, n, 1 }))
		return false;
	if (n % 2 == 0 && (!grid(r, 2, (int[]){ 2, n / 2 }) || !grid(r, 2, (int[]){ n / 2, 2 })))
		return false;
	if (n == 8 && !grid(r, 3, (int[]){ 2, 2, 2 }))
		return false;
	FAILS(ORIEL_EINVAL, oriel_comm_grid(r->world, 0, &n, &n, &comm));
	FAILS(ORIEL_EINVAL, oriel_comm_grid(r->world, 1, (int[]){ n + 1 }, &n, &comm));
	FAILS(ORIEL_EINVAL, oriel_comm_grid(r->world, 1, (int[]){ 0 }, &n, &comm));
	FAILS(ORIEL_EINVAL,
	      oriel_comm_grid(r->world, 2, (int[]){ -1, -n }, (int[]){ 1, 1 }, &comm));
	FAILS(ORIEL_EINVAL,
	      oriel_comm_grid(r->world, 2, (int[]){ 65536, 65536 }, (int[]){ 1, 1 }, &comm));
	FAILS(ORIEL_EINVAL, oriel_comm_grid(r->world, 1, NULL, &n, &comm));
	FAILS(ORIEL_EINVAL, oriel_comm_grid(r->world, 1, &n, NULL, &comm));
	FAILS(ORIEL_EINVAL, oriel_comm_grid(r->world, 1, &n, &n, NULL));
	return true;
}

/* A communicator with windows cannot be freed, and stays usable on all ranks. */
static bool
busy(struct ranks *r)
{
	oriel_comm *comm;
	oriel_win *one, *two;
	void *base;

	if (!OK(oriel_comm_dup(r->world, &comm)) || !OK(oriel_win_alloc(comm, 8, 1, &base, &one)) ||
	    !OK(oriel_win_alloc(comm, 8, 1, &base, &two)))
		return false;
	FAILS(ORIEL_EBUSY, oriel_comm_free(comm));
	CHECK(strstr(oriel_detail(), "2 windows"), "detail: %s", oriel_detail());
	if (!OK(oriel_win_free(one)))
		return false;
	FAILS(ORIEL_EBUSY, oriel_comm_free(comm));
	if (!OK(oriel_barrier(comm)) || !OK(oriel_win_free(two)) || !OK(oriel_comm_free(comm)))
		return false;
	FAILS(ORIEL_EHANDLE, oriel_barrier(comm));
	FAILS(ORIEL_EHANDLE, oriel_comm_free(comm));
	FAILS(ORIEL_EINVAL, oriel_comm_free(r->world));
	return OK(oriel_comm_free(NULL));
}

/* Many at once, freed in the order of making or in the reverse; ids must not meet. */
static bool
many(struct ranks *r)
{
	enum { N = 40 };
	oriel_comm *comm[N];
	int all[64];

	for (int i = 0; i < r->size; i++)
		all[i] = i;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < N; i++) {
			int rc = i % 3 == 0 ? oriel_comm_dup(r->world, &comm[i])
			         : i % 3 == 1
			                 ? oriel_comm_strided(r->world, 0, 1, r->size, &comm[i])
			                 : oriel_comm_split(r->world, 3, r->rank, &comm[i]);

			if (!OK(rc))
				return false;
		}
		for (int i = 0; i < N; i++)
			if (!use(r, comm[(i * 7) % N], all, r->size, r->rank))
				return false;
		for (int i = 0; i < N; i++)
			if (!OK(oriel_comm_free(comm[pass ? N - 1 - i : i])))
				return false;
	}
	return true;
}

/* What is not freed goes with the context: groups, windows, and puts that nobody has flushed. */
static bool
leave_behind(struct ranks *r, oriel_comm *world, char *user, size_t len)
{
	int n = r->size, right = (r->rank + 1) % r->size;
	oriel_comm *dup, *grid;
	oriel_win *win;
	void *base;

	if (!OK(oriel_comm_dup(world, &dup)) ||
	    !OK(oriel_comm_grid(dup, 1, &n, (int[]){ 1 }, &grid)) ||
	    !OK(oriel_win_alloc(grid, 64, 1, &base, &win)) ||
	    !OK(oriel_put(win, right, 8, &n, sizeof(n))) || !OK(oriel_comm_free(dup)) ||
	    !OK(oriel_win_create(world, user, len, 1, &win)))
		return false;
	memset(user, 0, len);
	if (!OK(oriel_barrier(world)))
		return false;
	return OK(oriel_put(win, right, len - sizeof(n), &n, sizeof(n)));
}

static size_t
open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* A second context of this rank: another world, other traffic, its own end. */
static bool
second_context(struct ranks *r)
{
	struct ranks other = { .rank = r->rank, .size = r->size };
	static char user[20000];
	int all[64], last;
	bool ok;

	if (!OK(oriel_init(NULL, &other.ctx)))
		return false;
	other.world = oriel_world(other.ctx);
	for (int i = 0; i < r->size; i++)
		all[i] = i;
	CHECK(other.world && other.world != r->world, "the worlds are the same");
	ok = use(r, other.world, all, r->size, r->rank) && use(r, r->world, all, r->size, r->rank);
	ok = ok && leave_behind(r, other.world, user, sizeof(user));
	OK(oriel_fini(other.ctx));
	memcpy(&last, user + sizeof(user) - sizeof(last), sizeof(last));
	CHECK(last == r->size, "a put that was under way at the end is lost");
	return ok && use(r, r->world, all, r->size, r->rank);
}

static int
run(struct ranks *r)
{
	size_t files;

	if (r->size > 64)
		return ranks_skip("more than 64 ranks");
	if (!splits(r) || !dups(r) || !strided_of_groups(r) || !grids(r) || !busy(r) || !many(r))
		return 1;
	if (r->threads)
		return 0;
	/* Again: what one left behind is not in the way of the next, and no file stays open. */
	if (!second_context(r))
		return 1;
	files = open_files();
	if (!second_context(r) || !second_context(r))
		return 1;
	CHECK(open_files() <= files, "%zu files are open, %zu were", open_files(), files);
	return 0;
}

RANKS_MAIN(run)
