/*
 * The receiving side of the UCX carrier, without UCX: messages are handed to
 * its callback in orders that a network may choose.
 */
#include "rma/ucx_impl.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4
#define PEER 2
#define TOKEN UINT64_C(0x77)

static oriel_ctx ctx;
static struct ucx u;
static char buf[WIRE_MAX + 8];

static void
set_up(void)
{
	memset(&ctx, 0, sizeof(ctx));
	memset(&u, 0, sizeof(u));
	ctx.boot.rank = 0;
	ctx.boot.size = SIZE;
	ctx.ctl = calloc(1, ctl_size(1));
	cr_assert(!pipe2(ctx.wake_pipe, O_NONBLOCK));
	ctx.ucx = &u;
	u.ctx = &ctx;
	u.job = 5;
	pthread_mutex_init(&ctx.lock, NULL);
	pthread_mutex_init(&ctx.progress, NULL);
	pthread_mutex_init(&ctx.peers_lock, NULL);
	cr_assert(!dir_init(&ctx.peers, SIZE));
}

static void
tear_down(void)
{
	for (int i = 0; i < SIZE; i++) {
		struct peer *p = peer_find(&ctx, i);
		struct ucx_peer *up = p ? p->ucx : NULL;

		if (up)
			ucx_msgs_free(&u, up->held);
		free(up);
		if (p)
			peer_free(p);
	}
	ucx_am_free(&u);
	dir_free(&ctx.peers);
	free(ctx.ctl);
	close(ctx.wake_pipe[0]);
	close(ctx.wake_pipe[1]);
}

TestSuite(ucx_am, .init = set_up, .fini = tear_down);

static void
deliver_from(int rank, uint64_t token, unsigned id, uint64_t seq, const void *hdr, size_t hdr_len,
             const void *data, size_t len)
{
	ucp_am_recv_param_t param = { .recv_attr = 0 };
	/* At an odd address, as UCX may. */
	char *to = wire_start(buf, token, (uint32_t)rank, id, hdr, hdr_len);

	if (len)
		memcpy(to, data, len);
	wire_set_seq(buf, seq);
	memmove(buf + 3, buf, wire_size(hdr_len, len));
	cr_assert(ucx_on_am(&u, NULL, 0, buf + 3, wire_size(hdr_len, len), &param) == UCS_OK);
}

static void
hello_from(int rank, uint64_t token)
{
	struct boot_rec rec = { .token = token, .ucx_len = 40 };

	deliver_from(rank, token, WIRE_HELLO, 0, &u.job, sizeof(u.job), &rec, wire_rec_size(&rec));
}

static void
pong(uint64_t seq)
{
	deliver_from(PEER, TOKEN, AM_PONG, seq, NULL, 0, NULL, 0);
}

static struct ucx_peer *
known(void)
{
	struct peer *p = peer_find(&ctx, PEER);

	return p ? p->ucx : NULL;
}

Test(ucx_am, stranger_is_met_by_its_hello)
{
	hello_from(PEER, TOKEN);
	cr_assert(known() && known()->expected == 1);
	cr_assert(u.ready == known(), "its endpoint is to be made");
	cr_assert(peer_find(&ctx, PEER)->rec.ucx_len == 40);
	cr_assert(u.n_garbage == 0);
}

Test(ucx_am, any_order_becomes_order)
{
	hello_from(PEER, TOKEN);
	pong(3);
	pong(2);
	pong(5);
	cr_assert(known()->expected == 1 && known()->n_held == 3);
	pong(1);
	cr_assert(known()->expected == 4 && known()->n_held == 1);
	pong(4);
	cr_assert(known()->expected == 6 && known()->n_held == 0);
	cr_assert(u.n_garbage == 0);
}

/* A farewell that was held is handled when its turn comes, not before. */
Test(ucx_am, held_messages_are_handled_late)
{
	hello_from(PEER, TOKEN);
	deliver_from(PEER, TOKEN, WIRE_BYE, 2, NULL, 0, NULL, 0);
	cr_assert(!known()->bye);
	pong(1);
	cr_assert(known()->bye && peer_find(&ctx, PEER)->left);
}

Test(ucx_am, before_the_hello)
{
	pong(2);
	pong(1);
	cr_assert(!known() && u.n_strays == 2);
	hello_from(PEER, TOKEN);
	cr_assert(known()->expected == 3 && u.n_strays == 0 && known()->n_held == 0);
	cr_assert(u.n_garbage == 0);
}

Test(ucx_am, repeated_and_foreign_are_dropped)
{
	hello_from(PEER, TOKEN);
	hello_from(PEER, TOKEN);
	cr_assert(u.n_garbage == 1 && known()->expected == 1);
	pong(1);
	pong(1);
	cr_assert(u.n_garbage == 2 && known()->expected == 2);
	pong(4);
	pong(4);
	cr_assert(u.n_garbage == 3 && known()->n_held == 1);
	deliver_from(PEER, TOKEN + 1, AM_PONG, 2, NULL, 0, NULL, 0);
	cr_assert(u.n_garbage == 4 && known()->expected == 2, "another incarnation");
	deliver_from(0, TOKEN, AM_PONG, 1, NULL, 0, NULL, 0);
	deliver_from(SIZE, TOKEN, AM_PONG, 1, NULL, 0, NULL, 0);
	cr_assert(u.n_garbage == 6, "this rank's own number, and one outside of the job");
}

Test(ucx_am, a_gap_that_never_closes_is_a_failure)
{
	hello_from(PEER, TOKEN);
	for (uint64_t i = 0; i < UCX_HELD_MAX; i++)
		pong(i + 2);
	cr_assert(!peer_failed(known()->peer));
	pong(UCX_HELD_MAX + 2);
	cr_assert(peer_failed(known()->peer));
}

Test(ucx_am, strays_are_bounded)
{
	for (uint64_t i = 0; i < UCX_STRAYS_MAX + 10; i++)
		pong(i + 1);
	cr_assert(u.n_strays == UCX_STRAYS_MAX && u.n_garbage == 10);
}

Test(ucx_am, noise)
{
	ucp_am_recv_param_t param = { .recv_attr = 0 };
	uint64_t state = 1;

	hello_from(PEER, TOKEN);
	for (int round = 0; round < 100000; round++) {
		size_t size = (size_t)(state >> 40) % 200;
		char *block = malloc(size ? size : 1);

		for (size_t i = 0; i < size; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
			block[i] = (char)(state >> 33);
		}
		if (size >= WIRE_FIXED) { /* else nothing passes the first check */
			block[22] = 0x4f;
			block[23] = 0x55;
		}
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		cr_assert(ucx_on_am(&u, NULL, 0, block, size, &param) == UCS_OK);
		free(block);
	}
	cr_assert(u.n_garbage > 90000 && known()->expected == 1 && !peer_failed(known()->peer));
}
