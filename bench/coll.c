/*
 * coll.c - Oriel's collectives, as bench/coll.h times them. The side's own
 * memory is that of the pool.
 */
#include "bench/coll.h"

#include "oriel.h"

/* The library may be built without them. */
#pragma weak oriel_send
#pragma weak oriel_recv

static oriel_ctx *ctx;
static oriel_comm *world;
static int me;

static int
checked(const char *what, int err)
{
	if (err)
		fprintf(stderr, "coll: rank %d: %s: %s: %s\n", me, what, oriel_strerror(err),
		        oriel_detail());
	return err;
}

static int
started(enum coll_op op, const void *in, void *out, size_t len)
{
	size_t count = len / sizeof(float);

	switch (op) {
	case COLL_ALLGATHER:
		return oriel_allgather(world, in, out, len);
	case COLL_ALLREDUCE:
		return oriel_allreduce(world, in, out, count, ORIEL_FLOAT, ORIEL_SUM);
	case COLL_ALLTOALL:
		return oriel_alltoall(world, in, out, len);
	case COLL_BCAST:
		return oriel_bcast(world, me == 0 ? (void *)(uintptr_t)in : out, len, 0);
	case COLL_REDUCE:
		return oriel_reduce(world, in, out, count, ORIEL_FLOAT, ORIEL_SUM, 0);
	case COLL_GATHER:
		return oriel_gather(world, in, out, len, 0);
	case COLL_SCATTER:
		return oriel_scatter(world, in, out, len, 0);
	case COLL_REDUCE_SCATTER:
		return oriel_reduce_scatter(world, in, out, count, ORIEL_FLOAT, ORIEL_SUM);
	case COLL_SCAN:
		return oriel_scan(world, in, out, count, ORIEL_FLOAT, ORIEL_SUM);
	case COLL_EXSCAN:
		return oriel_exscan(world, in, out, count, ORIEL_FLOAT, ORIEL_SUM);
	default:
		return oriel_barrier(world);
	}
}

static int
call(enum coll_op op, const void *in, void *out, size_t len)
{
	return checked(coll_kinds[op].name, started(op, in, out, len));
}

static int
send_to(int peer, const void *in, size_t len)
{
	return checked("send", oriel_send(world, peer, 0, in, len));
}

static int
recv_from(int peer, void *out, size_t len)
{
	return checked("recv", oriel_recv(world, peer, 0, out, len, NULL));
}

static void *
get(int own_memory, size_t len)
{
	void *memory;

	if (!own_memory)
		return aligned_alloc(COLL_LINE, (len + COLL_LINE) / COLL_LINE * COLL_LINE);
	return checked("mem_alloc", oriel_mem_alloc(ctx, len, 0, &memory)) ? NULL : memory;
}

static void
put_back(int own_memory, void *memory)
{
	if (own_memory)
		checked("mem_free", oriel_mem_free(ctx, memory));
	else
		free(memory);
}

int
main(int argc, char **argv)
{
	struct coll_side side = { "coll", 0, 0, call, send_to, recv_from, get, put_back };
	struct coll c = { 0 };
	int err;

	if (coll_options(&c, argc, argv))
		return coll_usage("coll");
	if (c.d.op == COLL_SENDRECV && (!oriel_send || !oriel_recv)) {
		fprintf(stderr, "coll: sendrecv: this liboriel has no oriel_send\n");
		return COLL_SKIPPED;
	}
	bench_pin_rank();
	err = oriel_init(NULL, &ctx);
	if (err) {
		fprintf(stderr, "coll: init: %s: %s\n", oriel_strerror(err), oriel_detail());
		return 1;
	}
	world = oriel_world(ctx);
	side.me = me = oriel_comm_rank(world);
	side.ranks = oriel_comm_size(world);
	if (coll_run(&c, &side)) {
		oriel_comm_abort(world);
		return 1;
	}
	return checked("fini", oriel_fini(ctx)) != 0;
}
