/* Sessions. See session.h; their files are output.c's business. */
#include "record/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/note.h"
#include "record/backend_use.h"
#include "record/describe.h"
#include "record/driver.h"
#include "record/fork.h"
#include "record/frames.h"
#include "record/intra.h"
#include "record/nvtx_environment.h"
#include "record/output.h"
#include "record/record.h"
#include "record/thread.h"

#define CONFIG_UNIT 8u              /* a config's id is its offset divided by this */
#define CONFIG_RESERVE (4ull << 30) /* ids stay below CONFIG_TRACED */

_Atomic uint32_t session_generation;
_Atomic uint32_t session_config;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER; /* before any session's lock */
static pthread_cond_t slot_changed = PTHREAD_COND_INITIALIZER;    /* one left SLOT_STARTING */
static struct session sessions[SESSION_MAX];
static enum slot_state {
	SLOT_FREE,
	SLOT_STARTING, /* its backend is being started; the registry is not locked meanwhile */
	SLOT_LIVE,
	SLOT_ENDING, /* its output is being written */
} slots[SESSION_MAX];
static struct region config_space;
static uint64_t config_used = CONFIG_UNIT;
static _Atomic uint32_t next_serial = 1;
static int next_id;
static _Atomic bool sessions_owned;
static _Atomic bool program_ends; /* as far as is known: a start says otherwise */

const struct config *session_config_get(uint32_t config)
{
	static const struct config nothing;

	if (!config)
		return &nothing;
	config &= ~CONFIG_TRACED;
	return (const void *)((const char *)config_space.base + (uint64_t)config * CONFIG_UNIT);
}

uint32_t session_newest_serial(void)
{
	return atomic_load_explicit(&next_serial, memory_order_relaxed) - 1;
}

struct session *session_lock_entry(const struct config_entry *entry)
{
	struct session *session = &sessions[entry->slot];

	pthread_mutex_lock(&session->lock);
	if (session->is_live && session->serial == entry->serial)
		return session;
	pthread_mutex_unlock(&session->lock);
	return NULL;
}

void session_unlock(struct session *session)
{
	pthread_mutex_unlock(&session->lock);
}

void session_publish(void)
{
	struct config *config;
	uint64_t bytes = sizeof(struct config) + SESSION_MAX * sizeof(struct config_entry);
	uint32_t id = 0;
	uint32_t traced = 0;

	if (config_used + bytes <= config_space.bytes) {
		config = (void *)((char *)config_space.base + config_used);
		for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
			struct session *session = &sessions[slot];

			if (!session->is_live || !session->is_active)
				continue;
			config->entries[config->count++] = (struct config_entry){
				.slot = slot,
				.serial = session->serial,
				.epoch = session->store.epoch,
				.wants_source = session->wants_source,
				.trace = (uint16_t)session->trace,
				.wants_memory = (session->flags & PROTON_SESSION_MEMORY) != 0,
			};
			config->wants_source |= session->wants_source;
			traced |= session->trace ? CONFIG_TRACED : 0;
		}
		if (config->count) {
			id = (uint32_t)(config_used / CONFIG_UNIT) | traced;
			config_used += sizeof(*config) + config->count * sizeof(config->entries[0]);
		}
	}
	/* release: the config's content before its id; launches load it with acquire */
	atomic_store_explicit(&session_config, id, memory_order_release);
}

static struct session *find_live(int id)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		if (sessions[slot].is_live && sessions[slot].id == id)
			return &sessions[slot];
	return NULL;
}

/* A live session that `id` names, or any live one for PROTON_ALL_SESSIONS. */
static bool is_meant(const struct session *session, int id)
{
	return session->is_live && (id == PROTON_ALL_SESSIONS || session->id == id);
}

static int no_such_session(int id, struct proton_error *err)
{
	return err_set(err, PROTON_E_RANGE, "Session has not been initialized: %d", id);
}

struct session *session_get(int id, struct proton_error *err)
{
	struct session *session;

