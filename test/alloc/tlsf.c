#include "alloc/tlsf.h"

#include "test/alloc/random.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef NDEBUG
#error "tlsf_check() needs assert()"
#endif

/* No memory is behind the ranges: whoever touches them crashes. */
#define BASE ((uintptr_t)1 << 45)
#define GRAIN ((size_t)TLSF_GRAIN)

static struct tlsf *
make(size_t size)
{
	struct tlsf *t;
	unsigned range;

	cr_assert_eq(tlsf_create(&t), 0);
	cr_assert_eq(tlsf_add(t, BASE, size, &range), 0);
	cr_assert_eq(range, 0);
	return t;
}

static struct tlsf_block *
get(struct tlsf *t, size_t size, size_t align)
{
	struct tlsf_block *b = (struct tlsf_block *)1;

	cr_assert_eq(tlsf_alloc(t, size, align, &b), 0, "%s", oriel_detail());
	return b;
}

static void
assert_one_free_block(const struct tlsf *t, size_t size)
{
	struct tlsf_totals sum;

	tlsf_check(t, &sum);
	cr_assert_eq(sum.blocks[TLSF_FREE], sum.ranges);
	cr_assert_eq(sum.bytes[TLSF_FREE], size);
	cr_assert_eq(sum.blocks[TLSF_LIVE] + sum.blocks[TLSF_BUSY] + sum.blocks[TLSF_RETIRED], 0);
}

Test(tlsf, every_size_and_alignment)
{
	size_t size = (size_t)1 << 26;
	struct tlsf *t = make(size);
	struct tlsf_totals sum;

	for (size_t align = 0; align <= (size_t)1 << 21; align = align ? 2 * align : 1) {
		for (size_t n = 0; n <= 5000; n += align > 4096 ? 131 : 1) {
			struct tlsf_block *b = get(t, n, align), *c = get(t, n, align);

			cr_assert(b && c && b != c);
			cr_assert(b->size >= n && b->size < n + GRAIN + !n);
			cr_assert(b->addr % GRAIN == 0 && b->addr % (align ? align : 1) == 0);
			cr_assert(c->addr % GRAIN == 0 && c->addr % (align ? align : 1) == 0);
			cr_assert(b->addr + b->size <= c->addr || c->addr + c->size <= b->addr);
			cr_assert_eq(tlsf_find(t, 0, b->addr), b);
			cr_assert_null(tlsf_find(t, 0, b->addr + 1));
			if (n & 1)
				tlsf_check(t, &sum);
			tlsf_free(t, b);
			tlsf_free(t, c);
		}
		assert_one_free_block(t, size);
	}
	tlsf_destroy(t);
}

/* A free block is found by the request of its own size, also by aligned ones, wherever it lies. */
Test(tlsf, exact_fit_is_found)
{
	for (size_t n = 1; n < 3000; n += n < 200 ? 1 : 37) {
		struct tlsf *t = make(n * GRAIN);
		struct tlsf_block *b = get(t, n * GRAIN, 0);

		cr_assert(b && b->size == n * GRAIN);
		cr_assert_null(get(t, 1, 0));
		tlsf_free(t, b);
		cr_assert_null(get(t, n * GRAIN + 1, 0));
		b = get(t, n * GRAIN, (size_t)1 << 30);
		cr_assert_not_null(b);
		cr_assert_null(get(t, 0, 0));
		tlsf_free(t, b);
		assert_one_free_block(t, n * GRAIN);
		tlsf_destroy(t);
	}
}

