/* One rank, with itself and with one that never comes; more ranks: test/ranks/p2p.c. */
#include "p2p/p2p.h"

#include "test/rma/alone.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

static oriel_ctx *ctx;
static struct oriel_bootstrap table;
static int local;

static void
open_two(void)
{
	setenv("ORIEL_CALL_TIMEOUT", "20ms", 1);
	setenv("ORIEL_P2P_UNEXPECTED", "4K", 1);
	ctx = alone_open(&table, &local, 0, 2);
}

static void
close_two(void)
{
	alone_close(ctx);
}

TestSuite(calls, .init = open_two, .fini = close_two);

#define CONTAINS(text)                                                                             \
	cr_assert_not_null(strstr(oriel_detail(), text), "the detail is: %s", oriel_detail())

Test(calls, a_receive_that_timed_out_takes_nothing)
{
	int in = 0, out = 5;

	cr_assert_eq(oriel_recv(ctx->world, 0, 3, &in, 4, NULL), ORIEL_ETIMEDOUT);
	CONTAINS("receive of up to 4 bytes from rank 0, tag 3");
	CONTAINS("expected its message");
	cr_assert_eq(oriel_recv(ctx->world, ORIEL_ANY, ORIEL_ANY, &in, 4, NULL), ORIEL_ETIMEDOUT);
	CONTAINS("from rank (any), tag (any)");
	cr_assert_eq(oriel_send(ctx->world, 0, 3, &out, 4), 0);
	out = 0;
	cr_assert_eq(in, 0);
	cr_assert_eq(oriel_recv(ctx->world, ORIEL_ANY, 3, &in, 4, NULL), 0, "%s", oriel_detail());
	cr_assert_eq(in, 5);
}

Test(calls, a_send_that_timed_out_is_not_received)
{
	static char big[20000], in[20000];
	int found = 1;

	cr_assert_eq(oriel_send(ctx->world, 0, 3, big, sizeof(big)), ORIEL_ETIMEDOUT);
	CONTAINS("send of 20000 bytes to rank 0, tag 3: expected its receive, seen none");
	cr_assert_eq(oriel_probe(ctx->world, ORIEL_ANY, ORIEL_ANY, &found, NULL), 0);
	cr_assert_eq(found, 0);
	cr_assert_eq(oriel_sendrecv(ctx->world, 0, 3, big, sizeof(big), 0, 3, in, sizeof(in), NULL),
	             0);
}

/* Above the bound a short send waits for its receive like a long one. */
Test(calls, own_messages_are_bounded_too)
{
	enum { N = 20 };
	oriel_req *req[N];
	char out[1000] = "x", in[1000];
	int done, kept = 0;

	for (int i = 0; i < N; i++) {
		cr_assert_eq(oriel_isend(ctx->world, 0, i, out, sizeof(out), &req[i]), 0);
		cr_assert_eq(oriel_req_test(&req[i], &done), 0);
		kept += done;
	}
	cr_assert(kept >= 3 && kept <= 4, "%d of %d messages of 1000 bytes kept", kept, N);
	for (int i = N - 1; i >= 0; i--)
		cr_assert_eq(oriel_recv(ctx->world, 0, i, in, sizeof(in), NULL), 0);
	cr_assert_eq(oriel_req_waitall(N, req, 0), 0, "%s", oriel_detail());
	cr_assert_eq(((struct link *)dir_get(&ctx->world->p2p->links, 0))->kept, 0);
}

Test(calls, what_cannot_begin_leaves_nothing)
{
	oriel_req *req = NULL;
	char word[4] = "";

	cr_assert_eq(oriel_send(ctx->world, 1, 0, word, 4), ORIEL_EBOOT);
	cr_assert_eq(oriel_irecv(ctx->world, 1, 0, word, 4, NULL, &req), ORIEL_EBOOT);
	cr_assert_null(req);
	cr_assert_eq(ctx->world->n_reqs, 0);
	cr_assert_eq(ctx->world->p2p->n_open, 0);
	cr_assert_eq(oriel_send(ctx->world, 0, 0, word, 4), 0);
	cr_assert_eq(oriel_recv(ctx->world, 0, 0, word, 4, NULL), 0);
}

