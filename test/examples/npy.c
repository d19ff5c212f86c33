/*
 * npy.c - the examples' .npy and .safetensors parsers on good files and on every
 * kind of bad one.
 *
 * A bad file must be refused with a reason, and nothing past its end may be
 * read: each is parsed from a block of exactly its size, so that an address
 * sanitizer, or the page after it, sees the first byte too many.
 */
#include "examples/common/tensor_file.h"

#include <criterion/criterion.h>
#include <sys/mman.h>

/* len bytes that end where an unreadable page begins. */
struct block {
	uint8_t *at, *map;
	size_t len, map_len;
};

static struct block
block_of(const void *bytes, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct block b = { .len = len, .map_len = (len + page - 1) / page * page + page };

	b.map = mmap(NULL, b.map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(b.map, MAP_FAILED);
	b.at = b.map + b.map_len - page - len;
	memcpy(b.at, bytes, len);
	cr_assert_eq(mprotect(b.map + b.map_len - page, page, PROT_NONE), 0);
	return b;
}

static void
block_free(struct block *b)
{
	munmap(b->map, b->map_len);
}

/* Writes a version 1 file around a header's text; returns its length. */
static size_t
npy_file(uint8_t *file, const char *header, size_t data_len)
{
	size_t len = strlen(header);

	memcpy(file, NPY_MAGIC "\1", 8);
	file[7] = 0;
	file[8] = (uint8_t)len;
	file[9] = (uint8_t)(len >> 8);
	memcpy(file + 10, header, len);
	memset(file + 10 + len, 0x3f, data_len);
	return 10 + len + data_len;
}

static int
parse_npy(const uint8_t *file, size_t len, struct tensor_layout *l, struct tensor_error *e)
{
	struct block b = block_of(file, len);
	int err = npy_parse(b.at, b.len, b.len, l, e);

	block_free(&b);
	return err;
}

static size_t
safetensors_file(uint8_t *file, const char *json, uint64_t header_len, size_t data_len)
{
	size_t len = strlen(json);

	memcpy(file, &header_len, 8);
	memcpy(file + 8, json, len);
	memset(file + 8 + len, 0x3f, data_len);
	return 8 + len + data_len;
}

static int
parse_safetensors(const uint8_t *file, size_t len, struct tensor_layout *l, struct tensor_error *e)
{
	struct block b = block_of(file, len);
	int err = safetensors_parse(b.at, b.len, b.len, "w1", l, e);

	block_free(&b);
	return err;
}

/* The only messages that count as a refusal are the parsers' own. */
static void
assert_reason(int err, const struct tensor_error *e, const char *reason, const char *what)
{
	cr_assert_eq(err, -1, "taken, though it is bad: %s", what);
	cr_assert(strstr(e->text, reason), "%s: the reason is \"%s\", expected \"%s\"", what,
	          e->text, reason);
}

Test(npy, takes_good_headers)
{
	static const struct {
		const char *header;
		size_t data_len, n_dims;
		uint64_t dims[3];
		enum tensor_type type;
		bool fortran;
	} good[] = {
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n",
		  48,
		  2,
		  { 3, 4 },
		  TENSOR_F32,
		  false },
		{ "{\"shape\":(2,3),\"descr\":\"<f8\",\"fortran_order\":True}",
		  48,
		  2,
		  { 2, 3 },
		  TENSOR_F64,
		  true },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}\n",
		  20,
		  1,
		  { 5 },
		  TENSOR_F32,
		  false },
		{ "{'descr': '<f8', 'fortran_order': False, 'shape': ()}\n",
		  8,
		  0,
		  { 0 },
		  TENSOR_F64,
		  false },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9)}\n",
		  0,
		  2,
		  { 0, 9 },
		  TENSOR_F32,
		  false },
	};
	uint8_t file[512];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;
		size_t len = npy_file(file, good[i].header, good[i].data_len);

		cr_assert_eq(parse_npy(file, len, &l, &e), 0, "%s: %s", good[i].header, e.text);
		cr_assert_eq(l.n_dims, good[i].n_dims);
		for (size_t d = 0; d < l.n_dims; d++)
			cr_assert_eq(l.dims[d], good[i].dims[d]);
		cr_assert_eq(l.type, good[i].type);
		cr_assert_eq(l.fortran, good[i].fortran);
		cr_assert_eq(l.bytes, good[i].data_len);
		cr_assert_eq(l.data + l.bytes, len);
	}
}

#define NPY(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape "}"

