/*
 * gpu_mem.h - memory of GPUs: the device pool, and how ranks of the node reach each
 * other's.
 *
 * An owner describes memory (gpu_describe), the description travels, and a peer maps
 * it (gpu_map). The pool's slabs are given away as file descriptors, each mapped once
 * a peer and kept; where that is not possible, and for memory that the application
 * has allocated with cudaMalloc, as cudaIpc handles, opened when they are needed and
 * kept for a while.
 *
 * Addresses are the driver's: nothing here reads or writes device memory. What is
 * mapped must not be unmapped or closed while copies run: gpu_unmap comes after the
 * last one.
 *
 * Some calls of the driver wait for everything that stands in the device's streams
 * (measured: cuMemFree, cuIpcCloseMemHandle, cuMemHostUnregister, cuMemFreeHost), where
 * something may wait for a word that only a peer, or this thread, writes. None of them
 * is made here but by gpu_tidy and when peers, slabs and the GPU are closed. Another
 * thread is no way out: copies that it enqueues meanwhile are held up, too.
 *
 * Any thread may call. mem->lock is held during calls of the driver, and inside it
 * no other lock is taken; it counts as rank 4 (ctx.h).
 */
#ifndef RMA_GPU_MEM_H
#define RMA_GPU_MEM_H

#include "rma/gpu_cuda.h"
#include "rma/peer.h"

#define GPU_DEVICES 64   /* of a process */
#define GPU_DESCRIBED 64 /* allocations whose description is kept */
#define GPU_IDLE 64      /* what to let gpu_tidy keep where windows come and go */

/* ---- The device pool: gpu_pool.c ---- */

struct gpu_mem {
	pthread_mutex_t lock;
	bool by_fd; /* slabs are shared by file descriptor; else by cudaIpc */
	char why[160];
	bool shared_process; /* ranks of the node live in this process */
	CUstream chores;     /* zeroing: the other streams may wait for peers */
	int n_devices;
	CUuuid uuid[GPU_DEVICES];
	bool reachable[GPU_DEVICES];    /* by this context's device */
	CUcontext enabled[GPU_DEVICES]; /* retained: access to their cudaMalloc memory is enabled */
	struct described *described;    /* gpu_where.c: the newest so many */
	uint64_t n_described;
	struct opened *opened; /* gpu_where.c: in no order */
	unsigned n_idle;
	uint64_t clock; /* of openings */
};

/* Of gpu_open and gpu_free, within gpu_enter. After an error close is called, too. */
int gpu_mem_open(struct gpu *g);
void gpu_mem_close(struct gpu *g);
/* Makes memory of another device of this process usable on ours. ENOTSUP: it cannot be. */
int gpu_reach(struct gpu *g, int dev);
/* The number here of a device; -1: this process does not see it. */
int gpu_by_uuid(const struct gpu *g, const void *uuid);

enum gpu_kind {
	GPU_HOST = 0, /* memory that the driver does not know */
	GPU_PINNED,   /* host memory that it does */
	GPU_DEVICE,   /* the context's device can use it */
	GPU_FAR       /* memory of a device that it cannot reach */
};
/* *dev, unless it is NULL: the device that holds device memory. */
enum gpu_kind gpu_kind(struct gpu *g, const void *p, int *dev);

/* ---- Where memory is, for peers: gpu_where.c ---- */

enum gpu_where_kind { GPU_WHERE_NONE = 0, GPU_WHERE_POOL, GPU_WHERE_IPC };

struct gpu_where {        /* plain data: for messages and the control slab */
	uint32_t kind;    /* enum gpu_where_kind */
	uint32_t slab;    /* POOL: its number */
	uint64_t addr;    /* in the owner's process */
	uint64_t offset;  /* the same, in the slab or allocation */
	uint64_t size;    /* of that */
	uint64_t buffer;  /* IPC: the allocation's number, which the process never uses again */
	uint8_t uuid[16]; /* of the device that holds it */
	uint8_t handle[CU_IPC_HANDLE_SIZE]; /* IPC */
};

/*
 * ENOTSUP: memory that cannot be given to other processes, and the detail says what
 * to use. EINVAL: no device memory, or not of one allocation.
 */
int gpu_describe(struct gpu *g, const void *p, size_t len, struct gpu_where *out);
/*
 * The address, for this context's device, of len bytes from where on, which is memory
 * of a peer of the node (or of this rank itself: NULL). Each success wants a gpu_unmap.
 * Errors: EPEER, ENOTSUP, ENOMEM, ETRANSPORT, EGPU.
 */
int gpu_map(struct gpu *g, struct peer *peer, const struct gpu_where *where, size_t len,
            CUdeviceptr *out);
void gpu_unmap(struct gpu *g, CUdeviceptr p);
/*
 * Closes allocations of peers that nobody has mapped any more: those that the peer has
 * freed, and of the rest all but the keep that were used last. While they are open here
 * the peer's GPU has them in use. It waits for everything that stands in the device's
 * streams: only for callers that may wait for peers, and with no lock that others need.
 */
void gpu_tidy(struct gpu *g, unsigned keep);

/* ---- Host memory for streams: gpu_host.c ---- */

/*
 * The address, for streams, of host memory in a pool slab: this rank's own (peer NULL)
 * or one that peer_map has mapped here. For words that streams write and wait for: it
 * is pinned in pieces of CTL_PIN_CHUNK, and no single copy may go across two. The
 * answer holds as long as the slab does: keep it.
 */
int gpu_host(struct gpu *g, struct peer *peer, const void *p, size_t len, CUdeviceptr *out);
/* Before a slab of host memory is unmapped. */
void gpu_host_forget(const void *base);

#endif
