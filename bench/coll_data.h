/*
 * coll_data.h - the data of a measured collective: operations, inputs that change
 * with each call, how results are read, and what reading them must give.
 *
 * An input block is made of floats that are whole numbers, so that sums are exact.
 * The first one of each page changes from call to call.
 */
#ifndef BENCH_COLL_DATA_H
#define BENCH_COLL_DATA_H

#include "bench/bench.h"

#define COLL_PAGE 4096
#define COLL_LINE 64

enum coll_op {
	COLL_ALLGATHER,
	COLL_ALLREDUCE,
	COLL_ALLTOALL,
	COLL_BCAST,
	COLL_REDUCE,
	COLL_GATHER,
	COLL_SCATTER,
	COLL_REDUCE_SCATTER,
	COLL_SCAN,
	COLL_EXSCAN,
	COLL_BARRIER,
	COLL_SENDRECV,
	COLL_OPS
};

/* Blocks of a rank's buffers: none, one, or one for each rank. */
enum coll_blocks { COLL_NONE, COLL_ONE, COLL_EACH };

/* one_by_one: ranks may run ahead of others, so that calls back to back are not timed. */
static const struct coll_kind {
	const char *name;
	enum coll_blocks in, out;
	int one_by_one;
} coll_kinds[COLL_OPS] = {
	[COLL_ALLGATHER] = { "allgather", COLL_ONE, COLL_EACH, 0 },
	[COLL_ALLREDUCE] = { "allreduce", COLL_ONE, COLL_ONE, 0 },
	[COLL_ALLTOALL] = { "alltoall", COLL_EACH, COLL_EACH, 0 },
	[COLL_BCAST] = { "bcast", COLL_ONE, COLL_ONE, 1 },
	[COLL_REDUCE] = { "reduce", COLL_ONE, COLL_ONE, 1 },
	[COLL_GATHER] = { "gather", COLL_ONE, COLL_EACH, 1 },
	[COLL_SCATTER] = { "scatter", COLL_EACH, COLL_ONE, 1 },
	[COLL_REDUCE_SCATTER] = { "reduce_scatter", COLL_EACH, COLL_ONE, 0 },
	[COLL_SCAN] = { "scan", COLL_ONE, COLL_ONE, 1 },
	[COLL_EXSCAN] = { "exscan", COLL_ONE, COLL_ONE, 1 },
	[COLL_BARRIER] = { "barrier", COLL_NONE, COLL_NONE, 0 },
	[COLL_SENDRECV] = { "sendrecv", COLL_ONE, COLL_ONE, 0 },
};

/* Of one rank, in one size and memory. */
struct coll_data {
	enum coll_op op;
	int me, ranks;
	size_t len, in_len, out_len; /* of a block, and of the buffers */
	char *in, *out;
	uint64_t call, sum; /* calls so far, and what was read of their results */
};

/* All bytes up to a page, then one word of each cache line. */
static inline uint64_t
coll_read(const char *p, size_t len)
{
	uint64_t sum = 0, word;

	if (len <= COLL_PAGE)
		return bench_read(p, len);
	for (const char *end = p + len; p < end; p += COLL_LINE) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	__asm__ volatile("" : "+r"(sum) : : "memory");
	return sum;
}

/* What a term of rank's block for dest holds: at the head of each page, and elsewhere. */
static inline float
coll_head(uint64_t call, int rank, int dest)
{
	return (float)((call & 0xffff) + (uint64_t)(3 * rank + dest));
}

static inline float
coll_body(size_t k, int rank, int dest)
{
	return (float)((k * 7 + (size_t)(rank * 3 + dest * 5)) & 63);
}

