#include "rma/ctx.h"

#include "coll/reduce.h"
#include "coll/select.h"
#include "plan/chan.h"
#include "rma/am.h"
#include "rma/ce.h"
#include "rma/comm.h"
#include "rma/gpu.h"
#include "rma/helper.h"
#include "rma/mbox.h"
#include "rma/shrink.h"
#include "rma/slabs.h"
#include "rma/ucx.h"
#include "rma/win.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define CTX_MAGIC UINT64_C(0x78746c656972006f)
#define GRAVES 4096

struct graves {
	pthread_mutex_t lock;
	unsigned next;
	void *handle[GRAVES];
};

int
ctx_enter(const oriel_ctx *ctx)
{
	if (!ctx)
		return fail(ORIEL_EHANDLE, "context is NULL");
	if (ctx->magic != CTX_MAGIC)
		return fail(ORIEL_EHANDLE, "%p is not a live context", (const void *)ctx);
	/* The helper makes alive 0 at its next tick; the others' failures are no news before. */
	if (likely(load_relaxed(ctx->alive) && !load_acquire(&ctx->ctl->expelled_by)))
		return 0;
	if (ctx->rec.pid != getpid())
		return fail(ORIEL_EFORK, "the context belongs to process %d, this is its child %d",
		            (int)ctx->rec.pid, (int)getpid());
	return fail(ORIEL_EEXPELLED, "rank %d gave this rank up",
	            (int)load_relaxed(&ctx->ctl->expelled_by) - 1);
}

void
ctx_bury(oriel_ctx *ctx, void *handle)
{
	struct graves *g = ctx->graves;
	void *old;

	pthread_mutex_lock(&g->lock);
	old = g->handle[g->next % GRAVES];
	g->handle[g->next++ % GRAVES] = handle;
	pthread_mutex_unlock(&g->lock);
	free(old);
}

/*
 * ---- Parts, in the order of their making ----
 */

static int
make_alive(oriel_ctx *ctx)
{
	uint64_t *page =
	        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return fail_errno(ORIEL_ENOMEM, errno, "mapping a page");
	/* A child sees zero there. Old kernels lack it; then children are not recognised. */
	if (madvise(page, 4096, MADV_WIPEONFORK))
		log_at(LOG_WARN,
		       "this kernel cannot wipe pages on fork: a child's calls are not refused");
	*page = 1;
	ctx->alive = page;
	return 0;
}

static int
make_tables(oriel_ctx *ctx)
{
	ctx->wins = table_create();
	ctx->comms = table_create();
	ctx->groups = table_create();
	ctx->fails = table_create();
	ctx->told_dead = table_create();
	ctx->graves = calloc(1, sizeof(*ctx->graves));
	if (!ctx->wins || !ctx->comms || !ctx->groups || !ctx->fails || !ctx->told_dead ||
	    !ctx->graves)
		return fail(ORIEL_ENOMEM, "no memory for a context");
	pthread_mutex_init(&ctx->graves->lock, NULL);
	return 0;
}

/* What must be equal for /proc/<pid>/fd of one rank to be usable by the other. */
static uint64_t
host_hash(void)
{
	char text[128] = "";
	struct stat st = { 0 };
	uint64_t h = 0;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof(text));

		h = hash_bytes(h, text, n > 0 ? (size_t)n : 0);
		close(fd);
	}
	if (!stat("/proc/self/ns/pid", &st))
		h = hash_bytes(h, &st.st_ino, sizeof(st.st_ino));
	return h;
}

static int
open_ctl_fd(oriel_ctx *ctx)
{
	char path[512];
	int fd;

	if (!ctx->knobs.s.recorder[0]) {
		fd = memfd_create("oriel-ctl", MFD_CLOEXEC);
		return fd >= 0 ? fd : -errno;
	}
	snprintf(path, sizeof(path), "%s/oriel-%.100s-%d.rec", ctx->knobs.s.recorder, ctx->boot.job,
	         ctx->boot.rank);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd >= 0 ? fd : -errno;
}

static int
make_ctl(oriel_ctx *ctx)
{
	unsigned n = (unsigned)ctx->boot.n_local;
	size_t size = ctl_size(n);
	int fd, err;

	if (n > CTL_MAX_LOCAL)
		return fail(ORIEL_ELIMIT, "%u ranks on a node: at most %d", n, CTL_MAX_LOCAL);
	fd = open_ctl_fd(ctx);
	if (fd < 0)
		return fail_errno(ORIEL_ETRANSPORT, -fd, "creating the control slab%s%s",
		                  ctx->knobs.s.recorder[0] ? " in " : "", ctx->knobs.s.recorder);
	ctx->ctl_fd = fd;
	if (ftruncate(fd, (off_t)size))
		return fail_errno(ORIEL_ENOMEM, errno, "a control slab of %zu bytes", size);
	ctx->ctl = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	err = errno;
	if (ctx->ctl == MAP_FAILED) {
		ctx->ctl = NULL;
		return fail_errno(ORIEL_ENOMEM, err, "mapping a control slab of %zu bytes", size);
	}
	return 0;
}

