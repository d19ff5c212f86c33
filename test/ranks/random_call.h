/*
 * random_call.h - a random collective, the same on all ranks for a seed and a
 * number: what it is, every rank's input, and what must come out, computed by
 * each rank alone in the most naive way.
 *
 * Values are small integers for which every operation is exact in every type
 * and in every order, so that results are compared bit by bit.
 */
#ifndef TEST_RANKS_RANDOM_CALL_H
#define TEST_RANKS_RANDOM_CALL_H

#include "test/ranks/ranks.h"

enum kind {
	BARRIER = 0,
	ALLGATHER,
	ALLGATHERV,
	ALLGATHERV_LIST,
	ALLTOALL,
	ALLTOALLV,
	ALLTOALLV_LIST,
	BCAST,
	GATHER,
	GATHERV,
	SCATTER,
	SCATTERV,
	REDUCE,
	ALLREDUCE,
	REDUCE_SCATTER,
	REDUCE_SCATTERV,
	SCAN,
	EXSCAN,
	KINDS
};

static const char *const kind_name[KINDS] = {
	"barrier",        "allgather", "allgatherv",     "allgatherv_list", "alltoall", "alltoallv",
	"alltoallv_list", "bcast",     "gather",         "gatherv",         "scatter",  "scatterv",
	"reduce",         "allreduce", "reduce_scatter", "reduce_scatterv", "scan",     "exscan"
};

enum { USER_OP = 9 };

struct random_call {
	uint64_t key; /* what all values depend on */
	enum kind kind;
	int size; /* of its communicator */
	int root, type, op;
	bool in_place;
	size_t count; /* elements of a block or vector; bytes for what only moves */
	uint64_t rng;
};

static inline uint64_t
below(uint64_t *rng, uint64_t n)
{
	return ranks_next(rng) % n;
}

/* Sizes that matter: nothing, one, around a line, scratch and pages, and anything. */
static inline size_t
random_count(uint64_t *rng, size_t most)
{
	static const size_t edges[] = { 0,  1,    2,    6,    7,    47,   48,
		                        49, 1023, 1024, 1025, 8191, 8192, 8193 };
	size_t n;

	switch (below(rng, 4)) {
	case 0:
		n = edges[below(rng, sizeof(edges) / sizeof(edges[0]))];
		break;
	case 1:
		n = below(rng, 20);
		break;
	case 2:
		n = below(rng, 3000);
		break;
	default:
		n = below(rng, most);
	}
	return n < most ? n : most;
}

static inline bool
reduces(enum kind k)
{
	return k >= REDUCE;
}

/* ---- Values ---- */

/* Bits of a small integer v >= 0 in a float of so many bits of exponent and mantissa. */
static inline uint64_t
small_float(unsigned v, int exp_bits, int man_bits)
{
	int e = 31 - (v ? __builtin_clz(v) : 31);
	uint64_t man;

	if (!v)
		return 0;
	man = e >= man_bits ? (uint64_t)v >> (e - man_bits) : (uint64_t)v << (man_bits - e);
	return ((uint64_t)(e + (1 << (exp_bits - 1)) - 1) << man_bits) |
	       (man & ((UINT64_C(1) << man_bits) - 1));
}

static inline size_t
type_size(int type)
{
	static const uint8_t size[] = { 4, 8, 4, 8, 4, 8, 1, 1, 2, 2, 2, 2, 1, 1 };

	return type < ORIEL_TYPES ? size[type] : 8;
}

static inline bool
is_float(int type)
{
	return type == ORIEL_FLOAT || type == ORIEL_DOUBLE ||
	       (type >= ORIEL_FLOAT16 && type <= ORIEL_FLOAT8_E5M2);
}

static inline void
encode(int type, uint64_t v, void *to)
{
	double d = (double)v;
	float f = (float)v;

	switch (type) {
	case ORIEL_FLOAT:
		memcpy(to, &f, 4);
		return;
	case ORIEL_DOUBLE:
		memcpy(to, &d, 8);
		return;
	case ORIEL_FLOAT16:
		v = small_float((unsigned)v, 5, 10);
		break;
	case ORIEL_BFLOAT16:
		v = small_float((unsigned)v, 8, 7);
		break;
	case ORIEL_FLOAT8_E4M3:
		v = small_float((unsigned)v, 4, 3);
		break;
	case ORIEL_FLOAT8_E5M2:
		v = small_float((unsigned)v, 5, 2);
		break;
	default:
		break;
	}
	memcpy(to, &v, type_size(type)); /* little-endian, as all that Oriel runs on */
}