Test(tlsf, impossible_requests)
{
	static const size_t sizes[] = { SIZE_MAX,         SIZE_MAX - 1,  SIZE_MAX - 62,
		                        SIZE_MAX - 63,    SIZE_MAX - 64, SIZE_MAX / 2,
		                        SIZE_MAX / 4 + 1, SIZE_MAX / 4,  4097 };
	struct tlsf *t = make(4096);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (unsigned bit = 0; bit < 64; bit++) {
			cr_assert_null(get(t, sizes[i], (size_t)1 << bit));
			cr_assert(bit < 46 || !get(t, 1, (size_t)1 << bit), "2^%u", bit);
		}
	for (uintptr_t addr = BASE - 2; addr < BASE + 4100; addr++)
		cr_assert(!tlsf_find(t, 0, addr) == (addr != BASE));
	cr_assert_null(tlsf_find(t, 0, 0));
	cr_assert_null(tlsf_find(t, 0, UINTPTR_MAX));
	assert_one_free_block(t, 4096);
	tlsf_destroy(t);
}

/* At the very end of the address space nothing may wrap. */
Test(tlsf, top_of_the_address_space)
{
	uintptr_t base = UINTPTR_MAX - 65535;
	struct tlsf *t;
	struct tlsf_block *b;
	unsigned range;

	cr_assert_eq(tlsf_create(&t), 0);
	cr_assert_eq(tlsf_add(t, base, 65536 - GRAIN, &range), 0);
	cr_assert_null(get(t, 1, (size_t)1 << 17));
	cr_assert_null(get(t, 65536, 0));
	b = get(t, 32768, 32768);
	cr_assert(b && b->addr == base);
	cr_assert_null(get(t, 32768, 32768));
	tlsf_free(t, b);
	assert_one_free_block(t, 65536 - GRAIN);
	tlsf_destroy(t);
}

Test(tlsf, huge_range)
{
	size_t size = (size_t)1 << 40, n = ((size_t)4 << 30) + 8;
	struct tlsf *t = make(size);
	struct tlsf_block *b[240];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(b); i++) {
		b[i] = get(t, n, 4096);
		cr_assert(b[i] && b[i]->size == n - 8 + GRAIN && b[i]->addr % 4096 == 0);
	}
	for (i = 0; i < ARRAY_SIZE(b); i += 2)
		tlsf_free(t, b[i]);
	for (i = 1; i < ARRAY_SIZE(b); i += 2)
		tlsf_free(t, b[i]);
	assert_one_free_block(t, size);
	b[0] = get(t, size, 0);
	cr_assert_not_null(b[0]);
	tlsf_free(t, b[0]);
	tlsf_destroy(t);
}

Test(tlsf, all_orders_of_freeing_coalesce)
{
	static const unsigned order[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 3, 2, 0 },
		                             { 0, 2, 1, 3 }, { 2, 0, 3, 1 }, { 1, 2, 0, 3 } };

	for (size_t o = 0; o < ARRAY_SIZE(order); o++) {
		struct tlsf *t = make(4 * 256);
		struct tlsf_block *b[4];
		struct tlsf_totals sum;

		for (int i = 0; i < 4; i++)
			b[i] = get(t, 256, 0);
		cr_assert_null(get(t, 1, 0));
		for (int i = 0; i < 4; i++) {
			tlsf_free(t, b[order[o][i]]);
			tlsf_check(t, &sum);
			cr_assert_eq(sum.bytes[TLSF_FREE], 256 * (size_t)(i + 1));
		}
		assert_one_free_block(t, 4 * 256);
		tlsf_destroy(t);
	}
}

