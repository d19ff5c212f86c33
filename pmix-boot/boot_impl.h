/*
 * boot_impl.h - what the kinds of bootstrap share: whether PMIx is built in, and
 * a small list of records.
 *
 * A packed list of records is a sequence of
 *   OFFSET SIZE MEANING
 *   0      4    length of the key, without a NUL
 *   4      8    length of the value
 *   12     ...  key, value
 * in the byte order and without the alignment of the machine.
 */
#ifndef PMIX_BOOT_BOOT_IMPL_H
#define PMIX_BOOT_BOOT_IMPL_H

#include "pmix-boot/boot.h"

#ifdef HAVE_PMIX
#define BOOT_HAS_PMIX 1
#else
#define BOOT_HAS_PMIX 0
#endif

/* Grows only; a later record of a key hides an earlier one. Zeroed at the start. */
struct records {
	unsigned char *bytes;
	size_t len, cap;
};

int records_put(struct records *r, const char *key, const void *value, size_t len);
/* *value points into r. False: no such key, or the bytes are damaged. */
bool records_find(const struct records *r, const char *key, const void **value, size_t *len);
void records_free(struct records *r);

/* Copies a found value out as boot_get promises; rank and key are for the message. */
int boot_copy_out(int rank, const char *key, const void *found, size_t found_len, void *value,
                  size_t *len);
/* boot_node_size of a map such as "(vector,(0,2,8))": 2 nodes from number 0 on have 8 ranks each.
 */
int boot_map_node_size(const char *map, int ranks);
/* EBOOT: rank has put no such key. */
int boot_no_key(int rank, const char *key);
/* b->local := a copy of n ascending ranks. */
int boot_set_local(struct boot *b, const int *local, int n);
/* b->host := this machine's name. */
void boot_set_host(struct boot *b);

#endif
