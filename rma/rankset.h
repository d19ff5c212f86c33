/*
 * rankset.h - sets of the ranks of a group: a bit each, in 64-bit words. On the
 * wire a list of ranks (4 bytes each) or the bits, whichever is shorter.
 */
#ifndef RMA_RANKSET_H
#define RMA_RANKSET_H

#include "base/base.h"

#define RANKSET_BITS UINT32_MAX /* in place of a list's length */

static inline size_t
rankset_words(int size)
{
	return ((size_t)size + 63) / 64;
}

static inline bool
rankset_has(const uint64_t *set, int r)
{
	return set[r / 64] >> (r % 64) & 1;
}

static inline void
rankset_add(uint64_t *set, int r)
{
	set[r / 64] |= UINT64_C(1) << (r % 64);
}

static inline int
rankset_count(const uint64_t *set, int size)
{
	int n = 0;

	for (size_t i = 0; i < rankset_words(size); i++)
		n += __builtin_popcountll(set[i]);
	return n;
}

/*
 * *len: the room in data in, the length out. *n_listed: the length of the list,
 * or RANKSET_BITS. False: there is no room, which 8 KiB are for any set of up to
 * 65,536 ranks, and for 2,048 of more.
 */
bool rankset_encode(const uint64_t *set, int size, void *data, size_t *len, uint32_t *n_listed);
/* Into a set that is empty. False: no set of ranks below size. */
bool rankset_decode(uint64_t *set, int size, const void *data, size_t len, uint32_t n_listed);

#endif
