#include "rma/ucx_wire.h"

#include <string.h>

_Static_assert(AM_HDR_MAX <= UINT8_MAX, "the header's length is one byte");
_Static_assert((int)AM_N <= (int)WIRE_HELLO, "the carrier's ids are above the handlers'");

struct wire_fixed {
	uint64_t token;
	uint64_t seq;
	uint32_t rank;
	uint8_t id;
	uint8_t hdr_len;
	uint16_t magic;
};
_Static_assert(sizeof(struct wire_fixed) == WIRE_FIXED, "layout");

char *
wire_start(char *buf, uint64_t token, uint32_t rank, unsigned id, const void *hdr, size_t hdr_len)
{
	struct wire_fixed f = { .token = token,
		                .rank = rank,
		                .id = (uint8_t)id,
		                .hdr_len = (uint8_t)hdr_len,
		                .magic = WIRE_MAGIC };
	char *p = buf + WIRE_FIXED;

	memcpy(buf, &f, sizeof(f));
	if (hdr_len)
		memcpy(p, hdr, hdr_len);
	memset(p + hdr_len, 0, round_up(hdr_len, 8) - hdr_len);
	return p + round_up(hdr_len, 8);
}

void
wire_set_seq(char *buf, uint64_t seq)
{
	memcpy(buf + offsetof(struct wire_fixed, seq), &seq, sizeof(seq));
}

const char *
wire_parse(const void *buf, size_t size, struct wire *w)
{
	struct wire_fixed f;
	size_t skip;

	if (size < sizeof(f))
		return "shorter than its fixed part";
	if (size > WIRE_MAX)
		return "longer than any message";
	memcpy(&f, buf, sizeof(f));
	if (f.magic != WIRE_MAGIC)
		return "wrong magic";
	if (f.hdr_len > AM_HDR_MAX)
		return "header too long";
	skip = WIRE_FIXED + round_up(f.hdr_len, 8);
	if (size < skip)
		return "shorter than its header";
	if (size - skip > AM_DATA_MAX)
		return "data too long";
	if (f.id >= AM_N && f.id != WIRE_HELLO && f.id != WIRE_BYE)
		return "unknown id";
	if ((f.id == WIRE_HELLO) != (f.seq == 0))
		return "a hello is message 0, and nothing else is";
	if (f.rank > INT32_MAX)
		return "rank out of range";
	w->token = f.token;
	w->seq = f.seq;
	w->rank = f.rank;
	w->id = f.id;
	w->hdr = (const char *)buf + WIRE_FIXED;
	w->hdr_len = f.hdr_len;
	w->data = (const char *)buf + skip;
	w->len = size - skip;
	return NULL;
}

size_t
wire_rec_size(const struct boot_rec *rec)
{
	return offsetof(struct boot_rec, ucx) + rec->ucx_len;
}

const char *
wire_parse_hello(const struct wire *w, uint64_t job, struct boot_rec *rec)
{
	uint64_t its_job;

	if (w->id != WIRE_HELLO || w->hdr_len != sizeof(its_job))
		return "not a hello";
	memcpy(&its_job, w->hdr, sizeof(its_job));
	if (its_job != job)
		return "hello of another job";
	if (w->len < offsetof(struct boot_rec, ucx) || w->len > sizeof(*rec))
		return "hello with a record of a wrong length";
	memset(rec, 0, sizeof(*rec));
	memcpy(rec, w->data, w->len);
	if (rec->ucx_len == 0 || rec->ucx_len > BOOT_REC_UCX || wire_rec_size(rec) != w->len)
		return "hello with a wrong length of its address";
	if (rec->token != w->token)
		return "hello with another incarnation's record";
	return NULL;
}
