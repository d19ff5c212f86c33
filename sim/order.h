/*
 * order.h - an order in which all ops of all ranks can run, or the deadlock.
 */
#ifndef SIM_ORDER_H
#define SIM_ORDER_H

#include "sim/graph.h"

/*
 * Fills g->order. EMISMATCH names two ops of the circle if there is a deadlock,
 * - in two blocking calls, one after the other on each rank,
 * - in MBOX_CALLS + 1 instances of which each rank runs MBOX_CALLS at a time,
 * - in either with all queues of a rank merged into one, in append order.
 * g's channels and batches are there.
 */
int order_find(struct graph *g);

#endif
