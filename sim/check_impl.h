/*
 * check_impl.h - the state of one run of the checker. check.c moves it, ranks.c
 * makes and frees its ranks.
 */
#ifndef SIM_CHECK_IMPL_H
#define SIM_CHECK_IMPL_H

#include "sim/check.h"
#include "sim/contract.h"

#define NO_PART (-1) /* of a block that holds nothing */

struct side {              /* one rank's end of a channel */
	uint32_t there;    /* the index of this edge at the other rank; UINT32_MAX: it has none */
	uint32_t closed;   /* out: batches closed by a signal that was posted */
	uint32_t came;     /* in: batches that have come */
	uint32_t waited;   /* in: of those, waited for */
	uint32_t *pending; /* out, by batch: blocks that have not landed */
	int *clock;        /* in, by batch: rounds until it came */
};

struct rank {
	struct plan *plan;
	struct contract_rank view;
	uint8_t *unread[MBOX_BUFS]; /* by block: puts that have not read it yet */
	int *part;                  /* by block of TMP: what it holds */
	struct side *side;          /* by edge */
	uint32_t at[MBOX_QUEUES];   /* ops done */
	int clock[MBOX_QUEUES];
	uint32_t n_unread;
	int64_t blocks;
	bool ended;
};

struct value {
	int64_t bits;
	int part; /* contract_part */
};

struct flight { /* one block of a put, or a signal */
	bool is_signal, is_read;
	int from, to;
	uint32_t edge, batch;
	int clock;
	uint8_t src, dst;
	uint32_t i, j;
	struct value value;
};

struct sim {
	const struct check *check;
	uint64_t random;
	int size, live;
	int slow_rank, slow_puts; /* this rank's steps, that one's puts are slow; size: nobody's */
	struct rank *rank;
	bool *entered;
	struct flight *flight;
	size_t n_flights, cap;
	int rounds;
	int64_t most, total; /* blocks that one rank, and all ranks, have put */
	int error;
};

/* The run's first error. */
void sim_wrong(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* False: s->error, or no memory. */
bool sim_make_rank(struct sim *s, int rank);
/* When all are made: each of its edges finds its other end. */
void sim_join_sides(struct sim *s, int rank);
void sim_free_rank(struct rank *r);

#endif
