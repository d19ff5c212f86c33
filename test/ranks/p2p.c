/*
 * p2p.c - send and receive between real ranks: sizes, tags, wildcards, order,
 * windows of many requests, floods, both directions, own rank, errors, threads.
 */
#include "test/ranks/ranks.h"

#include "test/ranks/memory.h"

#include <pthread.h>

#define MAX_LEN (1u << 20)
#define WINDOW 24

/* ---- Contents: every message says who sent it, with which tag and number ---- */

static unsigned char
byte_of(int from, int tag, uint64_t number, size_t i)
{
	uint64_t s = (uint64_t)from * 1000003 + (uint64_t)tag * 10007 + number * 101 + i / 8;

	return (unsigned char)(ranks_next(&s) >> i % 8 * 8);
}

static void
fill(unsigned char *p, size_t len, int from, int tag, uint64_t number)
{
	for (size_t i = 0; i < len; i++)
		p[i] = byte_of(from, tag, number, i);
}

static bool
holds(const unsigned char *p, size_t len, int from, int tag, uint64_t number)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != byte_of(from, tag, number, i))
			return CHECK(false,
			             "message %llu of rank %d, tag %d: byte %zu of %zu is %02x, "
			             "expected %02x",
			             (unsigned long long)number, from, tag, i, len, p[i],
			             byte_of(from, tag, number, i));
	return true;
}

/* Buffers of all tests; pool memory or ordinary memory. */
static unsigned char *
buffer(struct ranks *r, bool pool, size_t len)
{
	void *p = NULL;

	if (!pool)
		p = malloc(len ? len : 1);
	else if (!OK(oriel_mem_alloc(r->ctx, len, 64, &p)))
		return NULL;
	if (NEED(p != NULL, "no memory"))
		memset(p, 0xee, len);
	return p;
}

static void
buffer_free(struct ranks *r, bool pool, unsigned char *p)
{
	if (pool)
		OK(oriel_mem_free(r->ctx, p));
	else
		free(p);
}

/* ---- Every length, from every neighbour, at odd addresses ---- */

static const size_t lengths[] = { 0,    1,    8,    47,   48,    49,     100,
	                          8191, 8192, 8193, 9000, 16384, 100001, 1u << 20 };
#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static bool
sizes(struct ranks *r, bool pool, size_t off)
{
	unsigned char *out = buffer(r, pool, MAX_LEN + 64), *in = buffer(r, pool, MAX_LEN + 64);
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	bool ok = out && in;

	for (size_t i = 0; i < N_LENGTHS && ok; i++) {
		size_t len = lengths[i];
		struct oriel_status st = { -7, -7, 7 };

		fill(out + off, len, r->rank, 5, i);
		memset(in, 0xee, len + off + 1);
		/* The even ones send first; an odd number of ranks has a pair that must cross. */
		if (r->rank % 2 == 0 && r->rank != right) {
			ok &= OK(oriel_send(r->world, right, 5, out + off, len));
			ok &= OK(oriel_recv(r->world, left, 5, in + off, len, &st));
		} else {
			ok &= OK(oriel_sendrecv(r->world, right, 5, out + off, len, left, 5,
			                        in + off, len, &st));
		}
		ok &= CHECK(st.source == left && st.tag == 5 && st.len == len,
		            "status %d, %d, %zu, expected %d, 5, %zu", st.source, st.tag, st.len,
		            left, len);
		ok &= holds(in + off, len, left, 5, i);
		ok &= CHECK(in[off + len] == 0xee && (!off || in[off - 1] == 0xee),
		            "bytes around a message of %zu are overwritten", len);
	}
	buffer_free(r, pool, out);
	buffer_free(r, pool, in);
	return ok;
}

/* ---- Tags: received in another order than they were sent in ---- */

