/*
 * Puts and gets of every form, length and misalignment, over every kind of
 * memory, to oneself and to a neighbour: exactly the bytes that were named are
 * written, compared with an image of the whole window and its guards.
 */
#include "test/ranks/area.h"

#define GROUP 3 /* blocks of one length, equally far apart: what a strided call moves */
#define SMALL 101

enum form {
	PUT = 0,
	RPUT,
	PUT_STRIDED,
	PUT_LIST,
	PUT_SIGNAL,
	FORM_GET,
	GET = FORM_GET,
	RGET,
	GET_STRIDED,
	GET_LIST,
	FORMS
};
static const char *const form_name[FORMS] = { "put",      "rput",        "put_strided",
	                                      "put_list", "put_signal",  "get",
	                                      "rget",     "get_strided", "get_list" };

static const size_t big[] = { 4095,         4096, 4097, 8191, 8192, 8193, 65536,
#ifndef __SANITIZE_THREAD__ /* which takes a minute for it */
	                      (1 << 20) + 3
#endif
};

struct item {
	size_t disp, at, len; /* in the window; in the local buffer */
};

struct moves {
	struct ranks *r;
	struct area a;
	struct item *items;
	size_t n, size, local_size; /* bytes that the items span */
	unsigned char *local, *image, *noise;
};

/* What rank puts or shows in round salt: differs at every displacement, rank and round. */
static const unsigned char *
pattern(const struct moves *m, int rank, unsigned salt)
{
	return m->noise + (size_t)rank * 101 + salt * 13;
}

/* Groups of each length in turn; window and local side are misaligned by dm and sm modulo 16. */
static void
lay_out(struct moves *m, const size_t *lens, size_t n_lens, size_t dm, size_t sm)
{
	size_t disp = 32 + dm, at = 32 + sm;

	m->n = 0;
	for (size_t i = 0; i < n_lens; i++) {
		size_t len = lens ? lens[i] : i;
		size_t gap = 16 + (len + 15) / 16 * 16; /* keeps the misalignment */

		for (int g = 0; g < GROUP; g++) {
			m->items[m->n++] = (struct item){ disp, at, len };
			disp += gap;
			at += gap + 16;
		}
	}
	m->size = disp + 32;
	m->local_size = at + 32;
}

static bool
by_request(struct moves *m, int target, bool put)
{
	oriel_req *req[GROUP];

	for (size_t i = 0; i < m->n; i += GROUP) {
		for (size_t g = 0; g < GROUP; g++) {
			const struct item *t = &m->items[i + g];

			req[g] = NULL;
			if (!OK(put ? oriel_rput(m->a.win, target, t->disp, m->local + t->at,
			                         t->len, &req[g])
			            : oriel_rget(m->a.win, target, t->disp, m->local + t->at,
			                         t->len, &req[g])))
				return false;
		}
		for (size_t g = 0; g < GROUP; g++) {
			int done = 0;

			if (g) {
				if (!OK(oriel_req_wait(&req[g], RANKS_WAIT_NS)))
					return false;
			} else {
				while (!done)
					if (!OK(oriel_req_test(&req[g], &done)))
						return false;
			}
			CHECK(!req[g], "a complete request is not NULL");
		}
	}
	return true;
}

static bool
by_list(struct moves *m, int target, bool put)
{
	struct oriel_seg *segs = calloc(m->n, sizeof(*segs));
	bool ok;

	if (!NEED(segs, "no memory"))
		return false;
	for (size_t i = 0; i < m->n; i++)
		segs[i] = (struct oriel_seg){ m->items[i].disp, m->local + m->items[i].at,
			                      m->items[i].len };
	ok = OK(put ? oriel_put_list(m->a.win, target, segs, m->n)
	            : oriel_get_list(m->a.win, target, segs, m->n));
	free(segs);
	return ok;
}

static bool
by_stride(struct moves *m, int target, bool put)
{
	for (size_t i = 0; i < m->n; i += GROUP) {
		const struct item *t = &m->items[i];
		size_t ds = t[1].disp - t[0].disp, as = t[1].at - t[0].at;

		if (!OK(put ? oriel_put_strided(m->a.win, target, t->disp, ds, m->local + t->at, as,
		                                t->len, GROUP)
		            : oriel_get_strided(m->a.win, target, t->disp, ds, m->local + t->at, as,
		                                t->len, GROUP)))
			return false;
	}
	return true;
}

static bool
one_by_one(struct moves *m, int target, enum form form)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct item *t = &m->items[i];
		unsigned char *local = m->local + t->at;
		int rc;

		if (form == PUT)
			rc = oriel_put(m->a.win, target, t->disp, local, t->len);
		else if (form == PUT_SIGNAL)
			rc = oriel_put_signal(m->a.win, target, t->disp, local, t->len, 0,
			                      ORIEL_SIGNAL_ADD, 1);
		else
			rc = oriel_get(m->a.win, target, t->disp, local, t->len);
		if (!OK(rc))
			return false;
	}
	return true;
}

