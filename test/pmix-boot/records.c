#include "pmix-boot/boot_impl.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(records, keys_and_values)
{
	struct records r = { 0 };
	const void *value;
	size_t len;

	cr_assert(!records_find(&r, "a", &value, &len));
	cr_assert_eq(records_put(&r, "a", "1", 1), 0);
	cr_assert_eq(records_put(&r, "ab", "22", 2), 0);
	cr_assert_eq(records_put(&r, "empty", NULL, 0), 0);
	cr_assert(records_find(&r, "a", &value, &len) && len == 1 && !memcmp(value, "1", 1));
	cr_assert(records_find(&r, "ab", &value, &len) && len == 2 && !memcmp(value, "22", 2));
	cr_assert(records_find(&r, "empty", &value, &len) && len == 0);
	cr_assert(!records_find(&r, "b", &value, &len));
	cr_assert(!records_find(&r, "", &value, &len));
	cr_assert_eq(records_put(&r, "a", "333", 3), 0);
	cr_assert(records_find(&r, "a", &value, &len) && len == 3 && !memcmp(value, "333", 3));
	records_free(&r);
	cr_assert_null(r.bytes);
}

/* Bytes come from other processes: whatever they hold, nothing outside them is read (ASan watches).
 */
Test(records, damaged_bytes_are_not_followed)
{
	struct records r = { 0 };
	uint64_t seed = 1;

	cr_assert_eq(records_put(&r, "key", "value", 5), 0);
	cr_assert_eq(records_put(&r, "other", "value", 5), 0);
	for (int i = 0; i < 20000; i++) {
		size_t cut, len;
		unsigned char *copy;
		const void *value;

		seed = hash_bytes(seed, &i, sizeof(i));
		cut = seed % (r.len + 1);
		copy = malloc(cut + 1);
		cr_assert(copy);
		memcpy(copy, r.bytes, cut);
		if (cut)
			copy[seed / 64 % cut] = (unsigned char)(seed >> 40);
		if (records_find(&(struct records){ .bytes = copy, .len = cut }, "other", &value,
		                 &len))
			cr_assert((const unsigned char *)value >= copy &&
			          len <= cut - (size_t)((const unsigned char *)value - copy));
		free(copy);
	}
	records_free(&r);
}