static bool
tags(struct ranks *r)
{
	enum { N = 40 };
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	static const size_t size_of[] = { 8, 300, 20000, 0, 48 };
	oriel_req *sends[N];
	unsigned char *out = malloc(N * 20000), in[20000];
	bool ok = NEED(out != NULL, "no memory");

	for (int i = 0; i < N && ok; i++) {
		fill(out + i * 20000, size_of[i % 5], r->rank, i, 0);
		ok = OK(oriel_isend(r->world, right, i, out + i * 20000, size_of[i % 5],
		                    &sends[i]));
	}
	for (int i = N - 1; i >= 0 && ok; i--) {
		ok = OK(oriel_recv(r->world, left, i, in, sizeof(in), NULL)) &&
		     holds(in, size_of[i % 5], left, i, 0);
	}
	ok = ok && OK(oriel_req_waitall(N, sends, RANKS_WAIT_NS));
	free(out);
	return ok;
}

/* ---- Wildcards: each source's messages in order, whoever comes first ---- */

static bool
take_anyones(struct ranks *r, uint64_t rounds)
{
	uint64_t *next = calloc((size_t)r->size, sizeof(*next));
	bool ok = NEED(next != NULL, "no memory");

	for (uint64_t i = 0; i < rounds * (uint64_t)(r->size - 1) && ok; i++) {
		unsigned char in[12000];
		struct oriel_status st;
		int tag = i % 3 ? ORIEL_ANY : 9;

		ok = OK(oriel_recv(r->world, ORIEL_ANY, tag, in, sizeof(in), &st));
		if (!ok)
			break;
		ok = CHECK(st.source > 0 && st.source < r->size && st.tag == 9, "from %d, tag %d",
		           st.source, st.tag) &&
		     holds(in, st.len, st.source, 9, next[st.source]++);
	}
	free(next);
	return ok;
}

static bool
wildcards(struct ranks *r, uint64_t rounds)
{
	unsigned char out[12000];
	bool ok = true;

	if (r->rank == 0)
		return take_anyones(r, rounds);
	for (uint64_t i = 0; i < rounds && ok; i++) {
		size_t len = ranks_random(r, 4) ? ranks_random(r, 60) : ranks_random(r, 12000);

		fill(out, len, r->rank, 9, i);
		ok = OK(oriel_send(r->world, 0, 9, out, len));
	}
	return ok;
}

/* The receive that was posted first gets the message, whether it names its source or not. */
static bool
post_order(struct ranks *r)
{
	int from = 1 % r->size, got[4] = { 0 };
	oriel_req *req[4];
	bool ok = true;

	if (r->rank == 0) {
		ok &= OK(oriel_irecv(r->world, ORIEL_ANY, 3, &got[0], 4, NULL, &req[0]));
		ok &= OK(oriel_irecv(r->world, from, 3, &got[1], 4, NULL, &req[1]));
		ok &= OK(oriel_irecv(r->world, from, ORIEL_ANY, &got[2], 4, NULL, &req[2]));
		ok &= OK(oriel_irecv(r->world, ORIEL_ANY, ORIEL_ANY, &got[3], 4, NULL, &req[3]));
	}
	ok &= OK(oriel_barrier(r->world));
	for (int i = 1; r->rank == from && i <= 4; i++)
		ok &= OK(oriel_send(r->world, 0, 3, &i, 4));
	if (r->rank == 0) {
		ok &= OK(oriel_req_waitall(4, req, RANKS_WAIT_NS));
		for (int i = 0; i < 4; i++)
			ok &= CHECK(got[i] == i + 1, "receive %d got message %d", i, got[i]);
	}
	return ok;
}

/* ---- Random traffic: all pairs, many requests under way, completed in any order ---- */

struct flow { /* of one pair, known to both ends from the seed */
	uint64_t random;
	uint64_t number;
};

static size_t
flow_next(struct flow *f, int *tag)
{
	static const size_t limits[] = { 9, 60, 600, 9000, 60000 };
	uint64_t limit = limits[ranks_next(&f->random) % 5];

	*tag = (int)(ranks_next(&f->random) % 4);
	f->number++;
	return (size_t)(ranks_next(&f->random) % limit);
}

struct slot {
	oriel_req *req;
	unsigned char *buf;
	struct oriel_status st;
	int peer, tag;
	uint64_t number;
	size_t len;
};

