/*
 * Switches: times and queues that are known by hand, and what lanes promise at the four distances:
 * they fill the link, queues stay short, a slow lane carries less.
 */
#include "sim/switches.h"

#include <criterion/criterion.h>

#define US 1000000 /* ps */
#define PS 20      /* a byte at 400 Gb/s */
#define MIB ((uint64_t)1 << 20)
#define RATE UINT64_C(400000000000)

static const unsigned round_trip[] = { 5, 35, 75, 150 };

static struct switches
racks(unsigned trip, unsigned packet)
{
	return (struct switches){ .hosts = 14,
		                  .cables = 5,
		                  .host = PS,
		                  .cable = PS,
		                  .round_trip = (int64_t)trip * US,
		                  .packet = packet };
}

static struct switches_result
run(const struct switches *s, struct switches_flow *flow, unsigned n)
{
	struct switches_result r;

	cr_assert_eq(switches_run(s, flow, n, &r), 0, "%s", oriel_detail());
	return r;
}

/* The rate of n senders to one receiver, of a link. */
static double
rate(unsigned n, unsigned trip, struct lanes_limits limits, uint64_t bytes, uint64_t *peak)
{
	struct switches s = racks(trip, n > 1 ? 16384 : 4096);
	struct switches_flow flow[14];
	struct switches_result r;

	for (unsigned f = 0; f < n; f++)
		flow[f] = (struct switches_flow){ .from = f, .bytes = bytes, .limits = limits };
	r = run(&s, flow, n);
	*peak = r.peak_port;
	return (double)(n * bytes * PS) / (double)r.end;
}

Test(switches, one_packet)
{
	struct switches s = racks(5, 4096);
	struct switches_flow flow = { .bytes = 1000, .limits = { 1, 1, 1000 }, .start = 7 };
	struct switches_result r = run(&s, &flow, 1);

	cr_expect_eq(flow.end, 7 + 4 * 1000 * PS + 5 * US / 2, "%lld", (long long)flow.end);
	cr_expect_eq(r.end, flow.end);
	cr_expect_eq(r.peak_port, 1000);
	cr_expect_eq(r.peak_all, 1000);
	cr_expect_eq(r.cable[switches_cable(&s, &flow, 0)], 1000);
	cr_expect_eq(flow.lane_bytes[0], 1000);
}

/* Packets follow each other: the last, though short, is behind a whole one at each of three ports.
 */
Test(switches, a_stream)
{
	struct switches s = racks(5, 1000);
	struct switches_flow flow = { .bytes = 100500, .limits = { 1, 1, 100500 } };

	run(&s, &flow, 1);
	cr_expect_eq(flow.end, (100500 + 3 * 1000) * PS + 5 * US / 2, "%lld", (long long)flow.end);
}

/* One segment under way: each costs a round trip and the time of its bytes at each port. */
Test(switches, one_segment_at_a_time)
{
	struct switches s = racks(5, 1000);
	struct switches_flow flow = { .bytes = 10000, .limits = { 1, 1, 1000 } };

	run(&s, &flow, 1);
	cr_expect_eq(flow.end, 10 * (4 * 1000 * PS) + 9 * 5 * US + 5 * US / 2, "%lld",
	             (long long)flow.end);
}

/* Two at the rate of the port for a time: half of it waits there. */
Test(switches, incast_queues)
{
	struct switches s = racks(5, 1000);
	struct switches_flow flow[2];
	struct switches_result r;

	for (unsigned f = 0; f < 2; f++)
		flow[f] =
		        (struct switches_flow){ .from = f, .bytes = MIB, .limits = { 1, 1, MIB } };
	s.apart = true;
	s.cables = 1;
	r = run(&s, flow, 2);
	cr_expect_geq(r.peak_port, MIB - 2000);
	cr_expect_leq(r.peak_port, MIB + 2000);
	cr_expect_eq(r.cable[0], 2 * MIB);
	cr_expect_geq(r.end, (int64_t)(2 * MIB * PS));
}

