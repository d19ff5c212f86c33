/*
 * power_iteration_halo.h - the entries of a vector that a rank's rows need and
 * other ranks own.
 *
 * A rank's window has two halves, for even and odd steps, each with room for its
 * whole halo. halo_put writes the half of its step at those who need something,
 * halo_wait waits for all that this rank needs. There is no barrier: a rank may
 * put step k when all ranks have read their halo of step k - 2, and to see to
 * that is the caller's part.
 */
#ifndef EXAMPLES_POWER_ITERATION_HALO_H
#define EXAMPLES_POWER_ITERATION_HALO_H

#include "examples/common/example.h"
#include "examples/common/sparse.h"

/* What one rank gives to another in a step. */
struct share {
	uint64_t n, first; /* entries: how many, and where in the receiver's half of a window */
	uint64_t half;     /* entries of such a half */
};

struct halo {
	size_t row0, rows; /* the entries that this rank owns */
	oriel_win *win;
	double *window; /* two halves of n_in entries */
	size_t n_in, n_out;
	uint64_t *need;          /* columns of the halo, ascending, and so by owners */
	uint64_t *give;          /* own entries that others need, receiver by receiver */
	double *packed;          /* those entries */
	struct share *in, *out;  /* one a rank */
	struct oriel_cond *here; /* one for each rank that gives something to this one */
	size_t n_here;
};

/*
 * Collective. m: this rank's rows of a square matrix. Its columns are numbered
 * anew: from 0 those that are this rank's own, from the number of its rows those
 * of the halo.
 */
void halo_open(struct halo *h, struct coordinates *m);
void halo_close(struct halo *h);
/* Gives the others what they need of v, the own entries. */
void halo_put(struct halo *h, const double *v, uint64_t step);
/* Waits for the halo of the step; where it is, until the step after the next. */
const double *halo_wait(struct halo *h, uint64_t step);

#endif
