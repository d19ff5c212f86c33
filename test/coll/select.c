#include "coll/select.h"

#include "base/knobs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Algorithms of the test's own, to be unfit and out of order ---- */

static const char *
wants_power_of_two(const struct shape *shape)
{
	return is_pow2((size_t)shape->size) ? NULL : "it wants a power of two";
}

static const char *
wants_nodes(const struct shape *shape)
{
	return shape->node && shape->node < shape->size ? NULL : "it wants several nodes";
}

static int
three(int size)
{
	(void)size;
	return 3;
}

/* The largest argument is the number of ranks, the least one half of it. */
static int
half(int size)
{
	return size > 5 ? size / 2 : 3;
}

static int
whole(int size)
{
	return size > 5 ? size : 3;
}

static const struct coll_row rows[] = {
	{ .program = { .name = "allreduce/doubling" },
	  .op = COLL_ALLREDUCE,
	  .unfit = wants_power_of_two },
	{ .program = { .name = "allreduce/ring" }, .op = COLL_ALLREDUCE, .unordered = true },
	{ .program = { .name = "allreduce/rails" }, .op = COLL_ALLREDUCE, .unfit = wants_nodes },
	{ .program = { .name = "allreduce/slow" }, .op = COLL_ALLREDUCE },
	{ .program = { .name = "alltoall/bruck" }, .op = COLL_ALLTOALL, .whole = true },
	{ .program = { .name = "alltoall/direct" },
	  .op = COLL_ALLTOALL,
	  .arg = "number of peers at a time, from half the ranks",
	  .min_arg = half,
	  .max_arg = whole },
	{ .program = { .name = "alltoall/three" },
	  .op = COLL_ALLTOALL,
	  .arg = "three",
	  .min_arg = three,
	  .max_arg = three },
};

static const char table[] = "oriel-tuning 1\n"
                            "alltoall bytes=unknown use=direct:4\n"
                            "allreduce ranks=2-8 nodes=1 bytes=0-1K use=doubling\n"
                            "allreduce nodes=4- per_node=2- use=rails\n"
                            "allreduce bytes=64K- use=ring chunk=256K\n"
                            "allreduce bytes=2K-4K use=ring\n"
                            "allreduce use=slow\n"
                            "alltoall bytes=0-64 use=bruck\n"
                            "alltoall use=direct\n";

static int
make(struct selection **s, const char *algorithm, const char *tuning)
{
	const struct coll_rows own = { rows, ARRAY_SIZE(rows) };
	char force[300], file[300];
	const char *const options[] = { force, file, NULL };
	struct knobs k;

	snprintf(force, sizeof(force), "ORIEL_ALGORITHM=%s", algorithm);
	snprintf(file, sizeof(file), "ORIEL_TUNING=%s", tuning);
	cr_assert_eq(knobs_load(&k, options), 0, "%s", oriel_detail());
	return selection_make_from(&k, &own, table, s);
}

static struct selection *
made(const char *algorithm, const char *tuning)
{
	struct selection *s = NULL;

	cr_assert_eq(make(&s, algorithm, tuning), 0, "%s", oriel_detail());
	return s;
}

static struct coll_choice
choose(const struct selection *s, enum coll_op op, size_t bytes, unsigned flags, int size, int node)
{
	const struct shape shape = { .size = size, .node = node };
	struct coll_choice c = { 0 };

	cr_assert_eq(select_choose(s, op, bytes, flags, &shape, &c), 0, "%s", oriel_detail());
	return c;
}

static const char *
chosen(const struct selection *s, enum coll_op op, size_t bytes, unsigned flags, int size, int node)
{
	return strchr(choose(s, op, bytes, flags, size, node).row->program.name, '/') + 1;
}

/* ---- Rules ---- */

Test(select, the_first_rule_that_holds_and_fits)
{
	struct selection *s = made("", "");

	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 1024, 0, 8, 8), "doubling");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 1025, 0, 8, 8), "slow");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 6, 6), "slow", "6 is no power of two");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 16, 16), "slow", "ranks=2-8");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 8, 4), "slow", "nodes=1");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 3000, 0, 8, 8), "ring");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 65536, 0, 8, 8), "ring");
	cr_expect_eq(choose(s, COLL_ALLREDUCE, 65536, 0, 8, 8).rule->line, 5);
	cr_expect_str_eq(choose(s, COLL_ALLREDUCE, 65536, 0, 8, 8).rule->origin,
	                 "the built-in table");
	selection_free(s);
}

