/*
 * events.h - what happens when: a heap of events by time, and those of one time by
 * an order that the caller gives. No two events have both in common, so a run
 * repeats itself exactly, whatever it pushed first.
 *
 * O(log n) a push and a pop. Its owner is who holds it; events_fini frees it.
 */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "base/base.h"

struct event {
	int64_t at; /* ps */
	uint64_t order;
	uint64_t what; /* the caller's */
};

struct events {
	struct event *event;
	size_t n, cap;
	uint64_t pushed; /* in all */
};

void events_fini(struct events *e);
/* False: no memory. */
bool events_push(struct events *e, int64_t at, uint64_t order, uint64_t what);
/* The first of them; false: there is none. */
bool events_pop(struct events *e, struct event *first);

#endif
