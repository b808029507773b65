/* Error messages. Names in them are made printable here, for every caller that prints them. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/printable.h"

#undef err_set /* the macros for the analyzer, see err.h */
#undef err_errno

/* Sets the text, with ": `tail`" after it unless that is NULL. */
__attribute__((format(printf, 3, 0))) static void set_text(struct proton_error *err,
							   const char *tail, const char *format,
							   va_list args)
{
	char text[sizeof(err->text)];
	int length = vsnprintf(text, sizeof(text), format, args);

	if (tail && length >= 0 && (size_t)length < sizeof(text))
		snprintf(text + length, sizeof(text) - (size_t)length, ": %s", tail);
	printable_message(text, sizeof(text));
	memcpy(err->text, text, sizeof(text));
}

int err_set(struct proton_error *err, int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (err) {
		err->status = status;
		set_text(err, NULL, format, args);
	}
	va_end(args);
	return status;
}

void err_wrap(struct proton_error *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (err)
		set_text(err, err->text, format, args);
	va_end(args);
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
	char reason[128];
	va_list args;

	va_start(args, format);
	if (err) {
		err->status = status_of_errno(errnum);
		set_text(err,
			 errnum == ENOMEM ? "out of memory"
					  : strerror_r(errnum, reason, sizeof(reason)),
			 format, args);
	}
	va_end(args);
	return status_of_errno(errnum);
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
