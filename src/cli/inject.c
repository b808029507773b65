/*
 * Injection library libproton_inject.so: loads the recorder into a program, in one of two ways.
 *
 * - The dynamic linker loads it (LD_PRELOAD, `proton -- program`): before main() it removes the
 *   options
 *   from the environment and starts a session.
 * - The NVIDIA driver loads it (CUDA_INJECTION64_PATH) when a process initializes CUDA: the program
 *   itself if it ignores LD_PRELOAD, and its children, each with its own file.
 *
 * The first of the two starts the session; a process has only one. At exit() it ends the session
 * and prints the output path. CUPTI is not used before the driver's call, if one will come, because
 * the program may fork before. If the program calls proton_start() itself, it gets this session; if
 * it did so first, nothing is started.
 */
#include <fcntl.h>
#include <libproton/proton.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/message.h"
#include "base/mutex.h"
#include "cli/handover.h"
#include "cli/inject.h"
#include "format/rank.h"
#include "format/working_file.h"

#define EXIT_NOT_RUN 2 /* as in proton_main.c */
#define EXIT_NO_PROFILE 1
#define STATUS_TIMEOUT 124 /* of timeout */
#define STATUS_SIGNAL 129
#define COUNTER_MAX 32
#define END_STEPS_MAX 10000

static pid_t owner; /* a forked child runs the exit functions too, but has no session */
static bool is_child;
static char own_part[64];    /* part of a child's output name: its process id */
static bool is_gathering;    /* children report to this process */
static _Atomic bool is_used; /* the program uses libproton or CUDA: it is not a shell or env */
static struct inject_options given; /* options of `proton`, if loaded by LD_PRELOAD */
static sigset_t first_mask;
static bool is_quiet;
static int session;
static _Atomic bool is_finished;
static _Atomic bool is_ended;
static bool is_lost; /* the profile could not be written */

/* No kernel, no scope: for example a child that only queried its devices. */
static bool is_empty(void)
{
	struct proton_counter counters[COUNTER_MAX];

	proton_deactivate(session, true, NULL); /* waits for work in flight */
	int count = proton_statistics(session, counters, COUNTER_MAX, NULL);
	for (int i = 0; i < count && i < COUNTER_MAX; i++)
		if (counters[i].value)
			return false;
	return count >= 0;
}

static void print_summary(const char *summary, const char *more)
{
	static const char viewer[] = "view it with: proton-viewer";
	const char *at = given.viewer ? strstr(summary, viewer) : NULL;
	char text[2048];

	if (is_quiet || !*summary)
		return;
	if (at)
		snprintf(text, sizeof(text), "%.*sview it with: %s%s%s", (int)(at - summary),
			 summary, given.viewer, at + strlen(viewer), more);
	else
		snprintf(text, sizeof(text), "%s%s", summary, more);
	message("%s", text);
}

/* Prints one line for this process (NULL: nothing recorded) and the processes it started. */
static void print_family(const char *summary, const struct children *children)
{
	const char *hint = strstr(children->summary, "; view it with: ");
	const char *base = strrchr(given.children ? given.children : "", '/');
	const char *names = ""; /* of ranks */
	char text[2048] = "";

	if (!summary && children->count == 1) {
		print_summary(children->summary, "");
		return;
	}
	base = base ? base + 1 : given.children;
	if (strchr(children->first, '/'))
		names = ".ranks/*/rank*";
	if (summary && children->count)
		snprintf(text, sizeof(text), "; recorded %zu child process%s too, as %s%s.PID",
			 children->count, children->count == 1 ? "" : "es", base, names);
	if (summary) {
		print_summary(summary, text);
		return;
	}
	snprintf(text, sizeof(text), "recorded %zu processes, each as %s%s.PID%s", children->count,
		 base, names, hint ? hint : "");
	print_summary(text, "");
}

static bool write_session(bool is_last)
{
	/* The library's own exit function may have run first: it has reported failures. */
	bool is_live = proton_is_profiling();
	bool is_idle = (is_child || is_gathering || !is_last) && is_empty();
	struct children children = {0};
	const char *format = NULL;
	struct proton_error err;
	char summary[1024];

	if (is_gathering && is_last)
		children_gather(&children);
	if (is_idle && (is_child || !is_last || children.count))
		format = "none";
	if (proton_finalize_owned(format, &err) != PROTON_OK) {
		if (is_live)
			message("%s", err.text);
		return false;
	}
	if (format && children.count == 1 && given.name && strcmp(given.name, "-") != 0)
		children_take_name(given.children, &children);
	proton_last_summary(summary, sizeof(summary));
	if (is_child && !format && given.is_gathered &&
	    children_report(given.target, own_part, summary))
		return true;
	if (!format || children.count)
		print_family(format ? NULL : summary, &children);
	return true;
}