Test(calls, a_failed_communicator_ends_all)
{
	oriel_req *req[2];
	static char big[20000];
	char word[4];

	cr_assert_eq(oriel_irecv(ctx->world, ORIEL_ANY, 1, word, 4, NULL, &req[0]), 0);
	cr_assert_eq(oriel_isend(ctx->world, 0, 2, big, sizeof(big), &req[1]), 0);
	cr_assert_eq(oriel_comm_abort(ctx->world), 0);
	cr_assert_eq(oriel_req_waitall(2, req, ORIEL_FOREVER), ORIEL_EABORTED);
	CONTAINS("request 0: receive of up to 4 bytes from rank (any), tag 1");
	cr_assert(!req[0] && !req[1]);
	cr_assert_eq(oriel_recv(ctx->world, 0, 2, big, sizeof(big), NULL), ORIEL_EABORTED);
	cr_assert_eq(ctx->world->n_reqs, 0);
}

/* A link to rank 1 whose two mailboxes are the test's. */
static struct link *
link_by_hand(struct mbox *in, struct mbox *out)
{
	struct chan *c = calloc(1, sizeof(*c));
	struct link *k = calloc(1, sizeof(*k));
	struct p2p *p;
	int found;

	/* Makes the communicator's part. */
	cr_assert_eq(oriel_probe(ctx->world, 0, 0, &found, NULL), 0);
	p = ctx->world->p2p;
	*c = (struct chan){ .in = in,
		            .out = out,
		            .wake = &ctx->ctl->wake,
		            .rec = &c->uncounted,
		            .connected = true,
		            .heard = true,
		            .comm = ctx->world,
		            .peer = ctx->local[0],
		            .rank = 1,
		            .channel = MBOX_P2P };
	*k = (struct link){ .p = p, .chan = c, .rank = 1 };
	match_source_init(&k->source);
	for (int i = 0; i < 7; i++)
		TAILQ_INIT(((struct p2p_reqs *[]){ &k->waits, &k->asked, &k->cleared, &k->flushes,
		                                   &k->matched, &k->landing, &k->pulls })[i]);
	cr_assert_eq(dir_set(&p->links, 1, k), 0);
	SLIST_INSERT_HEAD(&p->all, k, next);
	return k;
}

static void
line_by_hand(struct mbox *in, uint64_t number, struct line l, const void *data)
{
	memcpy(in->line[number % MBOX_SLOTS].data, data, l.len);
	mbox_publish(in, number, line_pack(l), wire_seq(0, number));
}

/* Its sends are gone, so their clearances name nothing; the peer is not to blame for that. */
Test(calls, what_comes_after_the_end_blames_nobody)
{
	static struct mbox in, out;
	struct link *k = link_by_hand(&in, &out);
	struct line l = { .len = sizeof(struct line_clear), .what = LINE_CLEAR };
	struct line_clear clear = { .len = 20000 };
	static char big[20000];
	oriel_req *req[MBOX_SLOTS];

	for (uint64_t i = 0; i < MBOX_SLOTS; i++)
		cr_assert_eq(oriel_isend(ctx->world, 1, 0, big, sizeof(big), &req[i]), 0);
	p2p_lock(k->p); /* so that the helper does not take them in before the end */
	for (clear.id = 0; clear.id < MBOX_SLOTS; clear.id++)
		line_by_hand(&in, clear.id, l, &clear);
	cr_assert_eq(oriel_comm_abort(ctx->world), 0);
	cr_assert(p2p_turn(k->p));
	cr_assert_not(p2p_turn(k->p));
	cr_assert_not(link_take(k, true));
	p2p_unlock(k->p);
	cr_assert_eq(oriel_req_waitall(MBOX_SLOTS, req, ORIEL_FOREVER), ORIEL_EABORTED);
	cr_assert_not(peer_failed(ctx->local[0]));
}

/* A peer that clears what was never asked for breaks the rules, and is named. */
Test(calls, a_line_that_makes_no_sense_is_its_senders_end)
{
	static struct mbox in, out;
	struct link *k = link_by_hand(&in, &out);
	struct line l = { .len = sizeof(struct line_clear), .what = LINE_CLEAR };
	struct line_clear clear = { .len = 20000, .id = 7 };
	char word[4];

	(void)k;
	line_by_hand(&in, 0, l, &clear);
	cr_assert_eq(oriel_recv(ctx->world, 1, 0, word, 4, NULL), ORIEL_EPEER);
	CONTAINS("breaks the rules of send and receive");
}

