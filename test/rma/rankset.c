#include "rma/rankset.h"
#include "test/alloc/random.h"

#include <criterion/criterion.h>
#include <string.h>

#define ROOM 8192
#define MOST 200000

static uint64_t set[MOST / 64 + 1], back[MOST / 64 + 1];
static char wire[ROOM];

static void
there_and_back(int size, const char *what)
{
	size_t len = ROOM, bytes = rankset_words(size) * 8;
	uint32_t n;

	cr_assert(rankset_encode(set, size, wire, &len, &n), "%d ranks, %s: no room", size, what);
	cr_assert_leq(len, ROOM);
	cr_assert_leq(len, (size_t)rankset_count(set, size) * 4, "%d ranks, %s: %zu bytes", size,
	              what, len);
	memset(back, 0, bytes);
	cr_assert(rankset_decode(back, size, wire, len, n), "%d ranks, %s: refused", size, what);
	cr_assert(!memcmp(set, back, bytes), "%d ranks, %s: another set", size, what);
	/* What is too short or too long is refused. */
	cr_assert_not(rankset_decode(back, size, wire, len + 4, n));
	cr_assert_not(len && rankset_decode(back, size, wire, len - 4, n));
}

Test(rankset, there_and_back)
{
	static const int sizes[] = { 1, 2, 31, 63, 64, 65, 1000, 4096, 65535, 65536 };
	uint64_t random = first_seed("rankset", 1);

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		int size = sizes[s];

		for (int many = 0; many <= 4; many++) {
			memset(set, 0, sizeof(set));
			for (int r = 0; r < size; r++)
				if (many == 4 || random_below(&random, (size_t)1 << 3 * many) == 0)
					rankset_add(set, r);
			there_and_back(size, "random");
		}
		memset(set, 0, sizeof(set));
		there_and_back(size, "empty");
		rankset_add(set, size - 1);
		cr_assert_eq(rankset_count(set, size), 1);
		there_and_back(size, "the last one");
	}
}

/* A list goes on where the bits have no room. */
Test(rankset, more_ranks_than_bits_have_room_for)
{
	size_t len = ROOM;
	uint32_t n;

	memset(set, 0, sizeof(set));
	for (int i = 0; i < 2048; i++)
		rankset_add(set, i * 97);
	there_and_back(MOST, "2048 of many");
	rankset_add(set, MOST - 1);
	cr_assert_not(rankset_encode(set, MOST, wire, &len, &n));
}

Test(rankset, refuses_what_is_none)
{
	uint64_t bits = UINT64_C(1) << 40;
	uint32_t ranks[2] = { 3, 40 };

	memset(back, 0, sizeof(back));
	cr_assert_not(rankset_decode(back, 40, &bits, sizeof(bits), RANKSET_BITS));
	cr_assert(rankset_decode(back, 41, &bits, sizeof(bits), RANKSET_BITS));
	memset(back, 0, sizeof(back));
	cr_assert_not(rankset_decode(back, 40, ranks, sizeof(ranks), 2));
	cr_assert(rankset_decode(back, 41, ranks, sizeof(ranks), 2));
	cr_assert_not(rankset_decode(back, 41, ranks, sizeof(ranks), 3));
}
