/*
 * fabric.h - a machine room from one line of text.
 *
 *   building:2 zone:4 rack:8 node:16 gpu:8 over:1:2.8
 *
 * is two buildings of four zones of eight racks of 16 nodes of eight GPUs. A rank
 * is a GPU, and ranks fill the tree in order. A word that is left out counts one;
 * words come from the largest place to the smallest. Options, in any order:
 *
 *   latency:N[:R[:Z[:B[:X]]]]  us of a message inside a node, a rack, a zone, a building, and
 *                              between buildings; 0.5:1:7:15:30, what is left out stays
 *   over:A:B                   all links above a rack carry A/B of what the NICs below them do
 *   over:PLACE:X               the same for the links above one kind of place (rack, zone,
 *                              building) alone: 1/X
 *   nic:RATE                   of each GPU to other nodes, each way; 400Gb
 *   nvlink:RATE                of each GPU inside the node, each way; 450GB
 *   memory:RATE                of copies and reductions, bytes of result; 1500GB
 *   overhead:SEND[:RECV]       us of the rank's processor for a message; 0.5:0.5
 *   chain:US                   the same for a put directly behind one of the same batch; 0.05
 *
 * A RATE is a number and Gb (10^9 bits a second) or GB (10^9 bytes). The ratios of the latencies
 * between racks, zones and buildings and 1:2.8 are those of a large training fabric. Blanks
 * separate words, # starts a comment.
 *
 * Links: each rank has a NIC and an NVLink port, each with an out and an in side, and a memory
 * engine; each rack, zone and building has one up-link and one down-link (the sum of its cables).
 * Between nodes of a rack nothing but NICs is shared. Times are picoseconds, as integers.
 */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include "base/base.h"

/* The smallest place that two ranks share. */
enum fabric_level {
	FABRIC_NODE = 0,
	FABRIC_RACK,
	FABRIC_ZONE,
	FABRIC_BUILDING,
	FABRIC_BETWEEN, /* buildings */
	FABRIC_LEVELS
};
#define FABRIC_MAX_HOPS 8
extern const char *const fabric_level_name[FABRIC_LEVELS];

#define FABRIC_MAX_RANKS (1 << 24)

struct fabric {
	int64_t size[FABRIC_LEVELS];    /* ranks that one place has room for; the last: all */
	int64_t latency[FABRIC_LEVELS]; /* ps */
	int64_t send, receive, chain;   /* ps */
	double nic, nvlink, memory;     /* ps a byte */
	double over[FABRIC_LEVELS];     /* of the links above a rack, zone, building */
	/* Of the ranks in use, by fabric_use. */
	int ranks;
	uint32_t first[FABRIC_LEVELS], n_links; /* a level's first up-link */
	double up[FABRIC_LEVELS];               /* ps a byte of one up-link or down-link */
	double slowest[FABRIC_LEVELS];          /* ps a byte of the slowest link of a path */
};

/* EINVAL names the word that is wrong. */
int fabric_parse(const char *text, struct fabric *f);
/* The same from a file of at most 4 KiB, if what contains no colon. */
int fabric_read(const char *what, struct fabric *f);
/* Lays out the links of the first ranks ranks. ERANGE: there is no room for them. */
int fabric_use(struct fabric *f, int ranks);

enum fabric_level fabric_level(const struct fabric *f, int a, int b);
/* How many links a message takes, half of them up, and the hop'th of them. */
unsigned fabric_hops(enum fabric_level level);
uint32_t fabric_link(const struct fabric *f, int from, int to, enum fabric_level level,
                     unsigned hop);
uint32_t fabric_memory(int rank);
/* How long bytes occupy a link, and the slowest link of a path. */
int64_t fabric_time(const struct fabric *f, uint32_t link, uint64_t bytes);
int64_t fabric_train(const struct fabric *f, enum fabric_level level, uint64_t bytes);
/* "up-link of zone 3", "NIC out of rank 7". */
void fabric_link_name(const struct fabric *f, uint32_t link, char *text, size_t cap);

#endif
