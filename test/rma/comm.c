#include "test/rma/alone.h"

#include <stdio.h>
#include <string.h>

#define RANKS 24

struct group { /* as one of its ranks has it */
	oriel_ctx *ctx;
	oriel_comm *comm;
	struct oriel_bootstrap table;
	int local;
};

/* World ranks and ranks are inverse to each other; the list is what was expected. */
static void
check_members(const oriel_comm *c, const int *world, int n, const char *what)
{
	cr_assert_eq(c->size, n, "%s: size %d", what, c->size);
	cr_assert_eq(world[c->rank], c->ctx->boot.rank, "%s: rank %d", what, c->rank);
	for (int r = 0; r < n; r++)
		cr_assert_eq(comm_world_rank(c, r), world[r], "%s: rank %d is %d, not %d", what, r,
		             comm_world_rank(c, r), world[r]);
	for (int w = -2; w < RANKS + 2; w++) {
		int want = -1;

		for (int r = 0; r < n; r++)
			want = world[r] == w ? r : want;
		cr_assert_eq(comm_rank_of(c, w), want, "%s: world rank %d is %d, not %d", what, w,
		             comm_rank_of(c, w), want);
	}
}

/* The lists that a call gives on each rank, computed here by enumeration. */
static int
strided_list(const int *of, int start, int stride, int n, int *out)
{
	for (int i = 0; i < n; i++)
		out[i] = of[start + i * stride];
	return n;
}

static int
grid_list(const int *of, int n, int n_dims, const int *dims, const int *keep, int me, int *out)
{
	int m = 0;

	for (int r = 0; r < n; r++) {
		bool in = true;

		for (int d = n_dims - 1, a = r, b = me; d >= 0; a /= dims[d], b /= dims[d], d--)
			in = in && (keep[d] || a % dims[d] == b % dims[d]);
		if (in)
			out[m++] = of[r];
	}
	return m;
}

static void
strided_under(oriel_comm *parent, const int *of, const char *what)
{
	int list[RANKS];

	for (int start = 0; start < parent->size; start++) {
		for (int stride = 1; stride <= parent->size - start; stride++) {
			int n = (parent->size - 1 - start) / stride + 1;
			oriel_comm *c;

			if (parent->rank < start || (parent->rank - start) % stride)
				continue;
			strided_list(of, start, stride, n, list);
			cr_assert_eq(oriel_comm_strided(parent, start, stride, n, &c), 0, "%s: %s",
			             what, oriel_detail());
			check_members(c, list, n, what);
			comm_put(c);
		}
	}
}

static void
grids_under(oriel_comm *parent, const int *of, int depth, const char *what)
{
	static const int shapes[][4] = { { 24 },      { 2, 12 },    { 12, 2 },      { 2, 3, 4 },
		                         { 4, 3, 2 }, { 1, 24, 1 }, { 2, 2, 2, 3 }, { 3, 4 },
		                         { 6, 2 },    { 8 },        { 2, 4 },       { 2, 2, 2 },
		                         { 2, 2 },    { 3, 2 },     { 3 } };

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		int n_dims = 0, product = 1;

		for (; n_dims < 4 && shapes[s][n_dims]; n_dims++)
			product *= shapes[s][n_dims];
		if (product != parent->size)
			continue;
		for (int bits = 0; bits < 1 << n_dims; bits++) {
			int keep[4], list[RANKS], n;
			oriel_comm *c;
			char text[64];

			for (int d = 0; d < n_dims; d++)
				keep[d] = bits >> d & 1;
			n = grid_list(of, parent->size, n_dims, shapes[s], keep, parent->rank,
			              list);
			snprintf(text, sizeof(text), "%s, shape %zu keep %x", what, s, bits);
			cr_assert_eq(oriel_comm_grid(parent, n_dims, shapes[s], keep, &c), 0,
			             "%s: %s", text, oriel_detail());
			check_members(c, list, n, text);
			if (depth)
				grids_under(c, list, depth - 1, text);
			strided_under(c, list, text);
			comm_put(c);
		}
	}
}

Test(comm, strided_and_grids_of_the_world)
{
	int of[RANKS];

	for (int i = 0; i < RANKS; i++)
		of[i] = i;
	for (int me = 0; me < RANKS; me += 5) {
		struct group g;

		g.ctx = alone_open(&g.table, &g.local, me, RANKS);
		check_members(g.ctx->world, of, RANKS, "world");
		strided_under(g.ctx->world, of, "world");
		grids_under(g.ctx->world, of, 1, "world");
		alone_close(g.ctx);
	}
}

/* As split makes it: any order. */
static oriel_comm *
list_comm(oriel_ctx *ctx, const int *world, int n)
{
	struct rank_list *l = malloc(sizeof(*l) + (size_t)n * sizeof(int));
	oriel_comm *c = calloc(1, sizeof(*c));

	cr_assert(l && c);
	l->refs = 1;
	l->n = n;
	memcpy(l->rank, world, (size_t)n * sizeof(int));
	c->ctx = ctx;
	c->kind = COMM_LIST;
	c->list = l;
	c->size = n;
	c->id = 12345;
	for (int r = 0; r < n; r++)
		if (world[r] == ctx->boot.rank)
			c->rank = r;
	cr_assert_eq(comm_make(c), 0);
	return c;
}

