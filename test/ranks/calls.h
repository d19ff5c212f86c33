/*
 * calls.h - every collective in every form with arguments of one shape, for
 * tests that ask what happens when something goes wrong: the results do not
 * matter, who wrote where does.
 */
#ifndef TEST_RANKS_CALLS_H
#define TEST_RANKS_CALLS_H

#include "test/ranks/ranks.h"

enum { CALLS = 20, CALL_GUARD = 64, CALL_FILL = 0x5a };

/* As oriel_explain takes them; the part before "v" and "_list" names the algorithms. */
static const char *const call_name[CALLS] = {
	"barrier",        "allgather",       "allgatherv",     "allgatherv_list",
	"alltoall",       "alltoallv",       "alltoallv_list", "bcast",
	"gather",         "gatherv",         "gatherv_list",   "scatter",
	"scatterv",       "scatterv_list",   "reduce",         "allreduce",
	"reduce_scatter", "reduce_scatterv", "scan",           "exscan"
};

enum { BLOCKING, NONBLOCKING, PERSISTENT };

struct call {
	oriel_comm *comm;
	int rank, size, root;
	size_t len; /* of a block or vector; those of v forms are up to two bytes shorter */
	int type;
	const oriel_op *op;
	unsigned char *in, *out; /* size blocks each, with guards of CALL_GUARD around */
	unsigned char *whole;
	bool pool;
	size_t *lens, *displs; /* the same on all ranks */
	size_t *both;          /* between this rank and each: the same on both */
	struct oriel_pieces *blocks, *both_blocks;
	struct oriel_piece *pieces;
};

/* ALLGATHERV's number and its kin, by name; -1: there is none. */
static inline int
call_number(const char *name)
{
	for (int k = 0; k < CALLS; k++)
		if (!strcmp(call_name[k], name))
			return k;
	return -1;
}

static inline size_t
call_shorter(size_t len, int by)
{
	return len > (size_t)by ? len - (size_t)by : len;
}

/* Two pieces a block. */
static inline void
call_cut(struct call *c, struct oriel_pieces *blocks, struct oriel_piece *piece, const size_t *lens)
{
	for (int i = 0; i < c->size; i++) {
		size_t half = lens[i] / 2;

		piece[2 * i] = (struct oriel_piece){ c->displs[i], half };
		piece[2 * i + 1] = (struct oriel_piece){ c->displs[i] + half, lens[i] - half };
		blocks[i] = (struct oriel_pieces){ 2, piece + 2 * i };
	}
}

static inline bool
call_make(struct call *c, struct ranks *r, oriel_comm *comm, size_t len, int root, bool pool)
{
	size_t n = (size_t)oriel_comm_size(comm), side = n * len, all = 2 * side + 3 * CALL_GUARD;
	void *whole;

	memset(c, 0, sizeof(*c));
	c->comm = comm;
	c->rank = oriel_comm_rank(comm);
	c->size = (int)n;
	c->root = root;
	c->len = len;
	c->type = ORIEL_UINT8;
	c->op = ORIEL_SUM;
	c->pool = pool;
	if (pool && !OK(oriel_mem_alloc(r->ctx, all, 0, &whole)))
		return false;
	c->whole = pool ? whole : malloc(all);
	memset(c->whole, CALL_FILL, all);
	c->in = c->whole + CALL_GUARD;
	c->out = c->in + side + CALL_GUARD;
	c->lens = calloc(3 * n, sizeof(size_t));
	c->displs = c->lens + n;
	c->both = c->lens + 2 * n;
	c->blocks = calloc(2 * n, sizeof(*c->blocks));
	c->both_blocks = c->blocks + n;
	c->pieces = calloc(4 * n, sizeof(*c->pieces));
	for (int i = 0; i < c->size; i++) {
		c->lens[i] = call_shorter(len, i % 3);
		c->displs[i] = (size_t)i * len;
		c->both[i] = call_shorter(len, (i + c->rank) % 3);
	}
	call_cut(c, c->blocks, c->pieces, c->lens);
	call_cut(c, c->both_blocks, c->pieces + 2 * n, c->both);
	return true;
}

