/*
 * graph.c - capture of streams into graphs, and their replay. The branches of a
 * graph run in any order that its edges permit; a node that has to wait holds up
 * only what comes after it.
 */
#include "sim/cuda/standin.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STREAMS 32

struct node_set { /* of a capture; changed by replacing it */
	size_t n;
	uint32_t node[];
};

struct CUgraph_st {
	struct node {
		struct op op;
		struct node_set *after;
	} * node;
	size_t n, cap;
	uint32_t refs;
};

struct capture {
	struct CUgraph_st *graph;
	struct CUstream_st *stream[MOST_STREAMS]; /* the first is where it began */
	unsigned n_streams;
	bool bad, ended, relaxed;
	uint32_t refs; /* itself while it lasts, and events */
};

struct CUgraphExec_st {
	struct CUgraph_st *graph;
	uint64_t launched, finished;
	uint32_t refs; /* the handle, and runs */
};

struct graph_run {
	struct CUgraphExec_st *exec;
	uint64_t number;
	size_t n_done;
	struct run_node {
		struct op op;
		bool ready, done;
	} node[];
};

/* ---- Sets ---- */

static struct node_set *
set_copy(const struct node_set *a)
{
	size_t bytes = sizeof(*a) + a->n * sizeof(a->node[0]);
	struct node_set *s = malloc(bytes);

	return s ? memcpy(s, a, bytes) : NULL;
}

static struct node_set *
set_of(size_t n, uint32_t node)
{
	struct node_set *s = malloc(sizeof(*s) + sizeof(s->node[0]));

	if (s) {
		s->n = n;
		s->node[0] = node;
	}
	return s;
}

static bool
set_has(const struct node_set *s, uint32_t node)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->node[i] == node)
			return true;
	return false;
}

/* a, with b's too; a is freed. */
static struct node_set *
set_join(struct node_set *a, const struct node_set *b)
{
	struct node_set *s = realloc(a, sizeof(*a) + (a->n + b->n) * sizeof(a->node[0]));

	for (size_t i = 0; s && i < b->n; i++)
		if (!set_has(s, b->node[i]))
			s->node[s->n++] = b->node[i];
	return s;
}

/* ---- Graphs ---- */

static void
graph_put(struct CUgraph_st *g)
{
	if (__atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < g->n; i++)
		free(g->node[i].after);
	free(g->node);
	free(g);
}

static bool
graph_add(struct CUgraph_st *g, const struct op *op, const struct node_set *after)
{
	struct node *more = g->node;

	if (g->n == g->cap) {
		g->cap = g->cap ? 2 * g->cap : 16;
		more = realloc(g->node, g->cap * sizeof(*more));
		if (!more)
			return false;
		g->node = more;
	}
	g->node[g->n] = (struct node){ *op, set_copy(after) };
	return g->node[g->n++].after != NULL;
}

/* ---- Capture ---- */

/* What this thread captures, unless that is done in relaxed mode. */
static __thread struct capture *began;

static void
capture_put(struct capture *c)
{
	if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	free(c);
}

static CUresult
spoil(struct capture *c)
{
	c->bad = true;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
standin_capture(struct CUstream_st *s, const struct op *op)
{
	struct capture *c = s->capture;

	if (c->bad)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!graph_add(c->graph, op, s->after))
		return spoil(c);
	free(s->after);
	s->after = set_of(1, (uint32_t)c->graph->n - 1);
	return s->after ? CUDA_SUCCESS : spoil(c);
}

void
standin_capture_forget(CUevent event)
{
	if (!event->capture)
		return;
	capture_put(event->capture);
	free(event->after);
	event->capture = NULL;
	event->after = NULL;
}

CUresult
standin_capture_record(struct CUstream_st *s, CUevent event)
{
	standin_capture_forget(event);
	event->after = set_copy(s->after);
	if (!event->after)
		return spoil(s->capture);
	event->capture = s->capture;
	__atomic_add_fetch(&s->capture->refs, 1, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

/* A stream that waits for a captured event is captured from then on. */
CUresult
standin_capture_wait(struct CUstream_st *s, CUevent event)
{
	struct capture *c = event->capture;

	if (c->ended)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->bad)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!s->capture) {
		if (c->n_streams == MOST_STREAMS)
			return spoil(c);
		s->after = set_of(0, 0);
		s->capture = c;
		c->stream[c->n_streams++] = s;
	}
	if (s->capture != c)
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	s->after = s->after ? set_join(s->after, event->after) : NULL;
	return s->after ? CUDA_SUCCESS : spoil(c);
}

