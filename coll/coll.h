/*
 * coll.h - what the collectives share: which algorithm a call uses.
 */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include "coll/table.h"
#include "rma/comm.h"

/*
 * Up to so many bytes of result AllGather is Bruck with radix 2, whose rounds
 * are fewest; above, the ring, where every rank always sends to the same
 * neighbour. Depends on nothing that differs between ranks.
 */
#define COLL_ALLGATHER_SMALL (64u << 10)

struct choice;
/* Looked up once a communicator; ORIEL_ALLGATHER decides if it names an algorithm. */
int coll_choose_allgather(const oriel_comm *comm, struct choice *choice);

#endif
