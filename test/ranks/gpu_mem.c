/*
 * gpu_mem.c - memory of GPUs: the pool, describing memory to ranks of the node,
 * mapping theirs, host words for streams. Data is moved by the driver itself.
 */
#include "oriel_cuda.h"
#include "test/ranks/ranks.h"

#include "rma/gpu_mem.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)
#define MAX_POOL (96 * MIB)
#define MAX_SHOWN 8

struct test {
	struct ranks *r;
	struct gpu *g;
	int next, before; /* ranks */
};

/* The driver's call succeeds; else no rank can go on. */
#define GOOD(call) NEED(!gpu_check(call, "%s", #call), "%s", oriel_detail())

static uint32_t
word_of(uint64_t seed, size_t i)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + i;

	return (uint32_t)ranks_next(&state);
}

/* Device memory is written and read through the rank's own stream. */
static bool
fill(const struct test *t, CUdeviceptr p, size_t len, uint64_t seed)
{
	uint32_t *words = malloc(len);
	bool ok;

	if (!NEED(words, "no memory"))
		return false;
	for (size_t i = 0; i < len / 4; i++)
		words[i] = word_of(seed, i);
	ok = GOOD(CU(cuMemcpyHtoDAsync)(p, words, len, t->g->stream[0])) &&
	     GOOD(CU(cuStreamSynchronize)(t->g->stream[0]));
	free(words);
	return ok;
}

static bool
holds(const struct test *t, CUdeviceptr p, size_t len, uint64_t seed, const char *what)
{
	uint32_t *words = malloc(len);
	bool ok;

	if (!NEED(words, "no memory"))
		return false;
	ok = GOOD(CU(cuMemcpyDtoHAsync)(words, p, len, t->g->stream[0])) &&
	     GOOD(CU(cuStreamSynchronize)(t->g->stream[0]));
	for (size_t i = 0; i < len / 4 && ok; i++)
		ok = CHECK(words[i] == word_of(seed, i), "%s: word %zu of %zu is %x and not %x",
		           what, i, len / 4, words[i], word_of(seed, i));
	free(words);
	return ok;
}

static struct peer *
peer_of(const struct test *t, int rank)
{
	struct peer *p = NULL;

	OK(peer_get(t->r->ctx, rank, &p));
	return p;
}

static uint64_t
seed_of(int rank, uint64_t what)
{
	return (uint64_t)rank * 1000 + what;
}

/* ---- The pool ---- */

static bool
sizes_and_alignments(const struct test *t)
{
	static const size_t len[] = { 0, 1, 63, 64, 65, 4096, 100000, 3 << 20, 5 << 20 };
	struct oriel_mem_stats s;
	void *p[ARRAY_SIZE(len) * 2];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(len); i++)
		for (size_t align = 0; align <= 4 * MIB; align = align ? align * 65536 : 64) {
			size_t at = n % ARRAY_SIZE(p);

			if (n >= ARRAY_SIZE(p) && !OK(oriel_mem_free(t->r->ctx, p[at])))
				return false;
			if (!OK(oriel_mem_alloc_device(t->r->ctx, len[i], align, &p[at])))
				return false;
			CHECK((uintptr_t)p[at] % (align ? align : 64) == 0, "%p at %zu", p[at],
			      align);
			for (size_t j = 0; j < n && j < ARRAY_SIZE(p); j++)
				CHECK(j == at || p[j] != p[at], "%p twice", p[at]);
			n++;
			if (len[i] >= 64 &&
			    (!fill(t, (CUdeviceptr)p[at], len[i] & ~(size_t)3, n) ||
			     !holds(t, (CUdeviceptr)p[at], len[i] & ~(size_t)3, n, "own")))
				return false;
		}
	for (size_t i = 0; i < n && i < ARRAY_SIZE(p); i++)
		OK(oriel_mem_free(t->r->ctx, p[i]));
	return OK(oriel_mem_stats_device(t->r->ctx, &s)) &&
	       CHECK(!s.allocations && !s.used_bytes && s.total_allocs == n && s.slabs,
	             "%zu allocations of %zu are left in %zu slabs", s.allocations, s.total_allocs,
	             s.slabs);
}

