#include "base/knobs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
load(struct knobs *k, const char *option)
{
	const char *const options[] = { option, NULL };

	return knobs_load(k, options);
}

Test(knobs, defaults)
{
	struct knobs k;

	cr_assert_eq(knobs_load(&k, NULL), 0, "%s", oriel_detail());
	cr_assert_eq(k.v.log, -1);
	cr_assert_eq(k.v.peer_timeout, INT64_C(10000000000));
	cr_assert_eq(k.v.spin, 20000);
	cr_assert_eq(k.v.pool_slab, 64 << 20);
	cr_assert_eq(k.v.pool_max, INT64_C(1) << 40);
	cr_assert_eq(k.v.ptracer, 1);
	cr_assert_eq(k.v.ft, 0);
	cr_assert_eq(k.v.seed, 1);
	cr_assert_str_eq(k.s.transports, "self,direct,cma,staged,ce,ucx");
	cr_assert_str_eq(k.from.spin, "default");
}

static const struct {
	const char *option;
	int64_t value;
} good[] = {
	{ "ORIEL_NODE_SPLIT=7", 7 },
	{ "ORIEL_NODE_SPLIT=0", 0 },
	{ "ORIEL_POOL_SLAB=1", 1 },
	{ "ORIEL_POOL_SLAB=3K", 3 << 10 },
	{ "ORIEL_POOL_SLAB=1.5M", 3 << 19 },
	{ "ORIEL_POOL_SLAB=2G", INT64_C(2) << 30 },
	{ "ORIEL_POOL_SLAB=4T", INT64_C(4) << 40 },
	{ "ORIEL_SPIN=2", INT64_C(2000000000) },
	{ "ORIEL_SPIN=0.5", INT64_C(500000000) },
	{ "ORIEL_SPIN=3s", INT64_C(3000000000) },
	{ "ORIEL_SPIN=4ms", 4000000 },
	{ "ORIEL_SPIN=5us", 5000 },
	{ "ORIEL_SPIN=6ns", 6 },
	{ "ORIEL_SPIN=0", 0 },
	{ "ORIEL_FT=yes", 1 },
	{ "ORIEL_FT=y", 1 },
	{ "ORIEL_FT=on", 1 },
	{ "ORIEL_FT=1", 1 },
	{ "ORIEL_FT=no", 0 },
	{ "ORIEL_FT=n", 0 },
	{ "ORIEL_FT=off", 0 },
	{ "ORIEL_FT=0", 0 },
	{ "ORIEL_LOG=off", -1 },
	{ "ORIEL_LOG=error", LOG_ERROR },
	{ "ORIEL_LOG=trace", LOG_TRACE },
};

static int64_t
value_of(const struct knobs *k, const char *option)
{
#define VALUE(field, kind, name, def, text)                                                        \
	if (!strncmp(option, name "=", sizeof(name)))                                              \
		return k->v.field;
	KNOBS(VALUE)
#undef VALUE
	cr_assert_fail("no knob");
	return 0;
}

Test(knobs, values_of_every_kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct knobs k;

		cr_assert_eq(load(&k, good[i].option), 0, "%s: %s", good[i].option, oriel_detail());
		cr_assert_eq(value_of(&k, good[i].option), good[i].value, "%s: %lld",
		             good[i].option, (long long)value_of(&k, good[i].option));
	}
}

Test(knobs, bad_values_name_the_knob)
{
	static const char *const bad[] = {
		"ORIEL_NODE_SPLIT=",
		"ORIEL_NODE_SPLIT=x",
		"ORIEL_NODE_SPLIT=1.5",
		"ORIEL_NODE_SPLIT=-1",
		"ORIEL_NODE_SPLIT=3K",
		"ORIEL_NODE_SPLIT=1e30",
		"ORIEL_POOL_SLAB=M",
		"ORIEL_POOL_SLAB=-1M",
		"ORIEL_POOL_SLAB=1m",
		"ORIEL_POOL_SLAB=1 M",
		"ORIEL_POOL_SLAB=9999999T",
		"ORIEL_POOL_SLAB=nan",
		"ORIEL_POOL_SLAB=inf",
		"ORIEL_SPIN=1h",
		"ORIEL_SPIN=-1us",
		"ORIEL_SPIN=us",
		"ORIEL_SPIN=1e19",
		"ORIEL_SPIN=1us ",
		"ORIEL_FT=maybe",
		"ORIEL_FT=",
		"ORIEL_FT=YES!",
		"ORIEL_LOG=loud",
		"ORIEL_LOG=",
		"ORIEL_PEER_TIMEOUT=never",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct knobs k;

		cr_assert_eq(load(&k, bad[i]), ORIEL_EINVAL, "%s was taken", bad[i]);
		cr_assert(strstr(oriel_detail(), bad[i]) && strstr(oriel_detail(), "options"), "%s",
		          oriel_detail());
	}
}

