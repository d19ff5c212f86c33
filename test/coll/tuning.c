#include "coll/tuning.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int
parse_as(struct tuning *t, const char *text, size_t len, bool lenient)
{
	const struct coll_rows rows = { coll_table, coll_rows };

	*t = (struct tuning){ 0 };
	return tuning_parse(t, text, len, "here", &rows, lenient);
}

/* One rule behind the version line: line 2. */
static int
parse_rule(struct tuning *t, const char *rule)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "oriel-tuning 1\n%s\n", rule);

	return parse_as(t, text, (size_t)n, false);
}

Test(tuning, sizes)
{
	static const struct {
		const char *text;
		size_t value;
	} good[] = {
		{ "0", 0 },          { "7", 7 },          { "4K", 4096 },
		{ "4KiB", 4096 },    { "1M", 1 << 20 },   { "3MiB", 3 << 20 },
		{ "2G", 2ul << 30 }, { "1T", 1ul << 40 }, { "4611686018427387904", 1ul << 62 },
	};
	static const char *const bad[] = { "",
		                           "K",
		                           "-1",
		                           "4k",
		                           "4 K",
		                           "4KB",
		                           "4Ki",
		                           "4KiBs",
		                           "1.5K",
		                           "4611686018427387905",
		                           "99999999999999999999999",
		                           "9999999999T",
		                           "0x10",
		                           "+1" };
	size_t v;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect(tuning_size(good[i].text, strlen(good[i].text), &v) && v == good[i].value,
		          "%s", good[i].text);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(!tuning_size(bad[i], strlen(bad[i]), &v), "%s was taken", bad[i]);
}

Test(tuning, a_whole_text)
{
	static const char text[] = "# about this file\n"
	                           "\n"
	                           "\t oriel-tuning\t1  # the version\n"
	                           "  allgather ranks=2-8 nodes=1 per_node=4- bytes=1-4K "
	                           "use=bruck:4 chunk=256K   # why\n"
	                           "allgather\tuse=ring\n"
	                           "#allgather use=nothing\n"
	                           "barrier use=dissemination bytes=unknown ranks=7";
	struct tuning t;
	const struct tuning_rule *r;

	cr_assert_eq(parse_as(&t, text, strlen(text), false), 0, "%s", oriel_detail());
	cr_assert_eq(t.n, 3);
	r = &t.rule[0];
	cr_expect_eq(r->op, COLL_ALLGATHER);
	cr_expect(r->ranks.min == 2 && r->ranks.max == 8);
	cr_expect(r->nodes.min == 1 && r->nodes.max == 1);
	cr_expect(r->per_node.min == 4 && r->per_node.max == SIZE_MAX);
	cr_expect(r->bytes.min == 1 && r->bytes.max == 4096);
	cr_expect_str_eq(r->row->program.name, "allgather/bruck");
	cr_expect(r->arg == 4 && r->chunk == 256 << 10 && r->line == 4);
	cr_expect_str_eq(r->origin, "here");
	r = &t.rule[1];
	cr_expect(r->ranks.min == 0 && r->ranks.max == SIZE_MAX && r->bytes.min == 0 &&
	          r->bytes.max == SELECT_UNKNOWN && r->arg == 0 && r->chunk == 0 && r->line == 5);
	r = &t.rule[2];
	cr_expect(r->bytes.min == SELECT_UNKNOWN && r->bytes.max == SELECT_UNKNOWN &&
	          r->ranks.min == 7 && r->ranks.max == 7 && r->line == 7);
	tuning_free(&t);
}

/* An open range of sizes leaves out what not all ranks know. */
Test(tuning, open_ranges)
{
	struct tuning t;

	cr_assert_eq(parse_rule(&t, "allgather bytes=0- ranks=3- use=ring"), 0);
	cr_expect_eq(t.rule[0].bytes.max, SELECT_UNKNOWN - 1);
	cr_expect_eq(t.rule[0].ranks.max, SIZE_MAX);
	tuning_free(&t);
}

