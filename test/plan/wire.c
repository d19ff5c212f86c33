#include "plan/wire.h"

#include <criterion/criterion.h>

static bool
same(struct wire a, struct wire b)
{
	return a.len == b.len && a.block == b.block && a.tag == b.tag && a.kind == b.kind &&
	       a.dst == b.dst && a.last == b.last && a.more == b.more;
}

Test(wire, every_field_survives)
{
	static const uint32_t lens[] = { 0, 1, 47, 48, 49, MBOX_SCRATCH };
	static const uint32_t blocks[] = { 0, 1, 98303, WIRE_MAX_BLOCKS - 1 };

	for (size_t l = 0; l < ARRAY_SIZE(lens); l++)
		for (size_t b = 0; b < ARRAY_SIZE(blocks); b++)
			for (unsigned bits = 0; bits < 4 * 3 * 4; bits++) {
				struct wire w = {
					.len = lens[l],
					.block = blocks[b],
					.tag = (uint16_t)(0xffff - bits * 771),
					.kind = (uint8_t)(bits / 4 % 3),
					.dst = (uint8_t)(bits / 12 % MBOX_BUFS),
					.last = bits & 1,
					.more = bits >> 1 & 1,
				};

				cr_assert(same(w, wire_unpack(wire_pack(w))),
				          "len %u block %u bits %u", w.len, w.block, bits);
			}
}

/* Whatever a peer writes, what passes leads neither outside a slot nor to a buffer that is not. */
Test(wire, nonsense_is_found)
{
	uint64_t meta = 1;
	int sane = 0;

	for (int i = 0; i < 200000; i++) {
		struct wire w;

		meta = meta * UINT64_C(6364136223846793005) + 1442695040888963407;
		w = wire_unpack(meta ^ meta >> 29);
		if (!wire_sane(w))
			continue;
		sane++;
		cr_assert_lt(w.dst, MBOX_BUFS);
		cr_assert_leq(w.len, w.kind == WIRE_INLINE    ? MBOX_LINE_DATA
		                     : w.kind == WIRE_SCRATCH ? MBOX_SCRATCH
		                                              : 0);
		cr_assert_lt(w.block, WIRE_MAX_BLOCKS);
	}
	cr_assert_gt(sane, 1000);
	cr_assert(!wire_sane((struct wire){ .kind = WIRE_INLINE, .len = MBOX_LINE_DATA + 1 }));
	cr_assert(!wire_sane((struct wire){ .kind = WIRE_SCRATCH, .len = MBOX_SCRATCH + 1 }));
	cr_assert(!wire_sane((struct wire){ .kind = WIRE_PLACED, .len = 1 }));
	cr_assert(!wire_sane((struct wire){ .kind = 3 }));
	cr_assert(!wire_sane((struct wire){ .dst = 3 }));
}

/* A slot's word of the use before is never taken for the next, wherever the numbers wrap. */
Test(wire, stale_words_do_not_match)
{
	static const uint64_t starts[] = { 0, (1u << 19) - 20, (1u << 20) - 20, UINT64_C(1) << 40 };

	for (size_t s = 0; s < ARRAY_SIZE(starts); s++)
		for (uint64_t m = starts[s]; m < starts[s] + 40; m++) {
			uint64_t word = wire_seq(7, m);

			cr_assert(wire_fresh(word, m));
			cr_assert_eq(mbox_seq_call(word), 7);
			for (uint64_t uses = 1; uses < 4; uses++)
				cr_assert(!wire_fresh(word, m + uses * MBOX_SLOTS));
			cr_assert(!wire_fresh(0, m), "an empty slot");
		}
}

Test(wire, hash_depends_on_everything)
{
	uint64_t h = wire_hash(1, 8, 8192);

	cr_assert_eq(h, wire_hash(1, 8, 8192));
	cr_assert_neq(wire_tag(h), wire_tag(wire_hash(2, 8, 8192)));
	cr_assert_neq(wire_tag(h), wire_tag(wire_hash(1, 16, 8192)));
	cr_assert_neq(wire_tag(h), wire_tag(wire_hash(1, 8, 4096)));
}

/* Sizes that programs use must not meet in the tag more often than chance has it. */
Test(wire, tags_spread)
{
	static uint8_t seen[1 << 16];
	int twice = 0;

	for (size_t block = 0; block < 4096; block++) {
		uint16_t tag = wire_tag(wire_hash(UINT64_C(0x123456789abcdef), block, 8192));

		twice += seen[tag];
		seen[tag] = 1;
	}
	cr_assert_lt(twice, 200, "%d of 4096 sizes share a tag; about 125 are expected", twice);
}