static bool
exhaustion(const struct test *t)
{
	void *p[64], *none = NULL;
	size_t n = 0;

	FAILS(ORIEL_ENOMEM, oriel_mem_alloc_device(t->r->ctx, MAX_POOL + 1, 0, &none));
	FAILS(ORIEL_EINVAL, oriel_mem_alloc_device(t->r->ctx, 64, 48, &none));
	FAILS(ORIEL_EINVAL, oriel_mem_alloc_device(t->r->ctx, 64, 0, NULL));
	while (n < ARRAY_SIZE(p) && !oriel_mem_alloc_device(t->r->ctx, 6 * MIB, 0, &p[n]))
		n++;
	CHECK(n >= 10 && n <= MAX_POOL / (6 * MIB), "%zu blocks fit", n);
	FAILS(ORIEL_ENOMEM, oriel_mem_alloc_device(t->r->ctx, 6 * MIB, 0, &none));
	for (size_t i = 0; i < n; i++)
		OK(oriel_mem_free(t->r->ctx, p[i]));
	FAILS(ORIEL_EINVAL, oriel_mem_free(t->r->ctx, p[0]));
	FAILS(ORIEL_EINVAL, oriel_mem_free(t->r->ctx, (char *)p[0] + 64));
	CHECK(!none, "an error wrote %p", none);
	if (!OK(pool_alloc_zeroed(t->g->pool, 3 * MIB, 0, &none)))
		return false;
	OK(oriel_mem_free(t->r->ctx, none));
	return true;
}

static bool
zeroed(const struct test *t)
{
	size_t len = 3 * MIB + 4;
	unsigned char *host = malloc(len);
	void *p, *again;

	if (!NEED(host, "no memory") || !OK(oriel_mem_alloc_device(t->r->ctx, len, 0, &p)))
		return false;
	fill(t, (CUdeviceptr)p, len, 5);
	OK(oriel_mem_free(t->r->ctx, p));
	if (!OK(pool_alloc_zeroed(t->g->pool, len, 0, &again)))
		return false;
	GOOD(CU(cuMemcpyDtoHAsync)(host, (CUdeviceptr)again, len, t->g->stream[0]));
	GOOD(CU(cuStreamSynchronize)(t->g->stream[0]));
	for (size_t i = 0; i < len; i++)
		if (!CHECK(!host[i], "byte %zu is %x", i, host[i]))
			break;
	free(host);
	return OK(oriel_mem_free(t->r->ctx, again));
}

/* ---- Memory of peers ---- */

struct shown { /* what a rank tells the others */
	struct gpu_where where;
	uint64_t len;
};

/* Every rank describes len bytes at p; all[i] is rank i's. */
static bool
show(const struct test *t, CUdeviceptr p, size_t len, struct shown *all)
{
	struct shown mine = { .len = len };

	return OK(gpu_describe(t->g, (void *)p, len, &mine.where)) &&
	       OK(oriel_allgather(t->r->world, &mine, all, sizeof(mine)));
}

/* Each rank writes its piece of every rank's first half; the second stays as it was. */
static bool
write_all(const struct test *t, CUdeviceptr p, size_t len, const char *what)
{
	int size = t->r->size, me = t->r->rank;
	size_t half = len / 2, piece = half / (size_t)size & ~(size_t)3;
	struct shown all[MAX_SHOWN];
	CUdeviceptr at;

	if (!fill(t, p + half, half, seed_of(me, 1)) || !show(t, p, len, all))
		return false;
	for (int i = 0; i < size; i++) {
		if (!OK(gpu_map(t->g, peer_of(t, i), &all[i].where, all[i].len, &at)))
			return false;
		CHECK(i != me || at == p, "%s: own memory is not where it is", what);
		fill(t, at + piece * (size_t)me, piece, seed_of(me, 2));
		gpu_unmap(t->g, at);
	}
	if (!OK(oriel_barrier(t->r->world)))
		return false;
	for (int i = 0; i < size; i++)
		holds(t, p + piece * (size_t)i, piece, seed_of(i, 2), what);
	holds(t, p + half, half, seed_of(me, 1), what);
	return OK(oriel_barrier(t->r->world));
}