	pthread_mutex_lock(&registry_lock);
	session = find_live(id);
	if (!session) {
		pthread_mutex_unlock(&registry_lock);
		no_such_session(id, err);
	}
	return session;
}

void session_put(struct session *session)
{
	(void)session;
	pthread_mutex_unlock(&registry_lock);
}

bool proton_is_profiling(void)
{
	return session_any_live();
}

/* ------------------------------------------------------------------ start */

/* The options with their defaults, checked. Strings are borrowed from the caller. */
struct settings {
	const char *name;
	const char *mode;
	const char *format;
	const struct backend *backend;
	bool wants_source;
	bool is_trace;
	uint32_t flags;
};

static int check_options(const struct proton_session_options *given, struct settings *out,
			 struct proton_error *err)
{
	static const struct proton_session_options defaults = {.size = sizeof(defaults)};
	const struct proton_session_options *o = given ? given : &defaults;
	struct output_format format;
	int status;

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
	if (o->context && strcasecmp(o->context, "python") == 0)
		out->wants_source = true;
	else if (o->context && strcasecmp(o->context, "shadow") != 0)
		return err_set(err, PROTON_E_INVALID, "Unknown context source: %s", o->context);
	if (o->data && strcasecmp(o->data, "trace") == 0)
		out->is_trace = true;
	else if (o->data && strcasecmp(o->data, "tree") != 0)
		return err_set(err, PROTON_E_INVALID, "Unknown data: %s", o->data);
	status = output_format_find(out->format, out->is_trace, &format, err);
	if (status != PROTON_OK)
		return status;
	out->backend = backend_select(o->backend, err);
	if (!out->backend)
		return PROTON_E_INVALID;
	return out->backend->check_mode(out->mode, err);
}

static void finalize_at_exit(void)
{
	struct proton_error err;

	/* exit() in a forked child must not end its parent's sessions; fork.c has emptied the
	 * registry. */
	if (session_any_live() && proton_finalize_owned(NULL, &err) != PROTON_OK)
		note("%s", err.text);
}

static int prepare_process(struct proton_error *err)
{
	static bool prepared;
	int status = frames_init(err);

	if (status != PROTON_OK || prepared)
		return status;
	status = region_reserve(&config_space, CONFIG_RESERVE, 1 << 20, 1, err);
	if (status != PROTON_OK)
		return status;
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		pthread_mutex_init(&sessions[slot].lock, NULL);
	fork_guard_install();
	atexit(finalize_at_exit);
	prepared = true;
	return PROTON_OK;
}

static uint32_t live_count(void)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		count += sessions[slot].is_live;
	return count;
}

static void free_texts(struct session *session)
{
	free(session->path);
	free(session->mode);
	free(session->format);
	session->path = NULL;
	session->mode = NULL;
	session->format = NULL;
}

/* A number among traces that is free; 0 when all are taken. The registry is locked. */
static uint32_t free_trace(void)
{
	bool is_taken[TRACE_MAX + 1] = {false};

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		if (slots[slot] != SLOT_FREE)
			is_taken[sessions[slot].trace] = true;
	for (uint32_t trace = 1; trace <= TRACE_MAX; trace++)
		if (!is_taken[trace])
			return trace;
	return 0;
}

/* Opens the session's files and fills in what every profile begins with. */
static int open_store(struct session *session, struct proton_error *err)
{
	int status = session->mode && session->format
			     ? output_open(session, err)
			     : err_set(err, PROTON_E_NOMEM, "out of memory");

	if (status != PROTON_OK)
		return status;
	describe_session(session);
	if (session->trace)
		status = store_trace_init(&session->store, err);
	if (status != PROTON_OK)
		store_fini(&session->store, true);
	return status;
}

/* A free slot with the session's files open. The registry is locked. Takes `path` over. */
static int open_session(const struct settings *settings, char *path, struct session **out,
			struct proton_error *err)
{
	struct session *session;
	uint32_t trace = settings->is_trace ? free_trace() : 0;
	uint32_t slot = 0;
	int status;

