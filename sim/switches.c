#include "sim/switches.h"

#include "sim/events.h"

#include <inttypes.h>
#include <stdlib.h>

enum what { AT_RACK, AT_SPINE, AT_PORT, AT_HOST, NIC_FREE, SEGMENT_ACKED, START };
#define WHAT_BITS 3

struct packet {
	uint32_t flow, lane, bytes, next_free;
};

/* A segment, from when it is handed to the NIC until its sender knows that it has arrived. */
struct slot {
	uint32_t immediate;
	uint64_t len, unsent, not_here;
};

/* A lane keeps order, so a ring does: to be acked, to arrive, to be sent. */
struct lane {
	struct slot *slot;
	uint32_t depth, acked, arrived, sent, end; /* counts, each of the ring so far */
};

struct sender {
	struct lanes_tx tx;
	struct lanes_rx rx;
	struct lanes_msg msg;
	struct lane lane[LANES_MOST];
	unsigned turn;
	bool busy; /* the NIC */
	uint64_t here;
};

struct port {
	double ps; /* a byte */
	int64_t free;
};

struct world {
	const struct switches *s;
	struct switches_flow *flow;
	struct sender *sender;
	struct switches_result *out;
	struct events events;
	struct packet *packet;
	uint32_t n_packets, free_packet; /* free_packet: 1 + its index, 0: none */
	uint64_t order, in_switches;
	struct port up[SWITCHES_MOST_CABLES], spine[SWITCHES_MOST_CABLES];
	struct port down[SWITCHES_MOST_HOSTS];
	int rc;
};

unsigned
switches_cable(const struct switches *s, const struct switches_flow *flow, unsigned lane)
{
	uint32_t label[3] = { flow->from, flow->to, lane };

	if (s->apart)
		return lane % s->cables;
	return (unsigned)(hash_bytes(0, label, sizeof(label)) % s->cables);
}

static void
error(struct world *w, int rc)
{
	if (!w->rc)
		w->rc = rc;
}

static void
later(struct world *w, int64_t at, enum what what, uint64_t which)
{
	if (!events_push(&w->events, at, w->order++, which << WHAT_BITS | what))
		error(w, fail(ORIEL_ENOMEM, "no memory for %zu events", w->events.n));
}

/*
 * ---- Packets ----
 */

static uint32_t
packet_new(struct world *w)
{
	uint32_t i = w->free_packet;

	if (i) {
		w->free_packet = w->packet[i - 1].next_free;
		return i - 1;
	}
	if (!(w->n_packets & (w->n_packets - 1)) && w->n_packets != 1) {
		size_t cap = w->n_packets ? 2 * (size_t)w->n_packets : 2;
		struct packet *more = realloc(w->packet, cap * sizeof(*more));

		if (!more) {
			error(w, fail(ORIEL_ENOMEM, "no memory for %zu packets", cap));
			return UINT32_MAX;
		}
		w->packet = more;
	}
	return w->n_packets++;
}

static void
packet_free(struct world *w, uint32_t i)
{
	w->packet[i].next_free = w->free_packet;
	w->free_packet = i + 1;
}

/* A packet joins a port's queue; what comes next comes when its last byte has left. */
static void
join(struct world *w, struct port *port, uint32_t i, int64_t now, enum what next)
{
	uint32_t bytes = w->packet[i].bytes;
	uint64_t queued;

	if (port->free < now)
		port->free = now;
	queued = (uint64_t)((double)(port->free - now) / port->ps) + bytes;
	if (w->out->peak_port < queued)
		w->out->peak_port = queued;
	port->free += (int64_t)((double)bytes * port->ps);
	later(w, port->free, next, i);
}

/*
 * ---- Hosts ----
 */