/* The ranks read one another's len bytes at p, and know what has to be there. */
static bool
read_all(const struct test *t, CUdeviceptr p, size_t len, uint64_t seed, const char *what)
{
	struct shown all[MAX_SHOWN];
	CUdeviceptr at;

	if (!fill(t, p, len, seed_of(t->r->rank, seed)) || !show(t, p, len, all))
		return false;
	for (int i = 0; i < t->r->size; i++) {
		if (!OK(gpu_map(t->g, peer_of(t, i), &all[i].where, all[i].len, &at)))
			return false;
		holds(t, at, all[i].len, seed_of(i, seed), what);
		gpu_unmap(t->g, at);
	}
	return OK(oriel_barrier(t->r->world));
}

static bool
pool_memory(const struct test *t)
{
	size_t len = 4 * MIB + 4096 + (size_t)t->r->rank * 64;
	void *p, *more;

	if (!OK(oriel_mem_alloc_device(t->r->ctx, len, 0, &p)) ||
	    !read_all(t, (CUdeviceptr)p, len, 3, "pool") ||
	    !write_all(t, (CUdeviceptr)p, 4 * MIB, "pool") ||
	    !read_all(t, (CUdeviceptr)p + 4096, 1000, 4, "part of the pool"))
		return false;
	/* More than the first slab has. */
	if (!OK(oriel_mem_alloc_device(t->r->ctx, 40 * MIB, 0, &more)) ||
	    !read_all(t, (CUdeviceptr)more + 39 * MIB, MIB, 5, "second slab"))
		return false;
	OK(oriel_mem_free(t->r->ctx, more));
	return OK(oriel_mem_free(t->r->ctx, p));
}

static bool
other_memory(const struct test *t)
{
	CUdeviceptr small[2], big;
	struct gpu_where w;

	if (!GOOD(CU(cuMemAlloc)(&small[0], 1000)) || !GOOD(CU(cuMemAlloc)(&small[1], 5000)) ||
	    !GOOD(CU(cuMemAlloc)(&big, 3 * MIB)))
		return false;
	FAILS(ORIEL_EINVAL, gpu_describe(t->g, (void *)(big + MIB), 2 * MIB + 1, &w));
	FAILS(ORIEL_EINVAL, gpu_describe(t->g, &w, sizeof(w), &w));
	if (!read_all(t, small[0], 1000, 1, "1000 bytes") ||
	    !read_all(t, small[1] + 96, 4000, 2, "part of 5000 bytes") ||
	    !read_all(t, big, 3 * MIB, 3, "cuMemAlloc") ||
	    !read_all(t, big + MIB + 4, MIB, 4, "part of cuMemAlloc") ||
	    !write_all(t, big, 3 * MIB, "cuMemAlloc"))
		return false;
	for (int i = 0; i < 2; i++)
		GOOD(CU(cuMemFree)(small[i]));
	return GOOD(CU(cuMemFree)(big));
}

