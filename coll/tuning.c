#include "coll/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_SHOWN 60 /* characters of a word that an error repeats */

struct word {
	const char *at;
	size_t len;
};

struct parser {
	struct tuning *t;
	const struct coll_rows *rows;
	const char *origin;
	int line;
	bool lenient, versioned;
};

/* The conditions: the range that each one fills, its least value, whether it takes units. */
static const struct key {
	const char *name;
	size_t offset;
	size_t least;
	bool size;
} keys[] = {
	{ "ranks", offsetof(struct tuning_rule, ranks), 1, false },
	{ "nodes", offsetof(struct tuning_rule, nodes), 1, false },
	{ "per_node", offsetof(struct tuning_rule, per_node), 1, false },
	{ "bytes", offsetof(struct tuning_rule, bytes), 0, true },
	{ "stream", offsetof(struct tuning_rule, stream), 0, false },
};
#define N_KEYS ARRAY_SIZE(keys)
enum { KEY_USE = N_KEYS, KEY_CHUNK }; /* beside those of the table */

static struct tuning_range *
range_of(const struct key *key, struct tuning_rule *rule)
{
	return (struct tuning_range *)((char *)rule + key->offset);
}

static bool
word_is(struct word w, const char *text)
{
	return strlen(text) == w.len && !memcmp(text, w.at, w.len);
}

static int __attribute__((cold)) bad(const struct parser *p, struct word w, const char *what)
{
	return fail(ORIEL_EINVAL, "%s:%d: \"%.*s\": %s", p->origin, p->line,
	            (int)(w.len < WORD_SHOWN ? w.len : WORD_SHOWN), w.at, what);
}

/*
 * ---- Numbers ----
 */

static bool
digits(struct word *w, size_t *value)
{
	size_t n = 0, v = 0;

	while (n < w->len && w->at[n] >= '0' && w->at[n] <= '9') {
		v = v * 10 + (size_t)(w->at[n++] - '0');
		if (v > TUNING_MAX_NUMBER)
			return false;
	}
	w->at += n;
	w->len -= n;
	*value = v;
	return n > 0;
}

bool
tuning_size(const char *text, size_t len, size_t *value)
{
	static const char units[] = "KMGT";
	struct word w = { text, len };
	const char *unit;
	size_t v;

	if (!digits(&w, &v))
		return false;
	unit = w.len ? memchr(units, w.at[0], strlen(units)) : NULL;
	if (unit) {
		int shift = 10 * (int)(unit - units + 1);

		if (v > TUNING_MAX_NUMBER >> shift)
			return false;
		v <<= shift;
		w.at++;
		w.len--;
		if (word_is(w, "iB"))
			w.len = 0;
	}
	if (w.len)
		return false;
	*value = v;
	return true;
}

static bool
number(const struct key *key, struct word w, size_t *value)
{
	if (key->size)
		return tuning_size(w.at, w.len, value);
	return digits(&w, value) && !w.len;
}

/* "8", "2-8" or "8-". The largest size of all is kept for what not all ranks know. */
static int
parse_range(const struct parser *p, const struct key *key, struct word w, struct tuning_range *r)
{
	const char *dash = memchr(w.at, '-', w.len);
	struct word low = { w.at, dash ? (size_t)(dash - w.at) : w.len };
	struct word high = { dash ? dash + 1 : w.at, dash ? w.len - low.len - 1 : w.len };
	struct tuning_range got;

	if (key->size && word_is(w, "unknown")) {
		r->min = r->max = SELECT_UNKNOWN;
		return 0;
	}
	if (!number(key, low, &got.min))
		return bad(p, w,
		           key->size ? "not a range of sizes such as 0-4K or 1M-, nor \"unknown\""
		                     : "not a range of numbers such as 2-8 or 16-");
	if (dash && !high.len)
		got.max = key->size ? SELECT_UNKNOWN - 1 : SIZE_MAX;
	else if (!number(key, high, &got.max))
		return bad(p, w, "what follows \"-\" is not a number");
	if (got.min < key->least)
		return bad(p, w, "it begins at 1");
	if (got.min > got.max)
		return bad(p, w, "the range ends before it begins");
	*r = got;
	return 0;
}

/*
 * ---- Names ----
 */

bool
tuning_op(const char *text, size_t len, enum coll_op *op)
{
	struct word w = { text, len };

	for (int i = 0; i < COLL_OPS; i++) {
		if (word_is(w, coll_kinds[i].name)) {
			*op = (enum coll_op)i;
			return true;
		}
	}
	return false;
}

static const struct coll_row *
find_row(enum coll_op op, struct word w, const struct coll_rows *rows)
{
	size_t prefix = strlen(coll_kinds[op].name) + 1;

	for (size_t i = 0; i < rows->n; i++)
		if (rows->row[i].op == op && word_is(w, rows->row[i].program.name + prefix))
			return &rows->row[i];
	return NULL;
}

