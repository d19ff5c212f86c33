/*
 * ranges.h - what the stand-in knows of memory: ranges of addresses, and the memory
 * files behind those of devices.
 */
#ifndef SIM_CUDA_RANGES_H
#define SIM_CUDA_RANGES_H

#include "sim/cuda/standin.h"

struct backing { /* what a CUmemGenericAllocationHandle is */
	int fd, device;
	size_t size;
	uint32_t refs;
};

/* Of cuMemAlloc, of cuMemMap, from another process, pinned, registered. */
enum range_kind { PLAIN, MAPPED, OPENED, PINNED, REGISTERED };

struct range {
	uintptr_t at;
	size_t len;
	enum range_kind kind;
	struct backing *backing; /* NULL: host memory */
	char *shadow;            /* where the stand-in, or the host, finds it */
	uint32_t access; /* bit d: device d may; but for MAPPED also those that enabled it */
	uint64_t id;     /* never used again */
	unsigned opened; /* times */
};

/* All, by address; the functions below want the lock where they say so. */
extern struct ranges {
	pthread_rwlock_t lock;
	struct range *r;
	size_t n, cap;
	uint64_t last_id;
} ranges;

/* The range that at is in, or NULL. Locked. */
struct range *ranges_find(uintptr_t at);
/* Locked for writing. */
void ranges_erase(struct range *r);
/* False: another one is there, or there is no memory. */
bool ranges_add(const struct range *r);
/* The range of this kind that begins there: *out has it, the list no more. */
bool ranges_take(uintptr_t at, enum range_kind kind, struct range *out);

/* A memory file, or fd as one, which it owns from now on. NULL: none. */
struct backing *backing_new(int device, size_t size);
struct backing *backing_of(int fd, int device, size_t size);
void backing_get(struct backing *b);
void backing_put(struct backing *b);
uint64_t backing_inode(int fd);
/* The device whose memory the file is; -1: it is no such file. */
int backing_device(int fd);

/* Addresses that nobody can touch, with a guard page at each end. 0: there are none. */
uintptr_t range_reserve(size_t len, size_t align);
void range_unreserve(uintptr_t at, size_t len);
/* A range at addresses that are reserved already; a reference of b becomes the range's. */
bool range_map(uintptr_t at, size_t len, struct backing *b, size_t offset, enum range_kind kind,
               uint32_t access);
/* After ranges_take. */
void range_unmap(struct range *r);
/* A new range of b from its start on, whose reference it takes, or drops on failure. */
CUresult range_map_anywhere(CUdeviceptr *out, struct backing *b, size_t len, enum range_kind kind,
                            uint32_t access);

#endif
