/*
 * random.c - random collectives against a naive reference: every op, type,
 * count, root, in place or not, on several communicators, blocking, nonblocking
 * and persistent, several under way at a time, started in different orders on
 * different ranks. Algorithms are forced at random, another set for each seed.
 *
 * --seed N: the first seed; --seeds N: so many (threads only: one job a seed);
 * --calls N of each seed; --most BYTES of a call.
 */
#include "test/ranks/random_call.h"

#define N_COMMS 4
#define BATCH 6
#define GUARD 32
#define FILL 0xa5

struct memory {
	unsigned char *whole, *base;
	size_t len;
	bool pool;
};

struct going { /* a call under way */
	struct random_call c;
	oriel_comm *comm;
	int rank, size;
	struct memory in, out;
	size_t *lens[2], *offs[2]; /* in's and out's blocks, bytes */
	struct oriel_piece *pieces[2];
	struct oriel_pieces *blocks[2];
	size_t *counts;
	oriel_req *req;
	int form; /* 0: blocking, 1: nonblocking, 2: persistent */
	int again;
};

static uint64_t seed_now;

struct test {
	struct ranks *r;
	uint64_t seed;
	oriel_comm *comm[N_COMMS];
	oriel_op *op;
	size_t most;
	bool allowed[KINDS];
	bool ordered;
};

/* ---- Memory with guards ---- */

static void
take(struct test *t, struct memory *m, size_t len, uint64_t *rng)
{
	size_t off = below(rng, 16);

	m->len = len;
	m->pool = below(rng, 2);
	if (m->pool)
		OK(oriel_mem_alloc(t->r->ctx, len + off + 2 * GUARD, 0, (void **)&m->whole));
	else
		m->whole = malloc(len + off + 2 * GUARD);
	memset(m->whole, FILL, len + off + 2 * GUARD);
	m->base = m->whole + GUARD + off;
}

static void
give(struct test *t, struct memory *m)
{
	if (m->pool)
		OK(oriel_mem_free(t->r->ctx, m->whole));
	else
		free(m->whole);
	m->whole = NULL;
}

static bool
guarded(const struct memory *m)
{
	for (int i = 1; i <= GUARD; i++)
		if (m->base[-i] != FILL || m->base[m->len + (size_t)i - 1] != FILL)
			return false;
	return true;
}

/* ---- Layouts ---- */

static size_t
elem(const struct going *g)
{
	return reduces(g->c.kind) ? type_size(g->c.type) : 1;
}

/* Blocks of a side in a random order with gaps, in bytes; returns the extent. */
static size_t
lay_out(struct going *g, int side, uint64_t *rng, bool gaps)
{
	size_t at = 0;
	int first = gaps ? (int)below(rng, (uint64_t)g->size) : 0;

	g->lens[side] = calloc((size_t)g->size, sizeof(size_t));
	g->offs[side] = calloc((size_t)g->size, sizeof(size_t));
	for (int k = 0; k < g->size; k++) {
		int b = (first + k) % g->size;
		int from = side ? b : g->rank, to = side ? g->rank : b;

		if (g->c.kind == ALLGATHERV || g->c.kind == ALLGATHERV_LIST)
			from = b, to = 0;
		else if (g->c.kind == GATHERV || g->c.kind == SCATTERV ||
		         g->c.kind == REDUCE_SCATTERV)
			from = b, to = 0;
		g->lens[side][b] = block_count(&g->c, from, to) * elem(g);
		g->offs[side][b] = at;
		at += g->lens[side][b] + (gaps ? below(rng, 9) : 0);
	}
	return at;
}

