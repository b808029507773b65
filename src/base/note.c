/* Warnings on standard error. */
#include "base/note.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/size_signal.h"

void note(const char *format, ...)
{
	char line[1024] = "proton: ";
	const size_t prefix = 8;
	int saved = errno;
	va_list args;
	size_t used;

	va_start(args, format);
	if (vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, args) < 0)
		line[prefix] = '\0';
	va_end(args);
	printable_message(line + prefix, sizeof(line) - prefix - 1);
	used = strlen(line);
	line[used++] = '\n';
	/* One write, so lines of several processes do not mix; if it fails, nothing can be done. */
	if (size_signal_write(STDERR_FILENO, line, used) < 0)
		errno = saved;
	errno = saved;
}
