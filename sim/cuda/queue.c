/*
 * queue.c - a device's hardware queues, a thread each, and the streams that share
 * them. A queue runs its ops one after the other as they were issued, whichever
 * stream they are of: so a stream that waits holds up its neighbours.
 */
#include "sim/cuda/standin.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define NAP_NS 20000

struct hw_queue {
	struct device *dev;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct op *head, **tail;
};

/* Guards the list of streams, and issuing, so that every stream sees the same order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_more = PTHREAD_COND_INITIALIZER;

static void
nap(void)
{
	struct timespec t = { 0, NAP_NS };

	nanosleep(&t, NULL);
}

uint64_t
standin_due(void)
{
	uint64_t most = standin_knob("STANDIN_DELAY_US", 50) * 1000, x = standin_random();

	/* Half of them are in time. */
	return most && x % 2 ? standin_now_ns() + (x >> 1) % most : 0;
}

static uint64_t
done_of(const struct CUstream_st *s)
{
	return s ? __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) : UINT64_MAX;
}

static bool
may_begin(const struct op *op)
{
	if (op->not_before && standin_now_ns() < op->not_before)
		return false;
	if (op->after_legacy && done_of(op->dev->legacy) < op->after_legacy)
		return false;
	for (const struct wanted *w = op->after_all; w && w->stream; w++)
		if (done_of(w->stream) < w->done)
			return false;
	return true;
}

static void
break_device(struct device *dev, CUresult error)
{
	uint32_t none = CUDA_SUCCESS;

	__atomic_compare_exchange_n(&dev->broken, &none, (uint32_t)error, false, __ATOMIC_ACQ_REL,
	                            __ATOMIC_ACQUIRE);
}

/* To its end; on a broken device nothing is done any more. */
static void
run_op(struct op *op)
{
	CUresult error = CUDA_SUCCESS;

	for (;;) {
		if (__atomic_load_n(&op->dev->broken, __ATOMIC_ACQUIRE))
			return;
		if (may_begin(op))
			break;
		nap();
	}
	error = standin_injected("op");
	while (!error && !standin_try(op, &error)) {
		if (__atomic_load_n(&op->dev->broken, __ATOMIC_ACQUIRE))
			return;
		nap();
	}
	if (error)
		break_device(op->dev, error);
}

static void *
queue_main(void *arg)
{
	struct hw_queue *q = arg;
	struct op *op;

	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	for (;;) {
		pthread_mutex_lock(&q->lock);
		while (!q->head)
			pthread_cond_wait(&q->more, &q->lock);
		op = q->head;
		pthread_mutex_unlock(&q->lock);
		run_op(op);
		pthread_mutex_lock(&q->lock);
		q->head = op->next;
		if (!q->head)
			q->tail = &q->head;
		pthread_mutex_unlock(&q->lock);
		pthread_mutex_lock(&done_lock);
		__atomic_add_fetch(&op->stream->done, 1, __ATOMIC_ACQ_REL);
		pthread_cond_broadcast(&done_more);
		pthread_mutex_unlock(&done_lock);
		standin_op_free(op);
	}
	return NULL;
}

static struct hw_queue *
queue_new(struct device *dev)
{
	struct hw_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->dev = dev;
	q->tail = &q->head;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
	if (pthread_create(&q->thread, NULL, queue_main, q)) {
		free(q);
		return NULL;
	}
	pthread_detach(q->thread);
	return q;
}

/* The next one in turn. */
static struct hw_queue *
choose_queue(struct device *dev)
{
	unsigned i;

	if (!dev->n_queues) {
		uint64_t n = standin_knob("CUDA_DEVICE_MAX_CONNECTIONS", 8);

		dev->n_queues = n < 1 ? 1 : n > MAX_QUEUES ? MAX_QUEUES : (unsigned)n;
	}
	i = dev->next_queue++ % dev->n_queues;
	if (!dev->queue[i])
		dev->queue[i] = queue_new(dev);
	return dev->queue[i];
}

static struct CUstream_st *
find_gone(struct device *dev)
{
	for (struct CUstream_st *s = dev->streams; s; s = s->next)
		if (s->gone && done_of(s) == s->issued)
			return s;
	return NULL;
}

static struct CUstream_st *
stream_new_locked(struct device *dev, bool blocking)
{
	struct CUstream_st *s = find_gone(dev);

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->dev = dev;
		s->queue = choose_queue(dev);
		if (!s->queue) {
			free(s);
			return NULL;
		}
		s->next = dev->streams;
		dev->streams = s;
	}
	s->blocking = blocking;
	s->gone = false;
	return s;
}

struct CUstream_st *
standin_stream_new(struct device *dev, bool blocking)
{
	struct CUstream_st *s;

	pthread_mutex_lock(&lock);
	s = stream_new_locked(dev, blocking);
	pthread_mutex_unlock(&lock);
	return s;
}

struct CUstream_st *
standin_stream(struct device *dev, CUstream handle)
{
	if (handle && handle != CU_STREAM_LEGACY)
		return handle == CU_STREAM_PER_THREAD ? NULL : handle;
	pthread_mutex_lock(&lock);
	if (!dev->legacy)
		dev->legacy = stream_new_locked(dev, false);
	pthread_mutex_unlock(&lock);
	return dev->legacy;
}

/* What has been issued to all blocking streams of the device so far. */
static struct wanted *
everything(const struct device *dev)
{
	struct wanted *all;
	size_t n = 0;

	for (const struct CUstream_st *s = dev->streams; s; s = s->next)
		n++;
	all = calloc(n + 1, sizeof(*all));
	n = 0;
	for (struct CUstream_st *s = dev->streams; all && s; s = s->next)
		if (s->blocking)
			all[n++] = (struct wanted){ s, s->issued };
	return all;
}

CUresult
standin_submit(struct CUstream_st *s, struct op *op)
{
	struct hw_queue *q = s->queue;
	struct device *dev = s->dev;
	bool good = true;

	op->dev = dev;
	op->stream = s;
	op->not_before = standin_due();
	pthread_mutex_lock(&lock);
	if (s == dev->legacy) {
		op->after_all = everything(dev);
		good = op->after_all != NULL;
	} else if (s->blocking && dev->legacy) {
		op->after_legacy = dev->legacy->issued;
	}
	if (good) {
		s->issued++;
		pthread_mutex_lock(&q->lock);
		*q->tail = op;
		q->tail = &op->next;
		pthread_cond_signal(&q->more);
		pthread_mutex_unlock(&q->lock);
	}
	pthread_mutex_unlock(&lock);
	if (!good)
		standin_op_free(op);
	return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
standin_enqueue(struct CUstream_st *s, const struct op *op)
{
	struct op *copy;

	if (s->capture)
		return standin_capture(s, op);
	copy = standin_op_copy(op);
	return copy ? standin_submit(s, copy) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
standin_drain(struct CUstream_st *s)
{
	uint64_t issued;

	pthread_mutex_lock(&lock);
	issued = s->issued;
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&done_lock);
	while (done_of(s) < issued)
		pthread_cond_wait(&done_more, &done_lock);
	pthread_mutex_unlock(&done_lock);
	return (CUresult)__atomic_load_n(&s->dev->broken, __ATOMIC_ACQUIRE);
}

CUresult
standin_drain_device(struct device *dev)
{
	struct CUstream_st *s;

	pthread_mutex_lock(&lock);
	s = dev->streams;
	pthread_mutex_unlock(&lock);
	/* New ones come before it; none is ever taken out. */
	for (; s; s = s->next)
		standin_drain(s);
	return (CUresult)__atomic_load_n(&dev->broken, __ATOMIC_ACQUIRE);
}
