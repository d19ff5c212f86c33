#include "sim/shapes.h"

#include <stdlib.h>
#include <string.h>

static bool
chosen(int i, int first, int last, int thin_above)
{
	int n = last - first + 1;

	return n <= thin_above || i < first + 3 || i == first + n / 2 || i == last ||
	       is_pow2((size_t)i);
}

static void
with_arg(const struct coll_row *row, struct shape shape, int thin_above,
         void (*use)(void *arg, const struct shape *shape), void *arg)
{
	int first = row->max_arg ? row->min_arg(shape.size) : 0;
	int last = row->max_arg ? row->max_arg(shape.size) : 0;

	for (shape.arg = first; shape.arg <= last; shape.arg++)
		if (chosen(shape.arg, first, last, thin_above) &&
		    (!row->unfit || !row->unfit(&shape)))
			use(arg, &shape);
}

static void
with_node(const struct coll_row *row, struct shape shape, int thin_above,
          void (*use)(void *arg, const struct shape *shape), void *arg)
{
	int most = row->unfit ? shape.size : 0;

	for (shape.node = 0; shape.node <= most; shape.node++)
		if (!shape.node || shape.size % shape.node == 0)
			with_arg(row, shape, thin_above, use, arg);
}

void
shapes_each(const struct coll_row *row, int size, int thin_above,
            void (*use)(void *arg, const struct shape *shape), void *arg)
{
	struct shape shape = { .size = size };
	int last = coll_kinds[row->op].rooted ? size - 1 : 0;

	for (shape.root = 0; shape.root <= last; shape.root++)
		if (chosen(shape.root, 0, last, thin_above))
			with_node(row, shape, thin_above, use, arg);
}

bool
shapes_wanted(const struct coll_row *row)
{
	const char *name = getenv("TEST_ROW");

	return !name || !strncmp(row->program.name, name, strlen(name));
}