/* Nobody waits: lines stay where they are until the sender is out of credit, then up to the bound.
 */
Test(calls, unwanted_messages_are_bounded)
{
	static struct mbox in, out;
	struct link *k = link_by_hand(&in, &out);
	struct line l = { .len = 40, .what = LINE_EAGER };
	char text[40] = "";
	uint64_t n = 0, taken = 0;
	int tag;

	p2p_lock(k->p);
	for (; n < MBOX_SLOTS - 1; n++)
		line_by_hand(&in, n, l, text);
	cr_assert_not(link_take(k, false));
	while (n - load_relaxed(&out.credit.consumed) < MBOX_SLOTS) {
		l.number = (uint32_t)n;
		line_by_hand(&in, n++, l, text);
		link_take(k, false);
		cr_assert(k->kept < k->p->bound + MBOX_SLOTS * 200, "%zu bytes kept", k->kept);
	}
	p2p_unlock(k->p);
	cr_assert(k->kept >= k->p->bound, "%zu bytes kept", k->kept);
	/* Whoever asks for the last one gets it, from behind all others. */
	tag = (int)n - 1;
	cr_assert_eq(oriel_recv(ctx->world, 1, tag, text, 40, NULL), 0, "%s", oriel_detail());
	for (; taken < n - 1; taken++)
		cr_assert_eq(oriel_recv(ctx->world, 1, ORIEL_ANY, text, 40, NULL), 0);
	cr_assert_eq(k->kept, 0);
}

/* ---- Messages that the receiver reads itself: offers, answers, failure ---- */

#define LONG 20000

static struct line
line_out(const struct mbox *out, uint64_t number)
{
	cr_assert(wire_fresh(mbox_peek(out, number), number), "line %llu has not come",
	          (unsigned long long)number);
	return line_unpack(out->line[number % MBOX_SLOTS].meta);
}

/* Line number of in asks for data's LONG bytes; the peer is this process itself. */
static void
ask_by_hand(struct mbox *in, uint64_t number, uint64_t id, const void *data, uint64_t key)
{
	struct line_ask ask = { LONG, id, (uintptr_t)data, key };
	struct line l = { .len = sizeof(ask), .what = LINE_ASK, .number = 3 };

	line_by_hand(in, number, l, &ask);
}

Test(calls, an_offered_message_is_read_and_the_sender_told)
{
	static struct mbox in, out;
	static char data[LONG], got[LONG];
	struct link *k = link_by_hand(&in, &out);
	uint64_t id = (UINT64_C(7) << LINE_NUMBER_BITS) + 5;
	struct oriel_status st;

	memset(data, 'x', LONG);
	ask_by_hand(&in, 0, id, data, 0);
	cr_assert_eq(oriel_recv(ctx->world, 1, 3, got, LONG, &st), 0, "%s", oriel_detail());
	cr_assert(st.len == LONG && !memcmp(data, got, LONG));
	cr_assert(line_out(&out, 0).what == LINE_PULLED && line_out(&out, 0).number == 5);
	cr_assert_eq(out.placing.call, 0);
	/* Too short: nothing is read, and the sender need not know. */
	memset(got, 'y', LONG);
	ask_by_hand(&in, 1, 9, data, 0);
	cr_assert_eq(oriel_recv(ctx->world, 1, 3, got, LONG - 1, &st), ORIEL_ERANGE);
	cr_assert(st.len == LONG && got[0] == 'y');
	cr_assert(line_out(&out, 1).what == LINE_PULLED && line_out(&out, 1).number == 9);
	cr_assert_eq(k->n_reqs, 0);
}

