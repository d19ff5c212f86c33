/*
 * time_impl.h - what the parts of the sim executor share: time_make.c builds,
 * time.c runs, time_data.c moves data, time_path.c looks back.
 */
#ifndef SIM_TIME_IMPL_H
#define SIM_TIME_IMPL_H

#include "sim/contract_runs.h"
#include "sim/events.h"
#include "sim/time.h"

#define NONE UINT32_MAX
#define NEVER INT64_MIN

struct time_done { /* an op */
	int64_t end;
	uint32_t cause; /* of a wait that a message ended: the sender's op; NONE */
};

/* One rank's end of an edge; those of all ranks lie in one array. */
struct time_side {
	int rank;
	uint32_t there; /* out: the side of who receives; NONE: nobody does */
	uint32_t last;  /* out: the last message; NONE */
	uint32_t first; /* in: its first batch in clock */
	uint32_t came;  /* in: batches that have come */
	uint32_t waited;
};

struct time_queue {
	uint32_t at;  /* ops done */
	bool posting; /* the op before at is a message that leaves now */
	bool blocked; /* in a wait that it reached at since */
	int64_t since;
	bool through;     /* the last op is done */
	uint32_t cause;   /* of the end of that wait: the sender's op; NONE: it had come before */
	int64_t next;     /* its next op starts then; NEVER: an event says when */
	int32_t clock;    /* messages on the longest path to here */
	uint64_t op_base; /* its first op in done */
};

struct time_rank {
	struct plan *plan;
	struct time_queue queue[MBOX_QUEUES];
	uint32_t side;     /* its first */
	int64_t processor; /* busy until then */
	int64_t sources;   /* in use until then */
	struct runs *buf;  /* if data is checked: one for each buffer */
	int64_t blocks;
	uint64_t messages;
	bool ended;
	int64_t end;
};

struct time_message {
	uint32_t side; /* the sender's; NONE: this one is free */
	uint32_t op;
	uint64_t op_index;
	int to;
	int32_t clock;
	uint8_t level, hop;
	bool arrives; /* its next event is its end */
	bool last;    /* it closes a batch */
	uint8_t dst;
	uint32_t i; /* block */
	int64_t train;
	uint64_t bytes;
	struct runs data; /* relative to i */
	uint32_t before;  /* the message before it on its channel, if that is still under way */
	int64_t head[FABRIC_MAX_HOPS]; /* left each link then */
	uint32_t next;                 /* free one */
};

struct time_link {
	int64_t until; /* the work it has taken on is done */
	int64_t busy;
};

struct time_sim {
	const struct time_call *call;
	struct time_result *out;
	struct contract_runs contract;
	int size, live;
	bool vector;
	bool ahead; /* a queue runs on until it has to wait */
	struct time_rank *rank;
	struct time_side *side;
	uint32_t n_sides;
	int32_t *clock;         /* by batch */
	struct time_done *done; /* by op */
	struct time_link *link;
	struct time_message *message;
	uint32_t n_messages, free_message;
	struct events events;
	int error;
};

/* Keeps the first of what is wrong with the program; no_memory: the first of all. */
void time_wrong(struct time_sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void time_no_memory(struct time_sim *s, const char *what);
/* Builds all plans and what else there is for a rank, an op, an edge. fini frees it. */
void time_make(struct time_sim *s);
void time_fini(struct time_sim *s);
/* Bytes of n blocks of a message or a local op, from block i of dst on. */
uint64_t time_bytes(const struct time_sim *s, const struct plan *plan, const struct op *op);
/* If data is checked: what a message carries when it leaves, where it lands; local ops. */
void time_load(struct time_sim *s, int rank, const struct op *op, struct runs *data);
void time_unload(struct time_sim *s, const struct time_message *m);
void time_move(struct time_sim *s, int rank, const struct op *op);
/* When all ranks have ended: the result's path and sums. */
void time_look_back(struct time_sim *s);

/* Where op number op of a queue of a rank is in done. */
static inline uint64_t
op_index(const struct time_rank *r, unsigned queue, uint32_t op)
{
	return r->queue[queue].op_base + op;
}

static inline const struct edge *
side_edge(const struct time_sim *s, uint32_t side)
{
	const struct time_rank *r = &s->rank[s->side[side].rank];

	return &r->plan->edges[side - r->side];
}

#endif