	while (slot < SESSION_MAX && slots[slot] != SLOT_FREE)
		slot++;
	if (slot == SESSION_MAX) {
		free(path);
		return err_set(err, PROTON_E_STATE, "cannot start: %u sessions are live already",
			       SESSION_MAX);
	}
	if (settings->is_trace && !trace) {
		free(path);
		return err_set(err, PROTON_E_STATE,
			       "cannot start: %u sessions with data \"trace\" are live already",
			       TRACE_MAX);
	}
	session = &sessions[slot];
	session->path = path;
	session->mode = strdup(settings->mode);
	session->format = strdup(settings->format);
	session->backend = settings->backend;
	session->wants_source = settings->wants_source;
	session->trace = trace;
	session->flags = settings->flags;
	status = open_store(session, err);
	if (status != PROTON_OK) {
		free_texts(session);
		return status;
	}
	slots[slot] = SLOT_STARTING;
	*out = session;
	return PROTON_OK;
}

static void go_live(struct session *session)
{
	slots[session - sessions] = SLOT_LIVE;
	session->id = next_id++;
	session->start_ns = clock_monotonic_ns();
	pthread_mutex_lock(&session->lock);
	session->serial = next_serial++;
	session->store.trace_serial = session->trace ? session->serial : 0;
	session->is_active = true;
	session->is_live = true;
	atomic_store_explicit(&program_ends, false, memory_order_relaxed);
	pthread_mutex_unlock(&session->lock);
	if (live_count() == 1) {
		thread_set_main();
		atomic_fetch_add_explicit(&session_generation, 1, memory_order_release);
	}
	session_publish();
}

/* The registry is locked on entry and return, but not while the backend starts. */
static int add_session(const struct settings *settings, char *path, int *id_out,
		       struct proton_error *err)
{
	struct session *session = NULL;
	int status = open_session(settings, path, &session, err);

	if (status != PROTON_OK)
		return status;
	pthread_mutex_unlock(&registry_lock);
	status = backend_use_take(settings->backend, settings->mode,
				  settings->flags & PROTON_SESSION_MEMORY, err);
	pthread_mutex_lock(&registry_lock);
	if (status == PROTON_OK) {
		describe_backend(session);
		go_live(session);
		*id_out = session->id;
		if (!(session->flags & PROTON_SESSION_QUIET))
			nvtx_environment_say();
	} else {
		store_fini(&session->store, true);
		free_texts(session);
		slots[session - sessions] = SLOT_FREE;
	}
	pthread_cond_broadcast(&slot_changed);
	return status;
}

/* The session that writes `path`, once it has started; NULL if there is none. */
static struct session *find_path(const char *path)
{
	uint32_t slot = 0;

	while (slot < SESSION_MAX) {
		struct session *session = &sessions[slot];
		bool is_same = session->path && strcmp(session->path, path) == 0;

		if (is_same && slots[slot] == SLOT_LIVE)
			return session;
		if (is_same && slots[slot] == SLOT_STARTING) {
			pthread_cond_wait(&slot_changed, &registry_lock);
			slot = 0; /* anything may have changed */
		} else {
			slot++;
		}
	}
	return NULL;
}

static int start_owned(int *session_out, struct proton_error *err)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		if (sessions[slot].is_live) {
			*session_out = sessions[slot].id;
			return PROTON_OK;
		}
	}
	return err_set(err, PROTON_E_STATE,
		       "the session belongs to the proton command and has ended");
}

int proton_start(const struct proton_session_options *options, int *session_out,
		 struct proton_error *err)
{
	struct settings settings = {0};
	struct session *session;
	char *path = NULL;
	int status;
	int id = 0;

