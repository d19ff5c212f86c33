#include "sim/fabric.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_IN_US 1e6
#define PS_IN_S 1e12
#define MAX_TEXT 4096
#define MAX_US 1e9 /* a latency or overhead */
#define MAX_OVER 1e6
#define MIN_RATE 1e3 /* bytes a second */
#define MAX_RATE 1e18

/* The links of a rank; those of places come after those of all ranks. */
enum { NIC_OUT = 0, NIC_IN, NVLINK_OUT, NVLINK_IN, MEMORY, LINKS_OF_RANK };

const char *const fabric_level_name[FABRIC_LEVELS] = { "node", "rack", "zone", "building",
	                                               "between" };

/* From the smallest to the largest: place[l] is what places of level l hold. */
static const char *const place[FABRIC_LEVELS] = { "gpu", "node", "rack", "zone", "building" };

struct word {
	char name[16];
	const char *values; /* behind the first colon */
	char all[64];
};

struct parser {
	struct fabric *f;
	int64_t count[FABRIC_LEVELS]; /* 0: not given */
	int last;                     /* place given last */
};

static int
bad(const struct word *w, const char *why)
{
	return fail(ORIEL_EINVAL, "fabric: \"%s\": %s", w->all, why);
}

/* A decimal number from min to max at *text, which moves behind it. */
static bool
number(const char **text, double min, double max, double *value)
{
	char *end;

	if (!strchr("0123456789.", **text) || !**text || (*text)[1] == 'x' || (*text)[1] == 'X')
		return false;
	*value = strtod(*text, &end);
	if (end == *text || !(*value >= min && *value <= max))
		return false;
	*text = end;
	return true;
}

/* "1:7.5" to values; how many there were, -1 if it is something else. */
static int
numbers(const char *text, double min, double max, double *values, int cap)
{
	for (int n = 0; n < cap; n++) {
		if (!number(&text, min, max, &values[n]))
			return -1;
		if (!*text)
			return n + 1;
		if (*text++ != ':')
			return -1;
	}
	return -1;
}

static int
parse_count(struct parser *p, const struct word *w, int level)
{
	double value;

	if (p->count[level])
		return bad(w, "given twice");
	if (level > p->last)
		return bad(w, "a larger place comes before the smaller ones");
	if (numbers(w->values, 1, FABRIC_MAX_RANKS, &value, 1) != 1 || value != floor(value))
		return bad(w, "not a number from 1 to 16777216");
	p->count[level] = (int64_t)value;
	p->last = level;
	return 0;
}

static int
parse_latency(struct parser *p, const struct word *w)
{
	double us[FABRIC_LEVELS];
	int n = numbers(w->values, 0, MAX_US, us, FABRIC_LEVELS);

	if (n < 1)
		return bad(w, "not one to five numbers of microseconds");
	for (int l = 0; l < n; l++)
		p->f->latency[l] = llrint(us[l] * PS_IN_US);
	return 0;
}

static int
parse_overhead(struct parser *p, const struct word *w)
{
	double us[2];
	int n = numbers(w->values, 0, MAX_US, us, 2);

	if (n < 1)
		return bad(w, "not one or two numbers of microseconds");
	p->f->send = llrint(us[0] * PS_IN_US);
	p->f->receive = llrint(us[n - 1] * PS_IN_US);
	return 0;
}

static int
parse_chain(struct parser *p, const struct word *w)
{
	double us;

	if (numbers(w->values, 0, MAX_US, &us, 1) != 1)
		return bad(w, "not a number of microseconds");
	p->f->chain = llrint(us * PS_IN_US);
	return 0;
}

static int
parse_over(struct parser *p, const struct word *w)
{
	double ratio[2];

	for (int l = FABRIC_RACK; l <= FABRIC_BUILDING; l++) {
		size_t len = strlen(fabric_level_name[l]);

		if (strncmp(w->values, fabric_level_name[l], len) || w->values[len] != ':')
			continue;
		if (numbers(w->values + len + 1, 1 / MAX_OVER, MAX_OVER, ratio, 1) != 1)
			return bad(w, "not a ratio");
		p->f->over[l] = ratio[0];
		return 0;
	}
	if (numbers(w->values, 1 / MAX_OVER, MAX_OVER, ratio, 2) != 2)
		return bad(w, "neither two numbers nor rack, zone or building and one");
	for (int l = FABRIC_RACK; l <= FABRIC_BUILDING; l++)
		p->f->over[l] = ratio[1] / ratio[0];
	return 0;
}

