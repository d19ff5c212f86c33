/*
 * standin.h - a stand-in for the CUDA driver, libcuda.so.1, on machines without a
 * GPU: the functions of cuda.h that Oriel and its tests call, with the semantics of
 * the documentation and, by default, the worst of what it permits.
 *
 * - A device pointer is an address that the host may not touch; behind it lies a
 *   memory file that other processes can be given. Ranges have guard pages.
 * - A device has CUDA_DEVICE_MAX_CONNECTIONS (8) hardware queues, each a thread. A
 *   stream uses one of them, and streams that share one wait for one another.
 * - Every op may start late, and branches of a graph run in any order.
 * - Kernels are C functions, known by name. They, and copies and fills inside a
 *   device, need multiprocessors; copies between devices and to the host do not.
 *
 * Knobs of the environment:
 *   STANDIN_DEVICES=N        devices (2)
 *   STANDIN_DELAY_US=N       the longest delay of an op (50; 0: none)
 *   STANDIN_SEED=N           of the delays (1)
 *   STANDIN_FAIL=NAME:N[:E]  the N-th call of function NAME returns error E (999)
 *   STANDIN_FAIL=op:N[:E]    the N-th op that runs breaks the device (700)
 */
#ifndef SIM_CUDA_STANDIN_H
#define SIM_CUDA_STANDIN_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DEVICES 8
#define MAX_QUEUES 32
#define MULTIPROCESSORS 4
#define ARGUMENT_WORDS 40 /* of a kernel, all together */
#define GRANULARITY ((size_t)2 << 20)

struct CUctx_st {
	struct device *dev;
};

struct device {
	int id;
	struct CUctx_st primary;
	int retained;
	uint32_t peers;  /* bit d: access to device d's cuMemAlloc memory is enabled */
	uint32_t broken; /* CUresult of what broke it; everything fails with it */
	uint32_t free_multiprocessors;
	struct hw_queue *queue[MAX_QUEUES];
	unsigned n_queues, next_queue;
	struct CUstream_st *streams; /* all that exist */
	struct CUstream_st *legacy;  /* the NULL stream */
};

/* ---- device.c ---- */

/* NULL: none is current. */
struct device *standin_current(void);
struct device *standin_device(int id);
int standin_devices(void);
uint64_t standin_random(void);
uint64_t standin_knob(const char *name, uint64_t def);
uint64_t standin_now_ns(void);
/* What call number N of function name is to return, or CUDA_SUCCESS. */
CUresult standin_injected(const char *name);

/* Each function begins with it: the state of the driver, and injected errors. */
#define ENTER()                                                                                    \
	do {                                                                                       \
		CUresult entered = standin_enter(__func__);                                        \
		if (entered)                                                                       \
			return entered;                                                            \
	} while (0)
CUresult standin_enter(const char *name);
/* The same, and a context must be current, whose device is not broken. */
#define ENTER_CONTEXT(dev)                                                                         \
	struct device *dev;                                                                        \
	do {                                                                                       \
		CUresult entered = standin_enter_context(__func__, &dev);                          \
		if (entered)                                                                       \
			return entered;                                                            \
	} while (0)
CUresult standin_enter_context(const char *name, struct device **dev);
/* The same of what a thread that captures may not do. */
#define ENTER_UNCAPTURED(dev)                                                                      \
	ENTER_CONTEXT(dev);                                                                        \
	do {                                                                                       \
		CUresult forbidden = standin_capture_forbids();                                    \
		if (forbidden)                                                                     \
			return forbidden;                                                          \
	} while (0)

/* ---- memory.c ---- */

/* Where the host finds len bytes of what p is: device memory that dev may access, or the host's;
 * known: the driver must know it. NULL: an illegal address. */
void *standin_host_of(const struct device *dev, CUdeviceptr p, size_t len, bool known);
/* The driver knows the memory, of a device or the host. */
bool standin_knows(CUdeviceptr p);
/* The device that holds p; -1: the host. */
int standin_home(CUdeviceptr p);
/* Host memory that the driver knows. */
bool standin_is_pinned(CUdeviceptr p);

/* ---- op.c ---- */

