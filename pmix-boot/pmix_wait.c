/*
 * PMIx calls with a wait of our own. The memory of a call has two owners, the
 * one who waits and PMIx's callback; the last one frees it. So the callback may
 * come after the wait has given up.
 */
#include "pmix-boot/boot_impl.h"

#if BOOT_HAS_PMIX

#include "pmix-boot/pmix_impl.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct call {
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	int owners;
	bool done;
	pmix_status_t status;
	struct fetched got;
	size_t id; /* of an event handler */
	/* Arguments: PMIx may read them until its callback. */
	pmix_proc_t proc;
	char key[PMIX_MAX_KEYLEN + 1];
	pmix_info_t info[2];
	size_t n_info;
};

int
bootpmix_fail(pmix_status_t status, const char *what, ...)
{
	int code = ORIEL_EBOOT;
	char text[256];
	va_list ap;

	if (status == PMIX_ERR_TIMEOUT)
		code = ORIEL_ETIMEDOUT;
	else if (status == PMIX_ERR_NOMEM)
		code = ORIEL_ENOMEM;
	va_start(ap, what);
	vsnprintf(text, sizeof(text), what, ap);
	va_end(ap);
	return fail(code, "PMIx: %s: %s (%d)", text, PMIx_Error_string(status), (int)status);
}

static void
call_drop(struct call *c)
{
	bool last;

	pthread_mutex_lock(&c->lock);
	last = --c->owners == 0;
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	pthread_cond_destroy(&c->done_cond);
	pthread_mutex_destroy(&c->lock);
	free(c->got.bytes);
	free(c);
}

static struct call *
call_new(void)
{
	struct call *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return NULL;
	c->owners = 2;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->done_cond, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

/* PMIx counts in whole seconds, and 0 is for ever. */
static void
call_add_timeout(struct call *c, uint64_t timeout_ns)
{
	const uint64_t second = 1000000000;
	uint64_t s = timeout_ns / second + (timeout_ns % second != 0);
	int seconds = s < 1 ? 1 : (int)s;

	if (s <= INT_MAX)
		PMIX_INFO_LOAD(&c->info[c->n_info++], PMIX_TIMEOUT, &seconds, PMIX_INT);
}

static void
call_add_true(struct call *c, const char *key)
{
	bool yes = true;

	PMIX_INFO_LOAD(&c->info[c->n_info++], key, &yes, PMIX_BOOL);
}

static void
call_end(struct call *c, pmix_status_t status)
{
	pthread_mutex_lock(&c->lock);
	c->status = status;
	c->done = true;
	pthread_cond_signal(&c->done_cond);
	pthread_mutex_unlock(&c->lock);
	call_drop(c);
}

/* True if the callback came. submitted: what the PMIx call itself returned. */
static bool
call_wait(struct call *c, pmix_status_t submitted, uint64_t timeout_ns)
{
	uint64_t deadline = deadline_after(timeout_ns);
	struct timespec ts = { .tv_sec = (time_t)(deadline / 1000000000),
		               .tv_nsec = (long)(deadline % 1000000000) };
	bool done;
	int rc = 0;

	if (submitted != PMIX_SUCCESS) {
		/* There will be no callback: the other owner is gone. */
		call_end(c, submitted == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : submitted);
		return true;
	}
	pthread_mutex_lock(&c->lock);
	while (!c->done && !rc)
		rc = deadline == ORIEL_FOREVER
		             ? pthread_cond_wait(&c->done_cond, &c->lock)
		             : pthread_cond_timedwait(&c->done_cond, &c->lock, &ts);
	done = c->done;
	pthread_mutex_unlock(&c->lock);
	return done;
}

static void
copy_number(struct fetched *to, const pmix_value_t *v)
{
	to->kind = FETCHED_NUMBER;
	switch (v->type) {
#define NUMBER(type_name, field)                                                                   \
	case type_name:                                                                            \
		to->number = (int64_t)v->data.field;                                               \
		break;
		NUMBER(PMIX_BYTE, byte)
		NUMBER(PMIX_SIZE, size)
		NUMBER(PMIX_PID, pid)
		NUMBER(PMIX_INT, integer)
		NUMBER(PMIX_INT8, int8)
		NUMBER(PMIX_INT16, int16)
		NUMBER(PMIX_INT32, int32)
		NUMBER(PMIX_INT64, int64)
		NUMBER(PMIX_UINT, uint)
		NUMBER(PMIX_UINT8, uint8)
		NUMBER(PMIX_UINT16, uint16)
		NUMBER(PMIX_UINT32, uint32)
		NUMBER(PMIX_UINT64, uint64)
		NUMBER(PMIX_PROC_RANK, rank)
#undef NUMBER
	default:
		to->kind = FETCHED_OTHER;
	}
}

static pmix_status_t
copy_bytes(struct fetched *to, const void *bytes, size_t len)
{
	to->bytes = malloc(len + 1);
	if (!to->bytes)
		return PMIX_ERR_NOMEM;
	if (len)
		memcpy(to->bytes, bytes, len);
	to->bytes[len] = '\0';
	to->len = len;
	return PMIX_SUCCESS;
}

static pmix_status_t
copy_value(struct fetched *to, const pmix_value_t *v)
{
	if (v->type == PMIX_STRING && v->data.string) {
		to->kind = FETCHED_TEXT;
		return copy_bytes(to, v->data.string, strlen(v->data.string));
	}
	if (v->type == PMIX_BYTE_OBJECT) {
		to->kind = FETCHED_BYTES;
		return copy_bytes(to, v->data.bo.bytes, v->data.bo.size);
	}
	copy_number(to, v);
	return PMIX_SUCCESS;
}

static void
on_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
	struct call *c = arg;

	if (status == PMIX_SUCCESS)
		status = value ? copy_value(&c->got, value) : PMIX_ERR_NOT_FOUND;
	call_end(c, status);
}

