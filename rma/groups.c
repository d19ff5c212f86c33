/*
 * groups.c - making communicators out of communicators.
 *
 * dup, strided and grid groups are a description; a split needs to hear from
 * everybody, once, and keeps the list of its ranks.
 */
#include "rma/comm.h"

#include "rma/agreement.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_SEED 77 /* a second, independent hash */

/* Everything that all members know alike, and hash alike. */
struct description {
	uint64_t parent;
	uint64_t made; /* how often this description was used before */
	int32_t kind;
	int32_t color;
	int32_t start, stride, size;
	int32_t n_dims;
	int32_t extent[COMM_MAX_DIMS], dim_stride[COMM_MAX_DIMS];
};

static oriel_comm *
comm_new(oriel_comm *parent, enum comm_kind kind, int rank, int size)
{
	oriel_comm *c = calloc(1, sizeof(*c));

	if (!c) {
		fail(ORIEL_ENOMEM, "no memory for a communicator");
		return NULL;
	}
	c->ctx = parent->ctx;
	c->kind = kind;
	c->rank = rank;
	c->size = size;
	return c;
}

static void
set_ids(oriel_comm *c, const struct description *d)
{
	c->id = hash_bytes(0, d, sizeof(*d)) | 2; /* never 0 or 1 */
	c->check = hash_bytes(CHECK_SEED, d, sizeof(*d));
}

/* Without communication: how often this rank made a group of this description. */
static int
count_made(oriel_ctx *ctx, struct description *d)
{
	uint64_t key = hash_bytes(0, d, sizeof(*d));
	uintptr_t n;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	n = (uintptr_t)table_get(ctx->groups, key);
	rc = table_put(ctx->groups, key, (void *)(n + 1));
	pthread_mutex_unlock(&ctx->lock);
	d->made = n;
	return rc;
}

