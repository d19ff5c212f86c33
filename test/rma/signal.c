#include "rma/signal.h"

#include "rma/ctx.h"
#include "test/rma/alone.h"

#include <pthread.h>

Test(signal, comparisons)
{
	static const uint64_t v[] = { 0, 1, 2, ORIEL_SIGNAL_MAX, ORIEL_SIGNAL_MAX + 1, UINT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(v); j++) {
			cr_assert_eq(signal_holds(v[i], ORIEL_EQ, v[j]), v[i] == v[j]);
			cr_assert_eq(signal_holds(v[i], ORIEL_NE, v[j]), v[i] != v[j]);
			cr_assert_eq(signal_holds(v[i], ORIEL_GE, v[j]), v[i] >= v[j]);
			cr_assert_eq(signal_holds(v[i], ORIEL_GT, v[j]), v[i] > v[j]);
			cr_assert_eq(signal_holds(v[i], ORIEL_LE, v[j]), v[i] <= v[j]);
			cr_assert_eq(signal_holds(v[i], ORIEL_LT, v[j]), v[i] < v[j]);
		}
	}
}

/* Senders in threads, a sleeper on the word: it wakes at once, each time. */
struct pair {
	struct wake wake;
	uint64_t slot, back;
};

static void *
raise_it(void *arg)
{
	struct pair *p = arg;

	for (uint64_t i = 1; i <= 2000; i++) {
		signal_raise(&p->slot, i % 2, i % 2 ? 1 : i, &p->wake);
		while (load_acquire(&p->back) < i)
			cpu_relax();
	}
	return NULL;
}

Test(signal, wakes_a_sleeper)
{
	static struct pair p;
	uint64_t start = now_ns(), slept = 0;
	pthread_t thread;

	wake_register();
	cr_assert_eq(pthread_create(&thread, NULL, raise_it, &p), 0);
	for (uint64_t i = 1; i <= 2000; i++) {
		while (load_acquire(&p.slot) < i) {
			uint32_t seen = wake_prepare(&p.wake);

			if (load_acquire(&p.slot) >= i)
				break;
			wake_sleep(&p.wake, seen, 1000000000);
			slept++;
		}
		cr_assert_eq(p.slot, i);
		store_release(&p.back, i);
	}
	pthread_join(thread, NULL);
	/* A lost wake-up would cost WAKE_MAX_SLEEP_NS; a few may be lost without membarrier. */
	cr_assert(now_ns() - start < UINT64_C(2000) * WAKE_MAX_SLEEP_NS / 4,
	          "%llu sleeps took %llu ms", (unsigned long long)slept,
	          (unsigned long long)(now_ns() - start) / 1000000);
}

/*
 * ---- ctx_wait ----
 */

struct once {
	int asked, good;
	bool was_good;
};

/* True just once, as a send that found room: to ask again would be to send again. */
static bool
ready_once(void *arg)
{
	struct once *o = arg;

	cr_assert(!o->was_good, "asked again after it was ready");
	o->was_good = ++o->asked == o->good;
	return o->was_good;
}

Test(wait, does_not_ask_again)
{
	static const char *const knobs[] = { "ORIEL_SPIN=0", "ORIEL_YIELD=0", NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };
	oriel_ctx *ctx;

	/* First with all three ways of waiting, then with sleeps alone. */
	for (int pass = 0; pass < 2; pass++) {
		cr_assert_eq(oriel_init(pass ? &opts : NULL, &ctx), 0);
		for (int good = 1; good < (pass ? 12 : 150); good += pass ? 1 : 37) {
			struct once o = { .good = good };

			cr_assert_eq(ctx_wait(ctx, ready_once, NULL, &o, ORIEL_FOREVER), 0);
			cr_assert(o.was_good);
		}
		cr_assert_eq(oriel_fini(ctx), 0);
	}
}

static bool
never(void *arg)
{
	(void)arg;
	return false;
}

static int
doom(void *arg)
{
	int *n = arg;

	return --*n ? 0 : fail(ORIEL_EPEER, "doomed");
}

Test(wait, ends_without_the_event)
{
	uint64_t start, took;
	oriel_ctx *ctx;
	int n = 5;

	cr_assert_eq(oriel_init(NULL, &ctx), 0);
	start = now_ns();
	cr_assert_eq(ctx_wait(ctx, never, NULL, NULL, deadline_after(30000000)), ORIEL_ETIMEDOUT);
	took = now_ns() - start;
	cr_assert(took >= 30000000 && took < 1000000000, "%llu us",
	          (unsigned long long)took / 1000);
	cr_assert_eq(ctx_wait(ctx, never, NULL, NULL, 0), ORIEL_ETIMEDOUT);
	cr_assert_eq(ctx_wait(ctx, never, doom, &n, ORIEL_FOREVER), ORIEL_EPEER);
	cr_assert_eq(oriel_fini(ctx), 0);
}
