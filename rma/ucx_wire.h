/*
 * ucx_wire.h - what travels in one message of the UCX carrier. No UCX in here:
 * the parser sees bytes from outside and is a function of its own, so that it
 * can be tested and fuzzed alone.
 *
 * OFFSET  SIZE          MEANING
 * 0       8             token of the sender's incarnation
 * 8       8             number of the message, from 0, for each (sender, receiver)
 * 16      4             the sender's world rank
 * 20      1             id: enum am_id, or one of the carrier's own below
 * 21      1             bytes of the header that follows
 * 22      2             magic
 * 24      hdr_len       header, then zeros up to a multiple of 8
 * ...     to the end    data
 *
 * Numbers are in the byte order of the machine; a job runs on machines of one.
 */
#ifndef RMA_UCX_WIRE_H
#define RMA_UCX_WIRE_H

#include "rma/am.h"

#define WIRE_MAGIC 0x554f
#define WIRE_FIXED 24
#define WIRE_MAX (WIRE_FIXED + AM_HDR_MAX + AM_DATA_MAX)

/* The carrier's own messages. */
enum wire_id {
	WIRE_HELLO = 240, /* number 0; header: the job's hash; data: the sender's struct boot_rec */
	WIRE_BYE          /* the sender ends its context: what breaks from now on is no failure */
};

struct wire { /* a parsed message: hdr and data point into it */
	uint64_t token;
	uint64_t seq;
	uint32_t rank;
	unsigned id;
	const char *hdr;
	size_t hdr_len;
	const char *data;
	size_t len;
};

static inline size_t
wire_size(size_t hdr_len, size_t len)
{
	return WIRE_FIXED + round_up(hdr_len, 8) + len;
}

/* Writes all but the number and the data; returns where the data goes. buf holds wire_size(). */
char *wire_start(char *buf, uint64_t token, uint32_t rank, unsigned id, const void *hdr,
                 size_t hdr_len);
/* The number is known only when the message is posted. */
void wire_set_seq(char *buf, uint64_t seq);
/* NULL, or why it is no message. Reads nothing outside of [buf, buf + size). */
const char *wire_parse(const void *buf, size_t size, struct wire *w);
/* Bytes of rec that travel. */
size_t wire_rec_size(const struct boot_rec *rec);
/* The record in a hello; NULL, or why it is none. */
const char *wire_parse_hello(const struct wire *w, uint64_t job, struct boot_rec *rec);

#endif
