/*
 * gpu_win.c - windows in memory of GPUs: host calls of every form, between all kinds of
 * memory, against a copy on the host; signals behind data; what is refused.
 *
 * Each rank's part is of another kind. Rank i writes only into its own piece of a part,
 * so it knows what has to be there.
 */
#include "test/ranks/gpu_test.h"

#define PIECE                                                                                      \
	((size_t)700 * 1024 + 24) /* of each rank in each part: more than all bounce buffers */
#define TAIL 1000                 /* behind the pieces: nobody writes it */
#define MAX_RANKS 8
#define SEGS 5

struct area {
	struct test *t;
	struct buffer part, tail;
	size_t size;
	oriel_win *win;
	unsigned char *known[MAX_RANKS]; /* what is in my piece of each part */
	bool has[MAX_RANKS];             /* the rank has a part */
	struct buffer local[N_KINDS];
	unsigned char *host; /* PIECE bytes */
};

/* What a rank brings in a variant; N_KINDS: nothing. */
static enum kind
kind_of(int rank, int variant)
{
	return (enum kind)((rank + variant) % (N_KINDS + 1));
}

static bool
area_open(struct area *a, struct test *t, int variant)
{
	struct ranks *r = t->r;
	enum kind kind = kind_of(r->rank, variant);
	unsigned char *zero = calloc(1, (size_t)r->size * PIECE + TAIL);
	bool ok = NEED(zero, "no memory");

	memset(a, 0, sizeof(*a));
	a->t = t;
	a->size = kind == N_KINDS ? 0 : (size_t)r->size * PIECE + TAIL;
	a->host = malloc(PIECE);
	for (int i = 0; i < r->size; i++) {
		a->known[i] = calloc(1, PIECE);
		a->has[i] = kind_of(i, variant) != N_KINDS;
	}
	/* 64 bytes in: windows over a part of an allocation. */
	if (ok && a->size)
		ok = buffer_make(t, kind, a->size + 64, &a->part) &&
		     buffer_write(t, &a->part, 64, zero, a->size);
	for (int k = 0; k < N_KINDS && ok; k++)
		ok = buffer_make(t, (enum kind)k, PIECE, &a->local[k]);
	free(zero);
	return ok &&
	       OK(oriel_win_create(r->world, a->size ? a->part.p + 64 : NULL, a->size, 8, &a->win));
}

static bool
area_close(struct area *a)
{
	bool ok = OK(oriel_win_free(a->win));

	if (a->size)
		buffer_free(a->t, &a->part);
	for (int k = 0; k < N_KINDS; k++)
		buffer_free(a->t, &a->local[k]);
	for (int i = 0; i < a->t->r->size; i++)
		free(a->known[i]);
	free(a->host);
	return ok;
}

static size_t
my_piece(const struct area *a)
{
	return (size_t)a->t->r->rank * PIECE;
}

/* Mostly small ones, now and then all of it. */
static size_t
random_len(struct ranks *r)
{
	static const size_t most[] = { 16, 300, 5000, 70000, PIECE };

	return ranks_random(r, most[ranks_random(r, 5)] + 1);
}

/* ---- Moves ---- */

struct move {
	int target;
	struct buffer *local;
	size_t off, at, len; /* in the local buffer, in the piece */
	bool done;           /* by its request: no flush is needed */
};

static struct move
random_move(struct area *a)
{
	struct ranks *r = a->t->r;
	struct move m;

	do
		m.target = (int)ranks_random(r, (uint64_t)r->size);
	while (!a->has[m.target]);
	m.local = &a->local[ranks_random(r, N_KINDS)];
	m.len = random_len(r);
	m.off = ranks_random(r, PIECE - m.len + 1);
	m.at = ranks_random(r, PIECE - m.len + 1);
	m.done = false;
	return m;
}

/* Pieces of a move, in order, with gaps on neither side. */
static size_t
split(struct area *a, const struct move *m, struct oriel_seg *segs)
{
	size_t at = 0;

	for (int i = 0; i < SEGS; i++) {
		size_t n = i == SEGS - 1 ? m->len - at : ranks_random(a->t->r, m->len - at + 1);

		segs[i] = (struct oriel_seg){ my_piece(a) + m->at + at, m->local->p + m->off + at,
			                      n };
		at += n;
	}
	return SEGS;
}

