/* Control from outside: commands of `proton ctl`, one at a time on their own thread. */
#include <limits.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/guest.h"
#include "base/message.h"
#include "base/mutex.h"
#include "format/control_request.h"
#include "format/rank.h"
#include "format/target.h"
#include "record/control/listener.h"
#include "record/nvtx/nvtx.h"
#include "record/session/session_parts.h"
#include "record/sets/session.h"
#include "record/thread/thread.h"

#define END_WAIT_S 5
#define NS_PER_S 1000000000u
#define TIME_MAX_S 1e9

/* Options of sessions for which a command has none; NULL: not given. */
static char *defaults[CONTROL_OPTION_COUNT];
static uint32_t default_flags;
static uint32_t main_ordinal;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the above and `control` */
static struct control *control;                          /* NULL: this process does not listen */
static _Atomic(const struct proton_starter *) starter;
static _Atomic int started = -1; /* the session that a command started */

void proton_starter_set(const struct proton_starter *functions)
{
	atomic_store_explicit(&starter, functions, memory_order_release);
}

/* ------------------------------------------------------------------ commands */

static bool is_started_live(void)
{
	return started >= 0 && proton_session_backend(started);
}

/* The ids of live sessions; returns their number. */
static int list_sessions(int ids[SESSION_MAX])
{
	int count = 0;

	MUTEX_HOLD(&registry.lock);
	for (struct session *at = NULL; (at = registry_next(at, PROTON_ALL_SESSIONS));)
		ids[count++] = at->id;
	return count;
}

/* Names of children have their process id: NAME.PID */
static bool has_own_pid(const char *name)
{
	const char *last = strrchr(name, '.');
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	return last && last > name && strcmp(last + 1, pid) == 0;
}

/* NAME.PID, unless ranks have their own names; malloc'd. */
static char *make_own_name(const char *name)
{
	enum rank_names names = RANK_NAMES_AUTO;
	struct rank_identity identity;
	char *own;

	rank_read(&identity);
	rank_names_read(&names, NULL);
	if ((rank_is_of_many(&identity) && names != RANK_NAMES_OFF) || has_own_pid(name))
		return strdup(name);
	return asprintf(&own, "%s.%d", name, (int)getpid()) < 0 ? NULL : own;
}

static int start_session(char *const *options, int *session_out, struct proton_error *err)
{
	const struct proton_starter *functions =
		atomic_load_explicit(&starter, memory_order_acquire);
	struct proton_session_options session = {
		.size = sizeof(session),
		.name = options[CONTROL_NAME],
		.context = options[CONTROL_CONTEXT],
		.data = options[CONTROL_DATA],
		.backend = options[CONTROL_BACKEND],
		.mode = options[CONTROL_MODE],
		.format = options[CONTROL_FORMAT],
		.flags = default_flags | PROTON_SESSION_RANKS |
			 (options[CONTROL_MEMORY] ? PROTON_SESSION_MEMORY : 0),
	};

	if (session.name && target_is_standard_output(session.name))
		return err_set(err, PROTON_E_INVALID,
			       "standard output belongs to the program; give a name with -n");
	thread_start_for(main_ordinal);
	if (functions)
		return functions->start(&session, options[CONTROL_HOOK], session_out, err);
	if (options[CONTROL_HOOK])
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "hooks need Python code that has imported triton_proton; leave out "
			       "-k");
	return proton_start(&session, session_out, err);
}

static void free_options(char **options)
{
	for (int i = 0; i < CONTROL_OPTION_COUNT; i++)
		free(options[i]);
}

/* Copies `options`, and `others` if an option is not given. False: a copy has no memory. */
static bool copy_options(char **copies, const char *const *options, char *const *others)
{
	bool has_all = true;

	for (int i = 0; i < CONTROL_OPTION_COUNT; i++) {
		const char *value = options[i] ? options[i] : others[i];

		copies[i] = value ? strdup(value) : NULL;
		has_all &= !value || copies[i];
	}
	return has_all;
}

