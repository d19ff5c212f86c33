/*
 * torch.h - contexts that serve PyTorch's allocator.
 */
#ifndef RMA_TORCH_H
#define RMA_TORCH_H

#include "rma/ctx.h"

/* The context ends; NULL: all do. */
void torch_forget(const oriel_ctx *ctx);

#endif
