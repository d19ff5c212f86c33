#include "examples/common/matrix_market.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum field { REAL, INTEGER, PATTERN };

struct header {
	enum field field;
	bool symmetric;
	size_t stored; /* entries in the file */
};

/* An entry while it is read: an error names the line. */
struct raw {
	struct entry e;
	size_t line;
};

struct raws {
	size_t n, cap;
	struct raw *raw;
};

/* One of n words, in any case; its number. */
static int
read_choice(struct text *t, const char *what, const char *const *words, size_t n, size_t *choice)
{
	const char *before = t->at;
	char word[32];

	if (text_word(t, what, "", word, sizeof(word)))
		return -1;
	for (*choice = 0; *choice < n; ++*choice)
		if (!strcasecmp(word, words[*choice]))
			return 0;
	t->at = before + strspn(before, " \t");
	return text_expected(t, "%s", what);
}

static int
read_banner(struct text *t, struct header *h)
{
	static const char *const banner[] = { "%%MatrixMarket" }, *const object[] = { "matrix" },
	                         *const format[] = { "coordinate" },
	                         *const fields[] = { "real", "integer", "pattern" },
	                         *const symmetries[] = { "general", "symmetric" };
	size_t field, symmetry, one;

	if (!text_line(t))
		return text_expected(t, "%%%%MatrixMarket");
	if (read_choice(t, "%%MatrixMarket", banner, 1, &one) ||
	    read_choice(t, "the object \"matrix\"", object, 1, &one) ||
	    read_choice(t, "the format \"coordinate\"", format, 1, &one) ||
	    read_choice(t, "one of the fields real, integer and pattern", fields, 3, &field) ||
	    read_choice(t, "one of the symmetries general and symmetric", symmetries, 2, &symmetry))
		return -1;
	h->field = (enum field)field;
	h->symmetric = symmetry == 1;
	return text_end(t);
}

/* The next line with something on it, comments only before the size. */
static bool
next_line(struct text *t, bool comments)
{
	while (text_line(t))
		if (!text_at_end(t) && !(comments && t->line[0] == '%'))
			return true;
	return false;
}

static int
read_size(struct text *t, struct header *h, struct coordinates *m)
{
	if (!next_line(t, true))
		return text_expected(t, "a line with the numbers of rows, columns and entries");
	if (text_count(t, "the number of rows", 1, MATRIX_MAX, &m->rows) ||
	    text_count(t, "the number of columns", 1, MATRIX_MAX, &m->cols) ||
	    text_count(t, "the number of entries", 0, MATRIX_MAX, &h->stored) || text_end(t))
		return -1;
	if (h->symmetric && m->rows != m->cols)
		return text_fail(t, "%zu rows and %zu columns: a symmetric matrix is square",
		                 m->rows, m->cols);
	return 0;
}

/* Grows with what is there, whatever the file says about its size. */
static int
append(struct text *t, struct raws *r, struct entry e)
{
	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 1024;
		struct raw *raw = realloc(r->raw, cap * sizeof(*raw));

		if (!raw)
			return text_fail(t, "no memory for %zu entries", cap);
		r->raw = raw;
		r->cap = cap;
	}
	r->raw[r->n++] = (struct raw){ e, t->number };
	return 0;
}

static int
read_value(struct text *t, enum field field, double *value)
{
	const char *start;

	*value = 1;
	if (field == PATTERN)
		return 0;
	text_at_end(t);
	start = t->at;
	if (text_real(t, "a value", value))
		return -1;
	if (field == INTEGER && strcspn(start, ".eE") < (size_t)(t->at - start)) {
		t->at = start;
		return text_expected(t, "a whole number");
	}
	return 0;
}

static int
read_entry(struct text *t, const struct header *h, const struct coordinates *m, struct raws *r)
{
	struct entry e;

	if (text_count(t, "a row", 1, m->rows, &e.row) ||
	    text_count(t, "a column", 1, m->cols, &e.col) || read_value(t, h->field, &e.value) ||
	    text_end(t))
		return -1;
	if (h->symmetric && e.row < e.col)
		return text_fail(t,
		                 "row %zu, column %zu: a symmetric file holds the lower triangle",
		                 e.row, e.col);
	e.row--;
	e.col--;
	if (append(t, r, e))
		return -1;
	if (!h->symmetric || e.row == e.col)
		return 0;
	return append(t, r, (struct entry){ e.col, e.row, e.value });
}

static int
read_entries(struct text *t, const struct header *h, const struct coordinates *m, struct raws *r)
{
	for (size_t i = 0; i < h->stored; i++) {
		if (!next_line(t, false))
			return text_expected(t, "entry %zu of %zu", i + 1, h->stored);
		if (read_entry(t, h, m, r))
			return -1;
	}
	if (next_line(t, false))
		return text_expected(t, "nothing after %zu entries", h->stored);
	return t->error[0] ? -1 : 0;
}

static int
by_place(const void *a, const void *b)
{
	const struct raw *x = a, *y = b;

	if (x->e.row != y->e.row)
		return x->e.row < y->e.row ? -1 : 1;
	if (x->e.col != y->e.col)
		return x->e.col < y->e.col ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int
sort_entries(struct text *t, struct raws *r, struct coordinates *m)
{
	if (r->n)
		qsort(r->raw, r->n, sizeof(*r->raw), by_place);
	m->entry = malloc((r->n + 1) * sizeof(*m->entry));
	if (!m->entry)
		return text_fail(t, "no memory for %zu entries", r->n);
	for (m->n = 0; m->n < r->n; m->n++) {
		const struct raw *now = &r->raw[m->n];

		m->entry[m->n] = now->e;
		if (!m->n || now[-1].e.row != now->e.row || now[-1].e.col != now->e.col)
			continue;
		t->number = now->line;
		return text_fail(t, "row %zu, column %zu has an entry already, in line %zu",
		                 now->e.row + 1, now->e.col + 1, now[-1].line);
	}
	return 0;
}

int
matrix_market_read(const char *path, struct coordinates *m, char *error, size_t cap)
{
	struct header h = { 0 };
	struct raws r = { 0 };
	struct text t;
	int err = text_open(&t, path);

	*m = (struct coordinates){ 0 };
	if (!err)
		err = read_banner(&t, &h) || read_size(&t, &h, m) || read_entries(&t, &h, m, &r) ||
		      sort_entries(&t, &r, m);
	text_close(&t);
	free(r.raw);
	if (!err)
		return 0;
	free(m->entry);
	m->entry = NULL;
	snprintf(error, cap, "%s", t.error);
	return -1;
}

int
matrix_market_write(const char *path, const struct coordinates *m, const char *comment)
{
	FILE *f = fopen(path, "we");
	size_t stored = 0;
	int err;

	if (!f)
		return -1;
	for (size_t i = 0; i < m->n; i++)
		stored += m->entry[i].row >= m->entry[i].col;
	fprintf(f, "%%%%MatrixMarket matrix coordinate real symmetric\n%% %s\n%zu %zu %zu\n",
	        comment, m->rows, m->cols, stored);
	for (size_t i = 0; i < m->n; i++)
		if (m->entry[i].row >= m->entry[i].col)
			fprintf(f, "%zu %zu %.17g\n", m->entry[i].row + 1, m->entry[i].col + 1,
			        m->entry[i].value);
	err = ferror(f);
	return fclose(f) || err ? -1 : 0;
}
