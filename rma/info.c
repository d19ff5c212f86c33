/*
 * info.c - what is active, and why: for people, and for oriel_info.
 */
#include "coll/reduce_impl.h"
#include "rma/comm.h"
#include "rma/gpu.h"
#include "rma/ucx.h"
#include "rma/win.h"

#include <stdio.h>

static const char *const names[TP_N] = { "self", "direct", "cma", "staged", "ce", "ucx" };

static const char *
choose_gpu(const struct peer *p, const char **why)
{
	const oriel_ctx *ctx = p->ctx;

	if (!p->ctl)
		*why = p->why_not;
	else if (!list_has(ctx->knobs.s.transports, "ce"))
		*why = ctx->tp[TP_CE].why;
	else if (!gpu_of(ctx))
		*why = ctx->gpu_why;
	else
		*why = p->rank == ctx->boot.rank ? "this rank itself" : "same node";
	return p->ctl && gpu_of(ctx) && list_has(ctx->knobs.s.transports, "ce") ? "ce" : "none";
}

/* kind 0: pool memory, 1: ordinary memory, 2: memory of a GPU. The same decisions as in target.c.
 */
static const char *
choose(struct peer *p, int kind, const char **why)
{
	oriel_ctx *ctx = p->ctx;

	if (kind == 2)
		return choose_gpu(p, why);
	if (p->rank == ctx->boot.rank) {
		*why = "this rank itself";
		return "self";
	}
	if (p->ctl && p->same_process) {
		*why = "a rank of the same process";
		return "direct";
	}
	if (p->ctl && kind == 0) {
		*why = "same node, its pool is mapped here";
		return "direct";
	}
	if (p->ctl && peer_cma(p)) {
		*why = p->cma_why;
		return "cma";
	}
	if (p->ctl) {
		*why = p->cma_why;
		return list_has(ctx->knobs.s.transports, "staged") ? "staged" : "none";
	}
	*why = p->why_not;
	return ctx->ucx ? "ucx" : "none";
}

int
oriel_path(oriel_comm *comm, int target, int kind, char *text, size_t cap)
{
	const char *name, *why;
	struct peer *p;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!text && cap)
		return fail(ORIEL_EINVAL, "text is NULL and cap is %zu", cap);
	if (kind < 0 || kind > 2)
		return fail(ORIEL_EINVAL,
		            "kind %d is neither 0 (pool), 1 (ordinary memory) nor 2 (of a GPU)",
		            kind);
	rc = comm_peer(comm, target, &p);
	if (rc)
		return rc;
	name = choose(p, kind, &why);
	if (peer_failed(p))
		return snprintf(text, cap, "%s (%s); failed: %s", name, why, p->why);
	return snprintf(text, cap, "%s (%s)", name, why);
}

static void
say_knob(void *arg, const char *name, const char *value, const char *origin, const char *def,
         const char *text)
{
	(void)def;
	out_say(arg, "knob %s=%s (%s): %s", name, value, origin, text);
}

int
oriel_info(oriel_ctx *ctx, void (*line)(void *arg, const char *text), void *arg)
{
	struct out o = { line, arg };
	struct oriel_mem_stats s;
	int rc = ctx_enter(ctx);

	if (rc)
		return rc;
	if (!line)
		return fail(ORIEL_EINVAL, "line is NULL");
	out_say(&o, "version %s", oriel_version());
	out_say(&o, "build %s, ucx %s, pmix %s", __VERSION__,
#ifdef HAVE_UCX
	        "yes",
#else
	        "no",
#endif
#ifdef HAVE_PMIX
	        "yes"
#else
	        "no"
#endif
	);
	out_say(&o, "job %s: rank %d of %d, %d on node %s (%s)", ctx->boot.job, ctx->boot.rank,
	        ctx->boot.size, ctx->boot.n_local, ctx->boot.host, ctx->boot.launcher);
	for (int i = 0; i < TP_N; i++)
		out_say(&o, "transport %s: %s (%s)", names[i], ctx->tp[i].on ? "on" : "off",
		        ctx->tp[i].why);
	out_say(&o, "waits: %s",
	        ctx->crowded ? "yield at once (ranks share CPUs)"
	                     : "spin, then yield (a CPU for each rank)");
	gpu_say(ctx, &o);
	out_say(&o, "reductions: %s", ctx->reduce->name);
	rc = oriel_mem_stats(ctx, &s);
	if (!rc)
		out_say(&o,
		        "pool: %zu slabs of %zu bytes together, %zu in use, %zu at most, %zu "
		        "retired",
		        s.slabs, s.reserved_bytes, s.used_bytes, s.peak_bytes, s.retired_bytes);
	knobs_each(&ctx->knobs, say_knob, &o);
	return 0;
}