/* As before where nothing is offered, or cannot be read. */
Test(calls, what_cannot_be_read_is_cleared)
{
	static struct mbox in, out;
	static char data[LONG], got[LONG];
	struct peer *peer = link_by_hand(&in, &out)->chan->peer;
	oriel_req *req[2];

	peer->same_process = false;
	peer->cma = CMA_NO;
	ask_by_hand(&in, 0, 0, data, 0);
	ask_by_hand(&in, 1, 1, NULL, MBOX_NO_KEY);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(oriel_irecv(ctx->world, 1, 3, got, LONG, NULL, &req[i]), 0);
	p2p_lock(ctx->world->p2p);
	p2p_turn(ctx->world->p2p);
	p2p_unlock(ctx->world->p2p);
	cr_assert(line_out(&out, 0).what == LINE_CLEAR && line_out(&out, 1).what == LINE_CLEAR);
	peer->same_process = true;
	cr_assert_eq(oriel_comm_abort(ctx->world), 0);
	cr_assert_eq(oriel_req_waitall(2, req, ORIEL_FOREVER), ORIEL_EABORTED);
}

Test(calls, only_an_offered_send_can_be_pulled)
{
	static struct mbox in, out;
	static char data[LONG];
	struct link *k = link_by_hand(&in, &out);
	struct line l = { .kind = WIRE_PLACED, .what = LINE_PULLED };
	struct line_ask ask;
	oriel_req *req;

	ctx->crowded = true;
	k->n_sends = LINE_NUMBER_MASK;
	for (uint64_t i = 0; i < 2; i++) { /* the number starts again from 0 between them */
		cr_assert_eq(oriel_isend(ctx->world, 1, 3, data, LONG, &req), 0);
		memcpy(&ask, out.line[i].data, sizeof(ask));
		cr_assert(ask.where == (uintptr_t)data && !ask.key && ask.id == k->n_sends - 1);
		l.number = ask.id & LINE_NUMBER_MASK;
		line_by_hand(&in, i, l, "");
		cr_assert_eq(oriel_req_wait(&req, ORIEL_FOREVER), 0, "%s", oriel_detail());
	}
	ctx->crowded = false;
	cr_assert_eq(oriel_isend(ctx->world, 1, 3, data, LONG, &req), 0);
	memcpy(&ask, out.line[2].data, sizeof(ask));
	cr_assert_eq(ask.key, MBOX_NO_KEY);
	l.number = ask.id & LINE_NUMBER_MASK;
	line_by_hand(&in, 2, l, "");
	cr_assert_eq(oriel_req_wait(&req, ORIEL_FOREVER), ORIEL_EPEER);
	CONTAINS("breaks the rules of send and receive");
}

/* The first touch of this page finds that the sender has failed, and its buffer is another's. */
static char *late_page;
static uint64_t *late_word;

static void
fail_late(int sig)
{
	(void)sig;
	if (mprotect(late_page, 4096, PROT_READ | PROT_WRITE))
		_exit(99);
	memset(late_page, 'z', 4096);
	store_release(late_word, comm_fail_word(1, 0));
}

Test(calls, a_failure_while_it_is_read_is_no_message)
{
	static struct mbox in, out;
	static char got[LONG];
	char *data = mmap(NULL, 2 * 4096 + LONG, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction act = { .sa_handler = fail_late };

	cr_assert_neq(data, MAP_FAILED);
	link_by_hand(&in, &out);
	late_page = data + 4096;
	late_word = ctx->world->fail;
	cr_assert_eq(mprotect(late_page, 4096, PROT_NONE), 0);
	cr_assert_eq(sigaction(SIGSEGV, &act, NULL), 0);
	ask_by_hand(&in, 0, 0, data, 0);
	cr_assert_eq(oriel_recv(ctx->world, 1, 3, got, LONG, NULL), ORIEL_EPEER);
	cr_assert_eq(got[5000], 'z', "the page was not touched");
	CONTAINS("rank 1 (world rank 1) has failed");
}

/* A send whose buffer is being read is not given back before the reader has left. */
Test(calls, a_failed_send_waits_for_its_reader)
{
	static struct mbox in, out;
	static char data[LONG];
	oriel_req *req;
	uint64_t start;

	link_by_hand(&in, &out);
	ctx->crowded = true;
	ctx->knobs.v.peer_timeout = 50 * 1000000;
	cr_assert_eq(oriel_isend(ctx->world, 1, 3, data, LONG, &req), 0);
	store_release(&in.placing.call, LINK_PLACING);
	cr_assert_eq(oriel_comm_abort(ctx->world), 0);
	start = now_ns();
	cr_assert_eq(oriel_req_wait(&req, ORIEL_FOREVER), ORIEL_EABORTED);
	cr_assert(now_ns() - start >= 50 * 1000000, "it was given back at once");
}
