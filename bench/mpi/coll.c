/*
 * coll.c - MPI's collectives, as bench/coll.h times them. The side's own memory
 * is that of MPI_Alloc_mem.
 */
#include "bench/coll.h"

#include <mpi.h>

static int me;

/* Errors end the job: MPI_ERRORS_ARE_FATAL is the default. */
static int
call(enum coll_op op, const void *in, void *out, size_t len)
{
	MPI_Comm world = MPI_COMM_WORLD;
	int n = (int)len, count = (int)(len / sizeof(float));

	switch (op) {
	case COLL_ALLGATHER:
		return MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, world);
	case COLL_ALLREDUCE:
		return MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, world);
	case COLL_ALLTOALL:
		return MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, world);
	case COLL_BCAST:
		return MPI_Bcast(me == 0 ? (void *)(uintptr_t)in : out, n, MPI_BYTE, 0, world);
	case COLL_REDUCE:
		return MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, world);
	case COLL_GATHER:
		return MPI_Gather(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, world);
	case COLL_SCATTER:
		return MPI_Scatter(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, world);
	case COLL_REDUCE_SCATTER:
		return MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, world);
	case COLL_SCAN:
		return MPI_Scan(in, out, count, MPI_FLOAT, MPI_SUM, world);
	case COLL_EXSCAN:
		return MPI_Exscan(in, out, count, MPI_FLOAT, MPI_SUM, world);
	default:
		return MPI_Barrier(world);
	}
}

static int
send_to(int peer, const void *in, size_t len)
{
	return MPI_Send(in, (int)len, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
}

static int
recv_from(int peer, void *out, size_t len)
{
	return MPI_Recv(out, (int)len, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void *
get(int own_memory, size_t len)
{
	void *memory;

	if (!own_memory)
		return aligned_alloc(COLL_LINE, (len + COLL_LINE) / COLL_LINE * COLL_LINE);
	return MPI_Alloc_mem((MPI_Aint)len, MPI_INFO_NULL, (void *)&memory) ? NULL : memory;
}

static void
put_back(int own_memory, void *memory)
{
	if (own_memory)
		MPI_Free_mem(memory);
	else
		free(memory);
}

int
main(int argc, char **argv)
{
	struct coll_side side = { "mpi/coll", 0, 0, call, send_to, recv_from, get, put_back };
	struct coll c = { 0 };

	if (coll_options(&c, argc, argv))
		return coll_usage("mpi/coll");
	bench_pin_rank();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &side.ranks);
	side.me = me;
	if (coll_run(&c, &side))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return 0;
}