Test(switches, bad_arguments)
{
	struct switches s = racks(5, 1000);
	struct switches_flow none = { .limits = { 1, 1, 1 } },
	                     away = { .from = 14, .bytes = 1, .limits = { 1, 1, 1 } },
	                     no_lanes = { .bytes = 1 };
	struct switches_result r;

	cr_expect_eq(switches_run(&s, &none, 1, &r), ORIEL_EINVAL);
	cr_expect_eq(switches_run(&s, &away, 1, &r), ORIEL_EINVAL);
	cr_expect_eq(switches_run(&s, &no_lanes, 1, &r), ORIEL_ERANGE);
	s.cables = 0;
	cr_expect_eq(switches_run(&s, &none, 1, &r), ORIEL_EINVAL);
}

Test(switches, lanes_fill_the_link)
{
	for (size_t t = 0; t < ARRAY_SIZE(round_trip); t++) {
		struct lanes_limits l = lanes_defaults(round_trip[t] * 1000, RATE), less = l;
		uint64_t peak;
		double r = rate(1, round_trip[t], l, 256 * MIB, &peak), half;

		cr_expect_geq(r, 0.95, "%u us: %.3f of the link", round_trip[t], r);
		less.depth /= 2;
		half = rate(1, round_trip[t], less, 256 * MIB, &peak);
		cr_expect_leq(half, 0.95, "%u us: half as much would do, %.3f", round_trip[t],
		              half);
	}
}

/* Eight chunks of 512 KiB in the time of a round trip and a chunk. */
Test(switches, chunks_do_not)
{
	for (size_t t = 0; t < ARRAY_SIZE(round_trip); t++) {
		const double chunk = (double)MIB / 2, trip = round_trip[t] * 1e6;
		double closed = 8 * chunk * PS / (trip + chunk * PS), r;
		uint64_t peak;

		if (closed > 1)
			closed = 1;
		r = rate(1, round_trip[t], (struct lanes_limits){ 1, 8, MIB / 2 }, 256 * MIB,
		         &peak);
		cr_expect_float_eq(r, closed, 0.05 * closed, "%u us: %.3f, not %.3f", round_trip[t],
		                   r, closed);
	}
}

Test(switches, lanes_keep_queues_short)
{
	for (size_t t = 0; t < ARRAY_SIZE(round_trip); t++) {
		uint64_t peak_lanes, peak_whole;
		double whole = rate(8, round_trip[t], (struct lanes_limits){ 1, 1, 256 * MIB },
		                    256 * MIB, &peak_whole);
		double lanes = rate(8, round_trip[t], lanes_defaults(round_trip[t] * 1000, RATE),
		                    256 * MIB, &peak_lanes);

		cr_expect_geq(peak_whole, 10 * peak_lanes, "%u us: %llu and %llu bytes",
		              round_trip[t], (unsigned long long)peak_whole,
		              (unsigned long long)peak_lanes);
		cr_expect_geq(lanes, 0.95 * whole);
	}
}

Test(switches, a_slow_lane_carries_less)
{
	for (size_t t = 0; t < ARRAY_SIZE(round_trip); t++) {
		struct switches s = racks(round_trip[t], 4096);
		struct switches_flow flow = { .bytes = 256 * MIB };
		double ideal;

		s.cables = 4;
		s.cable = 4 * PS;
		s.slower = 8;
		s.apart = true;
		flow.limits = lanes_defaults(round_trip[t] * 1000, RATE);
		flow.limits.depth = (flow.limits.lanes * flow.limits.depth + 3) / 4;
		flow.limits.lanes = 4;
		run(&s, &flow, 1);
		ideal = (double)flow.bytes * s.cable / 3.125 + (double)s.round_trip / 2;
		cr_expect_leq((double)flow.end, 1.15 * ideal, "%u us: %.3f times", round_trip[t],
		              (double)flow.end / ideal);
		cr_expect_gt(flow.stalls, 0);
	}
}
