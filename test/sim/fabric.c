#include "sim/fabric.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct fabric
parse(const char *text)
{
	struct fabric f;

	cr_assert_eq(fabric_parse(text, &f), 0, "%s", oriel_detail());
	return f;
}

Test(fabric, places_multiply)
{
	static const int64_t size[] = { 8, 128, 1024, 4096, 8192 };
	struct fabric f = parse("building:2 zone:4 rack:8 node:16 gpu:8");

	for (int l = 0; l < FABRIC_LEVELS; l++)
		cr_expect_eq(f.size[l], size[l], "level %d", l);
	f = parse("  zone:3\n# a comment with gpu:9\n\tgpu:4 # and one more");
	cr_expect_eq(f.size[FABRIC_NODE], 4);
	cr_expect_eq(f.size[FABRIC_RACK], 4);
	cr_expect_eq(f.size[FABRIC_ZONE], 4);
	cr_expect_eq(f.size[FABRIC_BUILDING], 12);
	cr_expect_eq(f.size[FABRIC_BETWEEN], 12);
}

Test(fabric, defaults_and_options)
{
	struct fabric f = parse("gpu:8");

	cr_expect_eq(f.latency[FABRIC_RACK], 1000000);
	cr_expect_eq(f.latency[FABRIC_ZONE], 7 * f.latency[FABRIC_RACK]);
	cr_expect_eq(f.latency[FABRIC_BUILDING], 15 * f.latency[FABRIC_RACK]);
	cr_expect_eq(f.latency[FABRIC_BETWEEN], 30 * f.latency[FABRIC_RACK]);
	cr_expect_lt(f.latency[FABRIC_NODE], f.latency[FABRIC_RACK]);
	cr_expect_eq(f.nic, 20.0, "400 Gb/s are 20 ps a byte, not %g", f.nic);
	f = parse("gpu:8 latency:0.25:2 nic:100GB nvlink:8Gb memory:1GB overhead:1:0.5");
	cr_expect_eq(f.latency[FABRIC_NODE], 250000);
	cr_expect_eq(f.latency[FABRIC_RACK], 2000000);
	cr_expect_eq(f.latency[FABRIC_ZONE], 7000000, "what is left out stays");
	cr_expect_eq(f.nic, 10.0);
	cr_expect_eq(f.nvlink, 1000.0);
	cr_expect_eq(f.memory, 1000.0);
	cr_expect_eq(f.send, 1000000);
	cr_expect_eq(f.receive, 500000);
	f = parse("gpu:8 overhead:2 chain:0.25");
	cr_expect_eq(f.chain, 250000);
	cr_expect_eq(f.receive, 2000000);
}

Test(fabric, over_subscription)
{
	struct fabric f = parse("building:2 zone:2 rack:2 node:2 gpu:2 over:2:5 over:zone:7");

	cr_assert_eq(fabric_use(&f, 32), 0);
	cr_expect_eq(f.over[FABRIC_RACK], 2.5);
	cr_expect_eq(f.over[FABRIC_ZONE], 7.0);
	cr_expect_eq(f.over[FABRIC_BUILDING], 2.5);
	/* 4 ranks a rack, 8 a zone, 16 a building. */
	cr_expect_eq(f.up[FABRIC_RACK], 20.0 * 2.5 / 4);
	cr_expect_eq(f.up[FABRIC_ZONE], 20.0 * 7 / 8);
	cr_expect_eq(f.up[FABRIC_BUILDING], 20.0 * 2.5 / 16);
	f = parse("rack:2 gpu:1 over:1:4");
	cr_assert_eq(fabric_use(&f, 2), 0);
	cr_expect_eq(f.slowest[FABRIC_RACK], 20.0, "only NICs between nodes of a rack");
	cr_expect_eq(f.slowest[FABRIC_ZONE], 80.0, "the up-link is slower than the NIC");
}

Test(fabric, levels_are_the_smallest_common_place)
{
	struct fabric f = parse("building:2 zone:2 rack:2 node:2 gpu:2");
	static const struct {
		int a, b;
		enum fabric_level level;
	} pairs[] = { { 0, 1, FABRIC_NODE },      { 1, 2, FABRIC_RACK },
		      { 3, 4, FABRIC_ZONE },      { 7, 8, FABRIC_BUILDING },
		      { 15, 16, FABRIC_BETWEEN }, { 0, 31, FABRIC_BETWEEN },
		      { 17, 30, FABRIC_BUILDING } };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		cr_expect_eq(fabric_level(&f, pairs[i].a, pairs[i].b), pairs[i].level, "%d %d",
		             pairs[i].a, pairs[i].b);
		cr_expect_eq(fabric_level(&f, pairs[i].b, pairs[i].a), pairs[i].level);
	}
}

