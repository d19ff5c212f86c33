/*
 * ucx.c - life and progress of the UCX carrier: one context and one worker a
 * rank. ucx_ep.c has the endpoints, ucx_am.c the messages, ucx_rma.c puts, gets
 * and flushes, ucx_tp.c the transport, ucx_mem.c registrations and keys.
 */
#ifdef HAVE_UCX
#include "rma/ucx.h"

#include "rma/ucx_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
starts_with_any(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (!strncmp(s, *list, strlen(*list)))
			return true;
	return false;
}

/*
 * Which transports UCX has opened is told only in print: "resource 1 : md 1
 * dev 1 flags -- tcp/lo". Endpoints can be asked, but not by 1.13.
 */
static void
look_at_transports(struct ucx *u, char *names, size_t cap)
{
	static const char *const real_puts[] = { "rc_", "dc_", "srd", "ugni_rdma", NULL };
	static const char *const no_pins[] = { "self/", "tcp/", "sysv/", "posix/", "cma/", NULL };
	char *text = NULL, *at, *name;
	size_t len, used = 0;
	FILE *f = open_memstream(&text, &len);

	names[0] = '\0';
	if (!f)
		return;
	ucp_context_print_info(u->context, f);
	fclose(f);
	for (at = text; at && (at = strstr(at, " resource ")) && (name = strstr(at, "-- "));
	     at = name) {
		name += 3;
		u->offload |= starts_with_any(name, real_puts);
		u->pins |= !starts_with_any(name, no_pins);
		len = strcspn(name, " \n");
		if (used + len + 2 < cap)
			used += (size_t)snprintf(names + used, cap - used, " %.*s", (int)len, name);
	}
	free(text);
}

static int
make_context(struct ucx *u)
{
	const char *tls = u->ctx->knobs.s.ucx_tls;
	int remote = u->ctx->boot.size - u->ctx->boot.n_local;
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES |
		                              UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		                .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		                .estimated_num_eps = remote < 1 ? 1
		                                     : remote < UCX_EPS_ESTIMATE
		                                             ? (size_t)remote
		                                             : UCX_EPS_ESTIMATE };
	ucp_config_t *config;
	ucs_status_t s = ucp_config_read(NULL, NULL, &config);

	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "ucp_config_read: %s", ucs_status_string(s));
	if (tls[0])
		s = ucp_config_modify(config, "TLS", tls);
	if (s == UCS_OK)
		s = ucp_init(&params, config, &u->context);
	ucp_config_release(config);
	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "ucp_init: %s%s%s", ucs_status_string(s),
		            tls[0] ? ", ORIEL_UCX_TLS=" : "", tls);
	return 0;
}

static int
make_worker(struct ucx *u)
{
	ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		                       .thread_mode = UCS_THREAD_MODE_SERIALIZED };
	ucp_am_handler_param_t am = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
		                                    UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
		                                    UCP_AM_HANDLER_PARAM_FIELD_CB |
		                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
		                      .id = UCX_AM_ID,
		                      .flags = UCP_AM_FLAG_WHOLE_MSG,
		                      .cb = ucx_on_am,
		                      .arg = u };
	ucs_status_t s = ucp_worker_create(u->context, &params, &u->worker);

	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "ucp_worker_create: %s", ucs_status_string(s));
	s = ucp_worker_set_am_recv_handler(u->worker, &am);
	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "ucp_worker_set_am_recv_handler: %s",
		            ucs_status_string(s));
	s = ucp_worker_get_efd(u->worker, &u->fd);
	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "ucp_worker_get_efd: %s", ucs_status_string(s));
	return 0;
}

