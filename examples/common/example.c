#include "examples/common/example.h"

#include <stdarg.h>
#include <string.h>

struct example example;

static void
print_help(const char *what, const struct example_option *options, size_t n)
{
	printf("usage: %s [options]\n%s\n", example.name, what);
	for (size_t i = 0; i < n; i++)
		printf("  %-14s %s\n", options[i].name, options[i].help);
}

static _Noreturn void
refuse(const char *text, const struct example_option *o, const char *value)
{
	if (!o)
		fprintf(stderr, "%s: unknown option %s; see %s --help\n", example.name, text,
		        example.name);
	else if (o->count)
		fprintf(stderr, "%s: %s wants a number from 1 to %zu, not \"%s\"\n", example.name,
		        text, o->max, value ? value : "");
	else
		fprintf(stderr, "%s: %s wants a value\n", example.name, text);
	exit(2);
}

void
example_options(const char *name, const char *what, int argc, char **argv,
                const struct example_option *options, size_t n)
{
	example.name = name;
	for (int i = 1; i < argc; i++) {
		const struct example_option *o = options;
		const char *text = argv[i], *value = argv[i + 1];
		size_t len = strlen(text);

		if (!strcmp(text, "--help")) {
			print_help(what, options, n);
			exit(0);
		}
		while (o < options + n &&
		       (strncmp(text, o->name, len) || strcspn(o->name, " ") != len))
			o++;
		if (o == options + n)
			refuse(text, NULL, NULL);
		if (o->flag) {
			*o->flag = true;
			continue;
		}
		if (!value || (o->count && parse_count(value, 1, o->max, o->count)))
			refuse(text, o, value);
		if (o->text)
			*o->text = value;
		i++;
	}
}

void
example_begin(void)
{
	CHECK(oriel_init(NULL, &example.ctx));
	example.world = oriel_world(example.ctx);
	example.rank = oriel_comm_rank(example.world);
	example.size = oriel_comm_size(example.world);
}

int
example_end(bool good)
{
	CHECK(oriel_fini(example.ctx));
	return good ? 0 : 1;
}

bool
example_all(bool good)
{
	int32_t here = good, everywhere = 0;

	/* A launcher may end all ranks as soon as one has ended with status 1. */
	fflush(stdout);
	CHECK(oriel_allreduce(example.world, &here, &everywhere, 1, ORIEL_INT32, ORIEL_MIN));
	return everywhere;
}

void
example_fail(const char *format, ...)
{
	va_list args;
	char text[512];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (example.world)
		fprintf(stderr, "%s: rank %d: %s\n", example.name, example.rank, text);
	else
		fprintf(stderr, "%s: %s\n", example.name, text);
	fflush(stdout);
	if (example.world)
		oriel_comm_abort(example.world);
	exit(1);
}

void
example_check(int err, const char *call, const char *file, int line)
{
	if (!err)
		return;
	/* EABORTED only repeats what the rank that aborted has said. */
	if (err == ORIEL_EABORTED)
		exit(1);
	example_fail("%.*s at %s:%d: %s: %s", (int)strcspn(call, "("), call, file, line,
	             oriel_strerror(err), oriel_detail());
}

void *
example_alloc(size_t n, size_t size)
{
	/* One more, because calloc may answer NULL to 0. */
	void *p = calloc(n + 1, size);

	if (!p)
		example_fail("no memory for %zu elements of %zu bytes", n, size);
	return p;
}
