#include "sim/runs.h"

#include "sim/contract.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
runs_fini(struct runs *runs)
{
	free(runs->run);
	*runs = (struct runs){ 0 };
}

static bool
grow(struct runs *runs, uint32_t n)
{
	uint32_t cap = runs->cap ? runs->cap : 1;
	struct run *run;

	if (n <= runs->cap)
		return true;
	while (cap < n)
		cap *= 2;
	run = realloc(runs->run, cap * sizeof(*run));
	if (!run)
		return false;
	runs->run = run;
	runs->cap = cap;
	return true;
}

/* Elements skip to skip + n - 1 of run, in their place. */
static struct run
part(const struct run *run, uint32_t skip, uint32_t n)
{
	struct run p = *run;

	p.at += skip;
	p.n = n;
	p.block += (int32_t)skip * run->step;
	p.rank += (int32_t)skip * run->stride;
	if (n == 1)
		p.step = p.stride = 0;
	return p;
}

/* The step from a block with value a to one of value b as the next element of its run, which has n
 * already and whose step is step. Only what programs make by moving ranges is joined. */
static bool
continues(int32_t a, int32_t b, uint32_t n, int32_t *step)
{
	int32_t d = b - a;

	if (n == 1)
		*step = d;
	return d == *step && d >= -1 && d <= 1;
}

/* Makes a and b, which follows it, one run; false: they are not. */
static bool
join(struct run *a, const struct run *b)
{
	int32_t last = (int32_t)a->n - 1, step = a->step, stride = a->stride;

	if (a->at + a->n != b->at || a->sum != b->sum || (a->rank < 0) != (b->rank < 0) ||
	    (a->rank < 0 && a->rank != b->rank))
		return false;
	if (!continues(a->block + last * a->step, b->block, a->n, &step) ||
	    !continues(a->rank + last * a->stride, b->rank, a->n, &stride))
		return false;
	if (b->n > 1 && (b->step != step || b->stride != stride))
		return false;
	a->n += b->n;
	a->step = step;
	a->stride = stride;
	return true;
}