static void
on_done(pmix_status_t status, void *arg)
{
	call_end(arg, status);
}

static void
on_registered(pmix_status_t status, size_t id, void *arg)
{
	struct call *c = arg;

	c->id = id;
	call_end(c, status);
}

int
bootpmix_fetch(const pmix_proc_t *proc, const char *key, const char *how, uint64_t timeout_ns,
               struct fetched *out)
{
	struct call *c = call_new();
	pmix_status_t status;
	int rc = 0;

	if (!c)
		return fail(ORIEL_ENOMEM, "a PMIx get");
	c->proc = *proc;
	snprintf(c->key, sizeof(c->key), "%s", key);
	call_add_timeout(c, timeout_ns);
	if (how)
		call_add_true(c, how);
	status = PMIx_Get_nb(&c->proc, c->key, c->info, c->n_info, on_value, c);
	if (!call_wait(c, status, timeout_ns)) {
		rc = fail(ORIEL_ETIMEDOUT, "PMIx: no answer for key \"%s\" of rank %d in %.3f s",
		          key, (int)proc->rank, (double)timeout_ns / 1e9);
	} else if (c->status != PMIX_SUCCESS) {
		rc = bootpmix_fail(c->status, "get of key \"%s\" of rank %d", key, (int)proc->rank);
	} else {
		*out = c->got;
		c->got.bytes = NULL;
	}
	call_drop(c);
	return rc;
}

int
bootpmix_fence(const pmix_proc_t *all, bool collect, uint64_t timeout_ns, bool *lost)
{
	struct call *c = call_new();
	pmix_status_t status;
	int rc = 0;

	if (!c)
		return fail(ORIEL_ENOMEM, "a PMIx fence");
	c->proc = *all;
	call_add_timeout(c, timeout_ns);
	if (collect)
		call_add_true(c, PMIX_COLLECT_DATA);
	status = PMIx_Fence_nb(&c->proc, 1, c->info, c->n_info, on_done, c);
	*lost = !call_wait(c, status, timeout_ns);
	if (*lost)
		rc = fail(ORIEL_ETIMEDOUT, "PMIx: not every rank came to the fence in %.3f s",
		          (double)timeout_ns / 1e9);
	else if (c->status != PMIX_SUCCESS)
		rc = bootpmix_fail(c->status, "fence of all ranks");
	call_drop(c);
	return rc;
}

int
bootpmix_register(pmix_status_t *codes, size_t n_codes, pmix_notification_fn_t handler,
                  uint64_t timeout_ns, size_t *id)
{
	struct call *c = call_new();
	pmix_status_t status;
	int rc = 0;

	if (!c)
		return fail(ORIEL_ENOMEM, "a PMIx event handler");
	status = PMIx_Register_event_handler(codes, n_codes, NULL, 0, handler, on_registered, c);
	if (!call_wait(c, status, timeout_ns))
		rc = fail(ORIEL_ETIMEDOUT, "PMIx: failure events not registered in %.3f s",
		          (double)timeout_ns / 1e9);
	else if (c->status != PMIX_SUCCESS)
		rc = bootpmix_fail(c->status, "registration for failure events");
	else
		*id = c->id;
	call_drop(c);
	return rc;
}

void
bootpmix_deregister(size_t id, uint64_t timeout_ns)
{
	struct call *c = call_new();

	if (!c)
		return;
	call_wait(c, PMIx_Deregister_event_handler(id, on_done, c), timeout_ns);
	call_drop(c);
}

#endif