static int
issue(struct area *a, struct move *m, bool is_put)
{
	size_t disp = my_piece(a) + m->at, half = m->len / 2;
	char *p = m->local->p + m->off;
	struct oriel_seg segs[SEGS];
	oriel_req *req = NULL;
	int rc;

	switch (ranks_random(a->t->r, 4)) {
	case 0:
		return is_put ? oriel_put(a->win, m->target, disp, p, m->len)
		              : oriel_get(a->win, m->target, disp, p, m->len);
	case 1:
		split(a, m, segs);
		return is_put ? oriel_put_list(a->win, m->target, segs, SEGS)
		              : oriel_get_list(a->win, m->target, segs, SEGS);
	case 2: /* Two blocks, and one more byte if the length is odd. */
		rc = is_put ? oriel_put_strided(a->win, m->target, disp, half, p, half, half, 2)
		            : oriel_get_strided(a->win, m->target, disp, half, p, half, half, 2);
		if (rc || m->len % 2 == 0)
			return rc;
		return is_put ? oriel_put(a->win, m->target, disp + 2 * half, p + 2 * half, 1)
		              : oriel_get(a->win, m->target, disp + 2 * half, p + 2 * half, 1);
	default:
		rc = is_put ? oriel_rput(a->win, m->target, disp, p, m->len, &req)
		            : oriel_rget(a->win, m->target, disp, p, m->len, &req);
		m->done = !rc;
		return rc ? rc : oriel_req_wait(&req, RANKS_WAIT_NS);
	}
}

static bool
random_put(struct area *a, uint64_t seed)
{
	struct move m = random_move(a);
	unsigned char *known = a->known[m.target] + m.at;

	pattern(known, seed, m.len);
	return buffer_write(a->t, m.local, m.off, known, m.len) && OK(issue(a, &m, true)) &&
	       (m.done || OK(oriel_flush_local(a->win, m.target))) &&
	       /* The source is ours again. */
	       (memset(a->host, 0xee, m.len), buffer_write(a->t, m.local, m.off, a->host, m.len));
}

static bool
random_get(struct area *a)
{
	struct move m = random_move(a);
	size_t i;

	memset(a->host, 0xdd, m.len);
	if (!buffer_write(a->t, m.local, m.off, a->host, m.len) ||
	    !OK(oriel_flush(a->win, m.target)) || !OK(issue(a, &m, false)) ||
	    (!m.done && !OK(oriel_flush_local(a->win, m.target))) ||
	    !buffer_read(a->t, m.local, m.off, a->host, m.len))
		return false;
	i = mismatch(a->host, a->known[m.target] + m.at, m.len);
	return CHECK(i == m.len,
	             "byte %zu of %zu got from rank %d at %zu into memory of kind %d is %x, not %x",
	             i, m.len, m.target, m.at, m.local->kind, a->host[i],
	             a->known[m.target][m.at + i]);
}

/* Many puts from memory that is not pinned, and no flush: more than the library has buffers for. */
static bool
burst(struct area *a)
{
	struct ranks *r = a->t->r;
	size_t len = 20000, n = PIECE / len;

	for (int turn = 0; turn < 3; turn++)
		for (int i = 0; i < r->size; i++) {
			if (!a->has[i])
				continue;
			pattern(a->known[i], (uint64_t)(r->rank * 100 + i * 10 + turn), n * len);
			memcpy(a->host, a->known[i], n * len);
			for (size_t k = 0; k < n; k++)
				if (!OK(oriel_put(a->win, i, my_piece(a) + k * len,
				                  a->host + k * len, len)))
					return false;
			if (!OK(oriel_flush_local(a->win, i)))
				return false;
		}
	return true;
}

/* All pieces of this rank's part hold what the others say, and the tail nothing. */
static bool
check_part(struct area *a)
{
	struct ranks *r = a->t->r;
	uint64_t sum[MAX_RANKS], theirs[MAX_RANKS], mine;
	bool ok = true;

	for (int i = 0; i < r->size; i++) {
		sum[i] = 0;
		for (size_t k = 0; k < PIECE; k++)
			sum[i] = sum[i] * 31 + a->known[i][k];
	}
	if (!OK(oriel_flush_all(a->win)) ||
	    !OK(oriel_alltoall(r->world, sum, theirs, sizeof(sum[0]))))
		return false;
	for (int i = 0; i < r->size && a->size && ok; i++) {
		ok = buffer_read(a->t, &a->part, 64 + (size_t)i * PIECE, a->host, PIECE);
		mine = 0;
		for (size_t k = 0; k < PIECE; k++)
			mine = mine * 31 + a->host[k];
		ok = ok && CHECK(mine == theirs[i], "rank %d's piece is not what it has put", i);
	}
	if (a->size && ok)
		ok = buffer_read(a->t, &a->part, 64 + a->size - TAIL, a->host, TAIL);
	for (size_t k = 0; k < TAIL && a->size && ok; k++)
		ok = CHECK(!a->host[k], "byte %zu of the tail is %x", k, a->host[k]);
	return OK(oriel_barrier(r->world)) && ok;
}

