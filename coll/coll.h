/*
 * coll.h - what the collectives share: how a communicator looks to selection.
 */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include "coll/select.h"
#include "rma/comm.h"

/* The same on all ranks: a job of one node is known to be one, other placements are not known. */
static inline void
coll_shape(const oriel_comm *comm, int root, struct shape *shape)
{
	*shape = (struct shape){ .size = comm->size, .root = root };
	if (comm->ctx->boot.n_local == comm->ctx->boot.size)
		shape->node = comm->size;
}

#endif
