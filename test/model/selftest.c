/*
 * selftest.c - the checker against litmus tests whose outcomes are known: each
 * finds exactly the outcomes that C11 without load buffering allows.
 */
#include "checker.h"
#include "base/atomic.h"

static uint64_t x, y, a, b, c, d, lock, plain;

static void
words(void)
{
	atomic_var(&x, "x", 0);
	atomic_var(&y, "y", 0);
	atomic_var(&a, "a", 0);
	atomic_var(&b, "b", 0);
	atomic_var(&c, "c", 0);
	atomic_var(&d, "d", 0);
}

/* Outcome a + 4 * b: a and b hold what was read. */
static void
two(void)
{
	outcome((unsigned)(final_value(&a) + 4 * final_value(&b)));
}

static void
four(void)
{
	outcome((unsigned)(final_value(&a) + 2 * final_value(&b) + 4 * final_value(&c) +
	                   8 * final_value(&d)));
}

static void
xy(void)
{
	outcome((unsigned)(final_value(&x) + 4 * final_value(&y)));
}

/* Store buffering: without fences both may read 0. */
static void
sb0(void)
{
	store_release(&x, 1);
	store_relaxed(&a, load_acquire(&y));
}

static void
sb1(void)
{
	store_release(&y, 1);
	store_relaxed(&b, load_acquire(&x));
}

static void
sb0_fence(void)
{
	store_relaxed(&x, 1);
	fence_full();
	store_relaxed(&a, load_relaxed(&y));
}

static void
sb1_fence(void)
{
	store_relaxed(&y, 1);
	fence_full();
	store_relaxed(&b, load_relaxed(&x));
}

/* The same with all the fences on one side. */
static void
sb0_membarrier(void)
{
	store_relaxed(&x, 1);
	fence_all_cpus();
	store_relaxed(&a, load_relaxed(&y));
}

static void
sb1_compiler(void)
{
	store_relaxed(&y, 1);
	fence_compiler();
	store_relaxed(&b, load_relaxed(&x));
}

/* Message passing. */
static void
mp0(void)
{
	store_relaxed(&x, 1);
	store_relaxed(&y, 1);
}

static void
mp0_release(void)
{
	store_relaxed(&x, 1);
	store_release(&y, 1);
}

static void
mp0_fence(void)
{
	store_relaxed(&x, 1);
	fence_full();
	store_relaxed(&y, 1);
}

static void
mp1(void)
{
	store_relaxed(&a, load_relaxed(&y));
	store_relaxed(&b, load_relaxed(&x));
}

static void
mp1_acquire(void)
{
	store_relaxed(&a, load_acquire(&y));
	store_relaxed(&b, load_relaxed(&x));
}

static void
mp1_fence(void)
{
	store_relaxed(&a, load_relaxed(&y));
	fence_full();
	store_relaxed(&b, load_relaxed(&x));
}

/* A release sequence: a relaxed read-modify-write of another thread passes the data on. */
static void
rs1(void)
{
	add_relaxed(&y, 1);
}

static void
rs1_store(void)
{
	if (load_relaxed(&y) == 1)
		store_relaxed(&y, 2);
}

static void
rs2(void)
{
	uint64_t seen = load_acquire(&y);

	store_relaxed(&a, seen == 2);
	store_relaxed(&b, load_relaxed(&x));
}

/* Two writers of two words: the last values may be 1 and 1 (2+2W). */
static void
ww0(void)
{
	store_relaxed(&x, 1);
	store_relaxed(&y, 2);
}

static void
ww1(void)
{
	store_relaxed(&y, 1);
	store_relaxed(&x, 2);
}

static void
ww1_release(void)
{
	store_release(&y, 1);
	store_release(&x, 2);
}

/* Coherence: two reads of one word do not go back. */
static void
co0(void)
{
	store_relaxed(&x, 1);
	store_relaxed(&x, 2);
}

static void
co1(void)
{
	store_relaxed(&a, load_relaxed(&x));
	store_relaxed(&b, load_relaxed(&x));
}

/* Read-modify-writes do not lose each other. */
static void
inc(void)
{
	store_relaxed(&a, add_relaxed(&x, 1));
}

static void
inc2(void)
{
	store_relaxed(&b, add_relaxed(&x, 1));
}

static void
cas(void)
{
	uint64_t e = 0;

	store_relaxed(&a, (uint64_t)cas_acq_rel(&x, &e, 1));
}

static void
cas2(void)
{
	uint64_t e = 0;

	store_relaxed(&b, (uint64_t)cas_acq_rel(&x, &e, 1));
}

/* Two readers of one writer's two words, from one thread: they may disagree (as on POWER). */
static void
iriw_writer(void)
{
	store_relaxed(&x, 1);
	store_relaxed(&y, 1);
}

static void
iriw_reader0(void)
{
	store_relaxed(&a, load_acquire(&x));
	store_relaxed(&b, load_acquire(&y));
}

static void
iriw_reader1(void)
{
	store_relaxed(&c, load_acquire(&y));
	store_relaxed(&d, load_acquire(&x));
}

/* A lock of compare-and-swap around plain data has no race. */
static void
locked_words(void)
{
	words();
	atomic_var(&lock, "lock", 0);
	data_var(&plain, "plain", 0);
}

static void
locked(void)
{
	until(load_relaxed(&lock) == 0);
	if (swap_acquire(&lock, 1))
		return;
	data_write(&plain, data_read(&plain) + 1);
	store_release(&lock, 0);
}