Test(npy, refuses_bad_headers)
{
	static const struct {
		const char *header, *reason;
	} bad[] = {
		{ "", "expected '{'" },
		{ "{", "expected a quoted word" },
		{ "{}", "missing" },
		{ "{'descr': '<f4', 'shape': (3, 4)}", "missing" },
		{ NPY("(3, 4)") " x", "after its '}'" },
		{ NPY("(3 4)"), "commas" },
		{ NPY("(3)"), "not a tuple" },
		{ NPY("3, 4"), "expected '('" },
		{ NPY("(-3, 4)"), "expected a dimension" },
		{ NPY("(3, 4"), "commas" },
		{ NPY("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "dimensions" },
		{ NPY("(18446744073709551616, 1)"), "64 bits" },
		{ NPY("(99999999999999999999999999, 1)"), "64 bits" },
		{ NPY("(4294967296, 4294967296)"), "64 bits" },
		{ NPY("(4611686018427387904, 1)"), "64 bits" },
		{ NPY("(4611686018427387903, 1)"), "the file has" },
		{ NPY("(1000, 1000)"), "the file has" },
		{ NPY("(4, 4)"), "the file has" },
		{ "{'descr': '<f4' 'fortran_order': False, 'shape': (3, 4)}", "commas" },
		{ "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
		  "twice" },
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4)}", "holds '>f4'" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4)}", "holds '<i4'" },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 4)}", "quoted" },
		{ "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}", "neither" },
		{ "{'descr': '<f4', 'fortran_order': Fals", "neither" },
		{ "{'desc': '<f4', 'fortran_order': False, 'shape': (3, 4)}", "unknown key" },
		{ "{'descr': '<f4", "expected '''" },
		{ "{'an_awfully_long_key_that_never_ends_at_all': 1}", "too long" },
		{ "{'des\\'cr': '<f4', 'fortran_order': False, 'shape': (3, 4)}", "malformed" },
	};
	uint8_t file[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;
		size_t len = npy_file(file, bad[i].header, 48);

		assert_reason(parse_npy(file, len, &l, &e), &e, bad[i].reason, bad[i].header);
	}
}

Test(npy, refuses_bad_prefixes)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *reason;
	} bad[] = {
		{ "", 0, "does not begin" },
		{ "\x93NUMP", 5, "does not begin" },
		{ "\x92NUMPY\1\0\0\0", 10, "does not begin" },
		{ "\x93NUMPY\1\0\2", 9, "ends inside" },
		{ "\x93NUMPY\4\0\2\0{}", 12, "version 4.0" },
		{ "\x93NUMPY\1\1\2\0{}", 12, "version 1.1" },
		{ "\x93NUMPY\2\0\2\0\0", 11, "ends inside" },
		{ "\x93NUMPY\2\0\xff\xff\xff\xff", 12, "has a header of" },
		{ "\x93NUMPY\1\0\xff\xff{", 11, "ends inside its header" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;

		assert_reason(parse_npy((const uint8_t *)bad[i].bytes, bad[i].len, &l, &e), &e,
		              bad[i].reason, bad[i].reason);
	}
}

/* Every prefix of a good file is bad; it must be refused without reading past its end. */
Test(npy, refuses_every_truncation)
{
	uint8_t file[512];
	size_t len = npy_file(file, NPY("(3, 4)"), 48);

	for (size_t n = 0; n < len; n++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;

		cr_assert_eq(parse_npy(file, n, &l, &e), -1, "%zu of %zu bytes were enough", n,
		             len);
		cr_assert_neq(e.text[0], '\0');
	}
}

/* Any one byte changed: refused, or a layout that lies inside the file. */
Test(npy, stays_inside_whatever_a_byte_says)
{
	uint8_t file[512];
	size_t len = npy_file(file, NPY("(3, 4)"), 48);

	for (size_t i = 0; i < len - 48; i++) {
		for (int v = 0; v < 256; v++) {
			uint8_t old = file[i];
			struct tensor_error e = { "" };
			struct tensor_layout l;

			file[i] = (uint8_t)v;
			if (!parse_npy(file, len, &l, &e))
				cr_assert(l.data <= len && l.bytes <= len - l.data);
			file[i] = old;
		}
	}
}

#define ST(dtype, shape, offsets)                                                                  \
	"{\"w1\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

