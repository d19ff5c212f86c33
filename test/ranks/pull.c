/*
 * pull.c - long messages between ranks that share a CPU (--share), where the
 * receiver reads them itself: both kinds of memory at both ends, from anybody,
 * sizes around the limits, too little room, and an abort in the middle of them.
 */
#include "test/ranks/ranks.h"

#define MOST 16 /* ranks */
#define MAX_LEN ((9u << 20) + 3)

/* ---- Contents and buffers ---- */

static uint64_t
word_of(int from, size_t len, size_t i)
{
	uint64_t s = (uint64_t)from * 1000003 + len * 101 + i;

	return ranks_next(&s);
}

static void
fill(char *p, size_t len, int from)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_of(from, len, i);

		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
}

static bool
holds(const char *p, size_t len, int from)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_of(from, len, i);

		if (memcmp(p + i, &w, len - i < 8 ? len - i : 8))
			return CHECK(false, "%zu bytes of rank %d are wrong from byte %zu on", len,
			             from, i);
	}
	return true;
}

struct memory {
	struct ranks *r;
	bool pool;
	char *p;
};

static bool
memory_open(struct memory *m, struct ranks *r, bool pool, size_t len)
{
	void *p = NULL;

	*m = (struct memory){ r, pool, NULL };
	if (!pool)
		p = malloc(len);
	else if (!OK(oriel_mem_alloc(r->ctx, len, 64, &p)))
		return false;
	m->p = p;
	return NEED(p != NULL, "no memory");
}

static void
memory_close(struct memory *m)
{
	if (m->pool)
		OK(oriel_mem_free(m->r->ctx, m->p));
	else
		free(m->p);
}

/* ---- All to all, from anybody; late: the messages come before their receives ---- */

static bool
send_all(struct ranks *r, int tag, const char *out, size_t len, oriel_req **req)
{
	bool ok = true;

	for (int i = 1; i < r->size && ok; i++)
		ok = OK(oriel_isend(r->world, (r->rank + i) % r->size, tag, out, len, &req[i - 1]));
	return ok;
}

static bool
take_all(struct ranks *r, int tag, char *in, size_t len)
{
	bool came[MOST] = { false }, ok = true;

	for (int i = 1; i < r->size && ok; i++) {
		struct oriel_status st = { -1, -1, 0 };

		in[len] = 0x5a;
		ok = OK(oriel_recv(r->world, ORIEL_ANY, tag, in, len, &st)) &&
		     CHECK(st.source >= 0 && st.source < r->size && !came[st.source] &&
		                   st.tag == tag && st.len == len,
		           "status %d, %d, %zu", st.source, st.tag, st.len) &&
		     holds(in, len, st.source) &&
		     CHECK(in[len] == 0x5a, "the byte behind %zu is overwritten", len);
		if (ok)
			came[st.source] = true;
	}
	return ok;
}

static bool
all_to_all(struct ranks *r, bool pool_out, bool pool_in, bool late)
{
	static const size_t lengths[] = { 8193,        20000,          65535,          65536,
		                          65537,       (1u << 20) + 1, (4u << 20) - 1, 4u << 20,
		                          MAX_LEN - 8, (4u << 20) + 1, MAX_LEN };
	struct memory out, in;
	oriel_req *req[MOST];
	bool ok = memory_open(&out, r, pool_out, MAX_LEN) &&
	          memory_open(&in, r, pool_in, MAX_LEN + 1);

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && ok; i++) {
		fill(out.p, lengths[i], r->rank);
		ok = send_all(r, (int)i, out.p, lengths[i], req) &&
		     (!late || OK(oriel_barrier(r->world)));
		ok = ok && take_all(r, (int)i, in.p, lengths[i]);
		ok = ok && OK(oriel_req_waitall((size_t)r->size - 1, req, RANKS_WAIT_NS));
	}
	memory_close(&out);
	memory_close(&in);
	return ok;
}

/* ---- Too little room: the message is lost, its sender does not know, the next one comes ---- */