/* Copies of the request's options, and of the defaults for others; free them even on failure. */
static int choose_options(const struct control_request *request, char **options,
			  struct proton_error *err)
{
	pthread_mutex_lock(&lock);
	bool has_all = copy_options(options, request->options, defaults);
	pthread_mutex_unlock(&lock);
	if (has_all && options[CONTROL_OWN_PID]) {
		char *name = make_own_name(options[CONTROL_NAME]);
		free(options[CONTROL_NAME]);
		options[CONTROL_NAME] = name;
		has_all = name;
	}
	return has_all ? PROTON_OK : err_nomem(err);
}

static int run_start(struct control *shared, const struct control_request *request,
		     struct out *reply, struct proton_error *err)
{
	char *options[CONTROL_OPTION_COUNT];
	char path[PATH_MAX] = "";
	int before[SESSION_MAX];
	int count = list_sessions(before);
	int session;

	if (proton_sessions_are_owned())
		return err_set(err, PROTON_E_STATE,
			       "the proton command records this program already; start it with "
			       "proton --wait to control it");
	if (is_started_live()) {
		proton_session_path(started, path, sizeof(path));
		return err_set(err, PROTON_E_STATE, "already recording to %s; stop it first", path);
	}
	int status = choose_options(request, options, err);
	if (status == PROTON_OK)
		status = start_session(options, &session, err);
	free_options(options);
	if (status != PROTON_OK)
		return status;
	proton_session_path(session, path, sizeof(path));
	for (int i = 0; i < count; i++)
		if (session == before[i])
			return err_set(
				err, PROTON_E_STATE,
				"the program itself records to %s; give another name with -n",
				path);
	started = session;
	out_printf(reply, "recording to %s", path);
	return PROTON_OK;
}

static int run_stop(struct control *shared, const struct control_request *request,
		    struct out *reply, struct proton_error *err)
{
	const struct proton_starter *functions =
		atomic_load_explicit(&starter, memory_order_acquire);
	const char *name = request->options[CONTROL_FORMAT];
	char path[PATH_MAX + 32], summary[1024];

	if (!is_started_live())
		return err_set(err, PROTON_E_STATE,
			       "nothing is recorded that proton ctl has started; its command "
			       "start begins a session");
	struct session *session = registry_get(started, err);
	if (!session)
		return PROTON_E_RANGE;
	const struct export_format *format = output_format_find(
		name && *name ? name : session->format, session->trace != 0, err);
	if (format)
		output_path(session, format, path, sizeof(path));
	pthread_mutex_unlock(&registry.lock);
	if (!format)
		return PROTON_E_INVALID;
	TRY(functions ? functions->finalize(started, name, err)
		      : proton_finalize(started, name, err));
	started = -1;
	proton_last_summary(summary, sizeof(summary));
	/* The first line is for scripts. */
	if (format != &output_none)
		out_printf(reply, "%s\n", path);
	out_text(reply, summary);
	return PROTON_OK;
}

static int run_snapshot(struct control *shared, const struct control_request *request,
			struct out *reply, struct proton_error *err)
{
	const char *name = request->options[CONTROL_NAME];
	int ids[SESSION_MAX] = {started};
	int count = is_started_live() ? 1 : list_sessions(ids);
	char *own_name = NULL;
	int status = PROTON_OK;

	if (!count)
		return err_set(err, PROTON_E_STATE,
			       "nothing is recorded; the command start begins a session");
	if (name && count > 1)
		return err_set(err, PROTON_E_INVALID,
			       "the program records %d sessions; leave out -n", count);
	if (name && request->options[CONTROL_OWN_PID])
		name = own_name = make_own_name(name);
	for (int i = 0; i < count && status == PROTON_OK; i++) {
		char path[PATH_MAX];

		status = proton_snapshot(ids[i], name, request->options[CONTROL_FORMAT], path,
					 sizeof(path), err);
		if (status == PROTON_OK)
			out_printf(reply, "%s%s", i ? "\n" : "", path);
	}
	free(own_name);
	return status;
}

static void describe_session(int id, struct out *reply)
{
	struct proton_counter counters[COUNTER_COUNT + 1];
	int count = proton_statistics(id, counters, COUNTER_COUNT + 1, NULL);
	struct session *session = count < 0 ? NULL : registry_get(id, NULL);

	if (!session)
		return; /* it has just ended */
	out_printf(reply, "%s to %s for %.1f s, backend %s",
		   session->is_active ? "recording" : "paused, records",
		   session->path ? session->path : "standard output",
		   (double)(clock_monotonic_ns() - session->start_ns) / 1e9,
		   session->backend->name);
	pthread_mutex_unlock(&registry.lock);
	for (int i = 0; i < count; i++)
		if (counters[i].value)
			out_printf(reply, "; %s: %llu", counters[i].name,
				   (unsigned long long)counters[i].value);
}

