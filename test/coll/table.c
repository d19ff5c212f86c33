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