Test(select, nodes)
{
	struct selection *s = made("", "");

	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 8, 2), "rails");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 8, 1), "slow", "per_node=2-");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 6, 2), "slow", "nodes=4-");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, 0, 8, 0), "slow",
	                 "nobody knows how many nodes there are");
	selection_free(s);
}

/* Nodes that are not alike are several, and more cannot be said. */
Test(select, nodes_that_are_not_alike)
{
	static const struct {
		struct tuning_range nodes, per_node;
		bool holds;
	} cases[] = {
		{ { 0, SIZE_MAX }, { 0, SIZE_MAX }, true },
		{ { 1, SIZE_MAX }, { 1, SIZE_MAX }, true },
		{ { 2, SIZE_MAX }, { 0, SIZE_MAX }, true },
		{ { 3, SIZE_MAX }, { 0, SIZE_MAX }, false },
		{ { 1, 1 }, { 0, SIZE_MAX }, false },
		{ { 2, 8 }, { 0, SIZE_MAX }, false },
		{ { 0, SIZE_MAX }, { 2, SIZE_MAX }, false },
		{ { 0, SIZE_MAX }, { 1, 8 }, false },
	};
	const struct shape several = { .size = 8 }, alone = { .size = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct tuning_rule rule = { .nodes = cases[i].nodes,
			                          .per_node = cases[i].per_node,
			                          .ranks = { 0, SIZE_MAX },
			                          .bytes = { 0, SIZE_MAX } };

		cr_expect_eq(select_holds(&rule, 0, 0, &several), cases[i].holds, "case %zu", i);
		cr_expect_eq(select_holds(&rule, 0, 0, &alone),
		             cases[i].nodes.min <= 1 && cases[i].per_node.min <= 1,
		             "case %zu, one rank on one node", i);
	}
}

Test(select, flags)
{
	struct selection *s = made("", "");

	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 3000, SELECT_ORDERED, 8, 8), "slow");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 3000, SELECT_V, 8, 8), "ring");
	cr_expect_str_eq(chosen(s, COLL_ALLTOALL, 8, 0, 4, 4), "bruck");
	cr_expect_str_eq(chosen(s, COLL_ALLTOALL, 8, SELECT_V, 4, 4), "direct");
	cr_expect_str_eq(chosen(s, COLL_ALLTOALL, 8, SELECT_ORDERED, 4, 4), "bruck");
	selection_free(s);
}

Test(select, sizes_that_not_all_know)
{
	struct selection *s = made("", "");
	struct coll_choice c = choose(s, COLL_ALLTOALL, SELECT_UNKNOWN, SELECT_V, 6, 6);

	cr_expect_eq(c.rule->line, 2);
	cr_expect_eq(c.arg, 4);
	c = choose(s, COLL_ALLREDUCE, SELECT_UNKNOWN, 0, 8, 8);
	cr_expect_str_eq(c.row->program.name, "allreduce/slow", "bytes=64K- leaves it out");
	selection_free(s);
}

Test(select, arguments_are_clipped)
{
	struct selection *s = made("", "");

	cr_expect_eq(choose(s, COLL_ALLTOALL, SELECT_UNKNOWN, 0, 20, 20).arg, 10, "from half on");
	cr_expect_eq(choose(s, COLL_ALLTOALL, SELECT_UNKNOWN, 0, 6, 6).arg, 4);
	cr_expect_eq(choose(s, COLL_ALLTOALL, SELECT_UNKNOWN, 0, 2, 2).arg, 3);
	cr_expect_eq(choose(s, COLL_ALLTOALL, 100, 0, 20, 20).arg, 10, "none given: the least");
	selection_free(s);
}

Test(select, chunks)
{
	struct selection *s = made("", "");

	cr_expect_eq(choose(s, COLL_ALLREDUCE, 256 << 10, 0, 8, 8).chunk, 0, "it fits in one");
	cr_expect_eq(choose(s, COLL_ALLREDUCE, (256 << 10) + 1, 0, 8, 8).chunk, 256 << 10);
	selection_free(s);
}

