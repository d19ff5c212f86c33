#include "alloc/registry.h"

#include "alloc/itree.h"
#include "test/alloc/random.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef NDEBUG
#error "registry_check() needs assert()"
#endif

#define AT(n) ((void *)((uintptr_t)0x10000000 + (n)))

/* A transport that counts what it prepared; a handle is a copy of the range. */
struct transport {
	int regs, deregs, fail;
	size_t bytes;
};

struct prepared {
	void *addr;
	size_t len;
};

static int
transport_reg(void *arg, void *addr, size_t len, void **handle)
{
	struct transport *t = arg;
	struct prepared *p;

	if (t->fail)
		return fail(t->fail, "no more keys for %zu bytes", len);
	p = malloc(sizeof(*p));
	cr_assert_not_null(p);
	p->addr = addr;
	p->len = len;
	t->regs++;
	t->bytes += len;
	*handle = p;
	return 0;
}

static void
transport_dereg(void *arg, void *handle)
{
	struct transport *t = arg;
	struct prepared *p = handle;

	t->deregs++;
	t->bytes -= p->len;
	free(p);
}

static struct registry *
make(struct transport *t)
{
	struct registry_hook hook = { transport_reg, transport_dereg, t };
	struct registry *r;

	memset(t, 0, sizeof(*t));
	cr_assert_eq(registry_create(&hook, &r), 0);
	return r;
}

static const struct reg *
reg(struct registry *r, size_t at, size_t len)
{
	const struct reg *out = NULL;

	cr_assert_eq(registry_reg(r, AT(at), len, &out), 0, "%s", oriel_detail());
	cr_assert(out && out->addr <= (uintptr_t)AT(at) &&
	          out->addr + out->len >= (uintptr_t)AT(at) + len);
	registry_check(r);
	return out;
}

static void
dereg(struct registry *r, size_t at, size_t len)
{
	cr_assert_eq(registry_dereg(r, AT(at), len), 0, "%s", oriel_detail());
	registry_check(r);
}

static void
assert_stats(struct registry *r, size_t registrations, size_t bytes)
{
	struct oriel_mem_stats s;

	registry_stats(r, &s);
	cr_assert_eq(s.registrations, registrations, "%zu", s.registrations);
	cr_assert_eq(s.registered_bytes, bytes, "%zu", s.registered_bytes);
}

Test(registry, same_range_shares)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *a = reg(r, 0, 100), *b = reg(r, 0, 100);

	cr_assert(a == b && a->refs == 2 && a->len == 100);
	cr_assert(((struct prepared *)a->handle)->addr == AT(0));
	assert_stats(r, 2, 100);
	dereg(r, 0, 100);
	cr_assert_eq(t.deregs, 0);
	dereg(r, 0, 100);
	cr_assert(t.regs == 1 && t.deregs == 1);
	assert_stats(r, 0, 0);
	cr_assert_eq(registry_dereg(r, AT(0), 100), ORIEL_EINVAL);
	registry_destroy(r);
}

Test(registry, inside_shares_and_dereg_wants_the_same_arguments)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *a = reg(r, 0, 100);

	cr_assert_eq(reg(r, 10, 20), a);
	cr_assert_eq(reg(r, 80, 20), a);
	cr_assert_eq(reg(r, 12, 2), a);
	assert_stats(r, 4, 100);
	/* Contained, but never registered so. */
	cr_assert_eq(registry_dereg(r, AT(10), 19), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "only lies inside the registration"), "%s",
	          oriel_detail());
	cr_assert_eq(registry_dereg(r, AT(0), 101), ORIEL_EINVAL);
	cr_assert_eq(registry_dereg(r, AT(0), 0), ORIEL_EINVAL);
	cr_assert_eq(registry_dereg(r, NULL, SIZE_MAX), ORIEL_EINVAL);
	cr_assert_eq(registry_dereg(r, AT(5), SIZE_MAX), ORIEL_EINVAL);
	cr_assert(!strstr(oriel_detail(), "inside"), "%s", oriel_detail());
	assert_stats(r, 4, 100);
	dereg(r, 10, 20);
	cr_assert_eq(registry_dereg(r, AT(10), 20), ORIEL_EINVAL);
	dereg(r, 0, 100);
	dereg(r, 12, 2);
	cr_assert_eq(t.deregs, 0);
	dereg(r, 80, 20);
	cr_assert(t.regs == 1 && t.deregs == 1);
	registry_destroy(r);
}