Test(safetensors, takes_good_headers)
{
	static const struct {
		const char *json;
		size_t data_len;
		uint64_t from, bytes;
		enum tensor_type type;
	} good[] = {
		{ ST("\"F32\"", "[3,4]", "[0,48]"), 48, 0, 48, TENSOR_F32 },
		{ ST("\"F64\"", "[2,2]", "[8,40]"), 48, 8, 32, TENSOR_F64 },
		{ ST("\"F32\"", "[3,4]", "[0,48]") "      ", 48, 0, 48, TENSOR_F32 },
		{ "{\"__metadata__\":{\"format\":\"pt\"},\"w1\":{\"dtype\":\"F32\",\"shape\":[],"
		  "\"data_offsets\":[0,4]}}",
		  4, 0, 4, TENSOR_F32 },
		{ ST("\"F32\"", "[0,4]", "[0,0]"), 0, 0, 0, TENSOR_F32 },
	};
	uint8_t file[512];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;
		size_t header = strlen(good[i].json);
		size_t len = safetensors_file(file, good[i].json, header, good[i].data_len);

		cr_assert_eq(parse_safetensors(file, len, &l, &e), 0, "%s: %s", good[i].json,
		             e.text);
		cr_assert_eq(l.type, good[i].type);
		cr_assert_eq(l.data, 8 + header + good[i].from);
		cr_assert_eq(l.bytes, good[i].bytes);
	}
}

