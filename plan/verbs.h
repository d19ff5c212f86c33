/*
 * verbs.h - the words that programs are written in. Only programs include it:
 * two of the names are the C library's elsewhere.
 */
#ifndef PLAN_VERBS_H
#define PLAN_VERBS_H

#include "plan/plan.h"

/* n blocks of my src from block j into peer's dst at block i: data only. */
static inline void
put(struct queue *q, int peer, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	plan_put(q, peer, dst, i, src, j, n);
}

/* Closes a batch: peer's wait returns after all of this queue's earlier puts to it. */
static inline void
signal(struct queue *q, int peer)
{
	plan_signal(q, peer);
}

static inline void
put_signal(struct queue *q, int peer, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	plan_put(q, peer, dst, i, src, j, n);
	plan_signal(q, peer);
}

/* Until the next batch of peer's queue ch is here; each queue counts for itself. */
static inline void
wait(struct queue *q, int peer, int ch)
{
	plan_wait(q, peer, ch);
}

static inline void
copy(struct queue *q, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	plan_copy(q, dst, i, src, j, n);
}

/* dst[i+t] = a[j+t] op b[k+t], t < n, with the launch's op; a is what comes from lower ranks. dst
 * may be a or b. */
static inline void
reduce(struct queue *q, enum plan_buf dst, int i, enum plan_buf a, int j, enum plan_buf b, int k,
       int n)
{
	plan_reduce(q, dst, i, a, j, b, k, n);
}

/* dst[i] = src[j] op src[j+1] op ... op src[j+n-1]: one rounding at the end for short floats. */
static inline void
fold(struct queue *q, enum plan_buf dst, int i, enum plan_buf src, int j, int n)
{
	plan_fold(q, dst, i, src, j, n);
}

/* fn(the launch's arg, i, n); its status is the call's first error. */
static inline void
call(struct queue *q, plan_call_fn *fn, int i, int n)
{
	plan_call(q, fn, i, n);
}

/* My sources are free again; implied at the end. */
static inline void
flush(struct queue *q)
{
	plan_flush(q);
}

static inline int
min(int a, int b)
{
	return a < b ? a : b;
}

/* The largest power of two below n; 0 if there is none. */
static inline int
power_below(int n)
{
	return n > 1 ? 1 << (31 - __builtin_clz((unsigned)n - 1)) : 0;
}

#endif