/* The same address is another allocation after it was freed; nobody takes it for the old one. */
static bool
freed_and_reused(const struct test *t)
{
	struct gpu_where old = { 0 }, new;
	CUdeviceptr p;
	int reused = 0;

	for (uint64_t round = 0; round < 8; round++) {
		if (!GOOD(CU(cuMemAlloc)(&p, MIB)) || !OK(gpu_describe(t->g, (void *)p, MIB, &new)))
			return false;
		CHECK(round == 0 || new.buffer != old.buffer, "two allocations are number %llu",
		      (unsigned long long)new.buffer);
		reused += round && new.addr == old.addr;
		if (!read_all(t, p, MIB, 10 + round, "reused") || !GOOD(CU(cuMemFree)(p)))
			return false;
		old = new;
	}
	/* Another rank of the process may have been given the address meanwhile. */
	if (!t->r->threads)
		FAILS(ORIEL_EINVAL, gpu_describe(t->g, (void *)p, MIB, &new));
	if (t->r->rank == 0)
		ranks_say(NULL, 0, "%d of 7 allocations came at the address of the one before",
		          reused);
	return true;
}

/* A mapping stays while it is used, also when the peer's memory there is another one by now. */
static bool
stale_but_used(const struct test *t)
{
	struct shown old[MAX_SHOWN], all[MAX_SHOWN];
	CUdeviceptr p, used, at;
	struct peer *next = peer_of(t, t->next);
	unsigned idle;

	gpu_tidy(t->g, 0);
	if (!GOOD(CU(cuMemAlloc)(&p, MIB)) || !fill(t, p, MIB, seed_of(t->r->rank, 1)) ||
	    !show(t, p, MIB, old) || !OK(gpu_map(t->g, next, &old[t->next].where, MIB, &used)) ||
	    !holds(t, used, MIB, seed_of(t->next, 1), "before") ||
	    !OK(oriel_barrier(t->r->world)) || !GOOD(CU(cuMemFree)(p)) ||
	    !GOOD(CU(cuMemAlloc)(&p, MIB)) || !read_all(t, p, MIB, 2, "meanwhile") ||
	    !show(t, p, MIB, all) || !OK(gpu_map(t->g, next, &all[t->next].where, MIB, &at)))
		return false;
	holds(t, at, MIB, seed_of(t->next, 2), "after");
	if (!next->same_process)
		CHECK(at != used, "one address for two allocations");
	/* Neither is closed: they are in use. */
	gpu_tidy(t->g, 0);
	holds(t, at, MIB, seed_of(t->next, 2), "after");
	if (!next->same_process)
		holds(t, used, MIB, seed_of(t->next, 1), "still open");
	gpu_unmap(t->g, used);
	/* The old one is, though many may be kept, if it shows that it was freed. */
	idle = t->g->mem->n_idle;
	gpu_tidy(t->g, GPU_IDLE);
	if (!next->same_process && all[t->next].where.addr == old[t->next].where.addr)
		CHECK(t->g->mem->n_idle < idle, "memory that was freed is kept");
	holds(t, at, MIB, seed_of(t->next, 2), "after the old one was closed");
	gpu_unmap(t->g, at);
	return OK(oriel_barrier(t->r->world)) && GOOD(CU(cuMemFree)(p));
}

#define MANY (GPU_IDLE + 40)

/* More allocations than are kept open. */
static bool
many(const struct test *t)
{
	static __thread CUdeviceptr p[MANY], at[MANY];
	static __thread struct shown all[MANY][MAX_SHOWN];
	struct peer *next = peer_of(t, t->next);

	for (int i = 0; i < MANY; i++)
		if (!GOOD(CU(cuMemAlloc)(&p[i], 4096)) ||
		    !fill(t, p[i], 4096, seed_of(t->r->rank, 100 + (uint64_t)i)) ||
		    !show(t, p[i], 4096, all[i]))
			return false;
	for (int round = 0; round < 2; round++) {
		/* One at a time, then all at once. */
		for (int i = 0; i < MANY; i++) {
			if (!OK(gpu_map(t->g, next, &all[i][t->next].where, 4096, &at[i])))
				return false;
			if (!round)
				gpu_unmap(t->g, at[i]);
		}
		for (int i = 0; i < MANY && round; i++)
			holds(t, at[i], 4096, seed_of(t->next, 100 + (uint64_t)i), "many");
		for (int i = 0; i < MANY && round; i++)
			gpu_unmap(t->g, at[i]);
	}
	if (!next->same_process)
		CHECK(t->g->mem->n_idle >= MANY, "%u allocations are open", t->g->mem->n_idle);
	gpu_tidy(t->g, GPU_IDLE);
	CHECK(t->g->mem->n_idle <= GPU_IDLE, "%u allocations are kept", t->g->mem->n_idle);
	/* The newest are kept, and are as they were. */
	if (!OK(gpu_map(t->g, next, &all[MANY - 1][t->next].where, 4096, &at[0])))
		return false;
	CHECK(at[0] == at[MANY - 1], "the newest was closed");
	gpu_unmap(t->g, at[0]);
	gpu_tidy(t->g, 0);
	CHECK(!t->g->mem->n_idle && !t->g->mem->opened, "not all is closed");
	if (!OK(oriel_barrier(t->r->world)))
		return false;
	for (int i = 0; i < MANY; i++)
		GOOD(CU(cuMemFree)(p[i]));
	return true;
}

