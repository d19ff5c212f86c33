/*
 * lanes_impl.h - what both ends of a connection share: a ring of bits, one for each
 * number of the window.
 */
#ifndef RMA_LANES_IMPL_H
#define RMA_LANES_IMPL_H

#include "rma/lanes.h"

/* ERANGE says which limit. */
int lanes_check_limits(const struct lanes_limits *limits);

static inline bool
lanes_bit(const uint64_t *ring, uint32_t window, uint64_t seq)
{
	uint64_t at = seq & (window - 1);

	return ring[at / 64] >> (at % 64) & 1;
}

static inline void
lanes_bit_set(uint64_t *ring, uint32_t window, uint64_t seq)
{
	uint64_t at = seq & (window - 1);

	ring[at / 64] |= UINT64_C(1) << (at % 64);
}

static inline void
lanes_bit_clear(uint64_t *ring, uint32_t window, uint64_t seq)
{
	uint64_t at = seq & (window - 1);

	ring[at / 64] &= ~(UINT64_C(1) << (at % 64));
}

#endif
