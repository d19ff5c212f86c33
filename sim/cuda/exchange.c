/*
 * exchange.c - the twin of ll_exchange (kernels/exchange.cu): the same lines, flags
 * and counter in the same memory, so that ranks may be streams, devices or processes.
 * It sends in pieces, with other ops in between, then looks for what has come; when
 * all has, it writes the results. It never waits: it is called again.
 */
#include "sim/cuda/twins.h"

#include <string.h>

_Static_assert(sizeof(struct kernel_exchange) <= ARGUMENT_WORDS * sizeof(uint64_t), "it fits");

struct progress {      /* in op->state */
	uint32_t call; /* 0: not begun */
	uint32_t unused;
	uint64_t sent, come; /* lines, of all ranks together */
};

struct exchange { /* what of the arguments the host can touch */
	const struct kernel_exchange *a;
	struct exchange_state *s;
	const char *in;
	char *out;
	uint64_t *scratch[EXCHANGE_RANKS];
	uint64_t lines; /* from each rank to each */
	uint32_t call;
};

static bool
is_there(const struct op *op, uint64_t at, uint64_t bytes, void *to)
{
	void *p = bytes ? standin_host_of(op->dev, at, bytes, true) : NULL;

	memcpy(to, &p, sizeof(p));
	return p || !bytes;
}

/* From the first block's start to the last one's end; strides are not negative here. */
static uint64_t
extent(const struct kernel_exchange *a, bool blocks, int64_t stride)
{
	return a->bytes && blocks ? (uint64_t)(a->ranks - 1) * (uint64_t)stride + a->bytes
	                          : a->bytes;
}

/* False: an illegal address, or arguments that the kernel could not take. */
static bool
resolve(const struct op *op, struct exchange *x)
{
	const struct kernel_exchange *a = x->a;
	bool good = a->ranks >= 1 && a->ranks <= EXCHANGE_RANKS && a->rank >= 0 &&
	            a->rank < a->ranks && exchange_slot(a->bytes) <= a->slot && a->slot % 16 == 0;

	for (int q = 0; q < a->ranks && good; q++)
		good = a->scratch[q] % 16 == 0 &&
		       is_there(op, a->scratch[q], 2 * (uint64_t)a->ranks * a->slot,
		                &x->scratch[q]);
	x->lines = exchange_slot(a->bytes) / EXCHANGE_LINE;
	return good && is_there(op, a->state, sizeof(*x->s), &x->s) &&
	       is_there(op, a->in, extent(a, a->mode == EXCHANGE_ALLTOALL, a->in_stride), &x->in) &&
	       is_there(op, a->out, extent(a, a->mode != EXCHANGE_REDUCE, a->out_stride), &x->out);
}

/* The two words of a line. */
static uint64_t *
line_of(const struct exchange *x, int to, int from, uint32_t call, uint64_t u)
{
	uint64_t slot = (call & 1) * (uint64_t)x->a->ranks + (uint64_t)from;

	return x->scratch[to] + slot * x->a->slot / 8 + u * EXCHANGE_LINE / 8;
}

static size_t
data_len(const struct exchange *x, uint64_t u)
{
	uint64_t left = x->a->bytes - u * EXCHANGE_DATA;

	return left < EXCHANGE_DATA ? (size_t)left : EXCHANGE_DATA;
}

static const char *
block_for(const struct exchange *x, int q)
{
	return x->a->mode == EXCHANGE_ALLTOALL ? x->in + q * x->a->in_stride : x->in;
}

static void
wipe(const struct exchange *x)
{
	if ((x->call & EXCHANGE_SCRUB_MASK) >> 1 == 1)
		memset(line_of(x, x->a->rank, 0, x->call + 1, 0), 0,
		       (size_t)x->a->ranks * x->a->slot);
}

