/*
 * op.c - what ops do. A try never blocks: an op that has to wait is tried again.
 */
#include "sim/cuda/standin.h"

#include <stdlib.h>
#include <string.h>

#define CYCLIC_HALF(bits) (UINT64_C(1) << ((bits)-1))

struct mark *
standin_mark_new(void)
{
	struct mark *m = calloc(1, sizeof(*m));

	if (m)
		m->refs = 1;
	return m;
}

struct mark *
standin_mark_get(struct mark *m)
{
	__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
	return m;
}

void
standin_mark_put(struct mark *m)
{
	if (m && !__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		free(m);
}

/* Multiprocessors are given to one op at a time as it needs them; false: there are too few. */
static bool
take_multiprocessors(struct op *op, unsigned n)
{
	uint32_t left = __atomic_load_n(&op->dev->free_multiprocessors, __ATOMIC_ACQUIRE);

	if (op->held)
		return true;
	n = n > MULTIPROCESSORS ? MULTIPROCESSORS : n;
	do {
		if (left < n)
			return false;
	} while (!__atomic_compare_exchange_n(&op->dev->free_multiprocessors, &left, left - n,
	                                      false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	op->held = n;
	return true;
}

static void
leave_multiprocessors(struct op *op)
{
	__atomic_add_fetch(&op->dev->free_multiprocessors, op->held, __ATOMIC_ACQ_REL);
	op->held = 0;
}

static bool
try_copy(struct op *op, CUresult *error)
{
	int from = standin_home(op->src), to = standin_home(op->dst);
	void *dst = standin_host_of(op->dev, op->dst, op->len, op->knows_dst);
	const void *src = standin_host_of(op->dev, op->src, op->len, op->knows_src);

	if (!dst || !src) {
		*error = CUDA_ERROR_ILLEGAL_ADDRESS;
		return true;
	}
	/* Inside a device it is a kernel. */
	if (from >= 0 && from == to && !take_multiprocessors(op, 1))
		return false;
	memmove(dst, src, op->len);
	leave_multiprocessors(op);
	return true;
}

static bool
try_fill(struct op *op, CUresult *error)
{
	char *dst = standin_host_of(op->dev, op->dst, op->len, true);

	if (!dst) {
		*error = CUDA_ERROR_ILLEGAL_ADDRESS;
		return true;
	}
	if (!take_multiprocessors(op, 1))
		return false;
	for (size_t i = 0; i < op->len; i += op->bytes)
		memcpy(dst + i, &op->value, op->bytes);
	leave_multiprocessors(op);
	return true;
}

static bool
holds(const struct op *op, uint64_t word)
{
	uint64_t mask = op->bytes == 8 ? UINT64_MAX : UINT32_MAX, value = op->value & mask;

	word &= mask;
	switch (op->flags & ~(unsigned)CU_STREAM_WAIT_VALUE_FLUSH) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return word == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return word & value;
	case CU_STREAM_WAIT_VALUE_NOR:
		return (~(word | value) & mask) != 0;
	default: /* GEQ: the difference, as a signed number */
		return ((word - value) & mask) < CYCLIC_HALF(8 * op->bytes);
	}
}

static bool
try_word(struct op *op, CUresult *error)
{
	bool writes = op->kind == OP_WRITE;
	void *p = standin_host_of(op->dev, op->dst, op->bytes, true);
	uint64_t word;

	if (!p) {
		*error = CUDA_ERROR_ILLEGAL_ADDRESS;
		return true;
	}
	if (writes && op->bytes == 8)
		__atomic_store_n((uint64_t *)p, op->value, __ATOMIC_RELEASE);
	else if (writes)
		__atomic_store_n((uint32_t *)p, (uint32_t)op->value, __ATOMIC_RELEASE);
	if (writes)
		return true;
	word = op->bytes == 8 ? __atomic_load_n((uint64_t *)p, __ATOMIC_ACQUIRE)
	                      : __atomic_load_n((uint32_t *)p, __ATOMIC_ACQUIRE);
	return holds(op, word);
}

static bool
try_kernel(struct op *op, CUresult *error)
{
	bool done;

	if (!take_multiprocessors(op, op->blocks))
		return false;
	done = op->kernel->run(op, error);
	if (done || *error) {
		leave_multiprocessors(op);
		memset(op->state, 0, sizeof(op->state)); /* it may be replayed */
	}
	return done;
}

bool
standin_try(struct op *op, CUresult *error)
{
	switch (op->kind) {
	case OP_COPY:
		return try_copy(op, error);
	case OP_FILL:
		return try_fill(op, error);
	case OP_WRITE:
	case OP_AWAIT:
		return try_word(op, error);
	case OP_MARK:
		op->mark->at_ns = standin_now_ns();
		__atomic_store_n(&op->mark->done, 1, __ATOMIC_RELEASE);
		return true;
	case OP_AFTER:
		return __atomic_load_n(&op->mark->done, __ATOMIC_ACQUIRE);
	case OP_KERNEL:
		return try_kernel(op, error);
	case OP_HOST:
		op->fn(op->fn_arg);
		return true;
	case OP_GRAPH:
		return standin_graph_try(op->run, error);
	}
	return true;
}

/* A copy with references of its own. */
struct op *
standin_op_copy(const struct op *op)
{
	struct op *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *op;
	if (copy->mark)
		standin_mark_get(copy->mark);
	return copy;
}

void
standin_op_free(struct op *op)
{
	if (op->held)
		leave_multiprocessors(op);
	standin_mark_put(op->mark);
	free(op->after_all);
	if (op->run)
		standin_graph_run_free(op->run);
	free(op);
}
