#include "plan/stream_short.h"

#include "rma/gpu.h"

#ifdef HAVE_CUDA_HEADERS
#include "plan/stream_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_A_BLOCK ((size_t)4096)
#define MOST_BLOCKS 16

/* ---- What ranks tell once ---- */

struct told {
	uint32_t able;
	uint64_t most; /* bytes of a call */
	struct gpu_where scratch;
};

/* Scratch of this rank and its state, zeroed, and words that the host writes. */
static int
make_scratch(struct stream_state *st, struct gpu_where *where)
{
	struct stream_short *sh = &st->sh;
	size_t most = (size_t)st->comm->ctx->knobs.v.gpu_short_max;
	size_t size = (size_t)exchange_scratch(st->comm->size, most);
	size_t whole = size + sizeof(struct exchange_state);
	void *p;
	int rc = pool_alloc_zeroed(st->g->pool, whole, CACHE_LINE, &sh->scratch);

	if (rc)
		return rc;
	sh->slot = exchange_slot(most);
	sh->state = (uintptr_t)sh->scratch + size;
	rc = gpu_describe(st->g, sh->scratch, whole, where);
	if (!rc)
		rc = pool_alloc_zeroed(st->comm->ctx->pool, CACHE_LINE, CACHE_LINE, &p);
	if (rc)
		return rc;
	sh->words = p;
	return gpu_host(st->g, NULL, p, 2 * sizeof(uint32_t), &sh->dev_words);
}

static void
cannot(struct stream_short *sh, const char *why)
{
	if (!sh->why[0])
		snprintf(sh->why, sizeof(sh->why), "%.*s", (int)sizeof(sh->why) - 1, why);
}

static bool
is_able(struct stream_state *st)
{
	if (!st->g->kernels)
		cannot(&st->sh, st->g->kernels_why);
	else if (st->comm->size > EXCHANGE_RANKS)
		cannot(&st->sh, "more ranks than the kernel is made for");
	else if (!st->comm->ctx->knobs.v.gpu_short_max)
		cannot(&st->sh, "ORIEL_GPU_SHORT_MAX is 0");
	return !st->sh.why[0];
}

static int
map_peers(struct stream_state *st, const struct told *all)
{
	int rc = 0;

	for (int r = 0; r < st->comm->size && !rc; r++) {
		struct peer *p = NULL;

		if (all[r].most != all[st->comm->rank].most)
			return fail(ORIEL_EMISMATCH,
			            "ORIEL_GPU_SHORT_MAX is %llu on rank %d, %llu here",
			            (unsigned long long)all[r].most, r,
			            (unsigned long long)all[st->comm->rank].most);
		if (!all[r].able)
			cannot(&st->sh, "another rank cannot");
		if (st->sh.why[0])
			return 0;
		if (r != st->comm->rank)
			rc = comm_peer(st->comm, r, &p);
		if (!rc && p && !p->ctl) {
			cannot(&st->sh, "not all ranks share this node's memory");
			return 0;
		}
		if (!rc)
			rc = gpu_map(st->g, p, &all[r].scratch,
			             (size_t)all[r].scratch.size - (size_t)all[r].scratch.offset,
			             &st->sh.peer[r]);
	}
	return rc;
}

static int
prepare(struct stream_state *st)
{
	struct told mine = { 0 }, *all = calloc((size_t)st->comm->size, sizeof(*all));
	int rc = 0, agreed;

	if (!all)
		rc = fail(ORIEL_ENOMEM, "no memory for what ranks tell");
	else if (is_able(st))
		rc = make_scratch(st, &mine.scratch);
	mine.most = (uint64_t)st->comm->ctx->knobs.v.gpu_short_max;
	mine.able = !rc && !st->sh.why[0];
	if (rc)
		cannot(&st->sh, oriel_detail());
	rc = all ? comm_allgather(st->comm, &mine, all, sizeof(mine)) : ORIEL_ENOMEM;
	if (!rc)
		rc = map_peers(st, all);
	free(all);
	/* One that could not map is told of: else it would take another way than the others. */
	agreed = comm_agree(st->comm, rc, "the first call on a stream");
	st->sh.ready = !agreed;
	return agreed;
}