/* The first run that ends behind block at. */
static uint32_t
find(const struct runs *runs, uint32_t at)
{
	uint32_t lo = 0, hi = runs->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (runs->run[mid].at + runs->run[mid].n > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Puts n runs in the place of those from lo to hi - 1. */
static bool
replace(struct runs *runs, uint32_t lo, uint32_t hi, const struct run *with, uint32_t n)
{
	if (!grow(runs, runs->n - (hi - lo) + n))
		return false;
	if (!runs->run)
		return true; /* Garbage in an empty list. */
	memmove(runs->run + lo + n, runs->run + hi, (runs->n - hi) * sizeof(*with));
	memcpy(runs->run + lo, with, n * sizeof(*with));
	runs->n += n - (hi - lo);
	return true;
}

bool
runs_write(struct runs *runs, struct run run)
{
	uint32_t lo = find(runs, run.at), hi = lo, end = run.at + run.n, n = 0;
	struct run with[3];

	if (run.n == 0)
		return true;
	while (hi < runs->n && runs->run[hi].at < end)
		hi++;
	/* The neighbours are rewritten too: they may make one run with the new one. */
	if (lo > 0 && runs->run[lo - 1].at + runs->run[lo - 1].n == run.at)
		with[n++] = runs->run[--lo];
	else if (lo < hi && runs->run[lo].at < run.at)
		with[n++] = part(&runs->run[lo], 0, run.at - runs->run[lo].at);
	run = part(&run, 0, run.n);
	if (run.rank != RUN_GARBAGE && !(n && join(&with[n - 1], &run)))
		with[n++] = run;
	if (hi > 0 && runs->run[hi - 1].at + runs->run[hi - 1].n > end) {
		const struct run *last = &runs->run[hi - 1];
		struct run rest = part(last, end - last->at, last->at + last->n - end);

		if (!(n && join(&with[n - 1], &rest)))
			with[n++] = rest;
	} else if (hi < runs->n && n && join(&with[n - 1], &runs->run[hi])) {
		hi++;
	}
	return replace(runs, lo, hi, with, n);
}

static bool
append(struct runs *list, const struct run *run)
{
	if (list->n && join(&list->run[list->n - 1], run))
		return true;
	if (!grow(list, list->n + 1))
		return false;
	list->run[list->n++] = *run;
	return true;
}

/* What block j holds, as a run as long as it is known to go, at most n. */
static struct run
run_at(const struct runs *runs, uint32_t j, uint32_t n)
{
	uint32_t k = find(runs, j), left;
	struct run garbage = { .at = j, .n = n, .rank = RUN_GARBAGE };
	const struct run *run = &runs->run[k];

	if (k == runs->n)
		return garbage;
	if (run->at > j) {
		garbage.n = run->at - j < n ? run->at - j : n;
		return garbage;
	}
	left = run->at + run->n - j;
	return part(run, j - run->at, left < n ? left : n);
}

bool
runs_read(const struct runs *runs, uint32_t count, uint32_t j, uint32_t n, struct runs *list)
{
	for (uint32_t done = 0; done < n;) {
		uint32_t at = (uint32_t)(((uint64_t)j + done) % count), left = n - done;
		struct run run = run_at(runs, at, left < count - at ? left : count - at);

		run.at = done;
		if (!append(list, &run))
			return false;
		done += run.n;
	}
	return true;
}

bool
runs_copy(struct runs *runs, uint32_t count, uint32_t i, const struct runs *list)
{
	for (uint32_t k = 0; k < list->n; k++) {
		const struct run *run = &list->run[k];
		uint32_t n;

		for (uint32_t done = 0; done < run->n; done += n) {
			uint64_t at = ((uint64_t)i + run->at + done) % count;
			struct run piece;

			n = run->n - done;
			if (n > count - at)
				n = (uint32_t)(count - at);
			piece = part(run, done, n);
			piece.at = (uint32_t)at;
			if (!runs_write(runs, piece))
				return false;
		}
	}
	return true;
}

/* What all elements hold, if it is the same but for the block number. */
static bool
sum_of(const struct run *run, int64_t *sum)
{
	if (run->rank == RUN_GARBAGE || (run->n > 1 && run->stride))
		return false;
	*sum = run->rank == RUN_COMBINED ? run->sum : contract_term(run->rank, 0);
	return true;
}

/* Two elements at one place. */
static struct run
combine_elements(struct run_op op, const struct run *a, const struct run *b)
{
	struct run c = { .at = a->at, .n = 1, .block = a->block, .rank = RUN_COMBINED };
	int64_t x, y;

	if (a->block != b->block || !sum_of(a, &x) || !sum_of(b, &y))
		return (struct run){ .at = a->at, .n = 1, .rank = RUN_GARBAGE };
	c.sum = contract_combine(op.op, op.unordered, x, y);
	return c;
}

/* Two runs of one length and place. */
static bool
combine_runs(struct run_op op, const struct run *a, const struct run *b, struct runs *list)
{
	struct run c = { .at = a->at, .n = a->n, .block = a->block, .step = a->step };
	int64_t x, y;

	if (a->block == b->block && a->step == b->step && sum_of(a, &x) && sum_of(b, &y)) {
		c.rank = RUN_COMBINED;
		c.sum = contract_combine(op.op, op.unordered, x, y);
		return append(list, &c);
	}
	for (uint32_t t = 0; t < a->n; t++) {
		struct run x1 = part(a, t, 1), y1 = part(b, t, 1);

		c = combine_elements(op, &x1, &y1);
		if (!append(list, &c))
			return false;
	}
	return true;
}

bool
runs_combine(struct run_op op, const struct runs *a, const struct runs *b, struct runs *list)
{
	uint32_t n = a->n ? a->run[a->n - 1].at + a->run[a->n - 1].n : 0;

	for (uint32_t done = 0; done < n;) {
		struct run x = run_at(a, done, n - done), y = run_at(b, done, x.n);

		x = part(&x, 0, y.n);
		if (!combine_runs(op, &x, &y, list))
			return false;
		done += x.n;
	}
	return true;
}

bool
runs_fold(struct run_op op, const struct runs *a, struct runs *list)
{
	struct run all = part(&a->run[0], 0, 1);

	for (uint32_t k = 0; k < a->n; k++)
		for (uint32_t t = k == 0; t < a->run[k].n; t++) {
			struct run next = part(&a->run[k], t, 1);

			all = combine_elements(op, &all, &next);
		}
	all.at = 0;
	return append(list, &all);
}

/* Whether run, one of the blocks that want names, is as want says. */
static bool
same(const struct run *run, const struct run *want)
{
	int64_t x, y;

	if (run->rank == RUN_GARBAGE || run->block != want->block ||
	    (run->n > 1 && run->step != want->step))
		return false;
	if (run->rank >= 0 && want->rank >= 0)
		return run->rank == want->rank && (run->n == 1 || run->stride == want->stride);
	return sum_of(run, &x) && sum_of(want, &y) && x == y;
}

bool
runs_hold(const struct runs *runs, struct run want, uint32_t *at, struct run *is)
{
	for (uint32_t done = 0; done < want.n;) {
		struct run run = run_at(runs, want.at + done, want.n - done);
		struct run must = part(&want, done, run.n);

		for (uint32_t t = 0; !same(&run, &must) && t < run.n; t++) {
			struct run one = part(&run, t, 1), must_one = part(&must, t, 1);

			if (same(&one, &must_one))
				continue;
			*at = one.at;
			*is = one;
			return false;
		}
		done += run.n;
	}
	return true;
}

void
run_name(const struct run *run, char *text, size_t cap)
{
	if (run->rank == RUN_GARBAGE)
		snprintf(text, cap, "garbage");
	else if (run->rank == RUN_COMBINED)
		snprintf(text, cap, "block %d of several ranks (%016" PRIx64 ")", run->block,
		         run->sum);
	else
		snprintf(text, cap, "block %d of rank %d", run->block, run->rank);
}
