#include "coll/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
two(int size)
{
	(void)size;
	return 2;
}

/* radix P is the direct algorithm; more changes nothing. */
static int
two_or_size(int size)
{
	return size > 2 ? size : 2;
}

static int
all_others(int size, int arg)
{
	(void)arg;
	return size - 1;
}

static int
nothing(int size, int arg)
{
	(void)size;
	(void)arg;
	return 0;
}

static int
log_radix(int size, int radix)
{
	int n = 0;

	for (long d = 1; d < size; d *= radix)
		n++;
	return n;
}

static int
log_two(int size, int arg)
{
	(void)arg;
	return log_radix(size, 2);
}

const char *const coll_op_name[COLL_OPS] = { "barrier", "allgather", "agree" };

#define ALL_BLOCKS [OUT] = { BLOCKS_RANKS, true }

const struct coll_row coll_table[] = {
	[COLL_ROW_BARRIER] = {
	        .program = { "barrier/dissemination", barrier_dissemination, 1, { { 0 } } },
	        .op = COLL_BARRIER,
	        .rounds = log_two,
	        .blocks = nothing,
	},
	[COLL_ROW_ALLGATHER_BRUCK] = {
	        .program = { "allgather/bruck", allgather_bruck, 1, { ALL_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .arg = "radix, from 2 to the number of ranks",
	        .min_arg = two,
	        .max_arg = two_or_size,
	        .rounds = log_radix,
	        .blocks = all_others,
	},
	[COLL_ROW_ALLGATHER_RING] = {
	        .program = { "allgather/ring", allgather_ring, 1, { ALL_BLOCKS } },
	        .op = COLL_ALLGATHER,
	        .rounds = all_others,
	        .blocks = all_others,
	},
	[COLL_ROW_AGREE] = {
	        .program = { "agree/dissemination",
	                     agree_dissemination,
	                     1,
	                     { [OUT] = { BLOCKS_ONE, false }, [TMP] = { BLOCKS_LOG2, false } } },
	        .op = COLL_AGREE,
	        .rounds = log_two,
	        .blocks = log_two,
	},
};

const size_t coll_rows = ARRAY_SIZE(coll_table);

int
coll_clip(const struct coll_row *row, int size, int arg)
{
	if (!row->max_arg)
		return 0;
	if (arg < row->min_arg(size))
		return row->min_arg(size);
	return arg > row->max_arg(size) ? row->max_arg(size) : arg;
}

static const struct coll_row *
find_row(enum coll_op op, const char *text, size_t len)
{
	size_t op_len = strlen(coll_op_name[op]);

	for (size_t i = 0; i < coll_rows; i++) {
		const char *name = coll_table[i].program.name + op_len + 1;

		if (coll_table[i].op == op && strlen(name) == len && !strncmp(name, text, len))
			return &coll_table[i];
	}
	return NULL;
}

int
coll_find(enum coll_op op, const char *text, int size, const struct coll_row **out, int *arg)
{
	const char *colon = strchr(text, ':');
	const struct coll_row *row =
	        find_row(op, text, colon ? (size_t)(colon - text) : strlen(text));
	char *end;
	long n;

	if (!row)
		return fail(ORIEL_EINVAL, "%s has no algorithm \"%s\"", coll_op_name[op], text);
	if (!colon) {
		*out = row;
		*arg = row->max_arg ? row->min_arg(size) : 0;
		return 0;
	}
	if (!row->max_arg)
		return fail(ORIEL_EINVAL, "\"%s\": %s takes no argument", text, row->program.name);
	errno = 0;
	n = strtol(colon + 1, &end, 10);
	if (errno || end == colon + 1 || *end || n < row->min_arg(size) || n > INT32_MAX)
		return fail(ORIEL_EINVAL, "\"%s\": the argument is not a %s", text, row->arg);
	*out = row;
	*arg = coll_clip(row, size, (int)n);
	return 0;
}
