#include "coll/select.h"

#include "base/knobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct selection {
	struct tuning t;            /* by op; the rules of one op in the order of their texts */
	size_t first[COLL_OPS + 1]; /* an op's first rule; the next op's is its end */
	struct forced {
		struct tuning_rule rule; /* row NULL: nothing is forced */
		char text[96];
	} forced[COLL_OPS];
	char file[256]; /* the rules' origin */
	uint64_t hash;
};

/*
 * ---- Making ----
 */

/* "bcast=chain@256K": one item of ORIEL_ALGORITHM. */
static int
force_one(struct selection *s, const struct coll_rows *rows, const char *item, size_t len,
          const char *from)
{
	const char *equal = memchr(item, '=', len);
	size_t name = equal ? (size_t)(equal - item) : len, use_len;
	const char *use = equal ? equal + 1 : item, *at;
	struct tuning_rule rule = { 0 };
	struct forced *f;
	int rc;

	if (!equal)
		return fail(ORIEL_EINVAL, "\"%.*s\" is not COLLECTIVE=ALGORITHM", (int)len, item);
	if (!tuning_op(item, name, &rule.op))
		return fail(ORIEL_EINVAL, "\"%.*s\": no collective has that name", (int)name, item);
	f = &s->forced[rule.op];
	if (f->rule.row)
		return fail(ORIEL_EINVAL, "\"%.*s\": %s is named twice", (int)len, item,
		            coll_kinds[rule.op].name);
	use_len = len - name - 1;
	at = memchr(use, '@', use_len);
	if (at &&
	    (!tuning_size(at + 1, use_len - (size_t)(at - use) - 1, &rule.chunk) || !rule.chunk))
		return fail(ORIEL_EINVAL, "\"%.*s\": what follows \"@\" is not a size such as 256K",
		            (int)len, item);
	rc = tuning_algorithm(use, at ? (size_t)(at - use) : use_len, rows, &rule);
	if (rc)
		return rc;
	f->rule = rule;
	snprintf(f->text, sizeof(f->text), "%.*s (from the %s)", (int)(len < 64 ? len : 64), item,
	         from);
	return 0;
}

static int
force_all(struct selection *s, const struct coll_rows *rows, const char *text, const char *from)
{
	while (*text) {
		size_t len = strcspn(text, ",");
		int rc = force_one(s, rows, text, len, from);

		if (rc)
			return fail_in(rc, "ORIEL_ALGORITHM (from the %s)", from);
		text += len;
		if (*text && !*++text)
			return fail(ORIEL_EINVAL,
			            "ORIEL_ALGORITHM (from the %s): nothing follows the last \",\"",
			            from);
	}
	return 0;
}

/* Rules that are grouped by op, and within it in the order that they had. */
static int
group_rules(struct selection *s)
{
	struct tuning_rule *sorted = malloc((s->t.n + 1) * sizeof(*sorted));
	size_t n = 0;

	if (!sorted)
		return fail(ORIEL_ENOMEM, "no memory for %zu rules", s->t.n);
	for (int op = 0; op < COLL_OPS; op++) {
		s->first[op] = n;
		for (size_t i = 0; i < s->t.n; i++)
			if (s->t.rule[i].op == (enum coll_op)op)
				sorted[n++] = s->t.rule[i];
	}
	s->first[COLL_OPS] = n;
	free(s->t.rule);
	s->t.rule = sorted;
	s->t.cap = s->t.n + 1;
	return 0;
}

/* Over the texts of what is in force: comments and places of rules make no difference. */
static void
hash_all(struct selection *s)
{
	char text[TUNING_TEXT];

	for (int op = 0; op < COLL_OPS; op++) {
		struct tuning_rule forced = s->forced[op].rule;

		if (forced.row) {
			tuning_print(&forced, text, sizeof(text));
			s->hash = hash_bytes(s->hash, text, strlen(text) + 1);
			continue;
		}
		for (size_t i = s->first[op]; i < s->first[op + 1]; i++) {
			tuning_print(&s->t.rule[i], text, sizeof(text));
			s->hash = hash_bytes(s->hash, text, strlen(text) + 1);
		}
	}
}

int
selection_make_from(const struct knobs *k, const struct coll_rows *rows, const char *builtin,
                    struct selection **out)
{
	struct selection *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return fail(ORIEL_ENOMEM, "no memory for the selection of algorithms");
	snprintf(s->file, sizeof(s->file), "%s", k->s.tuning);
	if (s->file[0])
		rc = tuning_read(&s->t, s->file, rows);
	if (rc)
		rc = fail_in(rc, "ORIEL_TUNING (from the %s)", k->from.tuning);
	if (!rc)
		rc = tuning_parse(&s->t, builtin, strlen(builtin), "the built-in table", rows,
		                  true);
	if (!rc)
		rc = force_all(s, rows, k->s.algorithm, k->from.algorithm);
	if (!rc)
		rc = group_rules(s);
	if (rc) {
		selection_free(s);
		return rc;
	}
	hash_all(s);
	*out = s;
	return 0;
}

int
selection_make(const struct knobs *k, struct selection **out)
{
	const struct coll_rows rows = { coll_table, coll_rows };

	return selection_make_from(k, &rows, tuning_default, out);
}

void
selection_free(struct selection *s)
{
	if (s)
		tuning_free(&s->t);
	free(s);
}