/* Each block in up to three pieces, with holes of two bytes between; returns the extent. */
static size_t
cut(struct going *g, int side, uint64_t *rng)
{
	size_t at = 0;

	g->pieces[side] = calloc(3 * (size_t)g->size, sizeof(struct oriel_piece));
	g->blocks[side] = calloc((size_t)g->size, sizeof(struct oriel_pieces));
	for (int b = 0; b < g->size; b++) {
		struct oriel_piece *p = g->pieces[side] + 3 * b;
		size_t left = g->lens[side][b], n = 0;

		for (; n < 3 && left; n++) {
			p[n].off = at;
			p[n].len = n == 2 ? left : below(rng, left + 1);
			left -= p[n].len;
			at += p[n].len + 2;
		}
		g->blocks[side][b] = (struct oriel_pieces){ n, p };
	}
	return at;
}

/* The byte of block b of side that is number at. */
static unsigned char *
byte_of(struct going *g, const struct memory *m, int side, int b, size_t at)
{
	const struct oriel_piece *p;

	if (!g->blocks[side])
		return m->base + g->offs[side][b] + at;
	for (p = g->blocks[side][b].piece; at >= p->len; p++)
		at -= p->len;
	return m->base + p->off + at;
}

/* ---- Input and expected output, block by block ---- */

static void
put_element(struct going *g, const struct memory *m, int side, int b, size_t i, uint64_t v)
{
	unsigned char bytes[8];

	if (reduces(g->c.kind) && g->c.op != USER_OP)
		encode(g->c.type, v, bytes);
	else
		memcpy(bytes, &v, 8);
	for (size_t k = 0; k < elem(g); k++)
		*byte_of(g, m, side, b, i * elem(g) + k) = bytes[k];
}

static bool
has_element(struct going *g, int b, size_t i, uint64_t v)
{
	unsigned char bytes[8];

	if (reduces(g->c.kind) && g->c.op != USER_OP)
		encode(g->c.type, v, bytes);
	else
		memcpy(bytes, &v, 8);
	for (size_t k = 0; k < elem(g); k++)
		if (*byte_of(g, &g->out, 1, b, i * elem(g) + k) != bytes[k])
			return false;
	return true;
}

/* Blocks of in that rank has as input, from *first on; 0: none. */
static int
input_blocks(const struct going *g, int *first)
{
	*first = 0;
	switch (g->c.kind) {
	case ALLTOALL:
	case ALLTOALLV:
	case ALLTOALLV_LIST:
	case REDUCE_SCATTER:
	case REDUCE_SCATTERV:
		return g->size;
	case SCATTER:
	case SCATTERV:
		return g->rank == g->c.root ? g->size : 0;
	case BCAST:
		return g->rank == g->c.root ? 1 : 0;
	case BARRIER:
		return 0;
	default:
		return 1;
	}
}

static int
output_blocks(const struct going *g)
{
	switch (g->c.kind) {
	case ALLGATHER:
	case ALLGATHERV:
	case ALLGATHERV_LIST:
	case ALLTOALL:
	case ALLTOALLV:
	case ALLTOALLV_LIST:
		return g->size;
	case GATHER:
	case GATHERV:
		return g->rank == g->c.root ? g->size : 0;
	case REDUCE:
		return g->rank == g->c.root ? 1 : 0;
	case EXSCAN:
		return g->rank ? 1 : 0;
	case BARRIER:
		return 0;
	default:
		return 1;
	}
}

/* Element i of out's block b at the end. */
static uint64_t
expected(const struct going *g, int b, size_t i)
{
	const struct random_call *c = &g->c;

	switch (c->kind) {
	case ALLGATHER:
	case ALLGATHERV:
	case ALLGATHERV_LIST:
	case GATHER:
	case GATHERV:
		return value(c, b, 0, i);
	case ALLTOALL:
	case ALLTOALLV:
	case ALLTOALLV_LIST:
		return value(c, b, g->rank, i);
	case BCAST:
		return value(c, c->root, 0, i);
	case SCATTER:
	case SCATTERV:
		return value(c, c->root, g->rank, i);
	case SCAN:
		return result(c, g->rank + 1, 0, i);
	case EXSCAN:
		return result(c, g->rank, 0, i);
	case REDUCE_SCATTER:
	case REDUCE_SCATTERV:
		return result(c, g->size, g->rank, i);
	default:
		return result(c, g->size, 0, i);
	}
}

