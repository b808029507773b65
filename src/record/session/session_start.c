/* Starting, pausing and resuming sessions; session_end.c ends them. */
#include <strings.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/mutex.h"
#include "export/export.h"
#include "format/rank.h"
#include "format/target.h"
#include "record/backend.h"
#include "record/names/frames.h"
#include "record/nvtx/nvtx.h"
#include "record/session/session_parts.h"
#include "record/sets/session.h"
#include "record/store/devices.h"
#include "record/thread/adding.h"
#include "record/thread/thread.h"
#include "record/thread/thread_trace.h"

/* ------------------------------------------------------------------ options */

/* Strings are borrowed from the caller. */
struct settings {
	const char *name;
	const char *mode;
	const char *format;
	const struct backend *backend;
	const struct export_format *periodic; /* see periodic_flush_read_mode() */
	bool wants_source;
	bool wants_scopes;
	bool is_trace;
	bool is_ranked; /* the output is a rank's, see format/rank.h */
	uint32_t flags;
};

/* `given` NULL means all defaults. E_INVALID with a message. */
static int settings_read(const struct proton_session_options *given, struct settings *out,
			 struct proton_error *err)
{
	static const struct proton_session_options defaults = {.size = sizeof(defaults)};
	const struct proton_session_options *o = given ? given : &defaults;