	if (backend_use_is_moving_here())
		return err_set(err, PROTON_E_STATE,
			       "a session cannot be started while the thread starts another");
	pthread_mutex_lock(&registry_lock);
	if (atomic_load_explicit(&sessions_owned, memory_order_relaxed)) {
		status = start_owned(&id, err);
		goto out;
	}
	status = check_options(options, &settings, err);
	if (status == PROTON_OK)
		status = prepare_process(err);
	if (status == PROTON_OK)
		status = output_path(settings.name, &path, err);
	if (status != PROTON_OK)
		goto out;
	session = path ? find_path(path) : NULL;
	if (session) {
		session->is_active = true;
		session_publish();
		id = session->id;
		free(path);
		goto out;
	}
	status = add_session(&settings, path, &id, err);
out:
	pthread_mutex_unlock(&registry_lock);
	if (status == PROTON_OK && session_out)
		*session_out = id;
	return status;
}

/* ------------------------------------------------------------------ activate, deactivate */

static int set_active(int id, bool active, struct proton_error *err)
{
	int status = PROTON_OK;

	pthread_mutex_lock(&registry_lock);
	if (id != PROTON_ALL_SESSIONS && !find_live(id))
		status = no_such_session(id, err);
	for (uint32_t slot = 0; status == PROTON_OK && slot < SESSION_MAX; slot++)
		if (is_meant(&sessions[slot], id))
			sessions[slot].is_active = active;
	if (status == PROTON_OK)
		session_publish();
	pthread_mutex_unlock(&registry_lock);
	return status;
}

/* Waits for the backends of these sessions; no lock is held while a vendor's library works. */
static int flush_backends(int id, struct proton_error *err)
{
	const struct backend *backend;
	int status = PROTON_OK;

	for (size_t i = 0; (backend = backend_at(i)); i++) {
		bool is_used = false;
		int result;

		pthread_mutex_lock(&registry_lock);
		for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
			is_used |= is_meant(&sessions[slot], id) &&
				   sessions[slot].backend == backend;
		pthread_mutex_unlock(&registry_lock);
		result = is_used ? backend_use_flush(backend, err) : PROTON_OK;
		if (result != PROTON_OK)
			status = result;
	}
	return status;
}

/* Everything before the current phase has been recorded. */
static void complete_phases(int id)
{
	pthread_mutex_lock(&registry_lock);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &sessions[slot];

		if (!is_meant(session, id))
			continue;
		pthread_mutex_lock(&session->lock);
		store_phases_complete(&session->store);
		store_align(&session->store);
		pthread_mutex_unlock(&session->lock);
	}
	pthread_mutex_unlock(&registry_lock);
}

int proton_activate(int id, struct proton_error *err)
{
	return set_active(id, true, err);
}

int proton_deactivate(int id, bool flush, struct proton_error *err)
{
	int status = set_active(id, false, err);

	if (status != PROTON_OK || !flush)
		return status;
	status = flush_backends(id, err);
	if (status == PROTON_OK)
		complete_phases(id);
	return status;
}

/* ------------------------------------------------------------------ finalize */

/* Takes a session out of the registry, so that nothing is recorded into it any more. */
static struct session *retire(int id)
{
	struct session *session;

	pthread_mutex_lock(&registry_lock);
	session = find_live(id);
	if (session) {
		pthread_mutex_lock(&session->lock);
		session->is_live = false;
		session->is_active = false;
		pthread_mutex_unlock(&session->lock);
		slots[session - sessions] = SLOT_ENDING;
		session_publish();
		if (live_count() == 0)
			atomic_fetch_add_explicit(&session_generation, 1, memory_order_release);
	}
	pthread_mutex_unlock(&registry_lock);
	if (session && session->trace)
		trace_close(session->trace - 1);
	if (session) {
		describe_backend(session); /* what recording has cost */
		backend_use_release(session->backend, session->flags & PROTON_SESSION_MEMORY);
	}
	return session;
}

