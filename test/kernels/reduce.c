/*
 * reduce.c - folds on a device give the bits of the CPU's; copies and signals.
 */
#include "coll/reduce_impl.h"
#include "rma/ctx.h"
#include "test/kernels/device.h"

#include <sched.h>

#define MOST ((size_t)192 << 10) /* bytes of a buffer */
#define GUARD 64

static oriel_ctx cpu;

/* Pinned copies of the device's buffers, so that nothing has to be waited for but the stream. */
static struct {
	CUdeviceptr dst, src;
	unsigned char *in, *out, *expected;
	CUstream s;
} b;

static void
begin_fold(void)
{
	begin();
	cpu.reduce = &reduce_base;
	b.src = memory(MOST);
	b.dst = memory(MOST);
	b.in = pinned(MOST);
	b.out = pinned(MOST);
	b.expected = malloc(MOST);
	b.s = stream();
	fill(b.in, MOST);
	GOOD(cuMemcpyHtoDAsync(b.src, b.in, MOST, b.s));
	GOOD(cuStreamSynchronize(b.s));
}

/* Whatever lies around the result stays as it is. */
static void
compare(size_t off, size_t len, const char *what, const struct kernel_fold *a)
{
	size_t first = 0;

	while (first < len + 2 * GUARD && b.out[off + first] == b.expected[off + first])
		first++;
	cr_assert_eq(
	        first, len + 2 * GUARD,
	        "%s op %d: byte %zd of %zu is %02x, not %02x; dst %% 16 = %zu, src %% 16 = %zu, "
	        "stride %ld, %lu elements, %d terms, divisor %d",
	        what, a->op, (ssize_t)(first - GUARD), len, b.out[off + first],
	        b.expected[off + first], (size_t)(a->dst % 16), (size_t)(a->src % 16),
	        (long)a->stride, (unsigned long)a->count, a->terms, a->divisor);
}

static void
set_dst(size_t off, size_t len)
{
	memset(b.expected + off, 0xc3, len + 2 * GUARD);
	memcpy(b.out + off, b.expected + off, len + 2 * GUARD);
	GOOD(cuMemcpyHtoDAsync(b.dst + off, b.out + off, len + 2 * GUARD, b.s));
}

static void
get_dst(size_t off, size_t len)
{
	GOOD(cuMemcpyDtoHAsync(b.out + off, b.dst + off, len + 2 * GUARD, b.s));
	GOOD(cuStreamSynchronize(b.s));
}

/* Sizes and addresses of all kinds: alike modulo 16, of whole elements, any. */
static struct kernel_fold
draw(int op, size_t size, size_t *dst_off)
{
	struct kernel_fold a = { .op = op, .terms = (int)(1 + below(below(2) ? 2 : 6)) };
	size_t most = MOST / 8 / size, src_off, kind = below(4), len;

	a.count = below(4) ? below(200) : below(most);
	len = a.count * size;
	a.stride = (int64_t)(len + below(100));
	src_off = below(64);
	*dst_off = below(64);
	if (kind < 2) {
		a.stride = (a.stride + 15) / 16 * 16;
		src_off -= kind ? src_off % 16 : src_off % size;
		*dst_off = *dst_off / 16 * 16 + src_off % 16;
	} else if (kind == 2) {
		a.stride -= a.stride % (int64_t)size;
		src_off -= src_off % size;
		*dst_off -= *dst_off % size;
	}
	if (a.terms > 1 && !below(4)) { /* backwards */
		src_off += (size_t)(a.terms - 1) * (size_t)a.stride;
		a.stride = -a.stride;
	}
	a.src = b.src + src_off;
	a.dst = b.dst + GUARD + *dst_off;
	a.divisor = op == ORIEL_TYPES || op != KERNEL_AVG ? 0 : (int)below(9);
	return a;
}

static void
on_cpu(const struct reducer *r, const struct kernel_fold *a, unsigned char *to)
{
	const unsigned char *src = b.in + (a->src - b.src);
	size_t len = a->count * r->elem;
	unsigned char *terms = malloc(6 * MOST / 8);

	for (int t = 0; t < a->terms; t++)
		memcpy(terms + (size_t)t * len, src + t * a->stride, len);
	r->fold(r, to, terms, len, a->terms, a->count);
	if (a->divisor)
		r->finish(r, to, a->count, a->divisor);
	free(terms);
}