static int run_status(struct control *shared, const struct control_request *request,
		      struct out *reply, struct proton_error *err)
{
	int ids[SESSION_MAX];
	int count = list_sessions(ids);

	pthread_mutex_lock(&shared->lock);
	uint64_t refused = shared->refused;
	pthread_mutex_unlock(&shared->lock);
	if (!count)
		out_text(reply, "waiting: nothing is recorded");
	for (int i = 0; i < count; i++) {
		out_text(reply, i ? "\n" : "");
		describe_session(ids[i], reply);
	}
	if (refused)
		out_printf(reply,
			   "\n%llu connections to the control socket were refused or sent "
			   "nothing",
			   (unsigned long long)refused);
	return PROTON_OK;
}

/* The listener sends the reply, and both threads end. */
static int run_leave(struct control *shared, const struct control_request *request,
		     struct out *reply, struct proton_error *err)
{
	if (is_started_live())
		return err_set(err, PROTON_E_STATE,
			       "a session that proton ctl has started is "
			       "live; stop it first");
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&shared->lock);
	bool is_due = shared->start_ns || shared->stop_ns;
	bool is_own = !is_due && control == shared; /* else the program ends it at the same time */
	control = is_own ? NULL : control;
	shared->is_left |= is_own;
	shared->must_end |= is_own;
	pthread_mutex_unlock(&shared->lock);
	pthread_mutex_unlock(&lock);
	if (is_due)
		return err_set(err, PROTON_E_STATE, "a session is about to begin or end");
	out_text(reply, "listens no more");
	return PROTON_OK;
}

static void run_job(struct control *shared)
{
	static int (*const run[])(struct control * shared, const struct control_request *request,
				  struct out *reply, struct proton_error *err) = {
		[CONTROL_START] = run_start,       [CONTROL_STOP] = run_stop,
		[CONTROL_SNAPSHOT] = run_snapshot, [CONTROL_LEAVE] = run_leave,
		[CONTROL_STATUS] = run_status,
	};
	struct control_request request;
	struct proton_error err = {0};
	AT_END(out_fini) struct out reply;
	int status;

	out_init(&reply, -1);
	out_byte(&reply, CONTROL_OK);
	status = control_request_read(shared->request, shared->request_length, &request, &err);
	if (status == PROTON_OK)
		status = run[request.command](shared, &request, &reply, &err);
	if (status == PROTON_OK && out_finish(&reply, &err) == PROTON_OK) {
		shared->reply_length = reply.length < sizeof(shared->reply) ? reply.length
									    : sizeof(shared->reply);
		memcpy(shared->reply, reply.bytes, shared->reply_length);
	} else {
		shared->reply_length = (size_t)snprintf(shared->reply, sizeof(shared->reply),
							"%c%s", CONTROL_FAILED, err.text);
	}
}

static void run_timed(bool is_start)
{
	const struct control_request request = {
		.command = is_start ? CONTROL_START : CONTROL_STOP,
	};
	struct proton_error err;
	AT_END(out_fini) struct out reply;
	char summary[1024];

	out_init(&reply, -1);
	if ((is_start ? run_start : run_stop)(NULL, &request, &reply, &err) != PROTON_OK) {
		message("%s", err.text);
	} else if (!is_start && !(default_flags & PROTON_SESSION_QUIET)) {
		proton_last_summary(summary, sizeof(summary));
		message("%s", summary);
	}
}

/* Does what is due; else waits until something is, or changes. The lock is held. */
static void await_time(struct control *shared)
{
	uint64_t now = clock_monotonic_ns();
	bool is_start = shared->start_ns;
	uint64_t due = is_start ? shared->start_ns : shared->stop_ns;
	struct timespec until = {
		.tv_sec = (time_t)(due / NS_PER_S),
		.tv_nsec = (long)(due % NS_PER_S),
	};

	if (!due) {
		pthread_cond_wait(&shared->changed, &shared->lock);
	} else if (due > now) {
		pthread_cond_timedwait(&shared->changed, &shared->lock, &until);
	} else {
		pthread_mutex_unlock(&shared->lock);
		run_timed(is_start);
		pthread_mutex_lock(&shared->lock);
		shared->stop_ns = is_start && shared->length_ns ? now + shared->length_ns : 0;
		shared->start_ns = 0;
		pthread_cond_broadcast(&shared->changed);
	}
}