static bool
settle(struct ranks *r, struct slot *s, bool is_recv)
{
	if (is_recv &&
	    !(CHECK(s->st.source == s->peer && s->st.tag == s->tag && s->st.len == s->len,
	            "status %d, %d, %zu, expected %d, %d, %zu", s->st.source, s->st.tag, s->st.len,
	            s->peer, s->tag, s->len) &&
	      holds(s->buf, s->len, s->peer, s->tag, s->number)))
		return false;
	(void)r;
	free(s->buf);
	s->buf = NULL;
	return true;
}

/* Some request of the window, or all of them. */
static bool
drain(struct ranks *r, struct slot *w, bool is_recv, bool all)
{
	bool ok = true;

	for (unsigned i = 0; i < WINDOW && ok; i++) {
		int done = 0;

		if (!w[i].buf)
			continue;
		ok = all ? OK(oriel_req_wait(&w[i].req, RANKS_WAIT_NS))
		         : OK(oriel_req_test(&w[i].req, &done));
		if (ok && (all || done))
			ok = settle(r, &w[i], is_recv);
	}
	return ok;
}

static struct slot *
free_slot(struct slot *w)
{
	for (unsigned i = 0; i < WINDOW; i++)
		if (!w[i].buf)
			return &w[i];
	return NULL;
}

static bool
issue(struct ranks *r, struct slot *s, struct flow *f, int peer, bool is_recv)
{
	s->peer = peer;
	s->len = flow_next(f, &s->tag);
	s->number = f->number;
	s->buf = malloc(s->len + 1);
	if (!NEED(s->buf != NULL, "no memory"))
		return false;
	if (is_recv)
		return OK(oriel_irecv(r->world, peer, s->tag, s->buf, s->len, &s->st, &s->req));
	fill(s->buf, s->len, r->rank, s->tag, s->number);
	return OK(oriel_isend(r->world, peer, s->tag, s->buf, s->len, &s->req));
}

static bool
random_traffic(struct ranks *r, uint64_t rounds)
{
	struct flow *out = calloc((size_t)r->size, sizeof(*out)),
	            *in = calloc((size_t)r->size, sizeof(*in));
	struct slot sends[WINDOW] = { 0 }, recvs[WINDOW] = { 0 };
	uint64_t left = 2 * rounds * (uint64_t)r->size;
	bool ok = NEED(out && in, "no memory");

	for (int p = 0; p < r->size && ok; p++) {
		out[p].random = r->seed * 977 + (uint64_t)(r->rank * r->size + p);
		in[p].random = r->seed * 977 + (uint64_t)(p * r->size + r->rank);
	}
	while (ok && left) {
		int peer = (int)ranks_random(r, (uint64_t)r->size);
		bool is_recv = ranks_random(r, 2);
		struct flow *f = is_recv ? &in[peer] : &out[peer];
		struct slot *s = free_slot(is_recv ? recvs : sends);

		ok = drain(r, sends, false, false) && drain(r, recvs, true, false);
		if (!ok || !s || f->number == rounds)
			continue;
		left--;
		ok = issue(r, s, f, peer, is_recv);
	}
	ok = ok && drain(r, recvs, true, true) && drain(r, sends, false, true);
	free(out);
	free(in);
	return ok;
}

/* ---- A flood that nobody has asked for: memory stays flat, the sender waits ---- */

#define FLOOD_LEN 4000
#define FLOOD_MAX (8u << 20) /* the knob's 1 MiB a peer, and whatever else a run needs */

#define STANDS_STILL_NS (UINT64_C(300) * 1000000) /* then the sender has used up its credit */

/* Rank 1's part; it counts where rank 0 sees it. */
static bool
flood_out(struct ranks *r, oriel_win *win, uint64_t n)
{
	unsigned char buf[FLOOD_LEN];
	bool ok = true;

	memset(buf, 0, sizeof(buf));
	for (uint64_t i = 0; i < n && ok; i++) {
		fill(buf, 64, 1, 1, i);
		ok = OK(oriel_send(r->world, 0, 1, buf, sizeof(buf))) &&
		     OK(oriel_fetch_add(win, 0, 0, 1, NULL));
	}
	return ok;
}