/* What is outside in and out is as it was, and in too. */
static inline bool
call_guarded(const struct call *c)
{
	size_t side = (size_t)c->size * c->len;
	const unsigned char *end = c->out + side;

	for (size_t i = 0; i < CALL_GUARD; i++)
		if (c->whole[i] != CALL_FILL || c->in[side + i] != CALL_FILL || end[i] != CALL_FILL)
			return false;
	for (size_t i = 0; i < side; i++)
		if (c->in[i] != CALL_FILL)
			return false;
	return true;
}

static inline void
call_free(struct call *c, struct ranks *r)
{
	if (c->pool)
		OK(oriel_mem_free(r->ctx, c->whole));
	else
		free(c->whole);
	free(c->lens);
	free(c->blocks);
	free(c->pieces);
}

#define CALL_FORM(name, ...)                                                                       \
	(form == BLOCKING      ? oriel_##name(__VA_ARGS__)                                         \
	 : form == NONBLOCKING ? oriel_i##name(__VA_ARGS__, req)                                   \
	                       : oriel_##name##_init(__VA_ARGS__, req))

static inline int
call_moving(const struct call *c, int kind, int form, oriel_req **req)
{
	size_t n = c->len, own = c->lens[c->rank];

	switch (kind) {
	case 0:
		return CALL_FORM(barrier, c->comm);
	case 1:
		return CALL_FORM(allgather, c->comm, c->in, c->out, n);
	case 2:
		return CALL_FORM(allgatherv, c->comm, c->in, c->out, c->lens, c->displs);
	case 3:
		return CALL_FORM(allgatherv_list, c->comm, c->in, c->out, c->blocks);
	case 4:
		return CALL_FORM(alltoall, c->comm, c->in, c->out, n);
	case 5:
		return CALL_FORM(alltoallv, c->comm, c->in, c->both, c->displs, c->out, c->both,
		                 c->displs);
	case 6:
		return CALL_FORM(alltoallv_list, c->comm, c->in, c->both_blocks, c->out,
		                 c->both_blocks);
	case 7:
		return CALL_FORM(bcast, c->comm, c->out, n, c->root);
	case 8:
		return CALL_FORM(gather, c->comm, c->in, c->out, n, c->root);
	case 9:
		return CALL_FORM(gatherv, c->comm, c->in, own, c->out, c->lens, c->displs, c->root);
	case 10:
		return CALL_FORM(gatherv_list, c->comm, c->in, own, c->out, c->blocks, c->root);
	case 11:
		return CALL_FORM(scatter, c->comm, c->in, c->out, n, c->root);
	case 12:
		return CALL_FORM(scatterv, c->comm, c->in, c->lens, c->displs, c->out, own,
		                 c->root);
	default:
		return CALL_FORM(scatterv_list, c->comm, c->in, c->blocks, c->out, own, c->root);
	}
}

/* The call by its place in call_name. */
static inline int
call_begin(const struct call *c, int kind, int form, oriel_req **req)
{
	size_t n = c->len;

	switch (kind) {
	case 14:
		return CALL_FORM(reduce, c->comm, c->in, c->out, n, c->type, c->op, c->root);
	case 15:
		return CALL_FORM(allreduce, c->comm, c->in, c->out, n, c->type, c->op);
	case 16:
		return CALL_FORM(reduce_scatter, c->comm, c->in, c->out, n, c->type, c->op);
	case 17:
		return CALL_FORM(reduce_scatterv, c->comm, c->in, c->out, c->lens, c->type, c->op);
	case 18:
		return CALL_FORM(scan, c->comm, c->in, c->out, n, c->type, c->op);
	case 19:
		return CALL_FORM(exscan, c->comm, c->in, c->out, n, c->type, c->op);
	default:
		return call_moving(c, kind, form, req);
	}
}

/* A detail that says "rank N", N not the beginning of a longer number. */
static inline bool
call_names(const char *detail, int rank)
{
	char text[32];
	size_t n = (size_t)snprintf(text, sizeof(text), "rank %d", rank);

	for (const char *p = strstr(detail, text); p; p = strstr(p + 1, text))
		if (p[n] < '0' || p[n] > '9')
			return true;
	return false;
}

#endif
