#include "pmix-boot/boot_impl.h"

#include <stdlib.h>
#include <string.h>

#define HEAD (sizeof(uint32_t) + sizeof(uint64_t))

int
records_put(struct records *r, const char *key, const void *value, size_t len)
{
	uint32_t key_len = (uint32_t)strlen(key);
	uint64_t value_len = len;
	size_t need = HEAD + key_len + len;
	unsigned char *p;

	if (len > SIZE_MAX / 4 || r->len > SIZE_MAX / 4)
		return fail(ORIEL_ENOMEM, "a record of %zu bytes for key \"%s\"", len, key);
	if (need > r->cap - r->len) {
		size_t cap = 2 * r->cap + need;

		p = realloc(r->bytes, cap);
		if (!p)
			return fail(ORIEL_ENOMEM, "%zu bytes for this rank's records", cap);
		r->bytes = p;
		r->cap = cap;
	}
	p = r->bytes + r->len;
	memcpy(p, &key_len, sizeof(key_len));
	memcpy(p + sizeof(key_len), &value_len, sizeof(value_len));
	memcpy(p + HEAD, key, key_len);
	if (len)
		memcpy(p + HEAD + key_len, value, len);
	r->len += need;
	return 0;
}

bool
records_find(const struct records *r, const char *key, const void **value, size_t *len)
{
	size_t want = strlen(key), at = 0;
	bool found = false;

	while (r->len - at >= HEAD) {
		const unsigned char *p = r->bytes + at;
		uint32_t key_len;
		uint64_t value_len;

		memcpy(&key_len, p, sizeof(key_len));
		memcpy(&value_len, p + sizeof(key_len), sizeof(value_len));
		if (key_len > r->len - at - HEAD || value_len > r->len - at - HEAD - key_len)
			return false;
		if (key_len == want && !memcmp(p + HEAD, key, want)) {
			*value = p + HEAD + key_len;
			*len = value_len;
			found = true;
		}
		at += HEAD + key_len + value_len;
	}
	return found;
}

void
records_free(struct records *r)
{
	free(r->bytes);
	*r = (struct records){ 0 };
}