Test(registry, outer_and_overlaps_are_entries_of_their_own)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *small = reg(r, 40, 20), *big = reg(r, 0, 100), *over = reg(r, 90, 30);

	cr_assert(small != big && big != over && small != over);
	cr_assert(small->generation < big->generation && big->generation < over->generation);
	assert_stats(r, 3, 150);
	/* The same arguments again mean the same entry, whatever else contains them. */
	cr_assert_eq(reg(r, 40, 20), small);
	cr_assert_eq(reg(r, 0, 20), big);
	cr_assert_eq(reg(r, 101, 19), over);
	cr_assert(reg(r, 89, 31) != over);
	dereg(r, 0, 100);
	dereg(r, 40, 20);
	dereg(r, 40, 20);
	cr_assert_eq(t.deregs, 1);
	registry_destroy(r);
	cr_assert(t.regs == 4 && t.deregs == 4 && t.bytes == 0);
}

/* What was deregistered is not found through an entry that a smaller registration keeps. */
Test(registry, only_live_registrations_are_found)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *old = reg(r, 0, 100), *again;
	uint64_t generation = old->generation;

	cr_assert_eq(reg(r, 10, 20), old);
	dereg(r, 0, 100);
	cr_assert_null(registry_get(r, AT(0), 100));
	cr_assert_null(registry_get(r, AT(50), 1));
	again = reg(r, 0, 100);
	cr_assert(again != old && again->generation > generation);
	dereg(r, 10, 20);
	cr_assert_eq(t.deregs, 1);
	dereg(r, 0, 100);
	/* An address that comes back is a new generation. */
	generation = reg(r, 0, 100)->generation;
	cr_assert_eq(generation, 3);
	registry_destroy(r);
}

Test(registry, get_and_put)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *a, *b;

	cr_assert_null(registry_get(r, AT(0), 1));
	a = reg(r, 64, 64);
	b = registry_get(r, AT(64), 64);
	cr_assert(b == a && a->refs == 2);
	cr_assert_null(registry_get(r, AT(63), 1));
	cr_assert_null(registry_get(r, AT(63), 65));
	cr_assert_null(registry_get(r, AT(64), 65));
	cr_assert_null(registry_get(r, AT(128), 1));
	cr_assert_null(registry_get(r, AT(64), SIZE_MAX));
	cr_assert_null(registry_get(r, AT(64), SIZE_MAX - (uintptr_t)AT(64) + 1));
	b = registry_get(r, AT(127), 1);
	cr_assert(b == a && a->refs == 3);
	registry_put(r, a);
	/* In use when its registration ends: kept until it is given back, but found no more. */
	dereg(r, 64, 64);
	cr_assert_eq(t.deregs, 0);
	cr_assert_null(registry_get(r, AT(64), 64));
	assert_stats(r, 0, 64);
	registry_put(r, a);
	cr_assert_eq(t.deregs, 1);
	assert_stats(r, 0, 0);
	registry_destroy(r);
}

Test(registry, bad_arguments)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *out = (void *)1;

	cr_assert_eq(registry_reg(r, NULL, 8, &out), ORIEL_EINVAL);
	cr_assert_eq(registry_reg(r, AT(0), 0, &out), ORIEL_EINVAL);
	cr_assert_eq(registry_reg(r, AT(0), SIZE_MAX, &out), ORIEL_EINVAL);
	cr_assert_eq(registry_reg(r, AT(0), SIZE_MAX - (uintptr_t)AT(0) + 1, &out), ORIEL_EINVAL);
	cr_assert(out == (void *)1 && t.regs == 0);
	cr_assert_eq(registry_reg(r, AT(0), SIZE_MAX - (uintptr_t)AT(0), NULL), 0);
	cr_assert_eq(registry_dereg(r, AT(0), SIZE_MAX - (uintptr_t)AT(0)), 0);
	registry_check(r);
	registry_destroy(r);
	registry_destroy(NULL);
}