/* False after a message if the profile could not be written. */
static bool end_session(bool is_last)
{
	if (is_child)
		children_end_begins();
	bool ok = write_session(is_last);
	if (is_child)
		children_leave();
	return ok;
}

/* A wrapper may exit before its program, if a signal ended both, or a wrapper between them. */
static bool is_by_signal(int status)
{
	return status > 128 || status == STATUS_TIMEOUT;
}

/* Runs once, for the first exit function. */
static void end_once(int status)
{
	if (getpid() != owner || atomic_exchange(&is_finished, true))
		return;
	if (is_gathering && !is_used)
		children_wait(is_by_signal(status & 0xff));
	inject_signals_release();
	is_lost = !end_session(true);
	atomic_store(&is_ended, true);
}

static void finish_sessions(int status, void *unused)
{
	end_once(status);
	if (getpid() == owner && is_lost && status == 0) {
		/* The program succeeded, but its profile is lost: report it in the exit status. */
		fflush(NULL);
		_exit(EXIT_NO_PROFILE);
	}
}

/* A signal ends the program: on the thread of the recorder. */
static void end_by_signal(void)
{
	inject_signals_own_thread();
	end_once(STATUS_SIGNAL);
	/* The program may be exiting already; stop waiting for it after a while. */
	for (int i = 0; i < END_STEPS_MAX && atomic_load(&is_finished) && !is_ended; i++)
		usleep(1000);
	inject_signals_release();
}

/*
 * Functions registered before main() run last, after the destructors of libraries. This one runs
 * before libproton's, which would write an empty profile for a program that only started others.
 */
__attribute__((destructor)) static void unloaded(void)
{
	end_once(0);
}

/* The two numbers of HANDOVER_WAIT. False: there are no times. */
static bool read_times(const char *wait, double *after_s, double *length_s)
{
	char *end, *last;

	*after_s = strtod(wait, &end);
	if (end == wait || *end != ' ')
		return false;
	*length_s = strtod(end, &last);
	return last != end;
}

/* Sessions are started and ended by commands or times. */
static int listen_for_commands(const char *wait, const struct proton_session_options *options,
			       struct proton_error *err)
{
	bool was_listening = proton_is_listening();
	int status = proton_listen(options, err);
	double after, length;

	if (status == PROTON_OK && !was_listening && *wait == '@')
		return proton_listen_range(wait + 1, err);
	if (status == PROTON_OK && !was_listening && read_times(wait, &after, &length))
		status = proton_listen_timed(after, length, err);
	return status;
}

static int begin_session(const struct inject_options *from, const char *name, uint32_t flags,
			 struct proton_error *err)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = name,
		.backend = from->backend,
		.mode = from->mode,
		.data = from->data,
		.format = from->format,
	};
	static bool is_registered; /* after inject_return() */
	sigset_t previous;

	is_quiet = from->quiet[0] == '1';
	/* Python call stacks need the package, which starts its own session. */
	if (from->context && strncmp(from->context, "python", 6) != 0)
		options.context = from->context;
	options.flags = flags | (is_quiet ? PROTON_SESSION_QUIET : 0u) |
			(from->memory ? PROTON_SESSION_MEMORY : 0u);
	if (from->wait)
		return listen_for_commands(from->wait, &options, err);
	/* From here on the handler takes signals, or the working file would remain. */
	inject_signals_hold(&previous);
	int status = proton_start(&options, &session, err);
	if (status == PROTON_OK) {
		owner = getpid();
		atomic_store(&is_finished, false);
		atomic_store(&is_ended, false);
		proton_own_sessions();
		inject_signals_watch(end_by_signal);
		if (!is_registered)
			on_exit(finish_sessions, NULL);
		is_registered = true;
	}
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
	return status;
}

static void begin_in_child(const struct inject_options *options)
{
	char *base = strdup(options->children);
	struct proton_error err = {0};
	char *name = NULL;
	bool is_ranked;

	/* Never the name of an earlier process with the same id: containers may share a volume. */
	if (base && rank_resolve(&base, true, &is_ranked, &err) == PROTON_OK &&
	    (!is_ranked || rank_make_directories(base, &err) == PROTON_OK))
		name = working_file_own_name(base);
	free(base);
	if (err.status)
		message("%s", err.text);
	if (!name)
		return;
	is_child = true;
	is_gathering = false; /* the process that this one was forked from may be the first */
	if (begin_session(options, name, is_ranked ? PROTON_SESSION_RANKS : 0, &err) != PROTON_OK)
		message("%s", err.text);
	snprintf(own_part, sizeof(own_part), "%s", name + strlen(options->children) + 1);
	free(name);
	if (given.is_gathered && !given.wait)
		children_enter(given.target);
}

