#include "alloc/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shared memory of the size, sealed so that no peer can cut it short under our feet. */
static int
open_memory(const char *name, size_t size, int *out)
{
	int rc, fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return fail_errno(ORIEL_ENOMEM, errno, "memfd_create for a slab of %zu bytes",
		                  size);
	if (ftruncate(fd, (off_t)size)) {
		rc = fail_errno(ORIEL_ENOMEM, errno, "ftruncate of a slab to %zu bytes", size);
		goto close_fd;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		rc = fail_errno(ORIEL_ENOMEM, errno, "sealing a slab's size");
		goto close_fd;
	}
	*out = fd;
	return 0;
close_fd:
	close(fd);
	return rc;
}

/* Maps fd at a multiple of POOL_SLAB_ALIGN: a bit more is reserved, and its ends given back. */
static int
map_aligned(int fd, size_t size, char **out)
{
	size_t room = size + POOL_SLAB_ALIGN, front;
	char *base, *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	                      -1, 0);

	if (p == MAP_FAILED)
		return fail_errno(ORIEL_ENOMEM, errno, "no address space for a slab of %zu bytes",
		                  size);
	front = round_up((uintptr_t)p, POOL_SLAB_ALIGN) - (uintptr_t)p;
	base = p + front;
	if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		int err = errno;

		munmap(p, room);
		return fail_errno(ORIEL_ENOMEM, err, "mmap of a slab of %zu bytes", size);
	}
	if (front)
		munmap(p, front);
	if (room - front > size)
		munmap(base + size, room - front - size);
	*out = base;
	return 0;
}

int
memfd_make(void *name, size_t size, struct slab *slab)
{
	int rc = open_memory(name, size, &slab->fd);

	if (rc)
		return rc;
	rc = map_aligned(slab->fd, size, &slab->base);
	if (rc)
		close(slab->fd);
	return rc;
}

void
memfd_drop(void *arg, struct slab *slab)
{
	(void)arg;
	munmap(slab->base, slab->size);
	close(slab->fd);
}

/* Drops the pages that lie wholly in the range and zeroes the rest of it; false if it cannot. */
static bool
hole(const struct slab *slab, size_t offset, size_t len)
{
	int rc;

	do
		rc = fallocate(slab->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		               (off_t)len);
	while (rc && errno == EINTR);
	return !rc;
}

void
memfd_punch(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	(void)arg;
	if (len && !hole(slab, offset, len))
		log_at(LOG_WARN, "pool: pages of slab %u cannot be given back (errno %d)", slab->id,
		       errno);
}

int
memfd_zero(void *arg, const struct slab *slab, size_t offset, size_t len)
{
	(void)arg;
	if (len < POOL_PUNCH_MIN || !hole(slab, offset, len))
		memset(slab->base + offset, 0, len);
	return 0;
}

const struct pool_source memfd_source = {
	.make = memfd_make,
	.drop = memfd_drop,
	.punch = memfd_punch,
	.zero = memfd_zero,
	.fresh_is_zero = true,
};