Test(registry, a_failed_hook_changes_nothing)
{
	struct transport t;
	struct registry *r = make(&t);
	const struct reg *a = reg(r, 0, 100), *out = (void *)1;
	uint64_t generation = a->generation;

	t.fail = ORIEL_ETRANSPORT;
	cr_assert_eq(registry_reg(r, AT(50), 100, &out), ORIEL_ETRANSPORT);
	cr_assert(strstr(oriel_detail(), "no more keys for 100 bytes"));
	cr_assert_eq(out, (void *)1);
	assert_stats(r, 1, 100);
	cr_assert_eq(registry_dereg(r, AT(50), 100), ORIEL_EINVAL);
	cr_assert_null(registry_get(r, AT(100), 1));
	/* What needs no hook goes on. */
	cr_assert_eq(reg(r, 50, 50), a);
	t.fail = 0;
	cr_assert_eq(reg(r, 50, 100)->generation, generation + 1);
	registry_destroy(r);
	cr_assert(t.regs == 2 && t.deregs == 2);
}

Test(registry, without_hooks)
{
	struct registry *r;
	const struct reg *a;

	cr_assert_eq(registry_create(NULL, &r), 0);
	a = reg(r, 0, 8);
	cr_assert_null(a->handle);
	dereg(r, 0, 8);
	registry_destroy(r);
}

/*
 * Random traffic against a list of pairs and counts.
 */

#define PAIRS 120

struct model {
	struct transport t;
	struct registry *r;
	uint64_t random;
	struct {
		size_t at, len;
		unsigned count;
		const struct reg *reg;
	} pair[PAIRS];
	const struct reg *got[16];
};

static bool
model_contains(const struct model *m, size_t at, size_t len)
{
	for (int i = 0; i < PAIRS; i++)
		if (m->pair[i].count && at >= m->pair[i].at &&
		    range_inside(at - m->pair[i].at, len, m->pair[i].len))
			return true;
	return false;
}

static void
model_reg(struct model *m, int i)
{
	bool shared = model_contains(m, m->pair[i].at, m->pair[i].len);
	int regs = m->t.regs;
	const struct reg *a = reg(m->r, m->pair[i].at, m->pair[i].len);

	cr_assert_eq(m->t.regs, regs + !shared);
	cr_assert(!m->pair[i].count || m->pair[i].reg == a);
	m->pair[i].reg = a;
	m->pair[i].count++;
}

static void
model_dereg(struct model *m, int i)
{
	int rc = registry_dereg(m->r, AT(m->pair[i].at), m->pair[i].len);

	registry_check(m->r);
	cr_assert_eq(rc, m->pair[i].count ? 0 : ORIEL_EINVAL);
	m->pair[i].count -= !rc;
}

static void
model_get(struct model *m)
{
	size_t at = random_below(&m->random, 1100), len = random_size(&m->random, 8);
	size_t g = random_below(&m->random, ARRAY_SIZE(m->got));
	const struct reg *a = registry_get(m->r, AT(at), len);

	cr_assert_eq(!a, !model_contains(m, at, len));
	if (a)
		cr_assert(a->addr <= (uintptr_t)AT(at) &&
		          a->addr + a->len >= (uintptr_t)AT(at) + len);
	if (m->got[g])
		registry_put(m->r, m->got[g]);
	m->got[g] = a;
}