static int
take_address(struct ucx *u, struct boot_rec *rec)
{
	ucp_address_t *address;
	size_t len;
	ucs_status_t s = ucp_worker_get_address(u->worker, &address, &len);
	int rc = 0;

	if (s != UCS_OK)
		return fail(ORIEL_ETRANSPORT, "ucp_worker_get_address: %s", ucs_status_string(s));
	if (len <= sizeof(rec->ucx)) {
		memcpy(rec->ucx, address, len);
		rec->ucx_len = (uint32_t)len;
	} else {
		rc = fail(ORIEL_ELIMIT,
		          "the worker's address is %zu bytes, a record has room for %zu: choose "
		          "fewer transports with ORIEL_UCX_TLS or devices with UCX_NET_DEVICES",
		          len, sizeof(rec->ucx));
	}
	ucp_worker_release_address(u->worker, address);
	return rc;
}

static void
destroy(struct ucx *u)
{
	if (u->worker)
		ucp_worker_destroy(u->worker);
	if (u->context)
		ucp_cleanup(u->context);
	ucx_free_peers(u); /* the worker's end may still have called back */
	ucx_am_free(u);
	ucx_rma_free(u);
	free(u);
}

static int
build(struct ucx *u, struct boot_rec *rec)
{
	struct transport_state *tp = &u->ctx->tp[TP_UCX];
	char names[96];
	unsigned release;
	int rc = ucx_load();

	if (!rc)
		rc = make_context(u);
	if (!rc)
		rc = make_worker(u);
	if (!rc)
		rc = ucx_mem_open(u);
	if (!rc)
		rc = take_address(u, rec);
	if (rc)
		return rc;
	ucp_get_version(&u->major, &u->minor, &release);
	/* 1.16 moved gets to protocols that know no error handling; 1.19 taught them. */
	u->has_get = u->major > 1 || u->minor < 16 || u->minor >= 19;
	look_at_transports(u, names, sizeof(names));
	/* The target of an emulated put or get ends its own process when the origin dies at the
	 * wrong time ("Fatal: unexpected error"), in every version up to 1.22. */
	u->no_keys = !u->offload;
	rc = u->pins ? ucx_mem_watch(u) : 0;
	if (rc)
		return rc;
	tp->on = true;
	snprintf(tp->why, sizeof(tp->why), "UCX %u.%u.%u:%s", u->major, u->minor, release, names);
	return 0;
}

int
ucx_open(oriel_ctx *ctx, struct boot_rec *rec)
{
	struct transport_state *tp = &ctx->tp[TP_UCX];
	struct ucx *u = calloc(1, sizeof(*u));
	int rc;

	rec->ucx_len = 0;
	tp->on = false;
	if (!u) {
		snprintf(tp->why, sizeof(tp->why), "out of memory");
		return fail(ORIEL_ENOMEM, "no memory for UCX");
	}
	u->ctx = ctx;
	u->job = hash_bytes(0, ctx->boot.job, strlen(ctx->boot.job));
	rc = build(u, rec);
	if (rc) {
		snprintf(tp->why, sizeof(tp->why), "%.*s", (int)sizeof(tp->why) - 1,
		         oriel_detail());
		rec->ucx_len = 0;
		ucx_mem_close(u);
		destroy(u);
		return rc;
	}
	ctx->ucx = u;
	return 0;
}

void
ucx_close(oriel_ctx *ctx)
{
	struct ucx *u = ctx->ucx;

	if (!u)
		return;
	pthread_mutex_lock(&ctx->progress);
	ucx_close_peers(u);
	ucx_mem_close(u);
	if (u->n_garbage)
		log_at(LOG_WARN, "rank %d: %lu messages over UCX were not Oriel's and were dropped",
		       ctx->boot.rank, (unsigned long)u->n_garbage);
	ctx->ucx = NULL;
	destroy(u);
	pthread_mutex_unlock(&ctx->progress);
}

void
ucx_ready(struct ucx_peer *p)
{
	if (p->on_ready || p->closed)
		return;
	p->on_ready = true;
	p->next_ready = p->u->ready;
	p->u->ready = p;
}

void
ucx_broke(struct ucx_peer *p, ucs_status_t status)
{
	if (p->on_broken || p->closed)
		return;
	p->error = status;
	p->on_broken = true;
	p->next_broken = p->u->broken;
	p->u->broken = p;
}