	if (o->size != sizeof(*o))
		return err_set(err, PROTON_E_INVALID,
			       "proton_session_options.size is %zu, this library expects %zu",
			       o->size, sizeof(*o));
	*out = (struct settings){
		.name = o->name ? o->name : "proton",
		.mode = o->mode ? o->mode : "",
		.format = o->format ? o->format : "",
		.flags = o->flags,
	};
	out->wants_scopes = o->context && strcasecmp(o->context, "python+scopes") == 0;
	out->wants_source = out->wants_scopes ||
			    (o->context && strcasecmp(o->context, "python") == 0);
	if (o->context && !out->wants_source && strcasecmp(o->context, "shadow") != 0)
		return err_set(err, PROTON_E_INVALID,
			       "Unknown context source: %s; expected shadow, python or "
			       "python+scopes",
			       o->context);
	if (o->data && strcasecmp(o->data, "trace") == 0)
		out->is_trace = true;
	else if (o->data && strcasecmp(o->data, "tree") != 0)
		return err_set(err, PROTON_E_INVALID, "Unknown data: %s; expected tree or trace",
			       o->data);
	if (!o->name)
		out->flags |= PROTON_SESSION_RANKS;
	if (target_env_no_clobber())
		out->flags |= PROTON_SESSION_NO_CLOBBER;
	const struct export_format *format = output_format_find(out->format, out->is_trace, err);
	if (!format ||
	    output_format_check(format, target_is_standard_output(out->name) ? NULL : out->name,
				err))
		return PROTON_E_INVALID;
	out->backend = backend_select(o->backend, err);
	if (!out->backend)
		return PROTON_E_INVALID;
	int status = periodic_flush_read_mode(out->backend->name, out->mode, out->is_trace,
					      &out->periodic, err);
	if (status != PROTON_OK || !out->periodic)
		return status != PROTON_OK ? status : out->backend->check_mode(out->mode, err);
	if (target_is_standard_output(out->name))
		return err_set(err, PROTON_E_INVALID,
			       "mode periodic_flushing writes several files, which standard "
			       "output cannot hold; give a name");
	/* The recorder does the flushing, so the backend runs in its default mode. */
	out->mode = "";
	if (!*out->format)
		out->format = out->periodic->name;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ fork */

/* The child has consistent tables, free locks, and no sessions until it starts one. */

/* Locks that guard data which the child needs, in the order in which they are taken. */
static pthread_mutex_t *const before_sessions[] = {
	&registry.lock,
	&adding_pause_lock,
	&scope_names_lock,
};
static pthread_mutex_t *const after_sessions[] = {
	&backend_use_lock, &metric_names_lock,  &communicators_lock, &frames_lock,
	&devices_lock,     &gpu_functions_lock, &code_objects_lock,  &thread_trace_list_lock,
};

static void on_all_locks(int (*act)(pthread_mutex_t *lock))
{
	for (size_t i = 0; i < ARRAY_LENGTH(before_sessions); i++)
		act(before_sessions[i]);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		act(&registry.sessions[slot].lock);
	for (size_t i = 0; i < ARRAY_LENGTH(after_sessions); i++)
		act(after_sessions[i]);
}

static int reset_lock(pthread_mutex_t *lock)
{
	return pthread_mutex_init(lock, NULL);
}

static void on_fork(void)
{
	on_all_locks(pthread_mutex_lock);
}

static void on_parent(void)
{
	on_all_locks(pthread_mutex_unlock);
}

static void on_child(void)
{
	on_all_locks(reset_lock);
	backend_use_fork_child();
	registry_fork_child();
	thread_fork_child();
}

/* ------------------------------------------------------------------ start */

/*
 * exit() takes a function from its list before it calls it. Threads that call exit() at once each
 * take one, before the first can register itself again; with none left, a thread would end the
 * process. More than 32 functions in all would take a second block, which glibc before 2.41 frees
 * twice when threads call exit() at once (sourceware bug 31997).
 */
#define EXITING_THREADS_MAX 4

static int next_id;

static void finalize_at_exit(void)
{
	struct proton_error err;

	/* Another thread that calls exit() runs the other handlers, and has to wait as well. */
	if (session_any_live() || registry_is_writing())
		atexit(finalize_at_exit);
	/* In a forked child, on_child() has emptied the registry: the parent's stay live. */
	if (session_any_live() && proton_finalize_owned(NULL, &err) != PROTON_OK)
		message("%s", err.text);
	registry_wait_written(PROTON_ALL_SESSIONS);
	signals_wait_raised();
}

static int prepare_process(struct proton_error *err)
{
	static bool prepared;
	int status = frames_init(err);

	if (status != PROTON_OK || prepared)
		return status;
	TRY(session_prepare(err));
	pthread_atfork(on_fork, on_parent, on_child);
	for (int i = 0; i < EXITING_THREADS_MAX; i++)
		atexit(finalize_at_exit);
	prepared = true;
	return PROTON_OK;
}

/* A free trace number; 0 if all are taken. The registry is locked. */
static uint32_t free_trace(void)
{
	bool is_taken[TRACE_MAX + 1] = {false};

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		if (registry.slots[slot] != SLOT_FREE)
			is_taken[registry.sessions[slot].trace] = true;
	for (uint32_t trace = 1; trace <= TRACE_MAX; trace++)
		if (!is_taken[trace])
			return trace;
	return 0;
}

static int open_store(struct session *session, struct proton_error *err)
{
	int status = session->mode && session->format ? output_open(session, err) : err_nomem(err);

	if (status != PROTON_OK)
		return status;
	run_info_add_session(session);
	if (session->trace)
		status = store_event_init(&session->store, err);
	if (status != PROTON_OK)
		store_fini(&session->store, true);
	return status;
}

/* A launch has one source context: all sessions get it with scopes, or all without. */
static bool agrees_on_scopes(const struct settings *settings)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		const struct session *session = &registry.sessions[slot];
		bool is_live = registry.slots[slot] == SLOT_LIVE ||
			       registry.slots[slot] == SLOT_STARTING;

		if (is_live && settings->wants_source && session->wants_source &&
		    session->wants_scopes != settings->wants_scopes)
			return false;
	}
	return true;
}

/* Takes a free slot and opens the session's files. The registry is locked. */
static int open_session(const struct settings *settings, const char *path, struct session **out,
			struct proton_error *err)
{
	uint32_t trace = settings->is_trace ? free_trace() : 0;
	uint32_t slot = 0;

	while (slot < SESSION_MAX && registry.slots[slot] != SLOT_FREE)
		slot++;
	if (slot == SESSION_MAX)
		return err_set(err, PROTON_E_STATE,
			       "cannot start: the limit of %u live sessions is reached",
			       SESSION_MAX);
	if (!agrees_on_scopes(settings))
		return err_set(err, PROTON_E_STATE,
			       "cannot start: contexts python and python+scopes cannot be recorded "
			       "at the same time; end the other session, or give both the same "
			       "context");
	if (settings->is_trace && !trace)
		return err_set(err, PROTON_E_STATE,
			       "cannot start: the limit of %u live traces is reached", TRACE_MAX);
	struct session *session = &registry.sessions[slot];
	session->path = path ? strdup(path) : NULL;
	session->mode = strdup(settings->mode);
	session->format = strdup(settings->format);
	session->periodic = settings->periodic;
	session->first_part = 0;
	session->backend = settings->backend;
	session->wants_source = settings->wants_source;
	session->wants_scopes = settings->wants_scopes;
	session->trace = trace;
	session->flags = settings->flags;
	session->is_ranked = settings->is_ranked;
	session->has_kept_earlier = false;
	session->snapshots = 0;
	int status = path && !session->path ? err_nomem(err) : open_store(session, err);
	if (status != PROTON_OK) {
		registry_free_texts(session);
		return status;
	}
	registry.slots[slot] = SLOT_STARTING;
	*out = session;
	return PROTON_OK;
}

