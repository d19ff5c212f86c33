/*
 * explain.c - why a collective takes the way it does: for people, and for
 * oriel_info. What it says is asked of the selection that calls use.
 */
#include "coll/call.h"
#include "plan/stream_short.h"
#include "coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_TEXT 200 /* characters of a path that are kept */
#define PATHS_MAX 64  /* peers whose paths are looked up: it may mean to ask the launcher */

/* One question. */
struct question {
	const struct selection *s;
	struct out out;
	enum coll_op op;
	unsigned flags;
	size_t bytes; /* SELECT_UNKNOWN: not all ranks know */
	struct shape shape;
};

static bool
has_suffix(const char *name, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len > n && !memcmp(name + len - n, suffix, n);
}

static int __attribute__((cold)) no_such_name(const char *name)
{
	fail(ORIEL_EINVAL, "no collective is called \"%.60s\"; there are", name);
	for (int i = 0; i < COLL_OPS; i++)
		fail_more(ORIEL_EINVAL, "%s %s", i ? "," : "", coll_kinds[i].name);
	return fail_more(ORIEL_EINVAL, ", the v and v_list forms, and those on_stream");
}

/* "alltoallv_list", "allgather_on_stream": the op, whether blocks may differ, and whether all ranks
 * know how long they are. */
static int
parse_name(const char *name, size_t len, struct question *q)
{
	size_t n;

	if (!name)
		return fail(ORIEL_EINVAL, "name is NULL");
	n = strlen(name);
	q->bytes = len;
	if (has_suffix(name, n, "_on_stream")) {
		q->flags |= SELECT_STREAM;
		n -= strlen("_on_stream");
	}
	if (tuning_op(name, n, &q->op)) {
		if (q->op <= COLL_AGREE)
			q->bytes = 0;
		return 0;
	}
	if (has_suffix(name, n, "v_list"))
		n -= strlen("_list");
	if (!has_suffix(name, n, "v") || !tuning_op(name, n - 1, &q->op) || q->op <= COLL_AGREE ||
	    coll_kinds[q->op].vector)
		return no_such_name(name);
	q->flags |= SELECT_V;
	if (q->op != COLL_ALLGATHER && q->op != COLL_REDUCE_SCATTER)
		q->bytes = SELECT_UNKNOWN;
	return 0;
}

/*
 * ---- What is said ----
 */

static const char *
bare_name(const struct coll_row *row)
{
	return row->program.name + strlen(coll_kinds[row->op].name) + 1;
}

/* "line 12 of the built-in table": origin has at most 255 characters. */
static const char *
place_of(const struct tuning_rule *rule, char text[320])
{
	snprintf(text, 320, "line %d of %s", rule->line, rule->origin);
	return text;
}

/* The bytes of a block as the row's closed forms count them: a vector's blocks are its parts. */
static size_t
block_bytes(const struct question *q, const struct coll_row *row, const struct shape *shape)
{
	plan_blocks_fn *blocks = row->program.buf[OUT].blocks ? row->program.buf[OUT].blocks
	                                                      : row->program.buf[IN].blocks;
	uint32_t parts;

	if (!coll_kinds[q->op].vector || !blocks)
		return q->bytes;
	parts = blocks(shape);
	return parts ? q->bytes / parts + (q->bytes % parts != 0) : q->bytes;
}

static void
cost_text(const struct question *q, const struct coll_row *row, int arg, char *text, size_t cap)
{
	struct shape shape = q->shape;
	long long rounds, blocks, total;
	char most[24], all[24];
	size_t block;

	shape.arg = arg;
	rounds = row->rounds(&shape);
	blocks = row->blocks(&shape);
	total = row->total(&shape);
	block = block_bytes(q, row, &shape);
	if (q->bytes == SELECT_UNKNOWN || (total && block > SIZE_MAX / (size_t)total)) {
		snprintf(text, cap,
		         "%lld rounds; a rank puts at most %lld blocks, all together %lld", rounds,
		         blocks, total);
		return;
	}
	tuning_size_text(block * (size_t)blocks, most);
	tuning_size_text(block * (size_t)total, all);
	snprintf(text, cap,
	         "%lld rounds; a rank puts at most %lld blocks, %s bytes; all together %lld, %s "
	         "bytes",
	         rounds, blocks, most, total, all);
}

