/*
 * libproton_inject.so: how the recorder gets into a program, on two ways.
 *
 * Loaded by the dynamic linker (LD_PRELOAD, `proton -- program`), in front of everything else:
 * before main() it takes the options out of the environment and starts a session. Loaded by the
 * NVIDIA driver (CUDA_INJECTION64_PATH) when a process initialises CUDA: the program itself where
 * LD_PRELOAD does not reach it, and its children, each with a file of its own. Whichever comes
 * first starts the session; there is one in a process. At exit() it ends the session and says
 * where the profile is. CUPTI is left alone until the driver calls, where it will: the program may
 * fork before. A program that calls proton_start() itself gets this session, or, if it
 * did so first, is left alone.
 */
#include <libproton/proton.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/size_signal.h"
#include "cli/handover.h"
#include "cli/inject.h"
#include "cli/inject_environment.h"
#include "format/working_file.h"

#define EXIT_NOT_RUN 2 /* as in main.c */
#define EXIT_NO_PROFILE 1
#define COUNTER_MAX 32

static pid_t owner; /* a forked child runs the exit functions too, but owns no session */
static bool is_child;
static bool is_quiet;
static int session;
static _Atomic bool is_finished;

/* One line in one write; what cannot be written is not worth more. */
static void say(const char *text)
{
	char line[2048] = "proton: ";
	size_t length = strlen(line);

	length += printable_copy(line + length, sizeof(line) - length - 1, text, strlen(text));
	line[length++] = '\n';
	if (size_signal_write(STDERR_FILENO, line, length) < 0)
		return;
}

/* No kernel, no scope: a child that only looked at its devices. */
static bool is_empty(void)
{
	struct proton_counter counters[COUNTER_MAX];
	int count;

	proton_deactivate(session, true, NULL); /* waits for what is under way */
	count = proton_statistics(session, counters, COUNTER_MAX, NULL);
	for (int i = 0; i < count && i < COUNTER_MAX; i++)
		if (counters[i].value)
			return false;
	return count >= 0;
}

static void finish(int status, void *unused)
{
	/* The library's own exit function may have been first: it has reported what failed. */
	bool is_live = proton_is_profiling();
	const char *format = NULL;
	struct proton_error err;
	char summary[1024];

	(void)unused;
	/* Registered twice where both ways lead here: see InitializeInjection(). */
	if (getpid() != owner || atomic_exchange(&is_finished, true))
		return;
	if (is_child && is_empty())
		format = "none";
	if (proton_finalize_owned(format, &err) != PROTON_OK) {
		if (is_live)
			say(err.text);
		if (status == 0) {
			/* The program did well, its profile is lost: that is ours to report. */
			fflush(NULL);
			_exit(EXIT_NO_PROFILE);
		}
		return;
	}
	if (is_quiet || format)
		return;
	proton_last_summary(summary, sizeof(summary));
	if (summary[0] != '\0')
		say(summary);
}

/* What proton_start() says. */
static int begin(const struct inject_options *given, const char *name, struct proton_error *err)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = name,
		.backend = given->backend,
		.mode = given->mode,
		.data = given->data,
		.format = given->format,
	};
	int status;

	is_quiet = given->quiet[0] == '1';
	/* Python's call paths need the package, which starts its own session. */
	if (given->context && strcmp(given->context, "python") != 0)
		options.context = given->context;
	options.flags = (is_quiet ? PROTON_SESSION_QUIET : 0u) |
			(given->memory ? PROTON_SESSION_MEMORY : 0u);
	status = proton_start(&options, &session, err);
	if (status != PROTON_OK)
		return status;
	owner = getpid();
	atomic_store(&is_finished, false);
	proton_own_sessions();
	proton_finalize_on_signals(NULL);
	on_exit(finish, NULL);
	return PROTON_OK;
}

__attribute__((constructor)) static void preloaded(void)
{
	struct inject_options options;
	struct proton_error err;

	/* Without the first it came with the driver, without the second by hand: nobody asked. */
	if (!inject_environment_leave_preload() || !inject_environment_read(&options))
		return;
	if (!options.is_followed)
		inject_environment_clear();
	if (inject_environment_is_for_driver())
		proton_await_driver();
	if (begin(&options, options.name, &err) != PROTON_OK) {
		say(err.text);
		_exit(EXIT_NOT_RUN);
	}
	inject_options_fini(&options);
}

static void begin_in_child(const struct inject_options *options)
{
	struct proton_error err;
	/* Never that of an earlier process with the same id: containers may share a volume. */
	char *name = working_file_own_name(options->children);

	if (!name)
		return;
	is_child = true;
	if (begin(options, name, &err) != PROTON_OK)
		say(err.text);
	free(name);
}

/* The driver has loaded this library and says so. */
static void injected(void)
{
	struct inject_options options;
	struct proton_error err;

	if (proton_driver_initialises(&err) != PROTON_OK)
		say(err.text); /* too late to refuse, and said again at the end */
	if (owner == getpid()) {
		/*
		 * Again, because exit functions run last in, first out: the driver has just
		 * registered its own, and what is to be flushed needs it.
		 */
		on_exit(finish, NULL);
		return;
	}
	/* A program that profiles itself, or that `proton` has entered through Python. */
	if (proton_is_profiling() || proton_sessions_are_owned())
		return;
	/* With another user's rights nothing may be written on the word of the environment. */
	if (getauxval(AT_SECURE) || !inject_environment_read(&options))
		return;
	if (options.target != getpid()) {
		if (options.children)
			begin_in_child(&options);
	} else if (begin(&options, options.name, &err) != PROTON_OK) {
		say(err.text); /* too late to refuse */
	}
	inject_options_fini(&options);
}

int InitializeInjection(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	injected();
	pthread_mutex_unlock(&lock);
	return 1;
}