static int
finish(oriel_comm *c, oriel_comm **out)
{
	int rc = comm_make(c);

	if (rc) {
		c->magic = 0;
		if (c->list && add_acq_rel(&c->list->refs, (uint32_t)-1) == 1)
			free(c->list);
		if (c->kind == COMM_GRID)
			comm_put(c->grid.base);
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* A run of parent's ranks, by whatever parent is made of. */
static int
take_run(oriel_comm *parent, oriel_comm *c, int start, int stride)
{
	switch (parent->kind) {
	case COMM_STRIDED:
		c->start = parent->start + start * parent->stride;
		c->stride = parent->stride * stride;
		return 0;
	case COMM_LIST:
		if (start == 0 && stride == 1 && c->size == parent->size) {
			c->kind = COMM_LIST;
			c->list = parent->list;
			add_relaxed(&c->list->refs, 1);
			return 0;
		}
		break;
	default:
		break;
	}
	/* A grid of one dimension over parent. */
	c->kind = COMM_GRID;
	c->grid.base = parent;
	add_relaxed(&parent->refs, 1);
	c->grid.n_dims = 1;
	c->grid.extent[0] = c->size;
	c->grid.stride[0] = stride;
	c->grid.origin = start;
	return 0;
}

static int
strided_args(oriel_comm *comm, int start, int stride, int size, oriel_comm **out)
{
	int64_t last = (int64_t)start + (int64_t)stride * (size - 1);
	int64_t mine;

	if (!out)
		return fail(ORIEL_EINVAL, "out is NULL");
	if (size < 1)
		return fail(ORIEL_EINVAL, "size %d is not positive", size);
	if (stride < 1 && size > 1)
		return fail(ORIEL_EINVAL, "stride %d is not positive", stride);
	if (start < 0 || start >= comm->size || last >= comm->size)
		return fail(ORIEL_ERANK, "ranks %d to %lld: the communicator has ranks 0 to %d",
		            start, (long long)last, comm->size - 1);
	mine = (int64_t)comm->rank - start;
	if (mine < 0 || comm->rank > last || (size > 1 && mine % stride))
		return fail(ORIEL_ERANK, "rank %d is none of %d, %d, ... (%d ranks)", comm->rank,
		            start, start + stride, size);
	return 0;
}

int
oriel_comm_strided(oriel_comm *comm, int start, int stride, int size, oriel_comm **out)
{
	struct description d;
	oriel_comm *c;
	int rc = comm_enter(comm);

	if (!rc)
		rc = strided_args(comm, start, stride, size, out);
	if (rc)
		return rc;
	if (size == 1)
		stride = 1;
	memset(&d, 0, sizeof(d));
	d.parent = comm->id;
	d.kind = COMM_STRIDED;
	d.start = start;
	d.stride = stride;
	d.size = size;
	rc = count_made(comm->ctx, &d);
	if (rc)
		return rc;
	c = comm_new(comm, COMM_STRIDED, (comm->rank - start) / stride, size);
	if (!c)
		return ORIEL_ENOMEM;
	take_run(comm, c, start, stride);
	set_ids(c, &d);
	return finish(c, out);
}

static int
grid_args(oriel_comm *comm, int n_dims, const int *dims, const int *keep, oriel_comm **out)
{
	int64_t product = 1;

	if (!out || !dims || !keep)
		return fail(ORIEL_EINVAL, "%s is NULL", !out ? "out" : !dims ? "dims" : "keep");
	if (n_dims < 1 || n_dims > COMM_MAX_DIMS)
		return fail(ORIEL_EINVAL, "%d dimensions: 1 to %d are possible", n_dims,
		            COMM_MAX_DIMS);
	for (int d = 0; d < n_dims; d++) {
		if (dims[d] < 1)
			return fail(ORIEL_EINVAL, "extent %d of dimension %d is not positive",
			            dims[d], d);
		product *= dims[d];
		if (product > INT_MAX)
			return fail(ORIEL_EINVAL, "the grid has more ranks than there can be");
	}
	if (product != comm->size)
		return fail(ORIEL_EINVAL, "the grid has %lld ranks, the communicator %d",
		            (long long)product, comm->size);
	return 0;
}

int
oriel_comm_grid(oriel_comm *comm, int n_dims, const int *dims, const int *keep, oriel_comm **out)
{
	int at[COMM_MAX_DIMS], stride[COMM_MAX_DIMS], rest, rank = 0, size = 1, rc;
	struct comm_grid g = { .base = comm };
	struct description desc;
	oriel_comm *c;

	rc = comm_enter(comm);
	if (!rc)
		rc = grid_args(comm, n_dims, dims, keep, out);
	if (rc)
		return rc;
	rest = comm->rank;
	for (int d = n_dims - 1, s = 1; d >= 0; s *= dims[d], d--) {
		at[d] = rest % dims[d];
		rest /= dims[d];
		stride[d] = s;
	}
	for (int d = 0; d < n_dims; d++) {
		if (!keep[d]) {
			g.origin += at[d] * stride[d];
			continue;
		}
		g.extent[g.n_dims] = dims[d];
		g.stride[g.n_dims++] = stride[d];
		rank = rank * dims[d] + at[d];
		size *= dims[d];
	}
	memset(&desc, 0, sizeof(desc));
	desc.parent = comm->id;
	desc.kind = COMM_GRID;
	desc.start = g.origin;
	desc.size = size;
	desc.n_dims = g.n_dims;
	memcpy(desc.extent, g.extent, sizeof(g.extent));
	memcpy(desc.dim_stride, g.stride, sizeof(g.stride));
	rc = count_made(comm->ctx, &desc);
	if (rc)
		return rc;
	c = comm_new(comm, COMM_GRID, rank, size);
	if (!c)
		return ORIEL_ENOMEM;
	c->grid = g;
	add_relaxed(&comm->refs, 1);
	set_ids(c, &desc);
	return finish(c, out);
}

int
oriel_comm_dup(oriel_comm *comm, oriel_comm **out)
{
	struct description d;
	oriel_comm *c = NULL, *made = NULL;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!out)
		rc = fail(ORIEL_EINVAL, "out is NULL");
	memset(&d, 0, sizeof(d));
	d.parent = comm->id;
	d.kind = -1;
	d.made = ++comm->n_children;
	c = rc ? NULL : comm_new(comm, COMM_STRIDED, comm->rank, comm->size);
	if (c) {
		take_run(comm, c, 0, 1);
		set_ids(c, &d);
		rc = finish(c, &made);
	} else if (!rc) {
		rc = ORIEL_ENOMEM;
	}
	rc = comm_agree(comm, rc, "oriel_comm_dup");
	if (rc) {
		if (made)
			comm_put(made);
		return rc;
	}
	*out = made;
	return 0;
}

/*
 * ---- What is left after failures ----
 */

/* All that were to be in it have its id, and may be in their first call. */
static void
abort_unmade(const oriel_comm *parent, const oriel_comm *unmade)
{
	oriel_comm ghost = *parent;
	uint64_t word = comm_fail_word(parent->ctx->boot.rank, 0) | COMM_FAIL_ABORT;

	ghost.id = unmade->id;
	ghost.fail = &ghost.fail_private;
	ghost.fail_private = 0;
	ghost.fail_spread = false;
	comm_fail(&ghost, word);
}

static struct rank_list *
list_rest(const oriel_comm *parent, const uint64_t *left_out, int n)
{
	struct rank_list *l = malloc(sizeof(*l) + (size_t)n * sizeof(l->rank[0]));

	if (!l) {
		fail(ORIEL_ENOMEM, "no memory for a list of %d ranks", n);
		return NULL;
	}
	l->refs = 1;
	l->n = 0;
	for (int r = 0; r < parent->size; r++)
		if (!rankset_has(left_out, r))
			l->rank[l->n++] = comm_world_rank(parent, r);
	return l;
}

static int
rest_make(oriel_comm *parent, const oriel_comm *like, const uint64_t *left_out, oriel_comm **out)
{
	oriel_comm *c = comm_new(parent, COMM_STRIDED, like->rank, like->size);

	if (!c)
		return ORIEL_ENOMEM;
	c->id = like->id;
	c->check = like->check;
	if (c->size == parent->size) {
		take_run(parent, c, 0, 1);
		return finish(c, out);
	}
	c->kind = COMM_LIST;
	c->list = list_rest(parent, left_out, c->size);
	if (!c->list) {
		free(c);
		return ORIEL_ENOMEM;
	}
	return finish(c, out);
}

int
comm_make_rest(oriel_comm *parent, uint64_t number, const uint64_t *left_out, oriel_comm **out)
{
	oriel_comm like = { .rank = 0 };
	struct description d;
	uint64_t members;
	char detail[512];
	int rc;

	for (int r = 0; r < parent->size; r++) {
		like.size += !rankset_has(left_out, r);
		like.rank += r < parent->rank && !rankset_has(left_out, r);
	}
	members = hash_bytes(0, left_out, rankset_words(parent->size) * sizeof(*left_out));
	memset(&d, 0, sizeof(d));
	d.parent = parent->id;
	d.made = number;
	d.kind = -2;
	d.size = like.size;
	memcpy(d.extent, &members, sizeof(members));
	set_ids(&like, &d);
	rc = rest_make(parent, &like, left_out, out);
	if (rc) {
		snprintf(detail, sizeof(detail), "%s", oriel_detail());
		abort_unmade(parent, &like);
		fail(rc, "%s", detail);
	}
	return rc;
}

/*
 * ---- Split ----
 */

struct entry {
	int color, key, rank;
};

static int
entry_order(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* all: one entry a rank of comm. Keeps those of color, sorted; returns their number. */
static int
select_color(struct entry *all, int n, int color)
{
	int m = 0;

	for (int i = 0; i < n; i++)
		if (all[i].color == color)
			all[m++] = all[i];
	qsort(all, (size_t)m, sizeof(*all), entry_order);
	return m;
}

static int
split_make(oriel_comm *comm, struct entry *all, int color, oriel_comm **out)
{
	int n = select_color(all, comm->size, color), mine = 0;
	struct description d;
	struct rank_list *l;
	oriel_comm *c;

	while (all[mine].rank != comm->rank)
		mine++;
	c = comm_new(comm, COMM_LIST, mine, n);
	if (!c)
		return ORIEL_ENOMEM;
	l = malloc(sizeof(*l) + (size_t)n * sizeof(l->rank[0]));
	if (!l) {
		free(c);
		return fail(ORIEL_ENOMEM, "no memory for a list of %d ranks", n);
	}
	l->refs = 1;
	l->n = n;
	for (int i = 0; i < n; i++)
		l->rank[i] = comm_world_rank(comm, all[i].rank);
	c->list = l;
	memset(&d, 0, sizeof(d));
	d.parent = comm->id;
	d.kind = COMM_LIST;
	d.color = color;
	d.made = comm->n_children;
	set_ids(c, &d);
	return finish(c, out);
}

int
oriel_comm_split(oriel_comm *comm, int color, int key, oriel_comm **out)
{
	struct entry mine, *all;
	oriel_comm *made = NULL;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	comm->n_children++;
	all = calloc((size_t)comm->size, sizeof(*all));
	if (!all)
		rc = fail(ORIEL_ENOMEM, "no memory for %d ranks' colors", comm->size);
	else if (!out)
		rc = fail(ORIEL_EINVAL, "out is NULL");
	/* A rank that cannot take part must not leave the others waiting. */
	rc = comm_agree(comm, rc, "oriel_comm_split");
	mine = (struct entry){ color < 0 ? -1 : color, key, comm->rank };
	if (!rc)
		rc = comm_allgather(comm, &mine, all, sizeof(mine));
	if (rc)
		goto free_all;
	if (color >= 0)
		rc = split_make(comm, all, color, &made);
	rc = comm_agree(comm, rc, "oriel_comm_split");
	if (rc && made)
		comm_put(made);
	if (!rc)
		*out = made;
free_all:
	free(all);
	return rc;
}