static bool
unshareable_memory(const struct test *t)
{
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle handle;
	CUmemAccessDesc access;
	CUdeviceptr p;
	struct gpu_where w;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = t->g->dev;
	memset(&access, 0, sizeof(access));
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (!GOOD(CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0)) ||
	    !GOOD(CU(cuMemAddressReserve)(&p, 2 * MIB, 0, 0, 0)) ||
	    !GOOD(CU(cuMemMap)(p, 2 * MIB, 0, handle, 0)) ||
	    !GOOD(CU(cuMemSetAccess)(p, 2 * MIB, &access, 1)))
		return false;
	FAILS(ORIEL_ENOTSUP, gpu_describe(t->g, (void *)(p + 100), 64, &w));
	CHECK(strstr(oriel_detail(), "expandable segments"), "%s", oriel_detail());
	return GOOD(CU(cuMemUnmap)(p, 2 * MIB)) && GOOD(CU(cuMemAddressFree)(p, 2 * MIB)) &&
	       GOOD(CU(cuMemRelease)(handle));
}

/* What a peer says is not believed. */
static bool
bad_descriptions(const struct test *t)
{
	struct peer *next = peer_of(t, t->next);
	struct shown pool[MAX_SHOWN], other[MAX_SHOWN];
	struct gpu_where w;
	CUdeviceptr at = 7, foreign;
	void *p;

	if (!OK(oriel_mem_alloc_device(t->r->ctx, 4096, 0, &p)) ||
	    !GOOD(CU(cuMemAlloc)(&foreign, MIB)) || !show(t, (CUdeviceptr)p, 4096, pool) ||
	    !show(t, foreign + 4096, 4096, other))
		return false;
	w = pool[t->next].where;
	FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, SIZE_MAX - 100, &at));
	FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, w.size - w.offset + 1, &at));
	if (w.kind == GPU_WHERE_POOL) {
		w.slab = POOL_MAX_SLABS - 1;
		FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, 64, &at));
		w.slab = UINT32_MAX;
		FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, 64, &at));
	}
	w.kind = 77;
	FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, 64, &at));
	w = other[t->next].where;
	FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, MIB, &at));
	if (!next->same_process) {
		w.size += 64 * MIB; /* the allocation is smaller */
		FAILS(ORIEL_EPEER, gpu_map(t->g, next, &w, 8 * MIB, &at));
		w = other[t->next].where;
		memset(w.handle, 0x5a, sizeof(w.handle));
		CHECK(gpu_map(t->g, next, &w, 64, &at), "a handle of nonsense is opened");
	}
	CHECK(at == 7, "an error wrote");
	return OK(oriel_barrier(t->r->world)) && GOOD(CU(cuMemFree)(foreign)) &&
	       OK(oriel_mem_free(t->r->ctx, p));
}

/* ---- Host words ---- */

