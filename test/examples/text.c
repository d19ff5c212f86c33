/*
 * text.c - the examples' strict readers: what they read, and what every kind of
 * bad file is told.
 */
#include "examples/common/dataset.h"
#include "examples/common/matrix_market.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of len bytes; its name is valid until the next call. */
static const char *
file_of(const char *text, size_t len)
{
	static char name[64];
	int fd;

	snprintf(name, sizeof(name), "/tmp/oriel-text-XXXXXX");
	fd = mkstemp(name);
	cr_assert(fd >= 0 && write(fd, text, len) == (ssize_t)len && close(fd) == 0);
	return name;
}

static int
read_matrix(const char *text, size_t len, struct coordinates *m, char *error, size_t cap)
{
	const char *name = file_of(text, len);
	int err = matrix_market_read(name, m, error, cap);

	unlink(name);
	return err;
}

static int
read_dataset(const char *text, size_t len, struct dataset *d, char *error, size_t cap)
{
	const char *name = file_of(text, len);
	int err = dataset_read(name, d, error, cap);

	unlink(name);
	return err;
}

/* The reason, behind the file's name, must begin with why: "LINE: ...". */
static void
expect_reason(int err, const char *error, const char *why, const char *text)
{
	const char *colon = strchr(error, ':');

	cr_assert(err, "taken: %s", text);
	cr_assert(colon && !strncmp(colon + 1, why, strlen(why)), "\"%s\" instead of \"%s\"", error,
	          why);
}

#define REAL "%%MatrixMarket matrix coordinate real general\n"
#define SYMMETRIC "%%MatrixMarket matrix coordinate integer symmetric\n"
#define PATTERN "%%MatrixMarket matrix coordinate pattern general\n"

Test(matrix_market, general)
{
	static const char text[] = REAL "% a comment\n\n2 3 3\n2 1 -1.5e-2\r\n\n  1 3\t4\n1 1 .5";
	struct coordinates m;
	char error[512] = "";

	cr_assert_eq(read_matrix(text, strlen(text), &m, error, sizeof(error)), 0, "%s", error);
	cr_assert(m.rows == 2 && m.cols == 3 && m.n == 3);
	cr_assert(m.entry[0].row == 0 && m.entry[0].col == 0 && m.entry[0].value == 0.5);
	cr_assert(m.entry[1].row == 0 && m.entry[1].col == 2 && m.entry[1].value == 4);
	cr_assert(m.entry[2].row == 1 && m.entry[2].col == 0 && m.entry[2].value == -0.015);
	free(m.entry);
}

Test(matrix_market, symmetric_gets_both_sides)
{
	static const char text[] = SYMMETRIC "2 2 2\n2 1 -7\n2 2 3\n";
	struct coordinates m;
	char error[512] = "";

	cr_assert_eq(read_matrix(text, strlen(text), &m, error, sizeof(error)), 0, "%s", error);
	cr_assert_eq(m.n, 3);
	cr_assert(m.entry[0].row == 0 && m.entry[0].col == 1 && m.entry[0].value == -7);
	cr_assert(m.entry[1].row == 1 && m.entry[1].col == 0 && m.entry[1].value == -7);
	cr_assert(m.entry[2].row == 1 && m.entry[2].col == 1 && m.entry[2].value == 3);
	free(m.entry);
}

Test(matrix_market, a_pattern_is_ones)
{
	static const char text[] = "%%matrixmarket MATRIX Coordinate Pattern General\n1 2 1\n1 2\n";
	struct coordinates m;
	char error[512] = "";

	cr_assert_eq(read_matrix(text, strlen(text), &m, error, sizeof(error)), 0, "%s", error);
	cr_assert(m.n == 1 && m.entry[0].col == 1 && m.entry[0].value == 1);
	free(m.entry);
}