static void
model_run(uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));
	size_t live = 0;

	m->random = seed;
	m->r = make(&m->t);
	for (int i = 0; i < PAIRS; i++) {
		m->pair[i].at = random_below(&m->random, 1000);
		m->pair[i].len = 1 + random_size(&m->random, 8);
		/* Pairs are distinct. */
		for (int j = 0; j < i; j++)
			if (m->pair[j].at == m->pair[i].at && m->pair[j].len == m->pair[i].len) {
				i--;
				break;
			}
	}
	for (int step = 0; step < 6000; step++) {
		int i = (int)random_below(&m->random, PAIRS);

		switch (random_below(&m->random, 5)) {
		case 0:
		case 1:
			model_reg(m, i);
			break;
		case 2:
		case 3:
			model_dereg(m, i);
			break;
		default:
			model_get(m);
		}
	}
	for (int i = 0; i < PAIRS; i++)
		live += m->pair[i].count;
	assert_stats(m->r, live, m->t.bytes);
	for (int i = 0; i < PAIRS; i++)
		while (m->pair[i].count)
			model_dereg(m, i);
	for (size_t i = 0; i < ARRAY_SIZE(m->got); i++)
		if (m->got[i])
			registry_put(m->r, m->got[i]);
	assert_stats(m->r, 0, 0);
	cr_assert(m->t.regs == m->t.deregs && m->t.bytes == 0 && m->t.regs > 0);
	registry_destroy(m->r);
	free(m);
}

Test(registry, random_traffic)
{
	uint64_t seed = first_seed("registry.random_traffic", 10);

	for (uint64_t s = seed; s < seed + 10; s++)
		model_run(s);
}

/* Sorted, reversed and nested inserts all keep the depth, and finds stay right. */
Test(registry, the_tree_stays_shallow)
{
	enum { N = 1 << 16 };
	struct itree_node *nodes = calloc(N, sizeof(*nodes)), *root;

	for (int order = 0; order < 3; order++) {
		root = NULL;
		for (size_t i = 0; i < N; i++) {
			struct itree_node *n = &nodes[i];
			size_t k = order == 1 ? N - i : i + 1;

			n->addr = order == 2 ? k : 16 * k;
			n->len = order == 2 ? 2 * (N + 1 - k) : 8;
			itree_insert(&root, n);
		}
		cr_assert_eq(itree_check(root), N);
		cr_assert(root->height <= 23, "%d", root->height); /* 1.44 * 16 */
		for (size_t i = 0; i < N; i++) {
			cr_assert_eq(itree_find(root, nodes[i].addr, nodes[i].len), &nodes[i]);
			cr_assert_null(itree_find(root, nodes[i].addr, nodes[i].len + 1));
			if (order == 2)
				continue;
			cr_assert_eq(itree_containing(root, nodes[i].addr + 7, 1), &nodes[i]);
			cr_assert_null(itree_containing(root, nodes[i].addr + 7, 2));
			cr_assert_null(itree_containing(root, nodes[i].addr + 8, 1));
		}
		for (size_t i = 0; i < N; i += 2)
			itree_remove(&root, &nodes[i]);
		cr_assert_eq(itree_check(root), N / 2);
		for (size_t i = 1; i < N; i += 2)
			itree_remove(&root, &nodes[i]);
		cr_assert_null(root);
	}
	free(nodes);
}

/*
 * Threads: each registers inside a range that all share, and ranges of its own.
 */

#define THREADS 4

static struct registry *shared;

static void *
thread_run(void *arg)
{
	size_t own = 100000 * (1 + (size_t)(intptr_t)arg);
	uint64_t random = (uint64_t)(intptr_t)arg;
	long bad = 0;

	for (int i = 0; i < 3000; i++) {
		size_t at = random_below(&random, 1000), len = 1 + random_below(&random, 500);
		const struct reg *a, *b;

		bad += registry_reg(shared, AT(at), len, &a) != 0;
		bad += registry_reg(shared, AT(own + at), len, NULL) != 0;
		b = registry_get(shared, AT(at), len);
		bad += !b || b->addr > (uintptr_t)AT(at) || !a->generation;
		bad += registry_dereg(shared, AT(own + at), len) != 0;
		bad += registry_dereg(shared, AT(at), len) != 0;
		bad += b && b->len < len;
		if (b)
			registry_put(shared, b);
	}
	return (void *)bad;
}

Test(registry, threads)
{
	pthread_t thread[THREADS];
	struct transport t;
	void *bad;

	shared = make(&t);
	for (intptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, thread_run, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_join(thread[i], &bad), 0);
		cr_assert_null(bad);
	}
	registry_check(shared);
	assert_stats(shared, 0, 0);
	cr_assert(t.regs >= THREADS * 3000 && t.regs == t.deregs);
	registry_destroy(shared);
}