/* Neighbouring ranges never join, a dropped one leaves no trace. */
Test(tlsf, ranges)
{
	struct tlsf *t = make(1 << 20);
	struct tlsf_block *b;
	unsigned range;

	for (unsigned i = 1; i < 20; i++) {
		cr_assert_eq(tlsf_add(t, BASE + ((uintptr_t)i << 20), 1 << 20, &range), 0);
		cr_assert_eq(range, i);
	}
	cr_assert_null(get(t, (1 << 20) + 1, 0));
	cr_assert_eq(tlsf_add(t, BASE + ((uintptr_t)64 << 20), 8 << 20, &range), 0);
	tlsf_drop_last(t);
	cr_assert_null(get(t, (1 << 20) + 1, 0));
	cr_assert_eq(tlsf_add(t, BASE + ((uintptr_t)64 << 20), 2 << 20, &range), 0);
	cr_assert_eq(range, 20);
	cr_assert_eq(tlsf_alloc_first(t, range, (2 << 20) - 5, 1 << 20, &b), 0);
	cr_assert(b && b->range == 20 && b->addr == BASE + ((uintptr_t)64 << 20));
	cr_assert_eq(tlsf_find(t, 20, b->addr), b);
	cr_assert_null(tlsf_find(t, 19, b->addr));
	tlsf_free(t, b);
	assert_one_free_block(t, 22 << 20);
	tlsf_destroy(t);
}

/*
 * Random traffic against a map of who owns each grain.
 */

#define MODEL_GRAINS 16384
#define MODEL_RANGES 3
#define MODEL_LIVE 700

struct model {
	struct tlsf *t;
	uint64_t random, seed;
	uint16_t owner[MODEL_RANGES][MODEL_GRAINS]; /* 1 + index of live, or 0 */
	struct {
		struct tlsf_block *block;
		uintptr_t addr;
		size_t size;
	} live[MODEL_LIVE];
};

static uintptr_t
range_base(unsigned range)
{
	return BASE + range * (uintptr_t)MODEL_GRAINS * GRAIN;
}

static void
model_own(struct model *m, unsigned i, uint16_t from, uint16_t to)
{
	struct tlsf_block *b = m->live[i].block;
	size_t at = (m->live[i].addr - range_base(b->range)) / GRAIN;

	for (size_t g = 0; g < m->live[i].size / GRAIN; g++) {
		cr_assert_eq(m->owner[b->range][at + g], from, "seed %llu: overlap at grain %zu",
		             (unsigned long long)m->seed, at + g);
		m->owner[b->range][at + g] = to;
	}
}

/* That nothing fits is true: no run of free grains has the size and the slack that tlsf.h allows.
 */
static void
model_full(const struct model *m, size_t size, size_t align)
{
	size_t n = round_up(size ? size : 1, GRAIN) + (align > GRAIN ? align : 0), run;

	n = n / GRAIN + n / GRAIN / 32 + 1;
	for (unsigned r = 0; r < MODEL_RANGES; r++) {
		run = 0;
		for (size_t g = 0; g < MODEL_GRAINS; g++) {
			run = m->owner[r][g] ? 0 : run + 1;
			cr_assert(run <= n, "seed %llu: %zu grains are free, %zu refused",
			          (unsigned long long)m->seed, run, n);
		}
	}
}

static void
model_alloc(struct model *m, unsigned i)
{
	size_t size = random_size(&m->random, 17);
	size_t align = (size_t)1 << random_below(&m->random, random_below(&m->random, 8) ? 9 : 17);
	struct tlsf_block *b = get(m->t, size, align);

	if (!b) {
		model_full(m, size, align);
		return;
	}
	cr_assert(b->addr % align == 0 && b->addr % GRAIN == 0 && b->range < MODEL_RANGES);
	cr_assert(b->size >= size && b->size < size + GRAIN + !size);
	cr_assert(range_inside(b->addr - range_base(b->range), b->size, MODEL_GRAINS * GRAIN));
	m->live[i].block = b;
	m->live[i].addr = b->addr;
	m->live[i].size = b->size;
	model_own(m, i, 0, (uint16_t)(i + 1));
}

static void
model_free(struct model *m, unsigned i)
{
	struct tlsf_block *b = m->live[i].block;

	cr_assert_eq(tlsf_find(m->t, b->range, m->live[i].addr), b);
	cr_assert(b->addr == m->live[i].addr && b->size == m->live[i].size &&
	          b->state == TLSF_LIVE);
	model_own(m, i, (uint16_t)(i + 1), 0);
	tlsf_free(m->t, b);
	m->live[i].block = NULL;
}

