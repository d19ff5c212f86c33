#include "sim/events.h"

#include <stdlib.h>

#define ARY 4 /* children of a node: fewer cache lines on the way than two */

void
events_fini(struct events *e)
{
	free(e->event);
	*e = (struct events){ 0 };
}

static bool
before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

bool
events_push(struct events *e, int64_t at, uint64_t order, uint64_t what)
{
	struct event event = { .at = at, .order = order, .what = what };
	size_t i = e->n;

	if (e->n == e->cap) {
		size_t cap = e->cap ? 2 * e->cap : 256;
		struct event *more = realloc(e->event, cap * sizeof(*more));

		if (!more)
			return false;
		e->event = more;
		e->cap = cap;
	}
	e->pushed++;
	for (e->n++; i && before(&event, &e->event[(i - 1) / ARY]); i = (i - 1) / ARY)
		e->event[i] = e->event[(i - 1) / ARY];
	e->event[i] = event;
	return true;
}

bool
events_pop(struct events *e, struct event *first)
{
	struct event last;
	size_t i = 0;

	if (!e->n)
		return false;
	*first = e->event[0];
	last = e->event[--e->n];
	for (;;) {
		size_t least = ARY * i + 1, end = least + ARY;

		if (least >= e->n)
			break;
		if (end > e->n)
			end = e->n;
		for (size_t c = least + 1; c < end; c++)
			if (before(&e->event[c], &e->event[least]))
				least = c;
		if (!before(&e->event[least], &last))
			break;
		e->event[i] = e->event[least];
		i = least;
	}
	e->event[i] = last;
	return true;
}
