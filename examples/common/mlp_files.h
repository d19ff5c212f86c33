/*
 * mlp_files.h - the MLP example's command line, and its three matrices on disk.
 */
#ifndef EXAMPLES_COMMON_MLP_FILES_H
#define EXAMPLES_COMMON_MLP_FILES_H

#include "examples/common/example.h"
#include "examples/common/mlp_ops.h"
#include "examples/common/tensor_file.h"

#include <limits.h>

#define MLP_DEMO_DIR "build/demo"

struct mlp_options {
	const char *file[3];          /* x, w1, w2: "FILE" or "FILE:TENSOR" */
	const char *samples;          /* where to write, and nothing else */
	size_t tokens, width, hidden; /* of the samples */
	size_t steps;
	bool f64, transposed, help;
};

static const char mlp_usage[] =
        "usage: tp_mlp [options]\n"
        "Y = GELU(X W1) W2, W1 and W2 cut over the ranks; compared with one process's result.\n"
        "  --x FILE[:TENSOR]   X, tokens x width: .npy, or .safetensors and a tensor's name (x)\n"
        "  --w1 FILE[:TENSOR]  W1, width x hidden (w1)\n"
        "  --w2 FILE[:TENSOR]  W2, hidden x width (w2)\n"
        "                      without files: samples are written to " MLP_DEMO_DIR " and read\n"
        "  --transposed        the files hold W1 and W2 as PyTorch's Linear does: transposed\n"
        "  --steps N           steps to time (20)\n"
        "  --make-samples DIR  write x.npy and mlp.safetensors there, and end\n"
        "  --tokens N --width N --hidden N --f64   the samples' sizes (256, 512, 2048) and type\n"
        "  --help              this text\n";

static inline int
mlp_option(struct mlp_options *o, const char *name, const char *value)
{
	const struct {
		const char *name;
		const char **text;
		size_t *count;
		bool *flag;
	} table[] = { { .name = "--x", .text = &o->file[0] },
		      { .name = "--w1", .text = &o->file[1] },
		      { .name = "--w2", .text = &o->file[2] },
		      { .name = "--make-samples", .text = &o->samples },
		      { .name = "--tokens", .count = &o->tokens },
		      { .name = "--width", .count = &o->width },
		      { .name = "--hidden", .count = &o->hidden },
		      { .name = "--steps", .count = &o->steps },
		      { .name = "--f64", .flag = &o->f64 },
		      { .name = "--transposed", .flag = &o->transposed },
		      { .name = "--help", .flag = &o->help } };
	size_t i = 0, n = sizeof(table) / sizeof(table[0]);

	while (i < n && strcmp(name, table[i].name))
		i++;
	if (i == n) {
		fprintf(stderr, "tp_mlp: unknown option %s; see tp_mlp --help\n", name);
		return -1;
	}
	if (table[i].flag) {
		*table[i].flag = true;
		return 0;
	}
	if (!value || (table[i].count && parse_count(value, 1, 1 << 20, table[i].count))) {
		fprintf(stderr, "tp_mlp: %s wants a %s\n", name,
		        table[i].count ? "number from 1 to 1048576" : "file or directory");
		return -1;
	}
	if (table[i].text)
		*table[i].text = value;
	return 1;
}

static inline int
mlp_parse(struct mlp_options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int took = mlp_option(o, argv[i], argv[i + 1]);

		if (took < 0)
			return -1;
		i += took;
	}
	if (!o->file[0] != !o->file[1] || !o->file[0] != !o->file[2]) {
		fprintf(stderr, "tp_mlp: --x, --w1 and --w2 go together\n");
		return -1;
	}
	return 0;
}

/* mkdir -p */
static inline int
mlp_make_dir(const char *dir)
{
	char path[PATH_MAX];
	size_t n = strlen(dir);

	if (n >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, dir, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		path[i] = '\0';
		if (mkdir(path, 0777) && errno != EEXIST)
			return -1;
		path[i] = dir[i];
	}
	return 0;
}

/* Opens DIR/NAME, lets write() fill it, and reports what failed. */
static inline int
mlp_write_file(const char *dir, const char *name, const struct safetensors_item *items, size_t n)
{
	char path[PATH_MAX];
	FILE *f;
	int err;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	err = !f || (n > 1 ? safetensors_write(f, items, n)
	                   : npy_write(f, items->type, items->data, items->rows, items->cols));
	if ((f && fclose(f)) || err) {
		fprintf(stderr, "tp_mlp: cannot write %s: %s\n", path, strerror(errno));
		return -1;
	}
	return 0;
}