/* Every size inside a choice's bounds has that choice, and the sizes beside them have not. */
Test(select, bounds_of_a_choice)
{
	static const char *const forced[] = { "", "allreduce=ring@3K" };

	for (size_t f = 0; f < ARRAY_SIZE(forced); f++) {
		struct selection *s = made(forced[f], "");

		for (int size = 2; size <= 8; size += 2) {
			struct coll_choice before = choose(s, COLL_ALLREDUCE, 0, 0, size, size);

			for (size_t bytes = 0; bytes < 300 << 10;
			     bytes += bytes < 6000 ? 1 : 1021) {
				struct coll_choice c =
				        choose(s, COLL_ALLREDUCE, bytes, 0, size, size);
				struct coll_choice low, high;

				cr_assert(c.least <= bytes && bytes <= c.most);
				if (bytes <= before.most)
					cr_assert(c.rule == before.rule && c.chunk == before.chunk,
					          "%zu bytes, after a choice up to %zu", bytes,
					          before.most);
				before = c;
				low = choose(s, COLL_ALLREDUCE, c.least, 0, size, size);
				high = choose(s, COLL_ALLREDUCE, c.most, 0, size, size);
				cr_assert(low.rule == c.rule && low.chunk == c.chunk &&
				                  high.rule == c.rule && high.chunk == c.chunk,
				          "%zu bytes: %zu to %zu", bytes, c.least, c.most);
				if (c.most == SIZE_MAX)
					continue;
				high = choose(s, COLL_ALLREDUCE, c.most + 1, 0, size, size);
				cr_assert(high.least == c.most + 1, "%zu after %zu", high.least,
				          c.most);
			}
		}
		selection_free(s);
	}
}

Test(select, no_rule)
{
	const struct shape shape = { .size = 4 };
	struct selection *s = made("", "");
	struct coll_choice c = { 0 };

	cr_expect_eq(select_choose(s, COLL_BCAST, 8, SELECT_ORDERED | SELECT_V, &shape, &c),
	             ORIEL_ENOTSUP);
	cr_expect(strstr(oriel_detail(), "bcast on 4 ranks, in the ranks' order"), "%s",
	          oriel_detail());
	cr_expect_null(c.row);
	selection_free(s);
}

/* ---- ORIEL_TUNING ---- */

static void
write_file(const char *file, const char *text)
{
	FILE *f = fopen(file, "w");

	cr_assert(f);
	fputs(text, f);
	fclose(f);
}

Test(select, a_file_comes_before_the_built_in_table)
{
	char file[] = "/tmp/oriel-select-XXXXXX";
	int fd = mkstemp(file);
	struct selection *s = NULL;
	struct coll_choice c;

	cr_assert(fd >= 0);
	close(fd);
	write_file(file, "oriel-tuning 1\nallreduce bytes=8 use=ring\n");
	s = made("", file);
	c = choose(s, COLL_ALLREDUCE, 8, 0, 8, 8);
	cr_expect_str_eq(c.row->program.name, "allreduce/ring");
	cr_expect_str_eq(c.rule->origin, file);
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 8, SELECT_ORDERED, 8, 8), "doubling",
	                 "what the file has does not fit");
	cr_expect_str_eq(chosen(s, COLL_ALLREDUCE, 9, 0, 8, 8), "doubling");
	selection_free(s);

	s = NULL;
	write_file(file, "oriel-tuning 1\nallreduce use=missing\n");
	cr_expect_eq(make(&s, "", file), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "ORIEL_TUNING (from the options): ") &&
	                  strstr(oriel_detail(), file) && strstr(oriel_detail(), ":2: \"missing\""),
	          "%s", oriel_detail());
	cr_expect_null(s);
	unlink(file);
	cr_expect_eq(make(&s, "", file), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), file), "%s", oriel_detail());
}