struct mark { /* one recording of an event */
	uint32_t refs, done;
	uint64_t at_ns;
};
struct mark *standin_mark_new(void);
struct mark *standin_mark_get(struct mark *m);
void standin_mark_put(struct mark *m);

enum op_kind {
	OP_COPY,
	OP_FILL,
	OP_WRITE,
	OP_AWAIT,
	OP_MARK,
	OP_AFTER,
	OP_KERNEL,
	OP_HOST,
	OP_GRAPH
};

struct wanted { /* ops of a stream that must be done; the last one's is NULL */
	struct CUstream_st *stream;
	uint64_t done;
};

struct op {
	enum op_kind kind;
	struct device *dev;
	CUdeviceptr dst, src;
	bool knows_dst, knows_src; /* when it was enqueued, what stood there */
	size_t len;
	uint64_t value;
	unsigned flags, bytes; /* await, write; fill: width */
	struct mark *mark;
	const struct kernel *kernel;
	unsigned blocks, threads; /* of a kernel: the grid, and each block */
	unsigned held;            /* multiprocessors */
	uint64_t argument[ARGUMENT_WORDS];
	uint64_t state[4]; /* the kernel's own, 0 when it begins */
	CUhostFn fn;
	void *fn_arg;
	struct graph_run *run;
	/* Of the queue: */
	uint64_t not_before;
	struct CUstream_st *stream;
	uint64_t after_legacy;    /* so many ops of the legacy stream must be done */
	struct wanted *after_all; /* of the legacy stream's own; or NULL */
	struct op *next;
};

/* True: it is done; false: it has to wait. *error: it has broken its device. */
bool standin_try(struct op *op, CUresult *error);
/* NULL: no memory. */
struct op *standin_op_copy(const struct op *op);
void standin_op_free(struct op *op);

/* ---- queue.c ---- */

struct CUstream_st {
	struct device *dev;
	struct hw_queue *queue;
	bool blocking; /* waits for the legacy stream, and it for this one */
	bool gone;     /* destroyed; used again when its last op is done */
	uint64_t issued, done;
	struct capture *capture; /* NULL: it runs what it is given */
	struct node_set *after;  /* captured nodes that the next one comes after */
	struct CUstream_st *next;
};

struct CUstream_st *standin_stream_new(struct device *dev, bool blocking);
/* The stream that a handle means on the current device; NULL: no such thing. */
struct CUstream_st *standin_stream(struct device *dev, CUstream handle);
/* A copy of op goes to the end of the stream, or into its capture. */
CUresult standin_enqueue(struct CUstream_st *s, const struct op *op);
/* The op itself, which is freed in any case. */
CUresult standin_submit(struct CUstream_st *s, struct op *op);
CUresult standin_drain(struct CUstream_st *s);
/* Everything of the device. */
CUresult standin_drain_device(struct device *dev);
/* When the next op may begin. */
uint64_t standin_due(void);

/* ---- event.c ---- */

struct CUevent_st {
	struct mark *mark; /* NULL: never recorded */
	/* In a capture: */
	struct capture *capture;
	struct node_set *after;
};

/* ---- graph.c ---- */

/* The stream is captured, so it cannot be asked whether it is done; the capture is spoilt. */
CUresult standin_capture_asked(struct CUstream_st *s);
/* Nor may a thread that captures make and free memory, or wait for a device. */
CUresult standin_capture_forbids(void);

CUresult standin_capture(struct CUstream_st *s, const struct op *op);
CUresult standin_capture_record(struct CUstream_st *s, CUevent event);
CUresult standin_capture_wait(struct CUstream_st *s, CUevent event);
void standin_capture_forget(CUevent event);
bool standin_graph_try(struct graph_run *run, CUresult *error);
void standin_graph_run_free(struct graph_run *run);

/* ---- kernel.c; kernel.h adds more ---- */

struct kernel {
	const char *name;
	unsigned n_args;
	size_t arg_size[8]; /* each begins at a word of op->argument, ARGUMENT_WORDS in all */
	/* True: done. False: it has to be called again. */
	bool (*run)(struct op *op, CUresult *error);
};

#endif
