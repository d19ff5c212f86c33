#include "examples/power_iteration_halo.h"

static int
by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Lists the columns that other ranks own, each once, and counts them by owners. */
static void
find_need(struct halo *h, const struct coordinates *m)
{
	size_t n = 0;

	h->need = example_alloc(m->n, sizeof(*h->need));
	for (size_t i = 0; i < m->n; i++)
		if (m->entry[i].col - h->row0 >= h->rows)
			h->need[n++] = m->entry[i].col;
	qsort(h->need, n, sizeof(*h->need), by_number);
	for (size_t i = 0; i < n; i++)
		if (!i || h->need[i] != h->need[i - 1])
			h->need[h->n_in++] = h->need[i];
	for (size_t i = 0, owner = 0; i < h->n_in; i++) {
		while (h->need[i] >= example_first(m->rows, (int)owner + 1))
			owner++;
		if (!h->in[owner].n++)
			h->in[owner].first = i;
	}
	for (int r = 0; r < example.size; r++)
		h->in[r].half = h->n_in;
}

/* Tells the owners what this rank needs and where it belongs, and hears the same from the others.
 */
static void
tell_owners(struct halo *h)
{
	size_t p = (size_t)example.size, *table = example_alloc(4 * p, sizeof(*table));
	size_t *in_len = table, *in_at = in_len + p, *out_len = in_at + p, *out_at = out_len + p;

	CHECK(oriel_alltoall(example.world, h->in, h->out, sizeof(*h->in)));
	for (size_t r = 0; r < p; r++) {
		in_len[r] = h->in[r].n * sizeof(*h->need);
		in_at[r] = h->in[r].first * sizeof(*h->need);
		out_len[r] = h->out[r].n * sizeof(*h->give);
		out_at[r] = h->n_out * sizeof(*h->give);
		h->n_out += h->out[r].n;
		/* Rank r's signal is slot r; its value is the number of the step. */
		if (h->in[r].n)
			h->here[h->n_here++] = (struct oriel_cond){ r, ORIEL_GE, 0 };
	}
	h->give = example_alloc(h->n_out, sizeof(*h->give));
	h->packed = example_alloc(h->n_out, sizeof(*h->packed));
	CHECK(oriel_alltoallv(example.world, h->need, in_len, in_at, h->give, out_len, out_at));
	for (size_t i = 0; i < h->n_out; i++)
		h->give[i] -= h->row0;
	free(table);
}

/* Columns get local numbers. */
static void
renumber(const struct halo *h, struct coordinates *m)
{
	for (size_t i = 0; i < m->n; i++) {
		uint64_t col = m->entry[i].col, *at;

		if (col - h->row0 < h->rows) {
			m->entry[i].col -= h->row0;
			continue;
		}
		at = bsearch(&col, h->need, h->n_in, sizeof(col), by_number);
		m->entry[i].col = h->rows + (size_t)(at - h->need);
	}
}

void
halo_open(struct halo *h, struct coordinates *m)
{
	size_t size = (size_t)example.size;
	void *base;

	*h = (struct halo){ .row0 = example_first(m->rows, example.rank) };
	h->rows = example_first(m->rows, example.rank + 1) - h->row0;
	h->in = example_alloc(size, sizeof(*h->in));
	h->out = example_alloc(size, sizeof(*h->out));
	h->here = example_alloc(size, sizeof(*h->here));
	find_need(h, m);
	tell_owners(h);
	renumber(h, m);
	CHECK(oriel_win_alloc(example.world, 2 * h->n_in * sizeof(double), size, &base, &h->win));
	h->window = base;
}

void
halo_close(struct halo *h)
{
	CHECK(oriel_win_free(h->win));
	free(h->in);
	free(h->out);
	free(h->here);
	free(h->need);
	free(h->give);
	free(h->packed);
}

void
halo_put(struct halo *h, const double *v, uint64_t step)
{
	size_t at = 0;

	/* The puts of the step before must have left packed. */
	CHECK(oriel_flush_local_all(h->win));
	for (size_t i = 0; i < h->n_out; i++)
		h->packed[i] = v[h->give[i]];
	for (int i = 0; i < example.size; i++) {
		const struct share *to = &h->out[i];
		size_t disp = (step % 2 * to->half + to->first) * sizeof(double);

		if (to->n)
			CHECK(oriel_put_signal(h->win, i, disp, h->packed + at,
			                       to->n * sizeof(double), (size_t)example.rank,
			                       ORIEL_SIGNAL_SET, step + 1));
		at += to->n;
	}
}

const double *
halo_wait(struct halo *h, uint64_t step)
{
	/* Slots begin with 0: step 0 sets them to 1. */
	for (size_t i = 0; i < h->n_here; i++)
		h->here[i].value = step + 1;
	if (h->n_here)
		CHECK(oriel_signal_wait_all(h->win, h->n_here, h->here, ORIEL_FOREVER));
	return h->window + step % 2 * h->n_in;
}