CUresult
cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);
	struct capture *c;

	if (!s || s == dev->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->refs = 1;
	c->graph = calloc(1, sizeof(*c->graph));
	s->after = set_of(0, 0);
	if (!c->graph || !s->after) {
		free(c->graph);
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->graph->refs = 1;
	c->stream[c->n_streams++] = s;
	s->capture = c;
	c->relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
	if (!c->relaxed)
		began = c;
	return CUDA_SUCCESS;
}

CUresult
standin_capture_asked(struct CUstream_st *s)
{
	if (!s->capture)
		return CUDA_SUCCESS;
	s->capture->bad = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult
standin_capture_forbids(void)
{
	if (!began)
		return CUDA_SUCCESS;
	began->bad = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Every stream's last nodes come before the origin's. */
static bool
all_joined(const struct capture *c)
{
	const struct CUgraph_st *g = c->graph;
	bool *before = calloc(g->n + 1, sizeof(*before)), good = before != NULL;
	const struct node_set *last = c->stream[0]->after;

	for (size_t i = 0; good && i < last->n; i++)
		before[last->node[i]] = true;
	/* Nodes come after those that they wait for. */
	for (size_t n = g->n; good && n-- > 0;)
		for (size_t i = 0; before[n] && i < g->node[n].after->n; i++)
			before[g->node[n].after->node[i]] = true;
	for (unsigned k = 1; good && k < c->n_streams; k++)
		for (size_t i = 0; i < c->stream[k]->after->n; i++)
			good &= before[c->stream[k]->after->node[i]];
	free(before);
	return good;
}

CUresult
cuStreamEndCapture(CUstream handle, CUgraph *out)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);
	struct capture *c = s ? s->capture : NULL;
	CUresult rc = CUDA_SUCCESS;

	*out = NULL;
	if (!c)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->stream[0] != s) {
		c->bad = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->bad)
		rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(c))
		rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	for (unsigned k = 0; k < c->n_streams; k++) {
		free(c->stream[k]->after);
		c->stream[k]->after = NULL;
		c->stream[k]->capture = NULL;
	}
	if (rc)
		graph_put(c->graph);
	else
		*out = c->graph;
	c->ended = true;
	if (began == c)
		began = NULL;
	capture_put(c);
	return rc;
}

CUresult
cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	*status = !s->capture       ? CU_STREAM_CAPTURE_STATUS_NONE
	          : s->capture->bad ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
	                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

/* ---- Replay ---- */

CUresult
cuGraphDestroy(CUgraph graph)
{
	ENTER();
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	graph_put(graph);
	return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	ENTER();
	(void)flags;
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	__atomic_add_fetch(&graph->refs, 1, __ATOMIC_RELAXED);
	(*out)->graph = graph;
	(*out)->refs = 1;
	return CUDA_SUCCESS;
}

static void
exec_put(struct CUgraphExec_st *e)
{
	if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL))
		return;
	graph_put(e->graph);
	free(e);
}

CUresult
cuGraphExecDestroy(CUgraphExec exec)
{
	ENTER();
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	exec_put(exec);
	return CUDA_SUCCESS;
}

CUresult
cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	ENTER();
	(void)stream;
	return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);
	struct graph_run *run;
	struct op *op;
	size_t n;

	if (!exec || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture)
		return CUDA_ERROR_NOT_SUPPORTED; /* graphs in graphs */
	n = exec->graph->n;
	run = calloc(1, sizeof(*run) + n * sizeof(run->node[0]));
	op = calloc(1, sizeof(*op));
	if (!run || !op) {
		free(run);
		free(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	__atomic_add_fetch(&exec->refs, 1, __ATOMIC_RELAXED);
	run->exec = exec;
	run->number = __atomic_fetch_add(&exec->launched, 1, __ATOMIC_ACQ_REL);
	for (size_t i = 0; i < n; i++) {
		run->node[i].op = exec->graph->node[i].op;
		run->node[i].op.dev = dev;
	}
	*op = (struct op){ .kind = OP_GRAPH, .run = run };
	return standin_submit(s, op);
}

void
standin_graph_run_free(struct graph_run *run)
{
	struct CUgraphExec_st *e = run->exec;

	/* On a broken device it may have ended early. */
	if (run->n_done < e->graph->n)
		__atomic_add_fetch(&e->finished, 1, __ATOMIC_ACQ_REL);
	exec_put(e);
	free(run);
}

static bool
is_ready(const struct graph_run *run, size_t i)
{
	const struct node_set *after = run->exec->graph->node[i].after;

	for (size_t k = 0; k < after->n; k++)
		if (!run->node[after->node[k]].done)
			return false;
	return true;
}

/* True: it is done now. */
static bool
try_node(struct graph_run *run, size_t i, CUresult *error)
{
	struct run_node *n = &run->node[i];

	if (n->done || !is_ready(run, i))
		return false;
	if (!n->ready) {
		n->ready = true;
		n->op.not_before = standin_due();
	}
	if (n->op.not_before && standin_now_ns() < n->op.not_before)
		return false;
	n->done = standin_try(&n->op, error);
	run->n_done += n->done;
	return n->done;
}

/* One replay of a graph begins when the last one of it has ended. */
bool
standin_graph_try(struct graph_run *run, CUresult *error)
{
	struct CUgraphExec_st *e = run->exec;
	size_t n = e->graph->n, first = n ? standin_random() % n : 0;
	bool moved = true;

	if (__atomic_load_n(&e->finished, __ATOMIC_ACQUIRE) != run->number)
		return false;
	while (moved && run->n_done < n && !*error) {
		moved = false;
		for (size_t k = 0; k < n && !*error; k++)
			moved |= try_node(run, (first + k) % n, error);
	}
	if (run->n_done < n)
		return false;
	__atomic_add_fetch(&e->finished, 1, __ATOMIC_ACQ_REL);
	return true;
}
