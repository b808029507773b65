/*
 * libproton_inject.so: loaded by `proton -- program` into the program, in front of everything else.
 * Before main() it takes the options out of the environment, so that the program's children are
 * left alone, and starts a session; at exit() it ends the session and says where the profile is.
 * A program that calls proton_start() itself gets this session.
 */
#include <libproton/proton.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/handover.h"

#define EXIT_NOT_RUN 2 /* as in main.c */
#define EXIT_NO_PROFILE 1

static pid_t owner; /* a forked child runs the exit functions too, but owns no session */
static bool is_quiet;

/* One line in one write; what cannot be written is not worth more. */
static void say(const char *text)
{
	char line[2048];
	int length = snprintf(line, sizeof(line), "proton: %s\n", text);

	if (length >= (int)sizeof(line)) {
		length = (int)sizeof(line) - 1;
		line[length - 1] = '\n';
	}
	if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/*
 * The environment is edited in place and by hand: programs such as bash read the array that main()
 * was given, and have a getenv() and unsetenv() of their own that do not work yet.
 */
static char **find(const char *variable, size_t length)
{
	for (char **entry = environ; entry && *entry; entry++)
		if (strncmp(*entry, variable, length) == 0 && (*entry)[length] == '=')
			return entry;
	return NULL;
}

static void drop(char **entry)
{
	for (; *entry; entry++)
		entry[0] = entry[1];
}

/* The value of an option, malloc'd because the variable goes; NULL if it was not given. */
static char *take(const char *variable)
{
	size_t length = strlen(variable);
	char **entry = find(variable, length);
	char *copy = NULL;

	if (entry) {
		copy = strdup(*entry + length + 1);
		drop(entry);
	}
	return copy;
}

/* Gives `variable` the value it had, a tail of the one it has; NULL: it was not set. */
static void restore(const char *variable, const char *before)
{
	size_t length = strlen(variable);
	char **entry = find(variable, length);

	if (!entry)
		return;
	if (!before)
		drop(entry);
	else if (strlen(*entry + length + 1) >= strlen(before))
		memmove(*entry + length + 1, before, strlen(before) + 1);
}

static void finish(int status, void *unused)
{
	struct proton_error err;
	char summary[1024];

	(void)unused;
	if (getpid() != owner)
		return;
	if (proton_finalize_owned(NULL, &err) != PROTON_OK) {
		say(err.text);
		if (status == 0) {
			/* The program did well, its profile is lost: that is ours to report. */
			fflush(NULL);
			_exit(EXIT_NO_PROFILE);
		}
		return;
	}
	if (is_quiet)
		return;
	proton_last_summary(summary, sizeof(summary));
	if (summary[0] != '\0')
		say(summary);
}

__attribute__((constructor)) static void inject(void)
{
	struct proton_session_options options = {.size = sizeof(options)};
	struct proton_error err;
	char *quiet = take(HANDOVER_QUIET);
	char *before = take(HANDOVER_LD_PRELOAD);
	char *name = take(HANDOVER_NAME);
	char *backend = take(HANDOVER_BACKEND);
	char *context = take(HANDOVER_CONTEXT);
	char *mode = take(HANDOVER_MODE);
	char *data = take(HANDOVER_DATA);
	char *format = take(HANDOVER_FORMAT);
	int session;

	if (quiet) { /* else this library was preloaded by hand: nobody asked for a profile */
		restore("LD_PRELOAD", before);
		is_quiet = quiet[0] == '1';
		owner = getpid();
		options.name = name;
		options.backend = backend;
		options.context = context;
		options.mode = mode;
		options.data = data;
		options.format = format;
		options.flags = is_quiet ? PROTON_SESSION_QUIET : 0;
		if (proton_start(&options, &session, &err) != PROTON_OK) {
			say(err.text);
			_exit(EXIT_NOT_RUN);
		}
		proton_own_sessions();
		proton_finalize_on_signals(NULL);
		on_exit(finish, NULL);
	}
	free(quiet);
	free(before);
	free(name);
	free(backend);
	free(context);
	free(mode);
	free(data);
	free(format);
}
