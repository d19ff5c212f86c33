/*
 * awaited.h - slots that streams of a GPU wait for, and how the streams are let go
 * when what they wait for will not come.
 *
 * A waiting stream looks at its word only, so whoever lets it go stores what it waits
 * for: value + 2^62 for GE (a cyclic comparison, and a signal is below 2^62), the value
 * itself for EQ. That is done when the communicator has failed and its members have
 * been told; who then looks at the failure word, or at win->released, knows that the
 * data is not there. Streams may reset a slot and wait for it again, so the helper
 * goes on until the window is freed.
 *
 * Of each slot the last value of GE and the last AWAITED_EQ different ones of EQ are
 * known. An entry exists once a stream has waited for the slot, and lives as long as
 * the window.
 */
#ifndef RMA_AWAITED_H
#define RMA_AWAITED_H

#include "rma/win.h"

#define AWAITED_EQ 4

struct awaited {
	uint64_t *slot;
	uint64_t ge;             /* value + 1; 0: none */
	uint64_t eq[AWAITED_EQ]; /* the same */
	uint32_t n_eq;           /* ever put into eq */
	uint32_t turn;           /* whoever lets go stores one of them after the other */
};

/* Before the wait is enqueued, and before the last look for failures. cmp is ORIEL_GE or ORIEL_EQ.
 * Errors: ELIMIT, ENOMEM. */
int awaited_note(oriel_win *win, size_t slot, int cmp, uint64_t value);
/* Was this slot overwritten to let streams go? Asked after the slot was read. */
static inline bool
awaited_released(oriel_win *win, size_t slot)
{
	return unlikely(load_acquire(&win->released)) && dir_get(&win->waits, (int)slot);
}
/* The error of a released window. */
int awaited_error(const oriel_win *win);

/* Lets the streams that wait on the window go. ctx->progress is held, or nobody else looks. */
void awaited_release(oriel_win *win);
/* The same on all windows whose communicators have failed. ctx->progress is held. */
void awaited_failed(oriel_ctx *ctx);
/*
 * The helper: fails the communicators on whose windows streams wait and of which a
 * member has failed, and lets the streams go. True: it has to come again soon.
 */
bool awaited_look(oriel_ctx *ctx);
/* Something has failed: the helper is to look now. Any thread, any lock. */
void awaited_call_helper(oriel_ctx *ctx);
void awaited_free(oriel_win *win);

#endif