static void
send_line(const struct exchange *x, int q, uint64_t u)
{
	uint64_t *line = line_of(x, q, x->a->rank, x->call, u), v = 0;
	uint64_t flag = (uint64_t)x->call << 32;

	if (x->a->bytes)
		memcpy(&v, block_for(x, q) + u * EXCHANGE_DATA, data_len(x, u));
	__atomic_store_n(&line[0], (v & UINT32_MAX) | flag, __ATOMIC_RELEASE);
	__atomic_store_n(&line[1], v >> 32 | flag, __ATOMIC_RELEASE);
}

/* True: all is sent. */
static bool
send(const struct exchange *x, struct progress *p)
{
	uint64_t all = x->lines * (uint64_t)x->a->ranks, end = all;

	if (standin_random() % 4 == 0)
		end = p->sent + standin_random() % (all - p->sent + 1);
	for (; p->sent < end; p->sent++)
		send_line(x, (int)(p->sent % (uint64_t)x->a->ranks),
		          p->sent / (uint64_t)x->a->ranks);
	return p->sent == all;
}

static bool
has_come(const struct exchange *x, struct progress *p)
{
	for (; p->come < x->lines * (uint64_t)x->a->ranks; p->come++) {
		uint64_t *line = line_of(x, x->a->rank, (int)(p->come / x->lines), x->call,
		                         p->come % x->lines);

		for (int i = 0; i < 2; i++)
			if (__atomic_load_n(&line[i], __ATOMIC_ACQUIRE) >> 32 != x->call)
				return false;
	}
	return true;
}

static uint64_t
data_from(const struct exchange *x, int q, uint64_t u)
{
	const uint64_t *line = line_of(x, x->a->rank, q, x->call, u);

	return (line[0] & UINT32_MAX) | line[1] << 32;
}

static void
write_line(const struct exchange *x, uint64_t u)
{
	uint64_t v[EXCHANGE_RANKS], folded;
	const void *term[EXCHANGE_RANKS];
	size_t len = data_len(x, u);

	for (int q = 0; q < x->a->ranks; q++) {
		v[q] = data_from(x, q, u);
		term[q] = &v[q];
		if (x->a->mode != EXCHANGE_REDUCE)
			memcpy(x->out + q * x->a->out_stride + u * EXCHANGE_DATA, &v[q], len);
	}
	if (x->a->mode != EXCHANGE_REDUCE)
		return;
	twin_fold(x->a->type, x->a->op, &folded, term, x->a->ranks, len / twin_size(x->a->type),
	          x->a->ranks);
	memcpy(x->out + u * EXCHANGE_DATA, &folded, len);
}

/* Whether the call has been stopped, or one before it. */
static bool
stopped(const struct op *op, const struct exchange *x)
{
	uint32_t *abort, *status, why;

	if (x->s->stopped || !x->a->abort)
		return x->s->stopped;
	if (!is_there(op, x->a->abort, 4, &abort) || !is_there(op, x->a->status, 4, &status))
		return false;
	why = __atomic_load_n(abort, __ATOMIC_ACQUIRE);
	if (why) {
		x->s->stopped = why;
		__atomic_store_n(status, why, __ATOMIC_RELEASE);
	}
	return why != 0;
}

static bool
run(struct op *op, CUresult *error)
{
	struct exchange x = { .a = (const void *)op->argument };
	struct progress *p = (void *)op->state;

	if (!resolve(op, &x))
		return twin_illegal(error);
	if (x.s->stopped)
		return true;
	x.call = x.s->call + 1 ? x.s->call + 1 : 2;
	if (p->call != x.call)
		wipe(&x);
	p->call = x.call;
	if (!send(&x, p))
		return false;
	if (!has_come(&x, p))
		return stopped(op, &x);
	for (uint64_t u = 0; u < x.lines && x.a->bytes; u++)
		write_line(&x, u);
	x.s->call = x.call;
	return true;
}

const struct kernel twin_exchange = { "ll_exchange", 1, { sizeof(struct kernel_exchange) }, run };