static void
nic_send(struct world *w, uint32_t f, int64_t now)
{
	struct sender *sender = &w->sender[f];
	unsigned lanes = w->flow[f].limits.lanes;

	for (unsigned k = 0; k < lanes && !sender->busy; k++) {
		unsigned index = (sender->turn + k) % lanes;
		struct lane *lane = &sender->lane[index];
		struct slot *slot = &lane->slot[lane->sent % lane->depth];
		uint32_t i;

		if (lane->sent == lane->end)
			continue;
		i = packet_new(w);
		if (i == UINT32_MAX)
			return;
		w->packet[i] = (struct packet){ .flow = f, .lane = index, .bytes = w->s->packet };
		if (slot->unsent < w->s->packet)
			w->packet[i].bytes = (uint32_t)slot->unsent;
		slot->unsent -= w->packet[i].bytes;
		lane->sent += !slot->unsent;
		sender->turn = (index + 1) % lanes;
		sender->busy = true;
		now += (int64_t)((double)w->packet[i].bytes * w->s->host);
		later(w, now, NIC_FREE, f);
		later(w, now + w->s->round_trip / 2, AT_RACK, i);
	}
}

/* Hands the NIC all that the lanes have room for. */
static void
pump(struct world *w, uint32_t f, int64_t now)
{
	struct sender *sender = &w->sender[f];
	struct lanes_segment segment;

	while (lanes_next(&sender->tx, &segment)) {
		struct lane *lane = &sender->lane[segment.lane];

		lane->slot[lane->end++ % lane->depth] = (struct slot){
			.immediate = segment.immediate,
			.len = segment.len,
			.unsent = segment.len,
			.not_here = segment.len,
		};
	}
	nic_send(w, f, now);
}

/* The last byte of a packet is here. */
static void
arrive(struct world *w, uint32_t i, int64_t now)
{
	struct packet p = w->packet[i];
	struct sender *sender = &w->sender[p.flow];
	struct switches_flow *flow = &w->flow[p.flow];
	struct lane *lane = &sender->lane[p.lane];
	struct slot *slot = &lane->slot[lane->arrived % lane->depth];

	packet_free(w, i);
	w->in_switches -= p.bytes;
	slot->not_here -= p.bytes;
	if (slot->not_here)
		return;
	lane->arrived++;
	sender->here += slot->len;
	error(w, lanes_arrived(&sender->rx, 0, slot->immediate));
	if ((sender->here == flow->bytes) != (sender->rx.messages == 1))
		error(w,
		      fail(ORIEL_EMISMATCH,
		           "%" PRIu64 " of %" PRIu64 " bytes are here, %" PRIu64 " of 1 messages",
		           sender->here, flow->bytes, sender->rx.messages));
	if (sender->rx.messages)
		flow->end = now;
	later(w, now + w->s->round_trip - w->s->round_trip / 2, SEGMENT_ACKED,
	      (uint64_t)p.flow * LANES_MOST + p.lane);
}

static void
handle(struct world *w, const struct event *e)
{
	uint64_t which = e->what >> WHAT_BITS;
	uint32_t i = (uint32_t)which, f = i / LANES_MOST;
	unsigned cable = 0;

	switch ((enum what)(e->what & ((1 << WHAT_BITS) - 1))) {
	case AT_RACK:
		cable = switches_cable(w->s, &w->flow[w->packet[i].flow], w->packet[i].lane);
		w->in_switches += w->packet[i].bytes;
		if (w->out->peak_all < w->in_switches)
			w->out->peak_all = w->in_switches;
		w->out->cable[cable] += w->packet[i].bytes;
		join(w, &w->up[cable], i, e->at, AT_SPINE);
		break;
	case AT_SPINE:
		cable = switches_cable(w->s, &w->flow[w->packet[i].flow], w->packet[i].lane);
		join(w, &w->spine[cable], i, e->at, AT_PORT);
		break;
	case AT_PORT:
		join(w, &w->down[w->flow[w->packet[i].flow].to], i, e->at, AT_HOST);
		break;
	case AT_HOST:
		arrive(w, i, e->at);
		break;
	case NIC_FREE:
		w->sender[i].busy = false;
		nic_send(w, i, e->at);
		break;
	case SEGMENT_ACKED:
		w->sender[f].lane[i % LANES_MOST].acked++;
		error(w, lanes_completed(&w->sender[f].tx, i % LANES_MOST, 1));
		pump(w, f, e->at);
		break;
	case START:
		error(w, lanes_post(&w->sender[i].tx, &w->sender[i].msg));
		pump(w, i, e->at);
		break;
	}
}

