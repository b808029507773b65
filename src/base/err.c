/* Error messages. Names in them are made printable here, for every caller that prints them. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

#undef err_set /* the macros for the analyzer, see err.h */
#undef err_errno

int err_set(struct proton_error *err, int status, const char *format, ...)
{
	if (err) {
		va_list args;

		va_start(args, format);
		err->status = status;
		vsnprintf(err->text, sizeof(err->text), format, args);
		va_end(args);
		printable_message(err->text, sizeof(err->text));
	}
	return status;
}

void err_wrap(struct proton_error *err, const char *format, ...)
{
	char text[sizeof(err->text)];
	va_list args;
	size_t used;
	int length;

	if (!err)
		return;
	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	used = length < 0 ? 0 : (size_t)length;
	if (used >= sizeof(text))
		used = sizeof(text) - 1;
	if (used < sizeof(text) - 3) {
		size_t rest = strnlen(err->text, sizeof(text) - used - 3);

		memcpy(text + used, ": ", 2);
		memcpy(text + used + 2, err->text, rest);
		text[used + 2 + rest] = '\0';
	}
	printable_message(text, sizeof(text));
	memcpy(err->text, text, sizeof(text));
}

static int status_of_errno(int errnum)
{
	switch (errnum) {
	case ENOMEM:
		return PROTON_E_NOMEM;
	case ENOSPC:
	case EDQUOT:
		return PROTON_E_NOSPACE;
	case EACCES:
	case EPERM:
	case EROFS:
		return PROTON_E_PERMISSION;
	default:
		return PROTON_E_IO;
	}
}

int err_errno(struct proton_error *err, int errnum, const char *format, ...)
{
	int status = status_of_errno(errnum);

	if (err) {
		char reason[128];
		va_list args;
		size_t used;
		int length;

		va_start(args, format);
		err->status = status;
		length = vsnprintf(err->text, sizeof(err->text), format, args);
		va_end(args);
		used = length < 0 ? 0 : (size_t)length;
		if (used < sizeof(err->text))
			snprintf(err->text + used, sizeof(err->text) - used, ": %s",
				 errnum == ENOMEM ? "out of memory"
						  : strerror_r(errnum, reason, sizeof(reason)));
		printable_message(err->text, sizeof(err->text));
	}
	return status;
}

const char *proton_status_text(int status)
{
	switch (status) {
#define X(name, value, text)                                                                       \
	case value:                                                                                \
		return text;
#include <libproton/status.def>
#undef X
	default:
		return "unknown status";
	}
}