/* Kernels that a session saw launched, if not one of them has a record; else 0. */
static uint64_t launches_in_vain(struct session *session)
{
	if (store_counter(&session->store, COUNTER_KERNELS))
		return 0;
	return store_counter(&session->store, COUNTER_LOST_MISSING) +
	       store_counter(&session->store, COUNTER_LOST_DROPPED);
}

/* The profile is written, but without what it was made for. */
static int error_in_vain(uint64_t launches, struct proton_error *err)
{
	return err_set(
		err, PROTON_E_IO,
		"%" PRIu64 " kernels were launched, but there is no record of any: the driver "
		"may not let this user profile (NVreg_RestrictProfilingToAdminUsers), another "
		"profiler may hold the GPU (nsys, ncu, torch.profiler, DCGM), or the GPU "
		"reported an error",
		launches);
}

/* *in_vain grows by launches_in_vain(). */
static int finalize_one(int id, const char *format_name, uint64_t *in_vain,
			struct proton_error *err)
{
	struct output_format format = {.kind = OUTPUT_EXPORT};
	struct proton_error ignored;
	struct session *session;
	/* Of every session: what other backends have measured goes into this one as well. */
	int flushed = flush_backends(-1, &ignored);
	int status;

	session = retire(id);
	if (!session)
		return PROTON_OK;
	if (flushed != PROTON_OK)
		note("%s", ignored.text);
	*in_vain += launches_in_vain(session);
	store_align(&session->store);
	/* Both names were checked before: this cannot fail. */
	output_format_find(format_name && *format_name ? format_name : session->format,
			   session->trace != 0, &format, err);
	status = output_finish(session, &format, err);
	pthread_mutex_lock(&registry_lock);
	free_texts(session);
	slots[session - sessions] = SLOT_FREE;
	pthread_mutex_unlock(&registry_lock);
	return status;
}

static int finalize(int id, const char *format_name, uint64_t *in_vain, struct proton_error *err)
{
	struct output_format format;
	int ids[SESSION_MAX];
	size_t count = 0;
	int status = output_format_find(format_name, true, &format, err);

	if (status != PROTON_OK)
		return status;
	pthread_mutex_lock(&registry_lock);
	for (uint32_t slot = 0; slot < SESSION_MAX && status == PROTON_OK; slot++) {
		if (!is_meant(&sessions[slot], id))
			continue;
		ids[count++] = sessions[slot].id;
		status = output_format_find(format_name, sessions[slot].trace != 0, &format, err);
	}
	pthread_mutex_unlock(&registry_lock);
	if (status != PROTON_OK)
		return status;
	/* All are ended even if one cannot be written; the first error is the one reported. */
	for (size_t i = 0; i < count; i++) {
		int result = finalize_one(ids[i], format_name, in_vain,
					  status == PROTON_OK ? err : NULL);

		if (status == PROTON_OK)
			status = result;
	}
	return status;
}

int proton_finalize(int id, const char *format, struct proton_error *err)
{
	struct proton_error why;
	uint64_t in_vain = 0;
	int status;

	if (proton_sessions_are_owned())
		return PROTON_OK;
	status = finalize(id, format, &in_vain, err);
	/* The program goes on: it gets its file, and the user this line. */
	if (in_vain) {
		error_in_vain(in_vain, &why);
		note("%s", why.text);
	}
	return status;
}

bool record_program_ends(void)
{
	return atomic_load_explicit(&program_ends, memory_order_relaxed);
}

int proton_finalize_owned(const char *format, struct proton_error *err)
{
	uint64_t in_vain = 0;
	int status;

	atomic_store_explicit(&program_ends, true, memory_order_relaxed);
	status = finalize(PROTON_ALL_SESSIONS, format, &in_vain, err);

	if (status == PROTON_OK && in_vain)
		return error_in_vain(in_vain, err);
	return status == PROTON_OK ? driver_failure(err) : status;
}

void proton_own_sessions(void)
{
	atomic_store_explicit(&sessions_owned, true, memory_order_relaxed);
}

