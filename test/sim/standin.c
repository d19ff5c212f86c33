/*
 * standin.c - the stand-in for the CUDA driver keeps what the documentation
 * promises, and does not keep what it does not.
 */
#include "sim/cuda/standin.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GOOD(call) cr_assert_eq(call, CUDA_SUCCESS, "%s", #call)
#define N ((size_t)1 << 20)

static CUcontext ctx[2];

/* Both devices, which may use each other's memory; the first is current. */
static void
begin(void)
{
	GOOD(cuInit(0));
	for (int d = 0; d < 2; d++)
		GOOD(cuDevicePrimaryCtxRetain(&ctx[d], d));
	for (int d = 1; d >= 0; d--) {
		GOOD(cuCtxSetCurrent(ctx[d]));
		GOOD(cuCtxEnablePeerAccess(ctx[!d], 0));
	}
	cr_assert_eq(cuCtxEnablePeerAccess(ctx[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

static CUdeviceptr
memory_of(int device, size_t len)
{
	CUdeviceptr p = 0;

	GOOD(cuCtxPushCurrent(ctx[device]));
	GOOD(cuMemAlloc(&p, len));
	GOOD(cuCtxPopCurrent(NULL));
	return p;
}

static void *
pinned(size_t len)
{
	void *p = NULL;

	GOOD(cuMemHostAlloc(&p, len, 0));
	memset(p, 0, len);
	return p;
}

static CUstream
stream(void)
{
	CUstream s = NULL;

	GOOD(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

/* What a stream has not done after a while it does not do. */
static void
assert_stuck(CUstream s)
{
	nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
	cr_assert_eq(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
}

Test(standin, copies_there_across_and_back)
{
	unsigned char *in, *out;
	CUdeviceptr a, b;
	CUstream s;

	begin();
	a = memory_of(0, N);
	b = memory_of(1, N);
	in = pinned(N);
	out = pinned(N);
	s = stream();
	for (size_t i = 0; i < N; i++)
		in[i] = (unsigned char)(i * 7 + (i >> 9));
	GOOD(cuMemcpyHtoDAsync(a, in, N, s));
	GOOD(cuMemcpyAsync(b + 64, a, N - 64, s));
	GOOD(cuMemcpyAsync(b, a + N - 64, 64, s));
	GOOD(cuMemcpyDtoHAsync(out, b, N, s));
	GOOD(cuStreamSynchronize(s));
	cr_assert_eq(memcmp(out, in + N - 64, 64), 0);
	cr_assert_eq(memcmp(out + 64, in, N - 64), 0);
	GOOD(cuMemsetD8Async(a, 9, N, s));
	GOOD(cuStreamSynchronize(s));
	GOOD(cuMemcpyDtoH(out, a, N));
	cr_assert(out[0] == 9 && out[N - 1] == 9);
}

Test(standin, device_memory_is_not_the_hosts, .signal = SIGSEGV)
{
	begin();
	*(volatile char *)(uintptr_t)memory_of(0, 4096) = 1;
}

Test(standin, addresses_are_checked_when_they_are_given)
{
	CUdeviceptr a;
	CUstream s;
	char word[8];

	begin();
	a = memory_of(0, 4096);
	s = stream();
	cr_assert_eq(cuMemcpyAsync(memory_of(0, 64), a + 4092, 8, s), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(cuStreamWriteValue32(s, (uintptr_t)word & ~(uintptr_t)7, 1, 0),
	             CUDA_ERROR_INVALID_VALUE, "memory of the host that is not pinned");
	GOOD(cuMemFree(a));
	cr_assert_eq(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(cuMemcpyDtoH(word, a, 8), CUDA_ERROR_INVALID_VALUE);
	GOOD(cuStreamSynchronize(s));
}

Test(standin, memory_that_is_taken_away_breaks_the_device)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
		                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		                     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemGenericAllocationHandle handle;
	uint32_t *host;
	CUdeviceptr q;
	CUstream s;

	begin();
	host = pinned(64);
	s = stream();
	GOOD(cuMemCreate(&handle, GRANULARITY, &prop, 0));
	GOOD(cuMemAddressReserve(&q, GRANULARITY, 0, 0, 0));
	GOOD(cuMemMap(q, GRANULARITY, 0, handle, 0));
	cr_assert_eq(cuMemcpyAsync(q, memory_of(0, 64), 64, s), CUDA_ERROR_INVALID_VALUE,
	             "nobody has access yet");
	GOOD(cuMemSetAccess(q, GRANULARITY, &access, 1));
	GOOD(cuStreamWaitValue32(s, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ));
	GOOD(cuMemcpyAsync(q, memory_of(0, 64), 64, s));
	GOOD(cuMemUnmap(q, GRANULARITY));
	__atomic_store_n(host, 1, __ATOMIC_RELEASE);
	cr_assert_eq(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
	cr_assert_eq(cuStreamQuery(s), CUDA_ERROR_ILLEGAL_ADDRESS, "it stays broken");
	GOOD(cuMemRelease(handle));
}

Test(standin, words_are_written_and_waited_for)
{
	CUstream one, two;
	CUdeviceptr cell, flag;
	uint64_t *host;

	begin();
	one = stream();
	two = stream();
	host = pinned(64);
	flag = (uintptr_t)host;
	cell = memory_of(0, 64);
	GOOD(cuMemsetD8Async(cell, 0, 64, one));
	GOOD(cuStreamSynchronize(one));
	GOOD(cuStreamWaitValue64(two, cell, 5, CU_STREAM_WAIT_VALUE_GEQ));
	GOOD(cuStreamWriteValue64(two, flag, 1, 0));
	assert_stuck(two);
	GOOD(cuStreamWriteValue64(one, cell, 4, 0));
	assert_stuck(two);
	GOOD(cuStreamWriteValue64(one, cell, 6, 0));
	GOOD(cuStreamSynchronize(two));
	cr_assert_eq(host[0], 1);
	/* A store of the host releases, too; GEQ goes around. */
	GOOD(cuStreamWaitValue64(two, flag + 8, UINT64_MAX - 1, CU_STREAM_WAIT_VALUE_GEQ));
	GOOD(cuStreamWaitValue32(two, flag + 16, 3, CU_STREAM_WAIT_VALUE_EQ));
	__atomic_store_n(&host[1], UINT64_MAX - 2, __ATOMIC_RELEASE);
	assert_stuck(two);
	__atomic_store_n(&host[1], 1, __ATOMIC_RELEASE);
	assert_stuck(two);
	__atomic_store_n((uint32_t *)&host[2], 3, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(two));
	cr_assert_eq(cuStreamWaitValue64(two, flag + 4, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

/* A stream that waits, and a copy between devices in another one. */
static void
wait_and_copy(bool stuck)
{
	CUstream waits, copies;
	uint32_t *host;

	begin();
	host = pinned(4);
	waits = stream();
	copies = stream();
	GOOD(cuStreamWaitValue32(waits, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ));
	GOOD(cuMemcpyAsync(memory_of(1, N), memory_of(0, N), N, copies));
	if (stuck)
		assert_stuck(copies);
	else
		GOOD(cuStreamSynchronize(copies));
	__atomic_store_n(host, 1, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(copies));
	GOOD(cuStreamSynchronize(waits));
}

Test(standin, streams_of_one_connection_hold_each_other_up)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
	wait_and_copy(true);
}

Test(standin, streams_of_two_connections_do_not)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
	wait_and_copy(false);
}

Test(standin, copies_inside_a_device_need_multiprocessors)
{
	CUstream kernel, local, across;
	CUdeviceptr a, flag;
	CUfunction occupy;
	CUmodule module;
	uint32_t *host;
	void *argument;

	begin();
	host = pinned(8);
	flag = (uintptr_t)host;
	argument = &flag;
	kernel = stream();
	local = stream();
	across = stream();
	a = memory_of(0, 2 * N);
	GOOD(cuModuleLoadData(&module, "image"));
	GOOD(cuModuleGetFunction(&occupy, module, "occupy"));
	cr_assert_eq(cuModuleGetFunction(&occupy, module, "none"), CUDA_ERROR_NOT_FOUND);
	GOOD(cuModuleGetFunction(&occupy, module, "occupy"));
	GOOD(cuLaunchKernel(occupy, 1000, 1, 1, 32, 1, 1, 0, kernel, &argument, NULL));
	while (!__atomic_load_n(&host[0], __ATOMIC_ACQUIRE))
		sched_yield();
	GOOD(cuMemcpyAsync(a, a + N, N, local));
	GOOD(cuMemcpyAsync(memory_of(1, N), a, N, across));
	GOOD(cuStreamSynchronize(across));
	assert_stuck(local);
	assert_stuck(kernel);
	__atomic_store_n(&host[1], 1, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(local));
	GOOD(cuStreamSynchronize(kernel));
}

Test(standin, events_order_streams)
{
	CUevent first, last;
	CUstream one, two;
	uint32_t *host;
	float ms = -1;

	begin();
	host = pinned(8);
	one = stream();
	two = stream();
	GOOD(cuEventCreate(&first, 0));
	GOOD(cuEventCreate(&last, 0));
	GOOD(cuEventQuery(first));
	GOOD(cuStreamWaitValue32(one, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ));
	GOOD(cuEventRecord(first, one));
	GOOD(cuStreamWaitEvent(two, first, 0));
	GOOD(cuStreamWriteValue32(two, (uintptr_t)(host + 1), 7, 0));
	GOOD(cuEventRecord(last, two));
	assert_stuck(two);
	cr_assert_eq(cuEventQuery(first), CUDA_ERROR_NOT_READY);
	__atomic_store_n(host, 1, __ATOMIC_RELEASE);
	GOOD(cuEventSynchronize(last));
	cr_assert_eq(__atomic_load_n(host + 1, __ATOMIC_ACQUIRE), 7);
	GOOD(cuEventElapsedTime(&ms, first, last));
	cr_assert_geq(ms, 0.0f);
	GOOD(cuEventDestroy(first));
	GOOD(cuEventDestroy(last));
}

Test(standin, the_null_stream_waits_for_blocking_ones_and_they_for_it)
{
	CUstream blocking, other;
	uint32_t *host;

	begin();
	host = pinned(16);
	GOOD(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	other = stream();
	GOOD(cuStreamWaitValue32(blocking, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ));
	GOOD(cuStreamWriteValue32(NULL, (uintptr_t)(host + 1), 1, 0));
	GOOD(cuStreamWriteValue32(other, (uintptr_t)(host + 2), 1, 0));
	GOOD(cuStreamSynchronize(other));
	assert_stuck(NULL);
	__atomic_store_n(host, 1, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(NULL));
	GOOD(cuStreamWaitValue32(NULL, (uintptr_t)(host + 3), 1, CU_STREAM_WAIT_VALUE_EQ));
	GOOD(cuStreamWriteValue32(blocking, (uintptr_t)(host + 1), 2, 0));
	assert_stuck(blocking);
	__atomic_store_n(host + 3, 1, __ATOMIC_RELEASE);
	GOOD(cuStreamSynchronize(blocking));
}

/* ---- Graphs ---- */

static uint64_t counted;

static void
count(void *arg)
{
	(void)arg;
	counted++;
}

/* Two branches; the one that begins waits for a word that the other one writes. */
Test(standin, branches_of_a_graph_run_side_by_side)
{
	CUevent fork, join;
	CUgraphExec exec;
	CUstream a, b;
	CUgraph graph;
	uint32_t *host;

	setenv("STANDIN_DELAY_US", "10", 1);
	begin();
	host = pinned(8);
	a = stream();
	b = stream();
	GOOD(cuEventCreate(&fork, 0));
	GOOD(cuEventCreate(&join, 0));
	GOOD(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	GOOD(cuStreamWriteValue32(a, (uintptr_t)host, 0, 0));
	GOOD(cuEventRecord(fork, a));
	GOOD(cuStreamWaitEvent(b, fork, 0));
	GOOD(cuStreamWaitValue32(a, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ));
	GOOD(cuLaunchHostFunc(a, count, NULL));
	GOOD(cuStreamWriteValue32(b, (uintptr_t)host, 1, 0));
	GOOD(cuEventRecord(join, b));
	GOOD(cuStreamWaitEvent(a, join, 0));
	GOOD(cuStreamEndCapture(a, &graph));
	cr_assert_eq(counted, 0);
	GOOD(cuGraphInstantiate(&exec, graph, 0));
	GOOD(cuGraphDestroy(graph));
	for (int i = 0; i < 200; i++)
		GOOD(cuGraphLaunch(exec, i % 2 ? a : b));
	GOOD(cuGraphExecDestroy(exec));
	GOOD(cuStreamSynchronize(a));
	GOOD(cuStreamSynchronize(b));
	cr_assert_eq(counted, 200);
	GOOD(cuEventDestroy(fork));
	GOOD(cuEventDestroy(join));
}

/* Two streams are captured, with an op in the second. */
static void
begin_branches(CUstream a, CUstream b, CUevent fork)
{
	GOOD(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	GOOD(cuEventRecord(fork, a));
	GOOD(cuStreamWaitEvent(b, fork, 0));
	GOOD(cuLaunchHostFunc(b, count, NULL));
}

Test(standin, a_branch_that_is_not_joined_is_no_graph)
{
	CUevent fork;
	CUgraph graph;
	CUstream a, b;

	begin();
	a = stream();
	b = stream();
	GOOD(cuEventCreate(&fork, 0));
	begin_branches(a, b, fork);
	cr_assert_eq(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	begin_branches(a, b, fork);
	cr_assert_eq(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	cr_assert_eq(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	cr_assert_eq(cuStreamWaitEvent(a, fork, 0), CUDA_ERROR_INVALID_VALUE, "it is no time");
	/* Both run what they are given again. */
	GOOD(cuLaunchHostFunc(a, count, NULL));
	GOOD(cuLaunchHostFunc(b, count, NULL));
	GOOD(cuStreamSynchronize(a));
	GOOD(cuStreamSynchronize(b));
	cr_assert_eq(counted, 2);
	GOOD(cuEventDestroy(fork));
}

Test(standin, some_calls_spoil_a_capture)
{
	CUevent fork;
	CUgraph graph;
	CUdeviceptr p;
	CUstream a, b;

	begin();
	a = stream();
	b = stream();
	GOOD(cuEventCreate(&fork, 0));
	for (int which = 0; which < 3; which++) {
		begin_branches(a, b, fork);
		cr_assert_eq(which == 0   ? cuStreamQuery(b)
		             : which == 1 ? cuStreamSynchronize(a)
		                          : cuMemAlloc(&p, 64),
		             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		cr_assert_eq(cuLaunchHostFunc(a, count, NULL),
		             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		cr_assert_eq(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	GOOD(cuMemAlloc(&p, 64));
	GOOD(cuEventDestroy(fork));
}

/* ---- Other processes ---- */

static void
give_fd(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	cr_assert_eq(sendmsg(socket, &m, 0), 1);
}

static int
get_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(socket, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* Fills what it is given by both ways with its own device's copies. */
static int
other_process(int socket)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUipcMemHandle ipc;
	CUdeviceptr p, q, again, mine;
	int fd;

	setenv("STANDIN_SEED", "5", 1);
	begin();
	if (cuCtxSetCurrent(ctx[1]) || read(socket, &ipc, sizeof(ipc)) != sizeof(ipc))
		return 1;
	fd = get_fd(socket);
	mine = memory_of(1, GRANULARITY);
	if (fd < 0 || cuIpcOpenMemHandle(&p, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
	    cuIpcOpenMemHandle(&again, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || p != again ||
	    cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
	                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
	    cuMemAddressReserve(&q, GRANULARITY, 0, 0, 0) ||
	    cuMemMap(q, GRANULARITY, 0, handle, 0) || cuMemSetAccess(q, GRANULARITY, &access, 1))
		return 2;
	if (cuMemsetD8(mine, 3, GRANULARITY) || cuMemcpy(p, mine, N) || cuMemcpy(q, mine, N) ||
	    cuIpcCloseMemHandle(p) || cuIpcCloseMemHandle(p) ||
	    cuIpcCloseMemHandle(p) != CUDA_ERROR_INVALID_VALUE)
		return 3;
	return cuMemUnmap(q, GRANULARITY) || cuMemAddressFree(q, GRANULARITY) ||
	       cuMemRelease(handle);
}

Test(standin, memory_is_shared_with_another_process)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
		                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemGenericAllocationHandle handle;
	unsigned char *out;
	CUdeviceptr p, q;
	CUipcMemHandle ipc;
	int pair[2], fd, status = -1;
	pid_t child;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	child = fork();
	if (child == 0) {
		close(pair[0]);
		_exit(other_process(pair[1]));
	}
	close(pair[1]);
	begin();
	p = memory_of(0, N);
	GOOD(cuIpcGetMemHandle(&ipc, p + 100));
	cr_assert_eq(cuIpcOpenMemHandle(&q, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	             CUDA_ERROR_INVALID_CONTEXT, "its own");
	GOOD(cuMemCreate(&handle, GRANULARITY, &prop, 0));
	GOOD(cuMemAddressReserve(&q, GRANULARITY, 0, 0, 0));
	GOOD(cuMemMap(q, GRANULARITY, 0, handle, 0));
	GOOD(cuMemSetAccess(q, GRANULARITY, &access, 1));
	GOOD(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                  0));
	cr_assert_eq(write(pair[0], &ipc, sizeof(ipc)), (ssize_t)sizeof(ipc));
	give_fd(pair[0], fd);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "the other process ended with %x", (unsigned)status);
	out = pinned(2 * N);
	GOOD(cuMemcpyDtoH(out, p, N));
	GOOD(cuMemcpyDtoH(out + N, q, N));
	for (size_t i = 0; i < 2 * N; i++)
		cr_assert_eq(out[i], 3);
}

/* A path leads to another file than the descriptor that was given. */
Test(standin, a_descriptor_is_given_and_not_opened)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemGenericAllocationHandle handle, imported;
	char path[64];
	int fd, opened;

	begin();
	GOOD(cuMemCreate(&handle, GRANULARITY, &prop, 0));
	GOOD(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                  0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_geq(opened, 0);
	cr_assert_eq(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)opened,
	                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	             CUDA_ERROR_INVALID_VALUE);
	GOOD(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
	                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	GOOD(cuMemRelease(imported));
	GOOD(cuMemRelease(handle));
	close(opened);
	close(fd);
}

Test(standin, little_is_promised_of_alignment)
{
	CUdeviceptr p[64], all = 0;

	begin();
	for (int i = 0; i < 64; i++)
		all |= p[i] = memory_of(0, 3 * N + 5);
	cr_assert(all % 256 == 0 && all % 4096, "%llx", all);
	for (int i = 0; i < 64; i++)
		GOOD(cuMemFree(p[i]));
}

static void *
release_later(void *word)
{
	nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	__atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* As cuMemFree does; who holds the word that a stream waits for must not call it. */
Test(standin, unregistering_waits_for_the_device)
{
	static char memory[4096] __attribute__((aligned(4096)));
	pthread_t other;
	uint32_t *host;
	CUstream s;

	begin();
	host = pinned(8);
	s = stream();
	GOOD(cuMemHostRegister(memory, sizeof(memory), 0));
	GOOD(cuStreamWaitValue32(s, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ));
	cr_assert_eq(pthread_create(&other, NULL, release_later, host), 0);
	GOOD(cuMemHostUnregister(memory));
	GOOD(cuStreamQuery(s));
	pthread_join(other, NULL);
}

Test(standin, what_a_pointer_is)
{
	unsigned long long id[2];
	unsigned type = 0;
	CUdeviceptr a, base;
	int ordinal = -1;
	char local;
	size_t size;

	begin();
	a = memory_of(1, 5000);
	GOOD(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 4999));
	cr_assert_eq(type, CU_MEMORYTYPE_DEVICE);
	GOOD(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
	cr_assert_eq(ordinal, 1);
	GOOD(cuMemGetAddressRange(&base, &size, a + 17));
	cr_assert(base == a && size == 5000);
	GOOD(cuPointerGetAttribute(&id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
	GOOD(cuMemFree(a));
	cr_assert_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a),
	             CUDA_ERROR_INVALID_VALUE);
	a = memory_of(1, 5000);
	GOOD(cuPointerGetAttribute(&id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
	cr_assert_neq(id[0], id[1], "a number is never used again");
	cr_assert_eq(
	        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&local),
	        CUDA_ERROR_INVALID_VALUE);
}

/* ---- Injected errors ---- */

Test(standin, the_third_call_fails)
{
	CUdeviceptr p;

	setenv("STANDIN_FAIL", "cuMemAlloc:3:2", 1);
	begin();
	GOOD(cuMemAlloc(&p, 64));
	GOOD(cuMemAlloc(&p, 64));
	cr_assert_eq(cuMemAlloc(&p, 64), CUDA_ERROR_OUT_OF_MEMORY);
	GOOD(cuMemAlloc(&p, 64));
}

Test(standin, the_second_op_breaks_the_device)
{
	uint32_t *host;
	CUstream s;

	setenv("STANDIN_FAIL", "op:2", 1);
	begin();
	host = pinned(8);
	s = stream();
	GOOD(cuStreamWriteValue32(s, (uintptr_t)host, 1, 0));
	GOOD(cuStreamSynchronize(s));
	GOOD(cuStreamWriteValue32(s, (uintptr_t)host, 2, 0));
	/* It may be broken by now. */
	cuStreamWaitValue32(s, (uintptr_t)host, 9, CU_STREAM_WAIT_VALUE_EQ);
	cr_assert_eq(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS, "nobody waits for ever");
	cr_assert_eq(host[0], 1);
}