static void
say_question(const struct question *q, const char *name)
{
	const struct shape *s = &q->shape;
	char size[64] = "", nodes[64], text[24];

	if (s->size == 1 || s->node == s->size)
		snprintf(nodes, sizeof(nodes), "1 node");
	else if (s->node)
		snprintf(nodes, sizeof(nodes), "%d nodes of %d", s->size / s->node, s->node);
	else
		snprintf(nodes, sizeof(nodes), "several nodes that are not known to be alike");
	if (q->bytes == SELECT_UNKNOWN)
		snprintf(size, sizeof(size), " of blocks whose size not all ranks know");
	else if (q->op > COLL_AGREE)
		snprintf(size, sizeof(size), " of %s bytes%s", tuning_size_text(q->bytes, text),
		         coll_kinds[q->op].vector ? "" : " a block");
	out_say(&q->out, "%s%s, %d rank%s on %s", name, size, s->size, s->size > 1 ? "s" : "",
	        nodes);
}

static void
say_choice(const struct question *q, const struct coll_choice *c)
{
	char text[TUNING_TEXT], place[320];

	if (c->row->max_arg)
		out_say(&q->out, "algorithm: %s:%d (%s)", c->row->program.name, c->arg,
		        c->row->arg);
	else
		out_say(&q->out, "algorithm: %s", c->row->program.name);
	if (c->rule) {
		tuning_print(c->rule, text, sizeof(text));
		out_say(&q->out, "because: %s: %s", place_of(c->rule, place), text);
	} else {
		out_say(&q->out, "because: ORIEL_ALGORITHM: %s", selection_forced(q->s, q->op));
	}
	if (c->chunk && q->bytes != SELECT_UNKNOWN)
		out_say(&q->out, "chunks: %zu of %s bytes, each with these rounds, overlapping",
		        (q->bytes - 1) / c->chunk + 1, tuning_size_text(c->chunk, place));
	else if (c->chunk)
		out_say(&q->out, "chunks: %s bytes", tuning_size_text(c->chunk, place));
	else
		out_say(&q->out, "chunks: none");
	cost_text(q, c->row, c->arg, text, sizeof(text));
	out_say(&q->out, "cost: %s", text);
}

/* The ops that do not commute may have to go another way. */
static void
say_ordered(const struct question *q, const struct coll_choice *c)
{
	struct coll_choice other;
	char place[320];

	if (!coll_kinds[q->op].reduces || q->op == COLL_AGREE)
		return;
	if (select_choose(q->s, q->op, q->bytes, q->flags | SELECT_ORDERED, &q->shape, &other))
		out_say(&q->out, "ops that do not commute: %s", oriel_detail());
	else if (other.row != c->row || other.arg != c->arg || other.chunk != c->chunk)
		out_say(&q->out, "ops that do not commute: %s (%s)", other.row->program.name,
		        place_of(other.rule, place));
}

/* Why a row that could run is not the choice: what becomes of the rules that name it. One that
 * holds but comes later says most, then one that is for so many ranks, then any. */
static void
why_not(const struct question *q, const struct coll_row *row, char *text, size_t cap)
{
	const struct tuning_rule *rule, *held = NULL, *here = NULL, *named = NULL;
	char rule_text[TUNING_TEXT], place[320];
	size_t n;

	if (selection_forced(q->s, q->op)) {
		snprintf(text, cap, "ORIEL_ALGORITHM decides");
		return;
	}
	rule = selection_rules(q->s, q->op, &n);
	for (size_t i = 0; i < n && !held; i++) {
		if (rule[i].row != row)
			continue;
		named = named ? named : &rule[i];
		if (!here && select_holds(&rule[i], rule[i].bytes.min, q->flags, &q->shape))
			here = &rule[i];
		held = select_holds(&rule[i], q->bytes, q->flags, &q->shape) ? &rule[i] : NULL;
	}
	named = here ? here : named;
	if (held) {
		snprintf(text, cap, "%s comes later", place_of(held, place));
	} else if (named) {
		tuning_print(named, rule_text, sizeof(rule_text));
		snprintf(text, cap, "%s does not hold: %s", place_of(named, place), rule_text);
	} else {
		snprintf(text, cap, "no rule uses it");
	}
}