Test(matrix_market, bad_files_are_told_why)
{
	static const char *const bad[][2] = {
		{ "", "1: expected %%MatrixMarket, found the end of the file" },
		{ "1 1 0\n", "1: expected %%MatrixMarket, found \"1 1 0\"" },
		{ "%%MatrixMarket vector coordinate real general\n", "1: expected the object" },
		{ "%%MatrixMarket matrix array real general\n", "1: expected the format" },
		{ "%%MatrixMarket matrix coordinate complex general\n",
		  "1: expected one of the f" },
		{ "%%MatrixMarket matrix coordinate real hermitian\n", "1: expected one of the s" },
		{ "%%MatrixMarket matrix coordinate real\n", "1: expected one of the symmetries" },
		{ "%%MatrixMarket matrix coordinate real general x\n", "1: expected the end of t" },
		{ REAL "% only comments\n", "3: expected a line with the numbers" },
		{ REAL "0 2 0\n", "2: expected the number of rows, a whole number from 1" },
		{ REAL "2 -2 0\n", "2: expected the number of columns" },
		{ REAL "2 2\n", "2: expected the number of entries, a whole number from 0 to" },
		{ REAL "2 2 99999999999999999999999\n", "2: expected the number of entries" },
		{ REAL "2 2 1 1\n", "2: expected the end of the line, found \"1\"" },
		{ REAL "2 2 1000000000000\n1 1 1\n", "4: expected entry 2 of 1000000000000" },
		{ REAL "2 2 1\n", "3: expected entry 1 of 1, found the end of the file" },
		{ REAL "2 2 1\n0 1 1\n", "3: expected a row, a whole number from 1 to 2" },
		{ REAL "2 2 1\n1 3 1\n", "3: expected a column, a whole number from 1 to 2" },
		{ REAL "2 2 1\n1 1x 1\n", "3: expected a column" },
		{ REAL "2 2 1\n1 1\n",
		  "3: expected a value, a finite decimal number, found the e" },
		{ REAL "2 2 1\n1 1 nan\n", "3: expected a value" },
		{ REAL "2 2 1\n1 1 1e999\n", "3: expected a value" },
		{ REAL "2 2 1\n1 1 0x10\n", "3: expected a value" },
		{ REAL "2 2 1\n1 1 1-2\n", "3: expected a value" },
		{ REAL "2 2 1\n1 1 1 1\n", "3: expected the end of the line, found \"1\"" },
		{ REAL "2 2 1\n% late\n1 1 1\n", "3: expected a row" },
		{ REAL "2 2 1\n1 1 1\n2 2 1\n", "4: expected nothing after 1 entries" },
		{ REAL "2 2 3\n1 2 1\n2 2 1\n1 2 3\n",
		  "5: row 1, column 2 has an entry already, " },
		{ SYMMETRIC "2 3 0\n", "2: 2 rows and 3 columns: a symmetric matrix is square" },
		{ SYMMETRIC "2 2 1\n1 2 1\n", "3: row 1, column 2: a symmetric file holds" },
		{ SYMMETRIC "2 2 1\n2 1 1.5\n", "3: expected a whole number, found \"1.5\"" },
		{ PATTERN "2 2 1\n2 1 1\n", "3: expected the end of the line" },
	};
	struct coordinates m;
	char error[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int err = read_matrix(bad[i][0], strlen(bad[i][0]), &m, error, sizeof(error));

		expect_reason(err, error, bad[i][1], bad[i][0]);
		cr_assert_null(m.entry);
	}
	cr_assert(matrix_market_read("/nonexistent", &m, error, sizeof(error)));
	cr_assert_str_eq(error, "/nonexistent: No such file or directory");
}

Test(matrix_market, every_truncation_is_refused)
{
	static const char text[] = REAL "% a comment\n3 3 2\n2 1 1\n3 3 25\n";
	struct coordinates m;
	char error[512];

	/* The last digit and the last newline may be missing: nobody can see that. */
	for (size_t len = 0; len < strlen(text) - 2; len++)
		cr_assert(read_matrix(text, len, &m, error, sizeof(error)), "%zu bytes", len);
}

