#include "sim/contract.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PRIME UINT64_C(2147483647)

/* Block number block of a rank's input: nothing else looks like it. Both halves are below PRIME. */
static int64_t
term(int rank, int block)
{
	const int key[2] = { rank, block };
	uint64_t h = hash_bytes(0, key, sizeof(key));

	return (int64_t)(((h >> 32) % (PRIME - 1) + 1) << 32 | (h & 0xffffffff) % PRIME);
}

int64_t
contract_term(int rank, int block)
{
	return term(rank, block);
}

int64_t
contract_combine(enum coll_op op, bool unordered, int64_t a, int64_t b)
{
	uint64_t a1 = (uint64_t)a >> 32, a0 = (uint64_t)a & 0xffffffff;
	uint64_t b1 = (uint64_t)b >> 32, b0 = (uint64_t)b & 0xffffffff;

	if (op == COLL_AGREE)
		return a < b ? a : b;
	if (unordered)
		return (int64_t)((uint64_t)a + (uint64_t)b);
	/* x -> a1 x + a0 after x -> b1 x + b0 */
	return (int64_t)(a1 * b1 % PRIME << 32 | (a1 * b0 + a0) % PRIME);
}

int64_t
contract_round(bool unordered, int64_t a, int64_t b)
{
	const int64_t in_order[2] = { a, b }, sorted[2] = { a < b ? a : b, a < b ? b : a };

	return (int64_t)hash_bytes(0, unordered ? sorted : in_order, sizeof(sorted));
}

/* Of ranks 0 to n-1. */
static int64_t
combined(enum coll_op op, const struct contract_rank *r, int n, int block)
{
	int64_t all = term(0, block);

	for (int k = 1; k < n; k++)
		all = contract_combine(op, r->unordered, all, term(k, block));
	return all;
}

static bool
is_root(const struct contract_rank *r)
{
	return r->rank == r->shape->root;
}

bool
contract_can_alias(enum coll_op op)
{
	return op == COLL_REDUCE || op == COLL_ALLREDUCE || op == COLL_REDUCE_SCATTER ||
	       op == COLL_SCAN || op == COLL_EXSCAN;
}

bool
contract_aliases(enum coll_op op, const struct contract_rank *r)
{
	return r->alias && contract_can_alias(op) && (op != COLL_REDUCE || is_root(r));
}

bool
contract_has(enum coll_op op, const struct contract_rank *r, enum plan_buf buf)
{
	if (op == COLL_GATHER && buf == IN)
		return !is_root(r);
	if (op == COLL_REDUCE || op == COLL_GATHER)
		return buf != OUT || is_root(r);
	return op != COLL_SCATTER || buf != IN || is_root(r);
}

int
contract_part(enum coll_op op, const struct contract_rank *r, enum plan_buf buf, int block)
{
	const int P = r->shape->size;

	switch (op) {
	case COLL_SCATTER:
	case COLL_REDUCE_SCATTER:
		return buf == OUT ? r->rank : block;
	case COLL_GATHER:
		return buf == IN ? r->rank : block;
	case COLL_ALLTOALL:
		return buf == IN ? r->rank * P + block : block * P + r->rank;
	default:
		return block;
	}
}

bool
contract_knows(enum coll_op op, const struct contract_rank *r, int part)
{
	const int P = r->shape->size;

	switch (op) {
	case COLL_GATHER:
	case COLL_SCATTER:
		return is_root(r) || part == r->rank;
	case COLL_ALLTOALL:
		return part / P == r->rank || part % P == r->rank;
	default:
		return true;
	}
}

/* Whether this rank's IN holds input. */
static bool
has_input(enum coll_op op, const struct contract_rank *r)
{
	switch (op) {
	case COLL_SCATTER:
		return is_root(r);
	case COLL_ALLTOALL:
	case COLL_GATHER:
	case COLL_REDUCE:
	case COLL_ALLREDUCE:
	case COLL_REDUCE_SCATTER:
	case COLL_SCAN:
	case COLL_EXSCAN:
		return true;
	default:
		return false;
	}
}

/* What OUT's block holds before the program starts; false: garbage. */
static bool
before(enum coll_op op, const struct contract_rank *r, int block, int64_t *value)
{
	switch (op) {
	case COLL_AGREE:
		*value = term(r->rank, block);
		return true;
	case COLL_ALLGATHER:
		*value = term(r->rank, 0);
		return block == r->rank;
	case COLL_ALLTOALL:
		*value = term(r->rank, r->rank);
		return block == r->rank;
	case COLL_BCAST:
		*value = term(r->rank, block);
		return is_root(r);
	case COLL_GATHER:
		*value = term(r->rank, 0);
		return is_root(r) && block == r->rank;
	case COLL_SCATTER:
		*value = term(r->rank, r->rank);
		return is_root(r);
	default:
		return false;
	}
}

/* What OUT's block must hold at the end; false: anything. */
static bool
after(enum coll_op op, const struct contract_rank *r, int block, int64_t *value)
{
	const int P = r->shape->size, root = r->shape->root;

	switch (op) {
	case COLL_AGREE:
	case COLL_ALLREDUCE:
		*value = combined(op, r, P, block);
		return true;
	case COLL_REDUCE:
		*value = combined(op, r, P, block);
		return is_root(r);
	case COLL_REDUCE_SCATTER:
		*value = combined(op, r, P, r->rank);
		return block == 0;
	case COLL_ALLGATHER:
		*value = term(block, 0);
		return true;
	case COLL_ALLTOALL:
		*value = term(block, r->rank);
		return true;
	case COLL_BCAST:
		*value = term(root, block);
		return true;
	case COLL_GATHER:
		*value = term(block, 0);
		return is_root(r);
	case COLL_SCATTER:
		*value = term(root, r->rank);
		return true;
	case COLL_SCAN:
		*value = combined(op, r, r->rank + 1, block);
		return true;
	case COLL_EXSCAN:
		*value = r->rank > 0 ? combined(op, r, r->rank, block)
		         : r->alias  ? term(0, block)
		                     : CONTRACT_GARBAGE;
		return true;
	default:
		return false;
	}
}

bool
contract_promises(enum coll_op op, const struct contract_rank *r, int block)
{
	int64_t value;

	return after(op, r, block, &value) && (op != COLL_EXSCAN || r->rank > 0);
}

void
contract_start(enum coll_op op, struct contract_rank *r)
{
	int64_t value;

	for (uint32_t i = 0; i < r->count[OUT]; i++)
		if (before(op, r, (int)i, &value))
			r->buf[OUT][i] = value;
	for (uint32_t i = 0; has_input(op, r) && i < r->count[IN]; i++)
		r->buf[IN][i] = term(r->rank, (int)i);
}

bool
contract_holds(enum coll_op op, const struct contract_rank *r, char *text, size_t cap)
{
	int64_t value;

	for (int i = 0; op == COLL_BARRIER && i < r->shape->size; i++)
		if (!r->entered[i]) {
			snprintf(text, cap, "rank %d has not entered", i);
			return false;
		}
	for (uint32_t i = 0; i < r->count[OUT]; i++)
		if (after(op, r, (int)i, &value) && r->buf[OUT][i] != value) {
			snprintf(text, cap, "OUT[%u] is %016" PRIx64 ", expected %016" PRIx64, i,
			         r->buf[OUT][i], value);
			return false;
		}
	for (uint32_t i = 0; !contract_aliases(op, r) && has_input(op, r) && i < r->count[IN]; i++)
		if (r->buf[IN][i] != term(r->rank, (int)i)) {
			snprintf(text, cap, "IN[%u] was changed", i);
			return false;
		}
	return true;
}