/* Comments and blanks change nothing; what may change a choice changes the hash. */
Test(select, hash)
{
	static const struct {
		const char *algorithm, *rules;
		bool same;
	} cases[] = {
		{ "", "oriel-tuning 1\n", true },
		{ "", "# x\n oriel-tuning  1 # y\n\n", true },
		{ "", "oriel-tuning 1\nallreduce use=slow\n", false },
		{ "", "oriel-tuning 1\nallreduce use=slow chunk=1\n", false },
		{ "", "oriel-tuning 1\nalltoall use=direct:5\n", false },
		{ "", "oriel-tuning 1\nalltoall use=direct:6\n", false },
		{ "", "oriel-tuning 1\nalltoall bytes=0- use=direct:6\n", false },
		{ "alltoall=direct", "oriel-tuning 1\n", false },
		{ "alltoall=direct:5", "oriel-tuning 1\n", false },
		{ "alltoall=direct:5@1K", "oriel-tuning 1\n", false },
	};
	struct selection *plain = made("", "");
	uint64_t seen[ARRAY_SIZE(cases)];
	char file[] = "/tmp/oriel-select-XXXXXX";
	int fd = mkstemp(file);

	cr_assert(fd >= 0);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct selection *s;

		write_file(file, cases[i].rules);
		s = made(cases[i].algorithm, file);
		seen[i] = selection_hash(s);
		cr_expect_eq(seen[i] == selection_hash(plain), cases[i].same, "case %zu", i);
		for (size_t j = 0; j < i; j++)
			cr_expect(cases[i].same || seen[i] != seen[j], "cases %zu and %zu", i, j);
		selection_free(s);
	}
	unlink(file);
	selection_free(plain);
}

/* ---- ORIEL_ALGORITHM ---- */

Test(select, forced)
{
	struct selection *s = made("alltoall=direct:5,allreduce=ring@3K", "");
	struct coll_choice c = choose(s, COLL_ALLTOALL, 8, 0, 8, 8);

	cr_expect_str_eq(c.row->program.name, "alltoall/direct");
	cr_expect(c.arg == 5 && !c.rule && !c.chunk);
	c = choose(s, COLL_ALLREDUCE, 3073, 0, 8, 8);
	cr_expect_str_eq(c.row->program.name, "allreduce/ring");
	cr_expect(c.chunk == 3072 && c.least == 3073 && c.most == SIZE_MAX);
	c = choose(s, COLL_ALLREDUCE, 3072, 0, 8, 8);
	cr_expect(!c.chunk && c.least == 0 && c.most == 3072);
	cr_expect_eq(choose(s, COLL_ALLTOALL, 8, 0, 4, 4).arg, 3, "more than there is, is all");
	cr_expect_str_eq(selection_forced(s, COLL_ALLTOALL),
	                 "alltoall=direct:5 (from the options)");
	cr_expect_null(selection_forced(s, COLL_BCAST));
	selection_free(s);
}

/* Never a silent fallback: what is forced runs, or the call fails and says why. */
Test(select, forced_and_impossible)
{
	static const struct {
		const char *algorithm;
		enum coll_op op;
		int size;
		unsigned flags;
		const char *says;
	} cases[] = {
		{ "allreduce=doubling", COLL_ALLREDUCE, 6, 0, "on 6 ranks: it wants a power of" },
		{ "allreduce=rails", COLL_ALLREDUCE, 8, 0, "it wants several nodes" },
		{ "allreduce=ring", COLL_ALLREDUCE, 8, SELECT_ORDERED, "does not commute" },
		{ "alltoall=bruck", COLL_ALLTOALL, 8, SELECT_V, "blocks of one size" },
		{ "alltoall=direct:3", COLL_ALLTOALL, 20, 0, "on 20 ranks: 3 is not a number of" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct shape shape = { .size = cases[i].size, .node = cases[i].size };
		struct selection *s = made(cases[i].algorithm, "");
		struct coll_choice c = { 0 };

		cr_expect_eq(select_choose(s, cases[i].op, 8, cases[i].flags, &shape, &c),
		             ORIEL_EINVAL, "case %zu", i);
		cr_expect(strstr(oriel_detail(), "ORIEL_ALGORITHM: ") &&
		                  strstr(oriel_detail(), cases[i].algorithm) &&
		                  strstr(oriel_detail(), "from the options") &&
		                  strstr(oriel_detail(), cases[i].says),
		          "%s", oriel_detail());
		cr_expect_null(c.row);
		selection_free(s);
	}
}

Test(select, bad_names)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "allreduce", "\"allreduce\" is not COLLECTIVE=ALGORITHM" },
		{ "ring", "\"ring\" is not COLLECTIVE=ALGORITHM" },
		{ "allreduced=ring", "\"allreduced\": no collective" },
		{ "=ring", "\"\": no collective" },
		{ "allreduce=", "\"\": allreduce has no such algorithm" },
		{ "allreduce=rings", "\"rings\": allreduce has no such algorithm" },
		{ "allreduce=bruck", "\"bruck\": allreduce has no such algorithm" },
		{ "allreduce=ring:2", "\"ring:2\": allreduce/ring takes no argument" },
		{ "alltoall=direct:x", "\"direct:x\": the argument is not a number of peers" },
		{ "alltoall=direct:1", "\"direct:1\": the argument is not a number of peers" },
		{ "allreduce=ring@", "\"allreduce=ring@\": what follows \"@\"" },
		{ "allreduce=ring@0", "what follows \"@\"" },
		{ "allreduce=ring@64k", "what follows \"@\"" },
		{ "allreduce=ring@64K:2", "what follows \"@\"" },
		{ "allreduce=ring,", "nothing follows the last \",\"" },
		{ ",allreduce=ring", "\"\" is not COLLECTIVE=ALGORITHM" },
		{ "allreduce=ring,,alltoall=bruck", "\"\" is not COLLECTIVE=ALGORITHM" },
		{ "allreduce=ring,allreduce=slow", "\"allreduce=slow\": allreduce is named twice" },
		{ "allreduce=ring, alltoall=bruck", "\" alltoall\": no collective" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct selection *s = NULL;

		cr_expect_eq(make(&s, bad[i].text, ""), ORIEL_EINVAL, "%s was taken", bad[i].text);
		cr_expect(!strncmp(oriel_detail(), "ORIEL_ALGORITHM (from the options): ", 36) &&
		                  strstr(oriel_detail(), bad[i].says),
		          "%s: %s", bad[i].text, oriel_detail());
		cr_expect_null(s);
	}
}