/* What is wrong, and the words that the error must repeat. */
static const struct {
	const char *rule, *says;
} wrong[] = {
	{ "allgaher use=ring", "\"allgaher\": no collective" },
	{ "use=ring", "\"use=ring\": no collective" },
	{ "allgather", "\"allgather\": the rule has no use=" },
	{ "allgather ranks=2", "\"allgather\": the rule has no use=" },
	{ "allgather # use=ring", "\"allgather\": the rule has no use=" },
	{ "allgather ring", "\"ring\": not NAME=VALUE" },
	{ "allgather =ring", "\"=ring\": the names are" },
	{ "allgather use=", "\"\": allgather has no such algorithm" },
	{ "allgather use=rings", "\"rings\": allgather has no such" },
	{ "allgather use=rin", "\"rin\": allgather has no such" },
	{ "allgather use=dissemination", "\"dissemination\": allgather has no such" },
	{ "allgather use=ring:2", "\"ring:2\": allgather/ring takes no argument" },
	{ "allgather use=bruck:", "\"bruck:\": the argument is not a radix" },
	{ "allgather use=bruck:x", "\"bruck:x\": the argument is not a radix" },
	{ "allgather use=bruck:1", "\"bruck:1\": the argument is not a radix" },
	{ "allgather use=bruck:-3", "\"bruck:-3\": the argument" },
	{ "allgather use=bruck:2x", "\"bruck:2x\": the argument" },
	{ "allgather use=bruck:2147483648", "\"bruck:2147483648\": the argument" },
	{ "allgather use=bruck:4294967298", "\"bruck:4294967298\": the argument" },
	{ "allgather use=bruck:99999999999999999999", "the argument is not" },
	{ "allgather use=ring use=ring", "\"use=ring\": twice" },
	{ "allgather ranks=1 ranks=1 use=ring", "\"ranks=1\": twice" },
	{ "allgather chunk=1 chunk=2 use=ring", "\"chunk=2\": twice" },
	{ "allgather rank=1 use=ring", "\"rank=1\": the names are ranks" },
	{ "allgather ranks= use=ring", "\"\": not a range of numbers" },
	{ "allgather ranks=x use=ring", "\"x\": not a range of numbers" },
	{ "allgather ranks=- use=ring", "\"-\": not a range of numbers" },
	{ "allgather ranks=-8 use=ring", "\"-8\": not a range of numbers" },
	{ "allgather ranks=2-x use=ring", "\"2-x\": what follows" },
	{ "allgather ranks=2-4-8 use=ring", "\"2-4-8\": what follows" },
	{ "allgather ranks=4K use=ring", "\"4K\": not a range of numbers" },
	{ "allgather ranks=0-8 use=ring", "\"0-8\": it begins at 1" },
	{ "allgather nodes=0 use=ring", "\"0\": it begins at 1" },
	{ "allgather per_node=0- use=ring", "\"0-\": it begins at 1" },
	{ "allgather ranks=8-2 use=ring", "\"8-2\": the range ends before" },
	{ "allgather ranks=unknown use=ring", "\"unknown\": not a range of numbers" },
	{ "allgather bytes=4k use=ring", "\"4k\": not a range of sizes" },
	{ "allgather bytes=4K-1K use=ring", "\"4K-1K\": the range ends before" },
	{ "allgather bytes=1-9999999999T use=ring", "what follows" },
	{ "allgather bytes=Unknown use=ring", "\"Unknown\": not a range of sizes" },
	{ "allgather chunk=0 use=ring", "\"chunk=0\": not a size" },
	{ "allgather chunk= use=ring", "\"chunk=\": not a size" },
	{ "allgather chunk=64K-1M use=ring", "\"chunk=64K-1M\": not a size" },
	{ "allgather use=ring\r", "a control character, code 13" },
	{ "oriel-tuning 1", "\"oriel-tuning\": no collective" },
};

Test(tuning, each_mistake_is_named_with_its_line)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct tuning t;

		cr_expect_eq(parse_rule(&t, wrong[i].rule), ORIEL_EINVAL, "\"%s\" was taken",
		             wrong[i].rule);
		cr_expect(!strncmp(oriel_detail(), "here:2: ", 8) &&
		                  strstr(oriel_detail(), wrong[i].says),
		          "\"%s\": %s", wrong[i].rule, oriel_detail());
		cr_expect_eq(t.n, 0);
		tuning_free(&t);
	}
}

Test(tuning, the_version_comes_first)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "here:0: the line \"oriel-tuning 1\" is missing" },
		{ "# nothing\n\n", "here:2: the line \"oriel-tuning 1\" is missing" },
		{ "\nallgather use=ring\n", "here:2: \"allgather\": the first line" },
		{ "oriel-tuning\n", "here:1: \"oriel-tuning\": the version is missing" },
		{ "oriel-tuning 2\n", "here:1: \"2\": this library reads version 1" },
		{ "oriel-tuning 1.0\n", "here:1: \"1.0\": this library" },
		{ "oriel-tuning 1 2\n", "here:1: \"2\": nothing follows" },
		{ "oriel-tuning1\n", "here:1: \"oriel-tuning1\": the first line" },
	};
	struct tuning t;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_expect_eq(parse_as(&t, bad[i].text, strlen(bad[i].text), false), ORIEL_EINVAL);
		cr_expect(strstr(oriel_detail(), bad[i].says), "%s", oriel_detail());
	}
	cr_expect_eq(parse_as(&t, "oriel-tuning 1\nallgather use=ring\0\n", 35, false),
	             ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "here:2: a control character, code 0"), "%s",
	          oriel_detail());
}

