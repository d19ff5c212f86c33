#include "rma/win.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

Test(ops, sizes_of_types)
{
	static const size_t want[] = { 4, 8, 4, 8, 4, 8 };

	for (int t = ORIEL_INT32; t <= ORIEL_DOUBLE; t++)
		cr_assert_eq(ops_type_size(t), want[t]);
	cr_assert_eq(ops_type_size(-1), 0);
	cr_assert_eq(ops_type_size(6), 0);
	cr_assert_eq(ops_type_size(INT32_MAX), 0);
	cr_assert_eq(ops_type_size(INT32_MIN), 0);
}

Test(ops, atomics)
{
	uint64_t word = 10;

	cr_assert_eq(ops_atomic(&word, ATOMIC_ADD, 5, 99), 10);
	cr_assert_eq(word, 15);
	cr_assert_eq(ops_atomic(&word, ATOMIC_ADD, UINT64_MAX, 0), 15);
	cr_assert_eq(word, 14);
	cr_assert_eq(ops_atomic(&word, ATOMIC_CAS, 13, 1), 14);
	cr_assert_eq(word, 14);
	cr_assert_eq(ops_atomic(&word, ATOMIC_CAS, 14, 1), 14);
	cr_assert_eq(word, 1);
}

/* A source at every misalignment; what lies beside the elements stays. */
Test(ops, accumulate_all_types)
{
	for (size_t shift = 0; shift < 8; shift++) {
		union {
			int32_t i4[4];
			int64_t i8[4];
			uint32_t u4[4];
			uint64_t u8[4];
			float f4[4];
			double f8[4];
			char bytes[32];
		} d;
		char src[40];

		d = (typeof(d)){ .i4 = { 1, INT32_MAX, -5, 7 } };
		memcpy(src + shift, (int32_t[]){ 2, 1, -6 }, 12);
		ops_accumulate(d.i4, src + shift, 3, ORIEL_INT32);
		cr_assert(d.i4[0] == 3 && d.i4[1] == INT32_MIN && d.i4[2] == -11 && d.i4[3] == 7);

		d = (typeof(d)){ .u4 = { 1, UINT32_MAX, 5, 7 } };
		memcpy(src + shift, (uint32_t[]){ 2, 1, 6 }, 12);
		ops_accumulate(d.u4, src + shift, 3, ORIEL_UINT32);
		cr_assert(d.u4[0] == 3 && d.u4[1] == 0 && d.u4[2] == 11 && d.u4[3] == 7);

		d = (typeof(d)){ .i8 = { 1, INT64_MAX, -5, 7 } };
		memcpy(src + shift, (int64_t[]){ 2, 1, -6 }, 24);
		ops_accumulate(d.i8, src + shift, 3, ORIEL_INT64);
		cr_assert(d.i8[0] == 3 && d.i8[1] == INT64_MIN && d.i8[2] == -11 && d.i8[3] == 7);

		d = (typeof(d)){ .u8 = { 1, UINT64_MAX, 5, 7 } };
		memcpy(src + shift, (uint64_t[]){ 2, 1, 6 }, 24);
		ops_accumulate(d.u8, src + shift, 3, ORIEL_UINT64);
		cr_assert(d.u8[0] == 3 && d.u8[1] == 0 && d.u8[2] == 11 && d.u8[3] == 7);

		d = (typeof(d)){ .f4 = { 0.5f, INFINITY, -1e30f, 7 } };
		memcpy(src + shift, (float[]){ 0.25f, -1, 1e30f }, 12);
		ops_accumulate(d.f4, src + shift, 3, ORIEL_FLOAT);
		cr_assert(d.f4[0] == 0.75f && isinf(d.f4[1]) && d.f4[2] == 0 && d.f4[3] == 7);

		d = (typeof(d)){ .f8 = { 0.5, INFINITY, -1e300, 7 } };
		memcpy(src + shift, (double[]){ 0.25, -INFINITY, 1e300 }, 24);
		ops_accumulate(d.f8, src + shift, 3, ORIEL_DOUBLE);
		cr_assert(d.f8[0] == 0.75 && isnan(d.f8[1]) && d.f8[2] == 0 && d.f8[3] == 7);

		ops_accumulate(d.f8, src, 0, ORIEL_DOUBLE);
		cr_assert(d.f8[0] == 0.75);
	}
}

#define TIMES 20000
static struct {
	double f8;
	float f4;
	uint64_t u8;
	uint32_t u4;
} sum;

static void *
add_all(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		ops_accumulate(&sum.f8, (double[]){ 1 }, 1, ORIEL_DOUBLE);
		ops_accumulate(&sum.f4, (float[]){ 1 }, 1, ORIEL_FLOAT);
		ops_accumulate(&sum.u8, (uint64_t[]){ 1 }, 1, ORIEL_UINT64);
		ops_accumulate(&sum.u4, (uint32_t[]){ 1 }, 1, ORIEL_INT32);
	}
	return arg;
}

Test(ops, accumulates_are_atomic)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, add_all, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	cr_assert(sum.f8 == 4 * TIMES && sum.f4 == 4 * TIMES && sum.u8 == 4 * TIMES &&
	          sum.u4 == 4 * TIMES);
}