static inline int
mlp_write_samples(const struct mlp_options *o, const char *dir)
{
	enum tensor_type type = o->f64 ? TENSOR_F64 : TENSOR_F32;
	const struct mlp_ops *ops = &mlp_ops[type];
	struct safetensors_item items[] = { { "x", type, NULL, o->tokens, o->width },
		                            { "w1", type, NULL, o->width, o->hidden },
		                            { "w2", type, NULL, o->hidden, o->width } };
	/* Rows of W1 and W2 that keep the values' size, as trained weights do. */
	double limit[] = { 1.7, 1.7 / sqrt((double)o->width), 1.7 / sqrt((double)o->hidden) };
	void *data[3] = { NULL };
	int err = mlp_make_dir(dir);

	if (err)
		fprintf(stderr, "tp_mlp: cannot make %s: %s\n", dir, strerror(errno));
	for (int i = 0; i < 3 && !err; i++) {
		size_t n = (size_t)(items[i].rows * items[i].cols);

		items[i].data = data[i] = malloc(n * ops->size);
		if (!data[i]) {
			fprintf(stderr, "tp_mlp: no memory for a sample of %zu numbers\n", n);
			err = -1;
			break;
		}
		ops->random(data[i], n, limit[i], (uint64_t)i + 1);
	}
	err = err || mlp_write_file(dir, "x.npy", items, 1) ||
	      mlp_write_file(dir, "mlp.safetensors", items + 1, 2);
	for (int i = 0; i < 3; i++)
		free(data[i]);
	return err ? -1 : 0;
}

/* file: "FILE" or "FILE:TENSOR"; a file with a colon in its name is found first. */
static inline int
mlp_read_one(const char *file, const char *tensor, bool transposed, struct matrix *m)
{
	char path[PATH_MAX];
	const char *colon = strrchr(file, ':');
	struct tensor_error e = { "" };

	snprintf(path, sizeof(path), "%s", file);
	if (colon && access(file, F_OK) && (size_t)(colon - file) < sizeof(path)) {
		path[colon - file] = '\0';
		tensor = colon + 1;
	}
	if (matrix_read(path, tensor, m, &e))
		goto failed;
	if (!transposed)
		return 0;
	/* Its rows, read as columns, are the transposed matrix. */
	size_t rows = m->rows;
	m->rows = m->cols;
	m->cols = rows;
	if (!matrix_from_columns(m, &e))
		return 0;
failed:
	fprintf(stderr, "tp_mlp: %s: %s\n", path, e.text);
	return -1;
}

/* Reads X, W1, W2 and checks that they fit together. m[i].data is freed by the caller, always. */
static inline int
mlp_read(const struct mlp_options *o, struct matrix m[3])
{
	static const char *const tensors[] = { "x", "w1", "w2" };
	static const char *const demo[] = { MLP_DEMO_DIR "/x.npy", MLP_DEMO_DIR "/mlp.safetensors",
		                            MLP_DEMO_DIR "/mlp.safetensors" };

	for (int i = 0; i < 3; i++)
		if (mlp_read_one(o->file[i] ? o->file[i] : demo[i], tensors[i],
		                 o->file[i] && o->transposed && i > 0, &m[i]))
			return -1;
	if (m[0].type != m[1].type || m[0].type != m[2].type) {
		fprintf(stderr, "tp_mlp: X, W1 and W2 are not all of the same type\n");
		return -1;
	}
	if (m[0].cols != m[1].rows || m[1].cols != m[2].rows || m[2].cols != m[0].cols) {
		fprintf(stderr,
		        "tp_mlp: X is %zu x %zu, W1 %zu x %zu, W2 %zu x %zu: these do not fit "
		        "together\n",
		        m[0].rows, m[0].cols, m[1].rows, m[1].cols, m[2].rows, m[2].cols);
		return -1;
	}
	for (int i = 0; i < 3; i++)
		if (m[i].rows > INT_MAX / 2 || m[i].cols > INT_MAX / 2) {
			fprintf(stderr, "tp_mlp: %zu x %zu is more than BLAS takes\n", m[i].rows,
			        m[i].cols);
			return -1;
		}
	return 0;
}

#endif
