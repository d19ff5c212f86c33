/*
 * text.h - strict reading of text files, line by line and word by word.
 *
 * What is read either is what was expected, or the reader fails and error says
 * "FILE:LINE: expected this, found that". The first error stays. Functions
 * return 0, or -1 after an error.
 */
#ifndef EXAMPLES_COMMON_TEXT_H
#define EXAMPLES_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT_MAX_LINE 1024 /* characters, as Matrix Market has it */

struct text {
	const char *path;
	FILE *file;
	size_t number;  /* of the line, from 1 */
	const char *at; /* what of the line is not read yet */
	char line[TEXT_MAX_LINE + 2];
	char error[512];
};

/* path must outlive t. */
int text_open(struct text *t, const char *path);
void text_close(struct text *t);
/* The next line, without its end: true. False at the end of the file, or after an error. */
bool text_line(struct text *t);
/* Fails: expected so and so, found what stands at t->at. */
int text_expected(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails with a sentence of the caller's. */
int text_fail(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True if nothing but blanks is left of the line. */
bool text_at_end(struct text *t);
/* The line must end here. */
int text_end(struct text *t);
/* This character, which is not a blank. */
int text_character(struct text *t, char c);
/* A whole number from min to max. what: its name in the error. */
int text_count(struct text *t, const char *what, size_t min, size_t max, size_t *value);
/* A finite decimal number. */
int text_real(struct text *t, const char *what, double *value);
/* Copies what stands before the next blank or character of ends; at least one character. */
int text_word(struct text *t, const char *what, const char *ends, char *word, size_t cap);

/* Where examples/data/NAME is: in the nearest folder above the program that has it. -1: nowhere. */
int text_find_data(const char *name, char *path, size_t cap);

#endif
