/*
 * bench.h - what all sides of a comparison share, so that they differ only in
 * the library: pinning, the clock, the payload and the way it is read, batches
 * and the one line of output.
 *
 * Every latency program sends messages whose first bytes change with each one,
 * and reads every byte of what it receives inside the timed loop. At the end
 * the sum of what was read is compared with what was sent.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_BATCHES 5

static inline uint64_t
bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Pins this process to the i-th CPU that it may use, counted round. */
static inline void
bench_pin(int i)
{
	cpu_set_t may, one;
	int n;

	if (sched_getaffinity(0, sizeof(may), &may))
		return;
	n = CPU_COUNT(&may);
	for (int cpu = 0, k = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may) || k++ != i % n)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			fprintf(stderr, "bench: cannot pin to CPU %d: %s\n", cpu, strerror(errno));
		return;
	}
}

/* A count on the command line; 0 if it is none. */
static inline size_t
bench_count(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);

	return *end ? 0 : (size_t)v;
}

/* Before the library starts its threads: the rank is what the launcher says. */
static inline void
bench_pin_rank(void)
{
	static const char *const names[] = { "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *rank = getenv(names[i]);

		if (rank) {
			bench_pin((int)bench_count(rank));
			return;
		}
	}
}

/* Message number i: its first word (or byte) is i, the rest stays as bench_fill left it. */
static inline void
bench_stamp(void *message, size_t len, uint64_t i)
{
	memcpy(message, &i, len < sizeof(i) ? len : sizeof(i));
}

static inline void
bench_fill(void *message, size_t len)
{
	memset(message, 0, len);
	for (size_t i = 8; i < len; i++)
		((unsigned char *)message)[i] = (unsigned char)(i * 37 + 11);
}

/* Reads every byte: sum of the 8-byte words and of the bytes after them. */
static inline uint64_t
bench_read(const void *message, size_t len)
{
	const char *p = message;
	uint64_t sum = 0, word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		sum += word;
	}
	for (; len; p++, len--)
		sum += (unsigned char)*p;
	/* The compiler must believe that the sum is used, each time. */
	__asm__ volatile("" : "+r"(sum) : : "memory");
	return sum;
}

/* What bench_read makes of the messages first to last. 0 if equal to sum, else 1 and a line. */
static inline int
bench_verify(const char *program, size_t len, uint64_t first, uint64_t last, uint64_t sum)
{
	char *message = malloc(len);
	uint64_t want = 0;

	if (!message)
		return 1;
	bench_fill(message, len);
	for (uint64_t i = first; i <= last; i++) {
		bench_stamp(message, len, i);
		want += bench_read(message, len);
	}
	free(message);
	if (sum == want)
		return 0;
	fprintf(stderr, "%s: the receiver has read other data than was sent (%zu bytes)\n", program,
	        len);
	return 1;
}

static inline int
bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double
bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), bench_compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The line that bench/run reads. */
static inline void
bench_print(const char *what, size_t bytes, double value, const char *unit)
{
	printf("%s %zu %.6g %s\n", what, bytes, value, unit);
	fflush(stdout);
}

#endif
