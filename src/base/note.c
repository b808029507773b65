/* Notes to the user. See note.h. */
#include "base/note.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/size_signal.h"

void note(const char *format, ...)
{
	char line[1024] = "proton: ";
	const size_t prefix = 8;
	int saved = errno;
	va_list args;
	int length;
	size_t used;

	va_start(args, format);
	length = vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, args);
	va_end(args);
	used = prefix + (length < 0 ? 0 : (size_t)length);
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	/* One write, so that lines of several processes do not mix; nothing to do if it fails. */
	if (size_signal_write(STDERR_FILENO, line, used) < 0)
		errno = saved;
	errno = saved;
}