/* Block number block of the result here: the sum of the terms of ranks first to last for *dest. */
static inline void
coll_terms(const struct coll_data *d, int block, int *first, int *last, int *dest)
{
	*first = *last = block;
	*dest = 0;
	switch (d->op) {
	case COLL_ALLTOALL:
		*dest = d->me;
		break;
	case COLL_BCAST:
		*first = *last = 0;
		break;
	case COLL_SCATTER:
		*first = *last = 0;
		*dest = d->me;
		break;
	case COLL_ALLREDUCE:
	case COLL_REDUCE:
		*first = 0;
		*last = d->ranks - 1;
		break;
	case COLL_REDUCE_SCATTER:
		*first = 0;
		*last = d->ranks - 1;
		*dest = d->me;
		break;
	case COLL_SCAN:
		*first = 0;
		*last = d->me;
		break;
	case COLL_EXSCAN:
		*first = 0;
		*last = d->me - 1;
		break;
	case COLL_SENDRECV:
		*first = *last = d->me ^ 1;
		break;
	default:
		break;
	}
}

static inline int
coll_n_blocks(const struct coll_data *d, enum coll_blocks blocks)
{
	return blocks == COLL_EACH ? d->ranks : blocks == COLL_ONE;
}

/* Does this rank get a result? */
static inline int
coll_reads(const struct coll_data *d)
{
	switch (d->op) {
	case COLL_BARRIER:
		return 0;
	case COLL_REDUCE:
	case COLL_GATHER:
		return d->me == 0;
	case COLL_BCAST:
	case COLL_EXSCAN:
		return d->me != 0;
	default:
		return 1;
	}
}

/* The input of the next call. */
static inline void
coll_stamp(struct coll_data *d)
{
	int n = coll_n_blocks(d, coll_kinds[d->op].in);

	d->call++;
	for (int dest = 0; dest < n; dest++) {
		float head = coll_head(d->call, d->me, dest);
		char *block = d->in + (size_t)dest * d->len;

		for (size_t at = 0; at < d->len; at += COLL_PAGE)
			memcpy(block + at, &head, sizeof(head));
	}
}

static inline uint64_t
coll_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* The head of a page of a block in the result of a call. */
static inline float
coll_head_sum(uint64_t call, int first, int last, int dest)
{
	float sum = 0;

	for (int r = first; r <= last; r++)
		sum += coll_head(call, r, dest);
	return sum;
}

static inline void
coll_fill_in(struct coll_data *d)
{
	int n = coll_n_blocks(d, coll_kinds[d->op].in);

	for (int dest = 0; dest < n; dest++) {
		for (size_t k = 0; k < d->len / sizeof(float); k++) {
			float body = coll_body(k, d->me, dest);

			memcpy(d->in + (size_t)dest * d->len + k * sizeof(body), &body,
			       sizeof(body));
		}
	}
}

/* Fills out with the result that call 0 would have, and returns what reading it gives. */
static inline uint64_t
coll_result_sum(struct coll_data *d)
{
	int n = coll_n_blocks(d, coll_kinds[d->op].out), first, last, dest;

	for (int b = 0; b < n; b++) {
		coll_terms(d, b, &first, &last, &dest);
		for (size_t k = 0; k < d->len / sizeof(float); k++) {
			float sum = 0;

			for (int r = first; r <= last; r++)
				sum += k * sizeof(float) % COLL_PAGE ? coll_body(k, r, dest)
				                                     : coll_head(0, r, dest);
			memcpy(d->out + (size_t)b * d->len + k * sizeof(sum), &sum, sizeof(sum));
		}
	}
	return coll_read(d->out, d->out_len);
}

/* What reading the results of all calls so far gives, from what it gives for call 0. */
static inline uint64_t
coll_want(const struct coll_data *d, uint64_t of_call_0)
{
	int n = coll_n_blocks(d, coll_kinds[d->op].out), first, last, dest;
	uint64_t pages = (d->len + COLL_PAGE - 1) / COLL_PAGE, want = of_call_0 * d->call;

	for (int b = 0; b < n; b++) {
		coll_terms(d, b, &first, &last, &dest);
		for (uint64_t call = 1; call <= d->call; call++)
			want += pages * (coll_bits(coll_head_sum(call, first, last, dest)) -
			                 coll_bits(coll_head_sum(0, first, last, dest)));
	}
	return want;
}

#endif