static void *run_commands(void *data)
{
	struct control *shared = data;

	pthread_mutex_lock(&shared->lock);
	while (!shared->must_end) {
		if (shared->state != CONTROL_JOB_ASKED) {
			await_time(shared);
			continue;
		}
		pthread_mutex_unlock(&shared->lock);
		run_job(shared);
		pthread_mutex_lock(&shared->lock);
		shared->state = CONTROL_JOB_DONE;
	}
	pthread_mutex_unlock(&shared->lock);
	listener_end_thread(shared);
	return NULL;
}

/* ------------------------------------------------------------------ listening */

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
	pthread_mutex_unlock(&lock);
}

/* A forked child has neither the threads nor the socket; the copy of `control` stays unused. */
static void forget_parent(void)
{
	pthread_mutex_init(&lock, NULL);
	control = NULL;
	started = -1;
}

static int keep_defaults(const struct proton_session_options *given, struct proton_error *err)
{
	static char *const none[CONTROL_OPTION_COUNT];
	const char *values[CONTROL_OPTION_COUNT] = {0};
	const char *name = given && given->name ? given->name : "proton";
	char *copies[CONTROL_OPTION_COUNT];
	AUTO_FREE char *stem = NULL;
	bool has_all;

	/* Now, because the program may change its directory. */
	TRY(target_is_standard_output(name) ? PROTON_OK : target_stem(name, &stem, err));
	values[CONTROL_NAME] = stem ? stem : name;
	if (given) {
		values[CONTROL_BACKEND] = given->backend;
		values[CONTROL_CONTEXT] = given->context;
		values[CONTROL_MODE] = given->mode;
		values[CONTROL_DATA] = given->data;
		values[CONTROL_FORMAT] = given->format;
	}
	has_all = copy_options(copies, values, none);
	free_options(has_all ? defaults : copies);
	if (!has_all)
		return err_nomem(err);
	memcpy(defaults, copies, sizeof(defaults));
	default_flags = given ? given->flags : 0;
	main_ordinal = thread_read_ordinal();
	return PROTON_OK;
}

/* The last part of the output's name, as a part of a file name. */
static void make_label(const char *name, char *label, size_t capacity)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-.";
	const char *last = name ? strrchr(name, '/') : NULL;

	if (last)
		name = last + 1;
	snprintf(label, capacity, "%s", name && *name && strcmp(name, "-") != 0 ? name : "proton");
	if (has_own_pid(label))
		*strrchr(label, '.') = '\0';
	for (char *at = label; *at; at++)
		if (!strchr(plain, *at))
			*at = '_';
}

/* Starts both threads and waits until the socket is there. The lock is held. */
static int begin_listening(struct control *shared, struct proton_error *err)
{
	pthread_t thread;
	MUTEX_HOLD(&shared->lock);
	int failed = own_thread_start(&thread, run_commands, shared);

	if (!failed) {
		pthread_detach(thread);
		shared->threads = 1;
		failed = own_thread_start(&thread, listener_run, shared);
	}
	if (!failed) {
		pthread_detach(thread);
		shared->threads++;
		while (!shared->is_listening && !shared->has_failed)
			pthread_cond_wait(&shared->changed, &shared->lock);
	}
	if (failed)
		err_errno(&shared->why, failed, "cannot start the thread of the control socket");
	failed = failed || shared->has_failed;
	if (failed) {
		err_set(err, shared->why.status, "%s", shared->why.text);
		shared->must_end = true;
		pthread_cond_broadcast(&shared->changed);
		while (shared->threads)
			pthread_cond_wait(&shared->changed, &shared->lock);
	}
	return failed ? err->status : PROTON_OK;
}

static void end_at_exit(void)
{
	struct proton_error err;

	proton_listen_end();
	/* A command may have started it after the other exit functions. */
	if (is_started_live())
		proton_finalize(started, NULL, &err);
}

