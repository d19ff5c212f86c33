#include "pmix-boot/boot.h"

#include <criterion/criterion.h>
#include <string.h>

/* A bootstrap that answers as told and remembers what it was asked. */
struct fake {
	int answer;    /* of put, fence and get */
	size_t claims; /* the length that get claims to have written */
	char key[64];
	int rank;
	uint64_t timeout_ns;
};

static int
fake_put(void *arg, const char *key, const void *value, size_t len)
{
	struct fake *f = arg;

	(void)value;
	(void)len;
	strncpy(f->key, key, sizeof(f->key) - 1);
	return f->answer;
}

static int
fake_fence(void *arg, uint64_t timeout_ns)
{
	struct fake *f = arg;

	f->timeout_ns = timeout_ns;
	return f->answer;
}

static int
fake_get(void *arg, int rank, const char *key, void *value, size_t *len, uint64_t timeout_ns)
{
	struct fake *f = arg;

	f->rank = rank;
	f->timeout_ns = timeout_ns;
	strncpy(f->key, key, sizeof(f->key) - 1);
	if (!f->answer && f->claims <= *len)
		memset(value, 'x', f->claims);
	*len = f->claims;
	return f->answer;
}

static const int local[] = { 1, 2 };

static struct oriel_bootstrap
good(struct fake *f)
{
	return (struct oriel_bootstrap){ .arg = f,
		                         .rank = 2,
		                         .size = 4,
		                         .n_local = 2,
		                         .local = local,
		                         .job = "the job",
		                         .put = fake_put,
		                         .fence = fake_fence,
		                         .get = fake_get };
}

static int
open_table(struct boot *b, const struct oriel_bootstrap *t)
{
	struct knobs k;

	cr_assert_eq(knobs_load(&k, NULL), 0, "%s", oriel_detail());
	return boot_open(b, t, &k);
}

Test(user, place)
{
	struct fake f = { 0 };
	struct oriel_bootstrap t = good(&f);
	struct boot b;

	cr_assert_eq(open_table(&b, &t), 0, "%s", oriel_detail());
	cr_assert(b.rank == 2 && b.size == 4 && b.n_local == 2);
	cr_assert(b.local != local && b.local[0] == 1 && b.local[1] == 2);
	cr_assert(!strcmp(b.job, "the job"));
	boot_close(&b);

	/* A single rank needs no name. */
	t = (struct oriel_bootstrap){ .size = 1,
		                      .n_local = 1,
		                      .local = (const int[]){ 0 },
		                      .put = fake_put,
		                      .fence = fake_fence,
		                      .get = fake_get };
	cr_assert_eq(open_table(&b, &t), 0, "%s", oriel_detail());
	cr_assert(b.job[0]);
	boot_close(&b);
}

Test(user, calls_are_passed_on)
{
	struct fake f = { .claims = 3 };
	struct oriel_bootstrap t = good(&f);
	char value[4] = "";
	size_t len = sizeof(value);
	struct boot b;

	cr_assert_eq(open_table(&b, &t), 0, "%s", oriel_detail());
	cr_assert_eq(boot_put(&b, "put", value, 1), 0);
	cr_assert(!strcmp(f.key, "put"));
	cr_assert_eq(boot_fence(&b, false, 17), 0);
	cr_assert_eq(f.timeout_ns, 17);
	cr_assert_eq(boot_get(&b, 3, "got", value, &len, 18), 0);
	cr_assert(f.rank == 3 && f.timeout_ns == 18 && !strcmp(f.key, "got"));
	cr_assert(len == 3 && !memcmp(value, "xxx", 4));
	boot_close(&b);
}

Test(user, errors_come_back)
{
	struct fake f = { .answer = ORIEL_ETIMEDOUT };
	struct oriel_bootstrap t = good(&f);
	char value[4];
	size_t len = sizeof(value);
	struct boot b;

	cr_assert_eq(open_table(&b, &t), 0, "%s", oriel_detail());
	cr_assert_eq(boot_get(&b, 3, "k", value, &len, 1), ORIEL_ETIMEDOUT);
	cr_assert(strstr(oriel_detail(), "rank 3") && strstr(oriel_detail(), "\"k\""));
	cr_assert_eq(len, sizeof(value));
	cr_assert_eq(boot_fence(&b, false, 1), ORIEL_ETIMEDOUT);
	cr_assert(strstr(oriel_detail(), "fence"));
	/* Codes of nobody, positive ones too. */
	f.answer = 5;
	cr_assert_eq(boot_put(&b, "k", value, 0), ORIEL_EBOOT);
	cr_assert(strstr(oriel_detail(), "returned 5"));
	f.answer = -1000;
	cr_assert_eq(boot_fence(&b, false, 1), ORIEL_EBOOT);
	/* More than there was room for. */
	f.answer = 0;
	f.claims = 5;
	cr_assert_eq(boot_get(&b, 3, "k", value, &len, 1), ORIEL_EBOOT);
	cr_assert(strstr(oriel_detail(), "5 bytes into 4"));
	boot_close(&b);
}

Test(user, bad_tables)
{
	static const int unsorted[] = { 2, 1 }, twice[] = { 2, 2 }, strange[] = { 2, 4 },
	                 negative[] = { -1, 2 }, others[] = { 0, 1 };
	char long_name[200];
	struct fake f = { 0 };
	struct oriel_bootstrap bad[14];
	struct boot b;
	size_t n = 0;

	memset(long_name, 'j', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good(&f);
	bad[n++].put = NULL;
	bad[n++].fence = NULL;
	bad[n++].get = NULL;
	bad[n++].job = NULL;
	bad[n++].job = long_name;
	bad[n++].local = NULL;
	bad[n++].n_local = 0;
	bad[n++].n_local = 5;
	bad[n++].local = unsorted;
	bad[n++].local = twice;
	bad[n++].local = strange;
	bad[n++].local = negative;
	bad[n++].local = others;
	bad[n++].rank = 4;
	cr_assert_eq(n, ARRAY_SIZE(bad));
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(open_table(&b, &bad[i]), ORIEL_EINVAL, "table %zu", i);
}