static int
parse_rate(const struct word *w, double *ps_a_byte)
{
	const char *text = w->values;
	double value;

	if (!number(&text, 0, MAX_RATE, &value) || (strcmp(text, "Gb") && strcmp(text, "GB")))
		return bad(w, "not a number and Gb or GB");
	value *= strcmp(text, "Gb") ? 1e9 : 1e9 / 8;
	if (!(value >= MIN_RATE && value <= MAX_RATE))
		return bad(w, "not a rate from 1000 to 10^18 bytes a second");
	*ps_a_byte = PS_IN_S / value;
	return 0;
}

static int
parse_word(struct parser *p, const struct word *w)
{
	for (int l = 0; l < FABRIC_LEVELS; l++)
		if (!strcmp(w->name, place[l]))
			return parse_count(p, w, l);
	if (!strcmp(w->name, "latency"))
		return parse_latency(p, w);
	if (!strcmp(w->name, "overhead"))
		return parse_overhead(p, w);
	if (!strcmp(w->name, "chain"))
		return parse_chain(p, w);
	if (!strcmp(w->name, "over"))
		return parse_over(p, w);
	if (!strcmp(w->name, "nic"))
		return parse_rate(w, &p->f->nic);
	if (!strcmp(w->name, "nvlink"))
		return parse_rate(w, &p->f->nvlink);
	if (!strcmp(w->name, "memory"))
		return parse_rate(w, &p->f->memory);
	return bad(w, "no such word");
}

/* The next word of *text, which moves behind it; false: there is none. rc: a word that is none. */
static bool
next_word(const char **text, struct word *w, int *rc)
{
	static const char blank[] = " \t\r\n";
	const char *colon, *t = *text + strspn(*text, blank);
	size_t len;

	while (*t == '#') {
		t += strcspn(t, "\n");
		t += strspn(t, blank);
	}
	len = strcspn(t, " \t\r\n#");
	*text = t + len;
	if (!len)
		return false;
	snprintf(w->all, sizeof(w->all), "%.*s", (int)(len < 60 ? len : 60), t);
	colon = strchr(w->all, ':');
	if (len >= sizeof(w->all) || !colon || (size_t)(colon - w->all) >= sizeof(w->name)) {
		*rc = bad(w, "not a word such as gpu:8");
		return true;
	}
	snprintf(w->name, sizeof(w->name), "%.*s", (int)(colon - w->all), w->all);
	w->values = colon + 1;
	return true;
}

static int
sum_up(const struct parser *p)
{
	int64_t size = 1;

	if (p->last == FABRIC_LEVELS)
		return fail(ORIEL_EINVAL, "fabric: no place is given, such as gpu:8");
	for (int l = 0; l < FABRIC_LEVELS; l++) {
		size *= p->count[l] ? p->count[l] : 1;
		if (size > FABRIC_MAX_RANKS)
			return fail(ORIEL_ELIMIT,
			            "fabric: room for more than %d ranks, with %s:%lld",
			            FABRIC_MAX_RANKS, place[l], (long long)p->count[l]);
		p->f->size[l] = size;
	}
	return 0;
}

int
fabric_parse(const char *text, struct fabric *f)
{
	struct parser p = { .f = f, .last = FABRIC_LEVELS };
	struct word w;
	int rc = 0;

	*f = (struct fabric){ .latency = { 500000, 1000000, 7000000, 15000000, 30000000 },
		              .send = 500000,
		              .receive = 500000,
		              .chain = 50000,
		              .nic = PS_IN_S / 50e9,
		              .nvlink = PS_IN_S / 450e9,
		              .memory = PS_IN_S / 1500e9,
		              .over = { 1, 1, 1, 1, 1 } };
	while (!rc && next_word(&text, &w, &rc))
		if (!rc)
			rc = parse_word(&p, &w);
	return rc ? rc : sum_up(&p);
}

