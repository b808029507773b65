/* Messages for the user on standard error. */
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/guest.h"
#include "base/printable.h"

#define MESSAGE_BYTES_MAX 2048

static const char *command = "proton";
static int error_fd = STDERR_FILENO;
static message_sink_fn *sink;
static void *sink_context;

/* If standard error is closed, its number may belong to a file of the program later. */
__attribute__((constructor)) static void check_standard_error(void)
{
	if (fcntl(STDERR_FILENO, F_GETFD) < 0)
		error_fd = -1;
}

void message_set_name(const char *name)
{
	command = name;
}

const char *message_name(void)
{
	return command;
}

void message_set_fd(int fd)
{
	error_fd = fd;
}

void message_set_sink(message_sink_fn *function, void *context)
{
	sink = function;
	sink_context = context;
}

void message(const char *format, ...)
{
	char text[MESSAGE_BYTES_MAX], line[MESSAGE_BYTES_MAX];
	int saved = errno;
	va_list args;

	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		*text = '\0';
	va_end(args);
	size_t used = sink ? 0 : (size_t)snprintf(line, sizeof(line), "%.64s: ", command);
	used += printable_copy(line + used, sizeof(line) - used - 1, text, strlen(text));
	if (sink) {
		sink(sink_context, line);
	} else {
		line[used++] = '\n';
		size_signal_write(error_fd, line, used);
	}
	errno = saved;
}