Test(matrix_market, what_is_written_is_read)
{
	static const char text[] = SYMMETRIC "3 3 3\n1 1 4\n3 1 -1\n3 3 4\n";
	struct coordinates m, again;
	char error[512] = "";
	const char *name;

	cr_assert_eq(read_matrix(text, strlen(text), &m, error, sizeof(error)), 0, "%s", error);
	m.entry[0].value = 0.1;
	name = file_of("", 0);
	cr_assert_eq(matrix_market_write(name, &m, "a test"), 0);
	cr_assert_eq(matrix_market_read(name, &again, error, sizeof(error)), 0, "%s", error);
	unlink(name);
	cr_assert(again.rows == 3 && again.cols == 3 && again.n == m.n);
	for (size_t i = 0; i < m.n; i++)
		cr_assert(again.entry[i].row == m.entry[i].row &&
		          again.entry[i].col == m.entry[i].col &&
		          again.entry[i].value == m.entry[i].value);
	free(m.entry);
	free(again.entry);
}

Test(dataset, rows_and_classes)
{
	static const char text[] = "a,b,kind\n1,2.5,x\n -3 , 4 , y \n\n5,6,x";
	struct dataset d;
	char error[512] = "";

	cr_assert_eq(read_dataset(text, strlen(text), &d, error, sizeof(error)), 0, "%s", error);
	cr_assert(d.n == 3 && d.n_features == 2 && d.n_classes == 2);
	cr_assert(d.x[0] == 1 && d.x[1] == 2.5 && d.x[2] == -3 && d.x[3] == 4 && d.x[5] == 6);
	cr_assert(d.label[0] == 0 && d.label[1] == 1 && d.label[2] == 0);
	cr_assert_str_eq(d.name[1], "y");
	dataset_free(&d);
}

Test(dataset, bad_files_are_told_why)
{
	static const char *const bad[][2] = {
		{ "", "1: expected a line with the names of the columns" },
		{ "a,b\n", "2: expected a row, found the end of the file" },
		{ "a\n1\n", "1: expected features and a class" },
		{ "a,,b\n", "1: expected the name of a column" },
		{ "a;b\n", "1: expected features and a class" },
		{ "a,b\n1,x\n,x\n",
		  "3: expected a feature, a finite decimal number, found \",x\"" },
		{ "a,b\none,x\n",
		  "2: expected a feature, a finite decimal number, found \"one,x\"" },
		{ "a,b\n1\n", "2: expected \",\", found the end of the line" },
		{ "a,b\n1,\n",
		  "2: expected the name of a class of 1 to 31 characters, found the e" },
		{ "a,b\n1,x,2\n", "2: expected the end of the line, found \",2\"" },
		{ "a,b\n1,0123456789012345678901234567890123\n",
		  "2: expected the name of a class" },
	};
	struct dataset d;
	char error[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int err = read_dataset(bad[i][0], strlen(bad[i][0]), &d, error, sizeof(error));

		expect_reason(err, error, bad[i][1], bad[i][0]);
		cr_assert(!d.x && !d.label);
	}
}

Test(text, long_lines_and_zero_bytes_are_refused)
{
	char text[2 * TEXT_MAX_LINE], error[512];
	struct dataset d;

	memset(text, 'a', sizeof(text));
	expect_reason(read_dataset(text, sizeof(text), &d, error, sizeof(error)), error,
	              "1: more than 1024 characters", "2048 characters");
	text[TEXT_MAX_LINE] = '\n';
	expect_reason(read_dataset(text, sizeof(text), &d, error, sizeof(error)), error,
	              "1: expected the name of a column of 1 to 31 characters", "1024 characters");
	text[3] = '\0';
	expect_reason(read_dataset(text, sizeof(text), &d, error, sizeof(error)), error,
	              "1: a zero byte", "a zero byte");
}
