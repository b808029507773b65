/* Sentences. See say.h. */
#include "viewer/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "viewer/text.h"

void say(const char *format, ...)
{
	char text[1024]; /* longer ones are names that nobody would read to the end */
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
	out_finish(&out, NULL); /* nobody is left to be told if this fails */
	out_fini(&out);
}
