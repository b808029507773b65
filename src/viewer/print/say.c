/* Messages on standard error, as one clean line each. */
#include "viewer/print/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "viewer/print/printable_text.h"

/* Used if text_clean() cannot allocate memory: replaces non-ASCII bytes by '?'. */
static void say_plainly(char *text)
{
	for (char *at = text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	dprintf(STDERR_FILENO, "proton-viewer: %s\n", text);
}

void say(const char *format, ...)
{
	char text[1024]; /* longer messages are truncated */
	va_list arguments;
	struct out out;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	out_init(&out, STDERR_FILENO);
	out_text(&out, "proton-viewer: ");
	text_clean(&out, text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
	out_byte(&out, '\n');
	out_finish(&out, NULL); /* an error on standard error cannot be reported */
	if (out.errnum == ENOMEM)
		say_plainly(text);
	out_fini(&out);
}
