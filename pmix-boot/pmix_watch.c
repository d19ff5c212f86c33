/* Failure events. One handler serves the whole process; watchers are its boots. */
#include "pmix-boot/boot_impl.h"

#if BOOT_HAS_PMIX

#include "pmix-boot/pmix_impl.h"

#include <pthread.h>
#include <stdio.h>

/* Each launcher has codes of its own for a rank that died. */
static const struct {
	pmix_status_t code;
	const char *text;
} codes[] = {
	{ PMIX_ERR_PROC_ABORTED, "ended abnormally" },
	{ PMIX_ERR_PROC_ABORTED_BY_SIG, "was killed by a signal" },
	{ PMIX_ERR_PROC_KILLED_BY_CMD, "was killed by command" },
	{ PMIX_ERR_PROC_TERM_WO_SYNC, "ended without a word to the launcher" },
	{ PMIX_EVENT_PROC_TERMINATED, "has ended" },
	{ PMIX_ERR_EXIT_NONZERO_TERM, "ended with a nonzero exit status" },
	{ PMIX_ERR_PROC_REQUESTED_ABORT, "asked for the job's end" },
	{ PMIX_ERR_LOST_CONNECTION, "lost its connection to the launcher" },
};

/*
 * list guards watchers and is held over on_failure, which makes unwatch wait for
 * it. It is never held over a PMIx call: those wait for the thread that runs
 * on_event. change makes one registration or deregistration at a time.
 */
static struct {
	pthread_mutex_t change, list;
	struct watcher *watchers;
	bool registered;
	size_t id;
} watch = { .change = PTHREAD_MUTEX_INITIALIZER, .list = PTHREAD_MUTEX_INITIALIZER };

static const char *
code_text(pmix_status_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].code == code)
			return codes[i].text;
	return "has failed";
}

static void
tell_watchers(pmix_status_t code, const pmix_proc_t *failed)
{
	char why[160];

	snprintf(why, sizeof(why), "the launcher says that it %s (%s)", code_text(code),
	         PMIx_Error_string(code));
	pthread_mutex_lock(&watch.list);
	for (struct watcher *w = watch.watchers; w; w = w->next) {
		if (!PMIX_CHECK_NSPACE(failed->nspace, w->me.nspace) ||
		    failed->rank == w->me.rank || failed->rank >= (pmix_rank_t)w->b->size)
			continue;
		w->b->on_failure(w->b->on_failure_arg, (int)failed->rank, why);
	}
	pthread_mutex_unlock(&watch.list);
}

static void
tell_array(pmix_status_t code, const pmix_data_array_t *array)
{
	const pmix_proc_t *procs = array->array;

	if (array->type != PMIX_PROC)
		return;
	for (size_t i = 0; i < array->size; i++)
		tell_watchers(code, &procs[i]);
}

static void
on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[],
         size_t n_info, pmix_info_t *results, size_t n_results,
         pmix_event_notification_cbfunc_fn_t next, void *next_arg)
{
	bool named = false;

	(void)id;
	(void)results;
	(void)n_results;
	for (size_t i = 0; i < n_info; i++) {
		const pmix_value_t *v = &info[i].value;

		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && v->type == PMIX_PROC &&
		    v->data.proc) {
			tell_watchers(code, v->data.proc);
			named = true;
		} else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROCS) &&
		           v->type == PMIX_DATA_ARRAY && v->data.darray) {
			tell_array(code, v->data.darray);
			named = true;
		}
	}
	if (!named && source)
		tell_watchers(code, source);
	/* "No action", so that the program's own handlers hear of it too. */
	if (next)
		next(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, next_arg);
}

static int
register_handler(uint64_t timeout_ns)
{
	pmix_status_t list[ARRAY_SIZE(codes)];
	int rc;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		list[i] = codes[i].code;
	rc = bootpmix_register(list, ARRAY_SIZE(codes), on_event, timeout_ns, &watch.id);
	watch.registered = !rc;
	return rc;
}

/* True: no watcher is left. */
static bool
unlist(struct watcher *w)
{
	bool last;

	pthread_mutex_lock(&watch.list);
	for (struct watcher **at = &watch.watchers; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	w->listed = false;
	last = !watch.watchers;
	pthread_mutex_unlock(&watch.list);
	return last;
}

int
bootpmix_watch(struct watcher *w, struct boot *b, const pmix_proc_t *me)
{
	int rc = 0;

	if (w->listed)
		return 0;
	w->b = b;
	w->me = *me;
	pthread_mutex_lock(&watch.change);
	/* Listed first: events that the server kept come along with the registration. */
	pthread_mutex_lock(&watch.list);
	w->next = watch.watchers;
	watch.watchers = w;
	w->listed = true;
	pthread_mutex_unlock(&watch.list);
	if (!watch.registered)
		rc = register_handler(b->timeout_ns);
	if (rc)
		unlist(w);
	pthread_mutex_unlock(&watch.change);
	return rc;
}

void
bootpmix_unwatch(struct watcher *w)
{
	if (!w->listed)
		return;
	pthread_mutex_lock(&watch.change);
	if (unlist(w) && watch.registered) {
		bootpmix_deregister(watch.id, w->b->timeout_ns);
		watch.registered = false;
	}
	pthread_mutex_unlock(&watch.change);
}

#endif
