/*
 * select.h - which algorithm a collective uses: ORIEL_ALGORITHM if it names one
 * for the op, else the first rule that holds, of ORIEL_TUNING's file and then of
 * the built-in table (doc/tuning.md).
 *
 * A choice depends on nothing but its arguments, which are equal on all ranks,
 * and on the selection. A selection is made with its context, does not change,
 * and is freed with it; any thread may ask it.
 */
#ifndef COLL_SELECT_H
#define COLL_SELECT_H

#include "coll/tuning.h"

struct knobs;

/* What a call wants of an algorithm; or-ed. */
#define SELECT_ORDERED 1u /* the op does not commute */
#define SELECT_V 2u       /* blocks may differ in size */
#define SELECT_STREAM 4u  /* it runs on a stream of a GPU */

struct coll_choice {
	const struct coll_row *row;
	int arg;            /* in the row's range for so many ranks */
	size_t chunk;       /* bytes; 0: the call is not cut */
	size_t least, most; /* calls of so many bytes, both included, get the same choice */
	const struct tuning_rule *rule; /* NULL: ORIEL_ALGORITHM */
};

struct selection;

/* From ORIEL_ALGORITHM and ORIEL_TUNING. EINVAL names the knob and the word; ENOMEM, ELIMIT. */
int selection_make(const struct knobs *k, struct selection **out);
/* The same with other algorithms and another text for the built-in table: for tests. */
int selection_make_from(const struct knobs *k, const struct coll_rows *rows, const char *builtin,
                        struct selection **out);
void selection_free(struct selection *s);
/* Of everything that choices depend on: ranks whose hashes differ may choose differently. */
uint64_t selection_hash(const struct selection *s);

/*
 * bytes: of one rank's block for allgather, alltoall, gather, scatter and reduce_scatter (there of
 * the result), of the vector for the others; for v forms all blocks' bytes divided by the number
 * of ranks where all know it, else SELECT_UNKNOWN. EINVAL: what ORIEL_ALGORITHM forces cannot run
 * so, and why; ENOTSUP: no rule's algorithm can.
 */
int select_choose(const struct selection *s, enum coll_op op, size_t bytes, unsigned flags,
                  const struct shape *shape, struct coll_choice *out);

/* ---- For explanations ---- */

/* NULL, or why row cannot run such a call. The shape's arg is the row's. */
const char *select_unfit(const struct coll_row *row, unsigned flags, const struct shape *shape);
/* The rules of op in their order. */
const struct tuning_rule *selection_rules(const struct selection *s, enum coll_op op, size_t *n);
/* All conditions of the rule hold; its algorithm may still be unfit. */
bool select_holds(const struct tuning_rule *rule, size_t bytes, unsigned flags,
                  const struct shape *shape);
/* "allgather=ring (from the environment)": what is forced for op; NULL: nothing. */
const char *selection_forced(const struct selection *s, enum coll_op op);
/* Rules of the built-in table whose algorithm does not exist, and the first of them. */
size_t selection_missing(const struct selection *s, const char **first);

#endif