static void go_live(struct session *session)
{
	registry.slots[session - registry.sessions] = SLOT_LIVE;
	session->id = next_id++;
	session->start_ns = clock_monotonic_ns();
	pthread_mutex_lock(&session->lock);
	session->serial = registry.next_serial++;
	session->store.trace_serial = session->trace ? session->serial : 0;
	session->is_active = true;
	atomic_store(&session->owner, 0);
	session->is_live = true;
	atomic_store_explicit(&registry.program_ends, false, memory_order_relaxed);
	pthread_mutex_unlock(&session->lock);
	if (registry_live_count() == 1) {
		thread_set_main();
		atomic_fetch_add_explicit(&session_generation, 1, memory_order_release);
	}
	session_publish();
}

/* The registry is locked on entry and return, but not while the backend starts. */
static int add_session(const struct settings *settings, const char *path, int *id_out,
		       struct proton_error *err)
{
	struct session *session = NULL;

	TRY(open_session(settings, path, &session, err));
	pthread_mutex_unlock(&registry.lock);
	int status = backend_use_take(settings->backend, settings->mode,
				      settings->flags & PROTON_SESSION_MEMORY, err);
	pthread_mutex_lock(&registry.lock);
	if (status == PROTON_OK) {
		run_info_add_backend(session);
		go_live(session);
		*id_out = session->id;
		if (!(session->flags & PROTON_SESSION_QUIET))
			nvtx_report_other();
		if ((session->flags & (PROTON_SESSION_MEMORY | PROTON_SESSION_QUIET)) ==
			    PROTON_SESSION_MEMORY &&
		    !settings->backend->set_memory)
			message("no memory copies are recorded: backend %s has none",
				settings->backend->name);
	} else {
		store_fini(&session->store, true);
		registry_free_texts(session);
		registry.slots[session - registry.sessions] = SLOT_FREE;
	}
	pthread_cond_broadcast(&registry.changed);
	return status;
}

/* The session that records into `path`, once it has started; NULL if there is none. */
static struct session *find_path(const char *path)
{
	uint32_t slot = 0;

	while (slot < SESSION_MAX) {
		struct session *session = &registry.sessions[slot];
		bool is_same = session->path && strcmp(session->path, path) == 0;

		if (is_same && registry.slots[slot] == SLOT_LIVE)
			return session;
		/* A session that is ending on another thread still owns its files. */
		if (is_same && (registry.slots[slot] == SLOT_STARTING ||
				(registry.slots[slot] == SLOT_ENDING &&
				 !pthread_equal(session->ender, pthread_self())))) {
			pthread_cond_wait(&registry.changed, &registry.lock);
			slot = 0; /* the registry was unlocked: start over */
		} else {
			slot++;
		}
	}
	return NULL;
}

/* The session's output path without suffix, malloc'd. */
static int name_output(struct settings *settings, char **path_out, struct proton_error *err)
{
	bool is_ranked = false;
	char *path = NULL;
	int status = target_stem(settings->name, &path, err);

	if (status == PROTON_OK)
		status = rank_resolve(&path, settings->flags & PROTON_SESSION_RANKS, &is_ranked,
				      err);
	if (status == PROTON_OK && is_ranked)
		status = rank_make_directories(path, err);
	if (status != PROTON_OK) {
		free(path);
		return status;
	}
	/* Profiles of ranks are merged: the profile file is the fastest to read. */
	if (is_ranked && !*settings->format && !settings->is_trace)
		settings->format = "proton";
	settings->is_ranked = is_ranked;
	*path_out = path;
	return PROTON_OK;
}

