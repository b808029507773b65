/* Ending sessions: flushing the backends and writing the output. */
#include "base/mutex.h"
#include "record/sets/session.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/message.h"
#include "record/backend.h"
#include "record/session/session_parts.h"
#include "record/thread/adding.h"
#include "record/thread/thread_trace.h"

/* Removes a session from the registry; nothing is recorded into it from then on. */
static struct session *retire_session(int id)
{
	pthread_mutex_lock(&registry.lock);
	struct session *session = registry_next(NULL, id);
	if (session) {
		pthread_mutex_lock(&session->lock);
		session->is_live = false;
		session->is_active = false;
		pthread_mutex_unlock(&session->lock);
		session->ender = pthread_self();
		registry.slots[session - registry.sessions] = SLOT_ENDING;
		session_publish();
		if (registry_live_count() == 0)
			atomic_fetch_add_explicit(&session_generation, 1, memory_order_release);
	}
	pthread_mutex_unlock(&registry.lock);
	if (session)
		adding_stop(session);
	if (session && session->trace)
		thread_trace_close(session->trace - 1);
	if (session) {
		run_info_add_backend(session); /* overhead of recording */
		backend_use_release(session->backend, session->flags & PROTON_SESSION_MEMORY);
	}
	return session;
}

/* Sessions that have no kernel record at all. */
struct in_vain {
	uint64_t launches;
	const char *why;             /* as the backend of one of these sessions explains it */
	struct proton_error failure; /* a backend reported it */
};

static void add_in_vain(const struct session *session, const struct proton_error *flushed,
			struct in_vain *in_vain)
{
	uint64_t launches = store_counters_get(&session->store, COUNTER_LOST_MISSING) +
			    store_counters_get(&session->store, COUNTER_LOST_DROPPED);

	if (store_counters_get(&session->store, COUNTER_KERNELS)) {
		if (flushed->status != PROTON_OK)
			message("%s", flushed->text);
		return;
	}
	if (flushed->status != PROTON_OK)
		in_vain->failure = *flushed;
	if (!launches)
		return;
	in_vain->launches += launches;
	in_vain->why = session->backend->no_records;
}

/* The profile was written, but without any kernel records. PROTON_OK: there should be none. */
static int error_in_vain(const struct in_vain *in_vain, struct proton_error *err)
{
	if (in_vain->failure.status != PROTON_OK)
		return err_set(err, in_vain->failure.status, "%s", in_vain->failure.text);
	if (!in_vain->launches)
		return PROTON_OK;
	return err_set(err, PROTON_E_IO,
		       "no activity records were received for %" PRIu64 " kernel launches: %s",
		       in_vain->launches,
		       in_vain->why ? in_vain->why : "the GPU may have reported an error");
}

/* Ends recording; the session takes the last samples, which an ending backend delivers. */
static int end_recording(int id, struct proton_error *err)
{
	const struct backend *backend = NULL;
	/* All sessions: records of other backends belong to this one as well. */
	int status = registry_flush_backends(PROTON_ALL_SESSIONS, err);

	pthread_mutex_lock(&registry.lock);
	struct session *session = registry_next(NULL, id);
	if (session) {
		session->is_active = false;
		session_publish();
		backend = session->backend;
	}
	pthread_mutex_unlock(&registry.lock);
	if (backend)
		backend_use_end(backend);
	return status;
}

static int finalize_one(int id, const char *format_name, struct in_vain *in_vain,
			struct proton_error *err)
{
	struct proton_error flushed = {0};

	flushed.status = end_recording(id, &flushed);
	struct session *session = retire_session(id);
	if (!session)
		return PROTON_OK;
	add_in_vain(session, &flushed, in_vain);
	store_windows_finish(&session->store, clock_monotonic_ns());
	store_counters_add_folded(&session->store);
	store_event_align(&session->store);
	sample_sources_store(&session->store);
	/* Both names were checked before, so this cannot fail. */
	const struct export_format *format =
		output_format_find(format_name && *format_name ? format_name : session->format,
				   session->trace != 0, err);
	int status = output_finish(session, format, err);
	MUTEX_HOLD(&registry.lock);
	registry_free_texts(session);
	registry.slots[session - registry.sessions] = SLOT_FREE;
	pthread_cond_broadcast(&registry.changed);
	return status;
}

static int finalize(int id, const char *format_name, struct in_vain *in_vain,
		    struct proton_error *err)
{
	struct session *session = NULL;
	int ids[SESSION_MAX];
	size_t count = 0;
	int status = PROTON_OK;

	if (!output_format_find(format_name, true, err))
		return PROTON_E_INVALID;
	pthread_mutex_lock(&registry.lock);
	while (status == PROTON_OK && (session = registry_next(session, id))) {
		ids[count++] = session->id;
		const struct export_format *format =
			output_format_find(format_name, session->trace != 0, err);
		if (!format)
			status = PROTON_E_INVALID;
		else if (format_name && *format_name)
			status = output_format_check(format, session->path, err);
	}
	pthread_mutex_unlock(&registry.lock);
	if (status != PROTON_OK)
		return status;
	/* All are ended even if one cannot be written; the first error is reported. */
	for (size_t i = 0; i < count; i++) {
		int result = finalize_one(ids[i], format_name, in_vain,
					  status == PROTON_OK ? err : NULL);

		if (status == PROTON_OK)
			status = result;
	}
	/* Another thread may have ended some: the caller may end the process next. */
	registry_wait_written(id);
	return status;
}

int proton_finalize(int id, const char *format, struct proton_error *err)
{
	struct proton_error why;
	struct in_vain in_vain = {0};

	if (proton_sessions_are_owned())
		return PROTON_OK;
	int status = finalize(id, format, &in_vain, err);
	if (error_in_vain(&in_vain, &why) == PROTON_OK)
		return status;
	if (status == PROTON_OK && in_vain.failure.status != PROTON_OK)
		return err_set(err, why.status, "%s", why.text);
	/* The program continues: it has its file, and this warning is printed. */
	message("%s", why.text);
	return status;
}

int proton_finalize_owned(const char *format, struct proton_error *err)
{
	static struct proton_error earlier;
	bool is_live = session_any_live();
	struct proton_error why = {0};
	struct in_vain in_vain = {0};

	atomic_store_explicit(&registry.program_ends, true, memory_order_relaxed);
	int status = finalize(PROTON_ALL_SESSIONS, format, &in_vain, &why);
	if (status == PROTON_OK)
		status = error_in_vain(&in_vain, &why);
	if (status == PROTON_OK)
		status = backend_use_driver_failure(&why);
	/* Several exit functions call this: each reports that the profile is not written. */
	MUTEX_HOLD(&registry.lock);
	if (is_live)
		earlier = why;
	else if (status == PROTON_OK)
		why = earlier;
	return why.status == PROTON_OK ? PROTON_OK : err_set(err, why.status, "%s", why.text);
}