static void begin_in_target(void)
{
	struct proton_error err;

	is_gathering = given.is_gathered && !given.wait;
	if (is_gathering)
		children_invite();
	if (begin_session(&given, given.name, PROTON_SESSION_RANKS, &err) != PROTON_OK) {
		message("%s", err.text);
		_exit(EXIT_NOT_RUN);
	}
}

static void begin_on_use(void)
{
	is_used = true;
	if (owner == getpid() || proton_sessions_are_owned())
		return;
	if (given.wait && given.target == getpid())
		begin_in_target();
	else
		begin_in_child(&given);
}

__attribute__((constructor)) static void preloaded(void)
{
	/* Not by `proton`: without the preload by the driver, without the options by hand. */
	if (!inject_environment_leave_preload() || !inject_environment_read(&given))
		return;
	inject_exec_keep();
	if (!given.is_followed)
		handover_clear();
	if (inject_environment_is_for_driver())
		proton_await_driver();
	sigprocmask(SIG_BLOCK, NULL, &first_mask);
	is_used = inject_environment_is_needed();
	if (given.target == getpid() && (is_used || !given.wait))
		begin_in_target();
	else if (is_used)
		begin_in_child(&given);
	if (!is_used)
		proton_await_use(begin_on_use);
}

/* ------------------------------------------------------------------ another program */

bool inject_is_owner(void)
{
	return owner && getpid() == owner;
}

bool inject_is_ended_by_signal(void)
{
	if (!inject_is_owner() || atomic_load(&is_finished))
		return false;
	if (is_child)
		children_end_begins();
	return !is_used;
}

bool inject_leave(void)
{
	if (!inject_is_owner() || atomic_exchange(&is_finished, true))
		return false;
	bool is_idle = is_empty();
	if (end_session(false) && !is_idle)
		inject_exec_detach(); /* the name belongs to another process */
	atomic_store(&is_ended, true);
	inject_signals_leave();
	return true;
}

void inject_return(void)
{
	struct proton_error err;

	inject_signals_return();
	if (is_child)
		begin_in_child(&given);
	else if (begin_session(&given, given.name, PROTON_SESSION_RANKS, &err) != PROTON_OK)
		message("%s", err.text);
}

void inject_wrapper_closes_error(void)
{
	static bool has_copy;

	if (is_used || !inject_is_owner() || has_copy)
		return;
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd >= 0)
		message_set_fd(fd);
	has_copy = fd >= 0;
}

/* In a handler the program may be anywhere, including malloc(). */
static bool is_in_signal_handler(void)
{
	sigset_t mask;

	if (pthread_sigmask(SIG_BLOCK, NULL, &mask) != 0)
		return true;
	for (int number = 1; number < SIGRTMIN; number++)
		if (sigismember(&mask, number) == 1 && sigismember(&first_mask, number) == 0)
			return true;
	return false;
}

void inject_wrapper_exits(int status)
{
	if (!is_used && inject_is_owner() && !is_in_signal_handler())
		finish_sessions(status, NULL);
	if (!is_used && inject_is_owner())
		inject_signals_settle(); /* the status is that of a pending signal */
}

/* ------------------------------------------------------------------ the driver */

static void injected(void)
{
	static struct inject_options options; /* its texts stay until the process ends */
	struct proton_error err;

	is_used = true;
	if (proton_driver_initialises(&err) != PROTON_OK)
		message("%s", err.text); /* too late to refuse; reported again at exit */
	if (owner == getpid()) {
		/* Again: exit functions run in reverse order, and the flush needs the driver. */
		on_exit(finish_sessions, NULL);
		return;
	}
	/* A program that profiles itself, or that `proton` has entered through Python. */
	if (proton_is_profiling() || proton_sessions_are_owned())
		return;
	if (!inject_environment_read(&options))
		return;
	if (options.target != getpid()) {
		if (options.children)
			begin_in_child(&options);
	} else if (begin_session(&options, options.name, PROTON_SESSION_RANKS, &err) != PROTON_OK) {
		message("%s", err.text); /* too late to refuse */
	}
}

static void begin_with_driver(void)
{
	injected();
	if (!proton_is_profiling()) /* a later session may begin while threads call the driver */
		proton_prime_vendor();
}

int InitializeInjection(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	MUTEX_HOLD(&lock);
	begin_with_driver();
	return 1;
}
