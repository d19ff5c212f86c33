/* knobs.c - writes doc/knobs.md, the page of the tuning knobs, from their table. */
#include "base/knobs.h"

#include <stdio.h>

static void
row(void *arg, const char *name, const char *value, const char *origin, const char *def,
    const char *text)
{
	(void)arg, (void)value, (void)origin;
	if (*def)
		printf("| `%s` | `%s` | %s |\n", name, def, text);
	else
		printf("| `%s` | | %s |\n", name, text);
}

int
main(void)
{
	printf("# Tuning knobs\n\n"
	       "Made from the table in base/knobs.h by `make knobs`; change it there.\n\n"
	       "A knob is read once, when a context is opened: from the options given to the "
	       "call,\n"
	       "else from the environment, else the default holds. A value that does not parse, "
	       "and\n"
	       "an unknown name in the options, are errors that name the knob. Sizes take K, M, G\n"
	       "and T (powers of 1024); times take s, ms, us and ns, and are seconds without a "
	       "unit.\n"
	       "`oriel_info` shows each knob's value and where it came from.\n\n"
	       "| knob | default | what it does |\n|---|---|---|\n");
	knobs_each(NULL, row, NULL);
	return ferror(stdout) || fclose(stdout);
}
