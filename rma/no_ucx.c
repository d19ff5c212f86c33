/*
 * no_ucx.c - the library built without UCX: the carrier says so, and nothing
 * else here is ever reached, since ctx->ucx stays NULL.
 */
#ifndef HAVE_UCX
#include "rma/ucx.h"

#include <stdio.h>

static int
off(void)
{
	return fail(ORIEL_ENOTSUP, "built without UCX");
}

int
ucx_open(oriel_ctx *ctx, struct boot_rec *rec)
{
	struct transport_state *tp = &ctx->tp[TP_UCX];

	rec->ucx_len = 0;
	tp->on = false;
	snprintf(tp->why, sizeof(tp->why), "built without UCX");
	return off();
}

void
ucx_close(oriel_ctx *ctx)
{
	(void)ctx;
}

bool
ucx_progress(oriel_ctx *ctx)
{
	(void)ctx;
	return false;
}

int
ucx_arm(oriel_ctx *ctx)
{
	(void)ctx;
	return -1;
}

void
ucx_wake(oriel_ctx *ctx)
{
	(void)ctx;
}

int
ucx_am_send(struct peer *to, unsigned id, const void *hdr, size_t hdr_len, const void *data,
            size_t len, bool handler)
{
	(void)to, (void)id, (void)hdr, (void)hdr_len, (void)data, (void)len, (void)handler;
	return off();
}

void
ucx_peer_failed(struct peer *peer)
{
	(void)peer;
}

int
ucx_mem_key(oriel_ctx *ctx, const void *addr, size_t size, void *key, size_t *len)
{
	(void)ctx, (void)addr, (void)size, (void)key, (void)len;
	return off();
}

int
ucx_put_key(struct peer *to, const void *key, size_t key_len, uint64_t raddr, const void *src,
            size_t len)
{
	(void)to, (void)key, (void)key_len, (void)raddr, (void)src, (void)len;
	return off();
}

int
ucx_quiet(struct peer *to, uint64_t deadline)
{
	(void)to, (void)deadline;
	return off();
}

uint64_t
ucx_quiet_start(struct peer *to)
{
	(void)to;
	return 0;
}

bool
ucx_quiet_done(const struct peer *to, uint64_t mark)
{
	(void)to, (void)mark;
	return true;
}

int
ucx_win_reg(oriel_win *win)
{
	(void)win;
	return off();
}

void
ucx_win_dereg(oriel_win *win)
{
	(void)win;
}

int
ucx_win_key(oriel_win *win, void *key, size_t *len)
{
	(void)win, (void)key, (void)len;
	return off();
}

static int
attach_off(oriel_win *win, struct target *t)
{
	(void)win, (void)t;
	return off();
}

const struct transport transport_ucx = { .name = "ucx", .id = TP_UCX, .attach = attach_off };
#endif
