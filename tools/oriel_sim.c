/*
 * oriel_sim.c - how long a collective would take, and why: runs the plans of all
 * ranks of a program in virtual time on a fabric that one line of text describes.
 * It needs none of those machines; it looks inside the library.
 */
#include "tools/oriel_sim.h"

#include "coll/tuning.h"
#include "sim/check.h"
#include "sim/contract.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
	struct sim_options o;
	struct fabric fabric;
	struct shape shape;
	struct sim_run *runs, **last;
};

static int
failed(int rc)
{
	fprintf(stderr, "oriel_sim: %s\n", oriel_detail());
	return rc == ORIEL_EINVAL || rc == ORIEL_ERANGE ? 2 : 1;
}

static int
add(struct session *s, const struct coll_row *row, int arg)
{
	struct sim_run *run = calloc(1, sizeof(*run));

	if (!run)
		return fail(ORIEL_ENOMEM, "no memory for %s", row->program.name);
	run->call = (struct time_call){ .row = row,
		                        .shape = s->shape,
		                        .fabric = &s->fabric,
		                        .bytes = s->o.bytes,
		                        .check = s->o.check };
	run->call.shape.arg = arg;
	if (!coll_kinds[row->op].rooted)
		run->call.shape.root = 0;
	*s->last = run;
	s->last = &run->next;
	return 0;
}

/* Every program of an op that can run here, with its argument forced into its range. */
static int
add_all(struct session *s, enum coll_op op)
{
	int wish = s->o.arg ? (int)strtol(s->o.arg, NULL, 10) : 0, rc = 0;

	for (size_t i = 0; i < coll_rows && !rc; i++) {
		const struct coll_row *row = &coll_table[i];
		struct shape shape = s->shape;
		const char *why;

		if (row->op != op)
			continue;
		shape.arg = coll_clip(row, shape.size, wish);
		why = row->unfit ? row->unfit(&shape) : NULL;
		if (why)
			fprintf(stderr, "oriel_sim: without %s: %s\n", row->program.name, why);
		else
			rc = add(s, row, shape.arg);
	}
	return rc;
}

/* One name of the list: "allgather/bruck:4", "allgather/bruck", "allgather". */
static int
add_named(struct session *s, const char *name)
{
	const char *slash = strchr(name, '/'), *why;
	size_t len = slash ? (size_t)(slash - name) : strlen(name);
	const struct coll_rows rows = { coll_table, coll_rows };
	struct shape shape = s->shape;
	struct tuning_rule rule = { 0 };
	char text[64];
	int rc;

	if (!tuning_op(name, len, &rule.op))
		return fail(ORIEL_EINVAL, "\"%s\": no such program; see oriel_sim --list", name);
	if (!slash)
		return add_all(s, rule.op);
	if (s->o.arg && !strchr(slash, ':'))
		snprintf(text, sizeof(text), "%s:%s", slash + 1, s->o.arg);
	else
		snprintf(text, sizeof(text), "%s", slash + 1);
	rc = tuning_algorithm(text, strlen(text), &rows, &rule);
	if (rc)
		return fail_in(rc, "%s", name);
	shape.arg = coll_clip(rule.row, shape.size, rule.arg);
	why = rule.row->unfit ? rule.row->unfit(&shape) : NULL;
	if (why)
		return fail(ORIEL_EINVAL, "\"%s\": %s", name, why);
	return add(s, rule.row, shape.arg);
}

static int
add_list(struct session *s)
{
	char *names = strdup(s->o.programs), *rest = names, *name;
	int rc = names ? 0 : fail(ORIEL_ENOMEM, "no memory");

	while (!rc && (name = strsep(&rest, ",")))
		rc = add_named(s, name);
	free(names);
	if (!rc && !s->runs)
		rc = fail(ORIEL_EINVAL, "no program of %s can run here", s->o.programs);
	return rc;
}

static int
lay_out(struct session *s)
{
	int rc = fabric_read(s->o.fabric, &s->fabric);
	int64_t room, node;

	if (rc)
		return rc;
	room = s->fabric.size[FABRIC_BETWEEN];
	s->shape.size = s->o.ranks ? s->o.ranks : (int)room;
	node = s->fabric.size[FABRIC_NODE];
	if (s->o.node >= 0)
		node = s->o.node;
	else if (node == 1 || s->shape.size % node || node == s->shape.size)
		node = 0;
	if (node && s->shape.size % node)
		return fail(ORIEL_EINVAL, "--node %d does not divide %d ranks", s->o.node,
		            s->shape.size);
	s->shape.node = (int)node;
	s->shape.root = s->o.root;
	if (s->o.root >= s->shape.size)
		return fail(ORIEL_ERANGE, "--root %d of %d ranks", s->o.root, s->shape.size);
	return fabric_use(&s->fabric, s->shape.size);
}

/* Real data under random orders. */
static int
run_random(const struct session *s)
{
	for (const struct sim_run *run = s->runs; run; run = run->next) {
		struct check c = { .row = run->call.row, .shape = run->call.shape };
		int ways = contract_can_alias(c.row->op) ? 2 : 1;

		for (uint64_t seed = s->o.seed; seed < s->o.seed + s->o.seeds; seed++)
			for (int alias = 0; alias < ways; alias++) {
				int rc;

				c.alias = alias;
				c.seed = seed;
				rc = check_run(&c);
				if (rc)
					return rc;
				printf("%s(%d), %d ranks%s, seed %" PRIu64 ": fine\n",
				       c.row->program.name, c.shape.arg, c.shape.size,
				       alias ? ", in place" : "", seed);
			}
	}
	return 0;
}

static int
run_all(struct session *s)
{
	int rc = 0;

	for (struct sim_run *run = s->runs; run && !rc; run = run->next)
		rc = time_run(&run->call, &run->result);
	if (rc)
		return rc;
	if (s->o.json)
		sim_json(s->runs, &s->o);
	else if (s->o.compare)
		sim_table(s->runs, &s->o);
	for (struct sim_run *run = s->runs; run && !s->o.json && !s->o.compare; run = run->next)
		sim_report(run, &s->o);
	return 0;
}

int
main(int argc, char **argv)
{
	struct session s = { .last = &s.runs };
	int rc = sim_options_parse(&s.o, argc, argv);

	if (rc)
		return rc;
	if (s.o.help) {
		sim_usage();
		return fflush(stdout) ? 1 : 0;
	}
	rc = s.o.lanes ? sim_lanes(s.o.bytes) : lay_out(&s);
	if (!rc && s.o.list)
		sim_list(&s.shape);
	else if (!rc && !s.o.lanes)
		rc = add_list(&s);
	if (!rc && !s.o.list && !s.o.lanes)
		rc = s.o.seeds ? run_random(&s) : run_all(&s);
	while (s.runs) {
		struct sim_run *run = s.runs;

		s.runs = run->next;
		time_result_free(&run->result);
		free(run);
	}
	if (fflush(stdout)) {
		perror("oriel_sim: writing");
		return 1;
	}
	return rc ? failed(rc) : 0;
}
