/*
 * litmus_coll.h - the lines of test/ranks/litmus.c about collectives, sends and
 * receives.
 */
#ifndef TEST_RANKS_LITMUS_COLL_H
#define TEST_RANKS_LITMUS_COLL_H

#include "test/ranks/litmus.h"

/* Until the request is complete, by a wait or by tests. */
static inline bool
complete(struct env *e, oriel_req **req)
{
	uint64_t end = ranks_now_ns() + RANKS_WAIT_NS;
	int done = 0;

	delay(e);
	if (ranks_random(e->r, 2))
		return OK(oriel_req_wait(req, RANKS_WAIT_NS));
	while (!done && ranks_now_ns() < end) {
		if (!OK(oriel_req_test(req, &done)))
			return false;
		if (!done)
			sched_yield();
	}
	return NEED(done, "the request is not complete");
}

/* The message of all ranks' blocks fits into so many areas. */
static inline void
share(struct env *e, size_t areas)
{
	size_t most = areas * AREA / (size_t)e->r->size / 8 * 8;

	e->len = e->len < most ? e->len : most;
}

static inline void
verify_blocks(struct env *e, const unsigned char *out, unsigned area)
{
	int i;

	for (i = 0; i < e->r->size; i++)
		verify(e, out + (size_t)i * e->len, i, area, "a block of a collective");
}

/* MM20: once the request is complete nobody reads in or writes out any more. */
static inline void
own_again(struct env *e)
{
	oriel_req *req = NULL;
	bool again = e->round % 2;
	unsigned k;

	share(e, AREAS);
	if (again && !OK(oriel_allgather_init(e->r->world, e->src[0], e->base, e->len, &req)))
		return;
	for (k = 0; k < 3 && !stopped(e); k++) {
		fill(e, e->src[0], e->r->rank, k);
		delay(e);
		if (!OK(again ? oriel_start(req)
		              : oriel_iallgather(e->r->world, e->src[0], e->base, e->len, &req)) ||
		    !complete(e, &req))
			return;
		memset(e->src[0], 0xee, e->len);
		verify_blocks(e, e->base, k);
		memset(e->base, 0xee, (size_t)e->r->size * e->len);
	}
	if (again)
		OK(oriel_req_free(&req));
}

/* In words of len bytes: one of each kind by turns. *from: a rank that has started it. */
static inline bool
start_one(struct env *e, oriel_req **req, int *from)
{
	oriel_comm *world = e->r->world;
	size_t len = e->len < 65536 ? e->len : 65536;
	int last = e->r->size - 1;

	*from = e->left;
	switch (e->round % 7) {
	case 0:
		return OK(oriel_ibarrier(world, req));
	case 1:
		return OK(oriel_iallgather(world, e->src[1], e->src[2], 8, req));
	case 2:
		return OK(oriel_iallreduce(world, e->src[1], e->src[2], len / 8, ORIEL_INT64,
		                           ORIEL_XOR, req));
	case 3:
		return OK(oriel_ialltoall(world, e->src[1], e->src[2], 64, req));
	case 4:
		return OK(oriel_ireduce_scatter(world, e->src[1], e->src[2], 8, ORIEL_INT64,
		                                ORIEL_XOR, req));
	case 5:
		*from = e->root;
		return OK(oriel_ibcast(world, e->src[1], len, e->root, req));
	default:
		*from = e->r->rank ? e->r->rank - 1 : 0;
		return last ? OK(oriel_iscan(world, e->src[1], e->src[2], len / 8, ORIEL_INT64,
		                             ORIEL_XOR, req))
		            : OK(oriel_ibarrier(world, req));
	}
}

/* MM21: whose data a complete collective has brought has started it, and what it stored before is
 * visible to gets. */
