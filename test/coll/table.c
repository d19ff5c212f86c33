#include "coll/table.h"

#include <criterion/criterion.h>
#include <string.h>

Test(table, names_begin_with_their_op)
{
	for (size_t i = 0; i < coll_rows; i++) {
		const struct coll_row *row = &coll_table[i];
		size_t n = strlen(coll_kinds[row->op].name);

		cr_expect(!strncmp(row->program.name, coll_kinds[row->op].name, n) &&
		                  row->program.name[n] == '/',
		          "%s", row->program.name);
		cr_expect_lt(strlen(row->program.name), 24, "the recorder cuts %s",
		             row->program.name);
		cr_expect_eq(row->arg != NULL, row->max_arg != NULL, "%s", row->program.name);
		for (size_t j = 0; j < i; j++)
			cr_expect(strcmp(row->program.name, coll_table[j].program.name));
	}
}

Test(table, find_by_text)
{
	const struct shape eight = { .size = 8 };
	const struct coll_row *row;
	int arg;

	cr_expect_eq(coll_find(COLL_ALLGATHER, "ring", &eight, &row, &arg), 0);
	cr_expect_str_eq(row->program.name, "allgather/ring");
	cr_expect_eq(arg, 0);
	cr_expect_eq(coll_find(COLL_ALLGATHER, "bruck", &eight, &row, &arg), 0);
	cr_expect_eq(arg, 2);
	cr_expect_eq(coll_find(COLL_ALLGATHER, "bruck:5", &eight, &row, &arg), 0);
	cr_expect_eq(arg, 5);
	cr_expect_eq(coll_find(COLL_ALLGATHER, "bruck:100", &eight, &row, &arg), 0);
	cr_expect_eq(arg, 8, "more than the number of ranks changes nothing");
}

Test(table, impossible_is_an_error)
{
	static const char *const bad[] = { "",
		                           "brucks",
		                           "bruc",
		                           "ring:2",
		                           "bruck:",
		                           "bruck:1",
		                           "bruck:x",
		                           "bruck:2x",
		                           "bruck:-3",
		                           "bruck:99999999999999999999",
		                           "dissemination" };
	const struct shape eight = { .size = 8 };
	const struct coll_row *row = NULL;
	int arg;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(coll_find(COLL_ALLGATHER, bad[i], &eight, &row, &arg), ORIEL_EINVAL,
		             "%s", bad[i]);
	cr_expect_null(row);
}