/* Streams hand a number round: each waits for its word and writes the next rank's. */
static bool
words_of_streams(const struct test *t)
{
	size_t at[] = { 8, 65536 - 8, 65536, 3 * 65536 + 64 };
	struct peer *next = peer_of(t, t->next);
	void *base, *theirs;
	CUdeviceptr mine, far;
	CUstream s = t->g->stream[0];
	oriel_win *win;

	if (!OK(oriel_win_alloc(t->r->world, 4 * 65536, 0, &base, &win)) ||
	    !OK(oriel_win_ptr(win, t->next, &theirs)))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		uint64_t value = 5 + i;

		if (!OK(gpu_host(t->g, NULL, (char *)base + at[i], 8, &mine)) ||
		    !OK(gpu_host(t->g, next, (char *)theirs + at[i], 8, &far)))
			return false;
		if (t->r->rank == 0)
			GOOD(CU(cuStreamWriteValue64)(s, far, value, 0));
		GOOD(CU(cuStreamWaitValue64)(s, mine, value, CU_STREAM_WAIT_VALUE_GEQ));
		if (t->r->rank)
			GOOD(CU(cuStreamWriteValue64)(s, far, value, 0));
	}
	GOOD(CU(cuStreamSynchronize)(s));
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		CHECK(*(volatile uint64_t *)((char *)base + at[i]) == 5 + i,
		      "word %zu: the processor does not see what the stream has seen", i);
	/* The whole of it, also where it is pinned already. */
	OK(gpu_host(t->g, NULL, base, 4 * 65536, &mine));
	OK(gpu_host(t->g, next, theirs, 4 * 65536, &far));
	FAILS(ORIEL_EINVAL, gpu_host(t->g, NULL, &mine, 8, &mine));
	return OK(oriel_win_free(win));
}

/* While a stream waits for a word that only this thread writes, these calls return all the same. */
static bool
nothing_waits_for_streams(const struct test *t)
{
	struct peer *next = peer_of(t, t->next);
	struct shown pool[MAX_SHOWN], other[MAX_SHOWN];
	CUdeviceptr word, p, at[2], big;
	uint64_t *base;
	oriel_win *win;
	void *v, *more;

	if (!OK(oriel_win_alloc(t->r->world, 4 * 65536, 0, &v, &win)) ||
	    !OK(gpu_host(t->g, NULL, v, 8, &word)) || !GOOD(CU(cuMemAlloc)(&p, MIB)) ||
	    !GOOD(CU(cuStreamWaitValue64)(t->g->stream[1], word, 1, CU_STREAM_WAIT_VALUE_GEQ)))
		return false;
	base = v;
	if (!OK(oriel_mem_alloc_device(t->r->ctx, 20 * MIB, 0, &more)) ||
	    !show(t, (CUdeviceptr)more, 20 * MIB, pool) || !show(t, p, MIB, other) ||
	    !OK(gpu_map(t->g, next, &pool[t->next].where, 20 * MIB, &at[0])) ||
	    !OK(gpu_map(t->g, next, &other[t->next].where, MIB, &at[1])) ||
	    !OK(gpu_host(t->g, NULL, (char *)v + 2 * 65536, 8, &big)))
		return false;
	CHECK(gpu_kind(t->g, (void *)p, NULL) == GPU_DEVICE &&
	              gpu_kind(t->g, v, NULL) == GPU_PINNED,
	      "kinds");
	gpu_unmap(t->g, at[0]);
	gpu_unmap(t->g, at[1]);
	OK(oriel_mem_free(t->r->ctx, more));
	CHECK(CU(cuStreamQuery)(t->g->stream[1]) == CUDA_ERROR_NOT_READY, "the stream went on");
	__atomic_store_n(base, 1, __ATOMIC_RELEASE);
	GOOD(CU(cuStreamSynchronize)(t->g->stream[1]));
	return OK(oriel_barrier(t->r->world)) && GOOD(CU(cuMemFree)(p)) && OK(oriel_win_free(win));
}