Test(comm, groups_of_a_list)
{
	int of[RANKS] = { 0 };

	for (int i = 0; i < RANKS; i++)
		of[i] = i * 7 % RANKS;
	for (int me = 0; me < RANKS; me += 3) {
		struct group g;
		oriel_comm *all, *some, *c;
		int list[8] = { 11, (me + 1) % RANKS, 5, me, 20, 21, 22, 23 }, n = 4;

		g.ctx = alone_open(&g.table, &g.local, me, RANKS);
		all = list_comm(g.ctx, of, RANKS);
		check_members(all, of, RANKS, "list");
		strided_under(all, of, "list");
		grids_under(all, of, 0, "list");
		/* The same ranks share the list, which outlives the first. */
		cr_assert_eq(oriel_comm_strided(all, 0, 1, RANKS, &c), 0);
		cr_assert(c->kind == COMM_LIST && c->list == all->list);
		comm_put(all);
		check_members(c, of, RANKS, "shared list");
		comm_put(c);
		if (me == 11 || me == 5 || me == 10 || me == 4) { /* no rank twice */
			alone_close(g.ctx);
			continue;
		}
		some = list_comm(g.ctx, list, n);
		check_members(some, list, n, "short list");
		grids_under(some, list, 0, "short list");
		comm_put(some);
		alone_close(g.ctx);
	}
}

/* Members compute the same id; groups of other members, or made once more, have another. */
Test(comm, ids)
{
	struct group g[RANKS];
	uint64_t id[6][RANKS];
	const int dims[] = { 2, 3, 4 }, keep[] = { 0, 1, 0 };

	for (int r = 0; r < RANKS; r++) {
		oriel_comm *c;

		g[r].ctx = alone_open(&g[r].table, &g[r].local, r, RANKS);
		cr_assert_eq(oriel_comm_strided(g[r].ctx->world, r % 4, 4, 6, &c), 0);
		id[0][r] = c->id;
		cr_assert_eq(oriel_comm_strided(g[r].ctx->world, r % 4, 4, 6, &c), 0);
		id[1][r] = c->id;
		cr_assert_eq(oriel_comm_grid(g[r].ctx->world, 3, dims, keep, &c), 0);
		id[2][r] = c->id;
		id[3][r] = g[r].ctx->world->id;
		cr_assert_eq(oriel_comm_strided(c, 0, 1, 3, &c), 0);
		id[4][r] = c->id;
		cr_assert_eq(oriel_comm_strided(g[r].ctx->world, 0, 1, RANKS, &c), 0);
		id[5][r] = c->id;
	}
	for (int a = 0; a < RANKS; a++) {
		for (int b = 0; b < RANKS; b++) {
			bool strided = a % 4 == b % 4, grid = strided && a / 12 == b / 12;

			cr_assert_eq(id[0][a] == id[0][b], strided);
			cr_assert_eq(id[1][a] == id[1][b], strided);
			cr_assert_eq(id[2][a] == id[2][b], grid);
			cr_assert_eq(id[4][a] == id[4][b], grid);
			cr_assert(id[3][a] == id[3][b] && id[5][a] == id[5][b]);
			for (int i = 0; i < 6; i++)
				for (int j = 0; j < i; j++)
					cr_assert(id[i][a] != id[j][b], "ids of %d and %d", i, j);
		}
	}
	for (int r = 0; r < RANKS; r++)
		alone_close(g[r].ctx);
}

Test(comm, failure_words)
{
	struct group g;
	oriel_comm *c;
	uint64_t word;

	g.ctx = alone_open(&g.table, &g.local, 3, RANKS);
	cr_assert_eq(oriel_comm_strided(g.ctx->world, 1, 2, 10, &c), 0);
	cr_assert_eq(comm_failed(c), 0);
	word = comm_fail_word(7, 41);
	cr_assert_eq(comm_fail(c, word), word);
	/* The first one stays. */
	cr_assert_eq(comm_fail(c, comm_fail_word(9, 42) | COMM_FAIL_ABORT), word);
	cr_assert_eq(comm_fail_error(c, word), ORIEL_EPEER);
	cr_assert(strstr(oriel_detail(), "rank 3 (world rank 7)") &&
	                  strstr(oriel_detail(), "call 41"),
	          "%s", oriel_detail());
	cr_assert_eq(comm_fail_error(c, word | COMM_FAIL_ABORT), ORIEL_EABORTED);
	cr_assert_eq(comm_call_begin(c), ORIEL_EPEER);
	cr_assert_eq(comm_failed(g.ctx->world), 0);
	/* Call numbers wrap inside their bits and leave the rest alone. */
	word = comm_fail_word(0, UINT64_MAX);
	cr_assert(word && !(word & COMM_FAIL_ABORT) && (uint32_t)word == 1);
	comm_put(c);
	cr_assert_eq(comm_call_begin(g.ctx->world), 0);
	cr_assert_eq(comm_call_begin(g.ctx->world), ORIEL_EBUSY);
	comm_call_end(g.ctx->world);
	alone_close(g.ctx);
}
