/*
 * oriel_sim_lanes.c - oriel_sim --lanes: three ways to put messages into a network of switches,
 * simulated and in closed form. All three are the library's lanes with other limits:
 *
 *   whole     one lane, one segment: the message
 *   chunks    one lane, CHUNK bytes a segment, DEPTH under way, and first the receiver's word:
 *             a clear-to-send for each of DEPTH chunks, the next when a chunk has arrived
 *   lanes     lanes_defaults of the distance
 *
 * Closed forms, with B the rate of a NIC, M the message, s a segment, L lanes, W = lanes x depth x
 * s, and R the round trip: a sender alone gets min(B, W / (R + L s / B)), since the NIC serves the
 * lanes in turn and a segment takes L s / B to leave it. N senders to one receiver share B. Senders
 * whose labels name only k of the cables share k B, for every set of cables. A message takes
 * M / rate + R / 2; chunks take another R / 2 before the first.
 */
#include "tools/oriel_sim.h"

#include "sim/switches.h"

#include <stdio.h>
#include <string.h>

#define GBITS 400
#define PS_A_BYTE (8000.0 / GBITS)
#define CHUNK (512 << 10)
#define DEPTH 8
#define HOSTS 14
#define CABLES 5 /* 14 NICs over 5 cables of a NIC's rate: 1:2.8 */
#define SENDERS 8
#define PACKET 4096
#define SLOWER 8
#define SLOW_LANES 4
#define US 1000000

static const int64_t round_trip[] = { 5 * US, 35 * US, 75 * US, 150 * US };

enum scheme { WHOLE, CHUNKS, LANES, SCHEMES };
static const char *const scheme_name[] = { "whole", "chunks", "lanes" };

enum pattern { POINT, INCAST, PAIRS, PATTERNS };
static const unsigned pattern_flows[] = { 1, SENDERS, HOSTS };

static struct lanes_limits
limits_of(enum scheme scheme, int64_t trip, size_t bytes)
{
	switch (scheme) {
	case WHOLE:
		return (struct lanes_limits){ 1, 1, bytes };
	case CHUNKS:
		return (struct lanes_limits){ 1, DEPTH, CHUNK };
	default:
		return lanes_defaults((uint64_t)trip / 1000, GBITS * UINT64_C(1000000000));
	}
}

static double
max(double a, double b)
{
	return a > b ? a : b;
}

/* ps: of one sender's message, if what its limits allow is all that holds it back. */
static double
alone(const struct switches_flow *flow, int64_t trip)
{
	const struct lanes_limits *l = &flow->limits;
	double leaves = (double)l->lanes * (double)l->segment * PS_A_BYTE;
	double window = (double)l->segment * l->lanes * l->depth;

	if (l->segment >= flow->bytes)
		return (double)flow->bytes * PS_A_BYTE;
	return (double)flow->bytes * max(PS_A_BYTE, ((double)trip + leaves) / window);
}

/* In messages: what goes through cables of the set only, over how many these are. For the worst set
 * that is the best that any split over the lanes can reach. */
static double
confined(const struct switches *s, const struct switches_flow *flow, unsigned n)
{
	double worst = 0;

	for (unsigned set = 1; set < 1U << s->cables; set++) {
		unsigned inside = 0;

		for (unsigned f = 0; f < n; f++) {
			bool all = true;

			for (unsigned i = 0; i < flow[f].limits.lanes; i++)
				all &= set >> switches_cable(s, &flow[f], i) & 1;
			inside += all;
		}
		worst = max(worst, (double)inside / __builtin_popcount(set));
	}
	return worst;
}

/* ps: of all messages. */
static double
closed(const struct switches *s, enum pattern pattern, const struct switches_flow *flow, unsigned n)
{
	double share = confined(s, flow, n);

	if (pattern == INCAST)
		share = max(share, n);
	return max(alone(&flow[0], s->round_trip), share * (double)flow[0].bytes * PS_A_BYTE) +
	       (double)(flow[0].start + s->round_trip / 2);
}

/* The fullest cable's bytes over those of the mean. */
static double
spread(const struct switches *s, const struct switches_result *r)
{
	uint64_t most = 0, all = 0;

	for (unsigned i = 0; i < s->cables; i++) {
		all += r->cable[i];
		if (most < r->cable[i])
			most = r->cable[i];
	}
	return (double)most * s->cables / (double)all;
}

static double
mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

struct line {
	double rate;
	uint64_t peak;
};

static int
run_one(enum pattern pattern, enum scheme scheme, int64_t trip, size_t bytes, struct line *line)
{
	struct switches s = { .hosts = HOSTS,
		              .cables = CABLES,
		              .host = PS_A_BYTE,
		              .cable = PS_A_BYTE,
		              .round_trip = trip,
		              .packet = PACKET };
	struct switches_flow flow[HOSTS];
	struct switches_result r;
	unsigned n = pattern_flows[pattern];
	double form, link = pattern == PAIRS ? CABLES : 1;
	int rc;

	for (unsigned f = 0; f < n; f++)
		flow[f] = (struct switches_flow){ .from = f,
			                          .to = pattern == PAIRS ? f : 0,
			                          .bytes = bytes,
			                          .limits = limits_of(scheme, trip, bytes),
			                          .start = scheme == CHUNKS ? trip / 2 : 0 };
	rc = switches_run(&s, flow, n, &r);
	if (rc)
		return rc;
	form = closed(&s, pattern, flow, n);
	line->rate = n * (double)bytes * PS_A_BYTE / (double)r.end / link;
	line->peak = r.peak_port;
	printf("%4.0f  %-7s %5u %5u %10.1f  %10.1f %10.1f %6.2f %%  %5.3f  %9.3f %9.3f   %5.2f\n",
	       (double)trip / US, scheme_name[scheme], flow[0].limits.lanes, flow[0].limits.depth,
	       (double)flow[0].limits.segment / 1024, form / US, (double)r.end / US,
	       100 * ((double)r.end / form - 1), line->rate, mib(r.peak_port), mib(r.peak_all),
	       spread(&s, &r));
	return 0;
}

