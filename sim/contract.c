#include "sim/contract.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A rank's own value: nothing else looks like it. */
static int64_t
term(int rank)
{
	return (int64_t)(hash_bytes(0, &rank, sizeof(rank)) >> 1);
}

static void
start_nothing(struct contract_rank *r)
{
	(void)r;
}

static bool
all_entered(const struct contract_rank *r, char *text, size_t cap)
{
	for (int i = 0; i < r->size; i++)
		if (!r->entered[i]) {
			snprintf(text, cap, "rank %d has not entered", i);
			return false;
		}
	return true;
}

static void
start_gather(struct contract_rank *r)
{
	r->buf[OUT][r->rank] = term(r->rank);
}

static bool
gathered(const struct contract_rank *r, char *text, size_t cap)
{
	for (int i = 0; i < r->size; i++)
		if (r->buf[OUT][i] != term(i)) {
			snprintf(text, cap, "OUT[%d] is %016" PRIx64 ", expected %016" PRIx64, i,
			         r->buf[OUT][i], term(i));
			return false;
		}
	return true;
}

static void
least(void *dst, const void *src, size_t len)
{
	int64_t *d = dst;
	const int64_t *s = src;

	for (size_t i = 0; i < len / sizeof(*d); i++)
		if (s[i] < d[i])
			d[i] = s[i];
}

static void
start_agree(struct contract_rank *r)
{
	r->buf[OUT][0] = term(r->rank);
}

static bool
agreed(const struct contract_rank *r, char *text, size_t cap)
{
	int64_t all = term(0);

	for (int i = 1; i < r->size; i++)
		if (term(i) < all)
			all = term(i);
	if (r->buf[OUT][0] == all)
		return true;
	snprintf(text, cap, "OUT[0] is %016" PRIx64 ", expected %016" PRIx64, r->buf[OUT][0], all);
	return false;
}

const struct contract contracts[COLL_OPS] = {
	[COLL_BARRIER] = { start_nothing, all_entered, NULL },
	[COLL_ALLGATHER] = { start_gather, gathered, NULL },
	[COLL_AGREE] = { start_agree, agreed, least },
};
