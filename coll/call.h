/*
 * call.h - a collective between its public function and its plan.
 *
 * The public functions (coll/move.c, vary.c, combine.c) check their arguments
 * and describe the call; what follows is the same for all: choose an algorithm,
 * find its plan, and run it at once, as a request, or again and again.
 */
#ifndef COLL_CALL_H
#define COLL_CALL_H

#include "coll/coll.h"
#include "coll/reduce.h"
#include "plan/job.h"

struct coll_call {
	oriel_comm *comm;
	enum coll_op op;
	int root;
	unsigned flags; /* of selection */
	size_t measure; /* bytes, as selection counts them */
	size_t align;   /* of the parts of a vector: an element */
	struct binding b;
	/* A copy of out takes the place of in, where a call in place asks for it. */
	void *stage;
	size_t stage_len;
	size_t *lens, *offs; /* a table of the call's own, in one piece */
	/* Set if b points to them: */
	struct reducer reducer;
	struct ragged ragged;
};

/* comm_enter without a call where all is well. */
static inline int
coll_enter(const oriel_comm *comm)
{
	if (likely(comm && comm->magic == COMM_MAGIC && load_relaxed(comm->ctx->alive) &&
	           !comm->ctx->expelled))
		return 0;
	return comm_enter(comm);
}

/* All but the sizes and buffers; on an error, too, there is nothing to free. EHANDLE and its kin.
 */
static inline int
coll_describe(struct coll_call *c, oriel_comm *comm, enum coll_op op)
{
	int rc = coll_enter(comm);

	c->stage = NULL;
	c->lens = NULL;
	if (unlikely(rc))
		return rc;
	c->comm = comm;
	c->op = op;
	c->root = 0;
	c->flags = 0;
	c->measure = 0;
	c->align = 1;
	c->b = (struct binding){ .bytes = SIZE_MAX };
	c->stage_len = 0;
	return 0;
}

/* Before the program starts OUT's block out is IN's block in. */
static inline void
coll_set_own(struct coll_call *c, int out, int in)
{
	c->b.own = true;
	c->b.own_out = (uint32_t)out;
	c->b.own_in = (uint32_t)in;
}

/*
 * The three forms, after describing, which returned rc; they free what the
 * description holds. key: NULL, or what the call was made of, if nothing else.
 */
struct coll_key;
int coll_run(struct coll_call *c, int rc, const struct coll_key *key);
struct coll_req;
/* A request whose call is to be described; coll_req_go frees it on an error. */
int coll_req_make(struct coll_req **out, struct coll_call **c);
int coll_req_go(struct coll_req *r, int rc, bool persistent, oriel_req **req);

/* Chooses an algorithm; between comm_call_begin and comm_call_end. */
struct recent;
int coll_choose(struct coll_call *c, struct recent **out);
/* Frees what the description holds. */
void coll_forget(struct coll_call *c);

/* What a blocking call was asked, before anything was made of it. */
struct coll_key {
	const void *in, *out;
	size_t n;
	const void *op;
	int type, root;
};

struct recent {                /* what the last call of an op was, and chose */
	struct instance *inst; /* pinned; NULL: none yet */
	size_t least, most;    /* for calls of so many bytes */
	unsigned flags;
	int root;
	size_t chunk;
	struct coll_key key; /* of the last blocking call */
	bool again;          /* it came twice, and the rest is filled in: a short call */
	struct binding b;
	struct reducer reducer;
};

/* The blocking call of key is run if it came before. False: nothing was done. */
bool coll_run_again(oriel_comm *comm, struct recent *r, const struct coll_key *key, int *rc);

static inline bool
coll_is_key(const struct coll_key *a, const struct coll_key *b)
{
	return a->in == b->in && a->out == b->out && a->n == b->n && a->op == b->op &&
	       a->type == b->type && a->root == b->root;
}