int
tuning_algorithm(const char *text, size_t len, const struct coll_rows *rows,
                 struct tuning_rule *rule)
{
	const char *colon = memchr(text, ':', len);
	struct word name = { text, colon ? (size_t)(colon - text) : len };
	struct word arg = { colon ? colon + 1 : text, colon ? len - name.len - 1 : 0 };
	int shown = (int)(len < WORD_SHOWN ? len : WORD_SHOWN);
	const struct coll_row *row = find_row(rule->op, name, rows);
	size_t n = 0;

	rule->row = row;
	rule->arg = 0;
	if (!row)
		return fail(ORIEL_EINVAL, "\"%.*s\": %s has no such algorithm", shown, text,
		            coll_kinds[rule->op].name);
	if (!colon)
		return 0;
	if (!row->max_arg)
		return fail(ORIEL_EINVAL, "\"%.*s\": %s takes no argument", shown, text,
		            row->program.name);
	/* How large it may be depends on the communicator, and is then clipped. */
	if (!digits(&arg, &n) || arg.len || n > INT32_MAX || (int)n < row->min_arg(2))
		return fail(ORIEL_EINVAL, "\"%.*s\": the argument is not a %s", shown, text,
		            row->arg);
	rule->arg = (int)n;
	return 0;
}

/*
 * ---- Lines ----
 */

/* The next word of a line, none at a comment. *at moves behind it. */
static bool
next_word(const char **at, const char *end, struct word *w)
{
	while (*at < end && (**at == ' ' || **at == '\t'))
		++*at;
	w->at = *at;
	while (*at < end && **at != ' ' && **at != '\t')
		++*at;
	w->len = (size_t)(*at - w->at);
	return w->len && w->at[0] != '#';
}

static int
parse_use(const struct parser *p, struct word value, struct tuning_rule *rule)
{
	int rc = tuning_algorithm(value.at, value.len, p->rows, rule);

	if (!rc || (p->lenient && !rule->row))
		return 0;
	return fail_in(rc, "%s:%d", p->origin, p->line);
}

/* "ranks=2-8": one condition, use or chunk. seen: a bit for each that was there. */
static int
parse_setting(const struct parser *p, struct word w, struct tuning_rule *rule, unsigned *seen)
{
	const char *equal = memchr(w.at, '=', w.len);
	struct word name = { w.at, equal ? (size_t)(equal - w.at) : w.len }, value;
	size_t k = 0;

	if (!equal)
		return bad(p, w, "not NAME=VALUE");
	value = (struct word){ equal + 1, w.len - name.len - 1 };
	while (k < N_KEYS && !word_is(name, keys[k].name))
		k++;
	if (k == N_KEYS && !word_is(name, "use")) {
		if (!word_is(name, "chunk"))
			return bad(
			        p, w,
			        "the names are ranks, nodes, per_node, bytes, stream, use, chunk");
		k = KEY_CHUNK;
	}
	if (*seen & 1u << k)
		return bad(p, w, "twice in one rule");
	*seen |= 1u << k;
	if (k < N_KEYS)
		return parse_range(p, &keys[k], value, range_of(&keys[k], rule));
	if (k == KEY_USE)
		return parse_use(p, value, rule);
	if (!tuning_size(value.at, value.len, &rule->chunk) || !rule->chunk)
		return bad(p, w, "not a size such as 256K");
	return 0;
}

static int
add_rule(struct tuning *t, const struct tuning_rule *rule)
{
	if (t->n == TUNING_MAX_RULES)
		return fail(ORIEL_ELIMIT, "%s:%d: more than %d rules", rule->origin, rule->line,
		            TUNING_MAX_RULES);
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 64;
		struct tuning_rule *grown = realloc(t->rule, cap * sizeof(*grown));

		if (!grown)
			return fail(ORIEL_ENOMEM, "no memory for %zu rules", cap);
		t->rule = grown;
		t->cap = cap;
	}
	t->rule[t->n++] = *rule;
	return 0;
}

static void
leave_out(const struct parser *p, struct word use)
{
	if (!p->t->n_missing++)
		snprintf(p->t->missing, sizeof(p->t->missing), "%.*s, line %d",
		         (int)(use.len < 40 ? use.len : 40), use.at, p->line);
}

static int
parse_rule(const struct parser *p, struct word op, const char *at, const char *end)
{
	const struct tuning_range any = { 0, SIZE_MAX };
	struct tuning_rule rule = { .ranks = any,
		                    .nodes = any,
		                    .per_node = any,
		                    .bytes = any,
		                    .stream = any,
		                    .origin = p->origin,
		                    .line = p->line };
	struct word w, whole = { op.at, (size_t)(end - op.at) };
	unsigned seen = 0;

	if (!tuning_op(op.at, op.len, &rule.op))
		return bad(p, op, "no collective has that name");
	while (next_word(&at, end, &w)) {
		int rc = parse_setting(p, w, &rule, &seen);

		if (rc)
			return rc;
	}
	if (!(seen & 1u << KEY_USE))
		return bad(p, op, "the rule has no use=ALGORITHM");
	if (rule.row)
		return add_rule(p->t, &rule);
	leave_out(p, whole);
	return 0;
}

