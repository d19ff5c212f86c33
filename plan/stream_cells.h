/*
 * stream_cells.h - what calls on streams keep in a mailbox (struct mbox, stream).
 *
 * Cells: words that a stream writes and another waits for.
 *
 *	            written by the mailbox's writer        waited for by its owner
 *	signal      call << 20 | batches sent, of eager calls      until a batch is there
 *	ready       call << 20: the writer's buffers may be        before the first put to
 *	            written                                        the writer
 *	captured_*  the same of calls in a graph, which has its numbers baked in: ready is 1
 *	            and the owner takes it back to 0 when it has seen it; signal counts from 1
 *	            and the owner takes it back to 0 at the end of its call
 *
 * A captured call's writer writes ready again only in its next call, behind the last
 * batch of this one, which the owner sent after it took ready back; so nobody's 0
 * ever overtakes the other's 1.
 *
 * Records: where the writer's buffers of a call are, told by its host. Two slots by
 * turns; "taken" (in the reverse mailbox, by the reader's host) frees one.
 */
#ifndef PLAN_STREAM_CELLS_H
#define PLAN_STREAM_CELLS_H

#include "rma/gpu_mem.h"
#include "rma/mbox.h"

#define STREAM_RECORDS 2
#define STREAM_STEP_BITS 20
/* A waiting stream goes on for it: waits compare by the sign of the difference. */
#define STREAM_RELEASE (UINT64_C(1) << 62)

struct stream_record {
	uint64_t number; /* written last: records told on the channel, this one included */
	uint64_t hash;   /* of the call: plan, sizes */
	struct gpu_where buf[MBOX_BUFS];
};

struct stream_cells {
	/* By streams: */
	uint64_t signal, ready;
	uint64_t captured_signal, captured_ready;
	char pad[32];
	/* By hosts: */
	uint64_t taken; /* records of the reverse mailbox that were read */
	char pad2[56];
	struct stream_record record[STREAM_RECORDS];
};

_Static_assert(sizeof(struct stream_cells) <= sizeof(((struct mbox *)0)->stream), "has room");

static inline struct stream_cells *
stream_cells(struct mbox *box)
{
	return (struct stream_cells *)(void *)box->stream;
}

#endif