static bool
flood_in(struct ranks *r, const uint64_t *count, uint64_t n)
{
	unsigned char buf[FLOOD_LEN];
	uint64_t seen = 0, since = ranks_now_ns(), now = since;
	size_t before = resident();
	bool ok = true;
	int found;

	/* Looks for something else while the flood comes. */
	while (ok && seen < n && now - since < STANDS_STILL_NS) {
		uint64_t sent = __atomic_load_n(count, __ATOMIC_RELAXED);

		ok = OK(oriel_probe(r->world, 0, 2, &found, NULL));
		now = ranks_now_ns();
		since = sent == seen && seen ? since : now;
		seen = sent;
	}
	ok &= CHECK(seen && seen < n, "%llu of %llu messages sent that nobody has asked for",
	            (unsigned long long)seen, (unsigned long long)n);
	ok &= CHECK(SANITIZED || resident() < before + FLOOD_MAX,
	            "%zu bytes more after %llu messages", resident() - before,
	            (unsigned long long)seen);
	for (uint64_t i = 0; i < n && ok; i++) {
		ok = OK(oriel_recv(r->world, 1, 1, buf, sizeof(buf), NULL)) &&
		     holds(buf, 64, 1, 1, i);
	}
	return ok;
}

static bool
flood(struct ranks *r, uint64_t n)
{
	oriel_win *win = NULL;
	uint64_t *count;
	bool ok = r->size > 1 && OK(oriel_win_alloc(r->world, 8, 0, (void **)&count, &win));

	if (ok && r->rank == 1)
		ok = flood_out(r, win, n);
	else if (ok && r->rank == 0)
		ok = flood_in(r, count, n);
	return r->size == 1 || (ok && OK(oriel_win_free(win)));
}

/* A receive behind more messages than the bound allows gets its message all the same. */
static bool
behind_flood(struct ranks *r, uint64_t n)
{
	unsigned char buf[FLOOD_LEN] = { 0 };
	bool ok = true;
	int found = 0, last = 0;

	if (r->size < 2 || r->rank > 1)
		return true;
	if (r->rank == 1) {
		for (uint64_t i = 0; i < n && ok; i++)
			ok = OK(oriel_send(r->world, 0, 1, buf, sizeof(buf)));
		last = 77;
		ok = ok && OK(oriel_send(r->world, 0, 2, &last, sizeof(last)));
		return ok && OK(oriel_send(r->world, 0, 3, &last, sizeof(last)));
	}
	ok = OK(oriel_recv(r->world, 1, 2, &last, sizeof(last), NULL));
	ok &= CHECK(last == 77, "seen %d", last);
	while (ok && !found)
		ok = OK(oriel_probe(r->world, 1, 3, &found, NULL));
	for (uint64_t i = 0; i < n && ok; i++)
		ok = OK(oriel_recv(r->world, ORIEL_ANY, 1, buf, sizeof(buf), NULL));
	return ok && OK(oriel_recv(r->world, 1, 3, &last, sizeof(last), NULL));
}

/* ---- Both directions at once, several long messages each ---- */

static bool
crossing(struct ranks *r, bool pool)
{
	enum { N = 4 };
	size_t len = 3 * MAX_LEN / 2 + 13;
	unsigned char *out = buffer(r, pool, len), *in = buffer(r, pool, N * len);
	int peer = r->rank ^ 1;
	oriel_req *req[2 * N];
	bool ok = out && in;

	if (ok && peer < r->size) {
		fill(out, len, r->rank, 4, 4);
		for (int i = 0; i < N && ok; i++)
			ok = OK(oriel_isend(r->world, peer, 4, out, len, &req[i])) &&
			     OK(oriel_irecv(r->world, peer, 4, in + (size_t)i * len, len, NULL,
			                    &req[N + i]));
		ok = ok && OK(oriel_req_waitall(2 * N, req, RANKS_WAIT_NS));
		for (int i = 0; i < N && ok; i++)
			ok = holds(in + (size_t)i * len, len, peer, 4, 4);
	}
	buffer_free(r, pool, out);
	buffer_free(r, pool, in);
	return ok;
}

