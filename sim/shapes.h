/*
 * shapes.h - the shapes that a row has for a number of ranks: every argument,
 * root and node size with which the program can run.
 */
#ifndef SIM_SHAPES_H
#define SIM_SHAPES_H

#include "coll/table.h"

/*
 * Calls use for each. Thinned: of more than so many arguments or roots only the first three, the
 * middle one, the last and the powers of two. A row that fits every shape knows of no nodes and
 * gets none (test/sim/proof.c sees to it); others get every divisor of size.
 */
void shapes_each(const struct coll_row *row, int size, int thin_above,
                 void (*use)(void *arg, const struct shape *shape), void *arg);

/* The environment's TEST_ROW names the row, or begins the names of several: "allreduce/"; or it is
 * not set. */
bool shapes_wanted(const struct coll_row *row);

#endif