/* Elements of the block that a side has one of. */
static size_t
own_count(const struct going *g)
{
	return block_count(&g->c, g->rank, 0);
}

/* How long out's block b is, in elements. */
static size_t
out_count(const struct going *g, int b)
{
	if (g->lens[1])
		return g->lens[1][b] / elem(g);
	return own_count(g);
}

static bool
is_list(enum kind k)
{
	return k == ALLGATHERV_LIST || k == ALLTOALLV_LIST;
}

static bool
has_table(const struct going *g, int side)
{
	enum kind k = g->c.kind;

	if (k == ALLTOALLV || k == ALLTOALLV_LIST || k == ALLTOALL)
		return true;
	if (side == 0)
		return k == SCATTER || k == SCATTERV || k == REDUCE_SCATTER || k == REDUCE_SCATTERV;
	return k == ALLGATHER || k == ALLGATHERV || k == ALLGATHERV_LIST || k == GATHER ||
	       k == GATHERV;
}

/* One block at the start. */
static size_t
lay_one(struct going *g, int side, size_t count)
{
	g->lens[side] = calloc((size_t)g->size, sizeof(size_t));
	g->offs[side] = calloc((size_t)g->size, sizeof(size_t));
	g->lens[side][0] = count * elem(g);
	return count * elem(g);
}

static size_t
make_side(struct going *g, int side, uint64_t *rng)
{
	enum kind k = g->c.kind;
	bool gaps = k == ALLGATHERV || k == ALLTOALLV || k == GATHERV || k == SCATTERV;
	uint64_t alike = g->c.key;
	size_t extent;

	if (k == ALLGATHERV) /* the same displacements on all ranks */
		rng = &alike;
	if (!has_table(g, side))
		return lay_one(g, side, own_count(g));
	extent = lay_out(g, side, rng, gaps);
	return is_list(k) ? cut(g, side, rng) : extent;
}

/* In place: where rank's input lies in out. */
static void
fill_in_place(struct going *g)
{
	enum kind k = g->c.kind;
	int first, n = input_blocks(g, &first);
	bool all = k == ALLTOALL || k == ALLTOALLV || k == ALLTOALLV_LIST;
	bool table = k == REDUCE_SCATTER || k == REDUCE_SCATTERV;

	for (int b = 0; b < n; b++) {
		int at = n == 1 && has_table(g, 1) ? g->rank : b;
		size_t count = all     ? g->lens[1][b] / elem(g)
		               : table ? g->lens[0][b] / elem(g)
		                       : own_count(g);

		for (size_t i = 0; i < count; i++)
			put_element(g, &g->out, table ? 0 : 1, at, i, value(&g->c, g->rank, b, i));
	}
}

static void
fill(struct going *g)
{
	int first, n = input_blocks(g, &first);

	if (g->c.in_place) {
		fill_in_place(g);
		return;
	}
	for (int b = 0; b < n; b++)
		for (size_t i = 0; i < g->lens[0][b] / elem(g); i++)
			put_element(g, &g->in, 0, b, i, value(&g->c, g->rank, b, i));
}

/* In place alltoallv needs equal sizes both ways; other forms decide by kind and rank. */
static void
settle_in_place(struct going *g)
{
	struct random_call *c = &g->c;

	if (c->kind == ALLTOALLV || c->kind == ALLTOALLV_LIST || c->kind == SCATTER ||
	    c->kind == SCATTERV || c->kind == BARRIER)
		c->in_place = false;
	if (c->kind == BCAST)
		c->in_place = true;
	if ((c->kind == GATHER || c->kind == GATHERV || c->kind == REDUCE) && g->rank != c->root)
		c->in_place = false;
}

static void
prepare(struct test *t, struct going *g, uint64_t *rng)
{
	size_t in, out;

	settle_in_place(g);
	in = make_side(g, 0, rng);
	out = make_side(g, 1, rng);
	if (g->c.in_place && (g->c.kind == REDUCE_SCATTER || g->c.kind == REDUCE_SCATTERV))
		out = in > out ? in : out;
	take(t, &g->in, in, rng);
	take(t, &g->out, out, rng);
	fill(g);
}