static void
fill_ctl(oriel_ctx *ctx)
{
	struct ctl *c = ctx->ctl;
	struct recorder *r = &c->recorder;

	c->version = CTL_VERSION;
	c->rank = ctx->boot.rank;
	c->job = hash_bytes(0, ctx->boot.job, strlen(ctx->boot.job));
	c->token = ctx->rec.token;
	c->pid = getpid();
	c->n_local = (uint32_t)ctx->boot.n_local;
	c->wake_fd = ctx->wake_pipe[1];
	r->magic = RECORDER_MAGIC;
	r->rank = ctx->boot.rank;
	r->size = ctx->boot.size;
	r->pid = c->pid;
	snprintf(r->host, sizeof(r->host), "%.63s", ctx->boot.host);
	snprintf(r->job, sizeof(r->job), "%.63s", ctx->boot.job);
	r->start_ns = now_ns();
	ctx->rec_out = r;
	c->magic = CTL_MAGIC;
}

static uint64_t
cpus_hash(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 0 : hash_bytes(0, &set, sizeof(set));
}

static int
make_record(oriel_ctx *ctx)
{
	struct boot_rec *r = &ctx->rec;

	if (getrandom(&r->token, sizeof(r->token), 0) != sizeof(r->token))
		return fail_errno(ORIEL_ETRANSPORT, errno, "getrandom");
	r->ctl_base = (uintptr_t)ctx->ctl;
	r->ctl_size = ctl_size((unsigned)ctx->boot.n_local);
	r->host = host_hash();
	r->cpus = cpus_hash();
	r->pid = getpid();
	r->ctl_fd = ctx->ctl_fd;
	r->node_id = ctx->boot.local[0];
	return 0;
}

static int
make_memory(oriel_ctx *ctx)
{
	struct registry_hook hook = { 0 };
	int rc = slabs_open(ctx);

	return rc ? rc : registry_create(&hook, &ctx->registry);
}

/* Off-node ranks exist, or a rank of the node may have to be reached otherwise. */
static void
make_ucx(oriel_ctx *ctx)
{
	struct transport_state *s = &ctx->tp[TP_UCX];

	if (ctx->boot.size == 1)
		snprintf(s->why, sizeof(s->why), "the job has one rank");
	else if (!list_has(ctx->knobs.s.transports, "ucx"))
		snprintf(s->why, sizeof(s->why), "ORIEL_TRANSPORTS does not name it");
	else if (ctx->boot.n_local == ctx->boot.size && list_has(ctx->knobs.s.transports, "direct"))
		snprintf(s->why, sizeof(s->why), "all ranks are on this node");
	else if (!ucx_open(ctx, &ctx->rec)) {
		s->on = true;
		ctx->has_remote = true;
	}
}