static bool
move(struct moves *m, int target, enum form form)
{
	switch (form) {
	case RPUT:
	case RGET:
		return by_request(m, target, form == RPUT);
	case PUT_STRIDED:
	case GET_STRIDED:
		return by_stride(m, target, form == PUT_STRIDED);
	case PUT_LIST:
	case GET_LIST:
		return by_list(m, target, form == PUT_LIST);
	default:
		return one_by_one(m, target, form);
	}
}

static bool
same(const struct moves *m, const unsigned char *seen, size_t len, const char *what, enum form form)
{
	if (!memcmp(seen, m->image, len))
		return true;
	for (size_t i = 0; i < len; i++)
		if (seen[i] != m->image[i])
			return CHECK(false, "%s over %s: byte %zu of the %s is %02x, not %02x",
			             form_name[form], area_name[m->a.kind], i, what, seen[i],
			             m->image[i]);
	return true;
}

/* source is whose pattern the local buffer of a put holds, or the window of a get. */
static bool
put_round(struct moves *m, int target, int source, enum form form, unsigned salt)
{
	struct ranks *r = m->r;

	memset(m->a.base, AREA_FILL, m->size);
	memcpy(m->local, pattern(m, r->rank, salt), m->local_size);
	if (!OK(oriel_barrier(r->world)) || !move(m, target, form) ||
	    !OK(oriel_flush_local(m->a.win, target)))
		return false;
	if (form == PUT_SIGNAL) {
		if (!OK(oriel_signal_wait(m->a.win, 0, ORIEL_GE, m->n, RANKS_WAIT_NS, NULL)))
			return false;
		OK(oriel_signal(m->a.win, r->rank, 0, ORIEL_SIGNAL_SET, 0));
		OK(oriel_flush(m->a.win, r->rank));
	} else if (!OK(oriel_flush(m->a.win, target)) || !OK(oriel_barrier(r->world))) {
		return false;
	}
	memset(m->image, AREA_FILL, m->size);
	for (size_t i = 0; i < m->n; i++)
		memcpy(m->image + m->items[i].disp, pattern(m, source, salt) + m->items[i].at,
		       m->items[i].len);
	same(m, m->a.base, m->size, "window", form);
	return area_guards(&m->a);
}

static bool
get_round(struct moves *m, int target, enum form form, unsigned salt)
{
	struct ranks *r = m->r;

	memcpy(m->a.base, pattern(m, r->rank, salt), m->size);
	memset(m->local, AREA_FILL, m->local_size);
	if (!OK(oriel_barrier(r->world)) || !move(m, target, form) ||
	    !OK(oriel_flush_local(m->a.win, target)))
		return false;
	memset(m->image, AREA_FILL, m->local_size);
	for (size_t i = 0; i < m->n; i++)
		memcpy(m->image + m->items[i].at, pattern(m, target, salt) + m->items[i].disp,
		       m->items[i].len);
	same(m, m->local, m->local_size, "local buffer", form);
	return area_guards(&m->a);
}

static bool
rounds(struct moves *m, unsigned salt)
{
	struct ranks *r = m->r;

	for (int form = 0; form < FORMS; form++) {
		for (int d = 0; d < 2; d++) { /* to itself, to the right */
			int target = (r->rank + d) % r->size;
			int source = (r->rank + r->size - d) % r->size;

			if (d && r->size == 1)
				continue;
			if (form < FORM_GET ? !put_round(m, target, source, (enum form)form, salt)
			                    : !get_round(m, target, (enum form)form, salt))
				return false;
			if (!OK(oriel_barrier(r->world)))
				return false;
		}
	}
	return !r->failures;
}

static bool
over(struct ranks *r, enum area_kind kind, const size_t *lens, size_t n_lens, size_t misalignments)
{
	struct moves m = { .r = r };
	struct item items[GROUP * SMALL];
	uint64_t state = r->seed; /* the same noise on all ranks */
	size_t noise_len;
	bool ok;

	m.items = items;
	lay_out(&m, lens, n_lens, 15, 15);
	noise_len = m.local_size + (size_t)r->size * 101 + 200 * 13;
	m.local = malloc(m.local_size);
	m.image = malloc(m.local_size);
	m.noise = malloc(noise_len);
	ok = NEED(m.local && m.image && m.noise, "no memory") &&
	     area_open(&m.a, r, r->world, kind, m.size, 1);
	for (size_t i = 0; ok && i < noise_len; i++)
		m.noise[i] = (unsigned char)(ranks_next(&state) >> 56);
	for (size_t i = 0; ok && i < misalignments; i++) {
		size_t dm = i * 16 / misalignments, sm = (i * 7 + dm / 2) % 16;

		lay_out(&m, lens, n_lens, dm, sm);
		ok = rounds(&m, (unsigned)(i + r->seed % 100));
	}
	if (ok)
		ok = area_close(&m.a);
	free(m.local);
	free(m.image);
	free(m.noise);
	return ok;
}

static int
run(struct ranks *r)
{
	for (int kind = 0; kind < AREA_KINDS; kind++) {
		if (!over(r, (enum area_kind)kind, NULL, SMALL, ranks_number("--aligns", 16)))
			return 1;
		if (!over(r, (enum area_kind)kind, big, sizeof(big) / sizeof(big[0]), 1))
			return 1;
	}
	return 0;
}

RANKS_MAIN(run)
