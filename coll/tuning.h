/*
 * tuning.h - rules that say which algorithm a collective uses: one a line, in a
 * text that a person can write (doc/tuning.md). The built-in table is such a
 * text too.
 *
 *	oriel-tuning 1
 *	allreduce ranks=2-8 nodes=1 bytes=0-4K use=oneshot    # a comment
 *	bcast bytes=1M- use=chain chunk=256K
 *
 * A rule's conditions are ranges, both ends included; one that is not there
 * always holds. stream=1 holds for calls on a GPU's stream, stream=0 for the others.
 * Whoever parses owns the rules; nothing here keeps state.
 */
#ifndef COLL_TUNING_H
#define COLL_TUNING_H

#include "coll/table.h"

#define TUNING_VERSION 1
#define TUNING_MAX_RULES 4096
#define TUNING_MAX_BYTES ((size_t)1 << 20) /* of a file */
#define TUNING_MAX_NUMBER ((size_t)1 << 62)
#define TUNING_TEXT 320 /* room for any rule's text */

/* The size of a call that not all ranks know: met by bytes=unknown and by rules without bytes=. */
#define SELECT_UNKNOWN SIZE_MAX

/* The rows that names are looked up in: coll_table's, or a test's own. */
struct coll_rows {
	const struct coll_row *row;
	size_t n;
};

struct tuning_range {
	size_t min, max;
};

struct tuning_rule {
	enum coll_op op;
	struct tuning_range ranks, nodes, per_node, bytes, stream;
	const struct coll_row *row;
	int arg;            /* clipped to what the number of ranks allows; 0: the least */
	size_t chunk;       /* bytes; 0: the call is not cut */
	const char *origin; /* the file's name or "the built-in table" */
	int line;
};

struct tuning {
	struct tuning_rule *rule;
	size_t n, cap;
	size_t n_missing; /* rules that were left out because their algorithm does not exist */
	char missing[64]; /* the first of them: "bcast/chain, line 7" */
};

/* The built-in table. */
extern const char tuning_default[];

/*
 * Appends the rules of a text to *t, which begins zeroed. origin is kept, not copied. lenient: a
 * rule that names an algorithm which is not there is left out and counted; else it is an error.
 * EINVAL names origin, line and word; ELIMIT: too many rules; ENOMEM.
 */
int tuning_parse(struct tuning *t, const char *text, size_t len, const char *origin,
                 const struct coll_rows *rows, bool lenient);
/* The same from a file; errors of the system are EINVAL. */
int tuning_read(struct tuning *t, const char *file, const struct coll_rows *rows);
void tuning_free(struct tuning *t);

/* The rule as a line that parses to the same. text has room for TUNING_TEXT. */
void tuning_print(const struct tuning_rule *rule, char *text, size_t cap);
/* "64K" where that is exact. */
const char *tuning_size_text(size_t bytes, char text[24]);

/* The op of that name; false: there is none. */
bool tuning_op(const char *text, size_t len, enum coll_op *op);
/* "bruck:4": fills row and arg of a rule whose op is set. EINVAL; row is then NULL if there is no
 * such algorithm. */
int tuning_algorithm(const char *text, size_t len, const struct coll_rows *rows,
                     struct tuning_rule *rule);
/* "256K", "256KiB", "3": digits and a unit of 1024. */
bool tuning_size(const char *text, size_t len, size_t *value);

#endif