static void
model_run(struct model *m, uint64_t seed)
{
	struct tlsf_totals sum;
	unsigned range;

	memset(m, 0, sizeof(*m));
	m->random = m->seed = seed;
	cr_assert_eq(tlsf_create(&m->t), 0);
	for (unsigned r = 0; r < MODEL_RANGES; r++)
		cr_assert_eq(tlsf_add(m->t, range_base(r), MODEL_GRAINS * GRAIN, &range), 0);
	for (int step = 0; step < 20000; step++) {
		/* The number of slots in play swings, so that the ranges get full and empty. */
		unsigned n = step % 4000 < 2000 ? MODEL_LIVE : 40;
		unsigned i = (unsigned)random_below(&m->random, n);

		if (m->live[i].block)
			model_free(m, i);
		else
			model_alloc(m, i);
		if (step % 4000 == 2000)
			for (i = 40; i < MODEL_LIVE; i++)
				if (m->live[i].block)
					model_free(m, i);
		if (step % 64 == 0)
			tlsf_check(m->t, &sum);
	}
	for (unsigned i = 0; i < MODEL_LIVE; i++)
		if (m->live[i].block)
			model_free(m, i);
	assert_one_free_block(m->t, MODEL_RANGES * MODEL_GRAINS * GRAIN);
	tlsf_destroy(m->t);
}

Test(tlsf, random_traffic)
{
	uint64_t seed = first_seed("tlsf.random_traffic", 12);
	struct model *m = malloc(sizeof(*m));

	for (int i = 0; i < 12; i++)
		model_run(m, seed + (uint64_t)i);
	free(m);
}

/*
 * Cost: instructions of one free and one alloc, counted by stepping a child.
 */

struct traffic {
	struct tlsf *t;
	struct tlsf_block **live;
	size_t n;
	uint64_t random;
};

static void
traffic_start(struct traffic *w, size_t n)
{
	w->t = make((size_t)1 << 40);
	w->live = calloc(n, sizeof(*w->live));
	w->n = n;
	w->random = 7;
	for (size_t i = 0; i < n; i++)
		w->live[i] = get(w->t, random_size(&w->random, 16), 0);
	/* Holes of all sizes among them. */
	for (size_t i = 0; i < 2 * n; i++) {
		size_t k = random_below(&w->random, n);

		tlsf_free(w->t, w->live[k]);
		w->live[k] = get(w->t, random_size(&w->random, 16), (size_t)64 << i % 3);
	}
}

static void
traffic_end(struct traffic *w)
{
	for (size_t i = 0; i < w->n; i++)
		tlsf_free(w->t, w->live[i]);
	assert_one_free_block(w->t, (size_t)1 << 40);
	free(w->live);
	tlsf_destroy(w->t);
}

#define STEPPED 40

/* The child stops itself around each pair; every second stretch is the pair. */
static void
stepped_child(struct traffic *w)
{
	pid_t self = getpid();

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(77);
	kill(self, SIGSTOP);
	for (int i = 0; i < STEPPED; i++) {
		size_t k = random_below(&w->random, w->n), size = random_size(&w->random, 16);

		kill(self, SIGSTOP);
		tlsf_free(w->t, tlsf_find(w->t, 0, w->live[k]->addr));
		if (tlsf_alloc(w->t, size, 256, &w->live[k]))
			_exit(1);
		kill(self, SIGSTOP);
	}
	_exit(0);
}

/* Instructions until the child's next stop by itself, or -1 when it has ended. */
static long
run_to_stop(pid_t child, enum __ptrace_request how, int *status)
{
	for (long n = 0;; n++) {
		if (ptrace(how, child, NULL, NULL))
			return -1;
		if (waitpid(child, status, 0) != child || !WIFSTOPPED(*status))
			return -1;
		if (WSTOPSIG(*status) == SIGSTOP)
			return n;
	}
}