/* ---- The built-in table ---- */

static struct selection *
built_in(void)
{
	struct selection *s = NULL;
	struct knobs k;

	cr_assert_eq(knobs_load(&k, NULL), 0, "%s", oriel_detail());
	cr_assert_eq(selection_make(&k, &s), 0, "%s", oriel_detail());
	return s;
}

static void
every_call(const struct selection *s, enum coll_op op, int size)
{
	static const size_t sizes[] = {
		0,        1,       64,      1 << 10,      4 << 10,       16 << 10,
		64 << 10, 1 << 20, 1 << 30, SIZE_MAX / 2, SELECT_UNKNOWN
	};

	for (int node = 0; node <= size; node++) {
		const struct shape shape = { .size = size, .node = node };

		if (node && size % node)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
			for (unsigned flags = 0; flags < 4; flags++) {
				struct coll_choice c;
				struct shape own = shape;

				/* Vectors have no v form, and only reductions an order. */
				if ((flags & SELECT_V && coll_kinds[op].vector) ||
				    (flags & SELECT_ORDERED &&
				     (!coll_kinds[op].reduces || op == COLL_AGREE)))
					continue;
				cr_assert_eq(select_choose(s, op, sizes[i], flags, &shape, &c), 0,
				             "node %d, %zu bytes: %s", node, sizes[i],
				             oriel_detail());
				own.arg = c.arg;
				cr_assert_null(select_unfit(c.row, flags, &own));
			}
	}
}

Test(select, some_rule_fits_every_call)
{
	static const int more[] = { 96, 127, 128, 1000, 1024, 98304 };
	struct selection *s = built_in();

	for (int op = 0; op < COLL_OPS; op++) {
		for (int size = 1; size <= 64; size++)
			every_call(s, (enum coll_op)op, size);
		for (size_t i = 0; i < ARRAY_SIZE(more); i++)
			every_call(s, (enum coll_op)op, more[i]);
	}
	selection_free(s);
}

Test(select, the_built_in_table_names_what_is_there)
{
	struct selection *s = built_in();
	const char *first;

	cr_expect_eq(selection_missing(s, &first), 0, "%s", first);
	selection_free(s);
}

/* A rule behind one that holds for all and always fits could never win. */
Test(select, no_built_in_rule_is_in_vain)
{
	struct selection *s = built_in();

	for (int op = 0; op < COLL_OPS; op++) {
		size_t n;
		const struct tuning_rule *rule = selection_rules(s, (enum coll_op)op, &n);

		for (size_t i = 0; i + 1 < n; i++)
			cr_expect(rule[i].row->unfit || rule[i].row->unordered ||
			                  rule[i].row->whole || rule[i].ranks.min ||
			                  rule[i].ranks.max != SIZE_MAX || rule[i].nodes.min ||
			                  rule[i].per_node.min || rule[i].bytes.min ||
			                  rule[i].stream.min || rule[i].bytes.max != SIZE_MAX,
			          "%s, line %d", rule[i].row->program.name, rule[i].line);
	}
	selection_free(s);
}