/*
 * ---- A run ----
 */

static int
flow_init(struct world *w, uint32_t f)
{
	struct switches_flow *flow = &w->flow[f];
	struct sender *sender = &w->sender[f];
	int rc;

	if (flow->from >= w->s->hosts || flow->to >= w->s->hosts || !flow->bytes)
		return fail(ORIEL_EINVAL, "%" PRIu64 " bytes from host %u to %u, of %u",
		            flow->bytes, flow->from, flow->to, w->s->hosts);
	rc = lanes_tx_init(&sender->tx, &flow->limits, 0);
	if (!rc)
		rc = lanes_rx_init(&sender->rx, &flow->limits, 0);
	if (rc)
		return rc;
	for (unsigned i = 0; i < flow->limits.lanes; i++) {
		sender->lane[i].depth = flow->limits.depth;
		sender->lane[i].slot = calloc(flow->limits.depth, sizeof(struct slot));
		if (!sender->lane[i].slot)
			return fail(ORIEL_ENOMEM, "no memory for the lanes of a host");
	}
	sender->msg.len = flow->bytes;
	flow->end = -1;
	later(w, flow->start, START, f);
	return 0;
}

static void
flow_fini(struct world *w, uint32_t f)
{
	struct switches_flow *flow = &w->flow[f];
	struct sender *sender = &w->sender[f];

	flow->stalls = 0;
	for (unsigned i = 0; i < LANES_MOST; i++) {
		flow->lane_bytes[i] = sender->tx.lane[i].count.bytes;
		flow->stalls += sender->tx.lane[i].count.stalls;
		free(sender->lane[i].slot);
	}
	lanes_tx_fini(&sender->tx);
	lanes_rx_fini(&sender->rx);
}

static int
lay_out(struct world *w)
{
	const struct switches *s = w->s;

	if (s->cables < 1 || s->cables > SWITCHES_MOST_CABLES || s->hosts < 1 ||
	    s->hosts > SWITCHES_MOST_HOSTS || !s->packet)
		return fail(ORIEL_EINVAL, "%u hosts, %u cables, packets of %u bytes", s->hosts,
		            s->cables, s->packet);
	for (unsigned i = 0; i < s->cables; i++)
		w->up[i].ps = w->spine[i].ps = s->cable * (!i && s->slower ? s->slower : 1);
	for (unsigned i = 0; i < s->hosts; i++)
		w->down[i].ps = s->host;
	return 0;
}

int
switches_run(const struct switches *s, struct switches_flow *flows, unsigned n,
             struct switches_result *out)
{
	struct world w = { .s = s, .flow = flows, .out = out };
	struct event e;

	*out = (struct switches_result){ 0 };
	w.sender = calloc(n, sizeof(*w.sender));
	w.rc = w.sender ? lay_out(&w) : fail(ORIEL_ENOMEM, "no memory for %u hosts", n);
	for (uint32_t f = 0; f < n && !w.rc; f++)
		error(&w, flow_init(&w, f));
	while (!w.rc && events_pop(&w.events, &e)) {
		handle(&w, &e);
		out->events++;
	}
	for (uint32_t f = 0; f < n && w.sender; f++) {
		if (!w.rc && (flows[f].end < 0 || !lanes_done(&w.sender[f].tx)))
			error(&w, fail(ORIEL_EMISMATCH, "the message of host %u did not complete",
			               flows[f].from));
		if (out->end < flows[f].end)
			out->end = flows[f].end;
		flow_fini(&w, f);
	}
	events_fini(&w.events);
	free(w.packet);
	free(w.sender);
	return w.rc;
}
