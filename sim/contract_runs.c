#include "sim/contract_runs.h"

#include "sim/contract.h"

#include <stdio.h>
#include <stdlib.h>

bool
contract_runs_init(struct contract_runs *c, const struct coll_row *row, const struct shape *shape)
{
	*c = (struct contract_runs){ .op = { row->op, row->unordered }, .shape = shape };
	if (!coll_kinds[row->op].reduces)
		return true;
	c->prefix = calloc((size_t)shape->size, sizeof(*c->prefix));
	for (int r = 0; c->prefix && r < shape->size; r++) {
		int64_t term = contract_term(r, 0);

		c->prefix[r] = r ? contract_combine(row->op, row->unordered, c->prefix[r - 1], term)
		                 : term;
	}
	return c->prefix != NULL;
}

void
contract_runs_fini(struct contract_runs *c)
{
	free(c->prefix);
	c->prefix = NULL;
}

/* The vector of one rank, or part of it from block at on. */
static struct run
vector(int rank, uint32_t at, uint32_t n)
{
	return (struct run){ .n = n, .block = (int32_t)at, .step = 1, .rank = rank };
}

static struct run
single(int rank, uint32_t at, int block)
{
	return (struct run){ .at = at, .n = 1, .block = block, .rank = rank };
}

/* Ranks 0 to n - 1 combined, in all blocks. */
static struct run
combined(const struct contract_runs *c, int n, uint32_t blocks)
{
	struct run run = vector(RUN_COMBINED, 0, blocks);

	run.sum = c->prefix[n - 1];
	return run;
}

/* Block number block of all ranks. */
static struct run
all_ranks(const struct contract_runs *c, int block)
{
	return (struct run){ .n = (uint32_t)c->shape->size, .block = block, .stride = 1 };
}

bool
contract_runs_has(const struct contract_runs *c, int rank, enum plan_buf buf)
{
	const struct contract_rank r = { .rank = rank, .shape = c->shape };

	return contract_has(c->op.op, &r, buf);
}

/* What a rank's IN is before and after; n is 0 if it is anything. */
static struct run
input(const struct contract_runs *c, int rank, uint32_t n)
{
	return vector(rank, 0, contract_runs_has(c, rank, IN) ? n : 0);
}

/* What OUT holds before; n is 0 if nothing. */
static struct run
before(const struct contract_runs *c, int rank, uint32_t n)
{
	const struct run none = { 0 };
	bool root = rank == c->shape->root;
	uint32_t r = (uint32_t)rank;

	switch (c->op.op) {
	case COLL_AGREE:
		return vector(rank, 0, n);
	case COLL_BARRIER:
	case COLL_ALLGATHER:
		return single(rank, r, 0);
	case COLL_ALLTOALL:
		return single(rank, r, rank);
	case COLL_BCAST:
		return root ? vector(rank, 0, n) : none;
	case COLL_GATHER:
		return root ? single(rank, r, 0) : none;
	case COLL_SCATTER:
		return root ? single(rank, 0, rank) : none;
	default:
		return none;
	}
}

/* What OUT must hold at the end; n is 0 if anything. */
static struct run
after(const struct contract_runs *c, int rank, uint32_t n)
{
	const struct run none = { 0 };
	const int P = c->shape->size, root = c->shape->root;
	struct run run;

	switch (c->op.op) {
	case COLL_AGREE:
	case COLL_ALLREDUCE:
		return combined(c, P, n);
	case COLL_REDUCE:
		return rank == root ? combined(c, P, n) : none;
	case COLL_REDUCE_SCATTER:
		run = combined(c, P, 1);
		run.block = rank;
		return run;
	case COLL_BARRIER:
	case COLL_ALLGATHER:
		return all_ranks(c, 0);
	case COLL_ALLTOALL:
		return all_ranks(c, rank);
	case COLL_BCAST:
		return vector(root, 0, n);
	case COLL_GATHER:
		return rank == root ? all_ranks(c, 0) : none;
	case COLL_SCATTER:
		return single(root, 0, rank);
	case COLL_SCAN:
		return combined(c, rank + 1, n);
	case COLL_EXSCAN:
		return rank ? combined(c, rank, n) : none;
	case COLL_OPS:
		break;
	}
	return none;
}

bool
contract_runs_start(const struct contract_runs *c, int rank, const uint32_t *count,
                    struct runs *buf)
{
	return runs_write(&buf[IN], input(c, rank, count[IN])) &&
	       runs_write(&buf[OUT], before(c, rank, count[OUT]));
}

bool
contract_runs_hold(const struct contract_runs *c, int rank, const uint32_t *count,
                   const struct runs *buf, char *text, size_t cap)
{
	const struct run want[] = {
		[IN] = input(c, rank, count[IN]), [OUT] = after(c, rank, count[OUT])
	};
	char name[80];
	struct run is;
	uint32_t at;

	for (int b = IN; b <= OUT; b++) {
		if (runs_hold(&buf[b], want[b], &at, &is))
			continue;
		run_name(&is, name, sizeof(name));
		if (c->op.op == COLL_BARRIER)
			snprintf(text, cap, "it does not know that rank %u has entered", at);
		else
			snprintf(text, cap, "%s[%u] is %s", b == IN ? "IN" : "OUT", at, name);
		return false;
	}
	return true;
}