/* Mean and maximum of instructions a pair, or false if this machine does not let us count. */
static bool
count_instructions(struct traffic *w, double *mean, long *max)
{
	int status;
	long n, sum = 0, pairs = 0;
	pid_t child = fork();

	if (!child)
		stepped_child(w);
	cr_assert_eq(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return false;
	cr_assert(WIFSTOPPED(status));
	*max = 0;
	while (run_to_stop(child, PTRACE_CONT, &status) >= 0) {
		n = run_to_stop(child, PTRACE_SINGLESTEP, &status);
		sum += n;
		pairs++;
		if (*max < n)
			*max = n;
	}
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(pairs, STEPPED);
	*mean = (double)sum / (double)pairs;
	return true;
}

static uint64_t
best_pair_ns(struct traffic *w)
{
	uint64_t best = UINT64_MAX, t0;

	for (int round = 0; round < 5; round++) {
		t0 = now_ns();
		for (int i = 0; i < 100000; i++) {
			size_t k = random_below(&w->random, w->n);

			tlsf_free(w->t, tlsf_find(w->t, 0, w->live[k]->addr));
			w->live[k] = get(w->t, random_size(&w->random, 16), 256);
		}
		t0 = (now_ns() - t0) / 100000;
		if (best > t0)
			best = t0;
	}
	return best;
}

Test(tlsf, cost_does_not_grow_with_blocks, .timeout = 120)
{
	static const size_t blocks[] = { 1000, 1000000 };
	double mean[2];
	long max[2];

	for (int i = 0; i < 2; i++) {
		struct traffic w;
		uint64_t ns;

		traffic_start(&w, blocks[i]);
		if (!count_instructions(&w, &mean[i], &max[i]))
			cr_skip_test("ptrace is not permitted here");
		ns = best_pair_ns(&w);
		fprintf(stderr,
		        "tlsf: %zu blocks: find + free + alloc %.0f instructions (most %ld), %llu "
		        "ns\n",
		        blocks[i], mean[i], max[i], (unsigned long long)ns);
		traffic_end(&w);
	}
	cr_assert(mean[1] < 1.25 * mean[0], "%.0f against %.0f", mean[1], mean[0]);
	cr_assert(max[1] < 2 * max[0], "%ld against %ld", max[1], max[0]);
}

/* Mixed traffic with a working set that turns over completely: the spread of the live blocks. */
Test(tlsf, fragmentation_is_bounded)
{
	uint64_t seed = first_seed("tlsf.fragmentation_is_bounded", 4);

	for (uint64_t s = seed; s < seed + 4; s++) {
		struct traffic w;
		size_t live = 0, most = 0;
		uintptr_t end = BASE;

		w.t = make((size_t)1 << 40);
		w.n = 4000;
		w.live = calloc(w.n, sizeof(*w.live));
		w.random = s;
		for (size_t i = 0; i < 200000; i++) {
			size_t k = random_below(&w.random, w.n);

			if (w.live[k]) {
				live -= w.live[k]->size;
				tlsf_free(w.t, w.live[k]);
			}
			w.live[k] = get(w.t, random_size(&w.random, 20), 0);
			live += w.live[k]->size;
			if (most < live)
				most = live;
			if (end < w.live[k]->addr + w.live[k]->size)
				end = w.live[k]->addr + w.live[k]->size;
		}
		fprintf(stderr, "tlsf: seed %llu: spread %.3f x peak\n", (unsigned long long)s,
		        (double)(end - BASE) / (double)most);
		cr_assert(end - BASE < most + most / 4);
		for (size_t i = 0; i < w.n; i++)
			if (w.live[i])
				tlsf_free(w.t, w.live[i]);
		assert_one_free_block(w.t, (size_t)1 << 40);
		free(w.live);
		tlsf_destroy(w.t);
	}
}