/* From one end of the tree to the other, link by link. */
Test(fabric, paths_go_up_and_down)
{
	static const char *const names[] = { "NIC out of rank 1",       "up-link of rack 0",
		                             "up-link of zone 0",       "up-link of building 0",
		                             "down-link of building 1", "down-link of zone 3",
		                             "down-link of rack 7",     "NIC in of rank 31" };
	struct fabric f = parse("building:2 zone:2 rack:2 node:2 gpu:2");
	char text[64];

	cr_assert_eq(fabric_use(&f, 32), 0);
	cr_assert_eq(fabric_hops(FABRIC_BETWEEN), ARRAY_SIZE(names));
	for (unsigned h = 0; h < ARRAY_SIZE(names); h++) {
		uint32_t link = fabric_link(&f, 1, 31, FABRIC_BETWEEN, h);

		cr_assert_lt(link, f.n_links);
		fabric_link_name(&f, link, text, sizeof(text));
		cr_expect_str_eq(text, names[h]);
	}
	cr_expect_eq(fabric_hops(FABRIC_NODE), 2);
	cr_expect_eq(fabric_hops(FABRIC_RACK), 2);
	cr_expect_eq(fabric_hops(FABRIC_ZONE), 4);
	fabric_link_name(&f, fabric_link(&f, 2, 3, FABRIC_NODE, 0), text, sizeof(text));
	cr_expect_str_eq(text, "NVLink out of rank 2");
	fabric_link_name(&f, fabric_link(&f, 2, 3, FABRIC_NODE, 1), text, sizeof(text));
	cr_expect_str_eq(text, "NVLink in of rank 3");
	cr_expect_eq(fabric_time(&f, fabric_link(&f, 2, 5, FABRIC_ZONE, 0), 1000), 20000);
	cr_expect_eq(fabric_time(&f, fabric_memory(3), 3000), 2000);
}

/* Each has one word that is wrong, and that word is in the detail. */
Test(fabric, bad_text_names_the_word)
{
	static const char *const bad[][2] = {
		{ "", "no place" },
		{ "nic:50GB", "no place" },
		{ "rack:2 gpu", "\"gpu\"" },
		{ "shelf:3 gpu:2", "\"shelf:3\"" },
		{ "gpu:2 node:3", "\"node:3\"" },
		{ "gpu:2 gpu:2", "\"gpu:2\"" },
		{ "gpu:0", "\"gpu:0\"" },
		{ "gpu:-1", "\"gpu:-1\"" },
		{ "gpu:1.5", "\"gpu:1.5\"" },
		{ "gpu:0x8", "\"gpu:0x8\"" },
		{ "gpu:nan", "\"gpu:nan\"" },
		{ "gpu:8:8", "\"gpu:8:8\"" },
		{ "gpu:8 latency:", "\"latency:\"" },
		{ "gpu:8 latency:1:2:3:4:5:6", "\"latency:1:2:3:4:5:6\"" },
		{ "gpu:8 over:2", "\"over:2\"" },
		{ "gpu:8 over:1:0", "\"over:1:0\"" },
		{ "gpu:8 over:node:2", "\"over:node:2\"" },
		{ "gpu:8 over:zone:x", "\"over:zone:x\"" },
		{ "gpu:8 nic:400", "\"nic:400\"" },
		{ "gpu:8 nic:400Mb", "\"nic:400Mb\"" },
		{ "gpu:8 nic:0GB", "\"nic:0GB\"" },
		{ "gpu:8 chain:1:2", "\"chain:1:2\"" },
		{ "gpu:8 overhead:1:2:3", "\"overhead:1:2:3\"" },
		{ "gpu:8 averyveryverylongword:1", "averyveryverylongword" },
		{ "building:4096 zone:4096 gpu:2", "building:4096" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fabric f;

		cr_expect_lt(fabric_parse(bad[i][0], &f), 0, "%s", bad[i][0]);
		cr_expect(strstr(oriel_detail(), bad[i][1]), "\"%s\": %s", bad[i][0],
		          oriel_detail());
	}
}

Test(fabric, files)
{
	struct fabric f;

	cr_assert_eq(fabric_read("test/fabric/campus.txt", &f), 0, "%s", oriel_detail());
	cr_expect_eq(f.size[FABRIC_BETWEEN], 8192);
	cr_expect_eq(f.over[FABRIC_ZONE], 2.8);
	cr_assert_eq(fabric_read("node:4 gpu:2", &f), 0);
	cr_expect_eq(f.size[FABRIC_BETWEEN], 8);
	cr_expect_eq(fabric_read("test/fabric/none.txt", &f), ORIEL_EINVAL);
	cr_expect(strstr(oriel_detail(), "test/fabric/none.txt"), "%s", oriel_detail());
}

Test(fabric, room)
{
	struct fabric f = parse("node:4 gpu:2");

	cr_expect_eq(fabric_use(&f, 9), ORIEL_ERANGE);
	cr_expect_eq(fabric_use(&f, 0), ORIEL_ERANGE);
	cr_expect_eq(fabric_use(&f, 8), 0);
	cr_expect_eq(fabric_use(&f, 3), 0);
}