static void
explain_transports(oriel_ctx *ctx)
{
	static const struct {
		enum transport_id id;
		const char *name, *why;
	} rows[] = {
		{ TP_SELF, "self", "always" },
		{ TP_DIRECT, "direct", "peers of the node whose memory is in the pool" },
		{ TP_CMA, "cma", "ordinary memory of peers of the node; probed for each peer" },
		{ TP_STAGED, "staged",
		  "ordinary memory of peers of the node where cma is not possible" },
		{ TP_CE, "ce", "memory of GPUs of the node, by the copy engine" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct transport_state *s = &ctx->tp[rows[i].id];

		s->on = i == 0 || list_has(ctx->knobs.s.transports, rows[i].name);
		snprintf(s->why, sizeof(s->why), "%s",
		         s->on ? rows[i].why : "ORIEL_TRANSPORTS does not name it");
	}
}

static int
make_world(oriel_ctx *ctx)
{
	oriel_comm *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fail(ORIEL_ENOMEM, "no memory for the world communicator");
	c->ctx = ctx;
	c->rank = ctx->boot.rank;
	c->size = ctx->boot.size;
	c->kind = COMM_STRIDED;
	c->stride = 1;
	c->id = hash_bytes(0, ctx->boot.job, strlen(ctx->boot.job)) | 2;
	c->check = (uint64_t)ctx->boot.size;
	rc = comm_make(c);
	if (rc) {
		free(c);
		return rc;
	}
	ctx->world = c;
	return 0;
}

static void
on_boot_failure(void *arg, int rank, const char *why)
{
	oriel_ctx *ctx = arg;
	struct peer *p = peer_find(ctx, rank);

	if (rank == ctx->boot.rank)
		return;
	/* A rank that was never met: the helper meets it, which this thread must not. */
	if (!p)
		table_put(ctx->told_dead, (uint64_t)rank, ctx);
	else if (!load_acquire(&p->left))
		peer_fail(p, true, "%s", why);
}

/* Ranks that are bound to the same CPUs outnumber them, or all ranks of the node all CPUs. */
static bool
is_crowded(const oriel_ctx *ctx)
{
	cpu_set_t set;
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	int mine = sched_getaffinity(0, sizeof(set), &set) ? (int)online : CPU_COUNT(&set);
	int sharing = 0;

	for (int i = 0; i < ctx->boot.n_local; i++)
		sharing += ctx->local[i]->rec.cpus == ctx->rec.cpus;
	return sharing > mine || ctx->boot.n_local > online;
}

static int
publish_record(oriel_ctx *ctx)
{
	size_t len = offsetof(struct boot_rec, ucx) + ctx->rec.ucx_len;
	uint64_t timeout = (uint64_t)ctx->knobs.v.boot_timeout;
	bool ft = ctx->knobs.v.ft;
	int rc = boot_put(&ctx->boot, "rec", &ctx->rec, len);

	if (!rc)
		rc = boot_fence(&ctx->boot, ft, timeout);
	return !rc && ft ? boot_leave(&ctx->boot) : rc;
}

static void ctx_destroy(oriel_ctx *ctx);

static int
ctx_create(oriel_ctx *ctx, const struct oriel_bootstrap *user)
{
	int rc;

	pthread_mutex_init(&ctx->task_lock, NULL);
	pthread_mutex_init(&ctx->streams_lock, NULL);
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->progress, NULL);
	pthread_mutex_init(&ctx->peers_lock, NULL);
	ctx->ctl_fd = ctx->wake_pipe[0] = ctx->wake_pipe[1] = -1;
	ctx->delay_rng = (uint64_t)ctx->knobs.v.seed;
	rc = make_alive(ctx);
	if (!rc)
		rc = make_tables(ctx);
	if (!rc)
		rc = selection_make(&ctx->knobs, &ctx->selection);
	if (!rc)
		rc = boot_open(&ctx->boot, user, &ctx->knobs);
	if (rc)
		return rc;
	ctx->delay_rng += (uint64_t)ctx->boot.rank * 7919;
	ctx->my_local = boot_local_index(&ctx->boot, ctx->boot.rank);
	if (pipe2(ctx->wake_pipe, O_CLOEXEC | O_NONBLOCK))
		return fail_errno(ORIEL_ETRANSPORT, errno, "a pipe for the helper thread");
	if (!wake_register())
		log_at(LOG_INFO, "no membarrier: a sleeping rank may be woken up to %u ms late",
		       WAKE_MAX_SLEEP_NS / 1000000);
	if (ctx->knobs.v.ptracer)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* only Yama knows it */
	rc = dir_init(&ctx->peers, ctx->boot.size);
	if (!rc)
		rc = make_ctl(ctx);
	if (!rc)
		rc = make_record(ctx);
	if (rc)
		return rc;
	fill_ctl(ctx);
	rc = make_memory(ctx);
	if (!rc)
		rc = chan_open(ctx);
	if (!rc)
		rc = am_open(ctx);
	if (!rc)
		rc = shrink_open(ctx);
	if (rc)
		return rc;
	explain_transports(ctx);
	make_ucx(ctx);
	rc = publish_record(ctx);
	if (!rc)
		rc = peer_open_local(ctx);
	if (!rc)
		ctx->crowded = is_crowded(ctx);
	ctx->boot.on_failure = on_boot_failure;
	ctx->boot.on_failure_arg = ctx;
	if (!rc && !ctx->knobs.v.ft)
		rc = boot_watch(&ctx->boot);
	if (!rc)
		rc = make_world(ctx);
	if (!rc)
		rc = gpu_init(ctx);
	if (!rc && ctx->boot.size > 1)
		rc = helper_start(ctx);
	store_release(&ctx->ctl->state, CTL_LIVE);
	return rc;
}

