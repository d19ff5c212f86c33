/*
 * slabs.h - the slabs of a context's pool of host memory: shown to the node, and
 * their pages kept where a GPU has pinned them.
 */
#ifndef RMA_SLABS_H
#define RMA_SLABS_H

#include "rma/ctx.h"

/* Makes ctx->pool; the control slab is there. */
int slabs_open(oriel_ctx *ctx);
/* Fills in what the node's ranks see of a slab. */
void slabs_show(struct ctl_slab *shown, const struct slab *slab);

#endif
