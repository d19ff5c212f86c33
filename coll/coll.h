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

/* ORIEL_ALLGATHER decides if it names an algorithm. Between comm_call_begin and end. */
int coll_choose_allgather(oriel_comm *comm, size_t len, const struct coll_row **row, int *arg);

#endif