static inline void
started(struct env *e)
{
	oriel_req *req = NULL;
	int from;

	fill(e, area(e, 3), e->r->rank, 3);
	delay(e);
	if (!start_one(e, &req, &from) || !complete(e, &req) ||
	    !OK(oriel_get(e->win, from, 3 * AREA, e->src[0], e->len)) ||
	    !OK(oriel_flush_local(e->win, from)))
		return;
	verify(e, e->src[0], from, 3, "stores before a collective was started");
	OK(oriel_barrier(e->r->world));
}

/* MM22: a message, the sender's own stores, and a put that was flushed before it was sent. */
static inline void
message(struct env *e)
{
	oriel_req *req = NULL;
	struct oriel_status status;
	int tag = (int)(e->round & 0xffff);

	fill(e, area(e, 3), e->r->rank, 3);
	fill(e, e->src[0], e->r->rank, 0);
	fill(e, e->src[1], e->r->rank, 1);
	if (!put(e, e->right, 0) || !OK(oriel_flush(e->win, e->right)) ||
	    !OK(oriel_isend(e->r->world, e->right, tag, e->src[1], e->len, &req)))
		return;
	delay(e);
	if (!OK(oriel_recv(e->r->world, e->left, tag, e->src[2], e->len, &status)) ||
	    !NEED(status.len == e->len, "%zu bytes of %zu", status.len, e->len))
		return;
	verify(e, e->src[2], e->left, 1, "the message");
	verify(e, area(e, 0), e->left, 0, "the put that was flushed before the message");
	if (!complete(e, &req))
		return;
	memset(e->src[1], 0xee, e->len);
	if (!OK(oriel_get(e->win, e->left, 3 * AREA, e->src[0], e->len)) ||
	    !OK(oriel_flush_local(e->win, e->left)))
		return;
	verify(e, e->src[0], e->left, 3, "the sender's stores before the message");
	acknowledge(e);
}

/* MM23: while a collective is under way puts and signals keep their order, and neither waits for
 * the other. */
static inline void
beside(struct env *e)
{
	oriel_req *req = NULL;

	share(e, AREAS - 1);
	fill(e, e->src[0], e->r->rank, 0);
	fill(e, e->src[1], e->r->rank, 1);
	if (e->r->rank == e->root && (!put(e, e->right, 0) || !set(e, e->right, DATA)))
		return;
	if (!OK(oriel_iallgather(e->r->world, e->src[1], e->base + AREA, e->len, &req)))
		return;
	if (e->r->rank != e->root && (!put(e, e->right, 0) || !set(e, e->right, DATA)))
		return;
	if (!await_round(e, e->left, DATA))
		return;
	verify(e, area(e, 0), e->left, 0, "a put beside a collective");
	if (!complete(e, &req))
		return;
	verify_blocks(e, e->base + AREA, 1);
	acknowledge(e);
}

/* MM20: the root has started its part, and calls nothing until the others have completed theirs. */
static inline void
goes_on(struct env *e)
{
	uint64_t *word = (uint64_t *)(void *)(e->base + WORDS + 128), n = (uint64_t)e->r->size - 1;
	uint64_t end = ranks_now_ns() + RANKS_WAIT_NS, seen = n;
	oriel_req *req = NULL;

	share(e, AREAS);
	fill(e, e->src[0], e->r->rank, 0);
	if (!OK(oriel_iallgather(e->r->world, e->src[0], e->base, e->len, &req)))
		return;
	if (e->r->rank == e->root)
		while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < n && ranks_now_ns() < end)
			sched_yield();
	if (seen < n)
		violated(e, "ranks that were through while one of them called nothing", n, seen);
	if (!complete(e, &req))
		return;
	verify_blocks(e, e->base, 0);
	if (e->r->rank == e->root)
		OK(oriel_fetch_add(e->win, e->root, WORDS + 128, 0 - n, NULL));
	else
		OK(oriel_fetch_add(e->win, e->root, WORDS + 128, 1, NULL));
	OK(oriel_barrier(e->r->world));
}

#endif
