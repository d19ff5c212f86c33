#include "rma/ucx_wire.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN UINT64_C(0x1122334455667788)
#define JOB UINT64_C(0xabcdef)

static size_t
build(char *buf, unsigned id, uint64_t seq, size_t hdr_len, size_t len)
{
	char hdr[AM_HDR_MAX], *data;

	for (size_t i = 0; i < hdr_len; i++)
		hdr[i] = (char)(i + 1);
	data = wire_start(buf, TOKEN, 5, id, hdr, hdr_len);
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 3);
	wire_set_seq(buf, seq);
	return wire_size(hdr_len, len);
}

Test(ucx_wire, round_trip)
{
	static const size_t lens[] = { 0, 1, 7, 8, 9, 4096, AM_DATA_MAX };
	static char buf[WIRE_MAX];

	for (size_t hdr_len = 0; hdr_len <= AM_HDR_MAX; hdr_len++)
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
			size_t size = build(buf, AM_OP, 9, hdr_len, lens[i]);
			struct wire w;
			const char *why = wire_parse(buf, size, &w);

			cr_assert_null(why, "header %zu, data %zu: %s", hdr_len, lens[i], why);
			cr_assert(w.token == TOKEN && w.seq == 9 && w.rank == 5 && w.id == AM_OP);
			cr_assert(w.hdr_len == hdr_len && w.len == lens[i]);
			for (size_t j = 0; j < hdr_len; j++)
				cr_assert(w.hdr[j] == (char)(j + 1));
			for (size_t j = 0; j < w.len; j++)
				cr_assert(w.data[j] == (char)(j * 3));
			cr_assert((size_t)(w.data - buf) % 8 == 0,
			          "data is aligned as the message is");
		}
}

/* Every length is parsed in a block of just that size, so that the address sanitizer sees a step
 * too far. */
static const char *
parse_exact(const char *buf, size_t size, struct wire *w)
{
	char *copy = malloc(size ? size : 1);
	const char *why;
	unsigned sum = 0;

	memcpy(copy, buf, size);
	why = wire_parse(copy, size, w);
	if (!why) {
		cr_assert(w->hdr >= copy && w->hdr + w->hdr_len <= copy + size);
		cr_assert(w->data >= copy && w->data + w->len == copy + size);
		for (size_t i = 0; i < w->hdr_len; i++)
			sum += (unsigned char)w->hdr[i];
		for (size_t i = 0; i < w->len; i++)
			sum += (unsigned char)w->data[i];
		cr_assert(sum < UINT32_MAX);
	}
	free(copy);
	return why;
}

Test(ucx_wire, every_truncation)
{
	static char buf[WIRE_MAX];
	size_t size = build(buf, AM_OP, 1, 57, 100), skip = WIRE_FIXED + 64;
	struct wire w;

	for (size_t n = 0; n <= size; n++) {
		const char *why = parse_exact(buf, n, &w);

		if (n < skip)
			cr_assert_not_null(why, "%zu bytes of %zu were taken", n, size);
		else
			cr_assert(!why && w.len == n - skip);
	}
}

Test(ucx_wire, refuses)
{
	static char buf[WIRE_MAX + 64];
	struct wire w;
	size_t size = build(buf, AM_OP, 1, 8, 8);

	cr_assert_null(wire_parse(buf, size, &w));
	buf[22] ^= 1;
	cr_assert_not_null(wire_parse(buf, size, &w), "magic");
	buf[22] ^= 1;
	buf[21] = (char)(AM_HDR_MAX + 1);
	cr_assert_not_null(wire_parse(buf, WIRE_MAX, &w), "header too long");
	build(buf, AM_N, 1, 8, 8);
	cr_assert_not_null(wire_parse(buf, size, &w), "id");
	build(buf, 255, 1, 8, 8);
	cr_assert_not_null(wire_parse(buf, size, &w), "id");
	build(buf, WIRE_HELLO, 1, 8, 8);
	cr_assert_not_null(wire_parse(buf, size, &w), "a hello that is not message 0");
	build(buf, AM_OP, 0, 8, 8);
	cr_assert_not_null(wire_parse(buf, size, &w), "message 0 that is no hello");
	build(buf, AM_OP, 1, 0, 0);
	cr_assert_not_null(wire_parse(buf, WIRE_FIXED + AM_DATA_MAX + 1, &w), "data too long");
	cr_assert_not_null(wire_parse(buf, WIRE_MAX + 1, &w), "too long");
}

Test(ucx_wire, survives_noise)
{
	static char buf[WIRE_MAX];
	uint64_t state = 42;
	unsigned taken = 0;
	struct wire w;

	for (unsigned round = 0; round < 200000; round++) {
		size_t size = build(buf, AM_OP, 3, round % (AM_HDR_MAX + 1), round % 40);

		for (unsigned i = 0; i < 1 + round % 4; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
			buf[(state >> 33) % size] = (char)(state >> 20);
		}
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		taken += !parse_exact(buf, state >> 62 ? size : (state >> 33) % (size + 1), &w);
	}
	cr_assert(taken > 1000, "nothing got through: the noise is too strong to test anything");
}

Test(ucx_wire, hello)
{
	static char buf[WIRE_MAX];
	struct boot_rec rec = { .token = TOKEN, .pid = 77, .ucx_len = 200 }, out;
	uint64_t job = JOB;
	size_t len = wire_rec_size(&rec), size = wire_size(sizeof(job), len);
	struct wire w;
	char *data;

	memset(rec.ucx, 0x5a, rec.ucx_len);
	data = wire_start(buf, TOKEN, 5, WIRE_HELLO, &job, sizeof(job));
	memcpy(data, &rec, len);
	wire_set_seq(buf, 0);
	cr_assert_null(wire_parse(buf, size, &w));
	cr_assert_null(wire_parse_hello(&w, JOB, &out));
	cr_assert(out.pid == 77 && out.ucx_len == 200 && !memcmp(out.ucx, rec.ucx, 200));
	cr_assert_not_null(wire_parse_hello(&w, JOB + 1, &out), "another job");
	for (size_t n = 0; n < size; n++)
		cr_assert(wire_parse(buf, n, &w) || wire_parse_hello(&w, JOB, &out),
		          "a hello of %zu bytes of %zu was taken", n, size);
	cr_assert_null(wire_parse(buf, size, &w));
	rec.ucx_len = BOOT_REC_UCX + 1;
	memcpy(data, &rec, len);
	cr_assert_not_null(wire_parse_hello(&w, JOB, &out), "address too long");
	rec.ucx_len = 200;
	rec.token++;
	memcpy(data, &rec, len);
	cr_assert_not_null(wire_parse_hello(&w, JOB, &out), "another incarnation");
}
