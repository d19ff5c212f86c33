/*
 * oriel_sim.h - what the parts of oriel_sim share.
 */
#ifndef TOOLS_ORIEL_SIM_H
#define TOOLS_ORIEL_SIM_H

#include "sim/time.h"

struct sim_options {
	const char *programs; /* --program or --compare */
	const char *arg;
	const char *fabric;
	int ranks, root, node; /* ranks: 0: all that have room; node: -1: the fabric's */
	size_t bytes;
	uint64_t seeds, seed; /* --random */
	size_t path;
	bool compare, list, json, check, lanes, help;
};

/* One program's run. */
struct sim_run {
	struct time_call call;
	struct time_result result;
	struct sim_run *next;
};

/* 0, or 2 after it has said what is wrong. */
int sim_options_parse(struct sim_options *o, int argc, char **argv);
void sim_usage(void);

/* 0, or an error with its detail: --lanes, with messages of so many bytes. */
int sim_lanes(size_t bytes);
void sim_list(const struct shape *shape);
void sim_report(const struct sim_run *run, const struct sim_options *o);
void sim_table(const struct sim_run *runs, const struct sim_options *o);
void sim_json(const struct sim_run *runs, const struct sim_options *o);

#endif