static bool
moves(struct test *t)
{
	uint64_t rounds = t->r->rounds ? t->r->rounds : 60;
	struct area a;

	for (int variant = 0; variant <= N_KINDS; variant++) {
		/* Alone, and without a part of its own, there is nobody to write to. */
		if (t->r->size == 1 && kind_of(0, variant) == N_KINDS)
			continue;
		if (!area_open(&a, t, variant))
			return false;
		for (uint64_t i = 0; i < rounds; i++)
			if (!random_put(&a, (uint64_t)(t->r->rank + 1) * 1000 + i) ||
			    (i % 3 == 0 && !random_get(&a)))
				return false;
		if (!burst(&a) || !check_part(&a) || !area_close(&a))
			return false;
	}
	return true;
}

/* ---- Signals ---- */

enum { DATA = 0, ADDED, ACK };

/* Whoever sees the signal finds the data, from whatever memory it came. */
static bool
signals(struct test *t)
{
	struct ranks *r = t->r;
	uint64_t rounds = r->rounds ? 4 * r->rounds : 200, added = 0, most = 200000;
	struct buffer local[N_KINDS], part;
	unsigned char *host = malloc(most), *want = malloc(most);
	uint64_t same = r->seed;
	oriel_win *win;
	void *base;

	if (!NEED(host && want, "no memory") ||
	    !OK(oriel_win_alloc_device(r->world, most, 4, &base, &win)))
		return false;
	part = (struct buffer){ DEVICE_POOL, most, base };
	for (int k = 0; k < N_KINDS; k++)
		if (!buffer_make(t, (enum kind)k, most, &local[k]))
			return false;
	for (uint64_t i = 1; i <= rounds; i++) {
		bool add = ranks_next(&same) % 4 == 0, first = ranks_next(&same) % 2;
		size_t len = ranks_next(&same) % (ranks_next(&same) % 2 ? 100 : most);
		struct buffer *src = &local[ranks_random(r, N_KINDS)];
		size_t half = first ? len / 2 : 0, k;

		pattern(host, i * 100 + (uint64_t)r->rank, len);
		if (!buffer_write(t, src, 0, host, len) ||
		    !OK(oriel_put(win, t->right, 0, src->p, half)) ||
		    !OK(oriel_put_signal(win, t->right, half, src->p + half, len - half,
		                         add ? ADDED : DATA,
		                         add ? ORIEL_SIGNAL_ADD : ORIEL_SIGNAL_SET, add ? 3 : i)))
			return false;
		added += add ? 3 : 0;
		if (!OK(oriel_signal_wait(win, add ? ADDED : DATA, ORIEL_GE, add ? added : i,
		                          RANKS_WAIT_NS, NULL)) ||
		    !buffer_read(t, &part, 0, host, len))
			return false;
		pattern(want, i * 100 + (uint64_t)t->left, len);
		k = mismatch(host, want, len);
		if (!CHECK(k == len, "round %lu: byte %zu of %zu is %x and not %x",
		           (unsigned long)i, k, len, host[k], want[k]) ||
		    !OK(oriel_signal(win, t->left, ACK, ORIEL_SIGNAL_SET, i)) ||
		    !OK(oriel_signal_wait(win, ACK, ORIEL_EQ, i, RANKS_WAIT_NS, NULL)))
			return false;
	}
	for (int k = 0; k < N_KINDS; k++)
		buffer_free(t, &local[k]);
	free(host);
	free(want);
	return OK(oriel_win_free(win));
}

/* ---- The rest ---- */

