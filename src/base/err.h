/* Error messages: a function that fails fills one `struct proton_error` and returns its status. */
#pragma once

#include <libproton/status.h>

/* Sets `err` (NULL ok) and returns `status`. The message has no final period or newline. */
int err_set(struct proton_error *err, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "<format>: " before the message in `err` (NULL ok); its status does not change. */
void err_wrap(struct proton_error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* err_set() with ": <strerror(errnum)>" appended, or "out of memory", and the status that fits. */
int err_errno(struct proton_error *err, int errnum, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/* The analyzer checks one file at a time and has to know that these never return PROTON_OK. */
#define err_set(err, status, ...) ((err_set)(err, status, __VA_ARGS__), (status))
#define err_errno(err, errnum, ...) ((err_errno)(err, errnum, __VA_ARGS__), PROTON_E_IO)
#endif

/* Returns from the calling function with the status of `call` unless it is PROTON_OK. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		int try_status = (call);                                                           \
		if (try_status != PROTON_OK)                                                       \
			return try_status;                                                         \
	} while (0)

/* Sets `err` (NULL ok) to "out of memory" and returns PROTON_E_NOMEM. */
static inline int err_nomem(struct proton_error *err)
{
	return err_set(err, PROTON_E_NOMEM, "out of memory");
}