void
ucx_reap(struct ucx *u)
{
	struct ucx_peer *p;

	while ((p = u->broken)) {
		u->broken = p->next_broken;
		p->on_broken = false;
		if (p->bye && !p->queue && !p->n_ops)
			log_at(LOG_DEBUG, "rank %d: rank %d has ended its context",
			       u->ctx->boot.rank, p->peer->rank);
		else if (p->bye)
			peer_fail(p->peer, false, "it has ended its context (UCX: %s)",
			          ucs_status_string(p->error));
		else
			peer_fail(p->peer, false, "UCX: %s", ucs_status_string(p->error));
		ucx_peer_failed(p->peer);
	}
}

void
ucx_pump(struct ucx_peer *p)
{
	if (p->closed || p->on_broken || (!p->ep && !ucx_connect(p)))
		return;
	/* A flush that completes at once lets more messages go. */
	do {
		if (!ucx_post_ops(p) || !ucx_post_messages(p))
			return;
	} while (ucx_start_flush(p));
}

/* Peers that were found failed by others, since the last look. */
static void
bury_failed(struct ucx *u)
{
	struct peer *newest = load_acquire(&u->ctx->failed_peers);

	for (struct peer *p = newest; p && p != u->failed_seen; p = p->next_failed)
		ucx_peer_failed(p);
	u->failed_seen = newest;
}

bool
ucx_carry_on(struct ucx *u)
{
	struct ucx_peer *p = u->ready;

	if (unlikely(load_relaxed(&u->ctx->failed_peers) != u->failed_seen))
		bury_failed(u);
	if (!p && !u->broken)
		return false;
	u->ready = NULL;
	while (p) {
		struct ucx_peer *next = p->next_ready;

		p->on_ready = false;
		ucx_pump(p);
		p = next;
	}
	ucx_reap(u);
	return true;
}

bool
ucx_progress(oriel_ctx *ctx)
{
	struct ucx *u = ctx->ucx;
	bool moved = ucp_worker_progress(u->worker) != 0;

	return ucx_carry_on(u) || moved;
}

int
ucx_arm(oriel_ctx *ctx)
{
	struct ucx *u = ctx->ucx;

	if (u->ready || u->broken || ucp_worker_arm(u->worker) != UCS_OK)
		return -1;
	return u->fd;
}

void
ucx_nap(struct ucx *u)
{
	struct pollfd fd = { .fd = u->fd, .events = POLLIN };

	if (!u->ready && !u->broken && ucp_worker_arm(u->worker) == UCS_OK)
		poll(&fd, 1, 1);
}

void
ucx_wake(oriel_ctx *ctx)
{
	static const char byte = 1;

	/* Not UCX's own wake-up: this may be a callback of UCX, or UCX's last hour. */
	if (write(ctx->wake_pipe[1], &byte, 1) < 0 && errno != EAGAIN)
		log_at(LOG_WARN, "rank %d: waking the helper: %s", ctx->boot.rank, strerror(errno));
}

void
ucx_peer_failed(struct peer *peer)
{
	struct ucx_peer *p = peer->ucx;
	struct ucx *u;

	if (!p || p->closed)
		return;
	u = p->u;
	p->closed = true;
	if (p->ep) {
		ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
			                      .flags = UCP_EP_CLOSE_FLAG_FORCE };

		p->closing = ucp_ep_close_nbx(p->ep, &param);
		p->ep = NULL;
		/* UCX gives back what it holds, so that no buffer is touched later. */
		for (int i = 0; i < UCX_REAP_ROUNDS && (p->n_parts || p->n_posted); i++)
			ucp_worker_progress(u->worker);
	}
	ucx_msgs_free(u, p->queue);
	p->queue = NULL;
	p->queue_tail = &p->queue;
	store_release(&p->n_queued, 0);
	ucx_msgs_free(u, p->held);
	p->held = NULL;
	p->n_held = 0;
	ucx_drop_ops(p);
}
#endif