/* ---- The own rank ---- */

static bool
own_rank(struct ranks *r)
{
	unsigned char out[3][20000], in[20000];
	static const size_t len[] = { 5, 8000, 20000 };
	struct oriel_status st;
	oriel_req *req[3];
	bool ok = true;
	int found;

	for (int i = 0; i < 3; i++) {
		fill(out[i], len[i], r->rank, i, 1);
		ok &= OK(oriel_isend(r->world, r->rank, i, out[i], len[i], &req[i]));
	}
	ok &= OK(oriel_probe(r->world, ORIEL_ANY, 2, &found, &st));
	ok &= CHECK(found == 1 && st.source == r->rank && st.tag == 2 && st.len == 20000,
	            "probe: %d, %d, %d, %zu", found, st.source, st.tag, st.len);
	for (int i = 2; i >= 0 && ok; i--)
		ok = OK(oriel_recv(r->world, r->rank, i, in, sizeof(in), NULL)) &&
		     holds(in, len[i], r->rank, i, 1);
	ok = ok && OK(oriel_req_waitall(3, req, 0));
	return ok &&
	       OK(oriel_sendrecv(r->world, r->rank, 1, out[2], 20000, r->rank, 1, in, 20000,
	                         &st)) &&
	       holds(in, 20000, r->rank, 2, 1);
}

/* ---- Errors ---- */

static bool
truncation(struct ranks *r, size_t len, size_t room)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	unsigned char *out = malloc(len), *in = malloc(len);
	struct oriel_status st = { 0 };
	oriel_req *req = NULL;
	bool ok = NEED(out && in, "no memory");

	if (ok) {
		fill(out, len, r->rank, 6, 0);
		memset(in, 0xee, len);
		ok = OK(oriel_isend(r->world, right, 6, out, len, &req));
		FAILS(ORIEL_ERANGE, oriel_recv(r->world, left, 6, in, room, &st));
		ok &= CHECK(st.len == len && st.source == left && st.tag == 6, "status %d, %d, %zu",
		            st.source, st.tag, st.len);
		ok &= CHECK(in[room] == 0xee, "the byte behind the buffer is overwritten");
		/* It is lost, and the next one is not. */
		ok &= OK(oriel_req_wait(&req, RANKS_WAIT_NS));
		ok &= OK(oriel_sendrecv(r->world, right, 6, out, len, left, 6, in, len, &st));
		ok &= holds(in, len, left, 6, 0);
	}
	free(out);
	free(in);
	return ok;
}

static bool
errors(struct ranks *r)
{
	oriel_comm *comm = r->world;
	oriel_req *req = NULL;
	int word = 0, done, found = 9;

	FAILS(ORIEL_ERANK, oriel_send(comm, r->size, 0, &word, 4));
	FAILS(ORIEL_ERANK, oriel_send(comm, ORIEL_ANY, 0, &word, 4));
	FAILS(ORIEL_ERANK, oriel_recv(comm, -2, 0, &word, 4, NULL));
	FAILS(ORIEL_EINVAL, oriel_send(comm, 0, ORIEL_ANY, &word, 4));
	FAILS(ORIEL_EINVAL, oriel_send(comm, 0, 1 << 30, &word, 4));
	FAILS(ORIEL_EINVAL, oriel_recv(comm, 0, -2, &word, 4, NULL));
	FAILS(ORIEL_EINVAL, oriel_send(comm, 0, 0, NULL, 4));
	FAILS(ORIEL_EINVAL, oriel_recv(comm, 0, 0, NULL, 4, NULL));
	FAILS(ORIEL_EHANDLE, oriel_recv(NULL, 0, 0, &word, 4, NULL));
	FAILS(ORIEL_EINVAL, oriel_isend(comm, 0, 0, &word, 4, NULL));
	FAILS(ORIEL_EINVAL, oriel_probe(comm, 0, 0, NULL, NULL));
	if (!OK(oriel_probe(comm, r->rank, 11, &found, NULL)) ||
	    !OK(oriel_irecv(comm, r->rank, 11, &word, 4, NULL, &req)))
		return false;
	CHECK(found == 0, "a message that nobody has sent");
	OK(oriel_req_test(&req, &done));
	CHECK(!done, "a receive is done before its send");
	FAILS(ORIEL_ETIMEDOUT, oriel_req_wait(&req, 1000000));
	FAILS(ORIEL_EBUSY, oriel_req_free(&req));
	FAILS(ORIEL_EINVAL, oriel_start(req));
	found = 5;
	OK(oriel_send(comm, r->rank, 11, &found, 4));
	OK(oriel_req_wait(&req, RANKS_WAIT_NS));
	return CHECK(word == 5 && !req, "word %d", word);
}