static void
check_fold(int type, int op, CUfunction f)
{
	struct kernel_fold a;
	struct reducer r;
	size_t off;

	cr_assert_eq(reduce_lookup(&cpu, type, (const oriel_op *)(uintptr_t)op, /* lint: allow */
	                           "test", &r),
	             0);
	a = draw(op, r.elem, &off);
	set_dst(off, a.count * r.elem);
	if (!below(8) && a.terms > 1) { /* in place */
		a.dst = a.src + (uint64_t)((int64_t)below((size_t)a.terms) * a.stride);
		launch(f, 1 + (unsigned)below(7), 32 * (1 + (unsigned)below(16)), b.s, &a);
		GOOD(cuMemcpyDtoDAsync(b.dst + GUARD + off, a.dst, a.count * r.elem, b.s));
		GOOD(cuMemcpyHtoDAsync(b.src, b.in, MOST, b.s));
	} else {
		launch(f, 1 + (unsigned)below(7), 32 * (1 + (unsigned)below(16)), b.s, &a);
	}
	on_cpu(&r, &a, b.expected + GUARD + off);
	get_dst(off, a.count * r.elem);
	compare(off, a.count * r.elem, kernels_fold_name(type), &a);
}

Test(kernels_reduce, folds_have_the_cpus_bits)
{
	begin_fold();
	for (int type = 0; type < ORIEL_TYPES; type++) {
		CUfunction f = function(kernels_fold_name(type));

		for (int op = KERNEL_SUM; op <= KERNEL_XOR; op++)
			for (int i = 0; i < 40 && reduce_base.of[type].pair[op]; i++)
				check_fold(type, op, f);
	}
}

/* Every pair of bytes, as fp8 and in the upper halves of longer floats. */
Test(kernels_reduce, all_pairs_of_bytes)
{
	static const int types[] = { ORIEL_FLOAT8_E4M3, ORIEL_FLOAT8_E5M2, ORIEL_INT8,
		                     ORIEL_UINT8 };

	begin_fold();
	for (int i = 0; i < 65536; i++) {
		b.in[i] = (unsigned char)(i >> 8);
		b.in[65536 + i] = (unsigned char)i;
	}
	GOOD(cuMemcpyHtoDAsync(b.src, b.in, MOST, b.s));
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		for (int op = KERNEL_SUM; op <= KERNEL_AVG; op++) {
			struct kernel_fold a = {
				.op = op, .terms = 2, .count = 65536, .stride = 65536
			};
			struct reducer r;

			a.src = b.src;
			a.dst = b.dst + GUARD;
			a.divisor = op == KERNEL_AVG ? 3 : 0;
			cr_assert_eq(
			        reduce_lookup(&cpu, types[i],
			                      (const oriel_op *)(uintptr_t)op, /* lint: allow */
			                      "test", &r),
			        0);
			set_dst(0, 65536);
			launch(function(kernels_fold_name(types[i])), 4, 256, b.s, &a);
			r.fold(&r, b.expected + GUARD, b.in, 65536, 2, 65536);
			if (a.divisor)
				r.finish(&r, b.expected + GUARD, 65536, 3);
			get_dst(0, 65536);
			compare(0, 65536, kernels_fold_name(types[i]), &a);
		}
}

Test(kernels_reduce, copies_at_any_address)
{
	CUfunction f;

	begin_fold();
	f = function("copy");
	for (int i = 0; i < 600; i++) {
		struct kernel_fold none = { 0 };
		size_t len = below(4) ? below(300) : below(MOST / 2), from = below(64),
		       off = below(64);
		struct kernel_copy a = { b.dst + GUARD + off, b.src + from, len };

		if (!below(3))
			a.src = b.src + (from = off);
		set_dst(off, len);
		launch(f, 1 + (unsigned)below(7), 32 * (1 + (unsigned)below(16)), b.s, &a);
		memcpy(b.expected + GUARD + off, b.in + from, len);
		get_dst(off, len);
		none.src = a.src;
		none.dst = a.dst;
		compare(off, len, "copy", &none);
	}
}

Test(kernels_reduce, signals_add_after_what_the_stream_wrote)
{
	enum { STREAMS = 2, EACH = 200 };
	volatile uint32_t *data;
	CUstream s[STREAMS];
	uint64_t *word;
	CUdeviceptr at;
	CUfunction f;

	begin();
	f = function("signal_add");
	word = pinned(64);
	data = pinned(64);
	at = (uintptr_t)word;
	for (int i = 0; i < STREAMS; i++)
		s[i] = stream();
	for (uint32_t n = 1; n <= EACH; n++) {
		struct kernel_signal one = { at, 1 };

		GOOD(cuStreamWriteValue32(s[0], (uintptr_t)data, n, 0));
		launch(f, 1, 1, s[0], &one);
		while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < n)
			sched_yield();
		cr_assert_eq(*data, n);
	}
	*word = 0;
	for (int n = 0; n < EACH; n++)
		for (int i = 0; i < STREAMS; i++) {
			struct kernel_signal a = { at,
				                   i ? UINT64_MAX - 1 : (UINT64_C(5) << 32) + 7 };

			launch(f, 1, 1, s[i], &a);
		}
	for (int i = 0; i < STREAMS; i++)
		GOOD(cuStreamSynchronize(s[i]));
	cr_assert_eq(*word, EACH * ((UINT64_C(5) << 32) + 7) - 2 * EACH);
}