static void
say_other(const struct question *q, const struct coll_row *row)
{
	struct shape shape = q->shape;
	char cost[TUNING_TEXT], why[800], args[40] = "";
	const char *unfit;

	shape.arg = coll_clip(row, shape.size, 0);
	unfit = select_unfit(row, q->flags, &shape);
	if (unfit) {
		out_say(&q->out, "impossible: %s: %s", bare_name(row), unfit);
		return;
	}
	if (row->max_arg && row->max_arg(shape.size) > shape.arg)
		snprintf(args, sizeof(args), ":%d to %d, with %d", shape.arg,
		         row->max_arg(shape.size), shape.arg);
	else if (row->max_arg)
		snprintf(args, sizeof(args), ":%d", shape.arg);
	cost_text(q, row, shape.arg, cost, sizeof(cost));
	why_not(q, row, why, sizeof(why));
	out_say(&q->out, "possible: %s%s: %s (%s)", bare_name(row), args, cost, why);
}

static int
answer(const struct question *q, const char *name, struct coll_choice *c)
{
	int rc = select_choose(q->s, q->op, q->bytes, q->flags, &q->shape, c);

	if (rc)
		return rc;
	say_question(q, name);
	say_choice(q, c);
	say_ordered(q, c);
	return 0;
}

static void
say_others(const struct question *q, const struct coll_choice *c)
{
	for (size_t i = 0; i < coll_rows; i++)
		if (coll_table[i].op == q->op && &coll_table[i] != c->row)
			say_other(q, &coll_table[i]);
}

/*
 * ---- Paths to the peers ----
 */

static int
compare_ranks(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* "1, 3..5, 7": n ascending ranks, as many as fit. */
static void
ranks_text(const int *rank, size_t n, char *text, size_t cap)
{
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0, j; i < n && len + 40 < cap; i = j) {
		for (j = i + 1; j < n && rank[j] == rank[j - 1] + 1;)
			j++;
		len += (size_t)snprintf(text + len, cap - len, "%s%d", i ? ", " : "", rank[i]);
		if (j > i + 1)
			len += (size_t)snprintf(text + len, cap - len, "%s%d",
			                        j > i + 2 ? ".." : ", ", rank[j - 1]);
		if (j < n && len + 40 >= cap)
			snprintf(text + len, cap - len, ", ...");
	}
}

/* The ranks that this rank puts to, or signals. */
static size_t
targets_of(const struct plan *plan, int *rank)
{
	size_t n = 0, kept = 0;

	for (uint32_t e = 0; e < plan->n_edges; e++)
		if (plan->edges[e].sends)
			rank[n++] = plan->edges[e].rank;
	qsort(rank, n, sizeof(*rank), compare_ranks);
	for (size_t i = 0; i < n; i++)
		if (!kept || rank[kept - 1] != rank[i])
			rank[kept++] = rank[i];
	return kept;
}

/* To pool memory, and to ordinary memory where that goes another way. */
static int
path_text(oriel_comm *comm, int rank, char text[2 * PATH_TEXT + 40])
{
	char pool[PATH_TEXT], user[PATH_TEXT];
	int rc = oriel_path(comm, rank, 0, pool, sizeof(pool));

	if (rc >= 0)
		rc = oriel_path(comm, rank, 1, user, sizeof(user));
	if (rc < 0)
		return rc;
	if (strcmp(pool, user))
		snprintf(text, 2 * PATH_TEXT + 40, "%s; large blocks in ordinary memory: %s", pool,
		         user);
	else
		snprintf(text, 2 * PATH_TEXT + 40, "%s", pool);
	return 0;
}

/* A line for each path, with all the ranks that are reached so. rank is used up. */
static int
say_paths(const struct question *q, oriel_comm *comm, int *rank, size_t n)
{
	char first[2 * PATH_TEXT + 40], next[2 * PATH_TEXT + 40], list[300];

	while (n) {
		int *same = malloc(n * sizeof(*same));
		size_t n_same = 0, left = 0;
		int rc = same ? path_text(comm, rank[0], first)
		              : fail(ORIEL_ENOMEM, "no memory for %zu ranks", n);

		for (size_t i = 0; i < n && !rc; i++) {
			rc = path_text(comm, rank[i], next);
			if (!rc && !strcmp(first, next))
				same[n_same++] = rank[i];
			else
				rank[left++] = rank[i];
		}
		if (!rc) {
			ranks_text(same, n_same, list, sizeof(list));
			out_say(&q->out, "path to %s: %s", list, first);
		}
		free(same);
		if (rc)
			return rc;
		n = left;
	}
	return 0;
}

