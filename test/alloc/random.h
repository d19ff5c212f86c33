/*
 * random.h - random numbers for tests: splitmix64. The seeds of a random test
 * are first_seed() and those after it; a failing one is printed and can be given
 * as TEST_SEED.
 */
#ifndef TEST_ALLOC_RANDOM_H
#define TEST_ALLOC_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline size_t
random_below(uint64_t *state, size_t n)
{
	return (size_t)(random_next(state) % n);
}

/* Each power of two up to 2^bits is as likely as the others. */
static inline size_t
random_size(uint64_t *state, unsigned bits)
{
	unsigned b = (unsigned)random_below(state, bits + 1);

	return random_below(state, (size_t)1 << b) + (random_next(state) & 1);
}

static inline uint64_t
first_seed(const char *test, unsigned n)
{
	const char *s = getenv("TEST_SEED");
	uint64_t first = s ? strtoull(s, NULL, 0) : 1;

	fprintf(stderr, "%s: seeds %llu to %llu\n", test, (unsigned long long)first,
	        (unsigned long long)(first + n - 1));
	return first;
}

#endif