Test(safetensors, refuses_bad_headers)
{
	static const struct {
		const char *json, *reason;
	} bad[] = {
		{ "  ", "header:" },
		{ "{\"w1\":", "header:" },
		{ "{w1:1}", "header:" },
		{ "[1,2]", "not an object" },
		{ "12", "header:" },
		{ "{}", "no tensor" },
		{ "{\"w2\":{}}", "no tensor" },
		{ "{\"w1\":3}", "lacks" },
		{ "{\"w1\":{}}", "lacks" },
		{ "{\"w1\":null}", "lacks" },
		{ ST("\"F32\"", "[3,4]", "[0,48]") "x", "after its '}'" },
		{ ST("\"F32\"", "[3,4]", "[0,48]") "{}", "after its '}'" },
		{ ST("\"F16\"", "[3,4]", "[0,24]"), "holds F16" },
		{ ST("32", "[3,4]", "[0,48]"), "lacks" },
		{ ST("\"F32\"", "12", "[0,48]"), "not a list" },
		{ ST("\"F32\"", "[3,\"4\"]", "[0,48]"), "not a number" },
		{ ST("\"F32\"", "[3,-4]", "[0,48]"), "not a number" },
		{ ST("\"F32\"", "[3,4.0]", "[0,48]"), "not a number" },
		{ ST("\"F32\"", "[3,null]", "[0,48]"), "not a number" },
		{ ST("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "dimensions" },
		{ ST("\"F32\"", "[4294967296,4294967296]", "[0,0]"), "64 bits" },
		{ ST("\"F32\"", "[18446744073709551615,2]", "[0,48]"), "64 bits" },
		{ ST("\"F32\"", "[99999999999999999999999,4]", "[0,48]"), "" },
		{ ST("\"F32\"", "[3,4]", "[0,44]"), "do not hold" },
		{ ST("\"F32\"", "[3,4]", "[48,0]"), "do not hold" },
		{ ST("\"F32\"", "[3,4]", "[0]"), "list of two" },
		{ ST("\"F32\"", "[3,4]", "[0,48,96]"), "list of two" },
		{ ST("\"F32\"", "[3,4]", "[-48,0]"), "not a number" },
		{ ST("\"F32\"", "[3,4]", "[4,52]"), "the file has" },
		{ ST("\"F32\"", "[3,4]", "[18446744073709551560,18446744073709551608]"),
		  "64 bits" },
		{ ST("\"F32\"", "[2305843009213693952]", "[0,9223372036854775808]"),
		  "the file has" },
		{ ST("\"F32\"", "[[[[[[[[[[[[3]]]]]]]]]]]]", "[0,48]"), "header:" },
	};
	uint8_t file[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;
		size_t len = safetensors_file(file, bad[i].json, strlen(bad[i].json), 48);

		assert_reason(parse_safetensors(file, len, &l, &e), &e, bad[i].reason, bad[i].json);
	}
}

Test(safetensors, refuses_bad_lengths)
{
	static const char json[] = ST("\"F32\"", "[3,4]", "[0,48]");
	uint64_t good = sizeof(json) - 1;
	uint64_t bad[] = { 0,         1,         good - 1,          good + 1,
		           good + 48, good + 49, (uint64_t)1 << 31, (uint64_t)1 << 63,
		           UINT64_MAX };
	uint8_t file[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;
		size_t len = safetensors_file(file, json, bad[i], 48);

		cr_assert_eq(parse_safetensors(file, len, &l, &e), -1, "length %llu was taken",
		             (unsigned long long)bad[i]);
	}
}

Test(safetensors, refuses_every_truncation)
{
	static const char json[] = ST("\"F32\"", "[3,4]", "[0,48]");
	uint8_t file[512];
	size_t len = safetensors_file(file, json, sizeof(json) - 1, 48);

	for (size_t n = 0; n < len; n++) {
		struct tensor_error e = { "" };
		struct tensor_layout l;

		cr_assert_eq(parse_safetensors(file, n, &l, &e), -1, "%zu of %zu bytes", n, len);
	}
}

Test(safetensors, stays_inside_whatever_a_byte_says)
{
	static const char json[] = ST("\"F32\"", "[3,4]", "[0,48]");
	uint8_t file[512];
	size_t len = safetensors_file(file, json, sizeof(json) - 1, 48);

	for (size_t i = 0; i < len - 48; i++) {
		for (int v = 0; v < 256; v += 3) {
			uint8_t old = file[i];
			struct tensor_error e = { "" };
			struct tensor_layout l;

			file[i] = (uint8_t)v;
			if (!parse_safetensors(file, len, &l, &e))
				cr_assert(l.data <= len && l.bytes <= len - l.data);
			file[i] = old;
		}
	}
}

/* A new file of our own making, named in path. */
static FILE *
new_file(char path[32])
{
	int fd;

	strcpy(path, "/tmp/oriel-npy-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	return fdopen(fd, "wb");
}

Test(files, what_is_written_is_read)
{
	float x[6] = { 1, 2, 3, 4, 5, 6 };
	double w[4] = { -1, 1e300, 0.1, 5e-324 };
	struct safetensors_item items[] = { { "w1", TENSOR_F32, x, 2, 3 },
		                            { "w2", TENSOR_F64, w, 4, 1 } };
	struct tensor_error e;
	struct matrix m;
	char path[32];
	FILE *f = new_file(path);

	cr_assert_eq(npy_write(f, TENSOR_F32, x, 3, 2), 0);
	fclose(f);
	cr_assert_eq(matrix_read(path, NULL, &m, &e), 0, "%s", e.text);
	cr_assert(m.rows == 3 && m.cols == 2 && m.type == TENSOR_F32);
	cr_assert_eq(memcmp(m.data, x, sizeof(x)), 0);
	free(m.data);
	unlink(path);

	f = new_file(path);
	cr_assert_eq(safetensors_write(f, items, 2), 0);
	fclose(f);
	cr_assert_eq(matrix_read(path, "w2", &m, &e), 0, "%s", e.text);
	cr_assert(m.rows == 4 && m.cols == 1 && m.type == TENSOR_F64);
	cr_assert_eq(memcmp(m.data, w, sizeof(w)), 0);
	free(m.data);
	cr_assert_eq(matrix_read(path, "w3", &m, &e), -1);
	unlink(path);
}

Test(files, columns_first_is_turned_around)
{
	static const float by_columns[6] = { 1, 4, 2, 5, 3, 6 }, by_rows[6] = { 1, 2, 3, 4, 5, 6 };
	uint8_t file[512];
	size_t len = npy_file(file, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
	                      sizeof(by_rows));
	struct tensor_error e;
	struct matrix m;
	char path[32];
	FILE *f = new_file(path);

	memcpy(file + len - sizeof(by_columns), by_columns, sizeof(by_columns));
	cr_assert_eq(fwrite(file, len, 1, f), 1);
	fclose(f);
	cr_assert_eq(matrix_read(path, NULL, &m, &e), 0, "%s", e.text);
	cr_assert(m.rows == 2 && m.cols == 3);
	cr_assert_eq(memcmp(m.data, by_rows, sizeof(by_rows)), 0);
	free(m.data);
	unlink(path);
}

Test(files, refuses_what_is_no_matrix)
{
	static const char *const headers[] = { NPY("(12,)"), NPY("(1, 3, 4)"), NPY("(0, 4)"),
		                               NPY("()") };
	uint8_t file[512];

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		size_t len = npy_file(file, headers[i], 48);
		struct tensor_error e;
		struct matrix m;
		char path[32];
		FILE *f = new_file(path);

		cr_assert_eq(fwrite(file, len, 1, f), 1);
		fclose(f);
		assert_reason(matrix_read(path, NULL, &m, &e), &e, "not a matrix", headers[i]);
		unlink(path);
	}
}

Test(files, names_what_cannot_be_opened)
{
	struct tensor_error e;
	struct matrix m;

	assert_reason(matrix_read("/nonexistent/x.npy", NULL, &m, &e), &e, "No such file", "path");
	assert_reason(matrix_read("/tmp", NULL, &m, &e), &e, "regular file", "directory");
}
