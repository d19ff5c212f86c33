/*
 * ranges.c - device memory: a memory file, of which the program sees an address
 * range that it cannot touch, and the stand-in a mapping of its own. Ranges of
 * pinned and of registered host memory are kept in the same list.
 */
#include "sim/cuda/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define PLAIN_ALIGN ((size_t)256)
#define BACKING_NAME "stand-in.%d"

struct ranges ranges = { .lock = PTHREAD_RWLOCK_INITIALIZER };

/* The index of the first range that ends behind at. */
static size_t
search(uintptr_t at)
{
	size_t low = 0, high = ranges.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges.r[mid].at + ranges.r[mid].len <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct range *
ranges_find(uintptr_t at)
{
	size_t i = search(at);

	return i < ranges.n && ranges.r[i].at <= at ? &ranges.r[i] : NULL;
}

/* Under the lock. */
static bool
insert(const struct range *r)
{
	size_t i = search(r->at);

	if (i < ranges.n && ranges.r[i].at < r->at + r->len)
		return false;
	if (ranges.n == ranges.cap) {
		size_t cap = ranges.cap ? 2 * ranges.cap : 64;
		struct range *more = realloc(ranges.r, cap * sizeof(*more));

		if (!more)
			return false;
		ranges.r = more;
		ranges.cap = cap;
	}
	memmove(&ranges.r[i + 1], &ranges.r[i], (ranges.n - i) * sizeof(*r));
	ranges.n++;
	ranges.r[i] = *r;
	ranges.r[i].id = ++ranges.last_id;
	return true;
}

void
ranges_erase(struct range *r)
{
	ranges.n--;
	memmove(r, r + 1, (size_t)(&ranges.r[ranges.n] - r) * sizeof(*r));
}

bool
ranges_add(const struct range *r)
{
	bool good;

	pthread_rwlock_wrlock(&ranges.lock);
	good = insert(r);
	pthread_rwlock_unlock(&ranges.lock);
	return good;
}

bool
ranges_take(uintptr_t at, enum range_kind kind, struct range *out)
{
	struct range *r;
	bool found;

	pthread_rwlock_wrlock(&ranges.lock);
	r = ranges_find(at);
	found = r && r->at == at && r->kind == kind;
	if (found) {
		*out = *r;
		ranges_erase(r);
	}
	pthread_rwlock_unlock(&ranges.lock);
	return found;
}

static bool
may_access(const struct range *r, const struct device *dev)
{
	uint32_t bit = UINT32_C(1) << dev->id;

	if (!r->backing || (r->access & bit))
		return true;
	return r->kind != MAPPED &&
	       (__atomic_load_n(&dev->peers, __ATOMIC_ACQUIRE) >> r->backing->device & 1);
}

void *
standin_host_of(const struct device *dev, CUdeviceptr p, size_t len, bool known)
{
	void *host = known ? NULL : (void *)(uintptr_t)p;
	size_t i;

	pthread_rwlock_rdlock(&ranges.lock);
	i = search((uintptr_t)p);
	if (i < ranges.n && ranges.r[i].at < p + len) {
		const struct range *r = &ranges.r[i];
		bool inside = r->at <= p && p + len <= r->at + r->len;

		host = inside && may_access(r, dev) ? r->shadow + (p - r->at) : NULL;
	}
	pthread_rwlock_unlock(&ranges.lock);
	return host;
}

int
standin_home(CUdeviceptr p)
{
	const struct range *r;
	int home = -1;

	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	if (r && r->backing)
		home = r->backing->device;
	pthread_rwlock_unlock(&ranges.lock);
	return home;
}

bool
standin_knows(CUdeviceptr p)
{
	bool known;

	pthread_rwlock_rdlock(&ranges.lock);
	known = ranges_find((uintptr_t)p) != NULL;
	pthread_rwlock_unlock(&ranges.lock);
	return known;
}

bool
standin_is_pinned(CUdeviceptr p)
{
	const struct range *r;
	bool pinned;

	pthread_rwlock_rdlock(&ranges.lock);
	r = ranges_find((uintptr_t)p);
	pinned = r && !r->backing;
	pthread_rwlock_unlock(&ranges.lock);
	return pinned;
}

/* ---- Memory files ---- */

struct backing *
backing_of(int fd, int device, size_t size)
{
	struct backing *b = fd < 0 ? NULL : calloc(1, sizeof(*b));

	if (!b) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*b = (struct backing){ .fd = fd, .device = device, .size = size, .refs = 1 };
	return b;
}

struct backing *
backing_new(int device, size_t size)
{
	char name[32];
	int fd;

	/* Who is given the file reads the device from its name. */
	snprintf(name, sizeof(name), BACKING_NAME, device);
	fd = memfd_create(name, MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)size)) {
		close(fd);
		fd = -1;
	}
	return backing_of(fd, device, size);
}

void
backing_get(struct backing *b)
{
	__atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
}

void
backing_put(struct backing *b)
{
	if (__atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL))
		return;
	close(b->fd);
	free(b);
}

int
backing_device(int fd)
{
	char path[64], name[64];
	int device = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return -1;
	name[n] = '\0';
	return sscanf(name, "/memfd:" BACKING_NAME, &device) == 1 ? device : -1;
}

uint64_t
backing_inode(int fd)
{
	struct stat s;

	return fstat(fd, &s) ? 0 : s.st_ino;
}

uintptr_t
range_reserve(size_t len, size_t align)
{
	size_t room = len + align + 2 * PAGE;
	char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t at, end;

	if (p == MAP_FAILED)
		return 0;
	at = ((uintptr_t)p + PAGE + align - 1) & ~(uintptr_t)(align - 1);
	end = at + ((len + PAGE - 1) & ~(PAGE - 1)) + PAGE;
	munmap(p, at - PAGE - (uintptr_t)p);
	if ((uintptr_t)p + room > end)
		munmap((void *)end, (uintptr_t)p + room - end);
	return at;
}

void
range_unreserve(uintptr_t at, size_t len)
{
	uintptr_t begin = (at & ~(PAGE - 1)) - PAGE, end = (at + len + PAGE - 1) & ~(PAGE - 1);

	munmap((void *)begin, end + PAGE - begin);
}

bool
range_map(uintptr_t at, size_t len, struct backing *b, size_t offset, enum range_kind kind,
          uint32_t access)
{
	struct range r = { .at = at, .len = len, .kind = kind, .backing = b, .access = access };

	r.opened = 1;
	r.shadow = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, (off_t)offset);
	if (r.shadow == MAP_FAILED)
		return false;
	if (ranges_add(&r))
		return true;
	munmap(r.shadow, len);
	return false;
}

void
range_unmap(struct range *r)
{
	munmap(r->shadow, r->len);
	backing_put(r->backing);
}

CUresult
range_map_anywhere(CUdeviceptr *out, struct backing *b, size_t len, enum range_kind kind,
                   uint32_t access)
{
	/* Nobody promises more than this of cuMemAlloc; small ones do come so. The same for the
	 * same size, so that freed memory is soon seen again. */
	size_t odd = kind == PLAIN ? len / 7 % (PAGE / PLAIN_ALIGN) * PLAIN_ALIGN : 0;
	uintptr_t at = range_reserve(odd + len, GRANULARITY);

	at += at ? odd : 0;
	if (at && range_map(at, len, b, 0, kind, access)) {
		*out = at;
		return CUDA_SUCCESS;
	}
	if (at)
		range_unreserve(at, len);
	backing_put(b);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
