/*
 * am_pingpong.c - the rival on the ucx path: a ping-pong of active messages
 * written directly on UCP, as tightly as it goes.
 *
 * usage: UCX_TLS=tcp am_pingpong BYTES ITERATIONS
 *
 * Two processes, one worker each (single-threaded, polled), one endpoint in
 * PEER error mode, as Oriel's are. The message is the active message's data;
 * the handler reads it where it lies. Addresses go through a socketpair.
 */
#include "bench/bench.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define AM_ID 1
/* Larger messages may become a rendezvous, which this handler does not do. */
#define BYTES_MAX 4096

struct side {
	int me, socket;
	size_t bytes, iters;
	char *message;
	uint64_t sent, received, sum;
	int failed;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
};

static int
ucx_failed(const char *what, ucs_status_t status)
{
	fprintf(stderr, "am_pingpong: %s: %s\n", what, ucs_status_string(status));
	return 1;
}

static ucs_status_t
on_message(void *arg, const void *header, size_t header_len, void *data, size_t len,
           const ucp_am_recv_param_t *param)
{
	struct side *s = arg;

	(void)header;
	(void)header_len;
	(void)param;
	s->sum += bench_read(data, len);
	s->received++;
	return UCS_OK;
}

static void
on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct side *s = arg;

	(void)ep;
	s->failed = ucx_failed("the peer has failed", status);
}

static int
exchange(int fd, const void *mine, size_t len, void **theirs, size_t *their_len)
{
	uint64_t n = len;

	if (write(fd, &n, sizeof(n)) != sizeof(n) || write(fd, mine, len) != (ssize_t)len ||
	    recv(fd, &n, sizeof(n), MSG_WAITALL) != sizeof(n) || n > 65536)
		goto failed;
	*theirs = malloc(n);
	*their_len = n;
	if (*theirs && recv(fd, *theirs, n, MSG_WAITALL) == (ssize_t)n)
		return 0;
	free(*theirs);
failed:
	perror("am_pingpong: exchanging addresses");
	return 1;
}

static int
connect_to(struct side *s, const ucp_address_t *address)
{
	ucp_ep_params_t ep = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
		                             UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
		                             UCP_EP_PARAM_FIELD_ERR_HANDLER,
		               .address = address,
		               .err_mode = UCP_ERR_HANDLING_MODE_PEER,
		               .err_handler = { on_error, s } };
	ucs_status_t status = ucp_ep_create(s->worker, &ep, &s->ep);

	return status == UCS_OK ? 0 : ucx_failed("ucp_ep_create", status);
}

static int
open_ucx(struct side *s)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
		                .features = UCP_FEATURE_AM };
	ucp_worker_params_t worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		                       .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
		                                         UCP_AM_HANDLER_PARAM_FIELD_CB |
		                                         UCP_AM_HANDLER_PARAM_FIELD_ARG,
		                           .id = AM_ID,
		                           .cb = on_message,
		                           .arg = s };
	ucs_status_t status = ucp_init(&params, NULL, &s->context);
	ucp_address_t *mine;
	size_t len, their_len;
	void *theirs;
	int err;

	if (status != UCS_OK)
		return ucx_failed("ucp_init", status);
	status = ucp_worker_create(s->context, &worker, &s->worker);
	if (status == UCS_OK)
		status = ucp_worker_set_am_recv_handler(s->worker, &handler);
	if (status == UCS_OK)
		status = ucp_worker_get_address(s->worker, &mine, &len);
	if (status != UCS_OK)
		return ucx_failed("the worker", status);
	err = exchange(s->socket, mine, len, &theirs, &their_len);
	ucp_worker_release_address(s->worker, mine);
	if (err)
		return err;
	err = connect_to(s, theirs);
	free(theirs);
	return err;
}

/* Waits for the end of a request; 0 if it ended well. */
static int
finish(struct side *s, const char *what, ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!request)
		return 0;
	if (UCS_PTR_IS_ERR(request))
		return ucx_failed(what, UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(s->worker);
	ucp_request_free(request);
	return status == UCS_OK ? 0 : ucx_failed(what, status);
}

static int
ping_pong(struct side *s)
{
	static const ucp_request_param_t param;

	for (size_t i = 0; i < s->iters; i++) {
		uint64_t n = ++s->sent;
		ucs_status_ptr_t request = NULL;

		bench_stamp(s->message, s->bytes, n);
		if (s->me == 0)
			request = ucp_am_send_nbx(s->ep, AM_ID, NULL, 0, s->message, s->bytes,
			                          &param);
		while (s->received < n && !s->failed)
			ucp_worker_progress(s->worker);
		if (s->me == 1)
			request = ucp_am_send_nbx(s->ep, AM_ID, NULL, 0, s->message, s->bytes,
			                          &param);
		if (s->failed || (request && finish(s, "ucp_am_send_nbx", request)))
			return 1;
	}
	return 0;
}

/* Both sides progress until both have flushed, then close. */
static int
close_ucx(struct side *s)
{
	static const ucp_request_param_t param;
	ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		                      .flags = UCP_EP_CLOSE_FLAG_FORCE };
	char token = 0;
	int err = finish(s, "ucp_ep_flush_nbx", ucp_ep_flush_nbx(s->ep, &param));

	if (write(s->socket, &token, 1) != 1)
		return 1;
	while (recv(s->socket, &token, 1, MSG_DONTWAIT) != 1 && !s->failed)
		ucp_worker_progress(s->worker);
	/* All has arrived on both sides; an orderly close would need the other's help. */
	err |= finish(s, "ucp_ep_close_nbx", ucp_ep_close_nbx(s->ep, &force));
	ucp_worker_destroy(s->worker);
	ucp_cleanup(s->context);
	return err;
}

static int
run(struct side *s)
{
	double ns[BENCH_BATCHES];

	bench_pin(s->me);
	s->message = aligned_alloc(64, (s->bytes + 63) / 64 * 64);
	if (!s->message || open_ucx(s))
		return 1;
	bench_fill(s->message, s->bytes);
	for (int b = -1; b < BENCH_BATCHES; b++) {
		uint64_t start = bench_now_ns();

		if (ping_pong(s))
			return 1;
		if (b >= 0)
			ns[b] = (double)(bench_now_ns() - start) / (double)s->iters / 2;
	}
	if (close_ucx(s) || bench_verify("am_pingpong", s->bytes, 1, s->sent, s->sum))
		return 1;
	if (s->me == 0)
		bench_print("ucp_am", s->bytes, bench_median(ns, BENCH_BATCHES), "ns");
	free(s->message);
	return 0;
}

int
main(int argc, char **argv)
{
	struct side s = { .bytes = argc == 3 ? bench_count(argv[1]) : 0,
		          .iters = argc == 3 ? bench_count(argv[2]) : 0 };
	int pair[2], err, status;
	pid_t child;

	if (!s.bytes || s.bytes > BYTES_MAX || !s.iters) {
		fprintf(stderr, "usage: am_pingpong BYTES ITERATIONS, at most %d bytes\n",
		        BYTES_MAX);
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || (child = fork()) < 0) {
		perror("am_pingpong");
		return 1;
	}
	s.me = child == 0;
	s.socket = pair[s.me];
	close(pair[!s.me]);
	err = run(&s);
	if (s.me)
		_exit(err);
	close(s.socket);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		err = 1;
	return err;
}