/* Pages that are pinned stay: the GPU would keep the old ones. */
static bool
pages_stay(const struct test *t)
{
	uint64_t *p, *again;
	CUdeviceptr at;
	void *v;

	if (!OK(oriel_mem_alloc(t->r->ctx, 4 * MIB, 0, &v)))
		return false;
	p = v;
	OK(gpu_host(t->g, NULL, p + 131072, 8, &at));
	p[131072] = 1;
	OK(oriel_mem_free(t->r->ctx, p));
	CHECK(p[131072] == 1, "the page was dropped");
	if (!OK(pool_alloc_zeroed(t->r->ctx->pool, 4 * MIB, 0, &v)))
		return false;
	again = v;
	CHECK(again == p, "other memory: this tests nothing");
	CHECK(again[131072] == 0, "not zero");
	GOOD(CU(cuStreamWriteValue64)(t->g->stream[0], at, 9, 0));
	GOOD(CU(cuStreamSynchronize)(t->g->stream[0]));
	CHECK(*(volatile uint64_t *)&again[131072] == 9,
	      "a stream has written to pages that were dropped");
	return OK(oriel_mem_free(t->r->ctx, again));
}

/* ---- What a pointer is ---- */

static bool
kinds(const struct test *t)
{
	char *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int dev = -1;
	CUdeviceptr p;
	void *pool;

	if (!NEED(host != MAP_FAILED, "no memory") ||
	    !OK(oriel_mem_alloc_device(t->r->ctx, 64, 0, &pool)) || !GOOD(CU(cuMemAlloc)(&p, 64)))
		return false;
	CHECK(gpu_kind(t->g, host, &dev) == GPU_HOST && dev == -1, "host memory");
	GOOD(CU(cuMemHostRegister)(host, 4096, CU_MEMHOSTREGISTER_PORTABLE));
	CHECK(gpu_kind(t->g, host + 100, &dev) == GPU_PINNED && dev == -1, "pinned memory");
	GOOD(CU(cuMemHostUnregister)(host));
	CHECK(gpu_kind(t->g, pool, &dev) == GPU_DEVICE && dev == t->g->dev, "pool");
	dev = -1;
	CHECK(gpu_kind(t->g, (void *)(p + 63), &dev) == GPU_DEVICE && dev == t->g->dev,
	      "cuMemAlloc");
	CHECK(gpu_kind(t->g, pool, NULL) == GPU_DEVICE, "without a device");
	munmap(host, 4096);
	return GOOD(CU(cuMemFree)(p)) && OK(oriel_mem_free(t->r->ctx, pool));
}

/* Memory of another device of the process, which the context has not used before. */
static bool
other_device(const struct test *t)
{
	CUcontext other;
	CUdeviceptr p;
	int n = 0, dev = -1, far;

	GOOD(CU(cuDeviceGetCount)(&n));
	if (n < 2)
		return true;
	far = (t->g->dev + 1) % n;
	if (!GOOD(CU(cuDevicePrimaryCtxRetain)(&other, far)) ||
	    !GOOD(CU(cuCtxPushCurrent)(other)) || !GOOD(CU(cuMemAlloc)(&p, MIB)) ||
	    !GOOD(CU(cuCtxPopCurrent)(&other)))
		return false;
	CHECK(gpu_kind(t->g, (void *)p, &dev) == GPU_DEVICE && dev == far, "on device %d", dev);
	/* Peers get it as any other: its device is another one than the context's. */
	if (!read_all(t, p, MIB, 50, "another device"))
		return false;
	GOOD(CU(cuCtxPushCurrent)(other));
	GOOD(CU(cuMemFree)(p));
	GOOD(CU(cuCtxPopCurrent)(&other));
	return GOOD(CU(cuDevicePrimaryCtxRelease)(far));
}

/* ---- PyTorch's allocator ---- */