/* Element i of block b of rank r's input. */
static inline uint64_t
value(const struct random_call *c, int r, int b, size_t i)
{
	uint64_t s = c->key + (uint64_t)r * 1000003 + (uint64_t)b * 7919 + i * 104729;
	uint64_t v = ranks_next(&s);

	if (!reduces(c->kind))
		return v & 0xff;
	if (c->op == USER_OP)
		return (v % 1000 + 1) << 32 | v >> 40;
	if (!is_float(c->type))
		return v;
	switch (c->op) {
	case 1: /* sum: at most 8 ranks, exact up to 8 in every type */
		return v % 2;
	case 2: /* prod */
		return v % 3 ? 1 : 2;
	case 5: /* avg: the same at all ranks */
		s = c->key + (uint64_t)b * 7919 + i * 104729;
		return ranks_next(&s) % 2;
	default:
		return v % 8;
	}
}

#define PRIME UINT64_C(2147483647)

/* Affine maps: associative, and not commutative. */
static inline uint64_t
compose(uint64_t a, uint64_t b)
{
	return (a >> 32) * (b >> 32) % PRIME << 32 |
	       ((a >> 32) * (b & 0xffffffff) + (a & 0xffffffff)) % PRIME;
}

static inline uint64_t
extended(int type, uint64_t v)
{
	switch (type) {
	case ORIEL_INT8:
		return (uint64_t)(int64_t)(int8_t)v;
	case ORIEL_UINT8:
		return (uint8_t)v;
	case ORIEL_INT16:
		return (uint64_t)(int64_t)(int16_t)v;
	case ORIEL_UINT16:
		return (uint16_t)v;
	case ORIEL_INT32:
		return (uint64_t)(int64_t)(int32_t)v;
	case ORIEL_UINT32:
		return (uint32_t)v;
	default:
		return v;
	}
}

static inline bool
is_signed(int type)
{
	return type == ORIEL_INT8 || type == ORIEL_INT16 || type == ORIEL_INT32 ||
	       type == ORIEL_INT64;
}

static inline bool
less(int type, uint64_t a, uint64_t b)
{
	return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static inline uint64_t
combined(const struct random_call *c, uint64_t a, uint64_t b)
{
	switch (c->op) {
	case 1:
	case 5:
		return extended(c->type, a + b);
	case 2:
		return extended(c->type, a * b);
	case 3:
		return less(c->type, b, a) ? b : a;
	case 4:
		return less(c->type, a, b) ? b : a;
	case 6:
		return a & b;
	case 7:
		return a | b;
	case 8:
		return a ^ b;
	default:
		return compose(a, b);
	}
}

/* Of ranks 0 to n-1, n > 0. */
static inline uint64_t
result(const struct random_call *c, int n, int b, size_t i)
{
	uint64_t all = extended(c->type, value(c, 0, b, i));

	for (int r = 1; r < n; r++)
		all = combined(c, all, extended(c->type, value(c, r, b, i)));
	if (c->op == 5)
		return is_signed(c->type) ? (uint64_t)((int64_t)all / c->size)
		                          : all / (uint64_t)c->size;
	return all;
}

/* ---- Sizes of blocks ---- */

/* v forms: of the block that rank from has for rank to (or of rank to alone). */
static inline size_t
block_count(const struct random_call *c, int from, int to)
{
	uint64_t s = c->key + (uint64_t)from * 31337 + (uint64_t)to * 271;

	switch (c->kind) {
	case ALLGATHERV:
	case ALLGATHERV_LIST:
	case ALLTOALLV:
	case ALLTOALLV_LIST:
	case GATHERV:
	case SCATTERV:
	case REDUCE_SCATTERV:
		return ranks_next(&s) % 3 ? ranks_next(&s) % (c->count + 1) : 0;
	default:
		return c->count;
	}
}

static inline void
draw(struct random_call *c, uint64_t key, int size, size_t most, const bool *allowed, bool ordered)
{
	uint64_t rng = key;

	memset(c, 0, sizeof(*c));
	c->key = ranks_next(&rng);
	c->size = size;
	do
		c->kind = (enum kind)below(&rng, KINDS);
	while (!allowed[c->kind]);
	c->root = (int)below(&rng, (uint64_t)size);
	c->in_place = below(&rng, 3) == 0;
	c->count = random_count(&rng, most / (unsigned)size);
	if (reduces(c->kind)) {
		c->op = 1 + (int)below(&rng, ordered ? 9 : 8);
		if (c->op == 5 && (c->kind == SCAN || c->kind == EXSCAN))
			c->op = 1;
		do
			c->type = (int)below(&rng, ORIEL_TYPES);
		while (c->op >= 6 && c->op <= 8 && is_float(c->type));
		if (c->op == USER_OP)
			c->type = ORIEL_OPAQUE(8);
		c->count /= type_size(c->type);
	}
	c->rng = rng;
}

#endif