static bool
queries(struct test *t)
{
	struct ranks *r = t->r;
	char text[256], word[64];
	size_t size, n;
	oriel_win *win;
	void *base, *p;
	CUdeviceptr at;

	if (!OK(oriel_win_alloc_device(r->world, 5000, 3, &base, &win)))
		return false;
	OK(oriel_win_ptr(win, r->rank, &p));
	CHECK(p == base, "%p and not %p", p, base);
	OK(oriel_win_query(win, t->right, &size, &n));
	CHECK(size == 5000 && n == 3, "%zu bytes, %zu signals", size, n);
	OK(oriel_win_ptr(win, t->right, &p));
	/* It is an address for the GPU, and new memory of a window is zeroed. */
	memset(word, 1, sizeof(word));
	copy_now(t, word, (char *)p + 4900, sizeof(word));
	for (size_t i = 0; i < sizeof(word); i++)
		CHECK(!word[i], "byte %zu is %d", i, word[i]);
	OK(oriel_barrier(r->world));
	at = (CUdeviceptr)p + 100 + 8 * (unsigned)r->rank;
	copy_now(t, (void *)at, "written", 8);
	OK(oriel_get(win, t->right, 100 + 8 * (size_t)r->rank, word, 8));
	OK(oriel_flush(win, t->right));
	CHECK(!strcmp(word, "written"), "%.8s", word);
	CHECK(oriel_path(r->world, t->right, 2, text, sizeof(text)) > 0 &&
	              !strncmp(text, "ce (", 4),
	      "%s", text);
	return OK(oriel_win_free(win));
}

static bool
refused(struct test *t)
{
	struct ranks *r = t->r;
	oriel_win *win, *host;
	void *base, *words;
	uint64_t one = 1, old;

	if (!OK(oriel_win_alloc_device(r->world, 4096, 2, &base, &win)) ||
	    !OK(oriel_win_alloc(r->world, 4096, 2, &words, &host)))
		return false;
	FAILS(ORIEL_ENOTSUP, oriel_fetch_add(win, t->right, 0, 1, &old));
	FAILS(ORIEL_ENOTSUP, oriel_compare_swap(win, r->rank, 0, 0, 1, &old));
	FAILS(ORIEL_ENOTSUP, oriel_accumulate(win, t->right, 0, &one, 1, ORIEL_UINT64));
	CHECK(strstr(oriel_detail(), "memory of a GPU"), "%s", oriel_detail());
	FAILS(ORIEL_ENOTSUP, oriel_accumulate(host, t->right, 0, base, 1, ORIEL_UINT64));
	FAILS(ORIEL_ERANGE, oriel_put(win, t->right, 4090, &one, 8));
	FAILS(ORIEL_ERANGE, oriel_put_signal(win, t->right, 0, &one, 8, 2, ORIEL_SIGNAL_SET, 1));
	FAILS(ORIEL_EINVAL, oriel_get(win, t->right, 0, NULL, 8));
	/* More than the allocation has: all ranks learn of it. */
	FAILS(ORIEL_EINVAL, oriel_win_create(r->world, r->rank ? base : (char *)base + 64,
	                                     r->rank ? 64 : (size_t)1 << 40, 0, &win));
	return OK(oriel_win_free(host)) && OK(oriel_win_free(win));
}

/* Windows come and go, and memory of cuMemAlloc with them. */
static bool
many(struct test *t)
{
	struct buffer b;
	char word[8];
	oriel_win *win;

	for (int i = 0; i < 100; i++) {
		if (!buffer_make(t, DEVICE_PLAIN, 4096 + (size_t)i * 512, &b) ||
		    !OK(oriel_win_create(t->r->world, b.p, b.len, 1, &win)))
			return false;
		snprintf(word, sizeof(word), "%d", i);
		if (!OK(oriel_put_signal(win, t->right, b.len - 8, word, 8, 0, ORIEL_SIGNAL_SET,
		                         1)) ||
		    !OK(oriel_signal_wait(win, 0, ORIEL_EQ, 1, RANKS_WAIT_NS, NULL)) ||
		    !buffer_read(t, &b, b.len - 8, word, 8))
			return false;
		CHECK(atol(word) == i, "%s and not %d", word, i); /* lint: allow */
		if (!OK(oriel_win_free(win)))
			return false;
		buffer_free(t, &b);
	}
	return true;
}

static int
run(struct ranks *r)
{
	static bool (*const all[])(struct test *) = { queries, refused, moves, signals, many };
	struct test t;
	bool ok = test_begin(&t, r);

	if (ok && !t.g->wait_values)
		return ranks_skip("the device's streams cannot wait for 64-bit words");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && ok; i++)
		ok = all[i](&t);
	if (ok)
		test_end(&t);
	return !ok;
}

RANKS_MAIN(run)
