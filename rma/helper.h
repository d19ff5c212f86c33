/*
 * helper.h - the helper thread's life. Started last in oriel_init, when the
 * peers of the node are known; stopped first in oriel_fini.
 */
#ifndef RMA_HELPER_H
#define RMA_HELPER_H

#include "rma/ctx.h"

int helper_start(oriel_ctx *ctx);
void helper_stop(oriel_ctx *ctx);
/*
 * At that time, or within a peer timeout before it, this process had not run for
 * longer than the peer timeout: others may have given it up, and what it found
 * out about them then may only be their doing.
 */
bool helper_slept(const oriel_ctx *ctx, uint64_t when);

#endif