static int
parse_version(struct parser *p, struct word first, const char *at, const char *end)
{
	struct word w;

	if (!word_is(first, "oriel-tuning"))
		return bad(p, first, "the first line that says something is \"oriel-tuning 1\"");
	if (!next_word(&at, end, &w))
		return bad(p, first, "the version is missing");
	if (!word_is(w, "1"))
		return bad(p, w, "this library reads version 1");
	if (next_word(&at, end, &w))
		return bad(p, w, "nothing follows the version");
	p->versioned = true;
	return 0;
}

static int
parse_line(struct parser *p, const char *at, const char *end)
{
	struct word w;

	for (const char *c = at; c < end; c++)
		if ((unsigned char)*c < ' ' && *c != '\t')
			return fail(ORIEL_EINVAL, "%s:%d: a control character, code %d", p->origin,
			            p->line, *c);
	if (!next_word(&at, end, &w))
		return 0;
	return p->versioned ? parse_rule(p, w, at, end) : parse_version(p, w, at, end);
}

int
tuning_parse(struct tuning *t, const char *text, size_t len, const char *origin,
             const struct coll_rows *rows, bool lenient)
{
	struct parser p = { .t = t, .rows = rows, .origin = origin, .lenient = lenient };
	const char *end = text + len;

	while (text < end) {
		const char *line = memchr(text, '\n', (size_t)(end - text));
		const char *stop = line ? line : end;
		int rc;

		p.line++;
		rc = parse_line(&p, text, stop);
		if (rc)
			return rc;
		text = line ? line + 1 : end;
	}
	if (!p.versioned)
		return fail(ORIEL_EINVAL, "%s:%d: the line \"oriel-tuning %d\" is missing", origin,
		            p.line, TUNING_VERSION);
	return 0;
}

int
tuning_read(struct tuning *t, const char *file, const struct coll_rows *rows)
{
	FILE *f = fopen(file, "re");
	char *text = f ? malloc(TUNING_MAX_BYTES + 1) : NULL;
	size_t len;
	int rc;

	if (!f)
		return fail_errno(ORIEL_EINVAL, errno, "%s", file);
	if (!text) {
		rc = fail(ORIEL_ENOMEM, "no memory for the file %s", file);
		goto close;
	}
	errno = 0;
	len = fread(text, 1, TUNING_MAX_BYTES + 1, f);
	if (ferror(f))
		rc = fail_errno(ORIEL_EINVAL, errno, "%s", file);
	else if (len > TUNING_MAX_BYTES)
		rc = fail(ORIEL_ELIMIT, "%s has more than %zu bytes", file, TUNING_MAX_BYTES);
	else
		rc = tuning_parse(t, text, len, file, rows, false);
	free(text);
close:
	fclose(f);
	return rc;
}

void
tuning_free(struct tuning *t)
{
	free(t->rule);
	*t = (struct tuning){ 0 };
}

/*
 * ---- Texts ----
 */

const char *
tuning_size_text(size_t bytes, char text[24])
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	size_t u = 0;

	while (u + 1 < ARRAY_SIZE(units) && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		u++;
	}
	snprintf(text, 24, "%zu%s", bytes, units[u]);
	return text;
}

static int
print_range(const struct key *key, const struct tuning_range *r, char *text, size_t cap)
{
	size_t open = key->size ? SELECT_UNKNOWN - 1 : SIZE_MAX;
	char low[24], high[24];

	if (!r->min && r->max == SIZE_MAX)
		return 0;
	if (key->size && r->min == SELECT_UNKNOWN)
		return snprintf(text, cap, " bytes=unknown");
	if (key->size) {
		tuning_size_text(r->min, low);
		tuning_size_text(r->max, high);
	} else {
		snprintf(low, sizeof(low), "%zu", r->min);
		snprintf(high, sizeof(high), "%zu", r->max);
	}
	if (r->max == open)
		return snprintf(text, cap, " %s=%s-", key->name, low);
	if (r->min == r->max)
		return snprintf(text, cap, " %s=%s", key->name, low);
	return snprintf(text, cap, " %s=%s-%s", key->name, low, high);
}

void
tuning_print(const struct tuning_rule *rule, char *text, size_t cap)
{
	const char *op = coll_kinds[rule->op].name;
	struct tuning_rule copy = *rule;
	size_t n = (size_t)snprintf(text, cap, "%s", op);
	char size[24];

	for (size_t k = 0; k < N_KEYS; k++)
		n += (size_t)print_range(&keys[k], range_of(&keys[k], &copy), text + n, cap - n);
	n += (size_t)snprintf(text + n, cap - n, " use=%s",
	                      rule->row->program.name + strlen(op) + 1);
	if (rule->arg)
		n += (size_t)snprintf(text + n, cap - n, ":%d", rule->arg);
	if (rule->chunk)
		snprintf(text + n, cap - n, " chunk=%s", tuning_size_text(rule->chunk, size));
}
