/*
 * helper.h - the helper thread's life. Started last in oriel_init, when the
 * peers of the node are known; stopped first in oriel_fini.
 */
#ifndef RMA_HELPER_H
#define RMA_HELPER_H

#include "rma/ctx.h"

int helper_start(oriel_ctx *ctx);
void helper_stop(oriel_ctx *ctx);

#endif