static bool
too_short(struct ranks *r, bool pool, size_t len, size_t room)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	struct oriel_status st = { -1, -1, 0 };
	struct memory out, in;
	oriel_req *req = NULL;
	bool ok = memory_open(&out, r, pool, len) && memory_open(&in, r, pool, len);

	if (ok) {
		fill(out.p, len, r->rank);
		memset(in.p, 0x5a, len);
		ok = OK(oriel_isend(r->world, right, 8, out.p, len, &req));
		FAILS(ORIEL_ERANGE, oriel_recv(r->world, ORIEL_ANY, 8, in.p, room, &st));
		ok &= CHECK(st.len == len && st.source == left && st.tag == 8, "status %d, %d, %zu",
		            st.source, st.tag, st.len);
		ok &= CHECK(in.p[0] == 0x5a && in.p[room] == 0x5a, "something was read");
		ok &= OK(oriel_req_wait(&req, RANKS_WAIT_NS));
		ok = ok &&
		     OK(oriel_sendrecv(r->world, right, 8, out.p, len, left, 8, in.p, len, &st));
		ok = ok && holds(in.p, len, left);
	}
	memory_close(&out);
	memory_close(&in);
	return ok;
}

/*
 * ---- An abort amid: a buffer that was given back is its owner's, who writes and ----
 * frees it at once; a receive that succeeds has got what was sent before.
 */

#define ABORT_LEN ((3u << 20) + 5)

static int
value_of(int rank, uint64_t number)
{
	return 1 + (int)(((uint64_t)rank * 67 + number) % 250);
}

static bool
all_are(const char *p, int value)
{
	return (unsigned char)p[0] == value && !memcmp(p, p + 1, ABORT_LEN - 1);
}

/* One message to the right and one from the left. True: both came through. */
static bool
pass(struct ranks *r, oriel_comm *comm, char *out, char *in, uint64_t number, bool end)
{
	int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
	oriel_req *send = NULL, *recv = NULL;
	int sent, got;

	memset(out, value_of(r->rank, number), ABORT_LEN);
	got = oriel_irecv(comm, left, 1, in, ABORT_LEN, NULL, &recv);
	sent = oriel_isend(comm, right, 1, out, ABORT_LEN, &send);
	if (end) {
		ranks_delay(ranks_random(r, 1000000));
		OK(oriel_comm_abort(comm));
	}
	sent = sent ? sent : oriel_req_wait(&send, RANKS_WAIT_NS);
	memset(out, 0xff, ABORT_LEN);
	got = got ? got : oriel_req_wait(&recv, RANKS_WAIT_NS);
	CHECK(!sent || sent == ORIEL_EABORTED, "send: %d (%s)", sent, oriel_detail());
	CHECK(!got || got == ORIEL_EABORTED, "receive: %d (%s)", got, oriel_detail());
	if (!got)
		CHECK(all_are(in, value_of(left, number)),
		      "message %llu of rank %d is wrong: %02x, expected %02x",
		      (unsigned long long)number, left, (unsigned char)in[0],
		      value_of(left, number));
	return !sent && !got;
}

static bool
aborted(struct ranks *r, bool pool)
{
	uint64_t same = r->seed;
	int who, rc;

	for (uint64_t i = 0; i < (r->rounds ? r->rounds : 20); i++) {
		uint64_t number = 0, last = ranks_next(&same) % 3;
		oriel_comm *dup = NULL;
		struct memory out, in;

		if (!memory_open(&out, r, pool, ABORT_LEN) || !memory_open(&in, r, pool, ABORT_LEN))
			return false;
		who = (int)(ranks_next(&same) % (uint64_t)r->size);
		if (!OK(oriel_comm_dup(r->world, &dup)))
			return false;
		ranks_watch(dup);
		while (pass(r, dup, out.p, in.p, number, r->rank == who && number >= last))
			number++;
		memory_close(&out);
		memory_close(&in);
		ranks_unwatch(dup);
		rc = oriel_comm_free(dup);
		CHECK(rc == 0 || rc == ORIEL_EABORTED, "comm_free: %d", rc);
		if (!OK(oriel_barrier(r->world)))
			return false;
	}
	return r->failures == 0;
}

/* ---- */

static void
look(void *arg, const char *text)
{
	if (!strncmp(text, "waits: yield", 12))
		*(bool *)arg = true;
}

static int
run(struct ranks *r)
{
	bool crowded = false, ok;

	if (!OK(oriel_info(r->ctx, look, &crowded)) ||
	    !NEED(crowded || !ranks_flag("--share"), "it is not seen that ranks share a CPU") ||
	    !NEED(r->size > 1 && r->size <= MOST, "%d ranks", r->size))
		return 1;
	ok = true;
	for (unsigned i = 0; i < 8 && ok; i++)
		ok = all_to_all(r, i & 1, i & 2, i & 4);
	for (int pool = 0; pool < 2 && ok; pool++)
		ok = too_short(r, pool, 70000, 69999) && too_short(r, pool, 9000, 0) &&
		     too_short(r, pool, 5u << 20, 4u << 20) && aborted(r, pool);
	return ok ? 0 : 1;
}

RANKS_MAIN(run)