uint64_t
selection_hash(const struct selection *s)
{
	return s->hash;
}

const struct tuning_rule *
selection_rules(const struct selection *s, enum coll_op op, size_t *n)
{
	*n = s->first[op + 1] - s->first[op];
	return s->t.rule + s->first[op];
}

const char *
selection_forced(const struct selection *s, enum coll_op op)
{
	return s->forced[op].rule.row ? s->forced[op].text : NULL;
}

size_t
selection_missing(const struct selection *s, const char **first)
{
	*first = s->t.missing;
	return s->t.n_missing;
}

/*
 * ---- Choosing ----
 */

static bool
inside(const struct tuning_range *r, size_t n)
{
	return r->min <= n && n <= r->max;
}

/*
 * Nodes that are not all alike are several, but nobody has counted them, nor
 * what each holds: only ranges that leave the number open hold for them.
 */
static bool
holds_here(const struct tuning_rule *rule, unsigned flags, const struct shape *shape)
{
	size_t node = shape->size == 1 ? 1 : (size_t)shape->node;
	const struct tuning_range *r = &rule->nodes;

	if (!inside(&rule->ranks, (size_t)shape->size) ||
	    !inside(&rule->stream, flags & SELECT_STREAM ? 1 : 0))
		return false;
	if (!node)
		return r->min <= 2 && r->max == SIZE_MAX && rule->per_node.min <= 1 &&
		       rule->per_node.max == SIZE_MAX;
	return inside(r, (size_t)shape->size / node) && inside(&rule->per_node, node);
}

bool
select_holds(const struct tuning_rule *rule, size_t bytes, unsigned flags,
             const struct shape *shape)
{
	return holds_here(rule, flags, shape) && inside(&rule->bytes, bytes);
}

const char *
select_unfit(const struct coll_row *row, unsigned flags, const struct shape *shape)
{
	if (flags & SELECT_ORDERED && row->unordered)
		return "it combines terms in another order than the ranks', and the op does not "
		       "commute";
	if (flags & SELECT_V && row->whole)
		return "it wants blocks of one size";
	return row->unfit ? row->unfit(shape) : NULL;
}

static const char *
rule_unfit(const struct tuning_rule *rule, unsigned flags, const struct shape *shape, int *arg)
{
	struct shape own = *shape;

	own.arg = *arg = coll_clip(rule->row, shape->size, rule->arg);
	return select_unfit(rule->row, flags, &own);
}

/* A call that is no longer than a chunk is not cut. */
static void
choose_chunk(struct coll_choice *c, size_t bytes, size_t chunk)
{
	if (!chunk)
		return;
	if (bytes > chunk) {
		c->chunk = chunk;
		c->least = c->least > chunk ? c->least : chunk + 1;
	} else if (c->most > chunk) {
		c->most = chunk;
	}
}

static int
choose_forced(const struct forced *f, size_t bytes, unsigned flags, const struct shape *shape,
              struct coll_choice *c)
{
	const struct coll_row *row = f->rule.row;
	const char *why = rule_unfit(&f->rule, flags, shape, &c->arg);

	if (why)
		return fail(ORIEL_EINVAL, "ORIEL_ALGORITHM: %s: on %d ranks: %s", f->text,
		            shape->size, why);
	if (f->rule.arg && f->rule.arg < c->arg)
		return fail(ORIEL_EINVAL, "ORIEL_ALGORITHM: %s: on %d ranks: %d is not a %s",
		            f->text, shape->size, f->rule.arg, row->arg);
	c->row = row;
	choose_chunk(c, bytes, f->rule.chunk);
	return 0;
}

static void
narrow(struct coll_choice *c, const struct tuning_range *missed, size_t bytes)
{
	if (bytes < missed->min && missed->min - 1 < c->most)
		c->most = missed->min - 1;
	else if (bytes > missed->max && missed->max + 1 > c->least)
		c->least = missed->max + 1;
}

int
select_choose(const struct selection *s, enum coll_op op, size_t bytes, unsigned flags,
              const struct shape *shape, struct coll_choice *out)
{
	struct coll_choice c = { .least = 0, .most = SIZE_MAX };

	if (s->forced[op].rule.row) {
		int rc = choose_forced(&s->forced[op], bytes, flags, shape, &c);

		if (!rc)
			*out = c;
		return rc;
	}
	for (size_t i = s->first[op]; i < s->first[op + 1]; i++) {
		const struct tuning_rule *rule = &s->t.rule[i];
		const struct tuning_range *r = &rule->bytes;

		if (!holds_here(rule, flags, shape) || rule_unfit(rule, flags, shape, &c.arg))
			continue;
		if (!inside(r, bytes)) {
			narrow(&c, r, bytes);
			continue;
		}
		c.row = rule->row;
		c.rule = rule;
		c.least = c.least > r->min ? c.least : r->min;
		c.most = c.most < r->max ? c.most : r->max;
		choose_chunk(&c, bytes, rule->chunk);
		*out = c;
		return 0;
	}
	return fail(ORIEL_ENOTSUP, "no rule has an algorithm for %s on %d ranks%s%s",
	            coll_kinds[op].name, shape->size,
	            flags & SELECT_ORDERED ? ", in the ranks' order" : "",
	            flags & SELECT_V ? ", with blocks of several sizes" : "");
}