static int
run_pattern(enum pattern pattern, size_t bytes)
{
	static const char *const title[] = {
		"point to point: one message",
		"incast: 8 hosts send a message each to one",
		"pairs (link: all 5 cables; closed form: the best split that the labels allow):\n"
		"14 hosts send a message each to 14",
	};
	int rc = 0;

	printf("\n%s of %.0f MiB\n", title[pattern], mib(bytes));
	printf("                             segment   closed form  simulated  differ-     of  "
	       " peak queue, MiB  fullest\n"
	       "  us  scheme  lanes depth        KiB          us         us     ence   link  "
	       " one port all ports  / mean\n");
	for (size_t t = 0; t < ARRAY_SIZE(round_trip); t++) {
		struct line line[SCHEMES];

		for (enum scheme scheme = WHOLE; scheme < SCHEMES && !rc; scheme++)
			rc = run_one(pattern, scheme, round_trip[t], bytes, &line[scheme]);
		if (rc)
			return rc;
		if (pattern != POINT)
			printf("      lanes: %.1f times less queue than whole messages, %+.1f %% "
			       "bandwidth\n",
			       (double)line[WHOLE].peak / (double)line[LANES].peak,
			       100 * (line[LANES].rate / line[WHOLE].rate - 1));
	}
	return 0;
}

/* Four lanes, a cable each of a quarter of the NIC's rate, the first of them slower. */
static int
run_slow(int64_t trip, size_t bytes)
{
	struct switches s = { .hosts = 1,
		              .cables = SLOW_LANES,
		              .host = PS_A_BYTE,
		              .cable = PS_A_BYTE * SLOW_LANES,
		              .round_trip = trip,
		              .packet = PACKET,
		              .slower = SLOWER,
		              .apart = true };
	struct switches_flow flow = { .bytes = bytes, .limits = limits_of(LANES, trip, bytes) };
	struct lanes_limits *l = &flow.limits;
	struct switches_result r;
	double ideal, even;
	int rc;

	l->depth = (l->lanes * l->depth + SLOW_LANES - 1) / SLOW_LANES;
	l->lanes = SLOW_LANES;
	rc = switches_run(&s, &flow, 1, &r);
	if (rc)
		return rc;
	ideal = (double)bytes * s.cable / (SLOW_LANES - 1 + 1.0 / SLOWER) + (double)trip / 2;
	even = (double)bytes * s.cable / SLOW_LANES * SLOWER + (double)trip / 2;
	printf("%4.0f %9.0f %5u %9.0f  %10.1f %10.1f  %9.3f  %11.3f      %5.1f %%\n",
	       (double)trip / US, mib(bytes), l->depth, (double)l->segment / 1024, ideal / US,
	       (double)r.end / US, (double)r.end / ideal, even / ideal,
	       100 * (double)flow.lane_bytes[0] / (double)bytes);
	return 0;
}

int
sim_lanes(size_t bytes)
{
	const double window = (double)CHUNK * DEPTH;
	int rc = bytes ? 0 : fail(ORIEL_EINVAL, "--bytes 0: a message has some");

	if (rc)
		return rc;
	printf("links of %d Gb/s, round trips of 5, 35, 75 and 150 us, packets of %d bytes;\n"
	       "racks of %d hosts over %d cables (1:%.1f), ECMP by a hash of the flow label\n"
	       "whole: the message at once; chunks: of %d KiB, a clear-to-send each, %d deep;\n"
	       "lanes: the defaults of the distance\n"
	       "chunks, %d x %d KiB a round trip, of the link (a chunk's own time left out):",
	       GBITS, PACKET, HOSTS, CABLES, (double)HOSTS / CABLES, CHUNK >> 10, DEPTH, DEPTH,
	       CHUNK >> 10);
	for (size_t t = 0; t < ARRAY_SIZE(round_trip); t++) {
		double of = window * PS_A_BYTE / (double)round_trip[t];

		printf(" %.3f", of < 1 ? of : 1.0);
	}
	printf("\n");
	for (enum pattern p = POINT; p < PATTERNS && !rc; p++)
		rc = run_pattern(p, bytes);
	printf("\na slow lane: 4 lanes, a cable of %d Gb/s each, one %d times slower\n"
	       "                 segment       ideal  simulated             even split  slow lane\n"
	       "  us       MiB depth       KiB          us         us   / ideal     / ideal    "
	       "carries\n",
	       GBITS / SLOW_LANES, SLOWER);
	for (size_t t = 0; t < ARRAY_SIZE(round_trip) && !rc; t++)
		rc = run_slow(round_trip[t], bytes);
	return rc;
}
