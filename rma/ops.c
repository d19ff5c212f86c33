/*
 * ops.c - operations on a window that its owner executes for the origin: what
 * the staged transport consists of, what UCX uses for small ones, and atomics
 * on memory that is not mapped at the origin.
 *
 * One message AM_OP with a struct op_hdr; the owner checks everything in it
 * against its own window before it touches memory.
 */
#include "base/copy.h"
#include "rma/win.h"

#include <string.h>

#define GETS_AHEAD 16 /* parts of a get that are asked for at once */

enum op_kind { OP_PUT = 0, OP_SIGNAL, OP_GET, OP_ATOMIC, OP_ACCUMULATE };

struct op_hdr {
	uint64_t token; /* of am_call; 0: no answer is wanted */
	uint64_t win;
	uint64_t disp;
	uint64_t len;  /* of data, or wanted by a get */
	uint64_t slot; /* signals */
	uint64_t a, b; /* signal: value; atomics: operands */
	uint8_t kind;  /* enum op_kind */
	uint8_t sub;   /* signal: add; atomic: enum atomic_kind; accumulate: enum oriel_type */
	uint8_t pad[6];
};

_Static_assert(sizeof(struct op_hdr) <= AM_HDR_MAX, "fits a message");

size_t
ops_type_size(int type)
{
	static const size_t size[] = { [ORIEL_INT32] = 4,  [ORIEL_INT64] = 8, [ORIEL_UINT32] = 4,
		                       [ORIEL_UINT64] = 8, [ORIEL_FLOAT] = 4, [ORIEL_DOUBLE] = 8 };

	return type >= 0 && (size_t)type < ARRAY_SIZE(size) ? size[type] : 0;
}

uint64_t
ops_atomic(uint64_t *word, int kind, uint64_t a, uint64_t b)
{
	uint64_t seen = a;

	if (kind == ATOMIC_ADD)
		return add_acq_rel(word, a);
	cas_acq_rel(word, &seen, b);
	return seen;
}

static void
add_float(uint32_t *word, float add)
{
	uint32_t old = load_relaxed(word), new;
	float sum;

	do {
		memcpy(&sum, &old, sizeof(sum));
		sum += add;
		memcpy(&new, &sum, sizeof(new));
	} while (!cas_acq_rel(word, &old, new));
}

static void
add_double(uint64_t *word, double add)
{
	uint64_t old = load_relaxed(word), new;
	double sum;

	do {
		memcpy(&sum, &old, sizeof(sum));
		sum += add;
		memcpy(&new, &sum, sizeof(new));
	} while (!cas_acq_rel(word, &old, new));
}

void
ops_accumulate(void *dst, const void *src, size_t count, int type)
{
	size_t size = ops_type_size(type);

	for (size_t i = 0; i < count; i++) {
		char *d = (char *)dst + i * size;
		uint64_t v8;
		uint32_t v4;
		double f8;
		float f4;

		/* The source may be misaligned: it comes out of a message. */
		memcpy(size == 8 ? (void *)&v8 : (void *)&v4, (const char *)src + i * size, size);
		if (type == ORIEL_DOUBLE) {
			memcpy(&f8, &v8, sizeof(f8));
			add_double((uint64_t *)d, f8);
		} else if (type == ORIEL_FLOAT) {
			memcpy(&f4, &v4, sizeof(f4));
			add_float((uint32_t *)d, f4);
		} else if (size == 8) {
			add_acq_rel((uint64_t *)d, v8);
		} else {
			add_acq_rel((uint32_t *)d, v4);
		}
	}
}

/*
 * ---- Origin ----
 */

int
ops_put(struct peer *to, uint64_t win, size_t disp, const void *src, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = len - at < AM_DATA_MAX ? len - at : AM_DATA_MAX;
		struct op_hdr h = { .win = win, .disp = disp + at, .len = n, .kind = OP_PUT };
		int rc = am_send(to, AM_OP, &h, sizeof(h), (const char *)src + at, n);

		if (rc)
			return rc;
		at += n;
	}
	return 0;
}

int
ops_put_signal(struct peer *to, uint64_t win, size_t disp, const void *src, size_t len, size_t slot,
               int add, uint64_t value)
{
	size_t last = len <= AM_DATA_MAX ? len : AM_DATA_MAX; /* travels with the signal */
	struct op_hdr h = { .win = win,
		            .disp = disp + (len - last),
		            .len = last,
		            .slot = slot,
		            .a = value,
		            .kind = OP_SIGNAL,
		            .sub = (uint8_t)add };
	int rc = ops_put(to, win, disp, src, len - last);

	return rc ? rc : am_send(to, AM_OP, &h, sizeof(h), (const char *)src + (len - last), last);
}

static int
get_part(struct am_call *c, struct peer *to, uint64_t win, size_t disp, char *dst, size_t len)
{
	struct op_hdr h = { .win = win, .disp = disp, .len = len, .kind = OP_GET };

	*c = (struct am_call){ .out = dst, .cap = len, .to = to };
	return am_call_start(c, AM_OP, &h, sizeof(h), NULL, 0);
}

static int
got_part(struct am_call *c)
{
	int rc = am_call_end(c, ctx_call_deadline(c->to->ctx));

	if (!rc && c->len != c->cap)
		rc = fail(ORIEL_EPEER, "rank %d answered a get of %zu bytes with %zu", c->to->rank,
		          c->cap, c->len);
	return rc;
}

