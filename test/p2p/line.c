#include "p2p/line.h"

#include <criterion/criterion.h>

Test(line, packs_what_it_unpacks)
{
	static const uint32_t numbers[] = { 0, 1, 12345, LINE_NUMBER_MASK };

	for (unsigned what = 0; what < LINE_N; what++)
		for (unsigned i = 0; i < 4; i++)
			for (unsigned kind = 0; kind < 3; kind++) {
				struct line in = { kind == WIRE_SCRATCH ? MBOX_SCRATCH : 0,
					           numbers[i], (uint8_t)kind, (uint8_t)what };
				struct line out = line_unpack(line_pack(in));

				cr_assert_eq(out.len, in.len);
				cr_assert_eq(out.number, in.number);
				cr_assert_eq(out.kind, in.kind);
				cr_assert_eq(out.what, in.what);
			}
}

/* The handler of messages checks lines of all channels by plan/wire.h. */
Test(line, is_sane_on_the_wire_too)
{
	struct line l = { 48, LINE_NUMBER_MASK, WIRE_INLINE, LINE_EAGER };

	cr_assert(line_sane(line_pack(l)));
	cr_assert(wire_sane(wire_unpack(line_pack(l))));
	cr_assert_eq(wire_unpack(line_pack(l)).len, 48);
	l = (struct line){ 0, LINE_NUMBER_MASK, WIRE_PLACED, LINE_PULLED };
	cr_assert(line_sane(line_pack(l)));
	cr_assert(wire_sane(wire_unpack(line_pack(l))));
	l = (struct line){ sizeof(struct line_ask), 7, WIRE_INLINE, LINE_ASK };
	cr_assert(line_sane(line_pack(l)));
	l = (struct line){ MBOX_SCRATCH, 7, WIRE_SCRATCH, LINE_PIECE };
	cr_assert(line_sane(line_pack(l)));
	cr_assert_eq(wire_unpack(line_pack(l)).len, MBOX_SCRATCH);
}

Test(line, refuses_what_cannot_be)
{
	static const struct line bad[] = {
		{ 49, 0, WIRE_INLINE, LINE_EAGER },
		{ MBOX_SCRATCH + 1, 0, WIRE_SCRATCH, LINE_EAGER },
		{ 0, 0, WIRE_PLACED, LINE_EAGER },
		{ 1, 0, WIRE_PLACED, LINE_PLACED },
		{ 0, 0, WIRE_INLINE, LINE_PLACED },
		{ 16, 0, WIRE_INLINE, LINE_ASK },
		{ sizeof(struct line_ask) - 1, 0, WIRE_INLINE, LINE_ASK },
		{ sizeof(struct line_ask) + 1, 0, WIRE_INLINE, LINE_ASK },
		{ 0, 0, WIRE_PLACED, LINE_ASK },
		{ 39, 0, WIRE_INLINE, LINE_CLEAR },
		{ sizeof(struct line_clear) + UCX_KEY_MAX + 1, 0, WIRE_SCRATCH, LINE_CLEAR },
		{ 0, 0, WIRE_INLINE, LINE_PIECE },
		{ 0, 0, WIRE_INLINE, LINE_PULLED },
		{ 8, 0, WIRE_INLINE, LINE_PULLED },
		{ 8, 0, WIRE_PLACED, LINE_PULLED },
		{ 0, 0, WIRE_INLINE, LINE_N },
		{ 0, 0, WIRE_PLACED, LINE_N },
		{ 0, 0, 3, LINE_EAGER },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_assert_not(line_sane(line_pack(bad[i])), "line %zu", i);
	cr_assert_not(line_sane(UINT64_C(1) << 53));
	cr_assert_not(line_sane(UINT64_C(3) << 18), "a buffer that does not exist");
}

Test(line, refuses_an_offer_that_wraps)
{
	struct line_ask ask = { .len = 16, .where = UINT64_MAX - 16 };

	cr_assert(line_ask_sane(&ask));
	ask.where++;
	cr_assert_not(line_ask_sane(&ask));
	ask.key = MBOX_NO_KEY; /* nothing is offered */
	cr_assert(line_ask_sane(&ask));
}