static void
finish(struct test *t, struct going *g)
{
	give(t, &g->in);
	give(t, &g->out);
	free(g->counts);
	for (int side = 0; side < 2; side++) {
		free(g->lens[side]);
		free(g->offs[side]);
		free(g->pieces[side]);
		free(g->blocks[side]);
	}
}

/* ---- Calling ---- */

#define FORM(name, ...)                                                                            \
	(g->form == 0   ? oriel_##name(__VA_ARGS__)                                                \
	 : g->form == 1 ? oriel_i##name(__VA_ARGS__, &g->req)                                      \
	                : oriel_##name##_init(__VA_ARGS__, &g->req))

static const oriel_op *
op_of(const struct test *t, const struct going *g)
{
	return g->c.op == USER_OP ? t->op : (const oriel_op *)(uintptr_t)g->c.op;
}

static size_t *
counts_of(struct going *g)
{
	g->counts = calloc((size_t)g->size, sizeof(size_t));
	for (int b = 0; b < g->size; b++)
		g->counts[b] = g->lens[0][b] / elem(g);
	return g->counts;
}

static int
begin_reducing(struct test *t, struct going *g, const void *in, void *out)
{
	const struct random_call *c = &g->c;
	const oriel_op *op = op_of(t, g);
	size_t n = c->count;

	switch (c->kind) {
	case REDUCE:
		return FORM(reduce, g->comm, in, out, n, c->type, op, c->root);
	case ALLREDUCE:
		return FORM(allreduce, g->comm, in, out, n, c->type, op);
	case REDUCE_SCATTER:
		return FORM(reduce_scatter, g->comm, in, out, n, c->type, op);
	case REDUCE_SCATTERV:
		return FORM(reduce_scatterv, g->comm, in, out, counts_of(g), c->type, op);
	case SCAN:
		return FORM(scan, g->comm, in, out, n, c->type, op);
	default:
		return FORM(exscan, g->comm, in, out, n, c->type, op);
	}
}

static int
begin(struct test *t, struct going *g)
{
	const struct random_call *c = &g->c;
	const void *in = c->in_place ? NULL : g->in.base;
	void *out = g->out.base;
	size_t n = c->count, own = own_count(g);

	switch (c->kind) {
	case BARRIER:
		return FORM(barrier, g->comm);
	case ALLGATHER:
		return FORM(allgather, g->comm, in, out, n);
	case ALLGATHERV:
		return FORM(allgatherv, g->comm, in, out, g->lens[1], g->offs[1]);
	case ALLGATHERV_LIST:
		return FORM(allgatherv_list, g->comm, in, out, g->blocks[1]);
	case ALLTOALL:
		return FORM(alltoall, g->comm, in, out, n);
	case ALLTOALLV:
		return FORM(alltoallv, g->comm, in, g->lens[0], g->offs[0], out, g->lens[1],
		            g->offs[1]);
	case ALLTOALLV_LIST:
		return FORM(alltoallv_list, g->comm, in, g->blocks[0], out, g->blocks[1]);
	case BCAST:
		return FORM(bcast, g->comm, out, n, c->root);
	case GATHER:
		return FORM(gather, g->comm, in, out, n, c->root);
	case GATHERV:
		return FORM(gatherv, g->comm, in, own, out, g->lens[1], g->offs[1], c->root);
	case SCATTER:
		return FORM(scatter, g->comm, in, out, n, c->root);
	case SCATTERV:
		return FORM(scatterv, g->comm, in, g->lens[0], g->offs[0], out, own, c->root);
	default:
		return begin_reducing(t, g, in, out);
	}
}

static void
check(struct test *t, struct going *g)
{
	const struct random_call *c = &g->c;
	bool right = true;
	int n = output_blocks(g);

	for (int b = 0; b < n && right; b++)
		for (size_t i = 0; i < out_count(g, b) && right; i++)
			right = CHECK(
			        has_element(g, b, i, expected(g, b, i)),
			        "seed %llu, %s, %d ranks, root %d, type %d, op %d, count %zu, "
			        "form %d%s: element %zu of block %d is wrong",
			        (unsigned long long)t->seed, kind_name[c->kind], c->size, c->root,
			        c->type, c->op, c->count, g->form, c->in_place ? ", in place" : "",
			        i, b);
	CHECK(guarded(&g->in) && guarded(&g->out), "seed %llu, %s of %zu: written outside",
	      (unsigned long long)t->seed, kind_name[c->kind], c->count);
}

/* ---- A batch: calls of several communicators, started in this rank's own order ---- */

static bool
complete(struct test *t, struct going *g)
{
	bool good;

	if (g->form == 0)
		return true;
	good = OK(oriel_req_wait(&g->req, RANKS_WAIT_NS));
	while (good && g->form == 2 && g->again-- > 0) {
		fill(g);
		good = OK(oriel_start(g->req)) && OK(oriel_req_wait(&g->req, RANKS_WAIT_NS));
		check(t, g);
	}
	if (good && g->form == 2)
		good = OK(oriel_req_free(&g->req));
	return good;
}

/* Of calls that do not block the order is free but for that of each communicator. */
static void
shuffle(struct test *t, int *order, const int *comm, int n)
{
	for (int round = 0; round < n; round++)
		for (int i = 0; i + 1 < n; i++)
			if (comm[order[i]] != comm[order[i + 1]] && ranks_random(t->r, 2)) {
				int k = order[i];

				order[i] = order[i + 1];
				order[i + 1] = k;
			}
}

static bool
start(struct test *t, struct going *g)
{
	if (!OK(begin(t, g)))
		return false;
	if (g->form != 2)
		return true;
	return OK(oriel_start(g->req));
}

static bool
batch(struct test *t, uint64_t *rng)
{
	struct going g[BATCH];
	int order[BATCH], comm[BATCH], n = 1 + (int)below(rng, BATCH);
	bool blocking = below(rng, 3) == 0, good = true;
	uint64_t own = t->r->random;

	memset(g, 0, sizeof(g));
	for (int i = 0; i < n; i++) {
		uint64_t key = ranks_next(rng);

		comm[i] = (int)below(rng, N_COMMS);
		g[i].comm = t->comm[comm[i]];
		g[i].rank = oriel_comm_rank(g[i].comm);
		g[i].size = oriel_comm_size(g[i].comm);
		g[i].form = blocking ? 0 : 1 + (int)below(rng, 2);
		/* Starting again while others of the communicator are under way would be another
		 * order. */
		g[i].again = n == 1 ? 2 : 0;
		draw(&g[i].c, key, g[i].size, t->most, t->allowed, t->ordered);
		prepare(t, &g[i], &own);
		order[i] = i;
	}
	if (!blocking)
		shuffle(t, order, comm, n);
	for (int k = 0; k < n && good; k++)
		good = start(t, &g[order[k]]);
	for (int i = n - 1; i >= 0 && good; i--) {
		good = complete(t, &g[i]);
		if (good)
			check(t, &g[i]);
	}
	if (!good)
		return false; /* What is under way keeps its memory. */
	for (int i = 0; i < n; i++)
		finish(t, &g[i]);
	t->r->random = own;
	return true;
}

/* ---- Algorithms ---- */

struct names {
	const char *op, *list[12]; /* "*": not for ordered operations; "+": not for the v forms */
};

static const struct names names[] = {
	{ "allgather", { "", "ring", "bruck:2", "bruck:3", "direct", "doubling" } },
	{ "alltoall", { "", "direct:1", "direct:2", "pairwise", "bruck:2+", "bruck:3+" } },
	{ "bcast", { "", "binomial", "chain", "chain@1000", "scatter_allgather" } },
	{ "gather", { "", "direct", "binomial+" } },
	{ "scatter", { "", "direct", "binomial+" } },
	{ "reduce", { "", "direct", "binomial", "twoshot", "halving*", "binomial@4K" } },
	{ "allreduce",
	  { "", "oneshot", "doubling", "twoshot", "rabenseifner", "halving*", "ring*", "ring@4K*",
	    "twoshot@1K" } },
	{ "reduce_scatter", { "", "direct", "halving*", "ring*", "ring@1K*" } },
	{ "scan", { "", "doubling", "chain", "chain@1K" } },
	{ "exscan", { "", "doubling", "chain", "chain@1K" } },
};

static void
choose_algorithms(struct test *t, char *text, size_t cap)
{
	uint64_t rng = t->seed;
	size_t at = (size_t)snprintf(text, cap, "ORIEL_ALGORITHM=");

	t->ordered = true;
	for (int k = 0; k < KINDS; k++)
		t->allowed[k] = true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *name;
		size_t n = 0, len;

		while (n < 12 && names[i].list[n])
			n++;
		name = names[i].list[below(&rng, n)];
		len = strlen(name);
		if (!len)
			continue;
		if (name[len - 1] == '*')
			t->ordered = false, len--;
		else if (name[len - 1] == '+') {
			len--;
			for (int k = 0; k < KINDS; k++)
				if (strstr(kind_name[k], names[i].op) && strchr(kind_name[k], 'v'))
					t->allowed[k] = false;
		}
		at += (size_t)snprintf(text + at, cap - at, "%s%s=%.*s",
		                       text[at - 1] == '=' ? "" : ",", names[i].op, (int)len, name);
	}
}