/* Requests keep their communicator; an abort ends them. */
static bool
ends(struct ranks *r)
{
	oriel_comm *dup = NULL;
	oriel_req *req[2] = { NULL, NULL };
	static char big[100000];
	int word, rc;

	if (!OK(oriel_comm_dup(r->world, &dup)))
		return false;
	ranks_watch(dup);
	if (!OK(oriel_irecv(dup, ORIEL_ANY, 1, &word, 4, NULL, &req[0])) ||
	    !OK(oriel_isend(dup, (r->rank + 1) % r->size, 2, big, sizeof(big), &req[1])))
		return false;
	FAILS(ORIEL_EBUSY, oriel_comm_free(dup));
	OK(oriel_barrier(r->world));
	if (r->rank == 0)
		OK(oriel_comm_abort(dup));
	FAILS(ORIEL_EABORTED, oriel_req_wait(&req[0], RANKS_WAIT_NS));
	FAILS(ORIEL_EABORTED, oriel_req_wait(&req[1], RANKS_WAIT_NS));
	FAILS(ORIEL_EABORTED, oriel_send(dup, 0, 0, &word, 4));
	FAILS(ORIEL_EABORTED, oriel_recv(dup, ORIEL_ANY, 0, &word, 4, NULL));
	ranks_unwatch(dup);
	rc = oriel_comm_free(dup);
	return CHECK(rc == 0 || rc == ORIEL_EABORTED, "comm_free: %d (%s)", rc, oriel_detail());
}

/* An abort in the middle of long messages of all pairs: nobody else is blamed for what still comes.
 */
static bool
ends_amid(struct ranks *r, uint64_t rounds)
{
	enum { N = 12, LEN = 20000 };               /* more than there is credit for */
	static char out[4][LEN], in[4][4 * N][LEN]; /* [rank as a thread] */
	int me = r->rank % 4;

	for (uint64_t i = 0; i < rounds; i++) {
		oriel_comm *dup = NULL;
		oriel_req *req[8 * N];
		int n = 0, rc;

		if (!OK(oriel_comm_dup(r->world, &dup)))
			return false;
		ranks_watch(dup);
		for (int k = 0; k < 4 * N; k++) {
			int peer = k % 4 % r->size;

			rc = oriel_irecv(dup, peer, 1, in[me][k], LEN, NULL, &req[n]);
			n += rc == 0;
			CHECK(rc == 0 || rc == ORIEL_EABORTED, "irecv: %d", rc);
			rc = oriel_isend(dup, peer, 1, out[me], LEN, &req[n]);
			n += rc == 0;
			CHECK(rc == 0 || rc == ORIEL_EABORTED, "isend: %d", rc);
		}
		if ((uint64_t)r->rank == i % (uint64_t)r->size)
			OK(oriel_comm_abort(dup));
		rc = oriel_req_waitall((size_t)n, req, RANKS_WAIT_NS);
		CHECK(rc == 0 || rc == ORIEL_EABORTED, "waitall: %d (%s)", rc, oriel_detail());
		ranks_unwatch(dup);
		rc = oriel_comm_free(dup);
		CHECK(rc == 0 || rc == ORIEL_EABORTED, "comm_free: %d", rc);
		if (!OK(oriel_barrier(r->world)))
			return false;
	}
	return true;
}

/* ---- Threads of one rank, each with a tag of its own ---- */

struct talker {
	struct ranks *r;
	int tag;
	uint64_t rounds;
	bool ok;
};