Test(knobs, unknown_options)
{
	static const char *const bad[] = {
		"ORIEL_SPINN=1us", "ORIEL_SPI=1us", "ORIEL_SPIN", "SPIN=1us", "", "=",
		" ORIEL_SPIN=1us"
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct knobs k;

		cr_assert_eq(load(&k, bad[i]), ORIEL_EINVAL, "\"%s\" was taken", bad[i]);
		cr_assert(strstr(oriel_detail(), bad[i]), "%s", oriel_detail());
	}
}

/* Options before the environment before the default; each says so. */
Test(knobs, origin)
{
	static const char *const options[] = { "ORIEL_SPIN=7us", "ORIEL_SPIN=8us", NULL };
	struct knobs k;

	setenv("ORIEL_SPIN", "9us", 1);
	setenv("ORIEL_YIELD", "11us", 1);
	cr_assert_eq(knobs_load(&k, options), 0);
	cr_assert_eq(k.v.spin, 7000);
	cr_assert_str_eq(k.from.spin, "options");
	cr_assert_str_eq(k.s.spin, "7us");
	cr_assert_eq(k.v.yield, 11000);
	cr_assert_str_eq(k.from.yield, "environment");
	cr_assert_str_eq(k.from.seed, "default");
	setenv("ORIEL_YIELD", "soon", 1);
	cr_assert_eq(knobs_load(&k, options), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "ORIEL_YIELD=soon") &&
	                  strstr(oriel_detail(), "environment"),
	          "%s", oriel_detail());
}

Test(knobs, long_values)
{
	char option[400];
	struct knobs k;
	size_t n = (size_t)snprintf(option, sizeof(option), "ORIEL_RECORDER=");

	memset(option + n, 'd', 255);
	option[n + 255] = 0;
	cr_assert_eq(load(&k, option), 0, "%s", oriel_detail());
	cr_assert_eq(strlen(k.s.recorder), 255);
	option[n + 255] = 'd';
	option[n + 256] = 0;
	cr_assert_eq(load(&k, option), ORIEL_EINVAL);
	cr_assert(strstr(oriel_detail(), "ORIEL_RECORDER"));
}

static void
count_row(void *arg, const char *name, const char *value, const char *origin, const char *def,
          const char *text)
{
	int *n = arg;

	cr_assert(!strncmp(name, "ORIEL_", 6) && value && origin && def && strlen(text) > 10);
	if (!strcmp(name, "ORIEL_SEED")) {
		cr_assert_str_eq(value, *n < 1000 ? "1" : "5");
		cr_assert_str_eq(origin, *n < 1000 ? "default" : "options");
	}
	++*n;
}

Test(knobs, each)
{
	int n = 0, m = 1000;
	struct knobs k;

	knobs_each(NULL, count_row, &n);
	cr_assert(n >= 17, "%d knobs", n);
	cr_assert_eq(load(&k, "ORIEL_SEED=5"), 0);
	knobs_each(&k, count_row, &m);
	cr_assert_eq(m, 1000 + n);
}

Test(knobs, words_of_a_list)
{
	cr_assert(list_has("self,direct,ucx", "self") && list_has("self,direct,ucx", "direct") &&
	          list_has("self,direct,ucx", "ucx"));
	cr_assert(!list_has("self,direct,ucx", "uc") && !list_has("self,direct,ucx", "irect") &&
	          !list_has("", "self") && !list_has(NULL, "self") && !list_has("selfish", "self"));
	cr_assert(list_has(",self", "self") && list_has("self,", "self"));
}
