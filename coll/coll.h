/*
 * coll.h - what the collectives share: how a communicator looks to selection.
 */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include "coll/select.h"
#include "rma/comm.h"

/* Every so many consecutive ranks share a node, and the same on all ranks; 0: it is not so, or not
 * known to all. */
int coll_node_size(oriel_comm *comm);

static inline void
coll_shape(oriel_comm *comm, int root, struct shape *shape)
{
	*shape = (struct shape){ .size = comm->size, .root = root, .node = coll_node_size(comm) };
}

#endif