static struct control *make_control(const char *name)
{
	struct control *shared = calloc(1, sizeof(*shared));
	pthread_condattr_t attributes;

	if (!shared)
		return NULL;
	pthread_mutex_init(&shared->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&shared->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	make_label(name, shared->label, sizeof(shared->label));
	return shared;
}

int proton_listen(const struct proton_session_options *given, struct proton_error *err)
{
	static bool is_registered; /* in children too */
	struct proton_error why;

	if (getauxval(AT_SECURE))
		return err_set(err, PROTON_E_PERMISSION,
			       "a process with elevated privileges takes no commands");
	MUTEX_HOLD(&lock);
	int status = keep_defaults(given, err);
	if (status == PROTON_OK && !control) {
		struct control *shared = make_control(given ? given->name : NULL);
		status = shared ? begin_listening(shared, &why) : err_nomem(&why);
		if (status == PROTON_OK) {
			control = shared;
			proton_prepare();
			if (!is_registered) {
				pthread_atfork(take_lock, give_lock, forget_parent);
				atexit(end_at_exit);
			}
			is_registered = true;
		} else {
			err_set(err, status, "%s", why.text);
			free(shared);
		}
	}
	return status;
}

/* Has the session started or stopped then, and waits for it if wanted. False: nothing listens. */
static bool set_due(bool is_start, uint64_t due_ns, uint64_t length_ns, bool must_wait)
{
	pthread_mutex_lock(&lock);
	struct control *shared = control;
	if (shared)
		pthread_mutex_lock(&shared->lock);
	pthread_mutex_unlock(&lock);
	if (!shared)
		return false;
	uint64_t *due = is_start ? &shared->start_ns : &shared->stop_ns;
	*due = due_ns;
	shared->length_ns = length_ns;
	pthread_cond_broadcast(&shared->changed);
	while (must_wait && *due && !shared->must_end)
		pthread_cond_wait(&shared->changed, &shared->lock);
	pthread_mutex_unlock(&shared->lock);
	return true;
}

int proton_listen_timed(double after_s, double length_s, struct proton_error *err)
{
	/* NaN fails all comparisons. */
	if (!(after_s >= 0 && after_s <= TIME_MAX_S && length_s >= 0 && length_s <= TIME_MAX_S))
		return err_set(err, PROTON_E_INVALID, "times must be 0 to 1e9 seconds");
	if (!set_due(true, clock_monotonic_ns() + (uint64_t)(after_s * NS_PER_S),
		     (uint64_t)(length_s * NS_PER_S), after_s == 0))
		return err_set(err, PROTON_E_STATE, "the process does not listen");
	return PROTON_OK;
}

static void change_at_range(bool is_begin)
{
	const struct proton_starter *functions =
		atomic_load_explicit(&starter, memory_order_acquire);
	void *held = functions ? functions->let_go() : NULL;

	set_due(is_begin, clock_monotonic_ns(), 0, true);
	if (held)
		functions->take_back(held);
}

int proton_listen_range(const char *name, struct proton_error *err)
{
	if (!name || !*name)
		return err_set(err, PROTON_E_INVALID, "the name of the range is empty");
	nvtx_attach();
	return scopes_await_range(name, change_at_range) ? PROTON_OK : err_nomem(err);
}

bool proton_is_listening(void)
{
	MUTEX_HOLD(&lock);
	return control != NULL;
}

void proton_listen_end(void)
{
	struct timespec until;
	int result = 0;

	pthread_mutex_lock(&lock);
	struct control *shared = control;
	control = NULL;
	pthread_mutex_unlock(&lock);
	if (!shared)
		return;
	if (proton_range_is_awaited() && !(default_flags & PROTON_SESSION_QUIET))
		message("the scope of --range was never entered: nothing was recorded");
	pthread_mutex_lock(&shared->lock);
	shared->must_end = true;
	pthread_cond_broadcast(&shared->changed);
	pthread_mutex_unlock(&shared->lock);
	listener_wake(shared);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_WAIT_S;
	pthread_mutex_lock(&shared->lock);
	while (shared->threads && result == 0)
		result = pthread_cond_timedwait(&shared->changed, &shared->lock, &until);
	pthread_mutex_unlock(&shared->lock);
	unlink(shared->path); /* a listener that still waits for something has not */
	if (result == 0)
		free(shared);
}
