/*
 * switches.h - messages between two racks, packet by packet, through switches whose queues are
 * recorded; the sender and the receiver of each are the library's own lanes (rma/lanes.h).
 *
 *   host --NIC--> rack switch --cable c--> spine switch c --cable c--> rack switch --port--> host
 *
 * Each port sends first come, first served, at its rate, and holds what waits: its queue has no
 * end, and its greatest depth is a result. A NIC serves its lanes that have something to send in
 * turn, a packet each. Nothing is lost, and nothing else slows a sender down. A lane keeps to the
 * cable that its flow label's hash names, as ECMP does. Half of the round trip passes between NIC
 * and rack switch: where it lies on the path moves queues in time, and does not change them. The
 * word that a segment has arrived takes the other half, and no bandwidth.
 *
 * Times are picoseconds. Events of one time go in the order in which they were made: a run repeats
 * itself exactly. Each packet costs four events, O(log of the packets in the network) each.
 */
#ifndef SIM_SWITCHES_H
#define SIM_SWITCHES_H

#include "rma/lanes.h"

#define SWITCHES_MOST_CABLES 16
#define SWITCHES_MOST_HOSTS 64

struct switches {
	unsigned hosts, cables; /* of a rack; between a rack and all spines */
	double host, cable;     /* ps a byte of a NIC and its port, and of a cable */
	int64_t round_trip;     /* of an empty packet on an idle path */
	unsigned packet;        /* bytes */
	unsigned slower;        /* cable 0 is so many times slower; 0, 1: no slower */
	bool apart;             /* labels were drawn until lane i takes cable i % cables */
};

struct switches_flow {
	/* A message of bytes from a host of one rack to one of the other. A host sends one at most.
	 */
	unsigned from, to;
	uint64_t bytes;
	struct lanes_limits limits;
	int64_t start; /* the sender may begin */
	/* Results. */
	int64_t end;                     /* the receiver has the whole message */
	uint64_t lane_bytes[LANES_MOST]; /* what each lane carried */
	uint64_t stalls;                 /* of all lanes */
};

struct switches_result {
	int64_t end;                          /* of the last flow */
	uint64_t peak_port, peak_all;         /* bytes: in one port, in all ports together */
	uint64_t cable[SWITCHES_MOST_CABLES]; /* bytes */
	uint64_t events;
};

/* The cable of a lane. */
unsigned switches_cable(const struct switches *s, const struct switches_flow *flow, unsigned lane);
/* EINVAL: an argument. EMISMATCH: what lanes promise does not hold. */
int switches_run(const struct switches *s, struct switches_flow *flows, unsigned n,
                 struct switches_result *out);

#endif
