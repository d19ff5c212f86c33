/*
 * dataset.h - a table of numbers with a class for each row, from a file of
 * comma-separated values.
 *
 * The first line names the columns. Every other line has a number for each column
 * but the last, and the name of its class there. The reader is strict: an error
 * names file and line, and what was expected there.
 */
#ifndef EXAMPLES_COMMON_DATASET_H
#define EXAMPLES_COMMON_DATASET_H

#include "examples/common/text.h"

#define DATASET_MAX_COLUMNS 64
#define DATASET_MAX_CLASSES 64
#define DATASET_MAX_NAME 32 /* characters of a name, and the zero */

struct dataset {
	size_t n, n_features, n_classes;
	double *x;     /* n rows of n_features */
	size_t *label; /* the class of each row; classes are numbered as they appear */
	char name[DATASET_MAX_CLASSES][DATASET_MAX_NAME]; /* of the classes */
};

/* On failure -1, and the reason in error. */
int dataset_read(const char *path, struct dataset *d, char *error, size_t cap);
void dataset_free(struct dataset *d);

#endif
