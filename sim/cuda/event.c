#include "sim/cuda/standin.h"

#include <stdlib.h>
#include <time.h>

CUresult
cuEventCreate(CUevent *out, unsigned flags)
{
	ENTER_CONTEXT(dev);
	(void)dev;
	(void)flags;
	*out = calloc(1, sizeof(**out));
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuEventDestroy(CUevent event)
{
	ENTER();
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	standin_capture_forget(event);
	standin_mark_put(event->mark);
	free(event);
	return CUDA_SUCCESS;
}

CUresult
cuEventRecord(CUevent event, CUstream handle)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);
	struct op op = { .kind = OP_MARK };
	CUresult rc;

	if (!event || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture)
		return standin_capture_record(s, event);
	standin_capture_forget(event);
	op.mark = standin_mark_new();
	if (!op.mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = standin_enqueue(s, &op);
	if (rc) {
		standin_mark_put(op.mark);
		return rc;
	}
	standin_mark_put(event->mark);
	event->mark = op.mark;
	return CUDA_SUCCESS;
}

CUresult
cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
	ENTER_CONTEXT(dev);
	struct CUstream_st *s = standin_stream(dev, handle);
	struct op op = { .kind = OP_AFTER };

	(void)flags;
	if (!event || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return standin_capture_wait(s, event);
	if (s->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* of an event from outside */
	op.mark = event->mark;
	return op.mark ? standin_enqueue(s, &op) : CUDA_SUCCESS;
}

CUresult
cuEventQuery(CUevent event)
{
	ENTER_CONTEXT(dev);
	(void)dev;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_INVALID_VALUE;
	return !event->mark || __atomic_load_n(&event->mark->done, __ATOMIC_ACQUIRE)
	               ? CUDA_SUCCESS
	               : CUDA_ERROR_NOT_READY;
}

CUresult
cuEventSynchronize(CUevent event)
{
	CUresult rc;

	while ((rc = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	return rc;
}

CUresult
cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	ENTER();
	if (!start || !end || !start->mark || !end->mark)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!__atomic_load_n(&start->mark->done, __ATOMIC_ACQUIRE) ||
	    !__atomic_load_n(&end->mark->done, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(end->mark->at_ns - start->mark->at_ns) / 1e6);
	return CUDA_SUCCESS;
}