static void
affine(void *out, const void *a, const void *b, size_t n, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < n; i++) {
		uint64_t x, y, z;

		memcpy(&x, (const char *)a + 8 * i, 8);
		memcpy(&y, (const char *)b + 8 * i, 8);
		z = compose(x, y);
		memcpy((char *)out + 8 * i, &z, 8);
	}
}

static int
run_seed(struct test *t, uint64_t calls)
{
	struct ranks *r = t->r;
	uint64_t rng = t->seed * UINT64_C(7777777);

	t->comm[0] = r->world;
	if (!OK(oriel_comm_dup(r->world, &t->comm[1])) ||
	    !OK(oriel_comm_split(r->world, r->rank % 2, -r->rank, &t->comm[2])) ||
	    !OK(oriel_comm_split(r->world, 0, -r->rank, &t->comm[3])) ||
	    !OK(oriel_op_create(r->ctx, affine, NULL, 0, &t->op)))
		return 1;
	for (int k = 1; k < N_COMMS; k++)
		ranks_watch(t->comm[k]);
	for (uint64_t done = 0; done < calls && !r->failures; done += BATCH / 2)
		if (!batch(t, &rng))
			return 1;
	OK(oriel_op_free(t->op));
	for (int k = 1; k < N_COMMS; k++) {
		ranks_unwatch(t->comm[k]);
		if (!OK(oriel_comm_free(t->comm[k])))
			return 1;
	}
	return 0;
}

static int
run(struct ranks *r)
{
	struct test t = { .r = r, .seed = seed_now };
	char text[512];

	choose_algorithms(&t, text, sizeof(text));
	t.most = ranks_number("--most", 40000);
	return run_seed(&t, ranks_number("--calls", 2000));
}

/* One job a seed, with algorithms of its own. */
int
main(int argc, char **argv)
{
	struct test t = { 0 };
	char text[512];
	const char *const knobs[] = { text, NULL };
	struct oriel_options opts = { .size = sizeof(opts), .knobs = knobs };
	uint64_t seeds;
	int rc = 0;

	ranks_job.argc = argc;
	ranks_job.argv = argv;
	seed_now = ranks_number("--seed", 1);
	seeds = ranks_number("--seeds", 1);
	for (uint64_t k = 0; k < seeds && !rc; k++, seed_now++) {
		t.seed = seed_now;
		choose_algorithms(&t, text, sizeof(text));
		rc = ranks_main(argc, argv, run, &opts);
	}
	return rc;
}