int
ops_get(struct peer *to, uint64_t win, size_t disp, void *dst, size_t len)
{
	struct am_call call[GETS_AHEAD];
	size_t asked = 0, n_asked = 0, n_got = 0;
	int rc = 0, first = 0;

	/* After an error what is under way is still waited for: its answers go into dst. */
	while ((asked < len && !first) || n_got < n_asked) {
		if (asked < len && !first && n_asked - n_got < GETS_AHEAD) {
			size_t n = len - asked < AM_DATA_MAX ? len - asked : AM_DATA_MAX;

			rc = get_part(&call[n_asked % GETS_AHEAD], to, win, disp + asked,
			              (char *)dst + asked, n);
			asked += n;
			n_asked += !rc;
		} else {
			rc = got_part(&call[n_got++ % GETS_AHEAD]);
		}
		if (rc && !first)
			first = rc;
	}
	return first;
}

int
ops_atomic_call(struct peer *to, uint64_t win, int kind, size_t disp, uint64_t a, uint64_t b,
                uint64_t *old)
{
	struct op_hdr h = { .win = win,
		            .disp = disp,
		            .len = 8,
		            .a = a,
		            .b = b,
		            .kind = OP_ATOMIC,
		            .sub = (uint8_t)kind };
	uint64_t seen;
	size_t got = sizeof(seen);
	int rc =
	        am_call(to, AM_OP, &h, sizeof(h), NULL, 0, &seen, &got, ctx_call_deadline(to->ctx));

	if (rc)
		return rc;
	if (got != sizeof(seen))
		return fail(ORIEL_EPEER, "rank %d answered an atomic with %zu bytes", to->rank,
		            got);
	if (old)
		*old = seen;
	return 0;
}

int
ops_accumulate_call(struct peer *to, uint64_t win, size_t disp, const void *src, size_t count,
                    int type)
{
	size_t len = count * ops_type_size(type);
	struct op_hdr h = {
		.win = win, .disp = disp, .len = len, .kind = OP_ACCUMULATE, .sub = (uint8_t)type
	};

	return am_call(to, AM_OP, &h, sizeof(h), src, len, NULL, NULL, ctx_call_deadline(to->ctx));
}

/*
 * ---- Owner ----
 */

static int
op_signal(oriel_win *w, const struct op_hdr *h)
{
	if (h->slot >= w->n_signals)
		return ORIEL_ERANGE;
	ctx_delay(w->ctx);
	signal_raise(&w->signals[h->slot], h->sub, h->a, &w->ctx->ctl->wake);
	return 0;
}

static int
op_atomic(oriel_win *w, const struct op_hdr *h, uint64_t *old)
{
	char *at = w->base + h->disp;

	if ((uintptr_t)at % 8 || h->sub > ATOMIC_CAS)
		return ORIEL_EINVAL;
	*old = ops_atomic((uint64_t *)at, h->sub, h->a, h->b);
	return 0;
}

static int
op_accumulate(oriel_win *w, const struct op_hdr *h, const struct am_msg *m)
{
	size_t size = ops_type_size(h->sub);
	char *at = w->base + h->disp;

	if (!size || h->len % size || (uintptr_t)at % size)
		return ORIEL_EINVAL;
	ops_accumulate(at, m->data, h->len / size, h->sub);
	return 0;
}

/* Executes; *out and *out_len: what an answer carries. */
static int
op_run(oriel_win *w, const struct op_hdr *h, const struct am_msg *m, uint64_t *word,
       const void **out, size_t *out_len)
{
	bool carries = h->kind == OP_PUT || h->kind == OP_SIGNAL || h->kind == OP_ACCUMULATE;

	if (!range_inside(h->disp, h->len, w->size) || (carries && h->len != m->len) ||
	    h->len > AM_DATA_MAX)
		return ORIEL_ERANGE;
	if (w->rec.on_gpu && h->len)
		return ORIEL_ENOTSUP;
	switch (h->kind) {
	case OP_PUT:
	case OP_SIGNAL:
		if (h->len)
			copy_bytes(w->base + h->disp, m->data, h->len);
		return h->kind == OP_SIGNAL ? op_signal(w, h) : 0;
	case OP_GET:
		*out = w->base + h->disp;
		*out_len = h->len;
		return 0;
	case OP_ATOMIC:
		*out = word;
		*out_len = sizeof(*word);
		return h->len == sizeof(*word) ? op_atomic(w, h, word) : ORIEL_EINVAL;
	case OP_ACCUMULATE:
		return op_accumulate(w, h, m);
	default:
		return ORIEL_EINVAL;
	}
}

void
ops_on_op(oriel_ctx *ctx, const struct am_msg *m)
{
	const void *out = NULL;
	size_t out_len = 0;
	struct op_hdr h;
	uint64_t word;
	oriel_win *w;
	int rc;

	if (m->hdr_len != sizeof(h)) {
		peer_fail(m->from, false, "it sent a window operation with a header of %zu bytes",
		          m->hdr_len);
		return;
	}
	memcpy(&h, m->hdr, sizeof(h));
	w = win_find(ctx, h.win);
	rc = w ? op_run(w, &h, m, &word, &out, &out_len) : ORIEL_EHANDLE;
	if (h.token)
		am_answer(ctx, m, h.token, rc, rc ? NULL : out, rc ? 0 : out_len);
	else if (rc)
		log_at(LOG_ERROR, "rank %d: an operation of rank %d on a window is refused: %s",
		       ctx->boot.rank, m->from->rank, oriel_strerror(rc));
}