/* Arguments that were checked the last time need not be looked at again. */
static inline bool
coll_again(oriel_comm *comm, enum coll_op op, const struct coll_key *key, int *rc)
{
	struct recent *r;

	/* With a GPU the same address may be other memory by now. */
	if (unlikely(coll_enter(comm) || !comm->plan || !comm->plan->recent || comm->ctx->gpu))
		return false;
	r = (struct recent *)comm->plan->recent + op;
	return r->again && coll_run_again(comm, r, key, rc);
}

#define COLL_ARGS(...) __VA_ARGS__

/* Defines the three public functions of a collective from its describing function. The key (in,
 * out, n, op, type, root) is all that the blocking one depends on. */
#define COLL_FORMS_OF(kind, name, params, args, ...)                                               \
	int oriel_##name(params)                                                                   \
	{                                                                                          \
		const struct coll_key key = { __VA_ARGS__ };                                       \
		struct coll_call c;                                                                \
		int rc;                                                                            \
                                                                                                   \
		if (likely(coll_again(comm, kind, &key, &rc)))                                     \
			return rc;                                                                 \
		rc = describe_##name(&c, args);                                                    \
		return coll_run(&c, rc, &key);                                                     \
	}                                                                                          \
	COLL_REQUESTS(name, COLL_ARGS(params), COLL_ARGS(args))

/* The same of calls that depend on more. */
#define COLL_FORMS(name, params, args)                                                             \
	int oriel_##name(params)                                                                   \
	{                                                                                          \
		struct coll_call c;                                                                \
		int rc = describe_##name(&c, args);                                                \
                                                                                                   \
		return coll_run(&c, rc, NULL);                                                     \
	}                                                                                          \
	COLL_REQUESTS(name, COLL_ARGS(params), COLL_ARGS(args))

/* The form on a GPU's stream: coll/on_stream.c. It frees what the description holds. */
struct CUstream_st;
int coll_run_on_stream(struct coll_call *c, int rc, struct CUstream_st *stream);

/* One kernel may do short calls of it. */
bool coll_short_op(enum coll_op op);
/* Some buffer is device memory: the blocking form goes by a stream of ours, and is waited for. */
bool coll_in_gpu(const struct coll_call *c);
int coll_run_in_gpu(struct coll_call *c);

#define COLL_ON_STREAM(name, params, args)                                                         \
	int oriel_##name##_on_stream(params, struct CUstream_st *stream)                           \
	{                                                                                          \
		struct coll_call c;                                                                \
		int rc = describe_##name(&c, args);                                                \
                                                                                                   \
		return coll_run_on_stream(&c, rc, stream);                                         \
	}

#define COLL_REQUESTS(name, params, args)                                                          \
	int oriel_i##name(params, oriel_req **req)                                                 \
	{                                                                                          \
		struct coll_call *c;                                                               \
		struct coll_req *r;                                                                \
		int rc = coll_req_make(&r, &c);                                                    \
                                                                                                   \
		return rc ? rc : coll_req_go(r, describe_##name(c, args), false, req);             \
	}                                                                                          \
                                                                                                   \
	int oriel_##name##_init(params, oriel_req **req)                                           \
	{                                                                                          \
		struct coll_call *c;                                                               \
		struct coll_req *r;                                                                \
		int rc = coll_req_make(&r, &c);                                                    \
                                                                                                   \
		return rc ? rc : coll_req_go(r, describe_##name(c, args), true, req);              \
	}

/* ---- For describing ---- */

/* ERANK names root. */
int coll_check_root(const struct coll_call *c, int root);
/* len times the number of ranks fits, and is in *total. */
int coll_check_total(const struct coll_call *c, size_t len, size_t *total);
/* EINVAL if the two overlap. */
int coll_check_overlap(const struct coll_call *c, const void *in, size_t in_len, const void *out,
                       size_t out_len);
/* EINVAL if ptr is NULL and len is not 0, ERANGE if no buffer is so long. */
int coll_check_buffer(const struct coll_call *c, const char *name, const void *ptr, size_t len);
/* c->stage: room for a copy of out's first len bytes. */
int coll_stage(struct coll_call *c, size_t len);
/* c->lens and c->offs, n each. */
int coll_make_table(struct coll_call *c, int n);

#endif