int
fabric_read(const char *what, struct fabric *f)
{
	char text[MAX_TEXT + 1];
	size_t len;
	FILE *file;
	int rc;

	if (strchr(what, ':'))
		return fabric_parse(what, f);
	file = fopen(what, "r");
	if (!file)
		return fail_errno(ORIEL_EINVAL, errno, "fabric: file %s", what);
	len = fread(text, 1, sizeof(text), file);
	rc = ferror(file) ? fail(ORIEL_EINVAL, "fabric: cannot read file %s", what) : 0;
	fclose(file);
	if (!rc && len > MAX_TEXT)
		return fail(ORIEL_ELIMIT, "fabric: file %s is longer than %d bytes", what,
		            MAX_TEXT);
	if (rc)
		return rc;
	text[len] = 0;
	rc = fabric_parse(text, f);
	return rc ? fail_in(rc, "%s", what) : 0;
}

int
fabric_use(struct fabric *f, int ranks)
{
	if (ranks < 1 || ranks > f->size[FABRIC_BETWEEN])
		return fail(ORIEL_ERANGE, "the fabric has room for 1 to %lld ranks, not for %d",
		            (long long)f->size[FABRIC_BETWEEN], ranks);
	f->ranks = ranks;
	f->n_links = (uint32_t)ranks * LINKS_OF_RANK;
	f->slowest[FABRIC_NODE] = f->nvlink;
	f->slowest[FABRIC_RACK] = f->nic;
	for (int l = FABRIC_RACK; l <= FABRIC_BUILDING; l++) {
		f->first[l] = f->n_links;
		f->n_links += 2 * (uint32_t)((ranks + f->size[l] - 1) / f->size[l]);
		f->up[l] = f->nic * f->over[l] / (double)f->size[l];
		f->slowest[l + 1] = fmax(f->slowest[l], f->up[l]);
	}
	return 0;
}

enum fabric_level
fabric_level(const struct fabric *f, int a, int b)
{
	int l = FABRIC_NODE;

	while (l < FABRIC_BETWEEN && a / f->size[l] != b / f->size[l])
		l++;
	return (enum fabric_level)l;
}

unsigned
fabric_hops(enum fabric_level level)
{
	return level <= FABRIC_RACK ? 2 : 2 * (unsigned)level;
}

uint32_t
fabric_link(const struct fabric *f, int from, int to, enum fabric_level level, unsigned hop)
{
	unsigned hops = fabric_hops(level), l;
	bool up = hop < hops / 2;
	int rank = up ? from : to;

	if (hop == 0 || hop == hops - 1)
		return (uint32_t)rank * LINKS_OF_RANK + (level == FABRIC_NODE
		                                                 ? up ? NVLINK_OUT : NVLINK_IN
		                                         : up ? NIC_OUT
		                                              : NIC_IN);
	l = up ? hop : hops - 1 - hop;
	return f->first[l] + 2 * (uint32_t)(rank / f->size[l]) + !up;
}

uint32_t
fabric_memory(int rank)
{
	return (uint32_t)rank * LINKS_OF_RANK + MEMORY;
}

static double
ps_a_byte(const struct fabric *f, uint32_t link)
{
	int l = FABRIC_BUILDING;

	if (link < f->first[FABRIC_RACK]) {
		switch (link % LINKS_OF_RANK) {
		case NIC_OUT:
		case NIC_IN:
			return f->nic;
		case MEMORY:
			return f->memory;
		default:
			return f->nvlink;
		}
	}
	while (link < f->first[l])
		l--;
	return f->up[l];
}

int64_t
fabric_time(const struct fabric *f, uint32_t link, uint64_t bytes)
{
	return llrint((double)bytes * ps_a_byte(f, link));
}

int64_t
fabric_train(const struct fabric *f, enum fabric_level level, uint64_t bytes)
{
	return llrint((double)bytes * f->slowest[level]);
}

void
fabric_link_name(const struct fabric *f, uint32_t link, char *text, size_t cap)
{
	static const char *const of_rank[LINKS_OF_RANK] = { "NIC out", "NIC in", "NVLink out",
		                                            "NVLink in", "memory" };
	int l = FABRIC_BUILDING;

	if (link < f->first[FABRIC_RACK]) {
		snprintf(text, cap, "%s of rank %u", of_rank[link % LINKS_OF_RANK],
		         link / LINKS_OF_RANK);
		return;
	}
	while (link < f->first[l])
		l--;
	snprintf(text, cap, "%s of %s %u", (link - f->first[l]) % 2 ? "down-link" : "up-link",
	         fabric_level_name[l], (link - f->first[l]) / 2);
}