/* The longest rule that there is fits into TUNING_TEXT. */
Test(tuning, round_trip)
{
	static const char *const rules[] = {
		"allgather use=ring",
		"allgather ranks=2-8 nodes=1 per_node=2- bytes=0-4K use=bruck:4 chunk=256K",
		"allgather bytes=1M- use=ring",
		"allgather bytes=unknown use=ring",
		"allgather bytes=1025 use=bruck:2147483647",
		"allgather bytes=0- use=ring",
		"agree nodes=3-4 per_node=1-2 use=dissemination chunk=1",
		"allgather ranks=4611686018427387902-4611686018427387903 "
		"nodes=4611686018427387902-4611686018427387903 "
		"per_node=4611686018427387902-4611686018427387903 "
		"bytes=4611686018427387901-4611686018427387903 use=bruck:2147483647 "
		"chunk=4611686018427387903",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		char text[TUNING_TEXT];
		struct tuning t;

		cr_assert_eq(parse_rule(&t, rules[i]), 0, "%s: %s", rules[i], oriel_detail());
		tuning_print(&t.rule[0], text, sizeof(text));
		cr_expect_str_eq(text, rules[i]);
		tuning_free(&t);
	}
}

/* Only the built-in table may name what is not there; such a rule must be right otherwise. */
Test(tuning, lenient)
{
	static const char text[] = "oriel-tuning 1\n"
	                           "allgather bytes=1M- use=later:7\n"
	                           "allgather use=ring\n"
	                           "bcast use=pigeons # slow\n";
	static const char bad[] = "oriel-tuning 1\nallgather use=later bytes=x\n";
	struct tuning t;

	cr_assert_eq(parse_as(&t, text, strlen(text), true), 0, "%s", oriel_detail());
	cr_expect(t.n == 1 && t.n_missing == 2);
	cr_expect(strstr(t.missing, "use=later:7, line 2"), "%s", t.missing);
	tuning_free(&t);
	cr_expect_eq(parse_as(&t, text, strlen(text), false), ORIEL_EINVAL);
	tuning_free(&t);
	cr_expect_eq(parse_as(&t, bad, strlen(bad), true), ORIEL_EINVAL);
	tuning_free(&t);
}

Test(tuning, too_many_rules)
{
	static const char rule[] = "barrier use=dissemination\n";
	size_t len = sizeof(rule) - 1, n = TUNING_MAX_RULES + 1, at;
	char *text = malloc(64 + n * len);
	struct tuning t;

	at = (size_t)sprintf(text, "oriel-tuning 1\n");
	for (size_t i = 0; i < n; i++, at += len)
		memcpy(text + at, rule, len);
	cr_expect_eq(parse_as(&t, text, at - len, false), 0, "%s", oriel_detail());
	cr_expect_eq(t.n, TUNING_MAX_RULES);
	tuning_free(&t);
	cr_expect_eq(parse_as(&t, text, at, false), ORIEL_ELIMIT);
	tuning_free(&t);
	free(text);
}

static int
read_file(const char *file, struct tuning *t)
{
	const struct coll_rows rows = { coll_table, coll_rows };

	*t = (struct tuning){ 0 };
	return tuning_read(t, file, &rows);
}

static void
write_file(const char *file, const char *text, size_t times)
{
	FILE *f = fopen(file, "w");

	cr_assert(f);
	for (size_t i = 0; i < times; i++)
		fputs(text, f);
	fclose(f);
}

Test(tuning, files)
{
	char dir[] = "/tmp/oriel-tuning-XXXXXX", file[64], line[96];
	struct tuning t;

	cr_assert(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/rules", dir);
	cr_expect_eq(read_file(file, &t), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), file) && strstr(oriel_detail(), "No such file"), "%s",
	          oriel_detail());
	cr_expect_eq(read_file(dir, &t), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "directory"), "%s", oriel_detail());
	write_file(file, "oriel-tuning 1\nallgather use=ring", 1);
	cr_expect_eq(read_file(file, &t), 0, "%s", oriel_detail());
	cr_expect_eq(t.n, 1);
	tuning_free(&t);
	write_file(file, "oriel-tuning 1\nallgather use=rung\n", 1);
	cr_expect_eq(read_file(file, &t), ORIEL_EINVAL);
	snprintf(line, sizeof(line), "%s:2: \"rung\"", file);
	cr_expect(strstr(oriel_detail(), line), "%s", oriel_detail());
	write_file(file, "# a long comment\n", TUNING_MAX_BYTES / 17 + 1);
	cr_expect_eq(read_file(file, &t), ORIEL_ELIMIT);
	unlink(file);
	rmdir(dir);
}