int
oriel_init(const struct oriel_options *opts, oriel_ctx **out)
{
	oriel_ctx *ctx;
	int rc;

	if (!out)
		return fail(ORIEL_EINVAL, "ctx is NULL");
	if (opts && opts->size < sizeof(*opts))
		return fail(ORIEL_EINVAL, "options.size is %zu, expected at least %zu", opts->size,
		            sizeof(*opts));
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return fail(ORIEL_ENOMEM, "no memory for a context");
	rc = knobs_load(&ctx->knobs, opts ? opts->knobs : NULL);
	if (!rc)
		rc = reduce_choose(&ctx->knobs, &ctx->reduce);
	if (rc) {
		free(ctx);
		return rc;
	}
	log_set_level((int)ctx->knobs.v.log);
	ctx->magic = CTX_MAGIC;
	rc = ctx_create(ctx, opts ? opts->bootstrap : NULL);
	if (rc) {
		ctx_destroy(ctx);
		return rc;
	}
	*out = ctx;
	return 0;
}

/*
 * ---- The end ----
 */

static void
free_peer(void *entry, void *arg)
{
	(void)arg;
	peer_free(entry);
}

static void
free_graves(struct graves *g)
{
	if (!g)
		return;
	for (int i = 0; i < GRAVES; i++)
		free(g->handle[i]);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

/* Undoes whatever of ctx_create was done. */
static void
ctx_destroy(oriel_ctx *ctx)
{
	helper_stop(ctx);
	if (ctx->ctl)
		store_release(&ctx->ctl->state, CTL_LEFT);
	if (ctx->world) {
		win_free_left(ctx);
		comm_free_left(ctx);
		comm_put(ctx->world);
	}
	if (ctx->ucx)
		ucx_close(ctx);
	am_close(ctx);
	shrink_close(ctx);
	chan_close(ctx);
	if (ctx->boot.ops)
		boot_close(&ctx->boot);
	dir_each(&ctx->peers, free_peer, NULL);
	dir_free(&ctx->peers);
	free(ctx->local);
	if (ctx->registry)
		registry_destroy(ctx->registry);
	ce_close(ctx);
	gpu_close(ctx);
	if (ctx->pool)
		pool_destroy(ctx->pool);
	if (ctx->ctl)
		munmap(ctx->ctl, ctl_size((unsigned)ctx->boot.n_local));
	if (ctx->ctl_fd >= 0)
		close(ctx->ctl_fd);
	for (int i = 0; i < 2; i++)
		if (ctx->wake_pipe[i] >= 0)
			close(ctx->wake_pipe[i]);
	reduce_free_ops(ctx);
	table_free(ctx->wins);
	table_free(ctx->comms);
	table_free(ctx->groups);
	table_free(ctx->fails);
	table_free(ctx->told_dead);
	free_graves(ctx->graves);
	selection_free(ctx->selection);
	if (ctx->alive)
		munmap(ctx->alive, 4096);
	pthread_mutex_destroy(&ctx->lock);
	pthread_mutex_destroy(&ctx->task_lock);
	pthread_mutex_destroy(&ctx->streams_lock);
	pthread_mutex_destroy(&ctx->progress);
	pthread_mutex_destroy(&ctx->peers_lock);
	free(ctx->deadly_ops);
	ctx->magic = 0;
	free(ctx);
}

/*
 * Ranks of one process use each other's memory by its own address, so it may go
 * only when all have stopped, helper threads included.
 */
static void
leave_process(oriel_ctx *ctx)
{
	for (int i = 0; i < ctx->boot.n_local; i++) {
		if (i == ctx->my_local || !ctx->local[i]->same_process)
			continue;
		if (boot_fence(&ctx->boot, false, (uint64_t)ctx->knobs.v.boot_timeout))
			log_at(LOG_WARN, "rank %d ends without the other ranks of its process: %s",
			       ctx->boot.rank, oriel_detail());
		return;
	}
}

int
oriel_fini(oriel_ctx *ctx)
{
	struct peer *p;
	int rc;

	if (!ctx)
		return 0;
	rc = ctx_enter(ctx);
	if (rc && rc != ORIEL_EEXPELLED)
		return rc;
	store_release(&ctx->leaving, true);
	win_flush_left(ctx);
	p = load_acquire(&ctx->failed_peers);
	/* Nobody takes its memory away while another still writes to it. After a failure there
	 * is no waiting, and those who wait already must be told. */
	if (!rc && p)
		comm_fail(ctx->world, comm_fail_word(p->rank, ctx->world->n_calls));
	else if (!rc && !comm_failed(ctx->world))
		oriel_barrier(ctx->world);
	helper_stop(ctx);
	leave_process(ctx);
	ctx_destroy(ctx);
	return 0;
}

oriel_comm *
oriel_world(oriel_ctx *ctx)
{
	return ctx_enter(ctx) ? NULL : ctx->world;
}