static int
explain_paths(const struct question *q, oriel_comm *comm, const struct coll_choice *c)
{
	struct shape shape = q->shape;
	struct plan *plan;
	int *rank, rc;

	if (comm->size == 1) {
		out_say(&q->out, "paths: a single rank talks to nobody");
		return 0;
	}
	shape.arg = c->arg;
	rc = plan_build(&c->row->program, &shape, comm->rank, &plan);
	if (rc)
		return rc;
	rank = malloc((plan->n_edges + 1) * sizeof(*rank));
	if (rank) {
		size_t n = targets_of(plan, rank);

		if (!n)
			out_say(&q->out, "paths: rank %d only receives", comm->rank);
		if (n > PATHS_MAX)
			out_say(&q->out, "paths: %zu peers, of which the first %d follow", n,
			        PATHS_MAX);
		rc = say_paths(q, comm, rank, n < PATHS_MAX ? n : PATHS_MAX);
	} else {
		rc = fail(ORIEL_ENOMEM, "no memory for %u edges", plan->n_edges);
	}
	free(rank);
	plan_free(plan);
	return rc;
}

/* Whether a kernel takes the algorithm's place; and what else takes multiprocessors. */
static void
say_stream(const struct question *q, oriel_comm *comm)
{
	const char *why = coll_short_op(q->op) ? stream_short_unfit(comm, q->bytes)
	                                       : "there is none for this collective";

	if (!why)
		out_say(&q->out,
		        "instead: one kernel, ll_exchange, up to ORIEL_GPU_SHORT_MAX bytes");
	else
		out_say(&q->out, "not one kernel: %s", why);
	out_say(&q->out, "puts: the copy engine; %s",
	        coll_kinds[q->op].reduces ? "combining: a kernel of ORIEL_GPU_BLOCKS thread blocks"
	                                  : "a rank's own block: a local copy, none in place");
}

/*
 * ---- The public calls ----
 */

int
oriel_explain(oriel_comm *comm, const char *name, size_t len,
              void (*line)(void *arg, const char *text), void *arg)
{
	struct question q = { .out = { line, arg } };
	struct coll_choice choice;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!line)
		return fail(ORIEL_EINVAL, "line is NULL");
	rc = parse_name(name, len, &q);
	if (rc)
		return rc;
	q.s = comm->ctx->selection;
	coll_shape(comm, 0, &q.shape);
	rc = answer(&q, name, &choice);
	if (!rc && q.flags & SELECT_STREAM)
		say_stream(&q, comm);
	if (!rc)
		rc = explain_paths(&q, comm, &choice);
	if (!rc)
		say_others(&q, &choice);
	return rc;
}

int
oriel_explain_ranks(oriel_ctx *ctx, const char *name, size_t len, int ranks, int node,
                    void (*line)(void *arg, const char *text), void *arg)
{
	struct question q = { .out = { line, arg } };
	struct coll_choice choice;
	int rc = ctx_enter(ctx);

	if (rc)
		return rc;
	if (!line)
		return fail(ORIEL_EINVAL, "line is NULL");
	if (ranks < 1 || node < 0 || (node && ranks % node))
		return fail(ORIEL_EINVAL, "%d ranks, %d a node: not a number of whole nodes", ranks,
		            node);
	rc = parse_name(name, len, &q);
	if (rc)
		return rc;
	q.s = ctx->selection;
	q.shape = (struct shape){ .size = ranks, .node = node };
	rc = answer(&q, name, &choice);
	if (!rc)
		say_others(&q, &choice);
	return rc;
}

int
oriel_algorithms(oriel_comm *comm, const char *name, int *node,
                 void (*each)(void *arg, const struct oriel_algorithm *algorithm), void *arg)
{
	struct shape shape;
	enum coll_op op;
	int rc = comm_enter(comm);

	if (rc)
		return rc;
	if (!name || !each)
		return fail(ORIEL_EINVAL, "%s is NULL", name ? "each" : "name");
	if (!tuning_op(name, strlen(name), &op))
		return no_such_name(name);
	coll_shape(comm, 0, &shape);
	if (node)
		*node = shape.node;
	for (size_t i = 0; i < coll_rows; i++) {
		const struct coll_row *row = &coll_table[i];
		struct oriel_algorithm a = { .name = bare_name(row) };

		if (row->op != op)
			continue;
		shape.arg = coll_clip(row, shape.size, 0);
		if (row->max_arg) {
			a.min_arg = shape.arg;
			a.max_arg = row->max_arg(shape.size);
		}
		a.unfit = row->unfit ? row->unfit(&shape) : NULL;
		each(arg, &a);
	}
	return 0;
}
