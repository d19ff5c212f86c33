/*
 * cost.h - what the rows of coll/table.c are made of: closed forms of costs, numbers
 * of blocks, ranges of arguments, and what shapes a program cannot run on. P is
 * shape->size, n = P / g nodes of g = shape->node ranks.
 */
#ifndef COLL_COST_H
#define COLL_COST_H

#include "plan/plan.h"

/* ---- Ranges of arguments, for size ranks ---- */

int arg_one(int size);
int arg_two(int size);
int arg_half(int size);        /* size / 2, at least 1 */
int arg_others(int size);      /* size - 1, at least 1 */
int arg_two_or_size(int size); /* a radix: P is the direct algorithm, more changes nothing */

/* ---- Shapes ---- */

/* Fit for two levels: more than one node, of more than one rank. */
const char *unfit_one_level(const struct shape *shape);

/* ---- Blocks of TMP ---- */

plan_blocks_fn blocks_half;         /* P / 2 */
plan_blocks_fn blocks_digits;       /* P + cost_digits */
plan_blocks_fn blocks_power;        /* p, the largest power of two up to P; also of vectors */
plan_blocks_fn blocks_rabenseifner; /* p, and p more if P is not p */
plan_blocks_fn blocks_doubling;     /* one a round, and one for what is folded in */
plan_blocks_fn blocks_binomial;     /* one a round, and one for rank 0 */
plan_blocks_fn blocks_exscan;       /* two a round */
plan_blocks_fn blocks_rails;        /* P + n */

/* ---- Rounds, and blocks of one rank or of all ---- */

typedef int64_t cost_fn(const struct shape *shape);

cost_fn cost_zero;
cost_fn cost_one;            /* 1, but 0 for one rank */
cost_fn cost_others;         /* P-1 */
cost_fn cost_twice_others;   /* 2 (P-1) */
cost_fn cost_each_to_others; /* P (P-1) */
cost_fn cost_twice;          /* 2 and 4, but 0 for one rank */
cost_fn cost_four_times;
cost_fn cost_each_twice_others; /* 2 P (P-1) */
cost_fn cost_floor_log2;        /* floor(log2 P) */
cost_fn cost_log2;              /* ceil(log2 P) */
cost_fn cost_twice_log2;        /* 2 ceil(log2 P) */
cost_fn cost_log2_and_one;      /* ceil(log2 P) + 1, but 0 for one rank */
cost_fn cost_each_log2;         /* P ceil(log2 P) */
cost_fn cost_log_radix;         /* ceil(log_arg P) */
cost_fn cost_windows;           /* ceil((P-1) / arg) */
cost_fn cost_rails;             /* ceil((n-1) / arg) + 1 */
/* The binomial tree, of depth floor(log2 P): the most ranks below one that is not the root, with
 * it; the sum of all ranks' depths. */
cost_fn cost_tree_branch;
cost_fn cost_tree_hops;
/* The digits, in radix arg, of 0 to P-1 that are not 0; P times that. */
cost_fn cost_digits;
cost_fn cost_each_digits;
cost_fn cost_to_root; /* P: a ReduceScatter, and the result to root; of all ranks */
cost_fn cost_to_root_each;
cost_fn cost_doubling_rounds, cost_doubling_blocks, cost_doubling_total;
cost_fn cost_rabenseifner_rounds, cost_rabenseifner_blocks, cost_rabenseifner_total;
cost_fn cost_binomial_rounds;
cost_fn cost_scan_total; /* of P - 1, P - 2, P - 4, ... */

#endif