bool proton_sessions_are_owned(void)
{
	return atomic_load_explicit(&sessions_owned, memory_order_relaxed);
}

bool session_all_quiet(void)
{
	bool quiet = true;

	pthread_mutex_lock(&registry_lock);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		if (sessions[slot].is_live && !(sessions[slot].flags & PROTON_SESSION_QUIET))
			quiet = false;
	pthread_mutex_unlock(&registry_lock);
	return quiet;
}

static bool is_writing(void)
{
	bool found = false;

	pthread_mutex_lock(&registry_lock);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		found = found || slots[slot] == SLOT_ENDING;
	pthread_mutex_unlock(&registry_lock);
	return found;
}

void session_wait_written(void)
{
	/* Rare enough (a signal comes while the process ends) for polling to be the simple way. */
	while (is_writing())
		usleep(1000);
}

const char *proton_session_backend(int id)
{
	struct session *session = session_get(id, NULL);
	const char *name = session ? session->backend->name : NULL;

	if (session)
		session_put(session);
	return name;
}

void record_lost(enum record_loss cause, uint64_t count)
{
	static const enum counter counters[] = {
		[RECORD_LOST_UNMATCHED] = COUNTER_LOST_UNMATCHED,
		[RECORD_LOST_DROPPED] = COUNTER_LOST_DROPPED,
		[RECORD_LOST_VALUE] = COUNTER_LOST_VALUE,
		[RECORD_LOST_NO_TIME] = COUNTER_LOST_NO_TIME,
		[RECORD_LOST_TIME] = COUNTER_LOST_TIME,
		[RECORD_LOST_MEMORY] = COUNTER_LOST_MEMORY,
		[RECORD_LOST_MISSING] = COUNTER_LOST_MISSING,
	};

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		pthread_mutex_lock(&sessions[slot].lock);
		if (sessions[slot].is_live &&
		    (cause != RECORD_LOST_MEMORY || sessions[slot].flags & PROTON_SESSION_MEMORY))
			store_count(&sessions[slot].store, counters[cause], count);
		pthread_mutex_unlock(&sessions[slot].lock);
	}
}

void record_intra_count(enum intra_counter counter, uint64_t count)
{
	static const enum counter counters[] = {
		[INTRA_UNSAMPLED] = COUNTER_UNSAMPLED,
		[INTRA_DROPPED] = COUNTER_LOST_INSIDE,
		[INTRA_BROKEN] = COUNTER_LOST_PAIR,
		[INTRA_DAMAGED] = COUNTER_LOST_DAMAGED,
	};

	for (uint32_t slot = 0; count && slot < SESSION_MAX; slot++) {
		pthread_mutex_lock(&sessions[slot].lock);
		if (sessions[slot].is_live)
			store_count(&sessions[slot].store, counters[counter], count);
		pthread_mutex_unlock(&sessions[slot].lock);
	}
}

/* ------------------------------------------------------------------ fork */

void session_fork_prepare(void)
{
	pthread_mutex_lock(&registry_lock);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		pthread_mutex_lock(&sessions[slot].lock);
}

void session_fork_parent(void)
{
	for (uint32_t slot = SESSION_MAX; slot-- > 0;)
		pthread_mutex_unlock(&sessions[slot].lock);
	pthread_mutex_unlock(&registry_lock);
}

void session_fork_child(void)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &sessions[slot];

		pthread_mutex_init(&session->lock, NULL);
		if (slots[slot] != SLOT_FREE) {
			store_fini(&session->store, false);
			free_texts(session);
		}
		session->is_live = false;
		session->is_active = false;
		slots[slot] = SLOT_FREE;
	}
	atomic_store(&sessions_owned, false);
	atomic_store(&session_config, 0);
	if (session_any_live())
		atomic_fetch_add(&session_generation, 1);
	pthread_cond_init(&slot_changed, NULL);
	pthread_mutex_init(&registry_lock, NULL);
}