int
stream_prepare(oriel_comm *comm)
{
	struct stream_state *st = comm->plan ? comm->plan->stream : NULL;
	bool entered;
	int rc;

	if (likely(st && st->sh.ready))
		return 0;
	rc = stream_state_get(comm, &st);
	if (!rc)
		rc = gpu_enter(st->g, &entered);
	if (rc)
		return rc;
	rc = prepare(st);
	gpu_leave(entered);
	return rc;
}

void
stream_short_free(struct stream_state *st)
{
	for (int r = 0; r < EXCHANGE_RANKS; r++)
		if (st->sh.peer[r])
			gpu_unmap(st->g, st->sh.peer[r]);
	pool_free(st->comm->ctx->pool, st->sh.words);
	pool_free(st->g->pool, st->sh.scratch);
}

const char *
stream_short_unfit(oriel_comm *comm, size_t bytes)
{
	const struct stream_state *st = comm->plan ? comm->plan->stream : NULL;

	if (!st || !st->sh.ready)
		return "no call was made on a stream yet";
	if (st->sh.why[0])
		return st->sh.why;
	return bytes > (size_t)comm->ctx->knobs.v.gpu_short_max ? "longer than ORIEL_GPU_SHORT_MAX"
	                                                        : NULL;
}

/* ---- A call ---- */

static unsigned
blocks_for(size_t bytes)
{
	size_t n = (bytes + BYTES_A_BLOCK - 1) / BYTES_A_BLOCK;

	return (unsigned)(n < 1 ? 1 : n > MOST_BLOCKS ? MOST_BLOCKS : n);
}

static int
launch(struct stream_call *sc, const struct short_call *c)
{
	struct stream_short *sh = &sc->st->sh;
	struct kernel_exchange k = {
		.state = sh->state,
		.slot = sh->slot,
		.in = (uintptr_t)c->in,
		.out = (uintptr_t)c->out,
		.bytes = c->bytes,
		.in_stride = (int64_t)c->in_stride,
		.out_stride = (int64_t)c->out_stride,
		.abort = sh->dev_words,
		.status = sh->dev_words + sizeof(uint32_t),
		.rank = sc->st->comm->rank,
		.ranks = sc->st->comm->size,
		.mode = c->mode,
		.type = c->type,
		.op = c->op,
	};

	for (int r = 0; r < k.ranks; r++)
		k.scratch[r] = sh->peer[r];
	return gpu_launch(sc->st->g, sc->st->g->exchange, blocks_for(c->bytes), KERNEL_THREADS, &k,
	                  sc->s);
}

int
stream_short_run(oriel_comm *comm, const struct short_call *c, struct CUstream_st *stream)
{
	struct stream_call sc;
	bool entered;
	int rc = stream_call_begin(comm, stream, &sc, &entered);

	if (rc)
		return rc;
	rc = stream_follow(&sc);
	if (!rc)
		rc = launch(&sc, c);
	if (!rc)
		rc = stream_leave_mark(&sc);
	return stream_call_end(&sc, rc, entered);
}

#else

int
stream_prepare(oriel_comm *comm)
{
	struct gpu *g;

	return gpu_need(comm->ctx, &g);
}

const char *
stream_short_unfit(oriel_comm *comm, size_t bytes)
{
	(void)comm;
	(void)bytes;
	return "built without CUDA's headers";
}

int
stream_short_run(oriel_comm *comm, const struct short_call *c, struct CUstream_st *stream)
{
	struct gpu *g;

	(void)c;
	(void)stream;
	return gpu_need(comm->ctx, &g);
}
#endif
