#include "tools/oriel_sim.h"

#include "tools/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
        "usage: oriel_sim --program NAME[:ARG] [options]     one program, in detail\n"
        "       oriel_sim --compare NAME[:ARG],... [options] several, side by side; an op's name\n"
        "                                                    (allgather) is all that it has\n"
        "       oriel_sim --list                             the programs and their arguments\n"
        "       oriel_sim --lanes [--bytes SIZE]             flow control of messages between two "
        "racks,\n"
        "                                                    of 256M; no other option\n"
        "  --arg N           the argument of programs that are named without one\n"
        "  --fabric TEXT     the machines, such as \"rack:4 node:16 gpu:8 over:1:2\", or a file\n"
        "                    with such a text; \"node:16 gpu:8\" (sim/README.md says it all)\n"
        "  --ranks N         so many GPUs of it; all\n"
        "  --bytes SIZE      of a rank's block, or of the whole vector, K, M or G behind it; 64K\n"
        "  --root R          of a rooted collective; 0\n"
        "  --node N          so many ranks are a node for the program; those of the fabric\n"
        "  --check           move symbolic data too, and check the contract at each rank's end\n"
        "  --path N          show at most N lines of the critical path; 40\n"
        "  --json            all of it as JSON\n"
        "  --random SEEDS    no fabric: real data in so many random orders, and what must hold\n"
        "  --seed S          the first of them; 1\n";

void
sim_usage(void)
{
	fputs(usage, stdout);
}

static bool
whole(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	if (text[0] < '0' || text[0] > '9')
		return false;
	*value = strtoull(text, &end, 10);
	return !errno && !*end && *value <= max;
}

struct option_row {
	const char *name;
	uint64_t max; /* of a number; 0: a text */
	const char **text;
	int *number;
	uint64_t *large;
	size_t *count, *size;
};

static int
take(const struct option_row *row, const char *value)
{
	uint64_t n = 0;

	if (row->text) {
		*row->text = value;
		return 0;
	}
	if (row->size) {
		if (!tool_size(value, row->size))
			return 0;
		fprintf(stderr, "oriel_sim: %s %s: not a size such as 64K\n", row->name, value);
		return 2;
	}
	if (!whole(value, row->max, &n)) {
		fprintf(stderr, "oriel_sim: %s %s: not a number from 0 to %llu\n", row->name, value,
		        (unsigned long long)row->max);
		return 2;
	}
	if (row->number)
		*row->number = (int)n;
	if (row->large)
		*row->large = n;
	if (row->count)
		*row->count = n;
	return 0;
}

static int
with_value(struct sim_options *o, const char *name, const char *value)
{
	const struct option_row rows[] = {
		{ .name = "--program", .text = &o->programs },
		{ .name = "--compare", .text = &o->programs },
		{ .name = "--arg", .text = &o->arg },
		{ .name = "--fabric", .text = &o->fabric },
		{ .name = "--ranks", .max = FABRIC_MAX_RANKS, .number = &o->ranks },
		{ .name = "--root", .max = FABRIC_MAX_RANKS, .number = &o->root },
		{ .name = "--node", .max = FABRIC_MAX_RANKS, .number = &o->node },
		{ .name = "--bytes", .size = &o->bytes },
		{ .name = "--random", .max = UINT64_C(1) << 32, .large = &o->seeds },
		{ .name = "--seed", .max = UINT64_MAX, .large = &o->seed },
		{ .name = "--path", .max = UINT32_MAX, .count = &o->path },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].name, name))
			continue;
		if (!value) {
			fprintf(stderr, "oriel_sim: %s wants a value\n", name);
			return 2;
		}
		o->compare |= !strcmp(name, "--compare");
		return take(&rows[i], value);
	}
	fprintf(stderr, "oriel_sim: unknown option %s; see oriel_sim --help\n", name);
	return 2;
}

int
sim_options_parse(struct sim_options *o, int argc, char **argv)
{
	int rc = 0;

	*o = (struct sim_options){
		.fabric = "node:16 gpu:8", .node = -1, .bytes = SIZE_MAX, .seed = 1, .path = 40
	};
	for (int i = 1; i < argc && !rc; i++) {
		if (!strcmp(argv[i], "--list"))
			o->list = true;
		else if (!strcmp(argv[i], "--json"))
			o->json = true;
		else if (!strcmp(argv[i], "--check"))
			o->check = true;
		else if (!strcmp(argv[i], "--lanes"))
			o->lanes = true;
		else if (!strcmp(argv[i], "--help"))
			o->help = true;
		else
			rc = with_value(o, argv[i], argv[i + 1]), i++;
	}
	if (o->bytes == SIZE_MAX)
		o->bytes = o->lanes ? 256 << 20 : 64 << 10;
	if (!rc && !o->programs && !o->list && !o->lanes && !o->help) {
		fputs("oriel_sim: no --program; see oriel_sim --help\n", stderr);
		rc = 2;
	}
	if (!rc && o->lanes && (o->programs || o->list || o->json || o->check || o->seeds)) {
		fputs("oriel_sim: --lanes takes --bytes and nothing else\n", stderr);
		rc = 2;
	}
	return rc;
}
