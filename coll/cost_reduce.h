/*
 * cost_reduce.h - what the rows of the collectives that combine say of their
 * programs: how many blocks their buffers have, what they cost, where they cannot
 * run. Pure functions of the shape; P is its size, N its number of nodes.
 */
#ifndef COLL_COST_REDUCE_H
#define COLL_COST_REDUCE_H

#include "plan/plan.h"

plan_blocks_fn blocks_power;        /* p, the largest power of two up to P */
plan_blocks_fn blocks_rabenseifner; /* scratch: p, and p more if P is not p */
plan_blocks_fn blocks_doubling;     /* scratch: one a round, and one for what is folded in */
plan_blocks_fn blocks_binomial;     /* scratch: one a round, and one for rank 0 */
plan_blocks_fn blocks_exscan;       /* scratch: two a round */
plan_blocks_fn blocks_rails;        /* scratch: P + N */

/* Several nodes of several ranks each. */
const char *unfit_rails(const struct shape *shape);

typedef int64_t coll_cost_fn(const struct shape *shape);
coll_cost_fn cost_once;       /* 1, with others to talk to */
coll_cost_fn cost_twice;      /* 2, likewise */
coll_cost_fn cost_four_times; /* 4, likewise */
coll_cost_fn cost_both_ways;  /* 2 (P-1): a ReduceScatter and an AllGather */
coll_cost_fn cost_both_ways_each;
coll_cost_fn cost_both_log_two; /* 2 ceil(log2 P) */
coll_cost_fn cost_log_two_and_one;
coll_cost_fn cost_floor_log_two; /* where the distances on a path differ and stay below P */
coll_cost_fn cost_to_root;       /* P: a ReduceScatter, and the result to root */
coll_cost_fn cost_to_root_each;
coll_cost_fn cost_doubling_rounds, cost_doubling_blocks, cost_doubling_total;
coll_cost_fn cost_rabenseifner_rounds, cost_rabenseifner_blocks, cost_rabenseifner_total;
coll_cost_fn cost_binomial_rounds;
coll_cost_fn cost_scan_total;

#endif
