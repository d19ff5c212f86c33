/*
 * bare.c - the least that a large allgather or allreduce of two ranks can cost,
 * or a small bcast: the same copies (and sums) without a library, timed as
 * bench/coll.h times all sides.
 *
 * usage: bare FILE 2 allgather|allreduce|bcast MILLISECONDS BYTES...
 *
 * The ranks are this process and its child. In malloc'd buffers the copies are
 * made by process_vm_writev; the side's own memory is shared, there they are
 * made by memcpy. A rank says where its result belongs and that it may be
 * written, copies, and says that it has. allreduce: each rank sums one half,
 * and the scratch that the other's half is put into is always shared.
 */
#include "bench/coll.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define SPAN ((size_t)128 << 20) /* shared memory of a rank: only what is touched is there */

/* What one rank tells the other. Lines of their own, as both sides write. */
struct cell {
	_Alignas(COLL_LINE) uint64_t ready;
	char *out;
	_Alignas(COLL_LINE) uint64_t summed;
	_Alignas(COLL_LINE) uint64_t done;
	_Alignas(COLL_LINE) uint64_t came;
	char data[COLL_LINE - sizeof(uint64_t)];
};

/* The ranks' shared memory: the cell, scratch, and what get gives. */
static char *span[2];
static pid_t pid[2];
static size_t given;
static int me;
static uint64_t calls;

static struct cell *
cell_of(int rank)
{
	return (struct cell *)span[rank];
}

static char *
scratch_of(int rank)
{
	return span[rank] + COLL_PAGE;
}

static int
is_shared(const char *p)
{
	return p >= span[me] && p < span[me] + SPAN;
}

static void
await(const uint64_t *word)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < calls)
		;
}

static void
say(uint64_t *word)
{
	__atomic_store_n(word, calls, __ATOMIC_RELEASE);
}

/* Into the peer's memory, at an address of the peer's. */
static int
copy(char *to, const char *from, size_t len)
{
	if (is_shared(from)) {
		memcpy(to, from, len);
		return 0;
	}
	for (size_t done = 0; done < len;) {
		struct iovec mine = { (void *)(uintptr_t)(from + done), len - done };
		struct iovec theirs = { to + done, len - done };
		ssize_t n = process_vm_writev(pid[1 - me], &mine, 1, &theirs, 1, 0);

		if (n <= 0) {
			fprintf(stderr, "bare: process_vm_writev: %s\n", strerror(errno));
			return 1;
		}
		done += (size_t)n;
	}
	return 0;
}

/* 32 bytes at a time, whatever the compiler makes of plain loops. */
typedef float vector __attribute__((vector_size(32), aligned(4), may_alias));

static void
sum(char *out, const char *a, const char *b, size_t len)
{
	const vector *x = (const void *)a, *y = (const void *)b;
	vector *z = (void *)out;

	for (size_t i = 0; i < len / sizeof(*z); i++)
		z[i] = x[i] + y[i];
}

static int
allgather(const char *in, char *out, size_t len)
{
	struct cell *mine = cell_of(me), *peer = cell_of(1 - me);
	size_t at = (size_t)me * len;

	await(&peer->ready);
	if (copy(peer->out + at, in, len))
		return 1;
	say(&mine->done);
	memcpy(out + at, in, len);
	await(&peer->done);
	return 0;
}

static int
allreduce(const char *in, char *out, size_t len)
{
	struct cell *mine = cell_of(me), *peer = cell_of(1 - me);
	size_t half = len / 2, at = me ? half : 0;

	await(&peer->ready);
	memcpy(scratch_of(1 - me), in + (half - at), half);
	say(&mine->summed);
	await(&peer->summed);
	sum(out + at, in + at, scratch_of(me), half);
	if (copy(peer->out + at, out + at, half))
		return 1;
	say(&mine->done);
	await(&peer->done);
	return 0;
}

/* Through shared memory: one line with the word that says so, if it fits there. */
static void
bcast(const char *in, char *out, size_t len)
{
	struct cell *cell = cell_of(1);
	char *between = len <= sizeof(cell->data) ? cell->data : scratch_of(1);

	if (me == 0) {
		memcpy(between, in, len);
		say(&cell->came);
		return;
	}
	await(&cell->came);
	memcpy(out, between, len);
}

static int
call(enum coll_op op, const void *in, void *out, size_t len)
{
	struct cell *mine = cell_of(me);

	calls++;
	if (op == COLL_BCAST) {
		bcast(in, out, len);
		return 0;
	}
	mine->out = out;
	say(&mine->ready);
	return op == COLL_ALLGATHER ? allgather(in, out, len) : allreduce(in, out, len);
}

static void *
get(int own_memory, size_t len)
{
	size_t room = (len + COLL_LINE) / COLL_LINE * COLL_LINE, scratch = SPAN / 4;
	char *memory = scratch_of(me) + scratch + given;

	if (!own_memory)
		return aligned_alloc(COLL_LINE, room);
	if (room > SPAN - COLL_PAGE - scratch - given)
		return NULL;
	given += room;
	return memory;
}

static void
put_back(int own_memory, void *memory)
{
	if (own_memory)
		given = 0; /* all at once: the other buffer is about to follow */
	else
		free(memory);
}

static int
measure(struct coll *c, struct coll_side *side)
{
	bench_pin(me);
	side->me = me;
	return coll_run(c, side);
}

static int
usable(const struct coll *c)
{
	if ((c->d.op != COLL_ALLGATHER && c->d.op != COLL_ALLREDUCE && c->d.op != COLL_BCAST) ||
	    c->d.ranks != 2)
		return 0;
	for (size_t i = 0; i < c->n_sizes; i++)
		if (bench_count(c->sizes[i]) > SPAN / 8)
			return 0;
	return 1;
}

int
main(int argc, char **argv)
{
	struct coll_side side = { "bare", 0, 2, call, NULL, NULL, get, put_back };
	struct coll c = { 0 };
	int err, status;

	if (coll_options(&c, argc, argv) || !usable(&c))
		return coll_usage("bare");
	span[0] = mmap(NULL, 2 * SPAN, PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (span[0] == MAP_FAILED) {
		perror("bare");
		return 1;
	}
	span[1] = span[0] + SPAN;
	/* Where only a process's ancestors may write to its memory, the child must say otherwise.
	 */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pid[0] = getpid();
	pid[1] = fork();
	if (pid[1] < 0) {
		perror("bare");
		return 1;
	}
	me = pid[1] == 0;
	if (me) {
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		_exit(measure(&c, &side));
	}
	err = measure(&c, &side);
	if (waitpid(pid[1], &status, 0) != pid[1] || !WIFEXITED(status) || WEXITSTATUS(status))
		err = 1;
	return err;
}
