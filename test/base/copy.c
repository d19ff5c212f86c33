#include "base/copy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char
byte_of(size_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) * 7 + 1);
}

/* The bytes from at on are those of src from from on, and nothing beside them has changed. */
static void
check(void (*copy)(void *, const void *, size_t), unsigned char *dst, unsigned char *src, size_t at,
      size_t from, size_t len)
{
	memset(dst + at - 64, 0, len + 128);
	copy(dst + at, src + from, len);
	cr_assert_eq(memcmp(dst + at, src + from, len), 0, "%zu bytes from %zu to %zu", len, from,
	             at);
	for (size_t i = 1; i <= 64; i++)
		cr_assert(!dst[at - i] && !dst[at + len + i - 1],
		          "%zu bytes from %zu to %zu: written %zu beside", len, from, at, i);
}

static void
copy_any(void *dst, const void *src, size_t len)
{
	copy_bytes(dst, src, len);
}

Test(copy, lengths_and_places)
{
	static const size_t lens[] = { 0,    1,    8,    63,    1023,  1024,  1025,
		                       1055, 1151, 1152, 1153,  2048,  4095,  4096,
		                       8191, 8192, 8193, 65536, 65599, 100003 };
	unsigned char *src = malloc(200000), *dst = malloc(200000);

	cr_assert(src && dst);
	for (size_t i = 0; i < 200000; i++)
		src[i] = byte_of(i) | 1;
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++)
		for (size_t at = 64; at < 64 + 70; at += 3)
			for (size_t from = 0; from < 70; from += 7) {
				check(copy_any, dst, src, at, from, lens[l]);
				if (lens[l] >= COPY_LOOP_MIN)
					check(copy_loop, dst, src, at, from, lens[l]);
			}
	free(src);
	free(dst);
}

/* Around the length from which memcpy takes over. */
Test(copy, longest)
{
	size_t room = COPY_LOOP_MAX + 512;
	unsigned char *src = malloc(room), *dst = malloc(room);

	cr_assert(src && dst);
	for (size_t i = 0; i < room; i++)
		src[i] = byte_of(i) | 1;
	for (size_t len = COPY_LOOP_MAX - 1; len <= COPY_LOOP_MAX + 1; len++)
		check(copy_any, dst, src, 80, 3, len);
	free(src);
	free(dst);
}