static void
race0(void)
{
	data_read(&plain);
	store_relaxed(&x, 1);
}

/* The write never comes before the read, and is not ordered after it: load buffering. */
static void
race1(void)
{
	until(load_acquire(&x) == 1);
	data_write(&plain, 1);
}

static void
stuck(void)
{
	until(load_relaxed(&y) == 1);
}

#define OUT(a, b) (UINT64_C(1) << ((a) + 4 * (b)))
#define ALL4 (OUT(0, 0) | OUT(0, 1) | OUT(1, 0) | OUT(1, 1))

static const struct {
	struct scenario scenario;
	uint64_t outcomes;
	const char *violation; /* what it starts with; NULL: none */
} tests[] = {
	{ { "SB with release and acquire", words, { sb0, sb1 }, two, NULL, 0 }, ALL4, NULL },
	{ { "SB with full fences", words, { sb0_fence, sb1_fence }, two, NULL, 0 },
	  ALL4 & ~OUT(0, 0),
	  NULL },
	{ { "SB with one full fence", words, { sb0_fence, sb1_compiler }, two, NULL, 0 },
	  ALL4,
	  NULL },
	{ { "SB with membarrier against a compiler fence",
	    words,
	    { sb0_membarrier, sb1_compiler },
	    two,
	    NULL,
	    0 },
	  ALL4 & ~OUT(0, 0),
	  NULL },
	{ { "SB with compiler fences", words, { sb1_compiler, sb0 }, two, NULL, 0 }, ALL4, NULL },
	{ { "MP relaxed", words, { mp0, mp1 }, two, NULL, 0 }, ALL4, NULL },
	{ { "MP release, relaxed load", words, { mp0_release, mp1 }, two, NULL, 0 }, ALL4, NULL },
	{ { "MP relaxed, acquire load", words, { mp0, mp1_acquire }, two, NULL, 0 }, ALL4, NULL },
	{ { "MP release, acquire", words, { mp0_release, mp1_acquire }, two, NULL, 0 },
	  ALL4 & ~OUT(1, 0),
	  NULL },
	{ { "MP with fences", words, { mp0_fence, mp1_fence }, two, NULL, 0 },
	  ALL4 & ~OUT(1, 0),
	  NULL },
	{ { "MP with a fence, acquire", words, { mp0_fence, mp1_acquire }, two, NULL, 0 },
	  ALL4 & ~OUT(1, 0),
	  NULL },
	{ { "release sequence through a read-modify-write",
	    words,
	    { mp0_release, rs1, rs2 },
	    two,
	    NULL,
	    0 },
	  ALL4 & ~OUT(1, 0),
	  NULL },
	{ { "release sequence ends at another's store",
	    words,
	    { mp0_release, rs1_store, rs2 },
	    two,
	    NULL,
	    0 },
	  ALL4,
	  NULL },
	{ { "2+2W relaxed", words, { ww0, ww1 }, xy, NULL, 0 },
	  OUT(1, 1) | OUT(1, 2) | OUT(2, 1) | OUT(2, 2),
	  NULL },
	{ { "2+2W release", words, { ww0, ww1_release }, xy, NULL, 0 },
	  OUT(1, 1) | OUT(1, 2) | OUT(2, 1) | OUT(2, 2),
	  NULL },
	{ { "coherence of two reads", words, { co0, co1 }, two, NULL, 0 },
	  OUT(0, 0) | OUT(0, 1) | OUT(0, 2) | OUT(1, 1) | OUT(1, 2) | OUT(2, 2),
	  NULL },
	{ { "two adds", words, { inc, inc2 }, two, NULL, 0 }, OUT(0, 1) | OUT(1, 0), NULL },
	{ { "two compare-and-swaps", words, { cas, cas2 }, two, NULL, 0 },
	  OUT(0, 1) | OUT(1, 0),
	  NULL },
	{ { "IRIW with acquire loads",
	    words,
	    { iriw_writer, iriw_reader0, iriw_reader1 },
	    four,
	    NULL,
	    0 },
	  0xffff,
	  NULL },
	{ { "a lock", locked_words, { locked, locked, locked }, NULL, NULL, 0 }, 0, NULL },
	{ { "a plain read and a later write", locked_words, { race0, race1 }, NULL, NULL, 0 },
	  0,
	  "write of plain races" },
	{ { "two plain writes", locked_words, { locked, race1, iriw_writer }, NULL, NULL, 0 },
	  0,
	  "write of plain races" },
	{ { "a poll for what never comes", words, { stuck, co0 }, NULL, NULL, 0 }, 0, "deadlock" },
};

int
main(void)
{
	unsigned passed = 0, failed = 0;
	const char *want;
	size_t i;
	bool ok;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		check(&tests[i].scenario, NULL);
		want = tests[i].violation;
		if (want)
			ok = !strncmp(mc.violation, want, strlen(want));
		else
			ok = !mc.violation[0] && mc.outcomes == tests[i].outcomes;
		printf("%-48s %5zu states  outcomes %05llx  %s  %s\n", tests[i].scenario.name,
		       mc.n_states, (unsigned long long)mc.outcomes, ok ? "as it must be" : "WRONG",
		       mc.violation[0] ? mc.violation : "");
		*(ok ? &passed : &failed) += 1;
	}
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
