/*
 * shrink.h - oriel_comm_shrink: rma/agreement.h run over ranks and messages.
 *
 * A context keeps a record of each shrink, by the communicator's id and how
 * many came before on it. It is made by the call or by the first message,
 * whichever is earlier; it answers for this rank after the call has returned,
 * for a rank whose coordinator died may ask late; and it goes when the next
 * shrink of the communicator, or of the one that came of it, has ended: every
 * member of that has returned from this one.
 *
 * Records are used under ctx->progress.
 */
#ifndef RMA_SHRINK_H
#define RMA_SHRINK_H

#include "rma/ctx.h"

int shrink_open(oriel_ctx *ctx);
void shrink_close(oriel_ctx *ctx);

#endif