/* The backends of these sessions record again, if they have rested. */
static int wake_backends(int id, struct proton_error *err)
{
	const struct backend *backend;
	int status = PROTON_OK;

	for (size_t i = 0; status == PROTON_OK && (backend = backend_at(i)); i++)
		if (registry_uses(id, backend))
			status = backend_use_wake(backend, err);
	return status;
}

static int start_owned(int *session_out, struct proton_error *err)
{
	const struct session *owned = registry_next(NULL, PROTON_ALL_SESSIONS);

	if (!owned)
		return err_set(err, PROTON_E_STATE,
			       "the session owned by the proton command has already ended");
	*session_out = owned->id;
	return PROTON_OK;
}

int proton_start(const struct proton_session_options *options, int *session_out,
		 struct proton_error *err)
{
	struct settings settings = {0};
	char *path = NULL;
	int status;
	int id = 0;

	if (backend_use_is_moving_here())
		return err_set(err, PROTON_E_STATE, "this thread is already starting a session");
	proton_use();
	pthread_mutex_lock(&registry.lock);
	if (proton_sessions_are_owned()) {
		status = start_owned(&id, err);
		goto out;
	}
	status = settings_read(options, &settings, err);
	if (status == PROTON_OK)
		status = prepare_process(err);
	if (status == PROTON_OK && !target_is_standard_output(settings.name))
		status = name_output(&settings, &path, err);
	if (status != PROTON_OK)
		goto out;
	struct session *session = path ? find_path(path) : NULL;
	if (session) {
		session->is_active = true;
		session_publish();
		id = session->id;
		goto out;
	}
	status = add_session(&settings, path, &id, err);
	if (status != PROTON_OK && settings.is_ranked)
		rank_remove_directories(path);
out:
	pthread_mutex_unlock(&registry.lock);
	free(path);
	/* Was activated, or has rested because of sessions that are not active. */
	if (status == PROTON_OK)
		status = wake_backends(id, err);
	if (status == PROTON_OK && session_out)
		*session_out = id;
	return status;
}

/* ------------------------------------------------------------------ activate, deactivate */

static int set_active(int id, bool active, struct proton_error *err)
{
	if (id == PROTON_ALL_SESSIONS)
		pthread_mutex_lock(&registry.lock);
	else if (!registry_get(id, err))
		return PROTON_E_RANGE;
	for (struct session *session = NULL; (session = registry_next(session, id));)
		session->is_active = active;
	session_publish();
	pthread_mutex_unlock(&registry.lock);
	return PROTON_OK;
}

/* Sets the phases before the current one to complete: all their work has been recorded. */
static void complete_phases(int id)
{
	MUTEX_HOLD(&registry.lock);
	for (struct session *session = NULL; (session = registry_next(session, id));) {
		MUTEX_HOLD(&session->lock);
		store_phase_complete_earlier(&session->store);
		store_event_align(&session->store);
	}
}

int proton_activate(int id, struct proton_error *err)
{
	/* Before it is active: launches then have records. Again: it may have rested since. */
	TRY(wake_backends(id, err));
	TRY(set_active(id, true, err));
	return wake_backends(id, err);
}

int proton_deactivate(int id, bool flush, struct proton_error *err)
{
	int status = set_active(id, false, err);

	if (status != PROTON_OK || !flush)
		return status;
	status = registry_flush_backends(id, err);
	if (status == PROTON_OK)
		complete_phases(id);
	return status;
}

/* ------------------------------------------------------------------ sessions of the command */

static pthread_mutex_t use_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* nested in `begin` */
static _Atomic bool is_use_awaited;
static void (*begin_on_use)(void); /* guarded by use_lock */

void proton_await_use(void (*begin)(void))
{
	MUTEX_HOLD(&use_lock);
	begin_on_use = begin;
	atomic_store_explicit(&is_use_awaited, begin != NULL, memory_order_release);
}

void proton_use(void)
{
	void (*begin)(void);

	if (!atomic_load_explicit(&is_use_awaited, memory_order_acquire))
		return;
	MUTEX_HOLD(&use_lock);
	begin = begin_on_use;
	begin_on_use = NULL;
	if (begin)
		begin();
	atomic_store_explicit(&is_use_awaited, false, memory_order_release);
}