static void *
talk(void *arg)
{
	struct talker *t = arg;
	struct ranks *r = t->r;
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	unsigned char out[10000], in[10000];
	uint64_t same = r->seed + (uint64_t)t->tag;

	ranks_adopt(r);
	for (uint64_t i = 0; i < t->rounds && t->ok; i++) {
		size_t len = (size_t)(ranks_next(&same) % (i % 4 ? 40 : 10000));

		fill(out, len, r->rank, t->tag, i);
		t->ok = OK(oriel_sendrecv(r->world, right, t->tag, out, len, left, t->tag, in,
		                          sizeof(in), NULL)) &&
		        holds(in, len, left, t->tag, i);
	}
	return NULL;
}

static bool
talkers(struct ranks *r, uint64_t rounds)
{
	enum { N = 3 };
	struct talker t[N];
	pthread_t thread[N];
	bool ok = true;

	for (int i = 0; i < N; i++) {
		t[i] = (struct talker){ r, 20 + i, rounds, true };
		NEED(!pthread_create(&thread[i], NULL, talk, &t[i]), "no thread");
	}
	for (int i = 0; i < N; i++) {
		pthread_join(thread[i], NULL);
		ok &= t[i].ok;
	}
	return ok;
}

/* ---- A rank that computes: what it has begun goes on ---- */

static bool
computing(struct ranks *r)
{
	size_t len = 200000;
	unsigned char *buf = buffer(r, false, len);
	oriel_req *req = NULL;
	oriel_win *win = NULL;
	uint64_t *flag;
	int token = 0;
	bool ok = buf && OK(oriel_win_alloc(r->world, 8, 0, (void **)&flag, &win));

	if (ok && r->rank == 1) {
		ok = OK(oriel_irecv(r->world, 0, 8, buf, len, NULL, &req)) &&
		     OK(oriel_send(r->world, 0, 9, &token, 4));
		/* Calls nothing of the library until rank 0 says that its long send is through. */
		while (ok && !__atomic_load_n(flag, __ATOMIC_ACQUIRE))
			ranks_delay(1000);
		ok = ok && OK(oriel_req_wait(&req, RANKS_WAIT_NS));
	} else if (ok && r->rank == 0 && r->size > 1) {
		ok = OK(oriel_recv(r->world, 1, 9, &token, 4, NULL)) &&
		     OK(oriel_send(r->world, 1, 8, buf, len)) &&
		     OK(oriel_fetch_add(win, 1, 0, 1, NULL));
	}
	ok = ok && OK(oriel_win_free(win));
	free(buf);
	return ok;
}

/* What is not complete goes with the context. */
static bool
left_behind(struct ranks *r)
{
	static char never[4], big[20000];
	oriel_req *req[2];

	return OK(oriel_irecv(r->world, ORIEL_ANY, 99, never, 4, NULL, &req[0])) &&
	       OK(oriel_isend(r->world, r->rank, 98, big, sizeof(big), &req[1]));
}

static int
run(struct ranks *r)
{
	uint64_t n = r->rounds ? r->rounds : 200;
	bool ok = errors(r) && own_rank(r);

	for (int pool = 0; pool < 2 && ok; pool++)
		for (size_t off = 0; off < 4 && ok; off += 3)
			ok = sizes(r, pool, off);
	ok = ok && tags(r) && wildcards(r, n) && OK(oriel_barrier(r->world)) && post_order(r);
	ok = ok && OK(oriel_barrier(r->world)) && random_traffic(r, n);
	ok = ok && OK(oriel_barrier(r->world)) && flood(r, 60 * n) && OK(oriel_barrier(r->world));
	ok = ok && behind_flood(r, 2 * n) && crossing(r, false) && crossing(r, true);
	ok = ok && truncation(r, 40, 39) && truncation(r, 5000, 10) && truncation(r, 70000, 8192);
	ok = ok && talkers(r, n) && OK(oriel_barrier(r->world)) && computing(r);
	ok = ok && OK(oriel_barrier(r->world)) && ends(r) && ends_amid(r, 20) && left_behind(r);
	return ok ? 0 : 1;
}

RANKS_MAIN(run)
