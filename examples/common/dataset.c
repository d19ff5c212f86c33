#include "examples/common/dataset.h"

#include <stdlib.h>
#include <string.h>

/* Counts the columns: all but the last are features. */
static int
read_header(struct text *t, struct dataset *d)
{
	char name[DATASET_MAX_NAME] = "";
	size_t columns = 0;

	if (!text_line(t))
		return text_expected(t, "a line with the names of the columns");
	do {
		if (columns && text_character(t, ','))
			return -1;
		if (text_word(t, "the name of a column", ",", name, sizeof(name)))
			return -1;
		if (++columns > DATASET_MAX_COLUMNS)
			return text_fail(t, "more than %d columns", DATASET_MAX_COLUMNS);
	} while (!text_at_end(t));
	if (columns < 2)
		return text_expected(t, "features and a class: two columns at least");
	d->n_features = columns - 1;
	return 0;
}

static int
read_class(struct text *t, struct dataset *d, size_t *label)
{
	char name[DATASET_MAX_NAME] = "";

	if (text_word(t, "the name of a class", ",", name, sizeof(name)) || text_end(t))
		return -1;
	for (*label = 0; *label < d->n_classes; ++*label)
		if (!strcmp(name, d->name[*label]))
			return 0;
	if (d->n_classes == DATASET_MAX_CLASSES)
		return text_fail(t, "more than %d classes", DATASET_MAX_CLASSES);
	memcpy(d->name[d->n_classes++], name, sizeof(name));
	return 0;
}

/* Room for n rows. */
static int
grow(struct text *t, struct dataset *d, size_t n)
{
	double *x = realloc(d->x, n * d->n_features * sizeof(*x));
	size_t *label;

	if (x)
		d->x = x;
	label = realloc(d->label, n * sizeof(*label));
	if (label)
		d->label = label;
	return x && label ? 0 : text_fail(t, "no memory for %zu rows", n);
}

static int
read_row(struct text *t, struct dataset *d)
{
	double *x = d->x + d->n * d->n_features;

	for (size_t i = 0; i < d->n_features; i++)
		if (text_real(t, "a feature", &x[i]) || text_character(t, ','))
			return -1;
	if (read_class(t, d, &d->label[d->n]))
		return -1;
	d->n++;
	return 0;
}

static int
read_rows(struct text *t, struct dataset *d)
{
	size_t room = 0;

	while (text_line(t)) {
		if (text_at_end(t))
			continue;
		if (d->n == room) {
			room = room ? 2 * room : 256;
			if (grow(t, d, room))
				return -1;
		}
		if (read_row(t, d))
			return -1;
	}
	if (!t->error[0] && !d->n)
		return text_expected(t, "a row");
	return t->error[0] ? -1 : 0;
}

int
dataset_read(const char *path, struct dataset *d, char *error, size_t cap)
{
	struct text t;
	int err = text_open(&t, path);

	*d = (struct dataset){ 0 };
	if (!err)
		err = read_header(&t, d) || read_rows(&t, d);
	text_close(&t);
	if (!err)
		return 0;
	dataset_free(d);
	snprintf(error, cap, "%s", t.error);
	return -1;
}

void
dataset_free(struct dataset *d)
{
	free(d->x);
	free(d->label);
	*d = (struct dataset){ 0 };
}
