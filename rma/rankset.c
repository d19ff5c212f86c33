#include "rma/rankset.h"

#include <string.h>

bool
rankset_encode(const uint64_t *set, int size, void *data, size_t *len, uint32_t *n_listed)
{
	size_t bits = rankset_words(size) * sizeof(*set);
	uint32_t n = (uint32_t)rankset_count(set, size), at = 0;
	size_t list = n * sizeof(n);

	if (list >= bits && bits <= *len) {
		memcpy(data, set, bits);
		*n_listed = RANKSET_BITS;
		*len = bits;
		return true;
	}
	if (list > *len)
		return false;
	for (uint32_t r = 0; at < n; r++) {
		if (!rankset_has(set, (int)r))
			continue;
		memcpy((char *)data + at * sizeof(r), &r, sizeof(r));
		at++;
	}
	*n_listed = n;
	*len = list;
	return true;
}

static bool
decode_bits(uint64_t *set, int size, const void *data, size_t len)
{
	size_t words = rankset_words(size);

	if (len != words * sizeof(*set))
		return false;
	memcpy(set, data, len);
	return size % 64 == 0 || !(set[words - 1] >> (size % 64));
}

bool
rankset_decode(uint64_t *set, int size, const void *data, size_t len, uint32_t n_listed)
{
	uint32_t r;

	if (n_listed == RANKSET_BITS)
		return decode_bits(set, size, data, len);
	if (len != n_listed * sizeof(r))
		return false;
	for (size_t i = 0; i < n_listed; i++) {
		memcpy(&r, (const char *)data + i * sizeof(r), sizeof(r));
		if (r >= (uint32_t)size)
			return false;
		rankset_add(set, (int)r);
	}
	return true;
}
