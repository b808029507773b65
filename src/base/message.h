/* Messages for the user: lines on standard error that begin with the name of the command. */
#pragma once

#include <stdatomic.h>

/*
 * Prints one line, "proton: ...", with one write(): lines of several processes do not mix.
 * Control characters are escaped, and a message of more than 2 kB is truncated. Allocates nothing
 * and keeps errno. Failures are ignored. Nothing is printed if standard error was closed when the
 * process loaded Proton.
 */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints it only the first time in this process. */
#define message_once(...)                                                                          \
	do {                                                                                       \
		static atomic_flag was_printed = ATOMIC_FLAG_INIT;                                 \
                                                                                                   \
		if (!atomic_flag_test_and_set(&was_printed))                                       \
			message(__VA_ARGS__);                                                      \
	} while (0)

/* Replaces "proton". `name` is not copied. */
void message_set_name(const char *name);
const char *message_name(void);

/* Takes the lines, without name and newline, for commands as libraries. NULL: standard error. */
typedef void message_sink_fn(void *context, const char *line);
void message_set_sink(message_sink_fn *sink, void *context);

/* A copy of standard error, for messages after the program may have closed it. */
void message_set_fd(int fd);
