#include "base/knobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const log_names[] = { "off", "error", "warn", "info", "debug", "trace" };

/* Number, then an optional unit. Times without a unit are seconds. */
static bool
parse_number(enum knob_kind kind, const char *text, int64_t *value)
{
	static const struct {
		const char *unit;
		double factor;
	} sizes[] = { { "", 1 },
		      { "K", 1 << 10 },
		      { "M", 1 << 20 },
		      { "G", 1 << 30 },
		      { "T", 1024.0 * (1 << 30) } },
	  times[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
	char *end;
	double d;

	errno = 0;
	d = strtod(text, &end);
	if (end == text || errno || !(d >= 0) || d > 4e18)
		return false;
	if (kind == KNOB_INT) {
		*value = (int64_t)d;
		return !*end && (double)*value == d;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const char *unit = kind == KNOB_SIZE ? sizes[i].unit : times[i].unit;
		double factor = kind == KNOB_SIZE ? sizes[i].factor : times[i].factor;

		if (!strcmp(end, unit) && d * factor < 9e18) {
			*value = (int64_t)(d * factor);
			return true;
		}
	}
	return false;
}

static bool
parse(enum knob_kind kind, const char *text, int64_t *value)
{
	static const char *const no[] = { "0", "n", "no", "off" }, *const yes[] = { "1", "y", "yes",
		                                                                    "on" };

	if (kind == KNOB_TEXT)
		return true;
	if (kind != KNOB_BOOL)
		return parse_number(kind, text, value);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		if (!strcmp(text, no[i]) || !strcmp(text, yes[i])) {
			*value = !strcmp(text, yes[i]);
			return true;
		}
	}
	return false;
}

static const char *
option_value(const char *const *options, const char *name)
{
	size_t n = strlen(name);

	for (; options && *options; options++)
		if (!strncmp(*options, name, n) && (*options)[n] == '=')
			return *options + n + 1;
	return NULL;
}

static int
load_one(const char *name, enum knob_kind kind, const char *def, const char *const *options,
         int64_t *value, char text[256], const char **from)
{
	const char *s = option_value(options, name);

	*from = "options";
	if (!s) {
		s = getenv(name);
		*from = "environment";
	}
	if (!s) {
		s = def;
		*from = "default";
	}
	if (strlen(s) >= 256)
		return fail(ORIEL_EINVAL, "%s is longer than 255 characters", name);
	strcpy(text, s);
	*value = 0;
	if (!parse(kind, s, value))
		return fail(ORIEL_EINVAL, "%s=%s (from the %s) does not parse", name, s, *from);
	return 0;
}

static bool
known(const char *option)
{
#define KNOB_KNOWN(field, kind, name, def, text)                                                   \
	if (!strncmp(option, name "=", sizeof(name)))                                              \
		return true;
	KNOBS(KNOB_KNOWN)
#undef KNOB_KNOWN
	return false;
}

int
knobs_load(struct knobs *k, const char *const *options)
{
	int rc;

	for (size_t i = 0; options && options[i]; i++)
		if (!known(options[i]))
			return fail(ORIEL_EINVAL, "options: no knob is named in \"%s\"",
			            options[i]);
#define KNOB_LOAD(field, kind, name, def, text)                                                    \
	rc = load_one(name, kind, def, options, &k->v.field, k->s.field, &k->from.field);          \
	if (rc)                                                                                    \
		return rc;
	KNOBS(KNOB_LOAD)
#undef KNOB_LOAD
	for (int i = 0; i < (int)ARRAY_SIZE(log_names); i++) {
		if (!strcmp(k->s.log, log_names[i])) {
			k->v.log = i - 1;
			return 0;
		}
	}
	return fail(ORIEL_EINVAL,
	            "ORIEL_LOG=%s (from the %s) is none of off, error, warn, info, debug, trace",
	            k->s.log, k->from.log);
}

void
knobs_each(const struct knobs *k,
           void (*row)(void *arg, const char *name, const char *value, const char *origin,
                       const char *def, const char *text),
           void *arg)
{
#define KNOB_ROW(field, kind, name, def, text)                                                     \
	row(arg, name, k ? k->s.field : def, k ? k->from.field : "default", def, text);
	KNOBS(KNOB_ROW)
#undef KNOB_ROW
}

bool
list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, word, n) && (p[n] == ',' || !p[n]))
			return true;
	return false;
}