static bool
torch(const struct test *t)
{
	int dev = t->g->dev;
	struct oriel_mem_stats s;
	CUstream stream = t->g->stream[0];
	void *p, *q;

	/* One rank of the process at a time: the table is the process's. */
	for (int i = 0; i < t->r->size; i++) {
		if (t->r->threads && !OK(oriel_barrier(t->r->world)))
			return false;
		if (t->r->threads && i != t->r->rank)
			continue;
		OK(oriel_torch_use(NULL));
		CHECK(!oriel_torch_alloc(64, dev, stream), "no context, and memory");
		CHECK(strstr(oriel_detail(), "oriel_torch_use"), "%s", oriel_detail());
		OK(oriel_torch_use(t->r->ctx));
		CHECK(!oriel_torch_alloc(64, dev + 1, stream), "of another device");
		CHECK(!oriel_torch_alloc(-1, dev, stream), "of no size");
		CHECK(!oriel_torch_alloc((ssize_t)MAX_POOL + 1, dev, stream), "too much");
		p = oriel_torch_alloc(2 << 20, dev, stream);
		q = oriel_torch_alloc(0, dev, NULL);
		CHECK(p && q && p != q, "%s", oriel_detail());
		CHECK(gpu_pool(t->r->ctx) && gpu_kind(t->g, p, NULL) == GPU_DEVICE, "%p", p);
		fill(t, (CUdeviceptr)p, 2 << 20, 1);
		oriel_torch_free(p, 2 << 20, dev, stream);
		oriel_torch_free(q, 0, dev, NULL);
		oriel_torch_free(NULL, 0, dev, NULL);
		OK(oriel_mem_stats_device(t->r->ctx, &s));
		CHECK(!s.allocations, "%zu allocations are left", s.allocations);
	}
	return OK(oriel_barrier(t->r->world));
}

static int
run_all(const struct test *t)
{
	/* exhaustion is last: it leaves no room for more slabs. */
	static bool (*const all[])(const struct test *) = {
		sizes_and_alignments,
		zeroed,
		pool_memory,
		other_memory,
		freed_and_reused,
		stale_but_used,
		many,
		unshareable_memory,
		bad_descriptions,
		words_of_streams,
		nothing_waits_for_streams,
		pages_stay,
		kinds,
		other_device,
		torch,
		exhaustion,
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!all[i](t))
			return 1;
	return 0;
}

static int
run(struct ranks *r)
{
	struct test t = { .r = r,
		          .next = (r->rank + 1) % r->size,
		          .before = (r->rank + r->size - 1) % r->size };
	bool entered;
	int rc;

	if (!OK(gpu_need(r->ctx, &t.g)) || !OK(gpu_enter(t.g, &entered)))
		return 1;
	if (ranks_flag("--refused") && strcmp(t.g->name, "stand-in"))
		return ranks_skip("only the stand-in can be told to make no descriptors");
	CHECK(!ranks_flag("--ipc") || !t.g->mem->by_fd, "descriptors are used all the same");
	if (!t.g->wait_values)
		return ranks_skip("the device's streams cannot wait for 64-bit words");
	rc = run_all(&t);
	CHECK(!ranks_flag("--refused") || !t.g->mem->by_fd, "descriptors were not refused");
	gpu_leave(entered);
	return rc;
}

int
main(int argc, char **argv)
{
	const char *knobs[] = { "ORIEL_GPU_POOL_MAX=96M", "ORIEL_GPU_POOL_SLAB=16M", NULL, NULL };
	const struct oriel_options options = { .size = sizeof(options), .knobs = knobs };

	/* --ipc: as where descriptors cannot be taken; --refused: that shows when one is made. */
	if (argc > 1 && !strcmp(argv[1], "--ipc"))
		knobs[2] = "ORIEL_GPU_SHARE=ipc";
	if (argc > 1 && !strcmp(argv[1], "--refused"))
		setenv("STANDIN_FAIL", "cuMemExportToShareableHandle:1", 1);
	return ranks_main(argc, argv, run, &options);
}
